package oracle;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.metadata.ConfigRecord;
import org.apache.kafka.common.metadata.FeatureLevelRecord;
import org.apache.kafka.common.metadata.NoOpRecord;
import org.apache.kafka.common.metadata.PartitionChangeRecord;
import org.apache.kafka.common.metadata.PartitionRecord;
import org.apache.kafka.common.metadata.ProducerIdsRecord;
import org.apache.kafka.common.metadata.RemoveTopicRecord;
import org.apache.kafka.common.metadata.TopicRecord;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.MetadataVersion;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SplittableRandom;

/** Random records that a controller could write: of topics that are there, in the versions of the cluster's metadata version. */
final class RandomChanges {
    private static final int TOPICS = 8;
    private static final int REPLICAS = 3;
    private static final List<String> NAMES = List.of("cleanup.policy", "retention.ms", "retention.bytes", "segment.ms",
            "delete.retention.ms", "min.cleanable.dirty.ratio", "log.cleaner.min.compaction.lag.ms", "x");
    private static final List<String> VALUES = List.of("compact", "delete", "compact,delete", "", "-1", "ünï ✓", "9223372036854775807");
    private static final List<String> FEATURES = List.of("transaction.version", "group.version", "eligible.leader.replicas.version", "share.version");
    private static final List<MetadataVersion> VERSIONS = List.of(MetadataVersion.IBP_3_3_IV3, MetadataVersion.IBP_3_6_IV2,
            MetadataVersion.IBP_3_7_IV2, MetadataVersion.IBP_4_0_IV0, MetadataVersion.latestProduction());

    private record Topic(Uuid id, Map<Integer, Integer> replicas) {
        Topic copy() {
            return new Topic(id, new LinkedHashMap<>(replicas));
        }
    }

    private final SplittableRandom random;
    private Map<String, Topic> topics = new LinkedHashMap<>();
    private Map<String, Topic> remembered;
    private final Set<String> configured = new HashSet<>();
    private MetadataVersion version;
    private MetadataVersion rememberedVersion;

    RandomChanges(SplittableRandom random) {
        this.random = random;
        this.version = VERSIONS.get(random.nextInt(VERSIONS.size()));
    }

    /** The metadata version that all begins with. */
    List<ApiMessageAndVersion> first() {
        return new ArrayList<>(List.of(feature(MetadataVersion.FEATURE_NAME, version.featureLevel())));
    }

    /** What is there now: a transaction that is aborted leaves it. */
    void remember() {
        remembered = new LinkedHashMap<>();
        topics.forEach((name, topic) -> remembered.put(name, topic.copy()));
        rememberedVersion = version;
    }

    void forget() {
        topics = remembered;
        version = rememberedVersion;
    }

    /** All changes so far are in the image. */
    void flushed() {
        configured.clear();
    }

    /** Records of zero to four changes. */
    List<ApiMessageAndVersion> batch() {
        List<ApiMessageAndVersion> records = new ArrayList<>();
        int count = random.nextInt(5);
        for (int i = 0; i < count; i++) {
            change(records);
        }
        return records;
    }

    /** Settings that show if they are taken for valid. */
    List<ApiMessageAndVersion> changeEverything() {
        List<ApiMessageAndVersion> records = new ArrayList<>();
        for (int topic = 0; topic < TOPICS; topic++) {
            records.add(config(ConfigResource.Type.TOPIC, "t" + topic, "torn", "torn"));
        }
        return records;
    }

    private void change(List<ApiMessageAndVersion> records) {
        String name = "t" + random.nextInt(TOPICS);
        Topic topic = topics.get(name);
        switch (random.nextInt(12)) {
            case 0, 1, 2, 3 -> topicConfig(records, name);
            case 4 -> records.add(config(ConfigResource.Type.BROKER, List.of("", "1", "2").get(random.nextInt(3)), name(), value()));
            case 5 -> records.add(random.nextBoolean()
                    ? config(random.nextBoolean() ? ConfigResource.Type.CLIENT_METRICS : ConfigResource.Type.GROUP, name, name(), value())
                    : new ApiMessageAndVersion(new ProducerIdsRecord().setNextProducerId(random.nextInt(100)), (short) 0));
            case 6 -> feature(records);
            case 7 -> records.add(new ApiMessageAndVersion(new NoOpRecord(), (short) 0));
            case 8 -> {
                // MetadataDelta keeps the configs of a topic that is removed in the same delta, unlike the controller
                if (topic != null && !configured.contains(name)) {
                    records.add(new ApiMessageAndVersion(new RemoveTopicRecord().setTopicId(topic.id()), (short) 0));
                    topics.remove(name);
                }
            }
            default -> {
                if (topic == null) {
                    create(records, name);
                } else {
                    partition(records, topic);
                }
            }
        }
    }

    private void create(List<ApiMessageAndVersion> records, String name) {
        Topic topic = new Topic(uuid(), new LinkedHashMap<>());
        topics.put(name, topic);
        records.add(new ApiMessageAndVersion(new TopicRecord().setName(name).setTopicId(topic.id()), (short) 0));
        for (int i = random.nextInt(3); i > 0; i--) {
            topicConfig(records, name);
        }
        for (int partition = random.nextInt(1, 4); partition > 0; partition--) {
            add(records, topic, partition - 1);
        }
    }

    private void partition(List<ApiMessageAndVersion> records, Topic topic) {
        int partition = random.nextInt(topic.replicas().size() + 1);
        if (!topic.replicas().containsKey(partition)) {
            add(records, topic, partition);
            return;
        }
        PartitionChangeRecord change = new PartitionChangeRecord().setPartitionId(partition).setTopicId(topic.id());
        boolean directories = version.isDirectoryAssignmentSupported();
        int count = topic.replicas().get(partition);
        switch (random.nextInt(3)) {
            case 0 -> change.setIsr(List.of(1)).setLeader(random.nextInt(-1, 3));
            case 1 -> {
                // without directories only as many replicas as there are
                count = directories ? random.nextInt(1, REPLICAS + 1) : count;
                change.setReplicas(replicas(count)).setIsr(List.of(1)).setAddingReplicas(List.of()).setRemovingReplicas(List.of(9));
                if (directories) {
                    change.setDirectories(uuids(count));
                }
            }
            default -> {
                if (directories) {
                    change.setDirectories(uuids(count));
                } else {
                    change.setLeaderRecoveryState((byte) 0);
                }
            }
        }
        topic.replicas().put(partition, count);
        if (version.isElrSupported() && random.nextBoolean()) {
            change.setEligibleLeaderReplicas(List.of(2)).setLastKnownElr(List.of(3));
        }
        records.add(new ApiMessageAndVersion(change, version.partitionChangeRecordVersion()));
    }

    private void add(List<ApiMessageAndVersion> records, Topic topic, int partition) {
        int count = random.nextInt(1, REPLICAS + 1);
        topic.replicas().put(partition, count);
        PartitionRecord record = new PartitionRecord().setPartitionId(partition).setTopicId(topic.id())
                .setReplicas(replicas(count)).setIsr(replicas(count)).setLeader(1).setLeaderEpoch(random.nextInt(5));
        if (version.isDirectoryAssignmentSupported()) {
            record.setDirectories(uuids(count));
        }
        records.add(new ApiMessageAndVersion(record, version.partitionRecordVersion()));
    }

    private void topicConfig(List<ApiMessageAndVersion> records, String name) {
        configured.add(name);
        records.add(config(ConfigResource.Type.TOPIC, name, name(), value()));
    }

    private void feature(List<ApiMessageAndVersion> records) {
        if (random.nextInt(4) == 0) {
            version = VERSIONS.get(random.nextInt(VERSIONS.indexOf(version), VERSIONS.size()));
            records.add(feature(MetadataVersion.FEATURE_NAME, version.featureLevel()));
        } else {
            records.add(feature(FEATURES.get(random.nextInt(FEATURES.size())), (short) random.nextInt(2)));
        }
    }

    private static ApiMessageAndVersion feature(String name, short level) {
        return new ApiMessageAndVersion(new FeatureLevelRecord().setName(name).setFeatureLevel(level), (short) 0);
    }

    private static ApiMessageAndVersion config(ConfigResource.Type type, String resource, String name, String value) {
        return new ApiMessageAndVersion(new ConfigRecord().setResourceType(type.id()).setResourceName(resource).setName(name).setValue(value), (short) 0);
    }

    private String name() {
        return NAMES.get(random.nextInt(NAMES.size()));
    }

    private String value() {
        int kind = random.nextInt(4);
        if (kind == 0) {
            return null;
        }
        return kind == 1 ? VALUES.get(random.nextInt(VALUES.size())) : Integer.toString(random.nextInt(100_000));
    }

    private List<Integer> replicas(int count) {
        List<Integer> found = new ArrayList<>();
        int first = random.nextInt(10);
        for (int i = 0; i < count; i++) {
            found.add(first + i);
        }
        return found;
    }

    private List<Uuid> uuids(int count) {
        List<Uuid> found = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            found.add(uuid());
        }
        return found;
    }

    private Uuid uuid() {
        return new Uuid(random.nextLong(), random.nextLong());
    }
}
