"""Search directories for the records of requested keys, and decide what removes each.

Effects of all that is here: reads the directories; keeps brokers out meanwhile. If the files of a
log directory change while they are read, the search of it begins again.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from logwright.batches.runtime import Progress
from logwright.erasure.find.columns import scan_spool
from logwright.erasure.find.elsewhere import places_elsewhere
from logwright.erasure.find.kinds import KINDS, Judged, judge
from logwright.erasure.find.model import Finding, Looked, Place
from logwright.erasure.find.places import NO_PARTITION, Inventory, RecordFile, list_files
from logwright.erasure.find.proofs import known_texts, small_texts
from logwright.erasure.find.result import Found, LiveHits, Settings, Unsearched
from logwright.erasure.find.scan import Scanned, Scanner, Unread, nothing_found, whole_file
from logwright.erasure.find.texts import scan_texts
from logwright.erasure.keys import KeySet
from logwright.erasure.outlook.removals import removal_of_file, removal_of_records
from logwright.errors import LogwrightError, StalePlan
from logwright.format.names import INDEX, LOG, TopicPartition
from logwright.locks import broker_kept_out
from logwright.log.load import observe
from logwright.log.model import PartitionLog
from logwright.place.mapped import map_file
from logwright.state.model import NOTHING, Hold, PartitionState
from logwright.state.store import read_state
from logwright.units import TimestampMs

ATTEMPTS: Final = 3
"""How often a directory is read whose files change meanwhile."""
SEARCHED: Final[Looked] = "searched"
NO_RECORDS: Final[Looked] = "no records"
NOT_ASKED: Final[Looked] = "not asked"
_FOREIGN: Final = (
    "it is neither records nor what Kafka or logwright writes into a file of this name"
)


def search_log_dir(
    log_dir: Path,
    keys: KeySet,
    settings: Settings | None,
    *,
    patterns: tuple[bytes, ...] = (),
    progress: Progress,
) -> Found:
    """Search one log directory.

    Args:
        settings: None for an archive, which nothing maintains.
        patterns: byte patterns that are searched in keys, values and headers, too.
        progress: called with the phase "search", bytes done and all.

    Raises:
        NotALogDir, UnreadableFile: the directory cannot be listed.
        LogDirLocked: a broker works on it.
        StalePlan: its files change all the time.
    """
    with broker_kept_out(log_dir):
        for _ in range(ATTEMPTS):
            inventory = list_files(log_dir)
            found = _Search(log_dir, keys, settings, patterns, progress).run(inventory)
            after = list_files(log_dir)
            if (after.files, after.not_searched) == (inventory.files, inventory.not_searched):
                return found
    raise StalePlan(
        "its files change while they are searched.",
        path=log_dir,
        remedy="Stop the programs that change it, then search again.",
    )


class _Search:
    """The search of one log directory."""

    def __init__(
        self,
        log_dir: Path,
        keys: KeySet,
        settings: Settings | None,
        patterns: tuple[bytes, ...],
        progress: Progress,
    ) -> None:
        self._keys = keys
        self._settings = settings
        self._patterns = patterns
        self._scanner = Scanner(patterns)
        self._progress = progress
        self._found = Found(directory=log_dir)
        self._states: dict[TopicPartition, PartitionState] | None = None

    def run(self, inventory: Inventory) -> Found:
        """Search all files, log by log."""
        total = sum(one.stamp[1] for one in inventory.files)
        self._found.topics |= inventory.topics
        self._found.deleted |= inventory.deleted
        self._found.erased |= inventory.erased
        metadata = None if self._settings is None else self._settings.metadata
        self._found.topics |= set() if metadata is None else metadata.topics.keys()
        self._found.unsearched += [
            one
            for one in places_elsewhere(self._found.directory, inventory, metadata)
            if one.partition == NO_PARTITION
            or self._patterns
            or not self._keys.for_topic(one.partition.topic).is_empty
        ]
        for missing in inventory.not_searched:
            whole = Unread(position=0, bytes=-1, problem=missing.problem)
            self._unread(missing.partition, missing.relative, whole)
        groups = sorted(inventory.files, key=lambda one: (one.group, one.base_offset, one.relative))
        for _, files in groupby(groups, key=lambda one: one.group):
            self._log(list(files), total)
        self._found.findings.sort(key=lambda one: (one.path, one.offset, one.request))
        return self._found

    def _log(self, files: Sequence[RecordFile], total: int) -> None:
        """Search the files of one log."""
        topic = files[0].partition.topic
        keys = self._keys if files[0].partition == NO_PARTITION else self._keys.for_topic(topic)
        scanned: list[Scanned] = []
        for file in files:
            one = self._scan(file, keys, total)
            for part in one.unread:
                self._unread(file.partition, file.relative, part)
            scanned.append(one)
        if any(len(one.hits) for one in scanned):
            self._decide(files, scanned)

    def _scan(self, file: RecordFile, keys: KeySet, total: int) -> Scanned:
        found = self._found
        asked = not keys.is_empty or bool(self._patterns)
        try:
            scanned, looked = self._read(file, keys) if asked else (nothing_found(), NOT_ASKED)
        except LogwrightError as error:
            scanned, looked = nothing_found(whole_file(error.problem)), SEARCHED
        if scanned.unread:
            whole = any(one.bytes in (-1, file.stamp[1]) for one in scanned.unread)
            looked = "not searched" if whole else "in part"
        found.looked[file.relative] = looked
        found.files += 1
        found.bytes += file.stamp[1]
        self._progress("search", found.bytes, total)
        return scanned

    def _read(self, file: RecordFile, keys: KeySet) -> tuple[Scanned, Looked]:
        """Search a file by what it is."""
        data = map_file(file.path, expected_bytes=file.stamp[1])
        if file.form == "segment":
            return self._scanner.scan(data, file.path, keys), SEARCHED
        texts = known_texts(file.path.name, data, _log_bytes(file.path))
        if texts is not None:
            scanned = scan_texts((*texts, *small_texts(data)), keys, self._patterns)
            return scanned, SEARCHED if texts else NO_RECORDS
        if file.form == "rows":
            return scan_spool(file.path, keys, self._patterns), SEARCHED
        scanned = self._scanner.scan(data, file.path, keys)
        if scanned.unread:
            scanned.unread = (whole_file(_FOREIGN),)
        return scanned, SEARCHED

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
        place, partition = files[0].place, files[0].partition
        log = self._observe(partition) if place == "segment" and self._settings else None
        start = 0 if log is None else int(log.log_start_offset)
        judged = judge(hits, batches, markers, log_start_offset=start)
        if log is not None and self._settings is not None:
            live = LiveHits(
                log=log,
                hits=hits,
                batches=batches,
                markers=markers,
                hold=self._hold(partition, self._settings.now_ms),
                deadline_ms=self._keys.first_deadline_ms(hits["request"], partition.topic),
            )
            self._found.live[partition] = live
            rules, times = removal_of_records(live, judged, self._settings)
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
        for (owner, request, offset, position, kind), rule, time in zip(
            zip(*columns, strict=True), rules, times, strict=True
        ):
            file = files[owner]
            place: Place = "archive" if archived else file.place
            self._found.findings.append(
                Finding(
                    request=request,
                    topic=file.partition.topic,
                    partition=file.partition.partition,
                    path=file.relative,
                    place=place,
                    offset=offset,
                    batch_position=position,
                    kind=KINDS[kind],
                    rule=rule,
                    gone_by_ms=time,
                )
            )

    def _of_file(self, file: RecordFile) -> tuple[str, int | None]:
        """Return what removes a file that is not part of a live log, and by when."""
        try:
            return removal_of_file(file, self._settings)
        except LogwrightError as error:
            self._found.undecided[file.partition] = str(error)
            return "", None

    def _hold(self, partition: TopicPartition, now_ms: int) -> Hold | None:
        """Return why a log is not maintained now. Effects: reads the state file, once."""
        if self._states is None:
            self._states = read_state(self._found.directory)
        hold = self._states.get(partition, NOTHING).hold(TimestampMs(now_ms))
        if hold is not None:
            self._found.undecided[partition] = hold.sentence
        return hold

    def _observe(self, partition: TopicPartition) -> PartitionLog | None:
        """Return the log, None if its state is not known."""
        settings, found = self._settings, self._found
        if settings is None:
            return None
        try:
            log = observe(found.directory, partition, high_watermark=settings.high_watermark)
            settings.of_topic(partition.topic)
        except LogwrightError as error:
            found.undecided[partition] = str(error)
            return None
        return log


def _log_bytes(path: Path) -> int | None:
    """Return the size of the segment of an index. Effects: reads its status."""
    try:
        return path.with_suffix(LOG).lstat().st_size if path.name.endswith(INDEX) else None
    except OSError:
        return None
