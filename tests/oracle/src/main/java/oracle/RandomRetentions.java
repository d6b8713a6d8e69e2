package oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.LogStartOffsetIncrementReason;
import org.apache.kafka.storage.internals.log.UnifiedLog;

import java.io.File;
import java.io.IOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;

/**
 * A log directory of several random partitions with random retention, and what Kafka's own deletion makes of each.
 *
 * <p>Limits lie at, just above and just below what decides: the bytes that some segments add up to, the age of some
 * segment; high watermarks and offsets to delete before lie at segment bases and inside segments.
 */
final class RandomRetentions {
    private static final String[] TOPICS = {"t", "a-1", "b.c", "d_e", "F", "g-h-2", "i0", "j"};
    private static final String[] POLICIES = {"delete", "delete", "delete", "delete", "compact,delete", "delete,compact", "compact", ""};

    private RandomRetentions() {
    }

    static ObjectNode run(JsonNode request) throws Exception {
        Shape shape = new Shape(request.path("seed").asLong(), request.path("shape"));
        File out = new File(request.path("out").asText()).getAbsoluteFile();
        Files2.delete(out);
        LogDir before = new LogDir(new File(out, "before"), CaseWriter.START);
        before.producerIdExpirationMs = RandomCase.expirationMs(shape);
        Map<TopicPartition, Map<String, String>> settings = new LinkedHashMap<>();
        SplittableRandom random = shape.stream("retain");
        long clock = CaseWriter.START;
        int count = shape.number("partitions", 1, TOPICS.length);
        for (int i = 0; i < count; i++) {
            Shape one = shape.another(i);
            TopicPartition tp = new TopicPartition(TOPICS[i], random.nextInt(3) == 0 ? random.nextInt(1000) : 0);
            settings.put(tp, RandomCase.settings(one));
            RandomLog log = new RandomLog(before, tp, one, settings.get(tp));
            log.write();
            clock = Math.max(clock, log.clock);
        }
        before.closeCleanly();
        long now = clock + new long[] {-CaseWriter.HOUR, -600_000, 0, 1, 1000, 600_000, CaseWriter.HOUR, CaseWriter.DAY}[random.nextInt(8)];
        boolean checkpoint = shape.has("highWatermark", 0.4);
        moveWatermarks(random, before, settings);
        ObjectNode answer = Json.object();
        answer.put("now", now);
        answer.put("highWatermark", checkpoint ? "checkpoint" : "end");
        answer.put("producerIdExpirationMs", before.producerIdExpirationMs);
        ArrayNode results = answer.putArray("retain");
        File after = new File(out, "after");
        Files2.copy(new File(out, "before").toPath(), after.toPath());
        LogDir dir = new LogDir(after, now);
        dir.producerIdExpirationMs = before.producerIdExpirationMs;
        for (Map.Entry<TopicPartition, Map<String, String>> entry : settings.entrySet()) {
            LogDir.Watermark watermark = checkpoint ? LogDir.Watermark.CHECKPOINT : LogDir.Watermark.END;
            UnifiedLog log = dir.open(entry.getKey(), LogDir.config(entry.getValue()), watermark);
            limits(random, log, entry.getValue(), now);
            log.updateConfig(LogDir.config(entry.getValue()));
            long deleteBefore = -1;
            if (!entry.getValue().get("cleanup.policy").equals("compact") && random.nextInt(4) == 0) {
                deleteBefore = offset(random, log, log.highWatermark());
                log.maybeIncrementLogStartOffset(deleteBefore, LogStartOffsetIncrementReason.ClientRecordDeletion);
            }
            ObjectNode result = RetainCommand.retain(dir, entry.getKey(), log, false);
            result.put("deleteRecordsBefore", deleteBefore);
            result.put("highWatermark", log.highWatermark());
            results.add(result);
        }
        dir.closeCleanly();
        ObjectNode configs = answer.putObject("topicConfigs");
        settings.forEach((tp, pairs) -> pairs.forEach(configs.putObject(tp.topic())::put));
        return answer;
    }

    private static void moveWatermarks(SplittableRandom random, LogDir dir, Map<TopicPartition, ?> settings) throws IOException {
        Map<TopicPartition, Long> watermarks = dir.read(LogDir.HIGH_WATERMARKS);
        for (TopicPartition tp : settings.keySet()) {
            long end = watermarks.get(tp);
            switch (random.nextInt(5)) {
                case 0 -> watermarks.remove(tp);
                case 1 -> { }
                default -> watermarks.put(tp, random.nextLong(end + 1));
            }
        }
        dir.checkpoint(LogDir.HIGH_WATERMARKS).write(watermarks);
    }

    private static void limits(SplittableRandom random, UnifiedLog log, Map<String, String> settings, long now) throws IOException {
        settings.put("cleanup.policy", POLICIES[random.nextInt(POLICIES.length)]);
        List<LogSegment> segments = new ArrayList<>(log.logSegments());
        long bytes = 0;
        for (int i = random.nextInt(segments.size() + 1); i < segments.size(); i++) {
            bytes += segments.get(i).size();
        }
        settings.put("retention.bytes", String.valueOf(switch (random.nextInt(8)) {
            case 0, 1, 2 -> -1;
            case 3 -> 0;
            case 4 -> bytes + 1;
            case 5 -> Math.max(bytes - 1, 0);
            default -> bytes;
        }));
        long age = now - segments.get(random.nextInt(segments.size())).largestTimestamp();
        settings.put("retention.ms", String.valueOf(switch (random.nextInt(8)) {
            case 0, 1 -> -1;
            case 2 -> 0;
            case 3 -> Math.max(age - 1, -1);
            case 4 -> Math.max(age + 1, -1);
            default -> Math.max(age, -1);
        }));
    }

    private static long offset(SplittableRandom random, UnifiedLog log, long most) {
        List<LogSegment> segments = new ArrayList<>(log.logSegments());
        long base = segments.get(random.nextInt(segments.size())).baseOffset();
        return switch (random.nextInt(4)) {
            case 0 -> Math.min(base, most);
            case 1 -> Math.min(base + 1, most);
            case 2 -> most;
            default -> random.nextLong(most + 1);
        };
    }
}
