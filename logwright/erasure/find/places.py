"""List the files of a log directory, and what each can be.

===========================================  ===========  ======================================
file                                         place        what removes it
===========================================  ===========  ======================================
``TOPIC-N/*.log``                            segment      see `logwright.erasure.outlook`
``TOPIC-N/*.log.deleted``                    deleted      a purge, ``file.delete.delay.ms`` later
``TOPIC-N/*.log.cleaned``, ``*.log.swap``    staging      a purge; a swap that is needed: nothing
``TOPIC-N/.logwright/staging/*``             staging      a purge, once the plan is dead
``TOPIC-N/.logwright/failed/*``              quarantine   a purge, when it expires
``TOPIC-N/.logwright/cut/*``                 cut          nothing
``TOPIC-N.ID-delete/*``                      deleted log  a purge, the broker's delay later
``TOPIC-N.ID-stray/*``, ``-future/*``        stray, ...   nothing
``.logwright-write-*``                       staging      the next write, an hour later
any other                                    stray        nothing
===========================================  ===========  ======================================

No file is left out: what an index, a checkpoint or a ledger is decides its content
(`logwright.erasure.find.proofs`), not its name. What is below a log's directory is of its topic,
whatever else is of any. A link, what is neither a file nor a directory, and a directory that cannot
be listed are named as not searched.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from logwright.deletion.observe import list_deleted
from logwright.erasure.find.model import Place
from logwright.erasure.mark import erased_keys
from logwright.errors import UnreadableFile
from logwright.format.deletions import LEDGER, parse_ledger
from logwright.format.names import (
    CLEANED,
    LOG,
    LOG_START_OFFSET_CHECKPOINT,
    STAGING,
    SWAP,
    WORK_DIRECTORY,
    TopicPartition,
)
from logwright.live_plans import plan_is_alive
from logwright.log.kinds import file_kinds, is_retired
from logwright.log.log_dir import list_log_dir
from logwright.place.files import open_log_dir
from logwright.place.mapped import map_file
from logwright.place.unreadable import unreadable
from logwright.recovery.steps import CUT
from logwright.steps.failed_output import FAILED, parse_failed_output

SPOOL: Final = ".logwright-write-"
"""Rows of a write by Spark, as Arrow's IPC files (`logwright.spark.kafka_log_write`)."""
NO_PARTITION: Final = TopicPartition("", -1)
"""Of files whose topic is not known: requests of all topics count."""
LONGEST_NAME: Final = 255
_LOG_FILE: Final = re.compile(r"(?:.*\.)?log(?:\..*)?")
_BASE: Final = re.compile(r"([0-9]{1,20})\.")
_NS_PER_MS: Final = 1_000_000
Form = Literal["segment", "rows", "other"]
_PLACES: Final[dict[str, Place]] = {"stray": "stray", "future": "future", "delete": "deleted log"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFile:
    """A file that can hold records.

    Attributes:
        path: of the file. relative: to the log directory.
        group: files of one group are parts of one log.
        since_ms: when it was retired, or expires; None if neither is so.
        is_kept: no purge removes it now: its plan is alive, or a swap needs it.
        form: what its content is read as: a segment; rows in Arrow's format; or, for ``other``,
            what its name says, and a segment if it is not that.
    """

    path: Path
    relative: str
    partition: TopicPartition
    place: Place
    group: str
    since_ms: int | None = None
    is_kept: bool = False
    form: Form = "segment"
    stamp: tuple[int, int, int] = (0, 0, 0)

    @property
    def base_offset(self) -> int:
        """The offset in its name, 0 if it has none."""
        found = _BASE.match(self.path.name)
        return int(found[1]) if found else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NotSearched:
    """A file or directory that cannot be searched.

    Attributes:
        relative: to the log directory.
        problem: why.
    """

    relative: str
    partition: TopicPartition
    problem: str


@dataclass(slots=True, kw_only=True)
class Inventory:
    """All files of a log directory.

    Attributes:
        files: that can hold records, sorted by path.
        not_searched: named, since nothing is known of their content.
        topics: of which it has a log, live or not, or the record of a deletion.
        deleted: topics of which the deletion of a log is on record.
        erased: topic → the keys that marks of erasures in its logs have (`logwright.erasure.mark`).
        partitions: directory of a live log → its partition.
        starts: directory of a deleted log → its log start offset on record.
        elsewhere: topics of deleted logs that began before their first segment.
    """

    files: list[RecordFile] = field(default_factory=list)
    not_searched: list[NotSearched] = field(default_factory=list)
    topics: set[str] = field(default_factory=set)
    deleted: set[str] = field(default_factory=set)
    erased: dict[str, set[str]] = field(default_factory=dict)
    partitions: dict[str, TopicPartition] = field(default_factory=dict)
    starts: dict[str, int] = field(default_factory=dict)
    elsewhere: set[str] = field(default_factory=set)


def list_files(log_dir: Path) -> Inventory:
    """List the files of a log directory. Effects: lists it; reads ledgers.

    Raises:
        NotALogDir: there is no such directory.
        UnreadableFile: it cannot be listed.
    """
    with open_log_dir(log_dir) as root:
        listing = list_log_dir(root)
    walk = _Walk(log_dir)
    listed = list_deleted(log_dir)
    deleted = listed.directories
    walk.inventory.topics |= {one.partition.topic for one in listed.deletions.values()}
    # A record alone is of a deletion that was interrupted, or undone: the log has its name.
    walk.inventory.deleted |= {
        one.partition.topic
        for name, one in listed.deletions.items()
        if name in deleted or one.purging
    }
    walk.inventory.elsewhere |= {
        one.partition.topic for one in listed.deletions.values() if one.elsewhere
    }
    walk.inventory.starts |= {
        one.directory: start
        for one in listed.deletions.values()
        if (start := one.checkpoints.get(LOG_START_OFFSET_CHECKPOINT)) is not None
    }
    marked = {one.name: one for one in listing.marked}
    for name in sorted(listing.names):
        path = log_dir / name
        partition = listing.partitions.get(name)
        if partition is not None:
            walk.partition(path, partition)
        elif name in marked:
            one = marked[name]
            entry = deleted.get(name)
            partition = one.partition if entry is None else entry.partition
            if len(name) >= LONGEST_NAME and (entry is None or entry.record is None):
                partition = NO_PARTITION  # its topic is truncated
            since_ms = None if entry is None else int(entry.at_ms)
            walk.marked(path, partition, _PLACES[one.mark], since_ms)
        else:
            walk.other(path)
    walk.inventory.files.sort(key=lambda one: one.relative)
    return walk.inventory


class _Walk:
    """Collects the files of one log directory."""

    def __init__(self, log_dir: Path) -> None:
        self._log_dir = log_dir
        self.inventory = Inventory()

    def partition(self, directory: Path, partition: TopicPartition) -> None:
        """Add a partition's files."""
        self.inventory.topics.add(partition.topic)
        self.inventory.partitions[directory.name] = partition
        self._mark(directory, partition)
        entries = list(self._below(directory, partition))
        names = [path.name for path, _ in entries if path.parent == directory]
        kinds = file_kinds(names)
        ledger = self._ledger(directory)
        for path, status in entries:
            name = path.name
            if path.parent != directory:
                self._of_work(directory, path, status, partition)
            elif is_retired(name) and f"{LOG}." in name:
                touched = max(status.st_ctime_ns, status.st_mtime_ns) // _NS_PER_MS
                since = ledger.get(name, touched)
                self._add(path, status, partition, ("deleted", "deleted"), since_ms=since)
            elif f"{LOG}." in name and name.endswith((CLEANED, SWAP)):
                kept = name in kinds.needed_swaps
                self._add(path, status, partition, ("staging", "swap"), is_kept=kept)
            elif name.endswith(LOG) and name[:-4] in kinds.stems:
                self._add(path, status, partition, ("segment", "segment"))
            else:
                self._other(path, status, partition)

    def marked(
        self, directory: Path, partition: TopicPartition, place: Place, since_ms: int | None
    ) -> None:
        """Add the files of a deleted, stray or future log."""
        if partition != NO_PARTITION:
            self.inventory.topics.add(partition.topic)
            self._mark(directory, partition)
        for path, status in self._below(directory, partition):
            group = str(path.parent.relative_to(directory))
            if _LOG_FILE.fullmatch(path.name):
                self._add(path, status, partition, (place, group), since_ms=since_ms)
            else:
                self._other(path, status, partition)

    def other(self, path: Path) -> None:
        """Add what is neither a partition's nor a marked directory: any other directory is searched
        like a stray log, for requests of all topics.
        """
        status = path.lstat()
        if stat.S_ISDIR(status.st_mode):
            self.marked(path, NO_PARTITION, "stray", None)
        elif not stat.S_ISREG(status.st_mode):
            self._unknown(path, NO_PARTITION)
        elif path.name.startswith(SPOOL):
            self._add(path, status, NO_PARTITION, ("staging", path.name), form="rows")
        else:
            self._other(path, status, NO_PARTITION)

    def _other(self, path: Path, status: os.stat_result, partition: TopicPartition) -> None:
        """Add a file whose content must say what it is."""
        group = str(path.relative_to(self._log_dir))
        self._add(path, status, partition, ("stray", group), form="other")

    def _mark(self, directory: Path, partition: TopicPartition) -> None:
        """Note which keys the mark of an erasure has. Effects: reads it."""
        with suppress(UnreadableFile):
            if not directory.is_symlink():
                keys = erased_keys(directory) or ()
                self.inventory.erased.setdefault(partition.topic, set()).update(keys)

    def _of_work(
        self, directory: Path, path: Path, status: os.stat_result, partition: TopicPartition
    ) -> None:
        """Add a file below a partition's directory."""
        inside = path.relative_to(directory).parts
        if not _LOG_FILE.fullmatch(path.name):
            self._other(path, status, partition)
            return
        group = "/".join(inside[:-1])
        area, name = (inside[1], inside[2]) if len(inside) > 3 else ("", "")  # noqa: PLR2004 -- .logwright/AREA/NAME/file
        if inside[0] == WORK_DIRECTORY and area == FAILED:
            output = parse_failed_output(name)
            due = None if output is None else int(output.due_at_ms)
            self._add(path, status, partition, ("quarantine", group), since_ms=due)
        elif inside[0] == WORK_DIRECTORY and area == CUT:
            self._add(path, status, partition, ("cut", group))
        elif inside[0] == WORK_DIRECTORY and area == STAGING:
            alive = plan_is_alive(self._log_dir, name)
            self._add(path, status, partition, ("staging", group), is_kept=alive)
        else:
            self._add(path, status, partition, ("stray", group))

    def _add(
        self,
        path: Path,
        status: os.stat_result,
        partition: TopicPartition,
        where: tuple[Place, str],
        *,
        since_ms: int | None = None,
        is_kept: bool = False,
        form: Form = "segment",
    ) -> None:
        place, group = where
        relative = path.relative_to(self._log_dir)
        self.inventory.files.append(
            RecordFile(
                path=path,
                relative=str(relative),
                partition=partition,
                place=place,
                group=f"{relative.parts[0]}/{group}",
                since_ms=since_ms,
                is_kept=is_kept,
                form=form,
                stamp=(status.st_ino, status.st_size, status.st_mtime_ns),
            )
        )

    def _unknown(self, path: Path, partition: TopicPartition) -> None:
        what = "it is neither a file nor a directory"
        if path.is_symlink():
            what = "it is a symbolic link, which is not followed"
        self._not_searched(path, partition, what)

    def _not_searched(self, path: Path, partition: TopicPartition, problem: str) -> None:
        self.inventory.not_searched.append(
            NotSearched(
                relative=str(path.relative_to(self._log_dir)), partition=partition, problem=problem
            )
        )

    def _below(
        self, directory: Path, partition: TopicPartition
    ) -> Iterator[tuple[Path, os.stat_result]]:
        """Yield the plain files below a directory; links are not followed, and are named."""
        if directory.is_symlink():
            self._unknown(directory, partition)
            return
        try:
            entries = sorted(os.scandir(directory), key=lambda one: one.name)
        except OSError as error:
            self._not_searched(directory, partition, unreadable(error, directory).problem)
            return
        for entry in entries:
            path = Path(entry.path)
            try:
                status = path.lstat()
            except FileNotFoundError:
                continue  # the listing is compared with one that is made after the search
            if stat.S_ISREG(status.st_mode):
                yield path, status
            elif stat.S_ISDIR(status.st_mode):
                yield from self._below(path, partition)
            else:
                self._unknown(path, partition)

    def _ledger(self, directory: Path) -> dict[str, int]:
        """Return when files were retired."""
        path = directory / WORK_DIRECTORY / LEDGER
        try:
            return parse_ledger(map_file(path).tobytes()) if path.exists() else {}
        except UnreadableFile:
            return {}  # a hint
