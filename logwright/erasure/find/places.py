"""List the files of a log directory that can hold records, and what each is.

===========================================  ===========  ======================================
file                                         place        what removes it
===========================================  ===========  ======================================
``TOPIC-N/*.log``                            segment      see `logwright.erasure.find.removal`
``TOPIC-N/*.log.deleted``                    deleted      a purge, ``file.delete.delay.ms`` later
``TOPIC-N/*.log.cleaned``, ``*.log.swap``    staging      a purge; a swap that is needed: nothing
``TOPIC-N/.logwright/staging/*``             staging      a purge, once the plan is dead
``TOPIC-N/.logwright/failed/*``              quarantine   a purge, when it expires
``TOPIC-N/.logwright/cut/*``                 cut          nothing
``TOPIC-N.ID-delete/*``                      deleted log  a purge, the broker's delay later
``TOPIC-N.ID-stray/*``, ``-future/*``        stray, ...   nothing
``.logwright-write-*``                       staging      the next write, an hour later
===========================================  ===========  ======================================

Indexes, checkpoints, locks and ledgers hold no keys. Any other file, a link, and a directory that
cannot be listed are returned as unread: nothing is left out in silence.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from logwright.deletion.observe import list_deleted
from logwright.erasure.find.model import Place
from logwright.errors import UnreadableFile
from logwright.format.deletions import LEDGER, parse_ledger
from logwright.format.names import (
    CLEANED,
    LOG,
    STAGING,
    SWAP,
    WORK_DIRECTORY,
    TopicPartition,
)
from logwright.live_plans import plan_is_alive
from logwright.log.files import open_log_dir, unreadable
from logwright.log.kinds import file_kinds, is_retired
from logwright.log.log_dir import list_log_dir
from logwright.log.mapped import map_file
from logwright.recovery.steps import CUT
from logwright.steps.failed_output import FAILED, parse_failed_output

SPOOL: Final = ".logwright-write-"
"""Rows of a write by Spark, as Arrow's IPC files (`logwright.spark.kafka_log_write`)."""
_NO_KEYS: Final = re.compile(
    r"[0-9]{20,}\.(?:index|timeindex|txnindex|snapshot)(?:\.[0-9]+)?(?:\.(?:cleaned|swap|deleted|tmp))?"
    r"|(?:leader-epoch-checkpoint|partition\.metadata|meta\.properties|bootstrap\.checkpoint)(?:\.tmp)?"
    r"|(?:recovery-point-offset|log-start-offset|replication-offset|cleaner-offset)-checkpoint(?:\.tmp)?"
    r"|\.lock|\.kafka_cleanshutdown|\.logwright-(?!write-).*|quorum-state(?:\.tmp)?"
)
"""Names of files of Kafka and logwright without keys."""
_OURS: Final = re.compile(
    r"lock|deletions\.jsonl|ingest\.json|ingest\.batches(?:\.[0-9a-f]*)?|manifest\.json|.*\.tmp"
    r"|copy\.json|move\.json|erased\.json|recovered"
)
"""Names of such files in logwright's work directories."""
NO_PARTITION: Final = TopicPartition("", -1)
"""Of files whose topic is not known: requests of all topics count."""
LONGEST_NAME: Final = 255
_REMOTE: Final = "remote-log-index-cache"
_LOG_FILE: Final = re.compile(r"(?:.*\.)?log(?:\..*)?")
_BASE: Final = re.compile(r"([0-9]{1,19})\.")
_NS_PER_MS: Final = 1_000_000
_PLACES: Final[dict[str, Place]] = {"stray": "stray", "future": "future", "delete": "deleted log"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFile:
    """A file that can hold records.

    Attributes:
        path: of the file. relative: to the log directory.
        group: files of one group are parts of one log.
        since_ms: when it was retired, or expires; None if neither is so.
        is_kept: no purge removes it now: its plan is alive, or a swap needs it.
        is_arrow: rows in Arrow's format, of any topic.
    """

    path: Path
    relative: str
    partition: TopicPartition
    place: Place
    group: str
    since_ms: int | None = None
    is_kept: bool = False
    is_arrow: bool = False
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
    """

    files: list[RecordFile] = field(default_factory=list)
    not_searched: list[NotSearched] = field(default_factory=list)


def list_files(log_dir: Path) -> Inventory:
    """List the files of a log directory. Effects: lists it; reads ledgers.

    Raises:
        NotALogDir: there is no such directory.
        UnreadableFile: it cannot be listed.
    """
    with open_log_dir(log_dir) as root:
        listing = list_log_dir(root)
    walk = _Walk(log_dir)
    deleted = list_deleted(log_dir).directories
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
            elif _LOG_FILE.fullmatch(name):
                self._add(path, status, partition, ("stray", "foreign"))
            elif not _NO_KEYS.fullmatch(name):
                self._unknown(path, partition)

    def marked(
        self, directory: Path, partition: TopicPartition, place: Place, since_ms: int | None
    ) -> None:
        """Add the files of a deleted, stray or future log."""
        for path, status in self._below(directory, partition):
            group = str(path.parent.relative_to(directory))
            if _LOG_FILE.fullmatch(path.name):
                self._add(path, status, partition, (place, group), since_ms=since_ms)
            elif not (
                _NO_KEYS.fullmatch(path.name)
                or (WORK_DIRECTORY in path.parts and _OURS.fullmatch(path.name))
            ):
                self._unknown(path, partition)

    def other(self, path: Path) -> None:
        """Add what is neither a partition's nor a marked directory: any other directory is searched
        like a stray log, for requests of all topics.
        """
        status = path.lstat()
        if stat.S_ISDIR(status.st_mode):
            if path.name != _REMOTE:  # indexes of remote segments
                self.marked(path, NO_PARTITION, "stray", None)
        elif stat.S_ISREG(status.st_mode) and path.name.startswith(SPOOL):
            where: tuple[Place, str] = ("staging", path.name)
            self._add(path, status, NO_PARTITION, where, is_arrow=True)
        elif not (stat.S_ISREG(status.st_mode) and _NO_KEYS.fullmatch(path.name)):
            self._unknown(path, NO_PARTITION)

    def _of_work(
        self, directory: Path, path: Path, status: os.stat_result, partition: TopicPartition
    ) -> None:
        """Add a file below a partition's directory."""
        inside = path.relative_to(directory).parts
        if not _LOG_FILE.fullmatch(path.name):
            if inside[0] != WORK_DIRECTORY or not (
                _OURS.fullmatch(path.name) or _NO_KEYS.fullmatch(path.name)
            ):
                self._unknown(path, partition)
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
        is_arrow: bool = False,
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
                is_arrow=is_arrow,
                stamp=(status.st_ino, status.st_size, status.st_mtime_ns),
            )
        )

    def _unknown(self, path: Path, partition: TopicPartition) -> None:
        what = "it is neither a file of Kafka's nor of logwright's"
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
