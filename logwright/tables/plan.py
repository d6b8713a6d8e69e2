"""What has to be done so that a table holds the latest state of a partition. Pure.

The log is the truth; what the table records of itself is its progress.

1. What the table holds must be the beginning of this log; else the partition is made again. So it
   is if a cleaning has removed the last record that it holds, since a log that was cut off and has
   grown again looks the same; and if another program may have changed its rows.
2. A tombstone that the table has not read may be gone: after ``delete.retention.ms`` the cleaner
   removes it, by whatever setting was in force then (KIP-534). It was at an offset that is missing
   now. So, if any offset above the table's end is missing, the rows are compared with the log: a
   row whose record is gone, and whose key has no newer record, goes. No clock, setting or
   checkpoint is asked. On a running broker that is rare: what is new there is nearly always in the
   active segment, which no cleaner touches.
3. The high watermark alone takes no row away: below it are the records that were replicated, and
   the table was made with more.
4. Rows that are only marked as deleted leave their files after the time that versions are kept.
5. The log of a running broker changes between two updates, and most of that is a reason to continue
   rather than to make the table again:

   - A cleaner may have removed the last record that the table holds. The leader epoch of its offset
     shows that the log was not cut off before (KIP-320): another epoch begins there if it was.
   - The log start moves up by retention. Rows of records below it go; what is left is what the
     table would be if it were made again.
   - The last stable offset may be below the table's end, by a checkpoint that was lost or is old.
     The table waits.
   - Batches change by cleanings of which the cleaner's checkpoint does not know yet. They are
     compared only in another directory than before, as of a replica that was fetched again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

from logwright.errors import PreconditionError
from logwright.tables.batches import Batches, are_others
from logwright.tables.model import Form, Progress, Tail
from logwright.units import INT64_MAX

Kind = Literal["nothing", "upsert", "rebuild"]

FIRST_TIME: Final = "the table holds nothing of this partition"


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """A partition's log as it is now.

    Attributes:
        topic_id: in Kafka's base64; None if the log says none.
        end_offset: the last stable offset: what a read_committed consumer may read is below it.
        high_watermark, log_end_offset: of the log.
        now_ms: when the log was observed.
        tail: of the log below the offset where the table ends; None if that offset is missing.
        missing_offset: the first offset between the table's end and the log's that may have no
            record; None if there is none.
        erasure: the mark of the last erasure; None without one.
        batches: those that the table holds, as they are now; None if that is not known.
        as_of_ms: of a running broker: when it recorded the high watermark; None: it is stopped.
        epoch: the leader epoch of the last offset that the table holds, as it is now; None: not
            known.
        directory: identifies the partition's directory; None: not known.
    """

    topic_id: str | None
    log_start_offset: int
    end_offset: int
    high_watermark: int
    log_end_offset: int
    now_ms: int
    tail: Tail | None = None
    missing_offset: int | None = None
    erasure: str | None = None
    batches: Batches | None = None
    as_of_ms: int | None = None
    epoch: int | None = None
    directory: str | None = None

    @property
    def progress(self) -> Progress:
        """What a table records that holds all of it. `tail`, `batches` and `epoch` must be of the
        end.
        """
        return Progress(
            end_offset=self.end_offset,
            topic_id=self.topic_id,
            log_start_offset=self.log_start_offset,
            tail=self.tail,
            erasure=self.erasure,
            batches=self.batches,
            as_of_ms=self.as_of_ms,
            epoch=self.epoch,
            directory=self.directory,
        )

    @property
    def running(self) -> bool:
        """Whether a broker has the log open."""
        return self.as_of_ms is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStep:
    """What is done for one partition.

    Attributes:
        start_offset: the log is read from here; None: from its start.
        end_offset: to here, exclusive.
        reason: why it is rebuilt or compared, waits, or loses rows; empty without a reason.
        forgets: what was said of the log's offsets before is about another log.
        has_other_columns: what was refused before may not be refused now.
        compares: rows whose record the log does not have any more go, unless a newer one comes.
        purges: files with deleted rows are written again.
        erased: it takes out what was erased from the log, or may have been: a copy of the log
            without the mark has other batches.
        trims_below: rows of records below this offset go, unless a newer one comes; None: none.
        deletes: it reads tombstones also if it is a rebuild: they count against other partitions.
    """

    kind: Kind
    start_offset: int | None
    end_offset: int
    reason: str = ""
    forgets: bool = False
    has_other_columns: bool = False
    compares: bool = False
    purges: bool = False
    erased: bool = False
    trims_below: int | None = None
    deletes: bool = False


def plan_partition(
    recorded: Progress | None, observed: Observed, *, keep_ms: int = INT64_MAX
) -> PartitionStep:
    """Return what is done for a partition.

    Args:
        recorded: what the table holds of it, None: nothing.
        observed: its log.
        keep_ms: how long rows that are marked as deleted stay in the files.

    Raises:
        PreconditionError: the high watermark is below the table's end.
    """
    if recorded is None:
        known = observed.erasure is None  # else earlier versions may have what was erased
        return replace(_rebuild(observed, FIRST_TIME), erased=not known)
    if _is_only_below(recorded, observed):
        raise PreconditionError(
            f"the high watermark is {observed.high_watermark}, below offset {recorded.end_offset},"
            " up to which the table holds the log.",
            remedy="Read the log up to its end: --high-watermark end, or high_watermark: end in the"
            " policies. Or remove the table; it is then made again, with fewer offsets.",
        )
    other = other_log(recorded, observed)
    if other is not None:
        return replace(
            _rebuild(observed, other),
            forgets=_forgets(recorded, observed),
            erased=recorded.erasure != observed.erasure
            or are_others(recorded.batches, observed.batches),
        )
    if recorded.in_doubt is not None:
        return _rebuild(observed, f"another program has changed the table: {recorded.in_doubt}")
    if observed.end_offset < recorded.end_offset:
        return PartitionStep(
            kind="nothing",
            start_offset=recorded.end_offset,
            end_offset=recorded.end_offset,
            reason=f"waits: {_below(recorded, observed)}",
        )
    return _continued(recorded, observed, keep_ms)


def _continued(recorded: Progress, observed: Observed, keep_ms: int) -> PartitionStep:
    """Return what is done for a partition of which the table holds the beginning."""
    since_ms = recorded.deleted_since_ms
    purges = since_ms is not None and observed.now_ms - since_ms >= keep_ms
    moved = observed.log_start_offset != recorded.log_start_offset
    step = PartitionStep(
        kind="upsert",
        start_offset=recorded.end_offset,
        end_offset=observed.end_offset,
        purges=purges,
        trims_below=observed.log_start_offset if moved else None,
        reason=_moved(recorded, observed) if moved else "",
    )
    if observed.missing_offset is not None:
        return replace(
            step,
            compares=True,
            reason=f"offset {observed.missing_offset} is missing: a tombstone may have been there",
        )
    is_old = recorded.end_offset < observed.end_offset
    return step if is_old or purges or moved else replace(step, kind="nothing")


def made_again(step: PartitionStep, why: str) -> PartitionStep:
    """Return the step of a partition that is made again with other columns.

    Args:
        step: what would be done for it with the columns that it has.
        why: the columns are others.

    Raises:
        PreconditionError: it waits, and its log does not show all that the table holds.
    """
    if step.kind == "nothing" and step.reason:
        raise PreconditionError(
            f"the table has to be made again with other columns, and {step.reason}.",
            remedy="The next update continues, when the last stable offset is there again.",
        )
    return PartitionStep(
        kind="rebuild",
        start_offset=None,
        end_offset=step.end_offset,
        reason=step.reason if step.kind == "rebuild" else why,
        forgets=step.forgets,
        has_other_columns=True,
        erased=step.erased,
        deletes=step.deletes,
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
            for number, progress in recorded.items()
            if number not in present and topic_ids and progress.topic_id not in topic_ids
        )
    )


def differences(known: Form, wanted: Form) -> str | None:
    """Return why a table cannot be continued, None if it can be."""
    if known.topic != wanted.topic:
        return f"it is of topic {known.topic}"
    if known.buckets != wanted.buckets:
        return f"it has {known.buckets} buckets, not {wanted.buckets}"
    for name in ("unique", "unique_by"):
        if getattr(known, name) != getattr(wanted, name):
            return f"it was made with {name}: {getattr(known, name)}"
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


def other_log(recorded: Progress, observed: Observed) -> str | None:
    """Return why what the table holds is not the beginning of this log, None if it is."""
    if recorded.topic_id != observed.topic_id:
        return f"the topic id was {recorded.topic_id} and is {observed.topic_id}"
    if recorded.erasure != observed.erasure:
        return "records were erased from the log since"
    start, now = recorded.log_start_offset, observed.log_start_offset
    if start != now and not (observed.running and start < now <= recorded.end_offset):
        return _moved(recorded, observed)
    if _has_other_epoch(recorded, observed):
        return (
            f"offset {recorded.end_offset - 1} was of leader epoch {recorded.epoch} and is of"
            f" {observed.epoch}: the log was cut off before"
        )
    if observed.end_offset < recorded.end_offset and not _has_epoch(recorded, observed):
        return _below(recorded, observed)
    return _other_batches(recorded, observed)


def _moved(recorded: Progress, observed: Observed) -> str:
    return (
        f"the log start offset was {recorded.log_start_offset} and is {observed.log_start_offset}"
    )


def _below(recorded: Progress, observed: Observed) -> str:
    return (
        f"the last stable offset {observed.end_offset} is below offset {recorded.end_offset},"
        " where the table ends"
    )


def _has_epoch(recorded: Progress, observed: Observed) -> bool:
    """Return whether a running log shows that it was not cut off below the table's end. Of stopped
    ones it is not believed: programs can have written there in the same epoch.
    """
    return observed.running and recorded.epoch is not None and recorded.epoch == observed.epoch


def _has_other_epoch(recorded: Progress, observed: Observed) -> bool:
    return None not in (recorded.epoch, observed.epoch) and recorded.epoch != observed.epoch


def _other_batches(recorded: Progress, observed: Observed) -> str | None:
    """Return why the batches are not those that the table was made from, None if they are."""
    if _has_another_tail(recorded, observed):
        assert recorded.tail is not None  # noqa: S101 - it is another one
        return (
            f"the batch of offset {recorded.tail.base_offset} is another one: it was cleaned, or"
            " the log was cut off before"
        )
    if are_others(recorded.batches, observed.batches):
        return (
            f"below offset {recorded.end_offset} the log has other batches, and was not cleaned:"
            " it is another copy, or records were erased from it"
        )
    return None


def are_comparable(recorded: Progress, observed: Observed) -> bool:
    """Return whether other batches than the recorded ones would say something. Of a running log
    they do not in the same directory, nor if the first of them are gone.
    """
    if not observed.running:
        return True
    same_start = recorded.log_start_offset == observed.log_start_offset
    return (
        same_start
        and None not in (recorded.directory, observed.directory)
        and (recorded.directory != observed.directory)
    )


def _is_only_below(recorded: Progress, observed: Observed) -> bool:
    """Return whether the log is the same and not shorter than the table, and only its high
    watermark is below the table's end.
    """
    return (
        recorded.topic_id == observed.topic_id
        and observed.high_watermark < recorded.end_offset <= observed.log_end_offset
        and (recorded.erasure != observed.erasure or not _has_another_tail(recorded, observed))
    )


def _forgets(recorded: Progress, observed: Observed) -> bool:
    """Return whether offsets that the table holds are of other records now, or of none."""
    return (
        recorded.topic_id != observed.topic_id
        or observed.end_offset < recorded.end_offset
        or _has_other_epoch(recorded, observed)
        or _has_another_tail(recorded, observed)
    )


def _has_another_tail(recorded: Progress, observed: Observed) -> bool:
    """Return whether the last record that the table holds is another one now, or gone: a newer one
    replaced it in a cleaning, or the log was cut off and has grown again. The cleaner checkpoint
    would say which, but is a hint only; the leader epoch says it of a running log.
    """
    if recorded.tail is None or recorded.tail.is_of(observed.tail):
        return False
    return not (_has_epoch(recorded, observed) and not recorded.tail.contradicts(observed.tail))
