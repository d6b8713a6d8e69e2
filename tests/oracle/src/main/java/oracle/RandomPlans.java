package oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.kafka.common.TopicPartition;

import java.io.File;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.SplittableRandom;

/** A log directory of several random partitions, and what Kafka's cleaner manager says of them. Nothing is cleaned. */
final class RandomPlans {
    private static final String[] TOPICS = {"t", "a-1", "b.c", "d_e", "F", "g-h-2", "i0", "j"};

    private RandomPlans() {
    }

    static ObjectNode run(JsonNode request) throws Exception {
        Shape shape = new Shape(request.path("seed").asLong(), request.path("shape"));
        File out = new File(request.path("out").asText()).getAbsoluteFile();
        Files2.delete(out);
        SplittableRandom random = shape.stream("plan");
        LogDir before = new LogDir(new File(out, "before"), CaseWriter.START);
        before.producerIdExpirationMs = RandomCase.expirationMs(shape);
        Map<TopicPartition, Map<String, String>> settings = new LinkedHashMap<>();
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
        int number = 0;
        for (Map<String, String> pairs : settings.values()) {
            change(shape.another(number++), pairs);
        }
        editCheckpoints(random, before, settings);
        boolean checkpoint = shape.has("highWatermark", 0.3);
        long now = clock + new long[] {0, 1, 1000, 600_000, CaseWriter.HOUR, CaseWriter.DAY}[random.nextInt(6)];
        ObjectNode answer = Json.object();
        answer.put("now", now);
        answer.put("highWatermark", checkpoint ? "checkpoint" : "end");
        answer.put("producerIdExpirationMs", before.producerIdExpirationMs);
        ObjectNode configs = answer.putObject("topicConfigs");
        settings.forEach((tp, pairs) -> pairs.forEach(configs.putObject(tp.topic())::put));
        answer.set("plan", plan(out, settings, now, checkpoint, before.producerIdExpirationMs));
        return answer;
    }

    private static ObjectNode plan(File out, Map<TopicPartition, Map<String, String>> settings, long now,
            boolean checkpoint, int expirationMs) throws Exception {
        File after = new File(out, "after");
        Files2.copy(new File(out, "before").toPath(), after.toPath());
        LogDir dir = new LogDir(after, now);
        dir.producerIdExpirationMs = expirationMs;
        for (Map.Entry<TopicPartition, Map<String, String>> entry : settings.entrySet()) {
            dir.open(entry.getKey(), LogDir.config(entry.getValue()), checkpoint ? LogDir.Watermark.CHECKPOINT : LogDir.Watermark.END);
        }
        ObjectNode plan = PlanCommand.plan(dir);
        dir.close();
        return plan;
    }

    private static void change(Shape shape, Map<String, String> settings) {
        RandomCase.change(shape, settings);
        SplittableRandom random = shape.stream("policy");
        switch (random.nextInt(8)) {
            case 0 -> settings.put("cleanup.policy", "delete");
            case 1 -> settings.put("min.compaction.lag.ms", String.valueOf(random.nextInt(4_000)));
            case 2 -> settings.put("max.compaction.lag.ms", String.valueOf(1 + random.nextInt(600_000)));
            case 3 -> settings.put("max.compaction.lag.ms", String.valueOf(1 + random.nextInt(100)));
            case 4 -> settings.put("min.cleanable.dirty.ratio", String.valueOf(random.nextDouble()));
            default -> { }
        }
        long most = Long.parseLong(settings.getOrDefault("max.compaction.lag.ms", String.valueOf(Long.MAX_VALUE)));
        if (Long.parseLong(settings.getOrDefault("min.compaction.lag.ms", "0")) > most) {
            settings.put("min.compaction.lag.ms", String.valueOf(most));
        }
    }

    /**
     * Valid ones, in mid-segment too, ones below the start and, of the cleaner, beyond the end, and none. A log that ends below its high
     * watermark lacks records: logwright does not plan it.
     */
    private static void editCheckpoints(SplittableRandom random, LogDir dir, Map<TopicPartition, ?> settings) throws Exception {
        Map<TopicPartition, Long> cleaner = dir.read(LogDir.CLEANER_OFFSETS);
        Map<TopicPartition, Long> ends = dir.read(LogDir.HIGH_WATERMARKS);
        Map<TopicPartition, Long> watermarks = new LinkedHashMap<>(ends);
        for (TopicPartition tp : settings.keySet()) {
            long end = ends.get(tp);
            switch (random.nextInt(8)) {
                case 0, 1 -> cleaner.put(tp, random.nextLong(end + 1));
                case 2 -> cleaner.put(tp, end + random.nextInt(3));
                case 3 -> cleaner.put(tp, (long) random.nextInt(4));
                case 4 -> cleaner.remove(tp);
                default -> { }
            }
            switch (random.nextInt(6)) {
                case 0 -> watermarks.remove(tp);
                case 1 -> watermarks.put(tp, end);
                default -> watermarks.put(tp, random.nextLong(end + 1));
            }
        }
        dir.checkpoint(LogDir.CLEANER_OFFSETS).write(cleaner);
        dir.checkpoint(LogDir.HIGH_WATERMARKS).write(watermarks);
    }
}
