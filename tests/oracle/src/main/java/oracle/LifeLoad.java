package oracle;

import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.concurrent.Future;

/**
 * The clients of {@link BrokerLifeCommand}. Two producers outlive the broker's first life: an idempotent one, of which
 * all records are superseded, and one in the middle of a transaction.
 */
final class LifeLoad implements AutoCloseable {
    static final List<String> TRANSACTIONAL_IDS = List.of("tx-0", "tx-1", "tx-2", "tx-open");
    static final List<String> GROUPS = List.of("group-0", "group-1", "group-2", "group-3", "group-tx");
    private static final String TOPIC = "users";
    private static final int KEYS = 40;
    private static final int ROUNDS = 24;
    private static final int OPEN_ROUND = 18;
    private static final long NEVER_COMMITTED = 999_999;
    private static final TopicPartition ZERO = new TopicPartition(TOPIC, 0);
    private static final TopicPartition ONE = new TopicPartition(TOPIC, 1);

    private final Broker broker;
    private final SplittableRandom random;
    private final List<KafkaProducer<byte[], byte[]>> outliving = new ArrayList<>();
    private KafkaProducer<byte[], byte[]> steady;
    private KafkaProducer<byte[], byte[]> open;
    private ConsumerGroupMetadata groupOfTransactions;

    LifeLoad(Broker broker, long seed) {
        this.broker = broker;
        this.random = new SplittableRandom(seed);
    }

    /** Makes the topics, the coordinators' own by their first use, all with small segments. */
    void topics() throws Exception {
        Map<String, String> small = Map.of("internal.segment.bytes", "2048", "index.interval.bytes", "512", "segment.index.bytes", "4096");
        Map<String, String> users = new HashMap<>(small);
        users.put("cleanup.policy", "compact");
        try (Admin admin = broker.admin()) {
            admin.createTopics(List.of(new NewTopic(TOPIC, 2, (short) 1).configs(users))).all().get();
            try (KafkaConsumer<byte[], byte[]> group = member("group-0")) {
                group.commitSync(Map.of(ZERO, new OffsetAndMetadata(0)));
            }
            try (KafkaProducer<byte[], byte[]> producer = transactional("tx-0", "none")) {
                producer.initTransactions();
            }
            Map<ConfigResource, Collection<AlterConfigOp>> changes = new HashMap<>();
            for (String internal : List.of("__consumer_offsets", "__transaction_state")) {
                changes.put(new ConfigResource(ConfigResource.Type.TOPIC, internal), small.entrySet().stream()
                        .map(e -> new AlterConfigOp(new ConfigEntry(e.getKey(), e.getValue()), AlterConfigOp.OpType.SET)).toList());
            }
            admin.incrementalAlterConfigs(changes).all().get();
            Thread.sleep(300);
        }
    }

    /** All the traffic of the first life; tells the time in the middle of it. */
    ObjectNode work() throws Exception {
        List<KafkaProducer<byte[], byte[]>> plain = List.of(idempotent("lz4"), idempotent("gzip"), idempotent("none"));
        List<KafkaProducer<byte[], byte[]>> transactional = List.of(
                transactional("tx-0", "zstd"), transactional("tx-1", "none"), transactional("tx-2", "lz4"));
        transactional.forEach(KafkaProducer::initTransactions);
        List<KafkaConsumer<byte[], byte[]>> groups = GROUPS.subList(0, 4).stream().map(this::member).toList();
        try (KafkaConsumer<byte[], byte[]> group = member("group-tx")) {
            groupOfTransactions = group.groupMetadata();
        }
        steady = outlives(idempotent("lz4"));
        open = outlives(transactional("tx-open", "gzip"));
        open.initTransactions();
        sendSteady("user-", 6);
        fallSilent(4);
        vanish(plain.get(0));
        long mid = 0;
        for (int round = 0; round < ROUNDS; round++) {
            if (round == ROUNDS / 2) {
                forget();
                Thread.sleep(50);
                mid = System.currentTimeMillis();
                Thread.sleep(50);
            }
            if (round == OPEN_ROUND) {
                open.beginTransaction();
                sendOpen("open-0", "open-1", "open-2");
            }
            for (KafkaProducer<byte[], byte[]> producer : plain) {
                for (int i = 0; i < 6; i++) {
                    producer.send(record("plain", random.nextInt(8) > 0));
                }
                producer.flush();
            }
            for (int i = 0; i < transactional.size(); i++) {
                transaction(transactional.get(i), round, (round + i) % 3 > 0);
            }
            for (int i = 0; i < groups.size(); i++) {
                groups.get(i).commitSync(offsets((long) round * (i + 2)));
            }
        }
        plain.forEach(KafkaProducer::close);
        transactional.forEach(KafkaProducer::close);
        groups.forEach(KafkaConsumer::close);
        return Json.object().put("midMs", mid);
    }

    /** A producer of which every record is superseded, and that is not heard of again. */
    private void fallSilent(int count) {
        try (KafkaProducer<byte[], byte[]> silent = idempotent("none")) {
            for (int i = 0; i < count; i++) {
                silent.send(new ProducerRecord<>(TOPIC, 0, bytes("user-" + i), bytes("silent")));
            }
        }
    }

    /** Keys that are deleted soon after they are written. */
    private void vanish(KafkaProducer<byte[], byte[]> producer) {
        for (boolean value : new boolean[] {true, false}) {
            for (int i = 0; i < 10; i++) {
                producer.send(new ProducerRecord<>(TOPIC, i % 2, bytes("gone-" + i), value ? bytes("plain soon gone") : null));
            }
            producer.flush();
        }
    }

    /** Groups that are deleted: their offsets get tombstones. */
    private void forget() throws Exception {
        List<String> ids = List.of("gone-0", "gone-1", "gone-2", "gone-3");
        for (String id : ids) {
            try (KafkaConsumer<byte[], byte[]> group = member(id)) {
                group.commitSync(offsets(7));
            }
        }
        try (Admin admin = broker.admin()) {
            admin.deleteConsumerGroups(ids).all().get();
        }
    }

    private void transaction(KafkaProducer<byte[], byte[]> producer, int round, boolean commits) {
        producer.beginTransaction();
        for (int i = 0; i < 1 + random.nextInt(4); i++) {
            producer.send(record(commits ? "commit" : "abort", true));
        }
        if (round % 2 == 0) {
            producer.sendOffsetsToTransaction(offsets(commits ? round * 7L + 1 : NEVER_COMMITTED), groupOfTransactions);
        }
        producer.flush();
        if (commits) {
            producer.commitTransaction();
        } else {
            producer.abortTransaction();
        }
    }

    /** Each group's first offset of each partition, as a poll gets it. */
    ObjectNode resumeGroups() {
        ObjectNode resumed = Json.object();
        for (String id : GROUPS) {
            ObjectNode first = resumed.putObject(id);
            try (KafkaConsumer<byte[], byte[]> consumer = Clients.consumer(broker.bootstrap(),
                    Map.of("group.id", id, "isolation.level", "read_committed", "auto.offset.reset", "none"))) {
                consumer.subscribe(List.of(TOPIC));
                long deadline = System.currentTimeMillis() + 20_000;
                while (first.size() < 2 && System.currentTimeMillis() < deadline) {
                    for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100))) {
                        String tp = record.topic() + "-" + record.partition();
                        if (!first.has(tp)) {
                            first.put(tp, record.offset());
                        }
                    }
                }
            }
        }
        return resumed;
    }

    /** The producers that outlived the broker go on, and a transactional id is taken up by a new producer. */
    void goOn() throws Exception {
        sendSteady("steady-", 3);
        sendOpen("open-3");
        open.commitTransaction();
        try (KafkaProducer<byte[], byte[]> producer = transactional("tx-1", "none")) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(TOPIC, 0, bytes("again-0"), bytes("abort again"))).get();
            producer.abortTransaction();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(TOPIC, 0, bytes("again-0"), bytes("commit again"))).get();
            producer.commitTransaction();
        }
    }

    private void sendSteady(String prefix, int count) throws Exception {
        List<Future<?>> sent = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            sent.add(steady.send(new ProducerRecord<>(TOPIC, 0, bytes(prefix + i), bytes("steady"))));
        }
        for (Future<?> one : sent) {
            one.get();
        }
    }

    private void sendOpen(String... keys) throws Exception {
        for (String key : keys) {
            open.send(new ProducerRecord<>(TOPIC, 1, bytes(key), bytes("open"))).get();
        }
    }

    private ProducerRecord<byte[], byte[]> record(String what, boolean value) {
        StringBuilder text = new StringBuilder(what);
        for (int i = random.nextInt(12); i >= 0; i--) {
            text.append(' ').append(Integer.toHexString(random.nextInt()));
        }
        int key = random.nextInt(KEYS);
        ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(TOPIC, key % 2, bytes("user-" + key / 2), value ? bytes(text.toString()) : null);
        if (random.nextInt(5) == 0) {
            record.headers().add("trace", bytes(Long.toHexString(random.nextLong())));
        }
        return record;
    }

    private static Map<TopicPartition, OffsetAndMetadata> offsets(long offset) {
        return Map.of(ZERO, new OffsetAndMetadata(offset), ONE, new OffsetAndMetadata(offset / 2));
    }

    private KafkaProducer<byte[], byte[]> idempotent(String codec) {
        return Clients.producer(broker.bootstrap(), Map.of("compression.type", codec, "linger.ms", "2", "batch.size", "1024"));
    }

    private KafkaProducer<byte[], byte[]> transactional(String id, String codec) {
        return Clients.producer(broker.bootstrap(), Map.of("transactional.id", id, "compression.type", codec, "linger.ms", "1",
                "transaction.timeout.ms", "600000"));
    }

    private KafkaProducer<byte[], byte[]> outlives(KafkaProducer<byte[], byte[]> producer) {
        outliving.add(producer);
        return producer;
    }

    private KafkaConsumer<byte[], byte[]> member(String group) {
        return Clients.consumer(broker.bootstrap(), Map.of("group.id", group));
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    @Override
    public void close() {
        outliving.forEach(producer -> producer.close(Duration.ZERO));
    }
}
