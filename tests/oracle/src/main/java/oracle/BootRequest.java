package oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.kafka.metadata.properties.MetaPropertiesEnsemble;
import org.apache.kafka.metadata.properties.MetaPropertiesEnsemble.VerificationFlag;
import org.apache.kafka.storage.internals.checkpoint.OffsetCheckpointFile;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.UnifiedLog;

import java.io.File;
import java.io.IOException;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;

/**
 * What a broker reads of its log directories before it serves anything, in its order: meta.properties of all of them,
 * the markers of clean stops, every log, the high watermarks, the cleaner's offsets. A broker stops at the first that fails, and when a directory
 * goes offline; the answer says why (bootFailed), or has the broker epoch, and the offsets and the topic id of each log.
 */
final class BootRequest {
    private BootRequest() {
    }

    static ObjectNode run(JsonNode request) throws IOException {
        List<String> dirs = new ArrayList<>();
        request.get("logDirs").forEach(one -> dirs.add(new File(one.asText()).getAbsolutePath()));
        try {
            if (request.path("identity").asBoolean()) {
                identify(dirs);
            }
            return load(request, dirs);
        } catch (Throwable e) {
            return Json.object().put("bootFailed", e.toString());
        }
    }

    /** As KafkaRaftServer.initializeLogDirs; the first directory is where a broker's metadata would be. */
    private static void identify(List<String> dirs) throws IOException {
        MetaPropertiesEnsemble.Loader loader = new MetaPropertiesEnsemble.Loader();
        MetaPropertiesEnsemble found = loader.addMetadataLogDir(dirs.get(0)).addLogDirs(dirs).load();
        found.verify(Optional.empty(), OptionalInt.empty(),
                EnumSet.of(VerificationFlag.REQUIRE_AT_LEAST_ONE_VALID, VerificationFlag.REQUIRE_METADATA_LOG_DIR));
        if (!found.errorLogDirs().isEmpty()) {
            throw new IOException("meta.properties cannot be read in " + found.errorLogDirs());
        }
        found.nonFailedDirectoryProps().forEachRemaining(entry -> {
            if (entry.getValue().isEmpty()) {
                throw new IllegalStateException("No `meta.properties` found in " + entry.getKey());
            }
            if (entry.getValue().get().nodeId().isEmpty() || entry.getValue().get().clusterId().isEmpty()) {
                throw new IllegalStateException("no node id or no cluster id in " + entry.getKey());
            }
        });
    }

    private static ObjectNode load(JsonNode request, List<String> dirs) throws Exception {
        LogConfig config = LogDir.config(pairs(request.path("config")));
        Map<String, LogConfig> topics = new HashMap<>();
        request.path("topics").properties().forEach(e -> topics.put(e.getKey(), LogDir.config(pairs(e.getValue()))));
        LogDirFailureChannel failures = new LogDirFailureChannel(dirs.size());
        DirectoryManager manager = KafkaLine.directoryManager(dirs.stream().map(File::new).toList(), config,
                request.path("producerIdExpirationMs").asInt(86_400_000), request.get("now").asLong(),
                new ManualScheduler(), failures);
        try {
            long brokerEpoch = manager.brokerEpoch();
            manager.load(config, topics);
            for (String dir : dirs) {
                new OffsetCheckpointFile(new File(dir, LogDir.HIGH_WATERMARKS), failures).read();
                new OffsetCheckpointFile(new File(dir, LogDir.CLEANER_OFFSETS), failures).read();
                if (failures.hasOfflineLogDir(dir)) {
                    throw new IOException(dir + " went offline");
                }
            }
            ObjectNode answer = Json.object().put("brokerEpoch", brokerEpoch);
            ObjectNode logs = answer.putObject("logs");
            for (UnifiedLog log : manager.logs()) {
                ObjectNode one = logs.putObject(log.dir().getName());
                one.put("startOffset", log.logStartOffset());
                one.put("endOffset", log.logEndOffset());
                one.put("topicId", log.topicId().map(Object::toString).orElse(null));
            }
            return answer;
        } finally {
            manager.shutdown();
        }
    }

    private static Map<String, String> pairs(JsonNode node) {
        Map<String, String> found = new HashMap<>();
        node.properties().forEach(e -> found.put(e.getKey(), e.getValue().asText()));
        return found;
    }
}
