package connect;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.debezium.config.CommonConnectorConfig.BinaryHandlingMode;
import io.debezium.config.CommonConnectorConfig.EventConvertingFailureHandlingMode;
import io.debezium.connector.binlog.charset.BinlogCharsetRegistry;
import io.debezium.connector.mysql.antlr.MySqlAntlrDdlParser;
import io.debezium.connector.mysql.charset.MySqlCharsetRegistry;
import io.debezium.connector.mysql.jdbc.MySqlDefaultValueConverter;
import io.debezium.connector.mysql.jdbc.MySqlValueConverters;
import io.debezium.jdbc.JdbcValueConverters.BigIntUnsignedMode;
import io.debezium.jdbc.JdbcValueConverters.DecimalMode;
import io.debezium.jdbc.TemporalPrecisionMode;
import io.debezium.relational.CustomConverterRegistry;
import io.debezium.relational.Table;
import io.debezium.relational.TableId;
import io.debezium.relational.TableSchema;
import io.debezium.relational.TableSchemaBuilder;
import io.debezium.relational.Tables;
import io.debezium.relational.Tables.TableFilter;
import io.debezium.schema.FieldNameSelector;
import io.debezium.schema.SchemaNameAdjuster;
import io.debezium.schema.DefaultTopicNamingStrategy;
import io.debezium.service.spi.ServiceRegistry;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaBuilder;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.source.SourceRecord;

import java.lang.reflect.Proxy;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.ZonedDateTime;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.Properties;

/**
 * Values of MySQL's binlog, as its reader has them, through the schemas and converters of Debezium's connector. Each
 * line of the standard input is a JSON object: {@code ddl} makes the table {@code shop.t}, {@code rows} are lists of its
 * values, each null or an object of the Java type and a text; {@code decimal}, {@code time}, {@code bigint} and
 * {@code binary} are settings. Of each line one is printed, with the events in each form of `Forms`.
 */
public final class MySql {
    private static final ObjectMapper MAPPER = new ObjectMapper();
    private static final long TIME_MS = 1_767_312_000_000L;
    private static final Schema SOURCE = SchemaBuilder.struct().name("io.debezium.connector.mysql.Source")
            .field("version", Schema.STRING_SCHEMA).field("ts_ms", Schema.INT64_SCHEMA).build();

    private MySql() {
    }

    public static void main(String[] args) throws Exception {
        for (String line : new String(System.in.readAllBytes(), StandardCharsets.UTF_8).split("\n")) {
            System.out.println(MAPPER.writeValueAsString(run(MAPPER.readTree(line))));
        }
    }

    private static ObjectNode run(JsonNode request) throws Exception {
        BinlogCharsetRegistry charsets = new MySqlCharsetRegistry();
        ServiceRegistry services = (ServiceRegistry) Proxy.newProxyInstance(MySql.class.getClassLoader(),
                new Class<?>[] {ServiceRegistry.class}, (proxy, method, arguments) -> charsets);
        MySqlValueConverters converters = new MySqlValueConverters(
                DecimalMode.valueOf(request.get("decimal").asText()),
                TemporalPrecisionMode.valueOf(request.get("time").asText()),
                BigIntUnsignedMode.valueOf(request.get("bigint").asText()),
                BinaryHandlingMode.valueOf(request.get("binary").asText()),
                MySqlValueConverters::adjustTemporal, EventConvertingFailureHandlingMode.WARN, services);
        MySqlAntlrDdlParser parser = new MySqlAntlrDdlParser(true, false, true, TableFilter.includeAll(), charsets);
        Tables tables = new Tables();
        parser.setCurrentDatabase("shop");
        Properties naming = new Properties();
        naming.put("topic.prefix", "shop");
        ObjectNode made = MAPPER.createObjectNode();
        try (Forms forms = new Forms(made)) {
            for (JsonNode version : request.get("versions")) {
                parser.parse(version.get("ddl").asText(), tables);
                Table table = tables.forTable(new TableId("shop", null, "t"));
                TableSchema schema = new TableSchemaBuilder(converters, new MySqlDefaultValueConverter(converters),
                        SchemaNameAdjuster.AVRO, new CustomConverterRegistry(List.of()), SOURCE,
                        FieldNameSelector.defaultSelector(SchemaNameAdjuster.AVRO), false)
                        .create(DefaultTopicNamingStrategy.create(
                                new io.debezium.connector.mysql.MySqlConnectorConfig(
                                        io.debezium.config.Configuration.from(naming))),
                                table, null, null, null);
                for (JsonNode row : version.get("rows")) {
                    Object[] values = new Object[row.size()];
                    for (int at = 0; at < values.length; at++) {
                        values[at] = value(row.get(at));
                    }
                    forms.add(event(schema, values));
                }
            }
        }
        return made;
    }

    private static SourceRecord event(TableSchema schema, Object[] values) {
        Struct source = new Struct(SOURCE).put("version", "3").put("ts_ms", TIME_MS);
        Struct event = schema.getEnvelopeSchema().create(schema.valueFromColumnData(values), source,
                Instant.ofEpochMilli(TIME_MS));
        return new SourceRecord(Map.of(), Map.of(), "shop.shop.t", null, schema.keySchema(),
                schema.keyFromColumnData(values), schema.getEnvelopeSchema().schema(), event);
    }

    private static Object value(JsonNode given) {
        if (given.isNull()) {
            return null;
        }
        String type = given.fieldNames().next();
        String text = given.get(type).asText();
        return switch (type) {
            case "int" -> Integer.valueOf(text);
            case "short" -> Short.valueOf(text);
            case "long" -> Long.valueOf(text);
            case "float" -> Float.valueOf(text);
            case "double" -> Double.valueOf(text);
            case "decimal" -> new BigDecimal(text);
            case "bytes" -> Base64.getDecoder().decode(text);
            case "bits" -> java.util.BitSet.valueOf(Base64.getDecoder().decode(text));
            case "duration" -> Duration.parse(text);
            case "date" -> LocalDate.parse(text);
            case "datetime" -> LocalDateTime.parse(text);
            case "zoned" -> ZonedDateTime.parse(text);
            case "year" -> java.time.Year.parse(text);
            default -> text;
        };
    }
}
