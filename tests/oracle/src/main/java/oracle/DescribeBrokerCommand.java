package oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.ListTopicsOptions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.config.ConfigResource;

import java.io.File;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.Future;

/** A broker that clients change the configs of, in one life or several; what its Admin API says in the end. */
final class DescribeBrokerCommand {
    private static final String NODE = "1";
    private static final long WAIT_NS = 60_000_000_000L;
    private static final int VALUE_BYTES = 100;

    private DescribeBrokerCommand() {
    }

    static int run(List<String> argv) throws Exception {
        Args args = new Args(argv, Set.of("dir", "port", "spec"));
        File dir = new File(args.get("dir")).getAbsoluteFile();
        JsonNode spec = Json.read(new File(args.get("spec")));
        ObjectNode said = Json.object();
        for (JsonNode life : spec.get("lives")) {
            boolean snapshot = life.path("snapshot").asBoolean();
            Map<String, String> server = new LinkedHashMap<>();
            server.put("log.cleaner.enable", "false");
            server.put("log.retention.check.interval.ms", "3600000");
            server.put("metadata.log.max.snapshot.interval.ms", snapshot ? "1000" : "3600000");
            server.putAll(texts(spec.path("server")));
            server.putAll(texts(life.path("server")));
            try (Broker broker = new Broker(dir, args.getInt("port", 19092), server)) {
                broker.start();
                try (Admin admin = broker.admin()) {
                    for (JsonNode step : life.path("steps")) {
                        take(step, broker, admin);
                    }
                    File metadata = new File(server.getOrDefault("metadata.log.dir", new File(dir, "metadata").getPath()));
                    if (snapshot) {
                        awaitSnapshot(new File(metadata, "__cluster_metadata-0"), admin);
                    }
                    said = describeSettled(broker, admin);
                    said.put("metadataDir", metadata.getPath());
                }
            }
        }
        System.out.println(Json.line(said));
        return 0;
    }

    private static void take(JsonNode step, Broker broker, Admin admin) throws Exception {
        for (Map.Entry<String, JsonNode> one : step.properties()) {
            JsonNode what = one.getValue();
            switch (one.getKey()) {
                case "create" -> create(what, broker, admin);
                case "topics" -> {
                    for (Map.Entry<String, JsonNode> topic : what.properties()) {
                        alter(admin, new ConfigResource(ConfigResource.Type.TOPIC, topic.getKey()), topic.getValue());
                    }
                }
                case "cluster" -> alter(admin, new ConfigResource(ConfigResource.Type.BROKER, ""), what);
                case "broker" -> alter(admin, new ConfigResource(ConfigResource.Type.BROKER, NODE), what);
                case "delete" -> delete(what, broker, admin);
                case "produce" -> produce(what, broker);
                default -> throw new Args.UsageException("no such step: " + one.getKey());
            }
        }
    }

    private static void create(JsonNode what, Broker broker, Admin admin) throws Exception {
        List<NewTopic> topics = new ArrayList<>();
        for (Map.Entry<String, JsonNode> topic : what.properties()) {
            topics.add(new NewTopic(topic.getKey(), topic.getValue().path("partitions").asInt(1), (short) 1)
                    .configs(texts(topic.getValue().path("configs"))));
        }
        admin.createTopics(topics).all().get();
        for (NewTopic topic : topics) {
            for (int partition = 0; partition < topic.numPartitions(); partition++) {
                File there = new File(broker.logs, topic.name() + "-" + partition + "/partition.metadata");
                await(there + " is there", there::exists);
            }
        }
    }

    private static void delete(JsonNode what, Broker broker, Admin admin) throws Exception {
        List<String> names = new ArrayList<>();
        what.forEach(name -> names.add(name.asText()));
        admin.deleteTopics(names).all().get();
        for (String name : names) {
            File there = new File(broker.logs, name + "-0");
            await(there + " is gone", () -> !there.exists());
        }
    }

    private static void alter(Admin admin, ConfigResource resource, JsonNode what) throws Exception {
        List<AlterConfigOp> changes = new ArrayList<>();
        for (Map.Entry<String, JsonNode> config : what.properties()) {
            boolean gone = config.getValue().isNull();
            changes.add(new AlterConfigOp(new ConfigEntry(config.getKey(), gone ? null : config.getValue().asText()),
                    gone ? AlterConfigOp.OpType.DELETE : AlterConfigOp.OpType.SET));
        }
        admin.incrementalAlterConfigs(Map.<ConfigResource, Collection<AlterConfigOp>>of(resource, changes)).all().get();
    }

    private static void produce(JsonNode what, Broker broker) throws Exception {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        try (KafkaProducer<byte[], byte[]> producer = Clients.producer(broker.bootstrap(), Map.of("linger.ms", "5"))) {
            for (Map.Entry<String, JsonNode> topic : what.properties()) {
                int partitions = producer.partitionsFor(topic.getKey()).size();
                for (int i = 0; i < topic.getValue().asInt(); i++) {
                    byte[] key = ("key-" + i % 100).getBytes(StandardCharsets.UTF_8);
                    sent.add(producer.send(
                            new ProducerRecord<>(topic.getKey(), i % partitions, key, new byte[VALUE_BYTES])));
                }
            }
        }
        for (Future<RecordMetadata> one : sent) {
            one.get();
        }
    }

    /** Waits for a snapshot of all that is committed now: idle controllers go on writing no-op records. */
    private static void awaitSnapshot(File metadata, Admin admin) throws Exception {
        long end = admin.describeMetadataQuorum().quorumInfo().get().highWatermark();
        await("a snapshot up to " + end, () -> {
            String[] found = metadata.list((parent, name) -> name.endsWith(".checkpoint"));
            for (String name : found == null ? new String[0] : found) {
                if (Long.parseLong(name.substring(0, 20)) >= end) {
                    return true;
                }
            }
            return false;
        });
    }

    /** A broker answers from the metadata that it has published, which can be older than a change that it confirmed. */
    private static ObjectNode describeSettled(Broker broker, Admin admin) throws Exception {
        ObjectNode said = describe(broker, admin);
        while (true) {
            Thread.sleep(500);
            ObjectNode again = describe(broker, admin);
            if (again.equals(said)) {
                return said;
            }
            said = again;
        }
    }

    private static ObjectNode describe(Broker broker, Admin admin) throws Exception {
        ObjectNode said = Json.object();
        said.put("logDir", broker.logs.getPath());
        said.put("clusterId", admin.describeCluster().clusterId().get());
        said.put("nodeId", Integer.parseInt(NODE));
        ObjectNode features = said.putObject("features");
        admin.describeFeatures().featureMetadata().get().finalizedFeatures()
                .forEach((name, range) -> features.put(name, range.maxVersionLevel()));
        ObjectNode topics = said.putObject("topics");
        Set<String> names = admin.listTopics(new ListTopicsOptions().listInternal(true)).names().get();
        Map<String, TopicDescription> found = new TreeMap<>(admin.describeTopics(names).allTopicNames().get());
        for (TopicDescription topic : found.values()) {
            ObjectNode node = topics.putObject(topic.name());
            node.put("id", topic.topicId().toString());
            ObjectNode partitions = node.putObject("partitions");
            topic.partitions().forEach(partition -> {
                ArrayNode replicas = partitions.putArray(Integer.toString(partition.partition()));
                partition.replicas().forEach(replica -> replicas.add(replica.id()));
            });
            node.set("configs", configs(admin, new ConfigResource(ConfigResource.Type.TOPIC, topic.name())));
        }
        said.set("broker", configs(admin, new ConfigResource(ConfigResource.Type.BROKER, NODE)));
        said.set("cluster", configs(admin, new ConfigResource(ConfigResource.Type.BROKER, "")));
        return said;
    }

    private static ObjectNode configs(Admin admin, ConfigResource resource) throws Exception {
        Config described = admin.describeConfigs(List.of(resource), new DescribeConfigsOptions().includeSynonyms(true))
                .all().get().get(resource);
        ObjectNode configs = Json.object();
        Map<String, ConfigEntry> entries = new TreeMap<>();
        described.entries().forEach(entry -> entries.put(entry.name(), entry));
        for (ConfigEntry entry : entries.values()) {
            ObjectNode node = configs.putObject(entry.name());
            node.put("value", entry.value()).put("source", entry.source().name()).put("sensitive", entry.isSensitive());
            ArrayNode synonyms = node.putArray("synonyms");
            entry.synonyms().forEach(synonym -> synonyms.addObject().put("name", synonym.name())
                    .put("value", synonym.value()).put("source", synonym.source().name()));
        }
        return configs;
    }

    private static Map<String, String> texts(JsonNode node) {
        Map<String, String> found = new HashMap<>();
        node.properties().forEach(one -> found.put(one.getKey(), one.getValue().asText()));
        return found;
    }

    private interface Holds {
        boolean now() throws Exception;
    }

    private static void await(String what, Holds holds) throws Exception {
        long end = System.nanoTime() + WAIT_NS;
        while (!holds.now()) {
            if (System.nanoTime() > end) {
                throw new IllegalStateException("never happened: " + what);
            }
            Thread.sleep(20);
        }
    }
}
