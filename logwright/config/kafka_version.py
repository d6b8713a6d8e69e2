"""What differs between the Kafka versions that are known, and which one a log directory belongs to.

This is the one place where the next version goes: a `KafkaVersion` in `VERSIONS`. What is not a
field of it is the same in all of them.

Nothing in a log directory names the version of its broker. The first of these decides:

1. what was given: ``--kafka-version``, or LOGWRIGHT_KAFKA_VERSION on the platform;
2. what the directory's broker registered in the cluster's metadata when it last started: the
   highest ``metadata.version`` that its software supports, whatever level the cluster has. A level
   above those of `VERSIONS` or between them is refused: it may be of a newer Kafka. If it is not
   known which broker it is, all of them decide, if they agree;
3. the cluster's ``metadata.version``, which excludes older versions only;
4. ``kafka_version`` of the policies;
5. the newest version.

What may be otherwise is said: the newest version, a level that only ``unstable.feature.versions.
enable`` gives, brokers that disagree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

from logwright.errors import PolicyError

METADATA_VERSION: Final = "metadata.version"
UNSTABLE: Final = "unstable.feature.versions.enable"
REMEDY: Final = "Say with --kafka-version (in Dagster LOGWRIGHT_KAFKA_VERSION) how to treat it."


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaVersion:
    """A Kafka version, as far as versions differ for logs at rest.

    Attributes:
        name: its first two numbers.
        metadata_version: the highest ``metadata.version`` that its brokers register.
        unstable_metadata_version: the same with ``unstable.feature.versions.enable``.
        keeps_empty_at: where a cleaning keeps the header of a last batch that lost all of its
            records: at the end of the cleaned range, or at the high watermark (KAFKA-20452).
        new_configs: the names of topics' and brokers' configs that no version before it knows.
        patch_configs: those of later versions that a patch release of it has. Which patch a broker
            has is unknown: they count where they are set.
    """

    name: str
    metadata_version: int
    unstable_metadata_version: int
    keeps_empty_at: Literal["range end", "high watermark"]
    new_configs: frozenset[str] = frozenset()
    patch_configs: frozenset[str] = frozenset()


VERSIONS: Final = (
    KafkaVersion(
        name="4.3",
        metadata_version=30,
        unstable_metadata_version=31,
        keeps_empty_at="range end",
        patch_configs=frozenset({"max.decompressed.message.bytes"}),  # 4.2.2 and 4.3.2
    ),
    KafkaVersion(
        name="4.4",
        metadata_version=33,
        unstable_metadata_version=34,
        keeps_empty_at="high watermark",
        new_configs=frozenset(
            {
                "errors.deadletterqueue.auto.create.topics.enable",
                "errors.deadletterqueue.group.enable",
                "errors.deadletterqueue.topic.name.prefix",
                "log.remote.copy.lag.bytes",
                "log.remote.copy.lag.ms",
                "max.decompressed.message.bytes",
                "remote.copy.lag.bytes",
                "remote.copy.lag.ms",
            }
        ),
    ),
)
"""All known versions, the oldest first."""

BY_NAME: Final[Mapping[str, KafkaVersion]] = {version.name: version for version in VERSIONS}
NEWEST: Final = VERSIONS[-1]


def kafka_version(name: str) -> KafkaVersion:
    """Return a version by its name.

    Raises:
        PolicyError: it is not known.
    """
    version = BY_NAME.get(name)
    if version is None:
        raise PolicyError(f"Kafka {name!r} is not known: must be one of {', '.join(BY_NAME)}.")
    return version


def unknown_configs(version: KafkaVersion) -> frozenset[str]:
    """Return the names of configs that later versions have and no patch release of this one."""
    later = VERSIONS[VERSIONS.index(version) + 1 :]
    return frozenset().union(*(one.new_configs for one in later)) - version.patch_configs


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenVersion:
    """The version of a log directory's broker.

    Attributes:
        why: what decided, as part of a sentence.
        assumed: it may be another one: no source has it, or a source leaves it open.
    """

    version: KafkaVersion
    why: str
    assumed: bool = False

    @property
    def sentence(self) -> str:
        """One sentence for people."""
        return f"Logs are treated as by Kafka {self.version.name}: {self.why}."


def by_registration(node: str, level: int) -> ChosenVersion:
    """Return the version of a broker that registered this highest ``metadata.version``.

    Raises:
        PolicyError: no known version registers it.
    """
    registered = f"{node} registered {METADATA_VERSION} up to {level}"
    oldest = VERSIONS[0]
    if level < oldest.metadata_version:
        return ChosenVersion(
            version=oldest, why=f"the oldest version known; {registered}, so it is older"
        )
    for version in VERSIONS:
        if version.metadata_version == level:
            return ChosenVersion(version=version, why=registered)
        if version.unstable_metadata_version == level:
            why = f"{registered}, as with {UNSTABLE} (or in an early build of a later Kafka)"
            return ChosenVersion(version=version, why=why, assumed=True)
    known = ", ".join(f"{one.metadata_version} is Kafka {one.name}" for one in VERSIONS)
    raise PolicyError(
        f"{registered}, which no known version does ({known}): it may be newer than Kafka"
        f" {NEWEST.name}.",
        remedy=REMEDY,
    )


def by_level(level: int) -> ChosenVersion | None:
    """Return the version of the brokers of a cluster with this ``metadata.version``, None if it may
    be several.

    Raises:
        PolicyError: it is above those of the known versions.
    """
    if level > NEWEST.metadata_version:
        raise PolicyError(
            f"the cluster's {METADATA_VERSION} is {level}, above that of Kafka {NEWEST.name}"
            f" ({NEWEST.metadata_version}).",
            remedy=REMEDY,
        )
    possible = [one for one in VERSIONS if one.unstable_metadata_version >= level]
    if len(possible) > 1:
        return None
    return ChosenVersion(version=possible[0], why=f"the cluster's {METADATA_VERSION} is {level}")


def choose(
    *,
    given: str | None,
    registered: Mapping[int, Mapping[str, int]],
    node_id: int | None,
    level: int | None,
    fallback: str | None,
) -> ChosenVersion:
    """Return the version that the first source of the module's list says.

    Args:
        given: a version's name, if one was given.
        registered: node id → feature name → highest level that the broker registered.
        node_id: of the directory's broker; if unknown, all brokers count if they agree.
        level: the cluster's ``metadata.version``, if known.
        fallback: a version's name, if the policies have one.

    Raises:
        PolicyError: a name is not known; the broker may be newer than all known versions.
    """
    if given is not None:
        return ChosenVersion(version=kafka_version(given), why="it was given")
    brokers = registered.values() if node_id is None else [registered.get(node_id, {})]
    highest = {one.get(METADATA_VERSION) for one in brokers}
    if len(highest) == 1 and (own := highest.pop()) is not None:
        return by_registration("every broker" if node_id is None else f"broker {node_id}", own)
    chosen = _without_registration(level, fallback)
    if len(highest) < 2:  # noqa: PLR2004 -- one or none cannot disagree
        return chosen
    levels = ", ".join(sorted("none" if one is None else str(one) for one in highest))
    why = (
        f"{chosen.why}; which broker the directory is of is unknown, and the brokers registered"
        f" several highest {METADATA_VERSION}s ({levels})"
    )
    return replace(chosen, why=why, assumed=True)


def _without_registration(level: int | None, fallback: str | None) -> ChosenVersion:
    decided = None if level is None else by_level(level)
    if decided is not None:
        return decided
    if fallback is not None:
        return ChosenVersion(version=kafka_version(fallback), why="the policies say so")
    return ChosenVersion(
        version=NEWEST,
        why="the newest version known; which one the broker runs is unknown"
        " (--kafka-version gives it)",
        assumed=True,
    )
