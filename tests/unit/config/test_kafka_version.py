"""Which Kafka a log directory is of, and what each Kafka knows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from logwright.config.kafka_version import BY_NAME, VERSIONS, ChosenVersion, choose, unknown_configs
from logwright.config.policies import load_policies
from logwright.config.properties import parse_properties
from logwright.config.resolved import Sources, resolve, settings_of
from logwright.config.topic import TOPIC_NAMES, parse_settings
from logwright.errors import PolicyError
from logwright.metadata.read import read_metadata
from tests.metadata_builder import (
    MetadataBuilder,
    config,
    feature,
    register_broker,
    topic,
    unregister_broker,
)

NEW_IN_4_4 = {
    "errors.deadletterqueue.group.enable",
    "remote.copy.lag.bytes",
    "remote.copy.lag.ms",
}
LEVEL = "metadata.version"


def chosen(
    registered: Mapping[int, int] | None = None,
    *,
    given: str | None = None,
    node_id: int | None = 1,
    level: int | None = None,
    fallback: str | None = None,
) -> ChosenVersion:
    """The version, by what the brokers registered."""
    return choose(
        given=given,
        registered={
            node: {LEVEL: level_of, "kraft.version": 1}
            for node, level_of in (registered or {}).items()
        },
        node_id=node_id,
        level=level,
        fallback=fallback,
    )


def test_the_newest_version_knows_all() -> None:
    """The three topic configs that 4.4 brought are unknown to 4.3; 4.4 knows all. A fourth came to
    the patch release 4.3.2, too.
    """
    assert NEW_IN_4_4 == TOPIC_NAMES & unknown_configs(VERSIONS[0])
    assert frozenset() == unknown_configs(VERSIONS[-1])


@pytest.mark.parametrize("name", sorted(NEW_IN_4_4))
def test_an_older_kafka_does_not_know_a_newer_config(name: str) -> None:
    """What Kafka 4.4 brought is refused for 4.3, with its name."""
    value = {"errors.deadletterqueue.group.enable": "true"}.get(name, "1")
    parse_settings({name: value})
    with pytest.raises(PolicyError, match=f"{name}={value} is invalid: Kafka 4.3 has no such"):
        parse_settings({name: value}, BY_NAME["4.3"])


@pytest.mark.parametrize(("level", "name"), [(7, "4.3"), (29, "4.3"), (30, "4.3"), (33, "4.4")])
def test_a_brokers_registration_decides(level: int, name: str) -> None:
    """Its own level counts, not that of others, of the cluster or of the policies."""
    version = chosen({1: level, 2: 99}, level=20, fallback="4.4" if name == "4.3" else "4.3")
    assert (name, False) == (version.version.name, version.assumed)
    assert f"broker 1 registered metadata.version up to {level}" in version.why


@pytest.mark.parametrize(("level", "name"), [(31, "4.3"), (34, "4.4")])
def test_a_broker_with_unstable_features_is_known(level: int, name: str) -> None:
    """Its level is one of its version, so its directory is not refused; that is said."""
    version = chosen({1: level})
    assert (name, True) == (version.version.name, version.assumed)
    assert "unstable.feature.versions.enable" in version.sentence


@pytest.mark.parametrize("level", [32, 35, 99])
def test_an_unknown_level_is_refused(level: int) -> None:
    """It may be of a newer Kafka; with a version given it is not asked for."""
    with pytest.raises(PolicyError, match=f"up to {level}, which no known version does") as caught:
        chosen({1: level})
    assert "--kafka-version" in str(caught.value)
    assert "4.3" == chosen({1: level}, given="4.3").version.name


def test_without_a_node_id_all_brokers_must_agree() -> None:
    """Then the version is theirs; else the next source decides."""
    assert "4.3" == chosen({1: 30, 2: 30}, node_id=None).version.name
    assert chosen({1: 30, 2: 33}, node_id=None).assumed


@pytest.mark.parametrize("others", [{1: 30, 2: 33}, {1: 33, 2: None}])
def test_brokers_that_disagree_are_said(others: dict[int, int | None]) -> None:
    """Also where the cluster's level or the policies decide then."""
    for version in (
        chosen(others, node_id=None, level=33),
        chosen(others, node_id=None, fallback="4.4"),
    ):
        assert ("4.4", True) == (version.version.name, version.assumed)
        assert "the brokers registered several highest" in version.sentence


def test_the_clusters_level_excludes_older_versions() -> None:
    """From 32 on no 4.3 broker starts; up to 31 it may be either; above 33 it is refused."""
    assert ["4.4", "4.4"] == [chosen(level=level).version.name for level in (32, 33)]
    assert [True, True] == [chosen(level=level).assumed for level in (30, 31)]
    with pytest.raises(PolicyError, match="is 34, above that of Kafka"):
        chosen(level=34)


def test_the_policies_come_before_the_newest(tmp_path: Path) -> None:
    """A version in the policies is for directories without another source; it must be known."""
    assert "4.3" == chosen(fallback="4.3").version.name
    assert ("4.4", True) == (chosen().version.name, chosen().assumed)
    (tmp_path / "p.yml").write_text("version: 1\nkafka_version: 4.3\n")
    assert "4.3" == load_policies(tmp_path).kafka_version
    (tmp_path / "p.yml").write_text("version: 1\nkafka_version: 4.5\n")
    with pytest.raises(PolicyError, match=r"kafka_version: must be one of 4\.3, 4\.4"):
        load_policies(tmp_path)
    with pytest.raises(PolicyError, match=r"Kafka '4\.5' is not known"):
        chosen(given="4.5")


def test_registrations_are_read_from_the_metadata(tmp_path: Path) -> None:
    """The last one of a broker counts; one that is unregistered has none; every version is read."""
    builder = MetadataBuilder(tmp_path)
    builder.segment(
        0,
        [feature(LEVEL, 30), register_broker(1, {LEVEL: 29}, version=0)],
        [register_broker(2, {LEVEL: 30}, version=3), register_broker(3, {LEVEL: 30}, version=2)],
        [register_broker(1, {LEVEL: 33, "share.version": 2}), unregister_broker(2)],
    )
    metadata = read_metadata(builder.path)
    assert {1: {LEVEL: 33, "share.version": 2}, 3: {LEVEL: 30}} == metadata.registered


def test_an_older_broker_ignores_a_newer_config_that_is_stored(tmp_path: Path) -> None:
    """In the metadata and server.properties of a 4.3 broker it has no effect; for 4.4 it has. One
    that a patch release of 4.3 has counts.
    """
    builder = MetadataBuilder(tmp_path)
    name, patched = "remote.copy.lag.bytes", "max.decompressed.message.bytes"
    stored = config(2, "t", name, "8"), config(2, "t", patched, "77")
    builder.segment(0, [topic("t", 1), *stored], [register_broker(1, {LEVEL: 33})])
    sources = Sources(
        metadata=read_metadata(builder.path),
        properties=parse_properties("log.remote.copy.lag.ms=5", Path("server.properties")),
    )
    newer, _ = settings_of(sources, "t")
    assert (77, 5) == (newer.max_decompressed_message_bytes, newer.remote_copy_lag_ms)
    assert ("8", "77") == tuple(resolve(sources, "t")[each].value for each in (name, patched))
    older = Sources(metadata=sources.metadata, properties=sources.properties, kafka_version="4.3")
    config_of_older, cleaner = settings_of(older, "t")
    assert (77, 0) == (
        config_of_older.max_decompressed_message_bytes,
        config_of_older.remote_copy_lag_ms,
    )
    assert "4.3" == cleaner.kafka.name
    assert name not in resolve(older, "t")
    assert "77" == resolve(older, "t")[patched].value
    assert patched not in resolve(older, "other"), "its patch release may not have it"
    assert patched in resolve(sources, "other")
    given, _ = parse_settings({patched: "5"}, BY_NAME["4.3"])
    assert 5 == given.max_decompressed_message_bytes
