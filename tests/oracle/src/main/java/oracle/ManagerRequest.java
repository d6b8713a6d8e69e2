package oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.kafka.metadata.ConfigRepository;
import org.apache.kafka.storage.internals.log.CleanerConfig;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;
import scala.jdk.javaapi.CollectionConverters;

import java.io.File;
import java.io.IOException;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;

/**
 * A whole log directory loaded by Kafka's own LogManager, with deleted, future and stray logs, and stopped cleanly.
 * The answer has the end offset of each current and future log, by directory name. If retention was asked for, old
 * segments of all logs, committed to their ends, are deleted first, as LogManager.cleanupLogs and the cleaner's loop
 * do, and the answer has the base offsets that are left.
 */
final class ManagerRequest {
    private static final long NEVER_MS = Long.MAX_VALUE / 4;
    private static final int TRANSACTION_TIMEOUT_MS = 900_000;

    private ManagerRequest() {
    }

    static ObjectNode run(JsonNode request) throws IOException {
        LogConfig config = LogDir.config(pairs(request.path("config")));
        Map<String, LogConfig> topics = new HashMap<>();
        request.path("topics").properties().forEach(e -> topics.put(e.getKey(), LogDir.config(pairs(e.getValue()))));
        ObjectNode answer = Json.object();
        ManualScheduler scheduler = new ManualScheduler();
        ConfigRepository none = resource -> new Properties();
        kafka.log.LogManager manager = new kafka.log.LogManager(
                CollectionConverters.asScala(List.of(new File(request.get("logDir").asText()).getAbsoluteFile())).toSeq(),
                CollectionConverters.asScala(List.<File>of()).toSeq(),
                none, config, new CleanerConfig(false), 1, NEVER_MS, NEVER_MS, NEVER_MS, NEVER_MS,
                TRANSACTION_TIMEOUT_MS,
                new ProducerStateManagerConfig(request.get("producerIdExpirationMs").asInt(), false),
                600_000, scheduler, new BrokerTopicStats(), new LogDirFailureChannel(4),
                new FixedTime(request.get("now").asLong()), false, NEVER_MS,
                kafka.log.LogManager.$lessinit$greater$default$20());
        try {
            manager.loadLogs(config, CollectionConverters.asScala(topics), log -> false);
        } catch (Throwable e) {
            return answer.put("loadFailed", e.toString());
        }
        scheduler.runImmediate();
        ObjectNode logs = answer.putObject("logs");
        for (UnifiedLog log : CollectionConverters.asJava(manager.allLogs())) {
            logs.put(log.dir().getName(), log.logEndOffset());
        }
        if (request.path("retain").asBoolean()) {
            retain(manager, answer.putObject("segments"));
        }
        manager.shutdown(0L);
        return answer;
    }

    private static void retain(kafka.log.LogManager manager, ObjectNode segments) throws IOException {
        for (UnifiedLog log : CollectionConverters.asJava(manager.allLogs())) {
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
