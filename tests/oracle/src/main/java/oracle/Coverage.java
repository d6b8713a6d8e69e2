package oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;

import java.io.File;
import java.io.IOException;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;

/** Which of the things that a cleaner may stumble over a case really had: counts by name, 0 left out. */
final class Coverage {
    private final Map<String, Integer> counts = new TreeMap<>();

    private Coverage() {
    }

    static ObjectNode of(CaseWriter c, int cleanings, ObjectNode described) throws IOException {
        Coverage coverage = new Coverage();
        coverage.add("earlier cleanings", cleanings);
        coverage.read(c);
        coverage.files(c.partition(c.before()));
        coverage.outcome(c, described);
        for (RecordBatch batch : RandomCase.batches(c.partition(c.after()))) {
            coverage.see(batch.isControlBatch() ? "empty markers left" : "empty batches left", batch.countOrNull() == 0);
        }
        ObjectNode node = Json.object();
        coverage.counts.forEach(node::put);
        return node;
    }

    private void add(String what, int count) {
        if (count > 0) {
            counts.merge(what, count, Integer::sum);
        }
    }

    private void see(String what, boolean seen) {
        add(what, seen ? 1 : 0);
    }

    private void read(CaseWriter c) throws IOException {
        Set<Long> open = new HashSet<>();
        Set<Integer> epochs = new HashSet<>();
        Map<Long, Short> producers = new TreeMap<>();
        long next = 0;
        for (RecordBatch batch : RandomCase.batches(c.partition(c.before()))) {
            add("batches", 1);
            see("batches " + batch.compressionType().name, true);
            see("gaps", batch.baseOffset() > next);
            see("gaps above 2^31", batch.baseOffset() - next > Integer.MAX_VALUE);
            next = batch.nextOffset();
            see("append time", batch.timestampType() == TimestampType.LOG_APPEND_TIME);
            see("horizons", batch.deleteHorizonMs().isPresent());
            boolean past = batch.deleteHorizonMs().isPresent() && batch.deleteHorizonMs().getAsLong() <= c.clock;
            see("horizons at this millisecond", past && batch.deleteHorizonMs().getAsLong() == c.clock);
            epochs.add(batch.partitionLeaderEpoch());
            if (batch.hasProducerId()) {
                Short before = producers.put(batch.producerId(), batch.producerEpoch());
                see("producer epochs bumped", before != null && before != batch.producerEpoch());
                see("idempotent batches", !batch.isTransactional());
                see("sequences that wrap", batch.baseSequence() > batch.lastSequence());
            }
            if (batch.isControlBatch()) {
                marker(batch, open, past);
            } else {
                if (batch.isTransactional()) {
                    see("interleaved transactions", open.add(batch.producerId()) && open.size() > 1);
                    see("transactional batches", true);
                }
                records(batch, past);
            }
        }
        add("transactions ongoing", open.size());
        add("leader epochs", epochs.size() - 1);
    }

    private void marker(RecordBatch batch, Set<Long> open, boolean past) {
        see("markers past their horizon", past);
        if (batch.countOrNull() == 0) {
            see("control batches without records", true);
            return;
        }
        boolean abort = ControlRecordType.parse(batch.iterator().next().key()) == ControlRecordType.ABORT;
        see(abort ? "abort markers" : "commit markers", true);
        see("markers without data", !open.remove(batch.producerId()));
    }

    private void records(RecordBatch batch, boolean past) {
        see("empty batches", batch.countOrNull() == 0);
        see("sparse batches", batch.lastOffset() - batch.baseOffset() + 1 > batch.countOrNull());
        see("oversized batches", batch.sizeInBytes() > 8000);
        for (Record record : batch) {
            add("records", 1);
            see("null keys", !record.hasKey());
            see("empty keys", record.hasKey() && record.keySize() == 0);
            see("tombstones", !record.hasValue());
            see("tombstones past their horizon", !record.hasValue() && past);
            see("empty values", record.hasValue() && record.valueSize() == 0);
            see("headers", record.headers().length > 0);
            see("records without a timestamp", record.timestamp() < 0);
        }
    }

    private void files(File partition) {
        for (File file : partition.listFiles()) {
            see("segments", file.getName().endsWith(".log"));
            see("empty segments", file.getName().endsWith(".log") && file.length() == 0);
            add("aborted transactions in indexes", file.getName().endsWith(".txnindex") ? (int) file.length() / 34 : 0);
        }
    }

    private void outcome(CaseWriter c, ObjectNode described) {
        see("log start above the first segment", described.path("loaded").path("logStartOffset").asLong()
                > described.path("loaded").path("segments").path(0).asLong());
        see("high watermark short of the end", c.watermark == LogDir.Watermark.CHECKPOINT);
        see("minimum lags", c.settings.containsKey("min.compaction.lag.ms"));
        see("compact,delete", c.settings.get("cleanup.policy").contains("delete"));
        see("no delete.retention.ms", c.settings.get("delete.retention.ms").equals("0"));
        JsonNode view = described.path("plan").path("partitions").path(0);
        see("invalid checkpoints", view.path("forceUpdateCheckpoint").asBoolean());
        see("checkpoints", !view.path("checkpointedOffset").isNull());
        for (JsonNode pass : described.path("results").path(0).path("passes")) {
            if (pass.path("cleaned").asBoolean()) {
                add("passes", 1);
                see("partial maps", pass.path("newFirstDirtyOffset").asLong() < pass.path("firstUncleanableOffset").asLong());
                see("groups of several segments", pass.path("segmentsAfter").asInt() < pass.path("segmentsBefore").asInt());
                add("records removed", pass.path("messagesRead").asInt() - pass.path("messagesWritten").asInt());
                add("null keys removed", pass.path("invalid").asInt());
            }
        }
        see("logs with nothing to clean", !counts.containsKey("passes"));
        see("second passes", counts.getOrDefault("passes", 0) > 1);
    }
}
