"""Settings: every name of Kafka 4.3, its type, range and precedence, and the rules between them."""

from __future__ import annotations

import logging
import pickle

import pytest

from logwright.config.kafka_version import VERSIONS, unknown_configs
from logwright.config.topic import (
    ALL_NAMES,
    TOPIC_NAMES,
    CleanerConfig,
    TopicConfig,
    overlay,
    parse_settings,
)
from logwright.errors import PolicyError

KAFKA_TOPIC_NAMES = [
    "cleanup.policy",
    "compression.gzip.level",
    "compression.lz4.level",
    "compression.type",
    "compression.zstd.level",
    "delete.retention.ms",
    "file.delete.delay.ms",
    "flush.messages",
    "flush.ms",
    "follower.replication.throttled.replicas",
    "index.interval.bytes",
    "internal.segment.bytes",
    "leader.replication.throttled.replicas",
    "local.retention.bytes",
    "local.retention.ms",
    "max.compaction.lag.ms",
    "max.decompressed.message.bytes",
    "max.message.bytes",
    "message.timestamp.after.max.ms",
    "message.timestamp.before.max.ms",
    "message.timestamp.type",
    "min.cleanable.dirty.ratio",
    "min.compaction.lag.ms",
    "min.insync.replicas",
    "preallocate",
    "remote.log.copy.disable",
    "remote.log.delete.on.disable",
    "remote.storage.enable",
    "retention.bytes",
    "retention.ms",
    "segment.bytes",
    "segment.index.bytes",
    "segment.jitter.ms",
    "segment.ms",
    "unclean.leader.election.enable",
]

INT64_MAX = 2**63 - 1


def topic(**pairs: str) -> TopicConfig:
    return parse_settings({name.replace("_", "."): value for name, value in pairs.items()})[0]


def problem(pairs: dict[str, str]) -> str:
    with pytest.raises(PolicyError) as caught:
        parse_settings(pairs)
    assert caught.value.exit_status == 2
    return str(caught.value)


def test_names_are_kafkas() -> None:
    """The topic config names are those of Kafka 4.3, and what is new since then."""
    assert sorted(KAFKA_TOPIC_NAMES) == sorted(TOPIC_NAMES - unknown_configs(VERSIONS[0]))


def test_a_policy_that_nothing_says_is_unknown() -> None:
    """Without a cleanup.policy, a topic's own or a broker's, nothing is compacted or deleted."""
    config, _ = parse_settings({"retention.ms": "1"})
    assert (False, False, False) == (config.policy_known, config.compact, config.delete)
    for name in ("cleanup.policy", "log.cleanup.policy"):
        config, _ = parse_settings({name: "delete"})
        assert (True, True) == (config.policy_known, config.delete)
    assert parse_settings({"cleanup.policy": ""})[0].policy_known


def test_defaults_are_kafkas() -> None:
    """Without any other pair the values are Kafka's defaults."""
    config, cleaner = parse_settings({"cleanup.policy": "delete"})
    assert config == TopicConfig()
    assert config.cleanup_policy == ("delete",)
    assert (
        config.segment_bytes,
        config.segment_ms,
        config.segment_index_bytes,
        config.index_interval_bytes,
    ) == (1_073_741_824, 604_800_000, 10_485_760, 4096)
    assert (
        config.retention_bytes,
        config.retention_ms,
        config.file_delete_delay_ms,
        config.delete_retention_ms,
    ) == (-1, 604_800_000, 60_000, 86_400_000)
    assert (
        config.min_compaction_lag_ms,
        config.max_compaction_lag_ms,
        config.min_cleanable_dirty_ratio,
        config.max_message_bytes,
    ) == (0, INT64_MAX, 0.5, 1_048_588)
    assert config.producer_id_expiration_ms == 86_400_000
    assert (
        cleaner.dedupe_buffer_bytes,
        cleaner.load_factor,
        cleaner.io_buffer_bytes,
        cleaner.io_max_bytes_per_second,
        cleaner.threads,
        cleaner.backoff_ms,
        cleaner.enable,
    ) == (134_217_728, 0.9, 524_288, 1.7976931348623157e308, None, 15_000, True)


@pytest.mark.parametrize(
    ("pairs", "field", "expected"),
    [
        ({"retention.ms": "5", "log.retention.ms": "6"}, "retention_ms", 5),
        ({"log.retention.ms": "6", "log.retention.minutes": "7"}, "retention_ms", 6),
        ({"log.retention.minutes": "7", "log.retention.hours": "8"}, "retention_ms", 420_000),
        ({"log.retention.hours": "8"}, "retention_ms", 28_800_000),
        ({"log.retention.hours": "-5"}, "retention_ms", -1),
        ({"log.retention.ms": "-1", "log.retention.hours": "0"}, "retention_ms", -1),
        ({"log.roll.ms": "9", "log.roll.hours": "2"}, "segment_ms", 9),
        ({"log.roll.hours": "2"}, "segment_ms", 7_200_000),
        ({"log.roll.jitter.hours": "1"}, "segment_jitter_ms", 3_600_000),
        ({"log.roll.jitter.ms": "0", "log.roll.jitter.hours": "1"}, "segment_jitter_ms", 0),
        ({"log.flush.scheduler.interval.ms": "4"}, "flush_ms", 4),
        ({"log.flush.interval.ms": "3", "log.flush.scheduler.interval.ms": "4"}, "flush_ms", 3),
        ({"log.retention.bytes": "-7"}, "retention_bytes", -7),
        ({"log.segment.delete.delay.ms": "1"}, "file_delete_delay_ms", 1),
        ({"log.cleaner.min.cleanable.ratio": "0.25"}, "min_cleanable_dirty_ratio", 0.25),
        ({"log.cleaner.delete.retention.ms": "0"}, "delete_retention_ms", 0),
        ({"log.cleaner.max.compaction.lag.ms": "2"}, "max_compaction_lag_ms", 2),
        ({"log.cleanup.policy": "compact,delete"}, "cleanup_policy", ("compact", "delete")),
        ({"log.index.size.max.bytes": "4"}, "segment_index_bytes", 4),
        ({"message.max.bytes": "1"}, "max_message_bytes", 1),
        ({"log.preallocate": "TRUE"}, "preallocate", True),
        ({"producer.id.expiration.ms": "1"}, "producer_id_expiration_ms", 1),
    ],
)
def test_broker_names_are_defaults(pairs: dict[str, str], field: str, expected: object) -> None:
    """A topic's own value wins; else the first broker name that is set, in the topic's unit."""
    assert expected == getattr(parse_settings(pairs)[0], field)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("compact", ("compact",)),
        ("compact,delete", ("compact", "delete")),
        ("delete, compact", ("delete", "compact")),
        ("compact,compact", ("compact",)),
        ("", ()),
    ],
)
def test_cleanup_policy_is_a_list(text: str, expected: tuple[str, ...]) -> None:
    """KIP-71: both with a comma between; KIP-1161: or nothing."""
    config = topic(cleanup_policy=text)
    assert expected == config.cleanup_policy
    assert ("compact" in expected, "delete" in expected) == (config.compact, config.delete)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("cleanup.policy", "compact,"),
        ("cleanup.policy", "Compact"),
        ("segment.bytes", "0"),
        ("segment.bytes", "2147483648"),
        ("segment.bytes", "1_000_000_000"),
        ("segment.bytes", "1e9"),
        ("segment.bytes", "2000000.0"),
        ("segment.bytes", ""),
        ("segment.ms", "0"),
        ("segment.ms", "9223372036854775808"),
        ("segment.index.bytes", "3"),
        ("index.interval.bytes", "-1"),
        ("retention.ms", "-2"),
        ("delete.retention.ms", "-1"),
        ("min.compaction.lag.ms", "-1"),
        ("max.compaction.lag.ms", "0"),
        ("min.cleanable.dirty.ratio", "1.01"),
        ("min.cleanable.dirty.ratio", "-0.1"),
        ("min.cleanable.dirty.ratio", "NaN"),
        ("min.cleanable.dirty.ratio", "half"),
        ("preallocate", "yes"),
        ("preallocate", "1"),
        ("segment.ms", "5\u2003"),
        ("segment.ms", "\U0001d7d3"),
        ("min.cleanable.dirty.ratio", "0x1"),
        ("min.cleanable.dirty.ratio", "0x1p99999"),
        ("min.cleanable.dirty.ratio", "-0x1p99999"),
        ("follower.replication.throttled.replicas", "0:1,*"),
        ("compression.type", "none"),
        ("compression.gzip.level", "0"),
        ("compression.gzip.level", "10"),
        ("compression.lz4.level", "0"),
        ("compression.zstd.level", "23"),
        ("message.timestamp.type", "createtime"),
        ("file.delete.delay.ms", "-1"),
        ("local.retention.ms", "-3"),
        ("log.segment.bytes", "1048575"),
        ("log.segment.bytes", "-1"),
        ("log.roll.hours", "0"),
        ("log.retention.ms", "0"),
        ("log.retention.hours", "0"),
        ("log.cleaner.threads", "-1"),
        ("log.cleaner.dedupe.buffer.size", "1048576"),
        ("log.cleaner.io.buffer.load.factor", "0"),
        ("log.cleaner.io.buffer.load.factor", "1.1"),
        ("producer.id.expiration.ms", "0"),
        ("log.dirs", "a,a"),
    ],
)
def test_bad_values_are_refused(name: str, text: str) -> None:
    """A value of a wrong type or out of range is refused, and the message names its config."""
    assert name in problem({name: text})


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("retention.ms", "0"),
        ("retention.ms", "-1"),
        ("segment.ms", " 5 "),
        ("delete.retention.ms", "+0"),
        ("min.cleanable.dirty.ratio", "0"),
        ("min.cleanable.dirty.ratio", "1"),
        ("min.cleanable.dirty.ratio", "5e-1"),
        ("min.cleanable.dirty.ratio", "0x1p-1"),
        ("min.cleanable.dirty.ratio", "1.0f"),
        ("message.timestamp.type", " CreateTime"),
        ("retention.ms", "0" * 5_000),
        ("leader.replication.throttled.replicas", "0:1,0:1"),
        ("compression.gzip.level", "-1"),
        ("compression.zstd.level", "-131072"),
        ("segment.index.bytes", "4"),
        ("log.cleaner.dedupe.buffer.size", "1048577"),
    ],
)
def test_limits_are_valid(name: str, text: str) -> None:
    """The outermost values of Kafka's ranges, in the forms that Kafka reads, are accepted."""
    parse_settings({name: text})


def test_dedupe_buffer_is_per_thread() -> None:
    """A broker wants more than 1 MiB of dedupe buffer for each cleaner thread."""
    pairs = {"log.cleaner.dedupe.buffer.size": "3145728", "log.cleaner.threads": "3"}
    assert "log.cleaner.dedupe.buffer.size" in problem(pairs)
    parse_settings(pairs | {"log.cleaner.threads": "2"})


@pytest.mark.parametrize(
    ("threads", "like_kafka", "share"),
    [
        ({}, False, 6_000_000_000),
        ({}, True, 2_147_483_647),
        ({"log.cleaner.threads": "1"}, False, 6_000_000_000),
        ({"log.cleaner.threads": "4"}, False, 1_500_000_000),
        ({"log.cleaner.threads": "4"}, True, 1_500_000_000),
    ],
)
def test_dedupe_buffer_is_divided(threads: dict[str, str], like_kafka: bool, share: int) -> None:
    """Each of the logs that are cleaned at once has an equal share; Kafka's is an int."""
    _, cleaner = parse_settings({"log.cleaner.dedupe.buffer.size": "6000000000"} | threads)
    assert share == cleaner.map_bytes(like_kafka=like_kafka)


def test_cleaner_buffer_may_be_small() -> None:
    """Next to a broker's setting the map may have any size over one slot."""
    cleaner = parse_settings({})[1].model_copy(update={"dedupe_buffer_bytes": 2400})
    assert cleaner == CleanerConfig(dedupe_buffer_bytes=2400)
    with pytest.raises(ValueError, match="greater than 24"):
        CleanerConfig(dedupe_buffer_bytes=24)


def test_min_lag_above_max_lag() -> None:
    """The least lag may not be above the greatest, on effective values; the message has both."""
    message = problem({"min.compaction.lag.ms": "11", "log.cleaner.max.compaction.lag.ms": "10"})
    assert "min.compaction.lag.ms=11" in message
    assert "max.compaction.lag.ms=10" in message
    assert topic(min_compaction_lag_ms="10", max_compaction_lag_ms="10").compact is False


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("cleanup.polcy", "'cleanup.policy'"),
        ("cleanup_policy", "'cleanup.policy'"),
        ("log.retention.hour", "'log.retention.hours'"),
        ("min.cleanable.ratio", "min.cleanable.dirty.ratio"),
        ("topic.cleanup.policy", "cleanup.policy"),
        ("cleaner.thread.pool.size", "log.cleaner.threads"),
        ("cleaner.buffer.size.bytes", "log.cleaner.dedupe.buffer.size"),
        ("cleaner.max.read.throughput", "log.cleaner.io.max.bytes.per.second"),
        ("cleaner.max.write.throughput", "log.cleaner.io.max.bytes.per.second"),
        ("cleaner.backoff.ms", "log.cleaner.backoff.ms"),
        ("message.format.version", "removed"),
        ("message.timestamp.difference.max.ms", "message.timestamp.before.max.ms"),
        ("message.downconversion.enable", "without effect"),
    ],
)
def test_unknown_names(name: str, hint: str) -> None:
    """An unknown name is refused with the nearest valid one, an old one with what 4.3 calls it."""
    message = problem({name: "1"})
    assert name in message
    assert hint in message


def test_dedupe_is_called_compact() -> None:
    """cleanup.policy=dedupe is refused with a hint."""
    assert "compact" in problem({"cleanup.policy": "dedupe"})


def test_tiered_storage_is_refused() -> None:
    """remote.storage.enable=true is refused, false is not."""
    assert "remote.storage.enable" in problem({"remote.storage.enable": "true"})
    assert topic(remote_storage_enable="false").remote_storage_enable is False


@pytest.mark.parametrize(
    ("pairs", "expected", "warned"),
    [
        ({"segment.bytes": "8192"}, 8192, True),
        ({"segment.bytes": "1048576"}, 1_048_576, False),
        ({"internal.segment.bytes": "100"}, 100, False),
        ({"internal.segment.bytes": "100", "segment.bytes": "8192"}, 100, False),
        ({"internal.segment.bytes": "100", "log.segment.bytes": "2000000"}, 100, False),
    ],
)
def test_internal_segment_bytes(
    pairs: dict[str, str], expected: int, warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """internal.segment.bytes wins; a segment.bytes under a broker's minimum is taken for it."""
    with caplog.at_level(logging.WARNING, logger="logwright"):
        assert expected == parse_settings(pairs)[0].segment_bytes
    assert warned == bool(caplog.records)


@pytest.mark.parametrize("name", ["flush.ms", "preallocate", "log.dir", "log.preallocate"])
def test_inert_names_are_mentioned(name: str, caplog: pytest.LogCaptureFixture) -> None:
    """A known config without effect on maintenance is accepted with a debug line."""
    text = {"flush.ms": "1", "log.dir": "/x"}.get(name, "true")
    with caplog.at_level(logging.DEBUG, logger="logwright"):
        parse_settings({name: text, "segment.ms": "5"})
    assert [f"config without effect on maintenance name={name}"] == caplog.messages


def test_every_name_has_a_type_and_a_source() -> None:
    """Each config says in its description what it counts or where it comes from."""
    assert len(ALL_NAMES) > 80
    for name, field in TopicConfig.model_fields.items():
        assert field.description, name


def test_settings_are_values() -> None:
    """Settings are frozen, compare by value, and cross process borders."""
    config, cleaner = parse_settings({"cleanup.policy": "compact", "segment.bytes": "8192"})
    assert (config, cleaner) == pickle.loads(pickle.dumps((config, cleaner)))  # noqa: S301, TID251
    with pytest.raises(ValueError, match="frozen"):
        config.segment_ms = 1  # type: ignore[misc]


@pytest.mark.parametrize(
    ("lower", "upper", "expected"),
    [
        ({"retention.ms": "1"}, {"log.retention.hours": "2"}, {"log.retention.hours": "2"}),
        ({"log.retention.ms": "1"}, {"log.retention.hours": "2"}, {"log.retention.hours": "2"}),
        ({"log.retention.ms": "1"}, {"retention.ms": "2"}, {"retention.ms": "2"}),
        ({"segment.ms": "1"}, {"retention.ms": "2"}, {"segment.ms": "1", "retention.ms": "2"}),
        ({"log.cleaner.threads": "1"}, {"log.cleaner.threads": "2"}, {"log.cleaner.threads": "2"}),
    ],
)
def test_overlay(lower: dict[str, str], upper: dict[str, str], expected: dict[str, str]) -> None:
    """The upper layer wins also where it uses another name of the same config."""
    assert expected == overlay(lower, upper)
