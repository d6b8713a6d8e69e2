package oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.RecordBatch;

import java.io.File;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.SplittableRandom;
import java.util.concurrent.Callable;

/** A random log and what Kafka's cleaner makes of it, as a case in the form that the named cases have. */
final class RandomCase {
    private static final long MINUTE = 60_000;

    private RandomCase() {
    }

    /** Kafka's cleaner itself failed; the log is of no use as a reference. */
    static final class CleanerFailed extends Exception {
        CleanerFailed(Throwable cause) {
            super(cause.toString(), cause);
        }
    }

    /** Its outputs may need an index entry more than their indexes have room for; any other failure is ours. */
    static <T> T clean(Callable<T> cleaning) throws Exception {
        try {
            return cleaning.call();
        } catch (IllegalArgumentException e) {
            if (e.getMessage().contains("full time index") || e.getMessage().contains("full index")) {
                throw new CleanerFailed(e);
            }
            throw e;
        }
    }

    /** Settings under which a log is written. */
    static Map<String, String> settings(Shape shape) {
        Map<String, String> settings = new LinkedHashMap<>();
        settings.put("cleanup.policy", shape.has("compactDelete", 0.2) ? "compact,delete" : "compact");
        settings.put("retention.ms", "-1");
        settings.put("segment.bytes", String.valueOf(shape.one("segmentBytes", 700, 1400, 2800, 5600, 11200)));
        settings.put("index.interval.bytes", String.valueOf(shape.one("indexInterval", 0, 1, 100, 400, 1024, 4096)));
        long indexBytes = RandomLog.fetches(shape) ? 65_536 : shape.one("indexBytes", 96, 240, 1024, 4096);
        settings.put("segment.index.bytes", String.valueOf(indexBytes));
        settings.put("min.cleanable.dirty.ratio", String.valueOf(shape.one("ratioPercent", 0, 10, 50, 90, 100) / 100.0));
        settings.put("delete.retention.ms", String.valueOf(shape.one("deleteRetention", 0, 1, 1000, 10 * MINUTE, CaseWriter.HOUR, CaseWriter.DAY)));
        if (shape.has("appendTime", 0.15)) {
            settings.put("message.timestamp.type", "LogAppendTime");
        }
        return settings;
    }

    /** What is changed of them before the cleaning: larger segments, so that some are grouped; lags. */
    static void change(Shape shape, Map<String, String> settings) {
        SplittableRandom random = shape.stream("change");
        if (shape.has("regrouped", 0.6)) {
            multiply(settings, "segment.bytes", 1 << random.nextInt(6));
            multiply(settings, "segment.index.bytes", 1 << random.nextInt(3));
            multiply(settings, "index.interval.bytes", 1 + random.nextInt(4));
        }
        if (shape.has("minLag", 0.15)) {
            settings.put("min.compaction.lag.ms", String.valueOf(1 + random.nextInt(120) * MINUTE));
        }
        if (shape.has("maxLag", 0.15)) {
            long least = Long.parseLong(settings.getOrDefault("min.compaction.lag.ms", "1"));
            settings.put("max.compaction.lag.ms", String.valueOf(least + random.nextInt(120) * MINUTE));
        }
    }

    private static void multiply(Map<String, String> settings, String name, int factor) {
        settings.put(name, String.valueOf(Long.parseLong(settings.get(name)) * factor));
    }

    static int expirationMs(Shape shape) {
        return (int) shape.one("producerExpiration", CaseWriter.DAY, CaseWriter.DAY, 30 * CaseWriter.HOUR * 10, CaseWriter.HOUR, 10 * MINUTE, 20_000);
    }

    static ObjectNode run(JsonNode request) throws Exception {
        Shape shape = new Shape(request.path("seed").asLong(), request.path("shape"));
        File out = new File(request.path("out").asText()).getAbsoluteFile();
        CaseWriter c = new CaseWriter(out.getParentFile(), out.getName(), shape.seed, 1);
        c.note("A random log; the seed and this shape give it again: " + Json.line(request.path("shape")));
        c.settings.clear();
        c.settings.putAll(settings(shape));
        c.producerIdExpirationMs = expirationMs(shape);
        LogDir dir = new LogDir(c.before(), CaseWriter.START);
        dir.producerIdExpirationMs = c.producerIdExpirationMs;
        RandomLog log = new RandomLog(dir, c.tp, shape, c.settings);
        log.write();
        dir.closeCleanly();
        change(shape, c.settings);
        editCheckpoints(shape, dir, c);
        c.clock = now(shape, log.clock, c);
        c.dumps = request.path("dumps").asBoolean();
        options(shape, c.options);
        ObjectNode answer = clean(() -> c.finish("clean"));
        answer.put("operations", log.operations);
        answer.set("coverage", Coverage.of(c, log.cleanings, answer));
        return answer;
    }

    private static void options(Shape shape, CleanCommand.Options options) {
        SplittableRandom random = shape.stream("options");
        options.dedupeBuffer = 24L * 20_000;
        if (shape.has("smallBuffer", 0.3)) {
            options.dedupeBuffer = 24L * (4 + random.nextInt(40)) + random.nextInt(24);
            options.loadFactor = shape.one("loadPercent", 50, 90, 100) / 100.0;
        }
        options.passes = shape.has("passes", 0.4) ? 2 + random.nextInt(3) : 1;
        options.ioBuffer = random.nextInt(3) == 0 ? 4096 : Cleaning.DEFAULT_IO_BUFFER;
    }

    /** Entries that a broker would not have written, and a high watermark short of the end. */
    private static void editCheckpoints(Shape shape, LogDir dir, CaseWriter c) throws IOException {
        SplittableRandom random = shape.stream("checkpoints");
        Map<TopicPartition, Long> ends = dir.read(LogDir.HIGH_WATERMARKS);
        long end = ends.get(c.tp);
        if (shape.has("checkpointEdited", 0.15)) {
            Map<TopicPartition, Long> offsets = dir.read(LogDir.CLEANER_OFFSETS);
            offsets.remove(c.tp);
            switch (random.nextInt(4)) {
                case 0 -> { }
                case 1 -> offsets.put(c.tp, end + 1 + random.nextInt(10));
                default -> offsets.put(c.tp, random.nextLong(end + 1));
            }
            dir.checkpoint(LogDir.CLEANER_OFFSETS).write(offsets);
        }
        if (shape.has("highWatermark", 0.1)) {
            c.watermark = LogDir.Watermark.CHECKPOINT;
            ends.put(c.tp, random.nextLong(end + 1));
            dir.checkpoint(LogDir.HIGH_WATERMARKS).write(ends);
        }
    }

    /** Some time after the last record; now and then the very millisecond of a delete horizon, or the one before it. */
    private static long now(Shape shape, long clock, CaseWriter c) throws IOException {
        SplittableRandom random = shape.stream("now");
        if (random.nextInt(3) == 0) {
            List<Long> horizons = new ArrayList<>();
            for (RecordBatch batch : batches(c.partition(c.before()))) {
                OptionalLong horizon = batch.deleteHorizonMs();
                if (horizon.isPresent()) {
                    horizons.add(horizon.getAsLong());
                }
            }
            if (!horizons.isEmpty()) {
                return horizons.get(random.nextInt(horizons.size())) - random.nextInt(2);
            }
        }
        long[] later = {0, 1, 1000, 10 * MINUTE, CaseWriter.HOUR, CaseWriter.DAY, 3 * CaseWriter.DAY};
        return clock + later[random.nextInt(later.length)];
    }

    /** All batches of a partition in order. */
    static List<RecordBatch> batches(File partition) throws IOException {
        List<RecordBatch> found = new ArrayList<>();
        File[] files = partition.listFiles((d, n) -> n.endsWith(".log"));
        Arrays.sort(files);
        for (File file : files) {
            MemoryRecords.readableRecords(ByteBuffer.wrap(Files.readAllBytes(file.toPath()))).batches().forEach(found::add);
        }
        return found;
    }
}
