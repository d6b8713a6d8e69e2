package oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.message.FetchResponseData.AbortedTransaction;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.server.storage.log.FetchIsolation;
import org.apache.kafka.storage.internals.log.FetchDataInfo;
import org.apache.kafka.storage.internals.log.UnifiedLog;

import java.io.File;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Comparator;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;

/**
 * A whole log directory loaded as a broker loads it, perhaps with records appended to one partition as by a leader,
 * read by both kinds of consumers, and stopped cleanly.
 */
final class DirectoryRequest {
    private static final int FETCH_BYTES = 1 << 20;

    private DirectoryRequest() {
    }

    static ObjectNode run(JsonNode request) throws IOException {
        ObjectNode answer = Json.object();
        try (LogDir dir = new LogDir(new File(request.get("logDir").asText()), request.get("now").asLong())) {
            ObjectNode logs = answer.putObject("logs");
            for (TopicPartition partition : dir.partitions()) {
                UnifiedLog log;
                try {
                    log = dir.open(partition, LogDir.config(settings(request, partition)));
                } catch (Throwable failed) {
                    return answer.put("loadFailed", partition + ": " + failed);
                }
                JsonNode appended = request.path("append").path(partition.toString());
                if (!appended.isMissingNode()) {
                    append(log, appended);
                }
            }
            dir.scheduler.runImmediate();
            dir.scheduler.runDelayed();
            for (TopicPartition partition : dir.partitions()) {
                see(dir.logs.get(partition), logs.putObject(partition.toString()));
            }
            dir.closeCleanly();
        }
        return answer;
    }

    private static Map<String, String> settings(JsonNode request, TopicPartition partition) {
        Map<String, String> found = new LinkedHashMap<>();
        request.path("config").path(partition.topic()).properties()
                .forEach(one -> found.put(one.getKey(), one.getValue().asText()));
        return found;
    }

    private static void append(UnifiedLog log, JsonNode rows) throws IOException {
        int epoch = log.latestEpoch().orElse(0);
        for (JsonNode row : rows) {
            log.appendAsLeader(MemoryRecords.withRecords(Compression.NONE, AppendRequest.record(row)), epoch);
        }
        log.updateHighWatermark(log.logEndOffset());
    }

    private static void see(UnifiedLog log, ObjectNode answer) throws IOException {
        answer.put("start", log.logStartOffset()).put("end", log.logEndOffset());
        Set<Long> committed = new TreeSet<>();
        fetch(log, FetchIsolation.TXN_COMMITTED, (record, aborted) -> {
            if (!aborted) {
                committed.add(record.offset());
            }
        });
        ArrayNode rows = answer.putArray("rows");
        fetch(log, FetchIsolation.LOG_END, (record, aborted) -> {
            ObjectNode row = rows.addObject();
            row.put("offset", record.offset()).put("timestamp", record.timestamp());
            row.put("key", text(record.key())).put("value", text(record.value()));
            row.put("committed", committed.contains(record.offset()));
            ArrayNode headers = row.putArray("headers");
            for (Header header : record.headers()) {
                headers.addArray().add(header.key())
                        .add(header.value() == null ? null : Base64.getEncoder().encodeToString(header.value()));
            }
        });
        ObjectNode producers = answer.putObject("producers");
        log.producerStateManager().activeProducers().forEach((id, entry) -> entry.batchMetadata().stream()
                .reduce((first, last) -> last).ifPresent(last -> producers.put(id.toString(), last.lastSeq())));
    }

    private interface Seen {
        void see(Record record, boolean aborted);
    }

    /** As a consumer reads: from the log start offset on, without control batches. */
    private static void fetch(UnifiedLog log, FetchIsolation isolation, Seen seen) throws IOException {
        long at = log.logStartOffset();
        while (at < log.logEndOffset()) {
            FetchDataInfo found = log.read(at, FETCH_BYTES, isolation, true);
            List<AbortedTransaction> pending = new ArrayList<>(found.abortedTransactions.orElse(List.of()));
            pending.sort(Comparator.comparingLong(AbortedTransaction::firstOffset));
            Set<Long> aborted = new HashSet<>();
            long next = at;
            for (RecordBatch batch : found.records.batches()) {
                while (!pending.isEmpty() && pending.get(0).firstOffset() <= batch.lastOffset()) {
                    aborted.add(pending.remove(0).producerId());
                }
                next = batch.nextOffset();
                if (batch.isControlBatch()) {
                    Iterator<Record> marker = batch.iterator();
                    if (marker.hasNext() && ControlRecordType.parse(marker.next().key()) == ControlRecordType.ABORT) {
                        aborted.remove(batch.producerId());
                    }
                    continue;
                }
                boolean gone = batch.isTransactional() && aborted.contains(batch.producerId());
                for (Record record : batch) {
                    if (record.offset() >= at) {
                        seen.see(record, gone);
                    }
                }
            }
            if (next == at) {
                return;
            }
            at = next;
        }
    }

    private static String text(ByteBuffer content) {
        if (content == null) {
            return null;
        }
        byte[] copied = new byte[content.remaining()];
        content.duplicate().get(copied);
        return Base64.getEncoder().encodeToString(copied);
    }
}
