package oracle;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.errors.OutOfOrderSequenceException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.server.common.RequestLocal;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.LogStartOffsetIncrementReason;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.log.VerificationGuard;

import java.io.File;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.attribute.FileTime;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SplittableRandom;

/** Writes one random log, operation by operation, through Kafka's own log. */
final class RandomLog {
    private static final int MINUTE = 60_000;
    private static final int ROOM = 1 << 20;
    private static final Map<String, Compression> CODECS = new LinkedHashMap<>();

    final Map<String, String> settings;
    final int expirationMs;
    long clock = CaseWriter.START;
    int cleanings;
    int operations;
    private final LogDir dir;
    private final TopicPartition tp;
    private final Shape shape;
    private final UnifiedLog log;
    private final List<String> codecs;
    private final List<Producer> producers = new ArrayList<>();
    private final Set<Long> stamped = new HashSet<>();
    private final int keys;
    private final int largestBatch;
    private final int tombstonePercent;
    private final boolean timestamps;
    private int leaderEpoch;
    /** What a follower fetches at once: batches that are appended together. */
    private final List<MemoryRecords> fetched = new ArrayList<>();
    private final boolean fetching;

    /** A producer and what it has said so far. */
    private static final class Producer {
        final long id;
        short epoch;
        int sequence;
        boolean inTransaction;
        /** Nothing but markers comes of it any more. */
        boolean silent;

        Producer(long id, int sequence) {
            this.id = id;
            this.sequence = sequence;
        }
    }

    /** Whether batches are appended together, as a follower does: then indexes need room for all of them. */
    static boolean fetches(Shape shape) {
        return shape.has("fetches", 0.2);
    }

    RandomLog(LogDir dir, TopicPartition tp, Shape shape, Map<String, String> settings) throws IOException {
        this.dir = dir;
        this.tp = tp;
        this.shape = shape;
        this.settings = settings;
        this.expirationMs = dir.producerIdExpirationMs;
        this.codecs = shape.codecs();
        this.keys = shape.number("keys", 2, 60);
        this.largestBatch = (int) shape.one("records", 1, 3, 6, 12);
        this.tombstonePercent = shape.has("tombstones", 0.7) ? (int) shape.one("tombstonePercent", 5, 20, 60) : 0;
        this.timestamps = shape.has("oddTimestamps", 0.25);
        this.fetching = fetches(shape);
        dir.time.set(clock);
        this.log = dir.open(tp, LogDir.config(settings));
        boolean producing = shape.has("transactions", 0.5) | shape.has("idempotent", 0.5);
        for (int i = 0; producing && i < shape.number("producers", 1, 4); i++) {
            SplittableRandom random = shape.stream("producer" + i);
            Producer producer = new Producer(1000 + i, random.nextInt(10) == 0 ? Integer.MAX_VALUE - random.nextInt(9) : 0);
            producer.silent = random.nextInt(8) == 0 && shape.may("epochs");
            producers.add(producer);
        }
    }

    /** All operations; then the log is as a broker has it when it is told to stop. */
    void write() throws Exception {
        int count = shape.number("batches", 10, 150);
        operations = count;
        Set<Integer> cleanAt = new HashSet<>();
        for (int i = 0; i < shape.upTo("earlierCleanings", 3); i++) {
            cleanAt.add(shape.stream("clean" + i).nextInt(count));
        }
        for (int i = 0; i < count; i++) {
            if (cleanAt.contains(i)) {
                clean(shape.stream("cleaning" + i));
            }
            if (!shape.skips(i)) {
                operation(shape.stream("op" + i));
            }
        }
        if (!shape.has("ongoing", 0.25)) {
            for (Producer producer : producers) {
                if (producer.inTransaction) {
                    end(producer, shape.stream("last" + producer.id));
                }
            }
            for (int i = 0; i < shape.number("tail", 0, 6); i++) {
                data(shape.stream("tail" + i));
            }
        }
        appendFetched();
        if (shape.has("lastRoll", 0.6)) {
            log.roll();
            for (int i = 0; i < shape.number("active", 0, 2); i++) {
                data(shape.stream("active" + i));
            }
        }
        appendFetched();
        dir.scheduler.runImmediate();
        stamp(shape.stream("stamp"));
        log.updateHighWatermark(log.logEndOffset());
    }

    private void operation(SplittableRandom random) throws Exception {
        pass(1 + random.nextInt(2000));
        int kind = random.nextInt(1000);
        if (kind >= 110 && kind < 225) {
            appendFetched();
        }
        if (kind < 110) {
            if (!producers.isEmpty() && shape.may("transactions")) {
                end(producers.get(random.nextInt(producers.size())), random);
            }
        } else if (kind < 150) {
            log.roll();
        } else if (kind < 175) {
            pass(random.nextInt(60 * MINUTE));
        } else if (kind < 190) {
            if (shape.may("leaderEpochs")) {
                leaderEpoch += 1 + random.nextInt(3);
            }
        } else if (kind < 200) {
            if (shape.may("logStart")) {
                raiseStart(random);
            }
        } else if (kind < 215) {
            if (shape.may("reconfigured")) {
                reconfigure(random);
            }
        } else if (kind < 225) {
            if (shape.may("oversized")) {
                append(random, null, false, large(random));
            }
        } else {
            data(random);
        }
    }

    private void pass(long ms) {
        clock += ms;
        dir.time.set(clock);
    }

    // ---- records

    private void data(SplittableRandom random) {
        pass(1);
        SimpleRecord[] records = new SimpleRecord[1 + random.nextInt(largestBatch)];
        boolean nullKeys = random.nextInt(12) == 0 && shape.may("nullKeys");
        for (int i = 0; i < records.length; i++) {
            records[i] = record(random, nullKeys && random.nextBoolean());
        }
        Producer producer = null;
        boolean transactional = false;
        if (!producers.isEmpty() && random.nextInt(3) > 0) {
            producer = producers.get(random.nextInt(producers.size()));
            if (random.nextInt(40) == 0 && !producer.inTransaction) {
                producer.epoch++;
                producer.sequence = 0;
            }
            boolean wants = random.nextInt(4) > 0;
            transactional = !producer.silent && (producer.inTransaction || wants && shape.has("transactions", 0.5));
            if (producer.silent || !transactional && !shape.has("idempotent", 0.5)) {
                producer = null;
            }
        }
        append(random, producer, transactional, records);
    }

    private SimpleRecord record(SplittableRandom random, boolean nullKey) {
        long timestamp = random.nextInt(5) == 0 ? clock - random.nextInt(1500) : clock;
        if (timestamps && random.nextInt(6) == 0) {
            timestamp = switch (random.nextInt(4)) {
                case 0 -> RecordBatch.NO_TIMESTAMP;
                case 1 -> random.nextInt(2);
                case 2 -> clock - random.nextInt(30 * 24 * 60) * (long) MINUTE;
                default -> clock + random.nextInt(50 * MINUTE);
            };
        }
        byte[] key = nullKey ? null : key(random);
        boolean delete = random.nextInt(100) < tombstonePercent;
        byte[] value = delete ? null : bytes(random, random.nextInt(8) == 0 ? 0 : random.nextInt(120));
        return new SimpleRecord(timestamp, key, value, headers(random));
    }

    private SimpleRecord large(SplittableRandom random) {
        return new SimpleRecord(clock, key(random), bytes(random, 9000 + random.nextInt(30_000)));
    }

    private byte[] key(SplittableRandom random) {
        int kind = random.nextInt(60);
        if (kind == 0 && shape.may("emptyKeys")) {
            return new byte[0];
        }
        String id = kind == 1 ? "rare-" + random.nextInt(100_000) : "key-" + random.nextInt(keys);
        return (kind == 2 ? id.repeat(20) : id).getBytes(StandardCharsets.UTF_8);
    }

    private static byte[] bytes(SplittableRandom random, int length) {
        byte[] bytes = new byte[length];
        byte[] word = new byte[1 + random.nextInt(12)];
        for (int i = 0; i < length; i++) {
            if (i % word.length == 0) {
                word[random.nextInt(word.length)] = (byte) random.nextInt(256);
            }
            bytes[i] = word[i % word.length];
        }
        return bytes;
    }

    private Header[] headers(SplittableRandom random) {
        int count = random.nextInt(8) == 0 && shape.may("headers") ? 1 + random.nextInt(3) : 0;
        Header[] headers = new Header[count];
        for (int i = 0; i < count; i++) {
            String key = random.nextInt(4) == 0 ? "" : "h\u00e9ader-" + random.nextInt(3);
            headers[i] = new RecordHeader(key, random.nextInt(4) == 0 ? null : bytes(random, random.nextInt(12)));
        }
        return headers;
    }

    // ---- appending

    private void append(SplittableRandom random, Producer producer, boolean transactional, SimpleRecord... records) {
        boolean follower = random.nextInt(4) == 0;
        for (SimpleRecord record : records) {
            follower |= record.key() == null;
        }
        MemoryRecords batch;
        try {
            batch = append(random, follower, producer, transactional, records);
        } catch (OutOfOrderSequenceException e) {
            // its marker is remembered and its data is not: a leader refuses what a follower takes
            batch = append(random, true, producer, transactional, records);
        }
        if (producer != null) {
            int last = batch.batches().iterator().next().lastSequence();
            producer.sequence = last == Integer.MAX_VALUE ? 0 : last + 1;
            producer.inTransaction = transactional;
        }
    }

    /** A batch of what is fetched next; what was fetched before is appended from time to time. */
    private MemoryRecords fetch(SplittableRandom random, MemoryRecords batch) {
        int size = batch.sizeInBytes();
        for (MemoryRecords each : fetched) {
            size += each.sizeInBytes();
        }
        boolean far = batch.lastBatch().get().lastOffset() - log.logEndOffset() > 100_000;
        if (size > log.config().segmentSize() || far) {
            appendFetched();
        }
        fetched.add(batch);
        if (random.nextInt(8) == 0) {
            appendFetched();
        }
        return batch;
    }

    private void appendFetched() {
        if (fetched.isEmpty()) {
            return;
        }
        int size = 0;
        for (MemoryRecords each : fetched) {
            size += each.sizeInBytes();
        }
        ByteBuffer together = ByteBuffer.allocate(size);
        for (MemoryRecords each : fetched) {
            together.put(each.buffer().duplicate());
        }
        together.flip();
        fetched.clear();
        log.appendAsFollower(MemoryRecords.readableRecords(together), leaderEpoch);
    }

    /** Where the next batch begins. */
    private long end() {
        return fetched.isEmpty() ? log.logEndOffset() : fetched.get(fetched.size() - 1).lastBatch().get().nextOffset();
    }

    private MemoryRecords append(SplittableRandom random, boolean follower, Producer producer, boolean transactional, SimpleRecord... records) {
        if (fetching) {
            MemoryRecords batch = build(random, true, producer, transactional, records);
            if (batch.sizeInBytes() <= log.config().segmentSize()) {
                return fetch(random, batch);
            }
        }
        appendFetched();
        MemoryRecords batch = build(random, follower, producer, transactional, records);
        boolean large = batch.sizeInBytes() > log.config().segmentSize();
        if (large) {
            Map<String, String> roomy = new LinkedHashMap<>(settings);
            roomy.put("segment.bytes", String.valueOf(ROOM));
            log.updateConfig(LogDir.config(roomy));
        }
        if (follower) {
            log.appendAsFollower(batch, leaderEpoch);
        } else {
            log.appendAsLeader(batch, leaderEpoch, AppendOrigin.CLIENT, RequestLocal.noCaching(), VerificationGuard.SENTINEL, (short) 1);
        }
        if (large) {
            log.updateConfig(LogDir.config(settings));
        }
        return batch;
    }

    private long gap(SplittableRandom random) {
        if (!shape.may("gaps")) {
            return 0;
        }
        return switch (random.nextInt(30)) {
            case 0, 1, 2 -> 1 + random.nextInt(200);
            case 3 -> shape.may("hugeGaps") ? 300_000_000L + random.nextInt(1000) : 0;
            case 4 -> shape.has("hugeGaps", 0.15) ? Integer.MAX_VALUE - random.nextInt(8) : 0;
            case 5 -> shape.has("hugeGaps", 0.15) ? 3L * Integer.MAX_VALUE + random.nextInt(5) : 0;
            default -> 0;
        };
    }

    private MemoryRecords build(SplittableRandom random, boolean follower, Producer producer, boolean transactional, SimpleRecord[] records) {
        String codec = codecs.get(random.nextInt(codecs.size()));
        long offset = follower ? end() + gap(random) : 0;
        boolean sparse = follower && random.nextInt(4) == 0 && shape.may("sparse");
        int size = 1024;
        for (SimpleRecord record : records) {
            size += 300 + (record.key() == null ? 0 : record.key().remaining()) + (record.value() == null ? 0 : record.value().remaining());
        }
        boolean appendTime = follower && log.config().messageTimestampType == TimestampType.LOG_APPEND_TIME;
        MemoryRecordsBuilder builder = MemoryRecords.builder(ByteBuffer.allocate(size), RecordBatch.CURRENT_MAGIC_VALUE,
                CODECS.computeIfAbsent(codec, CaseWriter::codec), appendTime ? TimestampType.LOG_APPEND_TIME : TimestampType.CREATE_TIME,
                offset, appendTime ? clock : RecordBatch.NO_TIMESTAMP,
                producer == null ? RecordBatch.NO_PRODUCER_ID : producer.id,
                producer == null ? RecordBatch.NO_PRODUCER_EPOCH : producer.epoch,
                producer == null ? RecordBatch.NO_SEQUENCE : producer.sequence, transactional, leaderEpoch);
        for (SimpleRecord record : records) {
            offset += sparse ? random.nextInt(4) : 0;
            builder.appendWithOffset(offset++, record);
        }
        if (sparse) {
            builder.overrideLastOffset(offset - 1 + random.nextInt(5));
        }
        return builder.build();
    }

    /** A marker, also of a transaction with no data; now and then under an epoch that the producer had not used yet. */
    private void end(Producer producer, SplittableRandom random) {
        if (!producer.inTransaction && random.nextInt(4) > 0) {
            return;
        }
        pass(1);
        if (random.nextInt(5) == 0 && shape.may("epochs")) {
            producer.epoch++;
            producer.sequence = 0;
            producer.silent |= random.nextInt(4) == 0;
        }
        ControlRecordType type = random.nextInt(5) < 2 ? ControlRecordType.ABORT : ControlRecordType.COMMIT;
        producer.inTransaction = false;
        if (fetching) {
            fetch(random, MemoryRecords.withEndTransactionMarker(end(), clock, leaderEpoch, producer.id, producer.epoch,
                    new EndTransactionMarker(type, 0)));
            return;
        }
        log.appendAsLeader(MemoryRecords.withEndTransactionMarker(clock, producer.id, producer.epoch, new EndTransactionMarker(type, 0)),
                leaderEpoch, AppendOrigin.COORDINATOR, RequestLocal.noCaching(), VerificationGuard.SENTINEL, (short) 1);
    }

    // ---- what else happens to a log

    private void raiseStart(SplittableRandom random) throws IOException {
        log.updateHighWatermark(log.logEndOffset());
        long room = log.logEndOffset() - log.logStartOffset();
        long raise = (long) (room * random.nextDouble() * random.nextDouble());
        log.maybeIncrementLogStartOffset(log.logStartOffset() + raise, LogStartOffsetIncrementReason.ClientRecordDeletion);
        if (random.nextBoolean()) {
            log.deleteOldSegments();
            dir.scheduler.runImmediate();
            dir.scheduler.runDelayed();
        }
    }

    private void reconfigure(SplittableRandom random) {
        settings.put("segment.bytes", String.valueOf(700 << random.nextInt(5)));
        if (random.nextInt(4) == 0 && shape.may("appendTime")) {
            settings.put("message.timestamp.type", random.nextBoolean() ? "LogAppendTime" : "CreateTime");
        }
        log.updateConfig(LogDir.config(settings));
    }

    /** A cleaning by the clock of that day, as the broker would have done it. */
    private void clean(SplittableRandom random) throws Exception {
        appendFetched();
        pass(random.nextInt(3) == 0 ? random.nextInt(30 * 60 * MINUTE) : random.nextInt(10 * MINUTE));
        if (random.nextBoolean()) {
            log.roll();
        }
        dir.scheduler.runImmediate();
        stamp(random);
        log.updateHighWatermark(log.logEndOffset());
        CleanCommand.Options options = new CleanCommand.Options();
        options.dedupeBuffer = 24L * (random.nextInt(4) == 0 ? 8 + random.nextInt(30) : 10_000);
        RandomCase.clean(() -> CleanCommand.clean(dir, tp, log, options));
        cleanings++;
    }

    /** Segments get times by the case's clock: a cleaning hands them on, and lags look at them. */
    private void stamp(SplittableRandom random) throws IOException {
        for (LogSegment segment : log.logSegments()) {
            File file = segment.log().file();
            if (!stamped.contains(file.lastModified())) {
                long time = clock - random.nextInt(60 * MINUTE);
                stamped.add(time);
                Files.setLastModifiedTime(file.toPath(), FileTime.fromMillis(time));
            }
        }
    }
}
