"""Resolve the effective configs of a topic and where each comes from.

0. A config of a later Kafka than the broker's (`logwright.config.kafka_version`) is ignored where
   the broker ignores it: in the metadata and in ``server.properties``. Given here it is refused.
1. The levels, highest first: the command line; the topic's entries of ``topics.yml``; the cluster's
   metadata in Kafka's order: topic config, this broker's dynamic config, the dynamic default of all
   brokers, ``server.properties``; the defaults of the policies; Kafka's default (KIP-226,
   DynamicBrokerConfig 4.3.0).
2. Within a level, a broker config sets the topic configs that it is a synonym of.
3. A cleanup.policy that no level sets is unknown, unless the cluster's metadata has the topic: then
   it is Kafka's default. A server.properties without it says nothing of a topic's own.
4. If an entry and the cluster disagree on a setting that deletes data, and the entry has no
   ``override: true``, only data that both would delete is deleted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from logwright.config.broker import SYNONYMS
from logwright.config.kafka_version import (
    METADATA_VERSION,
    ChosenVersion,
    choose,
    unknown_configs,
)
from logwright.config.policies import Policies, TopicPolicy
from logwright.config.policy_models import INTERNAL_TOPICS
from logwright.config.properties import ServerProperties
from logwright.config.shown import as_kafka_shows, default_of
from logwright.config.topic import (
    BROKER_NAMES,
    TOPIC_NAMES,
    CleanerConfig,
    TopicConfig,
    overlay,
    parse_settings,
)
from logwright.errors import PolicyError, UnsupportedFormatError
from logwright.format.kept_topics import KEPT_FILE, KeptTopic
from logwright.format.names import TopicPartition
from logwright.metadata.model import NO_IDS, ClusterMetadata, ConfigEntry, DirectoryIds

Origin = Literal[
    "topic", "broker", "cluster", "server.properties", "policy", "command line", "default"
]
UNKNOWN: Final = "unknown"
"""Shown as the value of a cleanup.policy that no level sets."""

_KAFKAS_DEFAULT: Final = "Kafka's default"
_TIERED: Final = "remote.storage.enable"
_POLICY: Final = "cleanup.policy"
_DELETING: Final = (_POLICY, "retention.ms", "retention.bytes")
"""Configs for which an entry of ``topics.yml`` needs ``override`` to win over the cluster."""

_SAME_NAMES: Final = frozenset(
    {
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.type",
        "compression.zstd.level",
        "max.decompressed.message.bytes",
        "min.insync.replicas",
        "unclean.leader.election.enable",
    }
)
"""Topic configs whose broker default has the same name (ServerTopicConfigSynonyms)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The effective value of a config.

    Attributes:
        value: in the form of Kafka's tools; `UNKNOWN` for a cleanup.policy that no level sets.
        where: file and line, or the record's offset, as text.
    """

    value: str
    origin: Origin
    where: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """All sources of the settings of one log directory.

    Attributes:
        command_line: the pairs of ``--config``.
        metadata: the cluster's metadata, None if there is none.
        ids: ids of the log directory; its node's dynamic configs are used.
        kept: topic name → settings saved by `archive` and `ingest`.
        kafka_version: the version that was given, None if the sources decide.
    """

    command_line: Mapping[str, str] = field(default_factory=dict)
    policies: Policies = field(default_factory=Policies)
    metadata: ClusterMetadata | None = None
    ids: DirectoryIds = NO_IDS
    kept: Mapping[str, KeptTopic] = field(default_factory=dict)
    properties: ServerProperties = field(default_factory=ServerProperties)
    kafka_version: str | None = None

    @property
    def kafka(self) -> ChosenVersion:
        """The Kafka version of the directory's broker.

        Raises:
            PolicyError: as `choose`.
        """
        metadata = self.metadata
        return choose(
            given=self.kafka_version,
            registered={} if metadata is None else metadata.registered,
            node_id=self.ids.node_id,
            level=None if metadata is None else metadata.features.get(METADATA_VERSION),
            fallback=self.policies.kafka_version,
        )

    def knows(self, topic: str) -> bool:
        """Return whether the cluster's metadata has the topic."""
        return self.metadata is not None and topic in self.metadata.topics

    def replicas_of(self, partition: TopicPartition) -> tuple[int, ...]:
        """Return the node ids of a partition's replicas; none without metadata that has it."""
        return () if self.metadata is None else self.metadata.replicas_of(partition)

    def topic_id(self, topic: str) -> str | None:
        """Return a topic's id from the cluster's metadata, else the saved one, else None."""
        if self.metadata is not None and topic in self.metadata.topics:
            return self.metadata.topics[topic].topic_id
        return self.kept[topic].topic_id if topic in self.kept else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """The configs of one source.

    Attributes:
        where: config name → where it is set, as text.
        entry: the entry of ``topics.yml``, if the level is one.
    """

    origin: Origin
    pairs: Mapping[str, str]
    where: Mapping[str, str]
    entry: TopicPolicy | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreement:
    """An entry of ``topics.yml`` and the cluster disagree on a setting that deletes data."""

    name: str
    entry: Setting
    cluster: Setting
    override: bool

    @property
    def sentence(self) -> str:
        """The disagreement as one sentence."""
        outcome = (
            "the entry wins (override: true)"
            if self.override
            else "only data that both would delete is deleted, unless the entry has override: true"
        )
        return (
            f"{self.name}={_shown(self.entry)} ({self.entry.where}), but the cluster has"
            f" {self.name}={_shown(self.cluster)} ({self.cluster.where}): {outcome}"
        )


def resolve(sources: Sources, topic: str) -> dict[str, Setting]:
    """Return config name → its effective value and where it comes from.

    ``internal.segment.bytes`` is included only if it is set, as in Kafka's tools, and so are those
    that only some patch releases of the version have.
    """
    levels = _levels(sources, topic)
    known = sources.knows(topic)
    settings = {
        name: _setting(name, levels, known=known)
        for name in sorted(TOPIC_NAMES - unknown_configs(sources.kafka.version))
    }
    for name in ("internal.segment.bytes", *sources.kafka.version.patch_configs):
        if settings[name].origin == "default":
            del settings[name]
    return settings


def settings_of(sources: Sources, topic: str) -> tuple[TopicConfig, CleanerConfig]:
    """Return the effective settings of a topic.

    Raises:
        PolicyError: a setting is invalid; the message has where it is set.
        UnsupportedFormatError: the cluster keeps the topic in tiered storage.
    """
    try:
        return parse_settings(maintenance_pairs(sources, topic), sources.kafka.version)
    except PolicyError as error:
        named = {k: one for k, one in resolve(sources, topic).items() if f"{k}=" in error.problem}
        wrong = {name: one for name, one in named.items() if one.origin != "default"}
        places = [f"{name} is from {one.where}" for name, one in wrong.items()]
        tiered = {one.origin for name, one in wrong.items() if name == _TIERED} == {"topic"}
        kind = UnsupportedFormatError if tiered else PolicyError
        raise kind("; ".join([error.problem, *places])) from error


def maintenance_pairs(sources: Sources, topic: str) -> dict[str, str]:
    """Return the effective configs of a topic as name → value; where an entry disagrees with the
    cluster, the values that delete less.
    """
    pairs = effective_pairs(sources, topic)
    held = {
        disagreement.name: _keeping(
            disagreement.name, disagreement.entry.value, disagreement.cluster.value
        )
        for disagreement in disagreements(sources, topic)
        if not disagreement.override
    }
    return overlay(pairs, held)


def effective_pairs(sources: Sources, topic: str = "") -> dict[str, str]:
    """Return all levels merged into one set of pairs, including the broker's own settings."""
    pairs: dict[str, str] = {}
    for level in reversed(_levels(sources, topic)):
        pairs = overlay(pairs, level.pairs)
    names = {_POLICY, *(name for name, _ in SYNONYMS[_POLICY])}
    if sources.knows(topic) and not names & pairs.keys():
        pairs[_POLICY] = default_of(_POLICY)
    return pairs


def disagreements(sources: Sources, topic: str) -> tuple[Disagreement, ...]:
    """Return the disagreements between a topic's entries of ``topics.yml`` and the cluster on
    settings that delete data.
    """
    if not sources.knows(topic):
        return ()
    levels = _levels(sources, topic)
    below = tuple(level for level in levels if level.origin not in ("command line", "policy"))
    differing = []
    for name in _DELETING:
        level = next((one for one in levels if _given(one, name) is not None), None)
        if level is None or level.entry is None:
            continue
        entry = _setting(name, (level,), known=True)
        cluster = _setting(name, below, known=True)
        if not _alike(name, entry.value, cluster.value):
            override = level.entry.labels.override
            differing.append(
                Disagreement(name=name, entry=entry, cluster=cluster, override=override)
            )
    return tuple(differing)


def _levels(sources: Sources, topic: str) -> tuple[Level, ...]:
    """Return the levels, highest first."""
    policies, metadata = sources.policies, sources.metadata
    later = unknown_configs(sources.kafka.version)
    of_topics, of_brokers = TOPIC_NAMES - later, _BROKER_LEVEL - later
    levels = [
        Level(
            origin="command line",
            pairs=sources.command_line,
            where=dict.fromkeys(sources.command_line, "--config"),
        )
    ]
    levels += [
        Level(origin="policy", pairs=entry.settings, where=_texts(entry.marks), entry=entry)
        for entry in reversed(policies.entries_for(topic))
    ]
    if not sources.knows(topic):
        if topic in sources.kept:
            levels.append(_kept(sources.kept[topic], of_topics))
        pairs = INTERNAL_TOPICS.get(topic, {})
        where = dict.fromkeys(pairs, "Kafka's setting of this internal topic")
        levels.append(Level(origin="default", pairs=pairs, where=where))
    if metadata is not None:
        node = "" if sources.ids.node_id is None else str(sources.ids.node_id)
        topics, brokers = metadata.topic_configs, metadata.broker_configs
        levels.append(_records("topic", metadata, topics.get(topic, {}), of_topics))
        if node:
            levels.append(_records("broker", metadata, brokers.get(node, {}), of_brokers))
        levels.append(_records("cluster", metadata, brokers.get("", {}), of_brokers))
    properties = sources.properties
    levels.append(
        Level(
            origin="server.properties",
            pairs={name: value for name, value in properties.pairs.items() if name in of_brokers},
            where={name: f"{properties.path}:{line}" for name, line in properties.lines.items()},
        )
    )
    levels.append(
        Level(origin="policy", pairs=policies.defaults, where=_texts(policies.default_marks))
    )
    return tuple(levels)


def _kept(topic: KeptTopic, names: frozenset[str]) -> Level:
    pairs = {name: value for name, value in topic.configs.items() if name in names}
    return Level(origin="topic", pairs=pairs, where=dict.fromkeys(pairs, KEPT_FILE))


def given_configs(sources: Sources, topic: str) -> dict[str, str]:
    """Return the configs that are set for this topic itself: on the command line, in entries of
    ``topics.yml``, in the cluster's topic config, or saved in the log directory.
    """
    levels = tuple(
        level
        for level in _levels(sources, topic)
        if level.entry is not None or level.origin in ("command line", "topic")
    )
    return {
        name: _setting(name, levels, known=True).value
        for name in sorted(TOPIC_NAMES)
        if any(_given(level, name) is not None for level in levels)
    }


def _records(
    origin: Origin,
    metadata: ClusterMetadata,
    entries: Mapping[str, ConfigEntry],
    names: frozenset[str],
) -> Level:
    known = {name: entry for name, entry in entries.items() if name in names}
    return Level(
        origin=origin,
        pairs={name: entry.value for name, entry in known.items()},
        where={name: f"{metadata.path} at offset {entry.offset}" for name, entry in known.items()},
    )


def _setting(name: str, levels: tuple[Level, ...], *, known: bool) -> Setting:
    for level in levels:
        given = _given(level, name)
        if given is not None:
            by, value = given
            return Setting(
                value=as_kafka_shows(name, value),
                origin=level.origin,
                where=level.where.get(by, level.origin),
            )
    if name == _POLICY and not known:
        return Setting(value=UNKNOWN, origin="default", where="not set anywhere")
    return Setting(value=default_of(name), origin="default", where=_KAFKAS_DEFAULT)


def _given(level: Level, name: str) -> tuple[str, str] | None:
    """Return the name by which a level sets a topic config, and the value in its unit."""
    if name in level.pairs:
        return name, level.pairs[name]
    for synonym, factor in SYNONYMS.get(name, ()):
        if synonym in level.pairs:
            return synonym, _times(level.pairs[synonym], factor, endless=name == "retention.ms")
    return None


def _times(value: str, factor: int, *, endless: bool) -> str:
    """Convert a broker's value to a topic config's unit. `endless`: below 0 means unlimited."""
    try:
        number = int(value)
    except ValueError:
        return value
    return "-1" if endless and number < 0 else str(number * factor)


def _alike(name: str, value: str, other: str) -> bool:
    if name == _POLICY:
        return _policies(value) == _policies(other)
    return value == other or (_number(value) < 0 and _number(other) < 0)


def _keeping(name: str, value: str, other: str) -> str:
    """Return the value that deletes only data that both values would delete."""
    if name == _POLICY:
        return ",".join(sorted(_policies(value) & _policies(other)))
    numbers = (_number(value), _number(other))
    return "-1" if min(numbers) < 0 else str(max(numbers))


def _policies(value: str) -> frozenset[str]:
    return frozenset(value.split(",")) - {""}


def _number(value: str) -> int:
    """Parse a retention; below 0 means unlimited. An invalid number keeps everything here and is
    refused by the validation of the settings.
    """
    try:
        return int(value)
    except ValueError:
        return -1


def _texts(marks: Mapping[str, object]) -> dict[str, str]:
    return {name: str(mark) for name, mark in marks.items()}


def _shown(setting: Setting) -> str:
    return setting.value or "(empty)"


_BROKER_LEVEL: Final = BROKER_NAMES | _SAME_NAMES
