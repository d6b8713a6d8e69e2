"""What has to be done so that a table holds the latest state of a partition. Pure.

The log is the truth; what the table records of itself is its progress. As a consumer must, a table
must read a tombstone within ``delete.retention.ms``: then the cleaner may remove it, and the key
would stay in the table. So a table that may have missed one is made again (KIP-354, and Kafka's
documentation of log compaction: "any consumer that stays caught up").
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

from logwright.tables.batches import Batches, are_others
from logwright.tables.model import Form, Progress

Kind = Literal["nothing", "upsert", "rebuild"]

FIRST_TIME: Final = "the table holds nothing of this partition"


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """A partition's log as it is now.

    Attributes:
        topic_id: in Kafka's base64; None if the log says none.
        end_offset: the last stable offset: what a read_committed consumer may read is below it.
        delete_retention_ms: ``delete.retention.ms`` of the topic.
        now_ms: when the log was observed.
        cleaned_to: the cleaner checkpoint; None if there is none.
        tail: of the log's batch that has the last offset that the table holds: base offset and CRC;
            None if no batch has it.
        missing_offset: the first offset between the table's end and the log's that has no record;
            None if there is none, or if `asks_for_missing` said that it does not matter.
        erasure: the mark of the last erasure; None without one.
        batches: those that the table holds, as they are now; None if that is not known.
    """

    topic_id: str | None
    log_start_offset: int
    end_offset: int
    delete_retention_ms: int
    now_ms: int
    cleaned_to: int | None = None
    tail: tuple[int, int] | None = None
    missing_offset: int | None = None
    erasure: str | None = None
    batches: Batches | None = None

    @property
    def progress(self) -> Progress:
        """What a table records that holds all of it. `tail` and `batches` must be of the end."""
        return Progress(
            end_offset=self.end_offset,
            topic_id=self.topic_id,
            log_start_offset=self.log_start_offset,
            read_at_ms=self.now_ms,
            delete_retention_ms=self.delete_retention_ms,
            tail=self.tail,
            erasure=self.erasure,
            batches=self.batches,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStep:
    """What is done for one partition.

    Attributes:
        start_offset: the log is read from here; None: from its start.
        end_offset: to here, exclusive.
        reason: why it is rebuilt; empty if it is not.
        forgets: what was said of the log's offsets before is about another log.
    """

    kind: Kind
    start_offset: int | None
    end_offset: int
    reason: str = ""
    forgets: bool = False


def asks_for_missing(recorded: Progress | None, observed: Observed) -> bool:
    """Return whether the plan depends on `Observed.missing_offset`, which must be looked for."""
    return (
        recorded is not None
        and _other_log(recorded, observed) is None
        and recorded.end_offset < observed.end_offset
        and observed.now_ms - recorded.read_at_ms >= _patience_ms(recorded, observed)
    )


def plan_partition(recorded: Progress | None, observed: Observed) -> PartitionStep:
    """Return what is done for a partition.

    Args:
        recorded: what the table holds of it, None: nothing.
        observed: its log.
    """
    if recorded is None:
        return _rebuild(observed, FIRST_TIME)
    other = _other_log(recorded, observed)
    if other is not None:
        return replace(_rebuild(observed, other), forgets=_forgets(recorded, observed))
    if recorded.end_offset == observed.end_offset:
        return PartitionStep(
            kind="nothing", start_offset=recorded.end_offset, end_offset=observed.end_offset
        )
    waited_ms = observed.now_ms - recorded.read_at_ms
    patience_ms = _patience_ms(recorded, observed)
    if observed.missing_offset is not None and waited_ms >= patience_ms:
        return _rebuild(
            observed,
            f"offset {observed.missing_offset} is missing and the log was last read {waited_ms} ms"
            f" ago: a tombstone may have been removed since (delete.retention.ms={patience_ms})",
        )
    return PartitionStep(
        kind="upsert", start_offset=recorded.end_offset, end_offset=observed.end_offset
    )


def gone_partitions(
    recorded: Mapping[int, Progress], topic_ids: frozenset[str | None], present: frozenset[int]
) -> tuple[int, ...]:
    """Return the partitions whose rows are removed: they have no log any more, and those that have
    one are of another topic of the same name.

    A partition whose log is not there, with the topic unchanged, keeps its rows: its disk may only
    be unmounted.

    Args:
        recorded: what the table holds.
        topic_ids: of the logs that are there.
        present: the partitions that have a log.
    """
    return tuple(
        sorted(
            number
            for number, one in recorded.items()
            if number not in present and topic_ids and one.topic_id not in topic_ids
        )
    )


def differences(known: Form, wanted: Form) -> str | None:
    """Return why a table cannot be continued, None if it can be."""
    if known.topic != wanted.topic:
        return f"it is of topic {known.topic}"
    if known.buckets != wanted.buckets:
        return f"it has {known.buckets} buckets, not {wanted.buckets}"
    if known.asked != wanted.asked:
        return "its keys or values were decoded with other settings"
    if known.columns != wanted.columns:
        before, after = dict(known.columns), dict(wanted.columns)
        names = sorted(
            name for name in before.keys() | after.keys() if before.get(name) != after.get(name)
        )
        return f"its columns are others: {', '.join(names)}"
    return None


def _rebuild(observed: Observed, reason: str) -> PartitionStep:
    return PartitionStep(
        kind="rebuild", start_offset=None, end_offset=observed.end_offset, reason=reason
    )


def _other_log(recorded: Progress, observed: Observed) -> str | None:
    """Return why what the table holds is not the beginning of this log, None if it is."""
    if recorded.topic_id != observed.topic_id:
        return f"the topic id was {recorded.topic_id} and is {observed.topic_id}"
    if recorded.erasure != observed.erasure:
        return "records were erased from the log since"
    if recorded.log_start_offset != observed.log_start_offset:
        return (
            f"the log start offset was {recorded.log_start_offset} and is"
            f" {observed.log_start_offset}"
        )
    if observed.end_offset < recorded.end_offset:
        return (
            f"the last stable offset {observed.end_offset} is below offset {recorded.end_offset},"
            " where the table ends"
        )
    return _other_batches(recorded, observed)


def _other_batches(recorded: Progress, observed: Observed) -> str | None:
    """Return why the batches are not those that the table was made from, None if they are."""
    if _has_another_tail(recorded, observed):
        assert recorded.tail is not None  # noqa: S101 - it is another one
        return f"the batch of offset {recorded.tail[0]} is another one: the log was cut off before"
    if are_others(recorded.batches, observed.batches):
        return (
            f"below offset {recorded.end_offset} the log has other batches, and was not cleaned:"
            " it is another copy, or records were erased from it"
        )
    return None


def _forgets(recorded: Progress, observed: Observed) -> bool:
    """Return whether offsets that the table holds are of other records now, or of none."""
    return (
        recorded.topic_id != observed.topic_id
        or observed.end_offset < recorded.end_offset
        or _has_another_tail(recorded, observed)
    )


def _has_another_tail(recorded: Progress, observed: Observed) -> bool:
    """Return whether the last batch that the table holds is another one now, and not because it was
    cleaned: the log was cut off, and has grown again.
    """
    if recorded.tail is None or recorded.tail == observed.tail:
        return False
    return observed.cleaned_to is None or observed.cleaned_to <= recorded.tail[0]


def _patience_ms(recorded: Progress, observed: Observed) -> int:
    return min(recorded.delete_retention_ms, observed.delete_retention_ms)
