package oracle;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import kafka.log.LogManager;
import kafka.server.KafkaConfig;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

import java.io.File;
import java.util.Arrays;
import java.util.List;
import java.util.Properties;

/**
 * Starts Kafka's LogManager on the two log directories of each state of a move, as a broker does, and says what it
 * takes for the partition's current log.
 *
 * <p>Arguments: the partition, then one directory for each state, with {@code source} and {@code destination} in it.
 */
public final class MoveStates {
    private MoveStates() {
    }

    public static void main(String[] argv) throws Exception {
        TopicPartition partition = LogDir.parse(argv[0]);
        for (int i = 1; i < argv.length; i++) {
            System.out.println(Json.line(start(new File(argv[i]), partition)));
        }
        System.out.flush();
        System.exit(0);
    }

    private static ObjectNode start(File state, TopicPartition partition) throws Exception {
        ObjectNode line = Json.object();
        line.put("state", state.getName());
        line.putNull("error");
        line.putNull("current");
        try {
            LogManager manager = manager(state);
            manager.startup(scala.collection.immutable.Set$.MODULE$.<String>empty(), log -> ((UnifiedLog) log).topicId().isEmpty());
            scala.Option<UnifiedLog> current = manager.getLog(partition, false);
            if (current.isDefined()) {
                line.put("current", current.get().dir().getParentFile().getName());
                line.put("start", current.get().logStartOffset());
                line.put("end", current.get().logEndOffset());
            }
            line.put("future", manager.getLog(partition, true).isDefined());
            manager.shutdown(-1);
        } catch (Exception e) {
            line.put("error", e.getClass().getSimpleName() + ": " + e.getMessage());
        }
        for (String name : new String[] {"source", "destination"}) {
            ArrayNode names = line.putArray(name);
            Arrays.stream(new File(state, name).list()).sorted().forEach(names::add);
        }
        return line;
    }

    private static LogManager manager(File state) {
        Properties properties = new Properties();
        properties.put("process.roles", "broker");
        properties.put("node.id", "1");
        properties.put("controller.quorum.bootstrap.servers", "localhost:1");
        properties.put("controller.listener.names", "CONTROLLER");
        properties.put("listeners", "PLAINTEXT://localhost:0");
        properties.put("log.cleaner.enable", "false");
        properties.put("log.dirs", new File(state, "source") + "," + new File(state, "destination"));
        Time time = Time.SYSTEM;
        return LogManager.apply(new KafkaConfig(properties), scala.jdk.javaapi.CollectionConverters.asScala(List.<String>of()),
                resource -> new Properties(), new ManualScheduler(), time, new BrokerTopicStats(false), new LogDirFailureChannel(2));
    }
}
