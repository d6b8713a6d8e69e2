package oracle;

import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.storage.internals.log.UnifiedLog;

import java.io.File;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.attribute.FileTime;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;

/**
 * The log directory of the demo: changelogs of a shop and the clicks on its pages, as a broker that was shut down
 * cleanly left them. Values say much and hold little, so that a hundred megabytes pack into a few.
 */
final class DemoLogs {
    static final long START = 1_750_000_000_000L;
    private static final long HOUR = 3_600_000L;
    private static final long DAY = 24 * HOUR;
    private static final int MIB = 1024 * 1024;
    private static final int RECORDS_IN_BATCH = 40;
    private static final String[] TIERS = {"bronze", "silver", "gold"};
    private static final String[] CITIES = {"Aarhus", "Bergen", "Cardiff", "Dresden", "Espoo", "Ferrara", "Ghent", "Haarlem"};
    private static final String[] STATES = {"created", "paid", "packed", "shipped", "delivered"};
    private static final String TERMS = "The customer agreed to the terms of service, to receive the newsletter once a month, and to be "
            + "called by the service desk on working days; the address was checked against the register of the post.";

    /** The value of an update, or null for a tombstone. */
    private interface Value {
        String of(int key, long version, SplittableRandom random);
    }

    private record Topic(String name, int partitions, Compression compression, Map<String, String> config, String keyPrefix,
                         int keys, int updates, long spanMs, int tombstonesOfThousand, Value value) {
    }

    private final LogDir dir;
    private final long seed;
    private long now;

    private DemoLogs(File logDir, long seed) throws IOException {
        this.dir = new LogDir(logDir, START);
        this.seed = seed;
    }

    /** Writes {@code out/kafka-logs} and {@code out/demo.json}. */
    static void write(File out, long seed, double scale) throws Exception {
        Files2.delete(out);
        DemoLogs demo = new DemoLogs(new File(out, "kafka-logs"), seed);
        ObjectNode described = Json.object();
        described.put("kafka", "4.3.0");
        described.put("seed", seed);
        described.put("scale", scale);
        ObjectNode topics = described.putObject("topics");
        long last = START;
        for (Topic topic : topics(scale)) {
            topic.config.forEach(topics.putObject(topic.name)::put);
            for (int p = 0; p < topic.partitions; p++) {
                demo.fill(topic, p);
                last = Math.max(last, demo.now);
            }
        }
        demo.dir.closeCleanly();
        for (TopicPartition tp : demo.dir.partitions()) {
            stamp(new File(demo.dir.dir, tp.topic() + "-" + tp.partition()));
        }
        described.put("now", last + HOUR);
        Json.writePretty(out.toPath().resolve("demo.json"), described);
        System.out.println(Json.line(described));
    }

    private static List<Topic> topics(double scale) {
        Map<String, String> customers = config("segment.ms", 2 * DAY);
        Map<String, String> orders = config("segment.ms", 3 * DAY);
        Map<String, String> sessions = config("segment.ms", 6 * HOUR);
        // cleaned already and little changed since: not due
        Map<String, String> countries = config("segment.ms", 365 * DAY * 100);
        // too little dirty to be due, but older than the operator allows
        Map<String, String> consents = config("segment.ms", DAY);
        consents.put("max.compaction.lag.ms", String.valueOf(2 * DAY));
        Compression none = Compression.NONE;
        return List.of(
                new Topic("customers", 3, none, customers, "customer-", (int) (1_800 * scale), (int) (40_000 * scale), 20 * DAY, 30, DemoLogs::customer),
                new Topic("orders-changelog", 2, Compression.lz4().build(), orders, "order-", (int) (2_500 * scale), (int) (20_000 * scale), 20 * DAY, 10, DemoLogs::order),
                new Topic("sessions", 1, Compression.zstd().build(), sessions, "session-", (int) (600 * scale), (int) (14_000 * scale), 2 * DAY, 200, DemoLogs::session),
                new Topic("countries", 1, none, countries, "country-", 240, 2_400, DAY, 0, DemoLogs::country),
                new Topic("consents", 1, none, consents, "customer-", 1_000, 6_000, 5 * DAY, 5, DemoLogs::consent),
                new Topic("clicks", 1, Compression.lz4().build(), clicks(), "page-", 400, (int) (20_000 * scale), 20 * DAY, 0, DemoLogs::click));
    }

    private static Map<String, String> config(String key, long value) {
        Map<String, String> config = new LinkedHashMap<>();
        config.put("cleanup.policy", "compact");
        config.put("min.cleanable.dirty.ratio", "0.5");
        config.put("delete.retention.ms", String.valueOf(DAY));
        config.put(key, String.valueOf(value));
        return config;
    }

    /** Not compacted: its oldest segments go by size. */
    private static Map<String, String> clicks() {
        Map<String, String> config = new LinkedHashMap<>();
        config.put("cleanup.policy", "delete");
        config.put("retention.bytes", String.valueOf(MIB / 2));
        config.put("retention.ms", "-1");
        config.put("segment.ms", String.valueOf(2 * DAY));
        return config;
    }

    private void fill(Topic topic, int partition) throws Exception {
        TopicPartition tp = new TopicPartition(topic.name, partition);
        now = START;
        dir.time.set(now);
        UnifiedLog log = dir.open(tp, LogDir.config(topic.config));
        SplittableRandom random = new SplittableRandom(seed * 1_000_003 + tp.hashCode());
        long step = Math.max(1, topic.spanMs / topic.updates);
        append(log, topic, random, topic.updates, step, 0);
        if (topic.name.equals("countries") || topic.name.equals("consents")) {
            log.roll();
            CleanCommand.clean(dir, tp, log, new CleanCommand.Options());
            append(log, topic, random, topic.keys / 12, topic.spanMs * 6 / topic.keys, topic.updates);
        }
    }

    private void append(UnifiedLog log, Topic topic, SplittableRandom random, int updates, long step, long first) throws IOException {
        ByteBuffer buffer = ByteBuffer.allocate(MIB);
        for (int done = 0; done < updates; done += RECORDS_IN_BATCH) {
            buffer.clear();
            MemoryRecordsBuilder builder = MemoryRecords.builder(buffer, topic.compression, TimestampType.CREATE_TIME, 0L);
            for (int i = done; i < Math.min(updates, done + RECORDS_IN_BATCH); i++) {
                now += step;
                int key = random.nextInt(topic.keys);
                boolean tombstone = random.nextInt(1000) < topic.tombstonesOfThousand;
                String value = tombstone ? null : topic.value.of(key, first + i, random);
                builder.append(now, bytes(topic.keyPrefix + String.format("%06d", key)), bytes(value));
            }
            dir.time.set(now);
            log.appendAsLeader(builder.build(), 0);
        }
        log.updateHighWatermark(log.logEndOffset());
    }

    private static byte[] bytes(String text) {
        return text == null ? null : text.getBytes(StandardCharsets.UTF_8);
    }

    private static String customer(int key, long version, SplittableRandom random) {
        return "{\"op\":\"u\",\"source\":{\"db\":\"shop\",\"table\":\"customers\",\"connector\":\"postgresql\",\"snapshot\":false},"
                + "\"after\":{\"id\":" + key + ",\"name\":\"Customer " + key + "\",\"email\":\"customer." + key + "@example.org\","
                + "\"street\":\"" + (key % 97 + 1) + " Market Street\",\"city\":\"" + CITIES[key % CITIES.length] + "\",\"country\":\"XX\","
                + "\"language\":\"en\",\"newsletter\":true,\"remarks\":\"" + TERMS + "\","
                + "\"tier\":\"" + TIERS[random.nextInt(TIERS.length)] + "\",\"points\":" + random.nextInt(16) * 250 + ",\"credit\":0.00,\"blocked\":false}}";
    }

    private static String order(int key, long version, SplittableRandom random) {
        return "{\"order\":" + key + ",\"customer\":" + key % 1800 + ",\"state\":\"" + STATES[random.nextInt(STATES.length)]
                + "\",\"lines\":[{\"sku\":\"A-" + key % 113 + "\",\"quantity\":" + (key % 3 + 1) + ",\"price\":\"" + (key % 40 + 5) + ".90\"},"
                + "{\"sku\":\"SHIPPING\",\"quantity\":1,\"price\":\"4.90\"}],\"currency\":\"EUR\",\"channel\":\"web\",\"warehouse\":\""
                + CITIES[key % CITIES.length] + "\"}";
    }

    private static String session(int key, long version, SplittableRandom random) {
        return "{\"session\":" + key + ",\"customer\":" + key % 1800 + ",\"agent\":\"Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101\","
                + "\"page\":\"/category/" + random.nextInt(8) + "\",\"cart\":{\"items\":" + random.nextInt(4) + ",\"currency\":\"EUR\"},\"open\":true}";
    }

    private static String click(int key, long version, SplittableRandom random) {
        return "{\"page\":" + key + ",\"visitor\":" + random.nextInt(100_000) + ",\"referrer\":\"" + CITIES[random.nextInt(CITIES.length)]
                + ".example.org\",\"milliseconds\":" + random.nextInt(30_000) + "}";
    }

    private static String country(int key, long version, SplittableRandom random) {
        return "{\"country\":" + key + ",\"vat\":\"" + (15 + random.nextInt(11)) + ".0\",\"currency\":\"EUR\",\"ships\":true,\"days\":" + (2 + key % 7) + "}";
    }

    private static String consent(int key, long version, SplittableRandom random) {
        return "{\"customer\":" + key + ",\"newsletter\":" + random.nextBoolean() + ",\"profiling\":" + random.nextBoolean() + ",\"text\":\"" + TERMS + "\"}";
    }

    /** Each segment's files get the time of its last record, which is when a broker would have written them. */
    private static void stamp(File partition) throws IOException {
        for (File log : partition.listFiles((d, name) -> name.endsWith(".log"))) {
            long largest = START;
            for (var batch : MemoryRecords.readableRecords(ByteBuffer.wrap(Files.readAllBytes(log.toPath()))).batches()) {
                largest = Math.max(largest, batch.maxTimestamp());
            }
            String base = log.getPath().substring(0, log.getPath().length() - ".log".length());
            for (String suffix : List.of(".log", ".index", ".timeindex", ".txnindex", ".snapshot")) {
                File file = new File(base + suffix);
                if (file.exists()) {
                    Files.setLastModifiedTime(file.toPath(), FileTime.fromMillis(largest));
                }
            }
        }
    }
}
