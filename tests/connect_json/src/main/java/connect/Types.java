package connect;

import com.fasterxml.jackson.databind.JsonNode;
import io.debezium.data.Bits;
import io.debezium.data.EnumSet;
import io.debezium.data.Json;
import io.debezium.data.TsVector;
import io.debezium.data.Uuid;
import io.debezium.data.VariableScaleDecimal;
import io.debezium.data.Xml;
import io.debezium.data.geometry.Geography;
import io.debezium.data.geometry.Geometry;
import io.debezium.data.geometry.Point;
import io.debezium.time.Interval;
import io.debezium.time.IsoDate;
import io.debezium.time.IsoTime;
import io.debezium.time.IsoTimestamp;
import io.debezium.time.MicroDuration;
import io.debezium.time.MicroTime;
import io.debezium.time.MicroTimestamp;
import io.debezium.time.NanoDuration;
import io.debezium.time.NanoTime;
import io.debezium.time.NanoTimestamp;
import io.debezium.time.ZonedTime;
import io.debezium.time.ZonedTimestamp;
import org.apache.kafka.connect.data.Decimal;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaBuilder;
import org.apache.kafka.connect.data.Struct;

import java.math.BigDecimal;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.OffsetDateTime;
import java.time.OffsetTime;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Date;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Schemas and values as Debezium's connectors make them. A type is an object with `type` and what that needs; a value
 * is text of the calendar or of digits, which Debezium's own classes turn into numbers.
 */
final class Types {
    private Types() {
    }

    static Schema schema(JsonNode type) {
        SchemaBuilder builder = builder(type);
        if (type.path("optional").asBoolean()) {
            builder.optional();
        }
        if (type.has("default")) {
            builder.defaultValue(value(builder.build(), type, type.get("default")));
        }
        return builder.build();
    }

    private static SchemaBuilder builder(JsonNode type) {
        return switch (type.get("type").asText()) {
            case "int8" -> SchemaBuilder.int8();
            case "int16" -> SchemaBuilder.int16();
            case "int32" -> SchemaBuilder.int32();
            case "int64" -> SchemaBuilder.int64();
            case "float" -> SchemaBuilder.float32();
            case "double" -> SchemaBuilder.float64();
            case "boolean" -> SchemaBuilder.bool();
            case "string" -> SchemaBuilder.string();
            case "bytes" -> SchemaBuilder.bytes();
            case "connect.Date" -> org.apache.kafka.connect.data.Date.builder();
            case "connect.Time" -> org.apache.kafka.connect.data.Time.builder();
            case "connect.Timestamp" -> org.apache.kafka.connect.data.Timestamp.builder();
            case "Decimal" -> decimal(type);
            case "VariableScaleDecimal" -> VariableScaleDecimal.builder();
            case "Date" -> io.debezium.time.Date.builder();
            case "Time" -> io.debezium.time.Time.builder();
            case "MicroTime" -> MicroTime.builder();
            case "NanoTime" -> NanoTime.builder();
            case "Timestamp" -> io.debezium.time.Timestamp.builder();
            case "MicroTimestamp" -> MicroTimestamp.builder();
            case "NanoTimestamp" -> NanoTimestamp.builder();
            case "ZonedTimestamp" -> ZonedTimestamp.builder();
            case "ZonedTime" -> ZonedTime.builder();
            case "Year" -> io.debezium.time.Year.builder();
            case "Interval" -> Interval.builder();
            case "MicroDuration" -> MicroDuration.builder();
            case "NanoDuration" -> NanoDuration.builder();
            case "IsoDate" -> IsoDate.builder();
            case "IsoTime" -> IsoTime.builder();
            case "IsoTimestamp" -> IsoTimestamp.builder();
            case "Json" -> Json.builder();
            case "Enum" -> io.debezium.data.Enum.builder(List.of("a", "b c", "ß"));
            case "EnumSet" -> EnumSet.builder(List.of("a", "b", "c"));
            case "Uuid" -> Uuid.builder();
            case "Xml" -> Xml.builder();
            case "Tsvector" -> TsVector.builder();
            case "Ltree" -> SchemaBuilder.string().name("io.debezium.data.Ltree").version(1);
            case "Bits" -> Bits.builder(type.get("length").asInt());
            case "Point" -> Point.builder();
            case "Geometry" -> Geometry.builder();
            case "Geography" -> Geography.builder();
            case "array" -> SchemaBuilder.array(schema(type.get("items")));
            case "map" -> SchemaBuilder.map(schema(type.get("keys")), schema(type.get("values")));
            case "struct" -> struct(type);
            default -> throw new IllegalArgumentException("unknown type: " + type);
        };
    }

    private static SchemaBuilder decimal(JsonNode type) {
        SchemaBuilder builder = Decimal.builder(type.get("scale").asInt());
        if (type.has("precision")) {
            builder.parameter("connect.decimal.precision", type.get("precision").asText());
        }
        return builder;
    }

    private static SchemaBuilder struct(JsonNode type) {
        SchemaBuilder builder = SchemaBuilder.struct().name(type.path("record").asText(type.path("name").asText()));
        for (JsonNode field : type.get("fields")) {
            builder.field(field.get("name").asText(), schema(field));
        }
        return builder;
    }

    static Object value(Schema schema, JsonNode type, JsonNode given) {
        if (given == null || given.isNull()) {
            return null;
        }
        String text = given.asText();
        return switch (type.get("type").asText()) {
            case "int8" -> Byte.valueOf(text);
            case "int16" -> Short.valueOf(text);
            case "int32", "Year" -> Integer.valueOf(text);
            case "int64" -> Long.valueOf(text);
            case "float" -> Float.valueOf(text);
            case "double" -> Double.valueOf(text);
            case "boolean" -> given.asBoolean();
            case "bytes", "Bits" -> Base64.getDecoder().decode(text);
            case "connect.Date" -> Date.from(Instant.parse(text + "T00:00:00Z"));
            case "connect.Time" -> new Date(LocalTime.parse(text).toNanoOfDay() / 1_000_000);
            case "connect.Timestamp" -> Date.from(Instant.parse(text + "Z"));
            case "Decimal" -> new BigDecimal(text).setScale(type.get("scale").asInt());
            case "VariableScaleDecimal" -> VariableScaleDecimal.fromLogical(schema, new BigDecimal(text));
            case "Date" -> io.debezium.time.Date.toEpochDay(LocalDate.parse(text), null);
            case "Time" -> io.debezium.time.Time.toMilliOfDay(time(text), true);
            case "MicroTime" -> MicroTime.toMicroOfDay(time(text), true);
            case "NanoTime" -> NanoTime.toNanoOfDay(time(text), true);
            case "Timestamp" -> io.debezium.time.Timestamp.toEpochMillis(LocalDateTime.parse(text), null);
            case "MicroTimestamp" -> MicroTimestamp.toEpochMicros(LocalDateTime.parse(text), null);
            case "NanoTimestamp" -> NanoTimestamp.toEpochNanos(LocalDateTime.parse(text), null);
            case "ZonedTimestamp" -> ZonedTimestamp.toIsoString(OffsetDateTime.parse(text), null);
            case "ZonedTime" -> ZonedTime.toIsoString(OffsetTime.parse(text), null);
            case "Interval" -> interval(given);
            case "MicroDuration" -> Duration.parse(text).toNanos() / 1000;
            case "NanoDuration" -> Duration.parse(text).toNanos();
            case "IsoDate" -> IsoDate.toIsoString(LocalDate.parse(text), null);
            case "IsoTime" -> IsoTime.toIsoString(LocalTime.parse(text), false);
            case "IsoTimestamp" -> IsoTimestamp.toIsoString(LocalDateTime.parse(text), null);
            case "Point" -> Point.createValue(schema, given.get(0).asDouble(), given.get(1).asDouble());
            case "Geometry" -> Geometry.createValue(schema, Base64.getDecoder().decode(text), 4326);
            case "Geography" -> Geography.createValue(schema, Base64.getDecoder().decode(text), null);
            case "array" -> items(schema, type, given);
            case "map" -> pairs(schema, type, given);
            case "struct" -> struct(schema, type, given);
            default -> text;
        };
    }

    private static Object time(String text) {
        return text.contains("PT") ? Duration.parse(text) : LocalTime.parse(text);
    }

    private static String interval(JsonNode given) {
        return Interval.toIsoString(given.get(0).asInt(), given.get(1).asInt(), given.get(2).asInt(),
                given.get(3).asInt(), given.get(4).asInt(), new BigDecimal(given.get(5).asText()));
    }

    private static List<Object> items(Schema schema, JsonNode type, JsonNode given) {
        List<Object> items = new ArrayList<>();
        for (JsonNode one : given) {
            items.add(value(schema.valueSchema(), type.get("items"), one));
        }
        return items;
    }

    private static Map<Object, Object> pairs(Schema schema, JsonNode type, JsonNode given) {
        Map<Object, Object> pairs = new LinkedHashMap<>();
        for (JsonNode one : given) {
            pairs.put(value(schema.keySchema(), type.get("keys"), one.get(0)),
                    value(schema.valueSchema(), type.get("values"), one.get(1)));
        }
        return pairs;
    }

    static Struct struct(Schema schema, JsonNode type, JsonNode given) {
        Struct struct = new Struct(schema);
        int at = 0;
        for (JsonNode field : type.get("fields")) {
            String name = field.get("name").asText();
            struct.put(name, value(schema.field(name).schema(), field, given.get(at++)));
        }
        return struct;
    }
}
