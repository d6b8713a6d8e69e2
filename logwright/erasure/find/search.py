"""Search directories for the records of requested keys, and decide what removes each.

Effects of all that is here: reads the directories; keeps brokers out meanwhile. If the files of a
log directory change while they are read, the search of it begins again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from logwright.erasure.find.columns import scan_spool, search_table
from logwright.erasure.find.kinds import ABORTED, KINDS, SUPERSEDED, TOMBSTONE, Judged, judge
from logwright.erasure.find.model import Finding, Place
from logwright.erasure.find.places import NO_PARTITION, Inventory, RecordFile, list_files
from logwright.erasure.find.scan import Scanned, Scanner, Unread, nothing_found
from logwright.erasure.forecast import NO_TIME, RULES, Records, Upkeep, removals
from logwright.erasure.keys import KeySet
from logwright.errors import LogwrightError, StalePlan
from logwright.format.batch import DELETE_HORIZON
from logwright.format.names import TopicPartition
from logwright.locks import broker_kept_out
from logwright.log.load import observe
from logwright.log.mapped import map_file
from logwright.log.model import PartitionLog

if TYPE_CHECKING:
    from logwright.config.broker import BrokerConfig
    from logwright.config.topic import CleanerConfig, TopicConfig
    from logwright.observe import HighWatermark

ATTEMPTS: Final = 3
"""How often a directory is read whose files change meanwhile."""
PURGE: Final = "purge"
DELETE_DELAY: Final = "file.delete.delay.ms"
DELETED_LOG_DELAY: Final = "log.segment.delete.delay.ms"
FAILED_OUTPUT: Final = "sweep.keep_failed_output_ms"
SPOOL_RULE: Final = "write"
_DELAYS: Final[dict[Place, str]] = {
    "deleted": DELETE_DELAY,
    "deleted log": DELETED_LOG_DELAY,
    "quarantine": FAILED_OUTPUT,
}
"""Place → what removes its files some time after `RecordFile.since_ms`."""

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of a log directory.

    Attributes:
        of_topic: a topic's settings.
        broker: the broker's own.
        now_ms: the clock, ms since the epoch.
        high_watermark: what counts as committed.
        run_interval_ms: the longest time between two runs of maintenance.
        forced: runs clean whatever the ratio and the lag say.
        appends_continue: see `logwright.erasure.forecast.Upkeep`.
    """

    of_topic: Callable[[str], tuple[TopicConfig, CleanerConfig]]
    broker: BrokerConfig
    now_ms: int
    high_watermark: HighWatermark
    run_interval_ms: int = 0
    forced: bool = False
    appends_continue: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsearched:
    """A file, or a part of one, that could not be searched.

    Attributes:
        path: relative to the directory.
        position, bytes: of the part; 0 and -1 for the whole file.
        problem: why.
    """

    partition: TopicPartition
    path: str
    position: int
    bytes: int
    problem: str

    def as_finding(self) -> Finding:
        """Return it as a finding of no request: any key may be in it."""
        return Finding(
            request=-1,
            topic=self.partition.topic,
            partition=self.partition.partition,
            path=self.path,
            place="unreadable",
            offset=-1,
            batch_position=self.position,
            kind="live",
            rule="",
            gone_by_ms=None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveHits:
    """The records of a live log that were found.

    Attributes:
        log: as it was observed.
        hits: HIT[n]. batches: BATCH[m]. markers: int64[k, 3], of the whole log.
    """

    log: PartitionLog
    hits: NDArray[np.void]
    batches: NDArray[np.void]
    markers: NDArray[np.int64]


@dataclass(slots=True, kw_only=True)
class Found:
    """The result for one directory.

    Attributes:
        directory: as given.
        findings: sorted by path and offset.
        unsearched: what could not be searched.
        undecided: log → why its settings or its state are not known: what removes its records is
            not known either.
        live: the live logs with findings.
        files, bytes: that were searched.
    """

    directory: Path
    findings: list[Finding] = field(default_factory=list)
    unsearched: list[Unsearched] = field(default_factory=list)
    undecided: dict[TopicPartition, str] = field(default_factory=dict)
    live: dict[TopicPartition, LiveHits] = field(default_factory=dict)
    files: int = 0
    bytes: int = 0


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
            if list_files(log_dir).files == inventory.files:
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

    def run(self, inventory: Inventory) -> Found:
        """Search all files, log by log."""
        total = sum(one.stamp[1] for one in inventory.files)
        for missing in inventory.not_searched:
            self._found.unsearched.append(
                Unsearched(
                    partition=missing.partition,
                    path=missing.relative,
                    position=0,
                    bytes=-1,
                    problem=missing.problem,
                )
            )
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
                self._unread(file, part)
            scanned.append(one)
        if any(len(one.hits) for one in scanned):
            self._decide(files, scanned)

    def _scan(self, file: RecordFile, keys: KeySet, total: int) -> Scanned:
        found = self._found
        try:
            if file.is_arrow:
                scanned = scan_spool(file.path, self._keys, self._patterns)
            elif keys.is_empty and not self._patterns:
                scanned = nothing_found()
            else:
                data = map_file(file.path, expected_bytes=file.stamp[1])
                scanned = self._scanner.scan(data, file.path, keys)
        except LogwrightError as error:
            scanned = nothing_found(Unread(position=0, bytes=-1, problem=error.problem))
        found.files += 1
        found.bytes += file.stamp[1]
        self._progress("search", found.bytes, total)
        return scanned

    def _unread(self, file: RecordFile, part: Unread) -> None:
        self._found.unsearched.append(
            Unsearched(
                partition=file.partition,
                path=file.relative,
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
            live = LiveHits(log=log, hits=hits, batches=batches, markers=markers)
            self._found.live[partition] = live
            rules, times = _of_live_log(live, judged, self._settings)
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
            return _of_file(file, self._settings)
        except LogwrightError as error:
            self._found.undecided[file.partition] = str(error)
            return "", None

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


def upkeep_of(settings: Settings, topic: str) -> Upkeep:
    """Return how a topic's logs are maintained: without a cleaner compacted ones are skipped."""
    config, cleaner = settings.of_topic(topic)
    works = cleaner.off is None or not config.compact or settings.forced
    return Upkeep(
        run_interval_ms=settings.run_interval_ms,
        forced=settings.forced,
        cleans=works,
        retains=works,
        appends_continue=settings.appends_continue,
    )


def records_of(hits: NDArray[np.void], batches: NDArray[np.void], judged: Judged) -> Records:
    """Return records that were found as a forecast takes them."""
    rows = batches[hits["row"]]
    has_horizon = (rows["attributes"] & DELETE_HORIZON) != 0
    return Records(
        offsets=hits["offset"],
        superseded=judged.kinds == SUPERSEDED,
        aborted=judged.kinds == ABORTED,
        tombstones=judged.kinds == TOMBSTONE,
        horizons=np.where(has_horizon, rows["base_timestamp"], NO_TIME),
        superseded_within=judged.superseded_within,
    )


def _of_live_log(
    live: LiveHits, judged: Judged, settings: Settings
) -> tuple[list[str], list[int | None]]:
    """Return rule and time of each record of a live log."""
    topic = live.log.partition.topic
    config, _ = settings.of_topic(topic)
    records = records_of(live.hits, live.batches, judged)
    upkeep = upkeep_of(settings, topic)
    found = removals(records, live.log, config, now_ms=settings.now_ms, upkeep=upkeep)
    rules = [RULES[number] for number in found.rules.tolist()]
    return rules, [None if time == NO_TIME else time for time in found.times.tolist()]


def _of_file(file: RecordFile, settings: Settings | None) -> tuple[str, int | None]:
    """Return what removes a file that is not part of a live log, and by when."""
    if settings is None:
        return "", None
    if file.place == "staging":
        if file.is_arrow:
            return SPOOL_RULE, None
        return ("", None) if file.is_kept else (PURGE, settings.now_ms + settings.run_interval_ms)
    if file.since_ms is None or file.place not in _DELAYS:
        return "", None
    rule = _DELAYS[file.place]
    due_ms = file.since_ms
    if rule == DELETE_DELAY:
        due_ms += settings.of_topic(file.partition.topic)[0].file_delete_delay_ms
    elif rule == DELETED_LOG_DELAY:
        due_ms += settings.broker.file_delete_delay_ms
    return rule, max(due_ms, settings.now_ms) + settings.run_interval_ms


def search_table_files(root: Path, keys: KeySet) -> Found:
    """Search a table's Parquet files; see `search_table`."""
    findings, problems = search_table(root, keys)
    unsearched = [
        Unsearched(partition=partition, path=path, position=0, bytes=-1, problem=problem)
        for path, partition, problem in problems
    ]
    return Found(directory=root, findings=findings, unsearched=unsearched)


def findings_of(found: Iterable[Found]) -> list[Finding]:
    """Return the findings of some directories, those of unsearched files included."""
    return [
        finding
        for one in found
        for finding in (*one.findings, *(each.as_finding() for each in one.unsearched))
    ]
