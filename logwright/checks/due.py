"""Was due what a retention and a purge deleted, and is due nothing that they left?

Computed from an account of what was on the disk before and after, by rules that are written here
once more: as statements about each file, and not as the walk of the plan. What was not looked at
has no result.
"""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from logwright.format.names import DELETED, LOG
from logwright.times import duration, durations_apart

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from logwright.config.topic import TopicConfig
    from logwright.log.model import Segment
    from logwright.purge.account import PurgeAccount
    from logwright.retention.account import RetentionAccount
    from logwright.units import TimestampMs

SEGMENTS_DELETED: Final = "segments_deleted_were_due"
SEGMENTS_LEFT: Final = "segments_left_are_not_due"
FILES_PURGED: Final = "files_purged_were_due"
FILES_LEFT: Final = "files_left_are_not_due"

_NS_PER_MS: Final = 1_000_000
_LEFTOVERS: Final = (".cleaned", ".swap", ".snapshot.tmp")
_METADATA_SNAPSHOT: Final = ".checkpoint.deleted"
"""Of the KRaft metadata log: a broker keeps it."""
_INDEXES: Final = (".index", ".timeindex", ".txnindex")


class Wrong(NamedTuple):
    """A segment or file that breaks a check.

    Attributes:
        offset: base offset of a segment; None of a file.
        sentence: which one, and why.
    """

    offset: int | None
    sentence: str


class DueResult(NamedTuple):
    """The result of one check.

    Attributes:
        name: of the check.
        looked_at: how many segments or files it is about; at least one.
        wrong: those that break it.
    """

    name: str
    looked_at: int
    wrong: tuple[Wrong, ...]


def check_retention(
    account: RetentionAccount, config: TopicConfig, now_ms: TimestampMs
) -> tuple[DueResult, ...]:
    """Return the results for one log: of segments that were deleted, and of those that were left.

    Args:
        account: of the retention.
        config: the settings that held.
        now_ms: the clock of the retention.
    """
    log = account.log
    deleted = [one for one in log.segments if one.base_offset not in account.left]
    rules = _Rules(account, config, now_ms)
    results = []
    if deleted:
        wrong = [Wrong(one.base_offset, why) for one in deleted for why in rules.too_early(one)]
        results.append(DueResult(SEGMENTS_DELETED, len(deleted), tuple(wrong)))
    left = [one for one in log.segments if one.base_offset in account.left]
    if account.left:
        wrong = [Wrong(one.base_offset, why) for one in left[:1] for why in rules.overdue(one)]
        results.append(DueResult(SEGMENTS_LEFT, len(account.left), tuple(wrong)))
    else:
        nothing = Wrong(log.log_end_offset, "the log has no segment any more")
        results.append(DueResult(SEGMENTS_LEFT, 1, (nothing,)))
    return tuple(results)


class _Rules:
    """Kafka's rules of retention as statements about one segment (UnifiedLog.deleteOldSegments)."""

    def __init__(self, account: RetentionAccount, config: TopicConfig, now_ms: TimestampMs) -> None:
        log = account.log
        bases = [one.base_offset for one in log.segments]
        self._account, self._config, self._now_ms = account, config, now_ms
        self._end = dict(pairwise([*bases, log.log_end_offset]))
        sizes = [one.log_bytes for one in reversed(log.segments)]
        self._bytes_after: Mapping[int, int] = dict(
            zip(reversed(bases), accumulate(sizes[:-1], initial=0), strict=True)
        )

    def too_early(self, segment: Segment) -> Iterator[str]:
        """Yield why a segment that was deleted had to stay."""
        base = segment.base_offset
        older = [left for left in self._account.left if left < base]
        if older:
            yield f"segment {base} is deleted, and the older segment {min(older)} is not"
        if not self._committed(segment):
            yield f"segment {base} is deleted, and its records are not all committed"
        if self._is_empty_and_active(segment):
            yield f"segment {base} is deleted, and it is the active one and empty"
        newest_ms: int | None = self._account.newest_ms.get(base)
        if segment.log_bytes == 0 or (newest_ms is not None and newest_ms < 0):
            newest_ms = segment.modified_ns // _NS_PER_MS
        if not (self._by_offset(segment) or self._by_size(segment) or self._by_time(newest_ms)):
            yield f"segment {base} is deleted: {self._numbers(segment, newest_ms)}"

    def overdue(self, segment: Segment) -> Iterator[str]:
        """Yield why the oldest segment that was left had to go. It keeps all after it."""
        if self._is_empty_and_active(segment) or not self._committed(segment):
            return
        newest_ms = segment.largest_timestamp_ms
        if self._by_offset(segment) or self._by_size(segment) or self._by_time(newest_ms):
            yield f"segment {segment.base_offset} is left: {self._numbers(segment, newest_ms)}"

    def _is_empty_and_active(self, segment: Segment) -> bool:
        return segment is self._account.log.active and segment.log_bytes == 0

    def _committed(self, segment: Segment) -> bool:
        return self._end[segment.base_offset] <= self._account.log.high_watermark

    def _by_offset(self, segment: Segment) -> bool:
        """Return whether all its records are below the log start offset; a sealed segment's."""
        log = self._account.log
        return segment is not log.active and self._end[segment.base_offset] <= log.log_start_offset

    def _by_size(self, segment: Segment) -> bool:
        """Return whether ``retention.bytes`` are left without it and what is before it."""
        limit = self._config.retention_bytes
        return self._config.delete and 0 <= limit <= self._bytes_after[segment.base_offset]

    def _by_time(self, newest_ms: int | None) -> bool:
        """Return whether its newest record is older than ``retention.ms``; not if that is not
        known.
        """
        limit = self._config.retention_ms
        if newest_ms is None or not self._config.delete or limit < 0:
            return False
        return newest_ms + limit < self._now_ms

    def _numbers(self, segment: Segment, newest_ms: int | None) -> str:
        """Return what the rules compare."""
        log, config = self._account.log, self._config
        age, limit = "not known", duration(config.retention_ms)
        if newest_ms is not None:
            age, limit = durations_apart(self._now_ms - newest_ms, config.retention_ms)
        limit = limit if config.retention_ms >= 0 else "unlimited"
        return (
            f"it ends at {self._end[segment.base_offset]} (log start offset"
            f" {log.log_start_offset}), {self._bytes_after[segment.base_offset]} bytes come after"
            f" it (retention.bytes={config.retention_bytes}), its age is {age}"
            f" (retention.ms is {limit}), cleanup.policy={','.join(config.cleanup_policy)}"
        )


def check_purge(
    account: PurgeAccount, now_ms: TimestampMs, file_delete_delay_ms: int
) -> tuple[DueResult, ...]:
    """Return the results for one log: of files that were purged, and of retired ones that were
    left. What interrupted operations leave has no delay, and is not looked at.

    Args:
        account: of the purge.
        now_ms: its clock.
        file_delete_delay_ms: `file.delete.delay.ms`, by the settings now; the longer of it and the
            one with which a file was retired counts.
    """
    logs = {file.name.removesuffix(LOG) for file in account.files if file.name.endswith(LOG)}
    purged, left = [], []
    early, late = [], []
    for file in account.files:
        waited_ms = now_ms - file.since_ms
        delay_ms = max(file_delete_delay_ms, file.not_before_ms - file.since_ms)
        ago, delay = durations_apart(waited_ms, delay_ms)
        waited, rule = f"{file.name} was retired {ago} ago", f"file.delete.delay.ms is {delay}"
        if not file.name.endswith(DELETED) or file.name.endswith(_METADATA_SNAPSHOT):
            if not file.left and not _is_leftover(file.name, logs):
                purged.append(file)
                early.append(Wrong(None, f"{file.name} is purged, and was not retired"))
        elif file.left:
            left.append(file)
            if waited_ms >= delay_ms:
                late.append(Wrong(None, f"{waited} and is left, {rule}"))
        else:
            purged.append(file)
            if waited_ms < delay_ms:
                early.append(Wrong(None, f"{waited} and is purged, {rule}"))
    results = (
        DueResult(FILES_PURGED, len(purged), tuple(early)),
        DueResult(FILES_LEFT, len(left), tuple(late)),
    )
    return tuple(result for result in results if result.looked_at)


def _is_leftover(name: str, logs: set[str]) -> bool:
    """Return whether a file is what an interrupted operation leaves. `logs`: stems of the ``.log``
    files that there were.
    """
    stem, _, suffix = name.partition(".")
    return name.endswith(_LEFTOVERS) or (f".{suffix}" in _INDEXES and stem not in logs)
