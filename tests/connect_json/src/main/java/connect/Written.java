package connect;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.debezium.config.CommonConnectorConfig.BinaryHandlingMode;
import io.debezium.config.Configuration;
import io.debezium.connector.postgresql.PostgresConnectorConfig;
import io.debezium.connector.postgresql.PostgresSchemaFactory;
import io.debezium.connector.postgresql.UnchangedToastedPlaceholder;
import io.debezium.connector.postgresql.UnchangedToastedReplicationMessageColumn;
import io.debezium.data.Envelope;
import io.debezium.schema.SchemaNameAdjuster;
import io.debezium.transforms.ExtractNewRecordState;
import org.apache.kafka.common.serialization.LongSerializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaBuilder;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.mirror.Mirrored;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.streams.kstream.SessionWindowedSerializer;
import org.apache.kafka.streams.kstream.TimeWindowedSerializer;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.internals.SessionWindow;
import org.apache.kafka.streams.kstream.internals.TimeWindow;
import org.apache.kafka.streams.state.ValueAndTimestamp;
import org.apache.kafka.streams.state.internals.ValueAndTimestampSerde;
import org.apache.kafka.streams.state.internals.WindowKeySchema;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;

/** Prints, as a JSON object, named lists of records that the programs' own classes have written: key and value. */
public final class Written {
    private static final ObjectMapper MAPPER = new ObjectMapper();
    private static final long TIME_MS = 1_767_312_000_000L;
    private static final Schema KEY = SchemaBuilder.struct().name("shop.Key").field("id", Schema.INT64_SCHEMA).build();
    private static final Schema ROW = SchemaBuilder.struct().name("shop.Value").optional()
            .field("id", Schema.INT64_SCHEMA)
            .field("doc", Schema.OPTIONAL_STRING_SCHEMA)
            .field("raw", Schema.OPTIONAL_BYTES_SCHEMA)
            .field("tags", SchemaBuilder.array(Schema.OPTIONAL_STRING_SCHEMA).optional().build())
            .field("numbers", SchemaBuilder.array(Schema.OPTIONAL_INT64_SCHEMA).optional().build())
            .field("ids", SchemaBuilder.array(Schema.OPTIONAL_STRING_SCHEMA).optional().build())
            .field("pairs", SchemaBuilder.map(Schema.STRING_SCHEMA, Schema.OPTIONAL_STRING_SCHEMA).optional().build())
            .build();
    private static final Schema SOURCE = SchemaBuilder.struct().name("io.debezium.connector.postgresql.Source")
            .field("version", Schema.STRING_SCHEMA).field("ts_ms", Schema.INT64_SCHEMA).build();
    private static final Envelope ENVELOPE = Envelope.defineSchema().withName("shop.public.t.Envelope").withRecord(ROW)
            .withSource(SOURCE).build();

    private Written() {
    }

    public static void main(String[] args) throws Exception {
        ObjectNode written = MAPPER.createObjectNode();
        for (boolean schemas : new boolean[] {true, false}) {
            events(written.putArray("events " + schemas), events(), schemas);
            events(written.putArray("flattened " + schemas), flattened(), schemas);
        }
        streams(written);
        Mirrored.records(TIME_MS).forEach((topic, pair) -> put(written.putArray(topic), pair.get(0), pair.get(1)));
        System.out.println(MAPPER.writeValueAsString(written));
    }

    /** A row that is created, updated, read again with values that were left out, deleted; a truncation; a message. */
    private static List<SourceRecord> events() {
        Struct source = new Struct(SOURCE).put("version", "3").put("ts_ms", TIME_MS);
        Instant now = Instant.ofEpochMilli(TIME_MS);
        Struct first = row("d");
        Struct second = row("e");
        PostgresConnectorConfig config = new PostgresConnectorConfig(Configuration.create()
                .with("topic.prefix", "shop").with("database.hostname", "h").with("database.dbname", "d").build());
        Struct toasted = toasted(new UnchangedToastedPlaceholder(config));
        List<SourceRecord> records = new ArrayList<>();
        records.add(of(ENVELOPE.create(first, source, now)));
        records.add(of(ENVELOPE.update(first, second, source, now)));
        records.add(of(ENVELOPE.update(null, toasted, source, now)));
        records.add(of(ENVELOPE.read(first, source, now)));
        records.add(of(ENVELOPE.delete(first, source, now)));
        records.add(of(null));
        records.add(new SourceRecord(Map.of(), Map.of(), "t", null, null, ENVELOPE.schema(),
                ENVELOPE.truncate(source, now)));
        Schema schema = PostgresSchemaFactory.get().logicalDecodingMessageMonitorValueSchema(SchemaNameAdjuster.NO_OP,
                config, BinaryHandlingMode.BYTES);
        Struct message = new Struct(schema.field("message").schema()).put("prefix", "p")
                .put("content", ByteBuffer.wrap(new byte[] {1}));
        Struct value = new Struct(schema).put("op", Envelope.Operation.MESSAGE.code()).put("message", message);
        Schema prefix = PostgresSchemaFactory.get().logicalDecodingMessageMonitorKeySchema(SchemaNameAdjuster.NO_OP);
        value.put("source", source(schema.field("source").schema()));
        records.add(new SourceRecord(Map.of(), Map.of(), "t", null, prefix, new Struct(prefix).put("prefix", "p"),
                schema, value));
        return records;
    }

    private static Struct source(Schema schema) {
        Struct source = new Struct(schema);
        schema.fields().stream().filter(field -> !field.schema().isOptional()).forEach(field -> source.put(field,
                field.schema().type() == Schema.Type.INT64 ? (Object) TIME_MS : "x"));
        return source;
    }

    private static Struct row(String text) {
        return new Struct(ROW).put("id", 1L).put("doc", text).put("raw", text.getBytes(StandardCharsets.UTF_8))
                .put("tags", List.of(text)).put("numbers", List.of(1L)).put("ids", List.of(text))
                .put("pairs", Map.of(text, text));
    }

    private static Struct toasted(UnchangedToastedPlaceholder placeholder) {
        return new Struct(ROW).put("id", 1L).put("doc", placeholder.getToastPlaceholderString())
                .put("raw", placeholder.getToastPlaceholderBinary())
                .put("tags", value(placeholder, UnchangedToastedReplicationMessageColumn.UNCHANGED_TEXT_ARRAY_TOAST_VALUE))
                .put("numbers", value(placeholder,
                        UnchangedToastedReplicationMessageColumn.UNCHANGED_BIGINT_ARRAY_TOAST_VALUE))
                .put("ids", value(placeholder, UnchangedToastedReplicationMessageColumn.UNCHANGED_UUID_TOAST_VALUE))
                .put("pairs", value(placeholder, UnchangedToastedReplicationMessageColumn.UNCHANGED_HSTORE_TOAST_VALUE));
    }

    private static Object value(UnchangedToastedPlaceholder placeholder, Object column) {
        return placeholder.getValue(column).orElseThrow();
    }

    private static SourceRecord of(Struct value) {
        return new SourceRecord(Map.of(), Map.of(), "t", null, KEY, new Struct(KEY).put("id", 1L),
                value == null ? null : ENVELOPE.schema(), value);
    }

    /** The same events through Debezium's own transformation; it drops some. */
    private static List<SourceRecord> flattened() {
        List<SourceRecord> records = new ArrayList<>();
        try (ExtractNewRecordState<SourceRecord> transformation = new ExtractNewRecordState<>()) {
            transformation.configure(Map.of("delete.tombstone.handling.mode", "rewrite-with-tombstone", "add.fields",
                    "op,source.ts_ms"));
            for (SourceRecord record : events()) {
                SourceRecord done = transformation.apply(record);
                if (done != null && done.value() != ((Object) record.value())) {
                    records.add(done);
                } else if (done != null && done.value() == null) {
                    records.add(done);
                }
            }
        }
        return records;
    }

    private static void events(ArrayNode written, List<SourceRecord> records, boolean schemas) {
        try (JsonConverter keys = new JsonConverter(); JsonConverter values = new JsonConverter()) {
            keys.configure(Map.of("schemas.enable", schemas), true);
            values.configure(Map.of("schemas.enable", schemas), false);
            for (SourceRecord record : records) {
                byte[] key = record.key() == null ? null : keys.fromConnectData("t", record.keySchema(), record.key());
                byte[] value = values.fromConnectData("t", record.valueSchema(), record.value());
                put(written, key, record.value() == null ? null : value);
            }
        }
    }

    private static void streams(ObjectNode written) {
        try (ValueAndTimestampSerde<Long> serde = new ValueAndTimestampSerde<>(Serdes.Long());
                TimeWindowedSerializer<String> times = new TimeWindowedSerializer<>(new StringSerializer());
                SessionWindowedSerializer<String> sessions = new SessionWindowedSerializer<>(new StringSerializer())) {
            byte[] value = serde.serializer().serialize("t", ValueAndTimestamp.make(7L, TIME_MS));
            Windowed<String> time = new Windowed<>("ab", new TimeWindow(TIME_MS, TIME_MS + 60_000));
            Windowed<String> session = new Windowed<>("ab", new SessionWindow(TIME_MS, TIME_MS + 3_000));
            put(written.putArray("time windows"), times.serialize("t", time), value);
            put(written.putArray("session windows"), sessions.serialize("t", session), value);
            Bytes key = Bytes.wrap("ab".getBytes(StandardCharsets.UTF_8));
            put(written.putArray("store"), WindowKeySchema.toStoreKeyBinary(key, TIME_MS, 5).get(),
                    new LongSerializer().serialize("t", 7L));
        }
    }

    private static void put(ArrayNode written, byte[] key, byte[] value) {
        ArrayNode pair = written.addArray();
        for (byte[] part : new byte[][] {key, value}) {
            pair.add(part == null ? null : Base64.getEncoder().encodeToString(part));
        }
    }
}
