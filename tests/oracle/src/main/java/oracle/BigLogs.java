package oracle;

import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.server.common.RequestLocal;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.log.VerificationGuard;

import java.io.File;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;

/** Large logs to measure with: keyed records in producer-sized batches, written through the real log. */
final class BigLogs {
    static final long START = 1_750_000_000_000L;
    private static final String TOPIC = "events";
    /** Of the case with transactions: who writes, how often a record is a tombstone, how often a transaction ends badly. */
    private static final int TRANSACTIONAL_PRODUCERS = 4;
    private static final int IDEMPOTENT_PRODUCERS = 3;
    private static final int TOMBSTONE_PERCENT = 5;
    private static final int ABORT_PERCENT = 10;
    private static final int LONGEST_TRANSACTION = 16;
    private static final long WHOLE_BYTES = 1_000_000_000L;
    private static final long SMALLEST_KEYS = 1000;
    private static final byte[] HEX = "0123456789abcdef".getBytes(StandardCharsets.US_ASCII);
    private static final String[] STATUS = {"active", "closed", "paused", "queued"};

    private final String name;
    private final Compression compression;
    private final int valueBytes;
    /** Of a log of WHOLE_BYTES; a smaller one has as many fewer, so that the same share of it is kept. */
    private final long distinctKeys;
    /** Of 100 records, how many have a key that no other record has. */
    private final int uniquePercent;
    /** Transactions, idempotent producers and tombstones throughout. */
    private final boolean transactions;

    private BigLogs(String name, Compression compression, int valueBytes, long distinctKeys, int uniquePercent) {
        this(name, compression, valueBytes, distinctKeys, uniquePercent, false);
    }

    private BigLogs(String name, Compression compression, int valueBytes, long distinctKeys, int uniquePercent, boolean transactions) {
        this.name = name;
        this.compression = compression;
        this.valueBytes = valueBytes;
        this.distinctKeys = distinctKeys;
        this.uniquePercent = uniquePercent;
        this.transactions = transactions;
    }

    static BigLogs named(String name) {
        return switch (name) {
            case "u100" -> new BigLogs(name, Compression.NONE, 100, 1_000_000, 0);
            case "u1k" -> new BigLogs(name, Compression.NONE, 1000, 1_000_000, 0);
            case "lz4" -> new BigLogs(name, Compression.lz4().build(), 100, 1_000_000, 0);
            case "zstd" -> new BigLogs(name, Compression.zstd().build(), 100, 1_000_000, 0);
            case "gzip" -> new BigLogs(name, Compression.gzip().build(), 100, 1_000_000, 0);
            case "snappy" -> new BigLogs(name, Compression.snappy().build(), 100, 1_000_000, 0);
            case "lz4-1k" -> new BigLogs(name, Compression.lz4().build(), 1000, 1_000_000, 0);
            case "zstd-1k" -> new BigLogs(name, Compression.zstd().build(), 1000, 1_000_000, 0);
            case "unique" -> new BigLogs(name, Compression.NONE, 100, 1_000_000, 95);
            case "txn" -> new BigLogs(name, Compression.NONE, 100, 1_000_000, 0, true);
            default -> null;
        };
    }

    void write(File out, long seed, long rawBytes, int batchBytes, int partitions, int segmentBytes) throws Exception {
        Map<String, String> settings = new LinkedHashMap<>();
        settings.put("cleanup.policy", "compact");
        settings.put("segment.bytes", String.valueOf(segmentBytes));
        settings.put("min.cleanable.dirty.ratio", "0.5");
        settings.put("delete.retention.ms", "86400000");
        LogConfig config = LogDir.config(settings);
        Files2.delete(out);
        long keys = Math.max(SMALLEST_KEYS, distinctKeys * rawBytes / WHOLE_BYTES);
        long records = 0;
        long size = 0;
        long last = START;
        for (int p = 0; p < partitions; p++) {
            LogDir dir = new LogDir(out, START, p == 0 ? null : Boolean.TRUE);
            UnifiedLog log = dir.open(new TopicPartition(TOPIC, p), config);
            SplittableRandom random = new SplittableRandom(seed + p);
            long written = 0;
            long unique = 0;
            long count = 0;
            ByteBuffer buffer = ByteBuffer.allocate(batchBytes * 2 + 4096);
            byte[] value = template(valueBytes);
            List<Producer> producers = producers();
            while (written < rawBytes) {
                long now = START + count / 10;
                dir.time.set(now);
                buffer.clear();
                Producer producer = transactions ? producers.get(random.nextInt(producers.size())) : producers.get(0);
                MemoryRecordsBuilder builder = producer.builder(buffer);
                int inBatch = 0;
                while (inBatch < batchBytes) {
                    long id = uniquePercent > 0 && random.nextInt(100) < uniquePercent
                            ? keys + unique++
                            : random.nextLong(keys);
                    byte[] key = key(id);
                    fill(value, id, count, random);
                    boolean tombstone = transactions && random.nextInt(100) < TOMBSTONE_PERCENT;
                    builder.append(START + count / 10, key, tombstone ? null : value);
                    inBatch += key.length + (tombstone ? 0 : value.length) + 8;
                    count++;
                }
                producer.append(log, builder, random, now);
                written += inBatch;
            }
            producers.forEach(producer -> producer.end(log, dir.time.milliseconds(), true));
            log.roll();
            records += count;
            size += log.size();
            last = START + count / 10;
            log.updateHighWatermark(log.logEndOffset());
            dir.closeCleanly();
        }
        ObjectNode node = Json.object();
        node.put("name", name);
        node.put("seed", seed);
        node.put("partitions", partitions);
        node.put("topic", TOPIC);
        settings.forEach(node.putObject("topicConfig")::put);
        node.put("now", last + 60_000);
        node.put("records", records);
        node.put("logBytes", size);
        node.put("compression", compression.type().name);
        node.put("valueBytes", valueBytes);
        node.put("distinctKeys", keys);
        node.put("uniquePercent", uniquePercent);
        node.put("rawBytesPerBatch", batchBytes);
        node.put("notes", "Uniform keys of 16 to 24 bytes; the active segment is empty, so all the data is cleanable; nothing was cleaned before."
                + (transactions ? " Batches of " + TRANSACTIONAL_PRODUCERS + " transactional, " + IDEMPOTENT_PRODUCERS
                + " idempotent and one plain producer in turn; " + ABORT_PERCENT + " % of the transactions are aborted, "
                + TOMBSTONE_PERCENT + " % of the records are tombstones." : ""));
        Json.writePretty(out.toPath().resolve("case.json"), node);
        System.out.println(Json.line(node));
    }

    private List<Producer> producers() {
        List<Producer> producers = new ArrayList<>();
        producers.add(new Producer(RecordBatch.NO_PRODUCER_ID, false));
        if (transactions) {
            for (int id = 0; id < TRANSACTIONAL_PRODUCERS + IDEMPOTENT_PRODUCERS; id++) {
                producers.add(new Producer(1000 + id, id < TRANSACTIONAL_PRODUCERS));
            }
        }
        return producers;
    }

    /** Who writes a batch: a plain producer, an idempotent one, or one whose batches are in transactions. */
    private final class Producer {
        private static final short EPOCH = 0;
        private static final short TRANSACTION_VERSION = 1;
        private final long id;
        private final boolean transactional;
        private int sequence;
        /** Batches that the open transaction still takes; 0 when none is open. */
        private int left;

        private Producer(long id, boolean transactional) {
            this.id = id;
            this.transactional = transactional;
        }

        private MemoryRecordsBuilder builder(ByteBuffer buffer) {
            if (id == RecordBatch.NO_PRODUCER_ID) {
                return MemoryRecords.builder(buffer, compression, TimestampType.CREATE_TIME, 0L);
            }
            return MemoryRecords.builder(buffer, RecordBatch.CURRENT_MAGIC_VALUE, compression, TimestampType.CREATE_TIME, 0L,
                    RecordBatch.NO_TIMESTAMP, id, EPOCH, sequence, transactional, 0);
        }

        private void append(UnifiedLog log, MemoryRecordsBuilder builder, SplittableRandom random, long now) {
            sequence += builder.numRecords();
            append(log, builder.build(), AppendOrigin.CLIENT);
            if (transactional) {
                left = left == 0 ? random.nextInt(LONGEST_TRANSACTION) + 1 : left - 1;
                if (left <= 1) {
                    left = 1;
                    end(log, now, random.nextInt(100) >= ABORT_PERCENT);
                }
            }
        }

        private void end(UnifiedLog log, long now, boolean commit) {
            if (left > 0) {
                ControlRecordType kind = commit ? ControlRecordType.COMMIT : ControlRecordType.ABORT;
                append(log, MemoryRecords.withEndTransactionMarker(now, id, EPOCH, new EndTransactionMarker(kind, 0)), AppendOrigin.COORDINATOR);
                left = 0;
            }
        }

        private void append(UnifiedLog log, MemoryRecords records, AppendOrigin origin) {
            log.appendAsLeader(records, 0, origin, RequestLocal.noCaching(), VerificationGuard.SENTINEL, TRANSACTION_VERSION);
        }
    }

    /** 16 to 24 bytes, of a length that depends on the id only. */
    static byte[] key(long id) {
        long mixed = id * 0x9E3779B97F4A7C15L;
        int length = 16 + (int) ((mixed >>> 40) % 9);
        byte[] key = new byte[length];
        key[0] = 'k';
        key[1] = '-';
        for (int i = 0; i < 12; i++) {
            key[2 + i] = HEX[(int) (id >>> (4 * (11 - i))) & 15];
        }
        for (int i = 14; i < length; i++) {
            key[i] = HEX[(int) (mixed >>> (4 * (i - 14))) & 15];
        }
        return key;
    }

    private static byte[] template(int bytes) {
        StringBuilder text = new StringBuilder("{\"id\":000000000000,\"seq\":000000000000,\"status\":\"active\",\"tag\":\"");
        while (text.length() < bytes - 2) {
            text.append("0123456789abcdef the quick brown fox jumps over the lazy dog; ");
        }
        text.setLength(bytes - 2);
        text.append("\"}");
        return text.toString().getBytes(StandardCharsets.US_ASCII);
    }

    /** Digits, a status and, for a fifth of the rest, noise, so that it compresses about as an event does. */
    private static void fill(byte[] value, long id, long seq, SplittableRandom random) {
        digits(value, 6, id);
        digits(value, 25, seq);
        byte[] status = STATUS[random.nextInt(STATUS.length)].getBytes(StandardCharsets.US_ASCII);
        System.arraycopy(status, 0, value, 48, status.length);
        int from = 64;
        int noise = Math.max(8, (value.length - from) / 5);
        long bits = 0;
        for (int i = 0; i < noise && from + i < value.length - 2; i++) {
            if (i % 16 == 0) {
                bits = random.nextLong();
            }
            value[from + i] = HEX[(int) (bits >>> (4 * (i % 16))) & 15];
        }
    }

    private static void digits(byte[] value, int at, long number) {
        for (int i = 11; i >= 0; i--) {
            value[at + i] = (byte) ('0' + number % 10);
            number /= 10;
        }
    }
}
