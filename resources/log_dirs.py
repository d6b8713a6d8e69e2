"""The maintained Kafka log directories, and Dagster's partition keys of their logs.

A key is ``topic-partition`` if that is unique among the configured directories, so that it does not
change when a broker's log moves to another of its disks. If two directories have a partition of the
same name (replicas), their keys are ``directory:topic-partition``. The longer form is always
accepted. Dagster refuses ``...`` in keys but Kafka allows it in topics: the dots of such a topic
are written as ``%2E``.
"""

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import dagster as dg

from logwright.errors import LogwrightError, PolicyError
from logwright.format.names import TopicPartition
from logwright.log.load import list_partitions
from logwright.resources.policies import PolicyDirectory

LOG_DIRS_VARIABLE: Final = "LOGWRIGHT_LOG_DIRS"


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintainedLog:
    """One partition's log in one directory, and its keys.

    Attributes:
        key: unique; the short form if that is unique.
        long_key: ``directory:topic-partition``.
    """

    key: str
    long_key: str
    log_dir: Path
    partition: TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """The logs of all directories.

    Attributes:
        logs: key → log, sorted by directory, topic and partition number.
        unreadable: directory name → error, for directories that cannot be listed.
    """

    logs: Mapping[str, MaintainedLog]
    unreadable: Mapping[str, LogwrightError]

    def sentence(self, sentence: str) -> str:
        """Return what is said of the logs, after the directories that were not looked at."""
        if not self.unreadable:
            return sentence
        problems = " ".join(f"{name}: {error}" for name, error in self.unreadable.items())
        return f"Not looked at: {problems} Of the others: {sentence}"

    def find(self, key: str) -> MaintainedLog:
        """Return the log of a short or long key.

        Raises:
            PolicyError: there is no such log, or the short key is ambiguous.
        """
        if key in self.logs:
            return self.logs[key]
        by_long_key = {log.long_key: log for log in self.logs.values()}
        if key in by_long_key:
            return by_long_key[key]
        alike = [long for long, log in by_long_key.items() if _escaped(log.partition) == key]
        if alike:
            raise PolicyError(
                f"{key!r} is in several log directories.", remedy=f"Use one of {', '.join(alike)}."
            )
        problems = "".join(f" {error}" for error in self.unreadable.values())
        raise PolicyError(f"{key!r} is not in any log directory.{problems}")

    def find_all(self, keys: Iterable[str]) -> list[MaintainedLog]:
        """Return the logs of these keys in order, without duplicates.

        Raises:
            PolicyError: as `find`.
        """
        return list({log.key: log for log in map(self.find, keys)}.values())


class LogDirs(dg.ConfigurableResource):  # type: ignore[type-arg]
    """The configured log directories.

    Attributes:
        directories: each ``PATH`` or ``NAME=PATH``; if not given, LOGWRIGHT_LOG_DIRS, separated by
            commas as in Kafka's ``log.dirs``, else the policies' ``log_dirs``. The default name is
            the last part of the path.
        policies: the directory of the policies.
    """

    directories: list[str] | None = None
    policies: dg.ResourceDependency[PolicyDirectory]

    def named(self) -> dict[str, Path]:
        """Return name → directory. Effects: reads the environment.

        Raises:
            PolicyError: none is configured, or two have the same name.
        """
        entries = self.directories
        if entries is None:
            entries = [
                entry for entry in os.environ.get(LOG_DIRS_VARIABLE, "").split(",") if entry.strip()
            ]
        if not entries:
            entries = [str(path.absolute()) for path in self.policies.load().log_dirs]
        if not entries:
            raise PolicyError(
                "No log directories are configured.",
                remedy=f"Name a broker's log.dirs: in {LOG_DIRS_VARIABLE}=/path[,/another], as"
                " `log_dirs: {name: /path}` in the defs.yaml of a component, or as"
                " `log_dirs: [/path]` in the policies.",
            )
        return _named(entries)

    def listing(self) -> Listing:
        """List all logs of all directories; collects the errors of unreadable directories. Effects:
        lists directories.
        """
        partitions: list[tuple[str, Path, TopicPartition]] = []
        unreadable: dict[str, LogwrightError] = {}
        for name, log_dir in self.named().items():
            try:
                partitions += [(name, log_dir, partition) for partition in list_partitions(log_dir)]
            except LogwrightError as error:
                unreadable[name] = error.as_value()
        return Listing(logs=_keyed(partitions), unreadable=unreadable)


def _named(entries: Iterable[str]) -> dict[str, Path]:
    directories: dict[str, Path] = {}
    for entry in entries:
        name, equals, path = entry.strip().partition("=")
        if not equals:
            name, path = Path(name).name, name
        if not name or ":" in name or not Path(path).is_absolute():
            raise PolicyError(f"Log directory {entry!r} is neither /PATH nor NAME=/PATH.")
        if name in directories:
            raise PolicyError(
                f"Two log directories have the name {name!r}.",
                remedy="Give them names: NAME=/PATH,OTHER=/PATH.",
            )
        directories[name] = Path(path)
    return directories


def _keyed(partitions: Iterable[tuple[str, Path, TopicPartition]]) -> dict[str, MaintainedLog]:
    partitions = list(partitions)
    count = Counter(partition for _, _, partition in partitions)
    logs = {}
    for name, log_dir, partition in partitions:
        short_key = _escaped(partition)
        long_key = f"{name}:{short_key}"
        key = short_key if count[partition] == 1 else long_key
        logs[key] = MaintainedLog(key=key, long_key=long_key, log_dir=log_dir, partition=partition)
    return logs


def _escaped(partition: TopicPartition) -> str:
    name = partition.directory_name
    return name.replace(".", "%2E") if "..." in name else name
