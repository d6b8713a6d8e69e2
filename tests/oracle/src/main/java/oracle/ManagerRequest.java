package oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.UnifiedLog;

import java.io.File;
import java.io.IOException;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * A whole log directory loaded by Kafka's own LogManager, with deleted, future and stray logs, and stopped cleanly.
 * The answer has the end offset of each current and future log, by directory name. If retention was asked for, old
 * segments of all logs, committed to their ends, are deleted first, as LogManager.cleanupLogs and the cleaner's loop
 * do, and the answer has the base offsets that are left.
 */
final class ManagerRequest {
    private ManagerRequest() {
    }

    static ObjectNode run(JsonNode request) throws IOException {
        LogConfig config = LogDir.config(pairs(request.path("config")));
        Map<String, LogConfig> topics = new HashMap<>();
        request.path("topics").properties().forEach(e -> topics.put(e.getKey(), LogDir.config(pairs(e.getValue()))));
        ObjectNode answer = Json.object();
        ManualScheduler scheduler = new ManualScheduler();
        DirectoryManager manager = KafkaLine.directoryManager(List.of(new File(request.get("logDir").asText()).getAbsoluteFile()),
                config, request.get("producerIdExpirationMs").asInt(), request.get("now").asLong(), scheduler);
        try {
            manager.load(config, topics);
        } catch (Throwable e) {
            return answer.put("loadFailed", e.toString());
        }
        scheduler.runImmediate();
        ObjectNode logs = answer.putObject("logs");
        for (UnifiedLog log : manager.logs()) {
            logs.put(log.dir().getName(), log.logEndOffset());
        }
        if (request.path("retain").asBoolean()) {
            retain(manager, answer.putObject("segments"));
        }
        manager.shutdown();
        return answer;
    }

    private static void retain(DirectoryManager manager, ObjectNode segments) throws IOException {
        for (UnifiedLog log : manager.logs()) {
            log.updateHighWatermark(log.logEndOffset());
            log.deleteOldSegments();
            ArrayNode left = segments.putArray(log.dir().getName());
            log.logSegments().forEach(segment -> left.add(segment.baseOffset()));
        }
    }

    private static Map<String, String> pairs(JsonNode node) {
        Map<String, String> found = new HashMap<>();
        node.properties().forEach(e -> found.put(e.getKey(), e.getValue().asText()));
        return found;
    }
}
