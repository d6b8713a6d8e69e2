"""Every effective config of a topic and what set it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from logwright.config.policies import Policies, load_policies
from logwright.config.properties import ServerProperties, parse_properties
from logwright.config.resolved import (
    Sources,
    disagreements,
    effective_pairs,
    resolve,
    settings_of,
)
from logwright.config.topic import effective
from logwright.errors import PolicyError
from logwright.metadata.model import ClusterMetadata, ConfigEntry, DirectoryIds, TopicMetadata
from logwright.units import Offset

METADATA = Path("__cluster_metadata-0")


def entries(**pairs: str) -> dict[str, ConfigEntry]:
    """Records of configs; each one's offset is its place among them."""
    return {
        name.replace("_", "."): ConfigEntry(value=value, offset=Offset(number))
        for number, (name, value) in enumerate(pairs.items())
    }


def cluster(
    topic: Mapping[str, ConfigEntry] | None = None,
    brokers: Mapping[str, Mapping[str, ConfigEntry]] | None = None,
) -> ClusterMetadata:
    """A cluster with the topic ``t``."""
    return ClusterMetadata(
        path=METADATA,
        cluster_id="c",
        end_offset=Offset(9),
        snapshot=None,
        topics={"t": TopicMetadata(name="t", topic_id="AAAAAAAAAAAAAAAAAAAABA", partitions={})},
        topic_configs={} if topic is None else {"t": topic},
        broker_configs=brokers or {},
        features={},
    )


def policies(directory: Path, text: str) -> Policies:
    """Policies as read from a file."""
    (directory / "topics.yml").write_text("version: 1\n" + text)
    return load_policies(directory)


def properties(text: str) -> ServerProperties:
    """A broker's static settings."""
    return parse_properties(text, Path("server.properties"))


def test_each_level_hides_those_below(tmp_path: Path) -> None:
    """Command line, entry, topic, broker, cluster, server.properties, defaults, Kafka's default."""
    sources = Sources(
        command_line={"retention.ms": "1"},
        policies=policies(
            tmp_path,
            "defaults: {retention.ms: 7, log.segment.bytes: 7000000}\n"
            "topics: [{name: t, retention.ms: 2}]\n",
        ),
        metadata=cluster(
            entries(retention_ms="3"),
            {"1": entries(log_retention_ms="4"), "": entries(log_retention_ms="5")},
        ),
        ids=DirectoryIds(cluster_id=None, node_id=1, directory_id=None),
        properties=properties("log.retention.ms=6"),
    )
    origins = []
    for without in (
        {},
        {"command_line": {}},
        {"policies": replace(sources.policies, topics=())},
        {"metadata": cluster(None, sources.metadata and sources.metadata.broker_configs)},
        {"metadata": cluster(None, {"": entries(log_retention_ms="5")})},
        {"metadata": cluster()},
        {"properties": ServerProperties()},
        {"policies": Policies()},
    ):
        sources = replace(sources, **without)
        setting = resolve(sources, "t")["retention.ms"]
        origins.append((setting.value, setting.origin, setting.where.removeprefix(f"{tmp_path}/")))
    assert [
        ("1", "command line", "--config"),
        ("2", "policy", "topics.yml:3:20"),
        ("3", "topic", "__cluster_metadata-0 at offset 0"),
        ("4", "broker", "__cluster_metadata-0 at offset 0"),
        ("5", "cluster", "__cluster_metadata-0 at offset 0"),
        ("6", "server.properties", "server.properties:1"),
        ("7", "policy", "topics.yml:2:12"),
        ("604800000", "default", "Kafka's default"),
    ] == origins


def test_another_brokers_settings_do_not_count() -> None:
    """The dynamic configs of a broker are for its own node id only."""
    metadata = cluster(None, {"2": entries(log_segment_bytes="2000000")})
    assert (
        "default"
        == resolve(
            Sources(
                metadata=metadata, ids=DirectoryIds(cluster_id=None, node_id=1, directory_id=None)
            ),
            "t",
        )["segment.bytes"].origin
    )
    assert "default" == resolve(Sources(metadata=metadata), "t")["segment.bytes"].origin
    assert (
        "broker"
        == resolve(
            Sources(
                metadata=metadata, ids=DirectoryIds(cluster_id=None, node_id=2, directory_id=None)
            ),
            "t",
        )["segment.bytes"].origin
    )


def test_synonyms_have_the_topics_unit() -> None:
    """A broker's hours are milliseconds, the finer unit wins in its level, below 0 is unlimited."""
    sources = Sources(
        metadata=cluster(None, {"": entries(log_roll_ms="5")}),
        properties=properties(
            "log.retention.hours=2\nlog.roll.hours=3\nlog.roll.jitter.hours=1\n"
            "message.max.bytes=7\nmin.insync.replicas=2\nsegment.ms=9\nnode.id=1\n"
        ),
    )
    settings = {name: (one.value, one.origin) for name, one in resolve(sources, "t").items()}
    assert ("7200000", "server.properties") == settings["retention.ms"]
    assert ("5", "cluster") == settings["segment.ms"]
    assert ("3600000", "server.properties") == settings["segment.jitter.ms"]
    assert ("7", "server.properties") == settings["max.message.bytes"]
    assert ("2", "server.properties") == settings["min.insync.replicas"]
    endless = replace(sources, properties=properties("log.retention.hours=-1"))
    assert "-1" == resolve(endless, "t")["retention.ms"].value


def test_values_are_written_as_kafka_shows_them() -> None:
    """Blanks, signs and case are Kafka's parser's; a value that is not valid stays as it is."""
    given = {
        "cleanup.policy": "compact, delete",
        "segment.ms": " +5 ",
        "preallocate": "TRUE",
        "min.cleanable.dirty.ratio": "0.50",
        "flush.ms": "soon",
    }
    settings = resolve(Sources(command_line=given), "t")
    assert ["compact,delete", "5", "true", "0.5", "soon"] == [
        settings[name].value for name in given
    ]


def test_what_is_shown_is_what_holds() -> None:
    """The shown values are those that the settings are made of."""
    sources = Sources(
        command_line={"log.roll.hours": "3"},
        metadata=cluster(
            entries(cleanup_policy="compact", unknown_of_a_later_release="x"),
            {"": entries(log_cleaner_threads="4", log_segment_bytes="3000000", num_x="1")},
        ),
        properties=properties("log.segment.bytes=4000000\nlisteners=PLAINTEXT://:9092"),
    )
    shown = resolve(sources, "t")
    config, cleaner = settings_of(sources, "t")
    again, _ = effective({name: one.value for name, one in shown.items()})
    assert config == again
    assert (("compact",), 10_800_000, 3_000_000) == (
        config.cleanup_policy,
        config.segment_ms,
        config.segment_bytes,
    )
    assert 4 == cleaner.threads


def test_a_policy_is_known_by_the_cluster_or_not_at_all(tmp_path: Path) -> None:
    """Kafka's default answers only for a topic that the metadata knows."""
    assert ("unknown", "default") == _policy(Sources(), "t")
    assert not settings_of(Sources(), "t")[0].policy_known
    known = Sources(metadata=cluster())
    assert ("delete", "default") == _policy(known, "t")
    assert settings_of(known, "t")[0].delete
    assert ("unknown", "default") == _policy(known, "u")
    assert ("compact", "default") == _policy(known, "__consumer_offsets")
    reported = (
        replace(known, command_line={"cleanup.policy": "delete"}),
        replace(known, properties=properties("log.cleanup.policy=delete")),
        replace(known, policies=policies(tmp_path, "defaults: {cleanup.policy: delete}\n")),
        replace(known, metadata=cluster(None, {"": entries(log_cleanup_policy="delete")})),
    )
    assert [True] * 4 == [settings_of(sources, "u")[0].delete for sources in reported]


def test_internal_topics_have_what_their_cluster_says() -> None:
    """What Kafka sets for an internal topic is not assumed where the metadata knows the topic."""
    name = "__consumer_offsets"
    topic = TopicMetadata(name=name, topic_id="AAAAAAAAAAAAAAAAAAAABQ", partitions={})
    metadata = replace(
        cluster(),
        topics={name: topic},
        topic_configs={name: entries(cleanup_policy="compact", segment_bytes="2000000")},
    )
    config, _ = settings_of(Sources(metadata=metadata), name)
    assert (("compact",), 2_000_000, "producer") == (
        config.cleanup_policy,
        config.segment_bytes,
        config.compression_type,
    )


@pytest.mark.parametrize(
    ("entry", "own", "expected"),
    [
        ("cleanup.policy: delete", {"cleanup_policy": "compact"}, ("", "604800000", "-1")),
        (
            "cleanup.policy: [compact, delete]",
            {"cleanup_policy": "compact"},
            ("compact", None, None),
        ),
        ("cleanup.policy: compact", {"cleanup_policy": "compact,delete"}, ("compact", None, None)),
        ("retention.ms: 5", {"retention_ms": "7"}, ("delete", "7", "-1")),
        ("retention.ms: 9", {"retention_ms": "7"}, ("delete", "9", "-1")),
        ("retention.ms: 5", {"retention_ms": "-1"}, ("delete", "-1", "-1")),
        ("retention.ms: -1", {"retention_ms": "5"}, ("delete", "-1", "-1")),
        ("retention.bytes: 5", {}, ("delete", "604800000", "-1")),
        ("retention.ms: 5", {}, ("delete", "604800000", "-1")),
    ],
)
def test_an_entry_alone_deletes_nothing(
    tmp_path: Path, entry: str, own: dict[str, str], expected: tuple[str, str | None, str | None]
) -> None:
    """Where an entry and the cluster disagree, only what both would delete is deleted."""
    reported = policies(tmp_path, f"topics: [{{name: t, {entry}}}]\n")
    sources = Sources(policies=reported, metadata=cluster(entries(**own)))
    config, _ = settings_of(sources, "t")
    values = (
        ",".join(config.cleanup_policy),
        str(config.retention_ms),
        str(config.retention_bytes),
    )
    assert [one for one in expected if one is not None] == [
        value for value, origin in zip(values, expected, strict=True) if origin is not None
    ]
    (disagreement,) = disagreements(sources, "t")
    assert "only data that both would delete is deleted" in disagreement.sentence
    name = entry.partition(":")[0]
    assert "policy" == resolve(sources, "t")[name].origin


def test_an_entry_may_override(tmp_path: Path) -> None:
    """With ``override: true`` in the entry its value holds, and it is still said."""
    reported = policies(tmp_path, "topics: [{name: t, retention.ms: 5, override: true}]\n")
    sources = Sources(policies=reported, metadata=cluster())
    assert 5 == settings_of(sources, "t")[0].retention_ms
    assert [True] == [one.override for one in disagreements(sources, "t")]
    assert "the entry wins" in disagreements(sources, "t")[0].sentence


def test_only_the_entry_that_holds_can_override(tmp_path: Path) -> None:
    """An override in a less specific entry is not one of the entry whose value holds."""
    reported = policies(
        tmp_path,
        "topics: [{pattern: t, retention.ms: 4, override: true}, {name: t, retention.ms: 5}]\n",
    )
    sources = Sources(policies=reported, metadata=cluster())
    assert 604_800_000 == settings_of(sources, "t")[0].retention_ms


def test_no_disagreement(tmp_path: Path) -> None:
    """The same value in other words, the command line, and a topic that is not known, disagree with
    nothing.
    """
    reported = policies(
        tmp_path,
        "topics: [{name: t, cleanup.policy: [delete, compact], retention.ms: -1}]\n",
    )
    own = entries(cleanup_policy="compact,delete", retention_ms="-1")
    assert () == disagreements(Sources(policies=reported, metadata=cluster(own)), "t")
    given = {"cleanup.policy": "delete", "log.retention.hours": "1"}
    sources = Sources(command_line=given, policies=reported, metadata=cluster())
    assert () == disagreements(sources, "t")
    assert () == disagreements(Sources(policies=reported), "t")


def test_a_brokers_own_settings_follow_the_levels() -> None:
    """What is not a topic's config is found on the same levels."""
    sources = Sources(
        metadata=cluster(None, {"1": entries(log_cleaner_threads="3")}),
        ids=DirectoryIds(cluster_id=None, node_id=1, directory_id=None),
        properties=properties("log.cleaner.threads=2\nlog.cleaner.backoff.ms=1"),
    )
    pairs = effective_pairs(sources)
    assert ("3", "1") == (pairs["log.cleaner.threads"], pairs["log.cleaner.backoff.ms"])


def _policy(sources: Sources, topic: str) -> tuple[str, str]:
    setting = resolve(sources, topic)["cleanup.policy"]
    return setting.value, setting.origin


def test_contradicting_patterns_are_named(tmp_path: Path) -> None:
    """Two patterns that are valid by themselves: the error has the places of both."""
    sources = Sources(
        policies=policies(
            tmp_path,
            "topics:\n"
            "  - {pattern: t.*, min.compaction.lag.ms: 9}\n"
            "  - {pattern: .*t, max.compaction.lag.ms: 8}\n",
        )
    )
    with pytest.raises(PolicyError) as caught:
        settings_of(sources, "tt")
    assert str(caught.value) == (
        "min.compaction.lag.ms=9 is above max.compaction.lag.ms=8"
        f"; max.compaction.lag.ms is from {tmp_path}/topics.yml:4:20"
        f"; min.compaction.lag.ms is from {tmp_path}/topics.yml:3:20"
    )


@pytest.mark.parametrize(
    ("line", "known", "expected"),
    [
        ("log.dirs=/d", None, ("unknown", "default")),
        ("log.cleanup.policy=delete", None, ("delete", "server.properties")),
        ("log.dirs=/d", {}, ("delete", "default")),
        ("log.dirs=/d", {"cleanup_policy": "compact"}, ("compact", "topic")),
    ],
)
def test_server_properties_that_do_not_mention_the_policy(
    line: str, known: Mapping[str, str] | None, expected: tuple[str, str]
) -> None:
    """The broker's default holds for topics without a setting of their own, and only the metadata
    says which these are: without it, a topic that may be compacted is not deleted from.
    """
    metadata = None if known is None else cluster(entries(**known))
    sources = Sources(metadata=metadata, properties=properties(line))
    assert expected == _policy(sources, "t")
    policy = effective(effective_pairs(sources, "t"))[0]
    assert (policy.policy_known, policy.delete) == (
        expected[0] != "unknown",
        expected[0] == "delete",
    )
