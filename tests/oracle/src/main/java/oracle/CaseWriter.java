package oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.server.common.RequestLocal;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.LogAppendInfo;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.log.VerificationGuard;

import java.io.File;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.SplittableRandom;

/**
 * One case: a log directory as Kafka wrote it ({@code before}), what Kafka made of it ({@code after}), dumps of both
 * and a description. The log is written through the real log, with a clock that only moves when told.
 */
final class CaseWriter {
    static final long START = 1_760_000_000_000L;
    static final long DAY = 86_400_000L;
    static final long HOUR = 3_600_000L;
    private static final long PLAIN_DUMP_LIMIT = 32 * 1024;
    private static final String[] WORDS = ("amber basil cedar delta ember fjord grove hazel inlet jetty knoll larch "
            + "mossy north ochre pearl quartz river slate thorn umber vale willow yarrow zephyr").split(" ");

    final File root;
    final String name;
    final long seed;
    final double scale;
    final SplittableRandom random;
    final TopicPartition tp;
    final Map<String, String> settings = new LinkedHashMap<>();
    final List<String> notes = new ArrayList<>();
    final List<String> ops = new ArrayList<>();
    final CleanCommand.Options options = new CleanCommand.Options();
    int producerIdExpirationMs = 86_400_000;
    int leaderEpoch;
    long clock = START;
    LogDir.Watermark watermark = LogDir.Watermark.END;
    /** Whether case.json and the dumps are written, for a case that stays. */
    boolean dumps = true;
    LogDir dir;
    UnifiedLog log;
    private final File parent;

    CaseWriter(File parent, String name, long seed, double scale) throws IOException {
        this(parent, name, seed, scale, new TopicPartition("t", 0));
    }

    CaseWriter(File parent, String name, long seed, double scale, TopicPartition tp) throws IOException {
        this.parent = parent;
        this.root = new File(parent, name);
        this.name = name;
        this.seed = seed;
        this.scale = scale;
        this.random = new SplittableRandom(seed * 1_000_003 + name.hashCode());
        this.tp = tp;
        Files2.delete(root);
        Files.createDirectories(root.toPath());
        settings.put("cleanup.policy", "compact");
        settings.put("segment.bytes", "8192");
        settings.put("index.interval.bytes", "1024");
        settings.put("segment.index.bytes", "4096");
        settings.put("min.cleanable.dirty.ratio", "0.5");
        settings.put("delete.retention.ms", String.valueOf(DAY));
    }

    /** The same topic later: this case's outcome is what the next one starts from. */
    CaseWriter chain(String nextName) throws IOException {
        CaseWriter next = new CaseWriter(parent, nextName, seed, scale, tp);
        next.settings.putAll(settings);
        next.producerIdExpirationMs = producerIdExpirationMs;
        next.leaderEpoch = leaderEpoch;
        next.clock = clock;
        next.options.dedupeBuffer = options.dedupeBuffer;
        Files2.copy(after().toPath(), next.before().toPath());
        return next;
    }

    File before() {
        return new File(root, "before");
    }

    File after() {
        return new File(root, "after");
    }

    File partition(File logDir) {
        return new File(logDir, tp.topic() + "-" + tp.partition());
    }

    CaseWriter set(String key, Object value) {
        settings.put(key, String.valueOf(value));
        return this;
    }

    CaseWriter note(String text) {
        notes.add(text);
        return this;
    }

    CaseWriter open() throws IOException {
        dir = new LogDir(before(), clock);
        dir.producerIdExpirationMs = producerIdExpirationMs;
        log = dir.open(tp, LogDir.config(settings));
        return this;
    }

    void close() throws IOException {
        dir.closeCleanly();
        log = null;
        stamp(before());
    }

    int scaled(int count) {
        return Math.max(1, (int) (count * scale));
    }

    // ---- records

    CaseWriter pass(long ms) {
        clock += ms;
        dir.time.set(clock);
        return this;
    }

    byte[] key(int id) {
        return ("key-" + String.format("%05d", id)).getBytes(StandardCharsets.UTF_8);
    }

    byte[] value(int min, int max) {
        int length = min + random.nextInt(max - min + 1);
        StringBuilder text = new StringBuilder();
        while (text.length() < length) {
            text.append(WORDS[random.nextInt(WORDS.length)]).append(' ').append(random.nextInt(1000)).append(' ');
        }
        text.setLength(length);
        return text.toString().getBytes(StandardCharsets.UTF_8);
    }

    SimpleRecord record(byte[] key, byte[] value, Header... headers) {
        return new SimpleRecord(clock, key, value, headers);
    }

    SimpleRecord record(int id) {
        return record(key(id), value(20, 120));
    }

    SimpleRecord tombstone(int id) {
        return record(key(id), null);
    }

    LogAppendInfo append(Compression compression, SimpleRecord... records) throws IOException {
        dir.time.set(clock);
        return log.appendAsLeader(MemoryRecords.withRecords(compression, records), leaderEpoch);
    }

    LogAppendInfo append(SimpleRecord... records) throws IOException {
        return append(Compression.NONE, records);
    }

    /** A batch that says its own offsets, as a follower takes it from its leader. */
    void appendAt(long offset, Compression compression, SimpleRecord... records) {
        dir.time.set(clock);
        log.appendAsFollower(MemoryRecords.withRecords(offset, compression, leaderEpoch, records), leaderEpoch);
    }

    /** Keyed records in batches of one to a few, now and then a tombstone or a timestamp that is out of order. */
    void fill(int records, int keys, int largestBatch, int tombstonePercent, Compression... codecs) throws IOException {
        int left = records;
        while (left > 0) {
            pass(1 + random.nextInt(2000));
            int size = Math.min(left, 1 + random.nextInt(largestBatch));
            append(codecs[random.nextInt(codecs.length)], some(size, keys, tombstonePercent));
            left -= size;
        }
    }

    SimpleRecord[] some(int size, int keys, int tombstonePercent) {
        SimpleRecord[] batch = new SimpleRecord[size];
        for (int i = 0; i < size; i++) {
            int id = random.nextInt(keys);
            long timestamp = random.nextInt(5) == 0 ? clock - random.nextInt(1500) : clock;
            boolean delete = random.nextInt(100) < tombstonePercent;
            batch[i] = new SimpleRecord(timestamp, key(id), delete ? null : value(20, 120));
        }
        return batch;
    }

    void roll() throws IOException {
        log.roll();
    }

    static Compression codec(String name) {
        return switch (name) {
            case "none" -> Compression.NONE;
            case "gzip" -> Compression.gzip().build();
            case "snappy" -> Compression.snappy().build();
            case "lz4" -> Compression.lz4().build();
            case "zstd" -> Compression.zstd().build();
            default -> throw new IllegalArgumentException(name);
        };
    }

    /** One idempotent or transactional producer. */
    final class Producer {
        final long id;
        short epoch;
        int sequence;
        final Compression compression;

        Producer(long id, int epoch, Compression compression) {
            this.id = id;
            this.epoch = (short) epoch;
            this.compression = compression;
        }

        void send(boolean transactional, SimpleRecord... records) {
            dir.time.set(clock);
            ByteBuffer buffer = ByteBuffer.allocate(1024 + Arrays.stream(records).mapToInt(SimpleRecordSizes::of).sum());
            MemoryRecordsBuilder builder = MemoryRecords.builder(buffer, RecordBatch.CURRENT_MAGIC_VALUE, compression,
                    TimestampType.CREATE_TIME, 0L, RecordBatch.NO_TIMESTAMP, id, epoch, sequence, transactional, leaderEpoch);
            for (SimpleRecord record : records) {
                builder.append(record);
            }
            log.appendAsLeader(builder.build(), leaderEpoch, AppendOrigin.CLIENT, RequestLocal.noCaching(), VerificationGuard.SENTINEL, (short) 1);
            sequence += records.length;
        }

        void end(boolean commit) {
            dir.time.set(clock);
            EndTransactionMarker marker = new EndTransactionMarker(commit ? ControlRecordType.COMMIT : ControlRecordType.ABORT, 0);
            log.appendAsLeader(MemoryRecords.withEndTransactionMarker(clock, id, epoch, marker), leaderEpoch,
                    AppendOrigin.COORDINATOR, RequestLocal.noCaching(), VerificationGuard.SENTINEL, (short) 1);
        }

        void bumpEpoch() {
            epoch++;
            sequence = 0;
        }
    }

    private static final class SimpleRecordSizes {
        static int of(SimpleRecord record) {
            int size = 64;
            size += record.key() == null ? 0 : record.key().remaining();
            size += record.value() == null ? 0 : record.value().remaining();
            for (Header header : record.headers()) {
                size += 16 + header.key().length() * 3 + (header.value() == null ? 0 : header.value().length);
            }
            return size * 2;
        }
    }

    // ---- outcome

    /** Lets Kafka do its work on a copy of {@code before}, at the case's clock, and writes everything down. */
    ObjectNode finish(String... operations) throws Exception {
        ops.addAll(Arrays.asList(operations));
        if (log != null) {
            close();
        }
        long now = clock;
        Files2.delete(after());
        ObjectNode described = Json.object();
        described.put("name", name);
        described.put("kafka", "4.3.0");
        described.put("seed", seed);
        described.put("scale", scale);
        described.put("notes", String.join(" ", notes));
        described.put("topic", tp.topic());
        described.put("partition", tp.partition());
        settings.forEach(described.putObject("topicConfig")::put);
        described.put("now", now);
        described.put("highWatermark", watermark.name().toLowerCase(Locale.ROOT));
        described.put("producerIdExpirationMs", producerIdExpirationMs);
        described.put("dedupeBuffer", options.dedupeBuffer);
        described.put("ioBuffer", options.ioBuffer);
        described.put("loadFactor", options.loadFactor);
        described.put("passes", options.passes);
        ops.forEach(described.putArray("ops")::add);
        ObjectNode files = Json.object();
        files.set("before", files(before()));
        if (dumps) {
            dumpTo("before", before());
        }

        Files2.copy(before().toPath(), after().toPath());
        LogDir outcome = new LogDir(after(), now);
        outcome.producerIdExpirationMs = producerIdExpirationMs;
        described.put("cleanShutdown", outcome.cleanShutdown);
        UnifiedLog opened = outcome.open(tp, LogDir.config(settings), watermark);
        ObjectNode loaded = described.putObject("loaded");
        loaded.put("logStartOffset", opened.logStartOffset());
        loaded.put("logEndOffset", opened.logEndOffset());
        loaded.put("lastStableOffset", opened.lastStableOffset());
        loaded.put("activeSegment", opened.activeSegment().baseOffset());
        ArrayNode segments = loaded.putArray("segments");
        opened.logSegments().forEach(s -> segments.add(s.baseOffset()));
        JsonNode plan = PlanCommand.plan(outcome);
        described.set("plan", plan);
        ArrayNode results = described.putArray("results");
        for (String op : ops) {
            switch (op) {
                case "clean" -> results.add(CleanCommand.clean(outcome, tp, opened, options).put("op", op));
                case "retain" -> results.add(RetainCommand.retain(outcome, tp, opened, false).put("op", op));
                case "recover" -> {
                    outcome.scheduler.runImmediate();
                    outcome.scheduler.runDelayed();
                }
                default -> throw new IllegalArgumentException(op);
            }
        }
        outcome.closeCleanly();
        files.set("after", files(after()));
        described.set("files", files);
        if (dumps) {
            dumpTo("after", after());
            Json.writePretty(root.toPath().resolve("case.json"), described);
        }
        return described;
    }

    private void dumpTo(String which, File logDir) throws IOException {
        Path plain = root.toPath().resolve(which + ".jsonl");
        try (PrintStream out = DumpCommand.open(plain.toFile())) {
            DumpCommand.dump(partition(logDir), out, true, true, true);
        }
        if (Files.size(plain) > PLAIN_DUMP_LIMIT) {
            try (PrintStream out = DumpCommand.open(new File(root, which + ".jsonl.gz"))) {
                DumpCommand.dump(partition(logDir), out, true, true, true);
            }
            Files.delete(plain);
        }
    }

    /** Names, sizes and times of the partition's files: a copy of a case through git keeps no times. */
    private ObjectNode files(File logDir) {
        ObjectNode node = Json.object();
        File[] found = partition(logDir).listFiles();
        Arrays.sort(found);
        for (File file : found) {
            ObjectNode one = node.putObject(file.getName());
            one.put("bytes", file.length());
            if (file.getName().contains(".log")) {
                one.put("lastModified", file.lastModified());
            }
        }
        return node;
    }

    /** Gives each segment's files a time that does not depend on the day: its largest timestamp, or the start. */
    void stamp(File logDir) throws IOException {
        File[] found = partition(logDir).listFiles((d, n) -> n.endsWith(".log"));
        Arrays.sort(found);
        for (File file : found) {
            long largest = START;
            for (RecordBatch batch : MemoryRecords.readableRecords(ByteBuffer.wrap(Files.readAllBytes(file.toPath()))).batches()) {
                largest = Math.max(largest, batch.maxTimestamp());
            }
            stamp(file, largest);
            stamp(new File(file.getPath().replace(".log", ".index")), largest);
            stamp(new File(file.getPath().replace(".log", ".timeindex")), largest);
        }
    }

    private static void stamp(File file, long ms) throws IOException {
        if (file.exists()) {
            Files.setLastModifiedTime(file.toPath(), FileTime.fromMillis(ms));
        }
    }

    // ---- what is done to a directory by hand

    void uncleanShutdown(long recoveryPoint) throws IOException {
        Files.deleteIfExists(new File(before(), ".kafka_cleanshutdown").toPath());
        Files.writeString(new File(before(), LogDir.RECOVERY_POINTS).toPath(),
                "0\n1\n" + tp.topic() + " " + tp.partition() + " " + recoveryPoint + "\n");
    }

    List<Long> segments(File logDir) {
        List<Long> bases = new ArrayList<>();
        for (File file : partition(logDir).listFiles((d, n) -> n.endsWith(".log"))) {
            bases.add(Long.parseLong(file.getName().substring(0, 20)));
        }
        bases.sort(null);
        return bases;
    }

    File file(File logDir, long base, String suffix) {
        return new File(partition(logDir), String.format("%020d%s", base, suffix));
    }
}
