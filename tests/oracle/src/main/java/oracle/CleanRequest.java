package oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.storage.internals.log.UnifiedLog;

import java.io.File;
import java.util.HashMap;
import java.util.Map;

/** Loads a partition where it lies, cleans it once as a broker would, and closes it cleanly. */
final class CleanRequest {
    private CleanRequest() {
    }

    static ObjectNode run(JsonNode request) throws Exception {
        TopicPartition tp = LogDir.parse(request.path("topicPartition").asText());
        Map<String, String> settings = new HashMap<>();
        request.path("config").fields().forEachRemaining(e -> settings.put(e.getKey(), e.getValue().asText()));
        try (LogDir dir = new LogDir(new File(request.path("logDir").asText()), request.path("now").asLong())) {
            dir.producerIdExpirationMs = request.path("producerIdExpirationMs").asInt();
            UnifiedLog log = dir.open(tp, LogDir.config(settings));
            ObjectNode answer;
            try {
                answer = CleanCommand.clean(dir, tp, log, new CleanCommand.Options());
            } catch (RuntimeException e) {
                answer = Json.object().put("failed", e.toString());
            }
            dir.closeCleanly();
            return answer;
        }
    }
}
