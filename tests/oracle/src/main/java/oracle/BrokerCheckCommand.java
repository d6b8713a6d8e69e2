package oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.storage.internals.checkpoint.OffsetCheckpointFile;

import java.io.File;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * Puts partitions' files under a real broker and reads them back with real consumers. The broker makes the topics
 * first, so that the partitions are ones it knows, and is stopped while their files are put in place.
 */
final class BrokerCheckCommand {
    private static final int SMALLEST_SEGMENT_BYTES = 1024 * 1024;

    /** One partition: where its files are, under which name the broker gets it, where what was read is kept. */
    private record Placement(File source, TopicPartition from, TopicPartition to, Map<String, String> settings, String out,
                             List<Long> times) {
    }

    private BrokerCheckCommand() {
    }

    static int run(List<String> argv) throws Exception {
        Args args = new Args(argv, Set.of("log-dir", "topic-partition", "config", "case", "port", "server-config", "unclean", "out", "work",
                "jobs", "append"));
        List<Placement> placements = args.has("jobs") ? jobs(args) : List.of(single(args));
        Path work = args.has("work") ? Files.createDirectories(Path.of(args.get("work"))) : Files.createTempDirectory("oracle-broker-");
        Map<String, String> server = new HashMap<>(Map.of("log.cleaner.enable", "false", "log.retention.check.interval.ms", "3600000"));
        server.putAll(args.pairs("server-config"));
        boolean unclean = args.has("unclean");
        boolean ok = true;
        try (Broker broker = new Broker(work.toFile(), args.getInt("port", 19092), server)) {
            broker.start();
            try (Admin admin = broker.admin()) {
                admin.createTopics(placements.stream()
                        .map(one -> new NewTopic(one.to.topic(), one.to.partition() + 1, (short) 1).configs(one.settings)).toList()).all().get();
                Thread.sleep(500);
            }
            broker.stop();
            for (Placement one : placements) {
                place(one.source, one.from, broker.logs, one.to, unclean);
            }
            broker.start();
            for (Placement one : placements) {
                ObjectNode result = check(broker, one);
                result.put("unclean", unclean);
                if (args.has("append")) {
                    result.set("appended", append(broker, one.to));
                }
                ok &= result.get("ok").asBoolean();
                System.out.println(Json.line(result));
            }
        } finally {
            if (!args.has("work")) {
                Files2.delete(work.toFile());
            }
        }
        return ok ? 0 : 1;
    }

    private static Placement single(Args args) throws Exception {
        Map<String, String> settings = new HashMap<>();
        if (args.has("case")) {
            Json.read(new File(args.get("case"))).path("topicConfig").fields().forEachRemaining(e -> settings.put(e.getKey(), e.getValue().asText()));
        }
        settings.putAll(args.pairs("config"));
        TopicPartition from = LogDir.parse(args.get("topic-partition"));
        // an internal topic's name is the broker's own to make
        TopicPartition to = from.topic().startsWith("__") ? new TopicPartition("check" + from.topic(), from.partition()) : from;
        return new Placement(new File(args.get("log-dir")).getAbsoluteFile(), from, to, allowed(settings), args.has("out") ? args.get("out") : null, List.of());
    }

    /** Each line: {@code {"logDir", "topicPartition", "as", "config": {}, "out", "times": []}}; the last four need not be there. */
    private static List<Placement> jobs(Args args) throws Exception {
        List<Placement> placements = new ArrayList<>();
        for (String line : Files.readAllLines(Path.of(args.get("jobs")))) {
            JsonNode job = Json.MAPPER.readTree(line);
            TopicPartition from = LogDir.parse(job.get("topicPartition").asText());
            TopicPartition to = job.has("as") ? LogDir.parse(job.get("as").asText()) : from;
            Map<String, String> settings = new HashMap<>();
            job.path("config").fields().forEachRemaining(e -> settings.put(e.getKey(), e.getValue().asText()));
            settings.putAll(args.pairs("config"));
            String out = job.has("out") ? job.get("out").asText() : null;
            List<Long> times = new ArrayList<>();
            job.path("times").forEach(time -> times.add(time.asLong()));
            placements.add(new Placement(new File(job.get("logDir").asText()).getAbsoluteFile(), from, to, allowed(settings), out, times));
        }
        return placements;
    }

    private static Map<String, String> allowed(Map<String, String> settings) {
        if (settings.containsKey("segment.bytes") && Integer.parseInt(settings.get("segment.bytes")) < SMALLEST_SEGMENT_BYTES) {
            settings.put("internal.segment.bytes", settings.remove("segment.bytes"));
        }
        return settings;
    }

    private static ObjectNode check(Broker broker, Placement one) throws Exception {
        ObjectNode result = Json.object();
        result.put("topicPartition", one.from.toString());
        result.put("as", one.to.toString());
        boolean ok = true;
        for (String isolation : List.of("read_uncommitted", "read_committed")) {
            PrintStream out = one.out == null ? null : DumpCommand.open(new File(one.out + "." + isolation + ".jsonl"));
            ObjectNode read = Clients.readAll(broker.bootstrap(), one.to, isolation, out, 30_000);
            if (out != null) {
                out.close();
            }
            ok &= read.get("complete").asBoolean() || read.get("settled").asBoolean();
            result.set(isolation, read);
        }
        if (!one.times.isEmpty()) {
            result.set("offsetsForTimes", Clients.offsetsForTimes(broker.bootstrap(), one.to, one.times));
        }
        result.put("ok", ok);
        return result;
    }

    /** Sends one record to the partition and reads the partition again. */
    private static ObjectNode append(Broker broker, TopicPartition tp) throws Exception {
        RecordMetadata sent;
        try (KafkaProducer<byte[], byte[]> producer = Clients.producer(broker.bootstrap(), Map.of("acks", "all"))) {
            sent = producer.send(new ProducerRecord<>(tp.topic(), tp.partition(), "appended".getBytes(StandardCharsets.UTF_8),
                    "afterwards".getBytes(StandardCharsets.UTF_8))).get();
        }
        ObjectNode read = Clients.readAll(broker.bootstrap(), tp, "read_committed", null, 30_000);
        read.put("sentOffset", sent.offset());
        return read;
    }

    static void place(File source, TopicPartition from, File logs, TopicPartition to, boolean unclean) throws Exception {
        File target = new File(logs, to.topic() + "-" + to.partition());
        for (File file : target.listFiles()) {
            if (!file.getName().equals("partition.metadata")) {
                Files.delete(file.toPath());
            }
        }
        for (File file : new File(source, from.topic() + "-" + from.partition()).listFiles()) {
            if (!file.getName().equals("partition.metadata")) {
                Files.copy(file.toPath(), new File(target, file.getName()).toPath(), java.nio.file.StandardCopyOption.COPY_ATTRIBUTES);
            }
        }
        for (String name : List.of(LogDir.RECOVERY_POINTS, LogDir.LOG_START_OFFSETS, LogDir.HIGH_WATERMARKS, LogDir.CLEANER_OFFSETS)) {
            File theirs = new File(source, name);
            OffsetCheckpointFile ours = new OffsetCheckpointFile(new File(logs, name), null);
            Map<TopicPartition, Long> offsets = new File(logs, name).exists() ? ours.read() : new HashMap<>();
            offsets.remove(to);
            if (theirs.exists() && !(unclean && name.equals(LogDir.RECOVERY_POINTS))) {
                Long offset = new OffsetCheckpointFile(theirs, null).read().get(from);
                if (offset != null) {
                    offsets.put(to, offset);
                }
            }
            ours.write(offsets);
        }
        if (unclean) {
            Files.deleteIfExists(new File(logs, ".kafka_cleanshutdown").toPath());
        }
    }
}
