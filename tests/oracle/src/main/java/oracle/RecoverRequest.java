package oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.storage.internals.log.UnifiedLog;

import java.io.File;
import java.util.HashMap;
import java.util.Map;

/** Loads a partition where it lies, as a broker would, and closes it cleanly: what recovery leaves. */
final class RecoverRequest {
    private RecoverRequest() {
    }

    static ObjectNode run(JsonNode request) throws Exception {
        TopicPartition tp = LogDir.parse(request.path("topicPartition").asText());
        Map<String, String> settings = new HashMap<>();
        request.path("config").fields().forEachRemaining(e -> settings.put(e.getKey(), e.getValue().asText()));
        ObjectNode answer = Json.object();
        try (LogDir dir = new LogDir(new File(request.path("logDir").asText()), request.path("now").asLong())) {
            dir.producerIdExpirationMs = request.path("producerIdExpirationMs").asInt();
            UnifiedLog log;
            try {
                log = dir.open(tp, LogDir.config(settings));
            } catch (Throwable e) {
                return answer.put("loadFailed", e.toString());
            }
            dir.scheduler.runImmediate();
            dir.scheduler.runDelayed();
            answer.put("logStartOffset", log.logStartOffset());
            answer.put("logEndOffset", log.logEndOffset());
            dir.closeCleanly();
        }
        return answer;
    }
}
