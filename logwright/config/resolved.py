"""Every effective config of a topic and what set it.

1. The levels, highest first: the command line; the entries of ``topics.yml`` for the topic; the
   cluster's metadata, by Kafka's own precedence: the topic's config, this broker's dynamic config,
   all brokers' dynamic default, ``server.properties``; the defaults of the policies; Kafka's
   default (KIP-226, DynamicBrokerConfig 4.3.0).
2. A broker's names stand for the topic configs whose synonyms they are, within their level.
3. A cleanup.policy that no level says is unknown, unless the cluster's metadata knows the topic:
   then Kafka's default is the answer.
4. Where an entry and the cluster disagree on what is deleted, and the entry has no ``override:
   true``, only what both would delete is deleted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any, Final, Literal

from pydantic import Field, TypeAdapter, ValidationError

from logwright.config.broker import SYNONYMS
from logwright.config.kept import KEPT_FILE, KeptTopic
from logwright.config.policies import Policies, TopicPolicy
from logwright.config.policy_models import INTERNAL_TOPICS
from logwright.config.properties import ServerProperties
from logwright.config.topic import (
    BROKER_NAMES,
    TOPIC_NAMES,
    CleanerConfig,
    TopicConfig,
    overlay,
    parse_settings,
)
from logwright.metadata.model import NO_IDS, ClusterMetadata, ConfigEntry, DirectoryIds

Origin = Literal[
    "topic", "broker", "cluster", "server.properties", "policy", "command line", "default"
]
UNKNOWN: Final = "unknown"
"""Shown as the value of a cleanup.policy that nothing says."""

_KAFKAS_DEFAULT: Final = "Kafka's default"
_POLICY: Final = "cleanup.policy"
_DELETING: Final = (_POLICY, "retention.ms", "retention.bytes")
"""What an entry of ``topics.yml`` may not say alone where the cluster says something else."""

_SAME_NAMES: Final = frozenset(
    {
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.type",
        "compression.zstd.level",
        "min.insync.replicas",
        "unclean.leader.election.enable",
    }
)
"""Topic configs whose broker default has the same name (ServerTopicConfigSynonyms)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """An effective value.

    Attributes:
        value: as Kafka's tools show it; `UNKNOWN` of a cleanup.policy that nothing says.
        where: the file and line, or the record's offset, for people.
    """

    value: str
    origin: Origin
    where: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """All that says something about the settings of one log directory.

    Attributes:
        command_line: the pairs of ``--config``.
        metadata: of the cluster; None: there is none.
        ids: of the log directory; its node's dynamic configs hold.
        kept: what `archive` and `ingest` kept of topics in the log directory, by name.
    """

    command_line: Mapping[str, str] = field(default_factory=dict)
    policies: Policies = field(default_factory=Policies)
    metadata: ClusterMetadata | None = None
    ids: DirectoryIds = NO_IDS
    kept: Mapping[str, KeptTopic] = field(default_factory=dict)
    properties: ServerProperties = field(default_factory=ServerProperties)

    def knows(self, topic: str) -> bool:
        """The cluster's metadata has the topic."""
        return self.metadata is not None and topic in self.metadata.topics

    def topic_id(self, topic: str) -> str | None:
        """The id of a topic by the cluster's metadata, else as it was kept; None: not known."""
        if self.metadata is not None and topic in self.metadata.topics:
            return self.metadata.topics[topic].topic_id
        return self.kept[topic].topic_id if topic in self.kept else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """The pairs of one source.

    Attributes:
        where: of each name, for people.
        entry: the entry of ``topics.yml``, if it is one.
    """

    origin: Origin
    pairs: Mapping[str, str]
    where: Mapping[str, str]
    entry: TopicPolicy | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreement:
    """An entry of ``topics.yml`` and the cluster say different things about what is deleted."""

    name: str
    entry: Setting
    cluster: Setting
    override: bool

    @property
    def sentence(self) -> str:
        """For people."""
        outcome = (
            "the entry overrides it"
            if self.override
            else "nothing is deleted because of the entry without `override: true` in it"
        )
        return (
            f"{self.name}={_shown(self.entry)} ({self.entry.where}), but the cluster has"
            f" {self.name}={_shown(self.cluster)} ({self.cluster.where}): {outcome}"
        )


def resolve(sources: Sources, topic: str) -> dict[str, Setting]:
    """Every topic config by name: its effective value and what set it.

    ``internal.segment.bytes`` is there only where it is set, as in Kafka's tools.
    """
    levels = _levels(sources, topic)
    known = sources.knows(topic)
    found = {name: _setting(name, levels, known=known) for name in sorted(TOPIC_NAMES)}
    if found["internal.segment.bytes"].origin == "default":
        del found["internal.segment.bytes"]
    return found


def settings_of(sources: Sources, topic: str) -> tuple[TopicConfig, CleanerConfig]:
    """The settings by which a topic is maintained.

    Raises:
        PolicyError: they are not valid.
    """
    return parse_settings(maintenance_pairs(sources, topic))


def maintenance_pairs(sources: Sources, topic: str) -> dict[str, str]:
    """The pairs of Kafka's names and values by which a topic is maintained: the effective ones,
    where an entry disagrees with the cluster those by which less is deleted.
    """
    pairs = effective_pairs(sources, topic)
    held = {
        one.name: _keeping(one.name, one.entry.value, one.cluster.value)
        for one in disagreements(sources, topic)
        if not one.override
    }
    return overlay(pairs, held)


def effective_pairs(sources: Sources, topic: str = "") -> dict[str, str]:
    """All levels as one set of pairs, a broker's own settings included."""
    pairs: dict[str, str] = {}
    for level in reversed(_levels(sources, topic)):
        pairs = overlay(pairs, level.pairs)
    names = {_POLICY, *(name for name, _ in SYNONYMS[_POLICY])}
    if sources.knows(topic) and not names & pairs.keys():
        pairs[_POLICY] = _default(_POLICY)
    return pairs


def disagreements(sources: Sources, topic: str) -> tuple[Disagreement, ...]:
    """Where an entry of ``topics.yml`` that holds for the topic says something else than the
    cluster about what is deleted.
    """
    if not sources.knows(topic):
        return ()
    levels = _levels(sources, topic)
    below = tuple(level for level in levels if level.origin not in ("command line", "policy"))
    found = []
    for name in _DELETING:
        level = next((one for one in levels if _given(one, name) is not None), None)
        if level is None or level.entry is None:
            continue
        entry = _setting(name, (level,), known=True)
        cluster = _setting(name, below, known=True)
        if not _alike(name, entry.value, cluster.value):
            override = level.entry.labels.override
            found.append(Disagreement(name=name, entry=entry, cluster=cluster, override=override))
    return tuple(found)


def _levels(sources: Sources, topic: str) -> tuple[Level, ...]:
    """Highest first."""
    policies, metadata = sources.policies, sources.metadata
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
            levels.append(_kept(sources.kept[topic]))
        pairs = INTERNAL_TOPICS.get(topic, {})
        where = dict.fromkeys(pairs, "what Kafka sets for this topic")
        levels.append(Level(origin="default", pairs=pairs, where=where))
    if metadata is not None:
        node = "" if sources.ids.node_id is None else str(sources.ids.node_id)
        topics, brokers = metadata.topic_configs, metadata.broker_configs
        levels.append(_records("topic", metadata, topics.get(topic, {}), TOPIC_NAMES))
        if node:
            levels.append(_records("broker", metadata, brokers.get(node, {}), _BROKER_LEVEL))
        levels.append(_records("cluster", metadata, brokers.get("", {}), _BROKER_LEVEL))
    properties = sources.properties
    levels.append(
        Level(
            origin="server.properties",
            pairs={
                name: value for name, value in properties.pairs.items() if name in _BROKER_LEVEL
            },
            where={name: f"{properties.path}:{line}" for name, line in properties.lines.items()},
        )
    )
    levels.append(
        Level(origin="policy", pairs=policies.defaults, where=_texts(policies.default_marks))
    )
    return tuple(levels)


def _kept(topic: KeptTopic) -> Level:
    pairs = {name: value for name, value in topic.configs.items() if name in TOPIC_NAMES}
    return Level(origin="topic", pairs=pairs, where=dict.fromkeys(pairs, KEPT_FILE))


def given_configs(sources: Sources, topic: str) -> dict[str, str]:
    """What was said of this topic itself: on the command line, in entries of ``topics.yml``, for
    the topic in the cluster, or what was kept of it.
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
                value=_as_kafka_shows(name, value),
                origin=level.origin,
                where=level.where.get(by, level.origin),
            )
    if name == _POLICY and not known:
        return Setting(value=UNKNOWN, origin="default", where="nothing says it")
    return Setting(value=_default(name), origin="default", where=_KAFKAS_DEFAULT)


def _given(level: Level, name: str) -> tuple[str, str] | None:
    """By which name a level says a topic config, and its value in the topic config's unit."""
    if name in level.pairs:
        return name, level.pairs[name]
    for synonym, factor in SYNONYMS.get(name, ()):
        if synonym in level.pairs:
            return synonym, _times(level.pairs[synonym], factor, endless=name == "retention.ms")
    return None


def _times(value: str, factor: int, *, endless: bool) -> str:
    """A broker's value in a topic config's unit. `endless`: below 0 is unlimited in any unit."""
    try:
        number = int(value)
    except ValueError:
        return value
    return "-1" if endless and number < 0 else str(number * factor)


def _alike(name: str, one: str, other: str) -> bool:
    if name == _POLICY:
        return _policies(one) == _policies(other)
    return one == other or (_number(one) < 0 and _number(other) < 0)


def _keeping(name: str, one: str, other: str) -> str:
    """The value by which nothing is deleted that either would keep."""
    if name == _POLICY:
        return ",".join(sorted(_policies(one) & _policies(other)))
    numbers = (_number(one), _number(other))
    return "-1" if min(numbers) < 0 else str(max(numbers))


def _policies(value: str) -> frozenset[str]:
    return frozenset(value.split(",")) - {""}


def _number(value: str) -> int:
    """A retention; below 0 is unlimited. What is no number keeps everything here: it is refused
    where the settings are checked.
    """
    try:
        return int(value)
    except ValueError:
        return -1


def _as_kafka_shows(name: str, raw: str) -> str:
    """A value as Kafka's tools show it; as it was written where it is not valid."""
    try:
        return _written(_adapter(name).validate_python(raw))
    except ValidationError:
        return raw


@cache
def _adapter(name: str) -> TypeAdapter[Any]:
    info = TopicConfig.model_fields[name.replace(".", "_")]
    kind: Any = Annotated[info.annotation, Field(), *info.metadata]
    return TypeAdapter(kind)


@cache
def _default(name: str) -> str:
    return _written(TopicConfig.model_fields[name.replace(".", "_")].default)


def _written(value: object) -> str:
    """As ConfigDef.convertToString writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ",".join(value)
    return "" if value is None else str(value)


def _texts(marks: Mapping[str, object]) -> dict[str, str]:
    return {name: str(mark) for name, mark in marks.items()}


def _shown(setting: Setting) -> str:
    return setting.value or "(empty)"


_BROKER_LEVEL: Final = BROKER_NAMES | _SAME_NAMES
