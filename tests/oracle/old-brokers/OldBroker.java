import java.io.File;
import java.net.InetSocketAddress;
import java.util.*;
import kafka.server.KafkaConfig;
import kafka.server.KafkaServerStartable;
import org.apache.kafka.clients.producer.*;
import org.apache.zookeeper.server.NIOServerCnxnFactory;
import org.apache.zookeeper.server.ZooKeeperServer;

/** A broker of Kafka 0.9 or 0.10 with its ZooKeeper; real producers write one topic for each codec. */
public final class OldBroker {
    public static void main(String[] args) throws Exception {
        File dir = new File(args[0]);
        int port = Integer.parseInt(args[1]);
        String timestamps = args[2];
        ZooKeeperServer zk = new ZooKeeperServer(new File(dir, "zk"), new File(dir, "zk"), 2000);
        NIOServerCnxnFactory factory = new NIOServerCnxnFactory();
        factory.configure(new InetSocketAddress("127.0.0.1", port + 1), 100);
        factory.startup(zk);
        Properties p = new Properties();
        p.put("zookeeper.connect", "127.0.0.1:" + (port + 1));
        p.put("broker.id", "1");
        p.put("host.name", "127.0.0.1"); p.put("advertised.host.name", "127.0.0.1");
        p.put("port", "" + port); p.put("advertised.port", "" + port);
        p.put("log.dirs", new File(dir, "logs").getPath());
        p.put("num.partitions", "1"); p.put("auto.create.topics.enable", "true");
        p.put("offsets.topic.num.partitions", "1"); p.put("offsets.topic.replication.factor", "1");
        p.put("log.cleaner.enable", "true"); p.put("log.cleanup.policy", args[3]);
        p.put("log.cleaner.backoff.ms", "200"); p.put("log.cleaner.min.cleanable.ratio", "0.01");
        p.put("log.cleaner.dedupe.buffer.size", "10485760");
        p.put("log.cleaner.io.buffer.size", "524288");
        p.put("log.index.interval.bytes", "200"); p.put("log.segment.bytes", "1500");
        p.put("log.cleaner.delete.retention.ms", "86400000"); p.put("log.index.size.max.bytes", "4096");
        p.put("controlled.shutdown.enable", "false");
        if (!timestamps.equals("none")) p.put("log.message.timestamp.type", timestamps);
        KafkaServerStartable server = new KafkaServerStartable(new KafkaConfig(p));
        server.startup();
        for (String codec : new String[] {"none", "gzip", "snappy", "lz4"}) {
            String topic = codec;
            Properties c = new Properties();
            c.put("bootstrap.servers", "127.0.0.1:" + port);
            c.put("key.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
            c.put("value.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
            c.put("compression.type", codec); c.put("linger.ms", "100"); c.put("batch.size", "600");
            c.put("acks", "all");
            KafkaProducer<byte[], byte[]> producer = new KafkaProducer<byte[], byte[]>(c);
            Random random = new Random(codec.hashCode());
            for (int round = 0; round < 4; round++) {
                for (int n = 0; n < 60; n++) {
                    byte[] key = args[3].equals("delete") && random.nextInt(6) == 0 ? null : ("key-" + random.nextInt(25)).getBytes();
                    byte[] value = random.nextInt(8) == 0 ? null : ("value-" + round + "-" + n + "-" + codec).getBytes();
                    producer.send(new ProducerRecord<byte[], byte[]>(topic, 0, key, value));
                }
                producer.flush();
                Thread.sleep(700);
            }
            producer.close();
        }
        // keys that are null: a topic that is not compacted yet
        Thread.sleep(4000);
        server.shutdown(); server.awaitShutdown();
        factory.shutdown();
        System.out.println("done");
        System.exit(0);
    }
}
