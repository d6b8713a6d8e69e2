"""Search directories for the records of requested keys, and decide what removes each.

Effects of all that is here: reads the directories. If the files of a log directory change while
they are read, the search of it begins again.

While a broker has a log directory open, all its files are searched as they are at one moment
(`logwright.running`), also what is not committed, being written, or about to be deleted. What is
committed, and where a log starts, says a second look at it, which ends at the high watermark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from itertools import groupby
from threading import local
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from logwright.batches.runtime import Progress, available_cores, in_order
from logwright.erasure.find.columns import scan_spool
from logwright.erasure.find.elsewhere import not_shown, places_elsewhere
from logwright.erasure.find.kinds import KINDS, Judged, judge
from logwright.erasure.find.model import Finding, Looked
from logwright.erasure.find.proofs import known_texts, small_texts
from logwright.erasure.find.result import LiveHits, SearchResult, Settings, Unsearched
from logwright.erasure.find.scan import (
    PART_BYTES,
    UNDECODED,
    WHOLE,
    Scanned,
    Scanner,
    Span,
    Unread,
    joined,
    nothing_found,
    split,
    whole_file,
)
from logwright.erasure.find.texts import scan_texts
from logwright.erasure.keys import KeySet
from logwright.erasure.outlook.by_broker import (
    is_being_cleaned,
    removal_of_file_by_broker,
    removal_of_records_by_broker,
)
from logwright.erasure.outlook.removals import removal_of_file, removal_of_records
from logwright.errors import LogwrightError, StalePlan, UnreadableFile
from logwright.format.names import INDEX, LOG, TopicPartition
from logwright.log.inventory import NO_PARTITION, UPKEEP
from logwright.log.load import observe
from logwright.log.model import PartitionLog
from logwright.log.record_files import Inventory, RecordFile, list_files
from logwright.log.tree import list_tree
from logwright.maintenance.scratch import left_behind
from logwright.place.files import entry_at
from logwright.place.mapped import MappedFiles
from logwright.place.model import Place, is_local
from logwright.place.whole import whole
from logwright.reading import reading
from logwright.recovery.missing import missing_logs
from logwright.running.place import RunningPlace, bounds_of
from logwright.state.erasure_mark import add_erasures, erased_keys
from logwright.state.model import NOTHING, Hold, PartitionState
from logwright.state.store import read_state
from logwright.tier.remote import RemoteSegments, RemoteSegmentsPlace
from logwright.units import TimestampMs

ATTEMPTS: Final = 3
"""How often a directory is read whose files change meanwhile."""
SEARCHED: Final[Looked] = "searched"
NO_RECORDS: Final[Looked] = "no records"
NOT_ASKED: Final[Looked] = "not asked"
REMOTE: Final = "remote segment"
"""The place of what is found in a tier."""
_FOREIGN: Final = (
    "it is neither records nor what Kafka or logwright writes into a file of this name"
)


def search_log_dir(
    log_dir: Place,
    keys: KeySet,
    settings: Settings | None,
    *,
    patterns: tuple[bytes, ...] = (),
    progress: Progress,
    threads: int | None = None,
    bounded: RunningPlace | None = None,
    tier: RemoteSegments | None = None,
) -> SearchResult:
    """Search one log directory; in a bucket all objects below its URL.

    Args:
        settings: None for an archive, which nothing maintains.
        patterns: byte patterns that are searched in keys, values and headers, too.
        progress: called with the phase "search", bytes done and all.
        threads: that read, as many as there are cores if not given; the result does not depend on
            it.
        bounded: of a directory that a broker has open, as far as it is committed; if not given,
            it is looked at when it is needed.
        tier: whose segments are searched, too: its place is another directory.

    Raises:
        NotALogDir, UnreadableFile: the directory cannot be listed.
        LogDirLocked: a broker works on it.
        StalePlan: its files change all the time.
        Unsettled: a broker has it open, and truncated a log meanwhile; or a broker started.
    """
    if bounded is None and isinstance(log_dir, RunningPlace):
        bounded = log_dir.session.another().place
    log_dir = whole(log_dir)
    with reading(log_dir), nullcontext() if bounded is None else bounded.reading():
        for _ in range(ATTEMPTS):
            inventory = list_files(log_dir)
            search = _Search(log_dir, keys, settings, _Reader(patterns), progress)
            search.bounded, search.tier = bounded, tier
            result = search.run(inventory, threads or available_cores())
            if list_tree(log_dir) == inventory.tree:
                return result
    raise StalePlan(
        "its files change while they are searched.",
        path=log_dir,
        remedy="Stop the programs that change it, then search again.",
    )


class _Part(NamedTuple):
    """What was read of a part of a file."""

    file: RecordFile
    scanned: Scanned
    looked: Looked

    @property
    def failed(self) -> bool:
        """Whether the file could not be read, its other parts neither."""
        return any(part.bytes == -1 for part in self.scanned.unread)


class _Reader:
    """Reads files, on any thread."""

    def __init__(self, patterns: tuple[bytes, ...]) -> None:
        self.patterns = patterns
        self._files = MappedFiles()
        self._of_thread = local()

    def looks_for(self, keys: KeySet) -> bool:
        """Whether there is anything to search for."""
        return bool(self.patterns) or keys.is_searched

    def spans(self, file: RecordFile, keys: KeySet) -> Iterable[Span]:
        """Return the parts in which a file is read: a large segment has several, which begin at
        batches. They do not depend on the number of threads. Effects: reads the headers.
        """
        is_small = file.place.form != "segment" or file.stamp.size <= PART_BYTES
        if is_small or not self.looks_for(keys):
            return (WHOLE,)
        try:
            return split(self._open(file))
        except LogwrightError:
            return (WHOLE,)  # who reads it says why it cannot

    def read(self, file: RecordFile, keys: KeySet, span: Span) -> _Part:
        """Search a part of a file. Effects: reads it."""
        if not self.looks_for(keys):
            return _Part(file, nothing_found(), NOT_ASKED)
        try:
            return _Part(file, *self._read(file, keys, span))
        except LogwrightError as error:
            return _Part(file, nothing_found(whole_file(error.problem)), SEARCHED)

    def _read(self, file: RecordFile, keys: KeySet, span: Span) -> tuple[Scanned, Looked]:
        """Search a file by what it is."""
        data = self._open(file)
        if file.place.form == "segment":
            return self._scanner.scan(data, file.path, keys, span), SEARCHED
        texts = known_texts(file.path.name, data, _log_bytes(file.path))
        if texts is not None:
            scanned = scan_texts((*texts, *small_texts(data)), keys, self.patterns)
            return scanned, SEARCHED if texts else NO_RECORDS
        if file.place.form == "rows":
            return scan_spool(data, keys, self.patterns), SEARCHED
        scanned = self._scanner.scan(data, file.path, keys, span)
        if scanned.unread:
            scanned.unread = (whole_file(_FOREIGN),)
        return scanned, SEARCHED

    def _open(self, file: RecordFile) -> NDArray[np.uint8]:
        """Map a file for all of its parts: threads wait for each other when a map ends."""
        return self._files.open(file.path, expected_bytes=file.stamp.size).data

    def forget(self, file: RecordFile) -> None:
        """Unmap a file whose parts are all read: one that is deleted meanwhile takes space on the
        disk as long as it is mapped.
        """
        self._files.forget(file.path)

    @property
    def _scanner(self) -> Scanner:
        """The scanner of this thread."""
        if not hasattr(self._of_thread, "scanner"):
            self._of_thread.scanner = Scanner(self.patterns)
        scanner: Scanner = self._of_thread.scanner
        return scanner


class _Search:
    """The search of one log directory.

    Attributes:
        bounded, tier: see `search_log_dir`.
    """

    bounded: RunningPlace | None = None
    tier: RemoteSegments | None = None

    def __init__(
        self,
        log_dir: Place,
        keys: KeySet,
        settings: Settings | None,
        reader: _Reader,
        progress: Progress,
    ) -> None:
        self._keys = keys
        self._settings = settings
        self._reader = reader
        self._progress = progress
        self._found = SearchResult(directory=log_dir, unformed=set(keys.unformed))
        self._states: dict[TopicPartition, PartitionState] | None = None

    def run(self, inventory: Inventory, threads: int) -> SearchResult:
        """Search all files, log by log."""
        total = inventory.tree.total_bytes
        self._found.topics |= inventory.topics
        self._found.deleted |= inventory.deleted
        self._marks(inventory)
        metadata = None if self._settings is None else self._settings.metadata
        self._found.topics |= set() if metadata is None else metadata.topics.keys()
        self._add_unsearched(
            places_elsewhere(self._found.directory, inventory, metadata, self.tier)
        )
        self._missing(inventory)
        self._left_behind()
        for path, problem in inventory.tree.others.items():
            whole = Unread(position=0, bytes=-1, problem=problem)
            self._unread(inventory.partition_at(path), path, whole)
        groups = sorted(inventory.files, key=lambda one: (one.group, one.base_offset, one.relative))
        parts = in_order(self._tasks(groups), threads=threads)
        by_file = groupby(parts, key=lambda part: part.file.relative)
        read = (self._account(list(some), total) for _, some in by_file)
        for _, files in groupby(groups, key=lambda one: one.group):
            self._log(list(files), read)
        self._add_unsearched(not_shown(self._found.directory))
        self._found.findings.sort(key=lambda one: (one.path, one.offset, one.request))
        return self._found

    def _add_unsearched(self, parts: Iterable[Unsearched]) -> None:
        """Note places that may hold records of the requests' topics."""
        self._found.unsearched += [
            part
            for part in parts
            if part.partition == NO_PARTITION
            or self._reader.patterns
            or not self._keys.for_topic(part.partition.topic).is_empty
        ]

    def _missing(self, inventory: Inventory) -> None:
        """Note the offsets of which no segment is there. Effects: looks at the logs."""
        where = self._found.directory
        if self._settings is None or not is_local(where):
            return
        logs = sorted({one for name, one in inventory.logs.items() if name == one.directory_name})
        for partition, absence in missing_logs(where, logs):
            if self._reader.looks_for(self._keys.for_topic(partition.topic)):
                problem = f"{absence.offsets} offsets are missing: {absence.reason}"
                whole = Unread(position=0, bytes=-1, problem=problem)
                self._unread(partition, partition.directory_name, whole)

    def _left_behind(self) -> None:
        """Note the copies of records that killed commands left outside of log directories. Effects:
        removes what can be removed.
        """
        if self._settings is None:
            return
        for path, problem in left_behind().items():
            why = f"{path}: copies of records, which a killed command left: {problem}"
            self._unread(NO_PARTITION, "", Unread(position=0, bytes=-1, problem=why))

    def _marks(self, inventory: Inventory) -> None:
        """Note which keys the marks of erasures have. Effects: reads them."""
        for name, partition in inventory.logs.items():
            directory = self._found.directory / name
            with suppress(UnreadableFile):
                entry = entry_at(directory)
                if entry is not None and entry.kind == "directory":
                    keys = erased_keys(directory) or {}
                    add_erasures(self._found.erased.setdefault(partition.topic, {}), keys)

    def _tasks(self, files: Iterable[RecordFile]) -> Iterator[Callable[[], _Part]]:
        """Yield what is to be read, in order."""
        for file in files:
            keys = self._keys
            if file.partition != NO_PARTITION:
                keys = keys.for_topic(file.partition.topic)
            for span in self._reader.spans(file, keys):
                yield partial(self._reader.read, file, keys, span)

    def _log(self, files: Sequence[RecordFile], read: Iterator[Scanned]) -> None:
        """Search the files of one log, which are read in this order."""
        scanned: list[Scanned] = []
        for file in files:
            scanned.append(next(read))
            for part in scanned[-1].unread:
                self._unread(file.partition, file.relative, part)
        if any(len(one.hits) for one in scanned):
            self._decide(files, scanned)

    def _account(self, parts: Sequence[_Part], total: int) -> Scanned:
        """Return what was read of a file. Effects: reports the progress."""
        result, file, looked = self._found, parts[0].file, parts[0].looked
        self._reader.forget(file)
        failed = [part for part in parts if part.failed]
        scanned = failed[0].scanned if failed else joined([part.scanned for part in parts])
        if scanned.unread:
            whole = any(one.bytes in (-1, file.stamp.size) for one in scanned.unread)
            looked = "not searched" if whole else "in part"
        if scanned.undecoded and looked == SEARCHED:
            looked = "in part"
        result.looked[file.relative] = looked
        result.add_others(self._keys, file.partition.topic, scanned.others)
        if scanned.keys:
            result.keys.setdefault(file.partition.topic, set()).update(scanned.keys)
        if scanned.undecoded:
            problem = f"{len(scanned.undecoded)} {UNDECODED}"
            part = Unread(position=0, bytes=-1, problem=problem)
            self._unread(file.partition, file.relative, part)
        result.files += 1
        result.bytes += file.stamp.size
        self._progress("search", result.bytes, total)
        return scanned

    def _unread(self, partition: TopicPartition, path: str, part: Unread) -> None:
        self._found.unsearched.append(
            Unsearched(
                partition=partition,
                path=path,
                position=part.position,
                bytes=part.bytes,
                problem=part.problem,
            )
        )

    def _decide(self, files: Sequence[RecordFile], scanned: Sequence[Scanned]) -> None:
        """Decide about all records of one log that were found."""
        rows = np.cumsum([0, *(len(one.batches) for one in scanned)])
        hits = np.concatenate([one.hits for one in scanned])
        owners = np.repeat(np.arange(len(files)), [len(one.hits) for one in scanned])
        hits["row"] += rows[owners]
        batches = np.concatenate([one.batches for one in scanned])
        markers = np.concatenate([one.markers for one in scanned])
        is_live, partition = files[0].place.rule == UPKEEP, files[0].partition
        log = self._observe(partition) if is_live and self._settings else None
        start = 0 if log is None else int(log.log_start_offset)
        judged = judge(hits, batches, markers, log_start_offset=start)
        if log is not None and self._settings is not None:
            live = LiveHits(
                log=log,
                hits=hits,
                batches=batches,
                markers=markers,
                hold=self._hold(partition, self._settings.now_ms),
                deadlines=self._keys.deadlines_ms(hits["request"], partition.topic),
            )
            if self.bounded is None:
                self._found.live[partition] = live
                rules, times = removal_of_records(live, judged, self._settings)
            else:
                rules, times = removal_of_records_by_broker(live, judged, self._settings)
        else:
            removed = [self._of_file(one) for one in files]
            rules = [removed[owner][0] for owner in owners.tolist()]
            times = [removed[owner][1] for owner in owners.tolist()]
        self._add(files, owners, hits, batches, (judged, rules, times))

    def _add(
        self,
        files: Sequence[RecordFile],
        owners: NDArray[np.int64],
        hits: NDArray[np.void],
        batches: NDArray[np.void],
        decided: tuple[Judged, Sequence[str], Sequence[int | None]],
    ) -> None:
        judged, rules, times = decided
        requested = hits["request"] >= 0
        columns = (
            owners.tolist(),
            np.where(requested, hits["request"], hits["pattern"] + len(self._keys)).tolist(),
            hits["offset"].tolist(),
            batches["position"][hits["row"]].tolist(),
            judged.kinds.tolist(),
        )
        archived = self._settings is None
        outside = REMOTE if isinstance(self._found.directory, RemoteSegmentsPlace) else "archive"
        bound = None if self.bounded is None else bounds_of(self.bounded)
        for (owner, request, offset, position, kind), rule, time in zip(
            zip(*columns, strict=True), rules, times, strict=True
        ):
            file = files[owner]
            limit = bound.get(file.relative.partition("/")[0]) if bound else None
            live = limit is not None and file.place.rule == UPKEEP
            self._found.findings.append(
                Finding(
                    request=request,
                    topic=file.partition.topic,
                    partition=file.partition.partition,
                    path=file.relative,
                    place=outside if archived else file.place.name,
                    offset=offset,
                    batch_position=position,
                    kind=KINDS[kind],
                    rule=rule,
                    gone_by_ms=time,
                    committed=offset < limit.end_offset if limit and live else None,
                )
            )

    def _of_file(self, file: RecordFile) -> tuple[str, int | None]:
        """Return what removes a file that is not part of a live log, and by when."""
        where, settings = self._found.directory, self._settings
        if settings is not None and not is_local(where) and self.bounded is None:
            problem = "what removes its records is not known of another place"
            self._found.undecided[file.partition] = problem
            return "", None
        try:
            if settings is not None and self.bounded is not None:
                if is_being_cleaned(file):
                    problem = "the broker's cleaner was writing a file with them"
                    self._found.undecided[file.partition] = problem
                return removal_of_file_by_broker(file, settings)
            return removal_of_file(file, self._settings, self._found.directory)
        except LogwrightError as error:
            self._found.undecided[file.partition] = str(error)
            return "", None

    def _hold(self, partition: TopicPartition, now_ms: int) -> Hold | None:
        """Return why a log is not maintained now; a broker that has it open asks for no hold.
        Effects: reads the state file, once.
        """
        if self.bounded is not None:
            return None
        if self._states is None:
            self._states = read_state(self._found.directory)
        hold = self._states.get(partition, NOTHING).hold(TimestampMs(now_ms))
        if hold is not None:
            self._found.undecided[partition] = hold.sentence
        return hold

    def _observe(self, partition: TopicPartition) -> PartitionLog | None:
        """Return the log, None if its state is not known. That of a running one is as if it were
        stopped: the rules take it, and read nothing.
        """
        settings, result = self._settings, self._found
        if settings is None:
            return None
        try:
            if self.bounded is not None:
                seen = observe(self.bounded, partition, high_watermark="checkpoint")
                log = PartitionLog(self.bounded.session.log_dir, *seen[1:])
            elif is_local(result.directory):
                log = observe(result.directory, partition, high_watermark=settings.high_watermark)
            else:
                return None
            settings.of_topic(partition.topic)
        except LogwrightError as error:
            result.undecided[partition] = str(error)
            return None
        return log


def _log_bytes(path: Place) -> int | None:
    """Return the size of the segment of an index. Effects: looks at it."""
    if not path.name.endswith(INDEX):
        return None
    try:
        entry = entry_at(path.parent / f"{path.name.removesuffix(INDEX)}{LOG}")
    except UnreadableFile:
        return None
    return None if entry is None else entry.stamp.bytes
