package serdes;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.time.Instant;
import java.time.LocalDate;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.UUID;
import org.apache.avro.Conversions;
import org.apache.avro.Schema;
import org.apache.avro.data.TimeConversions;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericRecord;

/** Records of Avro with many types, and what was put in. */
final class AvroRecords {
    private static final String ORDER = """
        {"type": "record", "name": "Order", "namespace": "shop", "fields": [
         {"name": "id", "type": "long"}, {"name": "count", "type": "int"},
         {"name": "ratio", "type": "double"}, {"name": "part", "type": "float"},
         {"name": "open", "type": "boolean"}, {"name": "raw", "type": "bytes"},
         {"name": "note", "type": ["null", "string"]},
         {"name": "code", "type": {"type": "fixed", "name": "Code", "size": 4}},
         {"name": "price", "type": {"type": "bytes", "logicalType": "decimal",
          "precision": 12, "scale": 3}},
         {"name": "day", "type": {"type": "int", "logicalType": "date"}},
         {"name": "millis", "type": {"type": "long", "logicalType": "timestamp-millis"}},
         {"name": "micros", "type": {"type": "long", "logicalType": "timestamp-micros"}},
         {"name": "uuid", "type": {"type": "string", "logicalType": "uuid"}},
         {"name": "home", "type": ["null", {"type": "record", "name": "Address",
          "namespace": "geo", "fields": [{"name": "city", "type": {"type": "enum", "name": "City",
          "symbols": ["A", "B"]}}, {"name": "zip", "type": "string"}]}]},
         {"name": "work", "type": ["geo.Address", "null"]},
         {"name": "numbers", "type": {"type": "array", "items": ["null", "int"]}},
         {"name": "places", "type": {"type": "map", "values": "geo.Address"}}]}
        """;

    private final Schema schema = new Schema.Parser().parse(ORDER);
    private final Schema address = schema.getField("work").schema().getTypes().get(0);
    private final Random draw;

    AvroRecords(long seed) {
        draw = new Random(seed);
    }

    /** Fills what was put in, and returns the record. */
    GenericRecord next(ObjectNode row) {
        GenericRecord record = new GenericData.Record(schema);
        long id = draw.nextLong() >> draw.nextInt(63);
        int count = draw.nextInt() >> draw.nextInt(31);
        double ratio = draw.nextGaussian();
        float part = draw.nextFloat();
        boolean open = draw.nextBoolean();
        record.put("id", id);
        record.put("count", count);
        record.put("ratio", ratio);
        record.put("part", part);
        record.put("open", open);
        row.put("id", id).put("count", count).put("ratio", ratio).put("part", (double) part)
            .put("open", open);
        byte[] raw = bytes(draw.nextInt(5));
        record.put("raw", ByteBuffer.wrap(raw));
        row.put("raw", text(raw));
        String note = draw.nextBoolean() ? "ü" + draw.nextInt() : null;
        record.put("note", note);
        row.put("note", note);
        byte[] code = bytes(4);
        record.put("code", new GenericData.Fixed(type("code"), code));
        row.put("code", text(code));
        logical(record, row);
        record.put("home", draw.nextBoolean() ? address(row.putObject("home")) : none(row, "home"));
        record.put("work", draw.nextBoolean() ? address(row.putObject("work")) : none(row, "work"));
        List<Integer> numbers = new ArrayList<>();
        ArrayNode shown = row.putArray("numbers");
        for (int number = draw.nextInt(4); number > 0; number--) {
            Integer one = draw.nextBoolean() ? draw.nextInt() : null;
            numbers.add(one);
            shown.add(one);
        }
        record.put("numbers", numbers);
        Map<String, Object> places = new LinkedHashMap<>();
        ObjectNode found = row.putObject("places");
        for (int number = draw.nextInt(3); number > 0; number--) {
            places.put("p" + number, address(found.putObject("p" + number)));
        }
        record.put("places", places);
        return record;
    }

    private void logical(GenericRecord record, ObjectNode row) {
        BigDecimal price = BigDecimal.valueOf(draw.nextInt(), 3);
        record.put("price", new Conversions.DecimalConversion()
            .toBytes(price, type("price"), type("price").getLogicalType()));
        row.put("price", price.toPlainString());
        LocalDate day = LocalDate.ofEpochDay(draw.nextInt(80_000) - 40_000);
        record.put("day", new TimeConversions.DateConversion()
            .toInt(day, type("day"), type("day").getLogicalType()));
        row.put("day", day.toString());
        Instant millis = Instant.ofEpochMilli(draw.nextLong() >> 20);
        record.put("millis", new TimeConversions.TimestampMillisConversion()
            .toLong(millis, type("millis"), type("millis").getLogicalType()));
        row.put("millis", millis.toString());
        Instant micros = millis.plus(draw.nextInt(1000), ChronoUnit.MICROS);
        record.put("micros", new TimeConversions.TimestampMicrosConversion()
            .toLong(micros, type("micros"), type("micros").getLogicalType()));
        row.put("micros", micros.toString());
        UUID uuid = new UUID(draw.nextLong(), draw.nextLong());
        record.put("uuid", uuid.toString());
        row.put("uuid", uuid.toString());
    }

    private Object address(ObjectNode shown) {
        GenericRecord record = new GenericData.Record(address);
        String city = draw.nextBoolean() ? "A" : "B";
        String zip = Integer.toString(draw.nextInt(99999));
        record.put("city", new GenericData.EnumSymbol(address.getField("city").schema(), city));
        record.put("zip", zip);
        shown.put("city", city).put("zip", zip);
        return record;
    }

    private static Object none(ObjectNode row, String name) {
        row.putNull(name);
        return null;
    }

    private Schema type(String name) {
        return schema.getField(name).schema();
    }

    private byte[] bytes(int count) {
        byte[] content = new byte[count];
        draw.nextBytes(content);
        return content;
    }

    private static String text(byte[] content) {
        return Base64.getEncoder().encodeToString(content);
    }
}
