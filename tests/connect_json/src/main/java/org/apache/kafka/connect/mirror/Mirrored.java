package org.apache.kafka.connect.mirror;

import org.apache.kafka.common.TopicPartition;

import java.util.List;
import java.util.Map;

/** Keys and values of MirrorMaker's own topics, by its own classes, whose methods are for this package. */
public final class Mirrored {
    private Mirrored() {
    }

    public static Map<String, List<byte[]>> records(long timeMs) {
        OffsetSync sync = new OffsetSync(new TopicPartition("orders", 3), 7, 5);
        Checkpoint checkpoint = new Checkpoint("gröup", new TopicPartition("orders", 3), 7, 5, "m");
        Heartbeat heartbeat = new Heartbeat("eu", "us", timeMs);
        return Map.of(
                "mm2-offset-syncs.eu.internal", List.of(sync.recordKey(), sync.recordValue()),
                "us.checkpoints.internal", List.of(checkpoint.recordKey(), checkpoint.recordValue()),
                "eu.heartbeats", List.of(heartbeat.recordKey(), heartbeat.recordValue()));
    }
}
