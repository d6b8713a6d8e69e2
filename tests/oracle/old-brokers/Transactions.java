import java.util.*;
import org.apache.kafka.clients.producer.*;

/**
 * Writes transactions of two producers, some of them aborted, to two topics.
 *
 * <p>Arguments: host:port, seed, count, ended or open (the last transaction), topics. For clients
 * from 0.11 on.
 */
public final class Transactions {
    public static void main(String[] args) throws Exception {
        Random random = new Random(Long.parseLong(args[1]));
        int count = Integer.parseInt(args[2]);
        List<KafkaProducer<byte[], byte[]>> producers = new ArrayList<>();
        for (String id : new String[] {"one", "two"}) {
            Properties p = new Properties();
            p.put("bootstrap.servers", args[0]);
            p.put("key.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
            p.put("value.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
            p.put("transactional.id", id);
            p.put("batch.size", "400");
            p.put("transaction.timeout.ms", "600000");
            KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(p);
            producer.initTransactions();
            producers.add(producer);
        }
        for (int n = 0; n < count; n++) {
            KafkaProducer<byte[], byte[]> producer = producers.get(n % 2);
            producer.beginTransaction();
            for (int each = 0; each < 6; each++) {
                String topic = args[4 + random.nextInt(args.length - 4)];
                byte[] key = ("key-" + random.nextInt(15)).getBytes();
                byte[] value = random.nextInt(8) == 0 ? null : ("value-" + args[1] + "-" + n + "-" + each).getBytes();
                producer.send(new ProducerRecord<>(topic, 0, key, value));
            }
            producer.flush();
            if (args[3].equals("open") && n == count - 1) {
                Runtime.getRuntime().halt(0);
            }
            if (n % 3 == 1) {
                producer.abortTransaction();
            } else {
                producer.commitTransaction();
            }
        }
        for (KafkaProducer<byte[], byte[]> producer : producers) {
            producer.close();
        }
    }
}
