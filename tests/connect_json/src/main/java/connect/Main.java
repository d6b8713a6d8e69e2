package connect;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.debezium.data.Envelope;
import org.apache.avro.AvroRuntimeException;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaBuilder;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.json.JsonConverter;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.Base64;
import java.util.Map;

/**
 * A request and its answer are one JSON object on a line each. A request has {@code type} (a struct), {@code rows}
 * (lists of its values), {@code converter} (settings of JsonConverter), {@code event}: whether a row is the record
 * after a change in Debezium's envelope, and {@code avro}: whether they are Avro. The answer has {@code values}: base64 of
 * what the converter wrote; of Avro also {@code schemas}.
 */
public final class Main {
    private static final ObjectMapper MAPPER = new ObjectMapper();
    private static final long SOURCE_MS = 1_700_000_000_123L;
    private static final Schema SOURCE = SchemaBuilder.struct().name("io.debezium.connector.postgresql.Source")
            .field("version", Schema.STRING_SCHEMA).field("ts_ms", Schema.INT64_SCHEMA).build();

    private Main() {
    }

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            System.out.write(MAPPER.writeValueAsBytes(answer(MAPPER.readTree(line))));
            System.out.write('\n');
            System.out.flush();
        }
    }

    private static ObjectNode answer(JsonNode request) throws IOException {
        ObjectNode answer = MAPPER.createObjectNode();
        ArrayNode values = answer.putArray("values");
        JsonNode type = request.get("type");
        boolean isKey = request.path("key").asBoolean();
        boolean isAvro = request.path("avro").asBoolean();
        Avro avro = new Avro();
        boolean isWritten = true;
        try (JsonConverter converter = new JsonConverter()) {
            Map<String, Object> settings = MAPPER.convertValue(request.get("converter"), Map.class);
            converter.configure(settings, isKey);
            Schema schema = Types.schema(type);
            Envelope envelope = Envelope.defineSchema().withName("shop.public.t.Envelope").withRecord(schema)
                    .withSource(SOURCE).build();
            for (JsonNode row : request.get("rows")) {
                Struct after = Types.struct(schema, type, row);
                boolean isEvent = request.path("event").asBoolean();
                Schema of = isEvent ? envelope.schema() : schema;
                Struct value = isEvent ? event(envelope, after) : after;
                byte[] content = isAvro ? avro.write(of, value) : converter.fromConnectData("t", of, value);
                values.add(Base64.getEncoder().encodeToString(content));
            }
        } catch (AvroRuntimeException refused) {
            values.removeAll();
            isWritten = false;
        }
        ArrayNode schemas = answer.putArray("schemas");
        if (isWritten) {
            avro.schemas().forEach(schemas::add);
        }
        return answer;
    }

    private static Struct event(Envelope envelope, Struct after) {
        Struct source = new Struct(SOURCE).put("version", "3").put("ts_ms", SOURCE_MS);
        return envelope.create(after, source, Instant.ofEpochMilli(SOURCE_MS));
    }
}
