package oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.UnifiedLog;

import java.io.File;
import java.io.IOException;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.Map;

/** Batches appended by Kafka's own log as by a leader, one append each, between a load and a clean stop. */
final class AppendRequest {
    private AppendRequest() {
    }

    static ObjectNode run(JsonNode request) throws IOException {
        LogDir dir = new LogDir(new File(request.get("dir").asText()), request.get("now").asLong());
        Map<String, String> settings = new LinkedHashMap<>();
        request.get("config").properties().forEach(one -> settings.put(one.getKey(), one.getValue().asText()));
        LogConfig config = LogDir.config(settings);
        TopicPartition partition = LogDir.parse(request.get("partition").asText());
        UnifiedLog log = dir.open(partition, config);
        int epoch = log.latestEpoch().orElse(0);
        for (JsonNode batch : request.get("batches")) {
            JsonNode rows = batch.get("records");
            SimpleRecord[] records = new SimpleRecord[rows.size()];
            for (int i = 0; i < records.length; i++) {
                records[i] = record(rows.get(i));
            }
            Compression compression = Compression.of(CompressionType.forId(batch.get("codec").asInt())).build();
            if (batch.has("offset")) {
                log.appendAsFollower(MemoryRecords.withRecords(batch.get("offset").asLong(), compression, epoch, records), epoch);
            } else {
                log.appendAsLeader(MemoryRecords.withRecords(compression, records), epoch);
            }
        }
        log.updateHighWatermark(log.logEndOffset());
        long end = log.logEndOffset();
        dir.closeCleanly();
        return Json.object().put("logEndOffset", end);
    }

    static ObjectNode partitions(JsonNode request) {
        ObjectNode answer = Json.object();
        var chosen = answer.putArray("partitions");
        for (JsonNode key : request.get("keys")) {
            chosen.add(Utils.toPositive(Utils.murmur2(bytes(key))) % request.get("count").asInt());
        }
        return answer;
    }

    static SimpleRecord record(JsonNode row) {
        Header[] headers = new Header[row.get("headers").size()];
        for (int i = 0; i < headers.length; i++) {
            JsonNode pair = row.get("headers").get(i);
            headers[i] = new RecordHeader(pair.get(0).asText(), bytes(pair.get(1)));
        }
        return new SimpleRecord(row.get("timestamp").asLong(), bytes(row.get("key")), bytes(row.get("value")), headers);
    }

    private static byte[] bytes(JsonNode node) {
        return node.isNull() ? null : Base64.getDecoder().decode(node.asText());
    }
}
