package connect;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.source.SourceRecord;

import java.io.IOException;
import java.util.Base64;
import java.util.Map;

/** Records in each form that converters make of them: JSON with schemas, without, and Avro. */
final class Forms implements AutoCloseable {
    private final ObjectNode made;
    private final Avro avro = new Avro();
    private final JsonConverter[][] converters = {pair(true), pair(false)};

    /** Puts lists into an object: of `json`, `plain` and `avro` each record's key and value in base64. */
    Forms(ObjectNode made) {
        this.made = made;
        for (String name : new String[] {"topics", "json", "plain", "avro", "schemas"}) {
            made.putArray(name);
        }
    }

    private static JsonConverter[] pair(boolean schemas) {
        JsonConverter[] pair = {new JsonConverter(), new JsonConverter()};
        pair[0].configure(Map.of("schemas.enable", schemas), true);
        pair[1].configure(Map.of("schemas.enable", schemas), false);
        return pair;
    }

    void add(SourceRecord record) throws IOException {
        Schema[] schemas = {record.keySchema(), record.valueSchema()};
        Object[] parts = {record.key(), record.value()};
        made.withArray("topics").add(record.topic());
        ArrayNode json = made.withArray("json").addArray();
        ArrayNode plain = made.withArray("plain").addArray();
        ArrayNode binary = made.withArray("avro").addArray();
        for (int at = 0; at < 2; at++) {
            json.add(parts[at] == null ? null : text(converters[0][at].fromConnectData("t", schemas[at], parts[at])));
            plain.add(parts[at] == null ? null : text(converters[1][at].fromConnectData("t", schemas[at], parts[at])));
            binary.add(text(avro.write(schemas[at], parts[at])));
        }
    }

    private static String text(byte[] content) {
        return content == null ? null : Base64.getEncoder().encodeToString(content);
    }

    @Override
    public void close() {
        avro.schemas().forEach(made.withArray("schemas")::add);
        for (JsonConverter[] pair : converters) {
            pair[0].close();
            pair[1].close();
        }
    }
}
