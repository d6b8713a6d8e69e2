"""Erase the records of some keys from the deleted, stray and future logs of a log directory.

1. A deleted log (``-delete``) is to go anyway: with a match all of it goes at once, and cannot be
   restored any more. What an interruption leaves of it has no match, and goes when it is due.
2. A broker never deletes a stray log (``-stray``), and continues a future log (``-future``), the
   copy of a move inside the broker. Both are rebuilt like a live log.

An erasure by the rules changes none of them, and says which have a match.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from logwright.deletion.commit import purge_deleted
from logwright.deletion.observe import list_deleted
from logwright.erasure.erase.commit import plan_erasure_of
from logwright.erasure.erase.copies import file_matches
from logwright.format.names import TopicPartition
from logwright.log.inventory import NO_PARTITION, file_place, owner_of
from logwright.log.log_dir import Mark, MarkedDirectory, list_marked
from logwright.log.record_files import partition_of
from logwright.log.tree import list_tree
from logwright.recovery.commit import commit_directory
from logwright.recovery.directory_plan import marked_to_recover, plan_directory
from logwright.recovery.model import RecoveryOptions
from logwright.recovery.observe import has_entries
from logwright.units import INT64_MAX, TimestampMs

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from pathlib import Path

    from logwright.batches.runtime import Progress, Runtime
    from logwright.config.topic import CleanerConfig, TopicConfig
    from logwright.erasure.erase.model import ErasePlan, Matcher
    from logwright.erasure.keys import KeySet
    from logwright.recovery.directory_plan import TopicIds


class MarkedPartition(TopicPartition):
    """The partition of a marked directory: as its checkpoints know it, under the name of its own
    directory.
    """

    name: str

    @classmethod
    def of(cls, log_dir: Path, marked: MarkedDirectory) -> MarkedPartition:
        """Return the partition of a future or stray log. A stray log shares no checkpoint entries
        with the live log of its name, nor does a future log next to it. Effects: looks for that.
        """
        own = has_entries(log_dir, marked.partition, marked.name)
        topic = marked.partition.topic if own else f"{marked.name}/"
        partition = cls(topic, marked.partition.partition)
        partition.name = marked.name
        return partition

    @property
    def directory_name(self) -> str:
        """The name of its directory."""
        return self.name

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkedErasure:
    """The decision about a marked directory.

    Attributes:
        name: of the directory. partition: as its name says.
        keys: that apply to it.
        plan: of a stray or future log; None of a deleted one.
        removed: it is a deleted log with a match: all of it goes.
        unreadable: files of a deleted log that cannot be read to their end.
    """

    name: str
    partition: TopicPartition
    mark: Mark
    keys: Matcher
    plan: ErasePlan | None
    removed: bool
    unreadable: tuple[str, ...] = ()


def chosen_marked(
    log_dir: Path, keys: KeySet, wanted: Callable[[TopicPartition], bool]
) -> list[tuple[MarkedDirectory, KeySet]]:
    """Return the marked directories that keys apply to, each with them; all keys apply to one whose
    topic is shortened and not on record. Effects: lists the log directory; reads the record of
    deletions.

    Args:
        wanted: which partitions the command is about.

    Raises:
        NotALogDir, UnreadableFile: it cannot be listed.
    """
    deletions = list_deleted(log_dir).deletions
    chosen = []
    for marked in list_marked(log_dir):
        known = partition_of(marked.name, deletions)
        own = keys if known == NO_PARTITION else keys.for_topic(known.topic)
        partition = marked.partition if known == NO_PARTITION else known
        if not own.is_empty and wanted(partition):
            chosen.append((marked._replace(partition=partition), own))
    return chosen


def recover_marked(
    log_dir: Path,
    names: Collection[str],
    settings: Callable[[str], tuple[TopicConfig, CleanerConfig]],
    *,
    now_ms: TimestampMs,
    topic_ids: TopicIds,
) -> None:
    """Recover the stray and future logs in which an erasure was interrupted. One that cannot be
    recovered stays, and planning its erasure says why. Effects: changes them.

    Raises:
        LogwrightError: see `plan_directory` and `commit_directory`.
    """
    damaged = marked_to_recover(log_dir, names)
    if not damaged:
        return
    plan = plan_directory(
        log_dir,
        (),
        lambda topic: settings(topic)[0],
        now_ms=now_ms,
        options=RecoveryOptions(),
        marked=damaged,
        topic_ids=topic_ids,
    )
    commit_directory(plan)


def plan_marked(
    log_dir: Path,
    marked: MarkedDirectory,
    settings: tuple[TopicConfig, CleanerConfig],
    keys: Matcher,
    *,
    now_ms: TimestampMs,
    progress: Progress,
    runtime: Runtime,
    purge_unreadable: bool = False,
) -> MarkedErasure:
    """Decide about one marked directory. Effects: reads it.

    Raises:
        LogwrightError: see `plan_erasure_of`.
    """
    if marked.mark != "delete":
        plan = plan_erasure_of(
            log_dir,
            MarkedPartition.of(log_dir, marked),
            settings,
            keys,
            now_ms=now_ms,
            progress=progress,
            runtime=runtime,
            purge_unreadable=purge_unreadable,
        )
        return _decided(marked, keys, plan=plan, removed=False)
    unreadable = []
    for path, matches in _looked_at(log_dir / marked.name, keys, runtime):
        if matches:
            return _decided(marked, keys, plan=None, removed=True)
        unreadable.append(path)
    if unreadable and purge_unreadable:
        return _decided(marked, keys, plan=None, removed=True)
    return _decided(marked, keys, plan=None, removed=False, unreadable=tuple(unreadable))


def _decided(
    marked: MarkedDirectory,
    keys: Matcher,
    *,
    plan: ErasePlan | None,
    removed: bool,
    unreadable: tuple[str, ...] = (),
) -> MarkedErasure:
    return MarkedErasure(
        name=marked.name,
        partition=marked.partition,
        mark=marked.mark,
        keys=keys,
        plan=plan,
        removed=removed,
        unreadable=unreadable,
    )


def _looked_at(root: Path, keys: Matcher, runtime: Runtime) -> Iterator[tuple[str, bool | None]]:
    """Yield the files of a marked directory that match, and with None those that cannot be read to
    their end: of the segments, and what goes with them. Effects: reads them.
    """
    where, _ = owner_of(root.name)
    for path in list_tree(root).files:
        place = file_place(where, path)
        if place.form == "segment" and place.erasure != "left":
            matches = file_matches(root / path, keys, runtime=runtime)
            if matches is not False:
                yield path, matches


def matching_files(
    log_dir: Path, marked: MarkedDirectory, keys: Matcher, *, runtime: Runtime
) -> int:
    """Return how many files of a marked directory match, or cannot be read to their end. They are
    read as they are, since nothing is done to them: no log must be recovered first. Effects: reads.

    Raises:
        UnreadableFile, StalePlan: one is not a regular file, or vanished.
    """
    return sum(1 for _ in _looked_at(log_dir / marked.name, keys, runtime))


def remove_deleted(log_dir: Path, names: Collection[str]) -> dict[str, str]:
    """Remove deleted logs at once, by the names of their directories. Effects: as `purge_deleted`.

    Returns:
        the directories that stay, each with the reason.

    Raises:
        LogwrightError: as `purge_deleted`.
    """
    if not names:
        return {}
    end_of_time = TimestampMs(INT64_MAX)
    deletions = purge_deleted(log_dir, now_ms=end_of_time, delay_ms=0, directories=names)
    return {one.directory: one.reason for one in deletions if not one.goes}
