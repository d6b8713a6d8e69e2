"""The settings of topics that are kept in a log directory without metadata of a cluster."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from logwright.config.kept import (
    KEPT_FILE,
    LARGEST_KEPT_BYTES,
    KeptTopic,
    keep_topics,
    parse_kept,
    read_kept,
    serialize_kept,
)
from logwright.config.policies import Policies, load_policies
from logwright.config.resolved import Sources, disagreements, given_configs, resolve, settings_of
from logwright.config.sources import keep_given, keep_topic, read_sources
from logwright.errors import PolicyError, UnreadableFile
from logwright.metadata.model import ClusterMetadata, TopicMetadata
from logwright.units import Offset
from tests.metadata_builder import MetadataBuilder, config, topic, uuid_text

KEPT = KeptTopic(topic_id=uuid_text(7), configs={"cleanup.policy": "compact", "retention.ms": "5"})
CLUSTER = ClusterMetadata(
    path=Path("__cluster_metadata-0"),
    cluster_id="c",
    end_offset=Offset(1),
    snapshot=None,
    topics={"t": TopicMetadata(name="t", topic_id=uuid_text(1), partitions={})},
    topic_configs={},
    broker_configs={},
    features={},
)


def entries(directory: Path, text: str) -> Policies:
    directory.mkdir()
    (directory / "topics.yml").write_text(f"version: 1\n{text}")
    return load_policies(directory)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    """Topics that are kept later stand next to those of before, or in their place."""
    assert {} == read_kept(tmp_path)
    other = KeptTopic(configs={"segment.ms": "1"})
    keep_topics(tmp_path, {"t": KEPT, "u": other})
    keep_topics(tmp_path, {"u": KeptTopic(), "a.b": KEPT})
    assert {"t": KEPT, "u": KeptTopic(), "a.b": KEPT} == read_kept(tmp_path)
    assert [KEPT_FILE] == [path.name for path in tmp_path.iterdir()]


def test_what_is_kept_already_is_not_written_again(tmp_path: Path) -> None:
    """The file is the same one."""
    keep_topics(tmp_path, {"t": KEPT})
    before = (tmp_path / KEPT_FILE).stat()
    keep_topics(tmp_path, {"t": KEPT})
    assert before.st_ino == (tmp_path / KEPT_FILE).stat().st_ino


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"\xff",
        b'{"version":2,"topics":{}}',
        b'{"version":1}',
        b'{"version":1,"topics":{"a/b":{"id":null,"configs":{}}}}',
        b'{"version":1,"topics":{"t":{"id":"short","configs":{}}}}',
        b'{"version":1,"topics":{"t":{"id":null,"configs":{"a":1}}}}',
        b'{"version":1,"topics":{"t":{"id":null,"configs":{"A b":"1"}}}}',
        b'{"version":1,"topics":{"t":{"id":null,"configs":{},"more":1}}}',
        b'{"version":1,"topics":{"t":{"configs":{}}}}',
        b"[" * 100_000,
    ],
)
def test_another_form_is_refused_as_a_whole(tmp_path: Path, content: bytes) -> None:
    """By name; nothing replaces it, and --no-metadata passes over it."""
    path = tmp_path / KEPT_FILE
    path.write_bytes(content)
    with pytest.raises(UnreadableFile, match="not a file of topic settings") as caught:
        read_kept(tmp_path)
    assert path == caught.value.path
    with pytest.raises(UnreadableFile):
        keep_topics(tmp_path, {"t": KEPT})
    assert content == path.read_bytes()
    with pytest.raises(UnreadableFile, match="--no-metadata"):
        read_sources(tmp_path, policies=Policies(), command_line={})
    assert {} == read_sources(tmp_path, policies=Policies(), command_line={}, find=False).kept


def test_a_file_that_is_too_large_is_refused(tmp_path: Path) -> None:
    """It is not parsed."""
    content = serialize_kept({}).ljust(LARGEST_KEPT_BYTES + 1)
    with pytest.raises(UnreadableFile, match="larger than"):
        parse_kept(content, tmp_path / KEPT_FILE)
    assert {} == parse_kept(content[:-1], tmp_path / KEPT_FILE)


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    """A symbolic link has no settings."""
    (tmp_path / "elsewhere").write_bytes(serialize_kept({"t": KEPT}))
    (tmp_path / KEPT_FILE).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UnreadableFile):
        read_kept(tmp_path)


def test_what_is_kept_counts_as_the_topics_own(tmp_path: Path) -> None:
    """Below the command line and entries, above the policies' defaults; unknown names do not."""
    kept = replace(KEPT, configs={**KEPT.configs, "segment.ms": "6", "new.name": "1"})
    keep_topics(tmp_path, {"t": kept})
    policies = entries(
        tmp_path / "p", "defaults: {segment.ms: 9}\ntopics: [{name: t, retention.ms: 8}]\n"
    )
    sources = read_sources(tmp_path, policies=policies, command_line={"segment.bytes": "2000000"})
    settings = resolve(sources, "t")
    assert ("compact", "topic", KEPT_FILE) == (
        settings["cleanup.policy"].value,
        settings["cleanup.policy"].origin,
        settings["cleanup.policy"].where,
    )
    assert [("8", "policy"), ("6", "topic"), ("2000000", "command line")] == [
        (settings[name].value, settings[name].origin)
        for name in ("retention.ms", "segment.ms", "segment.bytes")
    ]
    assert () == disagreements(sources, "t")
    assert settings_of(sources, "t")[0].compact
    assert uuid_text(7) == sources.topic_id("t")
    assert sources.topic_id("u") is None


def test_kept_settings_without_a_policy_leave_it_unknown() -> None:
    """Kafka's default does not apply there."""
    sources = Sources(kept={"t": KeptTopic(configs={"retention.ms": "1"})})
    assert not settings_of(sources, "t")[0].policy_known


def test_where_the_cluster_knows_the_topic_it_alone_counts(tmp_path: Path) -> None:
    """What was kept is ignored, and nothing is kept."""
    sources = Sources(metadata=CLUSTER, kept={"t": KEPT}, command_line={"retention.ms": "4"})
    setting = resolve(sources, "t")["cleanup.policy"]
    assert ("delete", "default") == (setting.value, setting.origin)
    assert uuid_text(1) == sources.topic_id("t")
    keep_given(tmp_path, sources, "t")
    assert sources == keep_topic(tmp_path, sources, "t", KEPT)
    assert {} == read_kept(tmp_path)


def test_what_was_said_of_the_topic_is_kept(tmp_path: Path) -> None:
    """The command line and entries, and what was kept before; not the policies' defaults."""
    policies = entries(
        tmp_path / "p",
        "defaults: {segment.ms: 9, cleanup.policy: delete}\n"
        "topics: [{name: t, retention.ms: 8, segment.bytes: 3000000}]\n",
    )
    keep_topics(tmp_path, {"t": KEPT})
    sources = read_sources(tmp_path, policies=policies, command_line={"log.roll.hours": "1"})
    assert {
        "cleanup.policy": "compact",
        "retention.ms": "8",
        "segment.bytes": "3000000",
        "segment.ms": "3600000",
    } == given_configs(sources, "t")
    keep_given(tmp_path, sources, "t")
    expected = KeptTopic(topic_id=KEPT.topic_id, configs=given_configs(sources, "t"))
    assert {"t": expected} == read_kept(tmp_path)
    keep_given(tmp_path, replace(sources, command_line={}), "nothing.was.said")
    assert {"t"} == read_kept(tmp_path).keys()


def test_metadata_of_another_cluster_is_refused(tmp_path: Path) -> None:
    """A directory that belongs to one cluster is not maintained by the settings of another."""
    log_dir, other = tmp_path / "logs", tmp_path / "other"
    for place, cluster in ((log_dir, "c"), (other, "d")):
        place.mkdir()
        (place / "meta.properties").write_text(f"version=1\ncluster.id={cluster}\nnode.id=1\n")
    builder = MetadataBuilder(other)
    builder.segment(0, [topic("t", 1)], [config(2, "t", "cleanup.policy", "compact")])

    def read() -> Sources:
        return read_sources(log_dir, policies=Policies(), command_line={}, metadata=builder.path)

    with pytest.raises(PolicyError, match="cluster d"):
        read()
    (log_dir / "meta.properties").unlink()
    metadata = read().metadata
    assert metadata is not None
    assert "d" == metadata.cluster_id
