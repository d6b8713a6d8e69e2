package oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.kafka.common.DirectoryId;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.memory.MemoryPool;
import org.apache.kafka.common.message.LeaderChangeMessage;
import org.apache.kafka.common.metadata.AbortTransactionRecord;
import org.apache.kafka.common.metadata.BeginTransactionRecord;
import org.apache.kafka.common.metadata.EndTransactionRecord;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.loader.MetadataBatchLoader;
import org.apache.kafka.image.writer.ImageWriterOptions;
import org.apache.kafka.image.writer.RaftSnapshotWriter;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.metadata.SupportedConfigChecker;
import org.apache.kafka.raft.Batch;
import org.apache.kafka.raft.LeaderAndEpoch;
import org.apache.kafka.raft.internals.BatchBuilder;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.KRaftVersion;
import org.apache.kafka.server.common.OffsetAndEpoch;
import org.apache.kafka.snapshot.FileRawSnapshotWriter;
import org.apache.kafka.snapshot.RecordsSnapshotWriter;
import org.apache.kafka.snapshot.Snapshots;

import java.io.File;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.SplittableRandom;
import java.util.TreeMap;

/**
 * A metadata directory written by Kafka's own writers of raft batches and snapshots, from random changes, and what
 * Kafka's own image says of it: segments, snapshots, transactions, a torn tail. All follows from the seed.
 */
final class RandomMetadata {
    private static final long NOW = 1_760_000_000_000L;
    private static final int BUFFER = 1 << 20;

    private final SplittableRandom random;
    private final RandomChanges changes;
    private final Path dir;
    private final Time time = new FixedTime(NOW);
    private final MetadataBatchLoader loader;
    private final ObjectNode coverage = Json.object();
    private final List<Path> segments = new ArrayList<>();
    private MetadataImage image = MetadataImage.EMPTY;
    private int epoch = 1;
    private long next = 0;
    private long begin = -1;
    private long snapshot = -1;

    private RandomMetadata(long seed, Path dir) throws IOException {
        this.random = new SplittableRandom(seed);
        this.changes = new RandomChanges(random);
        this.dir = Files.createDirectories(dir);
        this.loader = new MetadataBatchLoader(KafkaLine.logContext(), time, (message, cause) -> {
            throw new IllegalStateException(message, cause);
        }, (delta, updated, manifest) -> image = updated, SupportedConfigChecker.TRUE);
        loader.resetToImage(image);
        roll();
    }

    static ObjectNode run(JsonNode request) throws IOException {
        Path dir = new File(request.get("out").asText(), "__cluster_metadata-0").toPath();
        return new RandomMetadata(request.get("seed").asLong(), dir).write(request.path("torn").asBoolean(true));
    }

    private ObjectNode write(boolean torn) throws IOException {
        append(changes.first());
        int batches = random.nextInt(4, 40);
        boolean snapshots = random.nextInt(3) > 0;
        for (int batch = 0; batch < batches; batch++) {
            int kind = random.nextInt(20);
            if (kind == 0) {
                leaderChange();
            } else if (kind == 1) {
                roll();
            } else if (kind == 2 && snapshots && begin < 0) {
                snapshot();
            } else if (kind <= 5) {
                transaction();
            } else {
                append(changes.batch());
            }
        }
        if (begin >= 0 && random.nextInt(3) > 0) {
            endTransaction(new ArrayList<>());
        }
        if (snapshots && begin < 0 && random.nextInt(6) == 0) {
            snapshot();
        }
        if (snapshots && begin < 0 && random.nextInt(6) == 0) {
            incompleteSnapshot();
        }
        if (torn && random.nextInt(4) == 0) {
            tornTail();
        }
        return answer();
    }

    private void count(String what) {
        coverage.put(what, coverage.path(what).asInt() + 1);
    }

    private void roll() throws IOException {
        if (segments.isEmpty() || Files.size(segments.get(segments.size() - 1)) > 0) {
            if (!segments.isEmpty()) {
                count("rolls");
            }
            segments.add(Files.createFile(dir.resolve(String.format("%020d.log", next))));
        }
    }

    private void put(MemoryRecords records) throws IOException {
        byte[] content = new byte[records.sizeInBytes()];
        records.buffer().duplicate().get(content);
        Files.write(segments.get(segments.size() - 1), content, StandardOpenOption.APPEND);
    }

    private MemoryRecords batch(List<ApiMessageAndVersion> records) {
        CompressionType codec = random.nextInt(10) < 7 ? CompressionType.NONE : CompressionType.forId(random.nextInt(5));
        BatchBuilder<ApiMessageAndVersion> builder = new BatchBuilder<>(ByteBuffer.allocate(BUFFER),
                MetadataRecordSerde.INSTANCE, Compression.of(codec).build(), next, NOW + next, epoch, BUFFER);
        records.forEach(record -> builder.appendRecord(record, new ObjectSerializationCache()));
        return builder.build();
    }

    private void append(List<ApiMessageAndVersion> records) throws IOException {
        if (records.isEmpty()) {
            return;
        }
        MemoryRecords written = batch(records);
        put(written);
        LeaderAndEpoch leader = new LeaderAndEpoch(OptionalInt.of(1), epoch);
        loader.loadBatch(Batch.data(next, epoch, NOW + next, written.sizeInBytes(), records), leader);
        loader.maybeFlushBatches(leader, true);
        next += records.size();
        if (begin < 0) {
            changes.flushed();
        }
    }

    /** Begins a transaction, or goes on with the one that is open, perhaps to its end; also all in one batch. */
    private void transaction() throws IOException {
        List<ApiMessageAndVersion> records = changes.batch();
        if (begin < 0) {
            changes.remember();
            begin = next + records.size();
            records.add(new ApiMessageAndVersion(new BeginTransactionRecord().setName(random.nextBoolean() ? "a name" : null), (short) 0));
            records.addAll(changes.batch());
            count("transactions");
        }
        if (random.nextInt(2) == 0) {
            endTransaction(records);
        } else {
            append(records);
        }
    }

    private void endTransaction(List<ApiMessageAndVersion> records) throws IOException {
        if (random.nextInt(2) == 0) {
            records.add(new ApiMessageAndVersion(new EndTransactionRecord(), (short) 0));
            if (random.nextBoolean()) {
                records.addAll(changes.batch());
            }
        } else {
            // the last of its batch: MetadataBatchLoader drops what was aborted at the end of the batch, and only if
            // no record follows, unlike the controller

            records.add(new ApiMessageAndVersion(new AbortTransactionRecord().setReason(random.nextBoolean() ? "a reason" : null), (short) 0));
            changes.forget();
            count("aborted");
        }
        begin = -1;
        append(records);
    }

    private void leaderChange() throws IOException {
        epoch++;
        put(MemoryRecords.withLeaderChangeMessage(next, NOW + next, epoch, ByteBuffer.allocate(1024),
                new LeaderChangeMessage().setLeaderId(1)));
        next++;
    }

    private void snapshot() throws IOException {
        OffsetAndEpoch id = new OffsetAndEpoch(next, epoch);
        if (next == snapshot) {
            return;
        }
        RecordsSnapshotWriter<ApiMessageAndVersion> writer = new RecordsSnapshotWriter.Builder()
                .setLastContainedLogTimestamp(NOW)
                .setTime(time)
                .setMaxBatchSizeBytes(8192)
                .setMemoryPool(MemoryPool.NONE)
                .setRawSnapshotWriter(FileRawSnapshotWriter.create(dir, id))
                .setKraftVersion(KRaftVersion.KRAFT_VERSION_0)
                .setVoterSet(Optional.empty())
                .build(MetadataRecordSerde.INSTANCE);
        try (writer) {
            RaftSnapshotWriter images = new RaftSnapshotWriter(writer, random.nextInt(1, 30));
            image.write(images, new ImageWriterOptions.Builder(image).setEligibleLeaderReplicasEnabled(image.features().isElrEnabled()).build());
            images.close(true);
        }
        snapshot = next;
        count("snapshots");
        if (random.nextBoolean()) {
            roll();
            while (segments.size() > 1) {
                Files.delete(segments.remove(0));
                count("segments deleted");
            }
        }
    }

    /** A later one than all others, cut somewhere; the log has all of it. */
    private void incompleteSnapshot() throws IOException {
        if (snapshot < 0 || next == snapshot) {
            return;
        }
        Path whole = Files.list(dir).filter(path -> path.toString().endsWith(Snapshots.SUFFIX)).sorted().reduce((a, b) -> b).get();
        byte[] content = Files.readAllBytes(whole);
        Path cut = dir.resolve(Snapshots.filenameFromSnapshotId(new OffsetAndEpoch(next, epoch)) + Snapshots.SUFFIX);
        Files.write(cut, Arrays.copyOf(content, random.nextInt(content.length)));
        count("incomplete snapshots");
    }

    private void tornTail() throws IOException {
        MemoryRecords written = batch(changes.changeEverything());
        byte[] whole = new byte[written.sizeInBytes()];
        written.buffer().duplicate().get(whole);
        byte[] content = whole.clone();
        Path last = segments.get(segments.size() - 1);
        switch (random.nextInt(3)) {
            case 0 -> content = Arrays.copyOf(content, random.nextInt(1, content.length));
            case 1 -> content[random.nextInt(21, content.length)] ^= (byte) (1 << random.nextInt(8));
            default -> Arrays.fill(content, random.nextInt(content.length - 1), content.length, (byte) 0);
        }
        if (!Arrays.equals(content, whole)) {
            Files.write(last, content, StandardOpenOption.APPEND);
            count("torn");
        }
    }

    private ObjectNode answer() {
        ObjectNode answer = Json.object();
        if (begin >= 0) {
            count("open transactions");
        }
        answer.put("end", begin >= 0 ? begin : next);
        answer.put("snapshot", snapshot);
        answer.put("migrating", DirectoryId.MIGRATING.toString());
        ObjectNode topics = answer.putObject("topics");
        image.topics().topicsByName().forEach((name, topic) -> {
            ObjectNode node = topics.putObject(name).put("id", topic.id().toString());
            ObjectNode partitions = node.putObject("partitions");
            topic.partitions().forEach((number, partition) -> {
                ObjectNode one = partitions.putObject(number.toString());
                ArrayNode replicas = one.putArray("replicas");
                Arrays.stream(partition.replicas).forEach(replicas::add);
                ArrayNode directories = one.putArray("directories");
                for (Uuid directory : partition.directories) {
                    directories.add(directory.toString());
                }
            });
        });
        ObjectNode topicConfigs = answer.putObject("topicConfigs");
        ObjectNode brokerConfigs = answer.putObject("brokerConfigs");
        image.configs().resourceData().forEach((resource, configs) -> {
            if (configs.isEmpty()) {
                return;
            }
            if (resource.type() == ConfigResource.Type.TOPIC) {
                configs.toMap().forEach(topicConfigs.putObject(resource.name())::put);
            } else if (resource.type() == ConfigResource.Type.BROKER) {
                configs.toMap().forEach(brokerConfigs.putObject(resource.name())::put);
            }
        });
        ObjectNode features = answer.putObject("features");
        new TreeMap<>(image.features().finalizedVersions()).forEach((name, level) -> features.put(name, level.intValue()));
        image.features().metadataVersion().ifPresent(version -> features.put("metadata.version", version.featureLevel()));
        answer.set("coverage", coverage);
        return answer;
    }
}
