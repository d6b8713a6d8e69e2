"""The maintained Kafka log directories, here and in buckets, and Dagster's partition keys of their
logs.

A key is ``topic-partition`` if that is unique among the configured directories, so that it does not
change when a broker's log moves to another of its disks. If two directories have a partition of the
same name (replicas), their keys are ``directory:topic-partition``. The longer form is always
accepted. Dagster refuses ``...`` in keys but Kafka allows it in topics: the dots of such a topic
are written as ``%2E``.
"""

import os
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Final

import dagster as dg

from logwright.bucket.store import SCHEMES
from logwright.errors import LogwrightError, PolicyError, Unsettled
from logwright.format.names import TopicPartition
from logwright.log.load import list_partitions
from logwright.place.model import Place, is_local, is_versioned
from logwright.place.named import place_of
from logwright.resources.policies import PolicyDirectory

LOG_DIRS_VARIABLE: Final = "LOGWRIGHT_LOG_DIRS"
ANSWER_SECONDS: Final = 20
"""How long a bucket may take to say which logs it has. A tick of a sensor may take a minute, and
the other directories are to be looked at in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintainedLog:
    """One partition's log in one directory, and its keys.

    Attributes:
        key: unique; the short form if that is unique.
        long_key: ``directory:topic-partition``.
    """

    key: str
    long_key: str
    log_dir: Place
    partition: TopicPartition

    @property
    def in_bucket(self) -> bool:
        """It is changed by new versions, and not by file steps."""
        return is_versioned(self.log_dir)


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

    def missing(self, keys: Iterable[str]) -> dict[str, LogwrightError]:
        """Return why there is none of some of these keys, as `find` raises it, by key."""
        reasons: dict[str, LogwrightError] = {}
        for key in keys:
            try:
                self.find(key)
            except PolicyError as error:
                reasons[key] = error.as_value()
        return reasons

    def find_those(self, keys: Iterable[str]) -> list[MaintainedLog]:
        """Return the logs of these keys that are there, in order, without duplicates: one that was
        deleted since a run was requested does not stop the others.

        Raises:
            PolicyError: as `find`, if none of them is there.
        """
        keys = tuple(keys)
        missing = self.missing(keys)
        there = [key for key in keys if key not in missing]
        if not there:
            for error in missing.values():
                raise error
        return list({log.key: log for log in map(self.find, there)}.values())


class LogDirs(dg.ConfigurableResource):  # type: ignore[type-arg]
    """The configured log directories.

    Attributes:
        directories: each ``PATH`` or ``NAME=PATH``, where PATH may be the URL of a log directory in
            a bucket; if not given, LOGWRIGHT_LOG_DIRS, separated by commas as in Kafka's
            ``log.dirs``, else the policies' ``log_dirs``. The default name is the last part of the
            path.
        policies: the directory of the policies.
    """

    directories: list[str] | None = None
    policies: dg.ResourceDependency[PolicyDirectory]

    def named(self) -> dict[str, Place]:
        """Return name → directory; what is seen of those in buckets is of this call. Effects: reads
        the environment.

        Raises:
            PolicyError: none is configured, two have the same name, or one is not a URL of a
                bucket.
            MissingExtra: one is in a bucket, and the extra `bucket` is not installed.
        """
        entries = self.directories
        if entries is None:
            entries = [
                entry for entry in os.environ.get(LOG_DIRS_VARIABLE, "").split(",") if entry.strip()
            ]
        if not entries:
            entries = [
                entry if isinstance(entry, str) else str(entry.absolute())
                for entry in self.policies.load().log_dirs
            ]
        if not entries:
            raise PolicyError(
                "No log directories are configured.",
                remedy=f"Name a broker's log.dirs, or the URL of a log directory in a bucket: in"
                f" {LOG_DIRS_VARIABLE}=/path[,/another], as"
                " `log_dirs: {name: /path}` in the defs.yaml of a component, or as"
                " `log_dirs: [/path]` in the policies.",
            )
        return _named(entries)

    def listing(self) -> Listing:
        """List all logs of all directories; collects the errors of unreadable directories. Effects:
        lists directories; reads the newest version of each log in a bucket.
        """
        partitions: list[tuple[str, Place, TopicPartition]] = []
        unreadable: dict[str, LogwrightError] = {}
        named = self.named()
        for name, listed in _listed(named).items():
            if isinstance(listed, LogwrightError):
                unreadable[name] = listed
            else:
                partitions += [(name, named[name], partition) for partition in listed]
        return Listing(logs=_keyed(partitions), unreadable=unreadable)


_Listed = Iterable[TopicPartition] | LogwrightError


def _listed(named: Mapping[str, Place]) -> dict[str, _Listed]:
    """Return the partitions of each directory, or why they are not known. Effects: lists them; the
    buckets at once, and no longer than `ANSWER_SECONDS`.
    """
    listed: dict[str, _Listed] = {}

    def look(name: str) -> None:
        try:
            listed[name] = list_partitions(named[name])
        except LogwrightError as error:
            listed[name] = error.as_value()

    elsewhere = [name for name, log_dir in named.items() if not is_local(log_dir)]
    threads = [Thread(target=look, args=(name,), daemon=True) for name in elsewhere]
    for thread in threads:
        thread.start()
    for name, log_dir in named.items():
        if is_local(log_dir):
            look(name)
    deadline = time.monotonic() + ANSWER_SECONDS
    for thread in threads:
        thread.join(max(deadline - time.monotonic(), 0))
    return {
        name: listed[name] if name in listed else _no_answer(log_dir)
        for name, log_dir in named.items()
    }


def _no_answer(log_dir: Place) -> Unsettled:
    return Unsettled(
        f"the bucket did not say within {ANSWER_SECONDS} s which logs it has.",
        path=log_dir,
        remedy="See whether it can be reached from here.",
    )


def _named(entries: Iterable[str]) -> dict[str, Place]:
    directories: dict[str, Place] = {}
    for entry in map(str.strip, entries):
        name, where = _split(entry)
        in_bucket = is_url(where)
        if not in_bucket and not Path(where).is_absolute():
            raise _refused(entry)
        place = place_of(where)
        name = place.name if name is None else name
        if not name or ":" in name:
            raise _refused(where if in_bucket else entry)
        if name in directories:
            raise PolicyError(
                f"Two log directories have the name {name!r}.",
                remedy="Give them names: NAME=/PATH,OTHER=/PATH.",
            )
        directories[name] = place
    return directories


def _refused(entry: str) -> PolicyError:
    shown = entry.partition("://")[0] if "://" in entry else entry  # a URL may have a secret
    return PolicyError(
        f"Log directory {shown!r} is neither /PATH nor NAME=/PATH, nor a URL of a bucket, or"
        " NAME=URL."
    )


def _split(entry: str) -> tuple[str | None, str]:
    """Return name and place of an entry; None: it has no name."""
    if is_url(entry):
        return None, entry
    name, equals, where = entry.partition("=")
    return (name, where) if equals else (None, entry)


def is_url(text: str) -> bool:
    """Return whether a text is to be a URL of a bucket."""
    return text.partition(":")[0] in SCHEMES and ":" in text


def _keyed(partitions: Iterable[tuple[str, Place, TopicPartition]]) -> dict[str, MaintainedLog]:
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
