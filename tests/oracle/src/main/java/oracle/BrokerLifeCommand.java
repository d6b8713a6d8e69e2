package oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.clients.admin.TransactionDescription;
import org.apache.kafka.common.TopicPartition;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * Two lives of one broker, and a third after a crash. It works for real clients and stops cleanly; between the lives
 * someone else may work on its log directory, until a line comes on the standard input. In each life every partition
 * is read to its end, and the broker is asked what it knows of producers, transactions and groups.
 */
final class BrokerLifeCommand {
    private static final long READ_MS = 30_000;
    private static final List<String> LEVELS = List.of("read_uncommitted", "read_committed");

    private final Broker broker;
    private final Path out;
    private final List<JsonNode> guests;
    private int starts;

    private BrokerLifeCommand(Broker broker, Path out, List<JsonNode> guests) {
        this.broker = broker;
        this.out = out;
        this.guests = guests;
    }

    static int run(List<String> argv) throws Exception {
        Args args = new Args(argv, Set.of("dir", "port", "out", "seed", "guests"));
        Map<String, String> server = new LinkedHashMap<>();
        server.put("log.cleaner.enable", "false");
        server.put("log.retention.check.interval.ms", "3600000");
        server.put("offsets.topic.num.partitions", "2");
        server.put("transaction.state.log.num.partitions", "2");
        List<JsonNode> guests = new ArrayList<>();
        if (args.has("guests")) {
            for (String line : Files.readAllLines(Path.of(args.get("guests")))) {
                guests.add(Json.MAPPER.readTree(line));
            }
        }
        Path out = Files.createDirectories(Path.of(args.get("out")));
        BufferedReader turns = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        try (Broker broker = new Broker(new File(args.get("dir")), args.getInt("port", 19092), server);
             LifeLoad load = new LifeLoad(broker, args.getLong("seed", 1))) {
            BrokerLifeCommand life = new BrokerLifeCommand(broker, out, guests);
            life.first(load);
            if (turns.readLine() == null) {
                return 1;
            }
            life.placeGuests();
            life.second(load);
            if (turns.readLine() != null) {
                life.third();
            }
        }
        return 0;
    }

    private void first(LifeLoad load) throws Exception {
        start();
        load.topics();
        try (Admin admin = broker.admin()) {
            admin.createTopics(guestTopics()).all().get();
        }
        ObjectNode told = load.work();
        ask(told);
        told.set("reads", read("first", own()));
        broker.stop();
        told.put("logDir", broker.logs.getPath());
        tell("first", told);
    }

    private void second(LifeLoad load) throws Exception {
        start();
        ObjectNode told = Json.object();
        ask(told);
        told.set("reads", read("second", all()));
        told.set("resumed", load.resumeGroups());
        load.goOn();
        told.set("continued", read("continued", own()));
        ObjectNode then = told.putObject("then");
        ask(then);
        broker.stop();
        tell("second", told);
    }

    private void third() throws Exception {
        start();
        ObjectNode told = Json.object();
        ask(told);
        told.set("reads", read("third", own()));
        broker.stop();
        tell("third", told);
    }

    private void start() throws IOException {
        starts++;
        System.err.println("==== start " + starts);
        System.err.flush();
        broker.start();
    }

    private static void tell(String life, ObjectNode told) {
        told.put("life", life);
        System.out.println(Json.line(told));
        System.out.flush();
    }

    private List<NewTopic> guestTopics() {
        Map<String, Integer> partitions = new LinkedHashMap<>();
        for (JsonNode guest : guests) {
            TopicPartition tp = LogDir.parse(guest.get("as").asText());
            partitions.merge(tp.topic(), tp.partition() + 1, Math::max);
        }
        return partitions.entrySet().stream()
                .map(e -> new NewTopic(e.getKey(), e.getValue(), (short) 1).configs(Map.of("cleanup.policy", "compact"))).toList();
    }

    private void placeGuests() throws Exception {
        for (JsonNode guest : guests) {
            BrokerCheckCommand.place(new File(guest.get("logDir").asText()), LogDir.parse(guest.get("topicPartition").asText()),
                    broker.logs, LogDir.parse(guest.get("as").asText()), false);
        }
    }

    /** The partitions that this broker wrote itself. */
    private List<TopicPartition> own() {
        Set<String> foreign = Set.copyOf(guestTopics().stream().map(NewTopic::name).toList());
        return all().stream().filter(tp -> !foreign.contains(tp.topic())).toList();
    }

    private List<TopicPartition> all() {
        List<TopicPartition> found = new ArrayList<>();
        for (File child : broker.logs.listFiles(File::isDirectory)) {
            if (new File(child, "partition.metadata").exists()) {
                found.add(LogDir.parse(child.getName()));
            }
        }
        found.sort(Comparator.comparing(TopicPartition::toString));
        return found;
    }

    private ObjectNode read(String life, List<TopicPartition> partitions) throws Exception {
        ObjectNode reads = Json.object();
        for (TopicPartition tp : partitions) {
            ObjectNode node = reads.putObject(tp.toString());
            for (String isolation : LEVELS) {
                try (PrintStream lines = DumpCommand.open(out.resolve(life + "." + tp + "." + isolation + ".jsonl").toFile())) {
                    node.set(isolation, Clients.readAll(broker.bootstrap(), tp, isolation, lines, READ_MS));
                }
            }
        }
        return reads;
    }

    /** What the broker itself knows: producers of each partition, transactions, committed offsets of each group. */
    private void ask(ObjectNode told) throws Exception {
        try (Admin admin = broker.admin()) {
            ObjectNode producers = told.putObject("producers");
            for (var entry : admin.describeProducers(own()).all().get().entrySet()) {
                ArrayNode list = producers.putArray(entry.getKey().toString());
                entry.getValue().activeProducers().stream().sorted(Comparator.comparingLong(ProducerState::producerId)).forEach(one ->
                        list.addObject().put("producerId", one.producerId()).put("epoch", one.producerEpoch()).put("lastSequence", one.lastSequence())
                                .put("lastTimestamp", one.lastTimestamp()).put("coordinatorEpoch", one.coordinatorEpoch().orElse(-1))
                                .put("openSince", one.currentTransactionStartOffset().orElse(-1)));
            }
            ObjectNode transactions = told.putObject("transactions");
            for (var entry : admin.describeTransactions(LifeLoad.TRANSACTIONAL_IDS).all().get().entrySet()) {
                TransactionDescription one = entry.getValue();
                transactions.putObject(entry.getKey()).put("producerId", one.producerId()).put("epoch", one.producerEpoch())
                        .put("state", one.state().toString());
            }
            ObjectNode groups = told.putObject("groups");
            for (String group : LifeLoad.GROUPS) {
                ObjectNode node = groups.putObject(group);
                admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get()
                        .forEach((tp, offset) -> node.put(tp.toString(), offset.offset()));
            }
            told.set("groupIds", Json.MAPPER.valueToTree(admin.listGroups().all().get().stream().map(one -> one.groupId()).sorted().toList()));
        }
    }
}
