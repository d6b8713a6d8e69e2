package connect;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.debezium.embedded.Connect;
import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.source.SourceRecord;

import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;

/**
 * Runs Debezium's connector on a PostgreSQL server. The first argument is its port; of the standard input each line is
 * a JSON object: {@code before} are statements before the connector starts, {@code after} those while it runs,
 * {@code settings} of the connector, {@code rows} a query for what the source has. Of each line one is printed:
 * what the connector made, in each form of `Forms`, and the rows of the query as texts.
 */
public final class Postgres {
    private static final ObjectMapper MAPPER = new ObjectMapper();
    private static final String END = "end";

    private Postgres() {
    }

    public static void main(String[] args) throws Exception {
        try (Connection connection = DriverManager.getConnection(
                "jdbc:postgresql://127.0.0.1:" + args[0] + "/postgres", args[1], "")) {
            int number = 0;
            for (String line : new String(System.in.readAllBytes(), "UTF-8").split("\n")) {
                ObjectNode made = run(connection, MAPPER.readTree(line), args[0], args[1], number++);
                System.out.println(MAPPER.writeValueAsString(made));
            }
        }
        System.exit(0);
    }

    private static ObjectNode run(Connection connection, JsonNode request, String port, String user, int number)
            throws Exception {
        execute(connection, request.get("before"));
        Properties properties = new Properties();
        properties.putAll(Map.of("name", "e" + number, "topic.prefix", "shop", "plugin.name", "pgoutput",
                "connector.class", "io.debezium.connector.postgresql.PostgresConnector",
                "offset.storage", "org.apache.kafka.connect.storage.MemoryOffsetBackingStore",
                "slot.name", "s" + number, "slot.drop.on.stop", "true", "skipped.operations", "none"));
        properties.putAll(Map.of("database.hostname", "127.0.0.1", "database.port", port, "database.user", user,
                "database.dbname", "postgres", "publication.name", "p" + number, "publication.autocreate.mode",
                "filtered", "poll.interval.ms", "20"));
        request.get("settings").fields().forEachRemaining(one -> properties.put(one.getKey(), one.getValue().asText()));
        List<SourceRecord> records = Collections.synchronizedList(new ArrayList<>());
        CountDownLatch streaming = new CountDownLatch(1);
        CountDownLatch ended = new CountDownLatch(1);
        DebeziumEngine<ChangeEvent<SourceRecord, SourceRecord>> engine = DebeziumEngine.create(Connect.class).using(properties)
                .using(new DebeziumEngine.ConnectorCallback() {
                    @Override
                    public void pollingStarted() {
                        streaming.countDown();
                    }
                })
                .notifying(event -> {
                    SourceRecord record = event.value();
                    if (isEnd(record)) {
                        ended.countDown();
                    } else {
                        records.add(record);
                    }
                })
                .using((success, message, error) -> {
                    if (error != null) {
                        error.printStackTrace();
                    }
                    ended.countDown();
                }).build();
        ExecutorService executor = Executors.newSingleThreadExecutor();
        executor.execute(engine);
        streaming.await(60, TimeUnit.SECONDS);
        int snapshot = request.get("snapshot").asInt();
        for (int tries = 0; tries < 600 && (records.size() < snapshot || !isActive(connection, "s" + number)); tries++) {
            Thread.sleep(100);
        }
        execute(connection, request.get("after"));
        execute(connection, MAPPER.createArrayNode().add("SELECT pg_logical_emit_message(true, '" + END + "', 'x')"));
        if (!ended.await(120, TimeUnit.SECONDS)) {
            throw new IllegalStateException("no end; records: " + records.size());
        }
        engine.close();
        executor.shutdown();
        ObjectNode made = MAPPER.createObjectNode();
        try (Forms forms = new Forms(made)) {
            for (SourceRecord record : records) {
                forms.add(record);
            }
        }
        rows(connection, request.get("rows").asText(), made.putArray("rows"));
        return made;
    }

    private static boolean isEnd(SourceRecord record) {
        return record.key() instanceof Struct key && key.schema().field("prefix") != null
                && END.equals(key.get("prefix"));
    }

    private static boolean isActive(Connection connection, String slot) throws SQLException {
        try (Statement statement = connection.createStatement(); ResultSet found = statement.executeQuery(
                "SELECT active FROM pg_replication_slots WHERE slot_name = '" + slot + "'")) {
            return found.next() && found.getBoolean(1);
        }
    }

    private static void execute(Connection connection, JsonNode statements) throws SQLException {
        for (JsonNode text : statements) {
            try (Statement statement = connection.createStatement()) {
                statement.execute(text.asText());
            }
        }
    }

    private static void rows(Connection connection, String query, ArrayNode rows) throws SQLException {
        try (Statement statement = connection.createStatement(); ResultSet found = statement.executeQuery(query)) {
            int count = found.getMetaData().getColumnCount();
            while (found.next()) {
                ObjectNode row = rows.addObject();
                for (int at = 1; at <= count; at++) {
                    row.put(found.getMetaData().getColumnLabel(at), found.getString(at));
                }
            }
        }
    }
}
