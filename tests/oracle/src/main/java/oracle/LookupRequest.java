package oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.server.storage.log.FetchIsolation;
import org.apache.kafka.storage.internals.log.UnifiedLog;

import java.io.File;
import java.util.Iterator;
import java.util.Map;
import java.util.Optional;

/** Loads a partition where it lies, and looks up offsets and timestamps as for consumers, by the indexes that are there. */
final class LookupRequest {
    private static final int FETCH_BYTES = 1;

    private LookupRequest() {
    }

    static ObjectNode run(JsonNode request) throws Exception {
        TopicPartition tp = LogDir.parse(request.path("topicPartition").asText());
        ObjectNode answer = Json.object();
        try (LogDir dir = new LogDir(new File(request.path("logDir").asText()), request.path("now").asLong())) {
            UnifiedLog log;
            try {
                log = dir.open(tp, LogDir.config(Map.of()));
            } catch (Throwable failed) {
                return answer.put("loadFailed", failed.toString());
            }
            answer.put("end", log.logEndOffset());
            ArrayNode found = answer.putArray("offsets");
            request.path("offsets").forEach(one -> found.add(firstBatch(log, one.asLong())));
            ArrayNode times = answer.putArray("times");
            request.path("times").forEach(one -> times.add(
                    log.fetchOffsetByTimestamp(one.asLong(), Optional.empty()).timestampAndOffsetOpt()
                            .map(at -> at.offset).orElse(-1L)));
            dir.closeCleanly();
        }
        return answer;
    }

    /** The base offset of the batch that a fetch of an offset begins with: -1 for none, -2 if the fetch fails. */
    private static long firstBatch(UnifiedLog log, long offset) {
        try {
            Iterator<? extends RecordBatch> batches =
                    log.read(offset, FETCH_BYTES, FetchIsolation.LOG_END, true).records.batches().iterator();
            return batches.hasNext() ? batches.next().baseOffset() : -1;
        } catch (Exception failed) {
            return -2;
        }
    }
}
