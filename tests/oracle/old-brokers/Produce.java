import java.util.*;
import org.apache.kafka.clients.producer.*;

/**
 * Writes to topics with producers of each codec in turn.
 *
 * <p>Arguments: host:port, seed, rounds, codecs with commas between them, topics.
 */
public final class Produce {
    public static void main(String[] args) throws Exception {
        Random random = new Random(Long.parseLong(args[1]));
        int rounds = Integer.parseInt(args[2]);
        List<Producer<byte[], byte[]>> producers = new ArrayList<>();
        for (String codec : args[3].split(",")) {
            Properties p = new Properties();
            p.put("bootstrap.servers", args[0]);
            p.put("key.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
            p.put("value.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
            p.put("compression.type", codec);
            p.put("acks", "all");
            p.put("linger.ms", "50");
            p.put("batch.size", "400");
            p.put("retries", "10");
            p.put("max.in.flight.requests.per.connection", "1");
            producers.add(new KafkaProducer<byte[], byte[]>(p));
        }
        for (int round = 0; round < rounds; round++) {
            for (String topic : Arrays.asList(args).subList(4, args.length)) {
                Producer<byte[], byte[]> producer = producers.get((round + topic.length()) % producers.size());
                for (int n = 0; n < 12; n++) {
                    byte[] key = ("key-" + random.nextInt(15)).getBytes();
                    byte[] value = random.nextInt(8) == 0 ? null : ("value-" + args[1] + "-" + round + "-" + n).getBytes();
                    producer.send(new ProducerRecord<byte[], byte[]>(topic, 0, key, value));
                }
                producer.flush();
            }
        }
        for (Producer<byte[], byte[]> producer : producers) {
            producer.close();
        }
    }
}
