"""Free a file system: look for what frees space, choose what is needed, do it (docs/adr/0059). The
command line and Dagster's job run the same loop, each with an `Operator` of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from logwright.errors import DiskFull, InvariantError, LogwrightError, PolicyError, UncleanLogDir
from logwright.format.names import TopicPartition
from logwright.log.committed import HighWatermark
from logwright.log.log_dir import list_marked
from logwright.purge.observe import list_partition
from logwright.rescue.free import (
    FreeStep,
    Kind,
    Space,
    at_most,
    fits,
    in_order,
    needed,
    sealed_only,
)
from logwright.rescue.free_groups import compact, compaction_plan, compaction_step
from logwright.rescue.free_look import (
    EVER,
    deleted_steps,
    first_due,
    purge_step,
    retention_step,
    roll_need,
    space_of,
    stray_steps,
)
from logwright.rescue.free_run import (
    alone,
    plan_oldest,
    purge_log,
    remove_marked,
    retain_needed,
)
from logwright.rescue.names import require_known
from logwright.retention.plan import RetentionPlan, retention_hold
from logwright.state.model import NOTHING, Hold, LogDirState
from logwright.state.store import read_state
from logwright.sweep.plan import Settings
from logwright.units import TimestampMs

if TYPE_CHECKING:
    from logwright.compaction.model import CleanPlan

COST_RECORDS: Final[frozenset[Kind]] = frozenset({"retention", "compaction", "tighter"})
"""Steps after which records are gone."""
_RETENTIONS: Final[frozenset[Kind]] = frozenset({"retention", "tighter"})
_FREED_LATER_SECONDS: Final = 2.0
"""XFS frees the blocks of removed files in the background."""
_POLL_SECONDS: Final = 0.05
LIMITS: Final = ("retention.ms", "retention.bytes")
"""The settings that a tighter retention may have."""
NOTHING_LEFT: Final = (
    "Name topics whose oldest segments may go (--tighter-retention TOPIC=retention.bytes:SIZE),"
    " delete logs (`logwright delete`), or move some to another directory (`logwright move`)."
)

Limits = Mapping[str, Mapping[str, int]]
"""Topic → name of a setting in `LIMITS` → its value, ms or bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeDirectory:
    """A log directory, and what decides about its logs.

    Attributes:
        partitions: those that may be changed.
        settings: of a topic. delete_delay_ms: the broker's own ``file.delete.delay.ms``.
        stray: why a broker would not serve a partition from here; None if it would.
        high_watermark: what counts as committed.
    """

    log_dir: Path
    partitions: tuple[TopicPartition, ...]
    settings: Callable[[str], Settings]
    delete_delay_ms: int
    stray: Callable[[TopicPartition], str | None]
    high_watermark: HighWatermark


@dataclass(slots=True, kw_only=True)
class Outlook:
    """What would free space, and what was left out.

    Attributes:
        steps: in the order in which they would be done.
        held: log directory and partition → why it keeps its records, or its files.
        unclean: those that can be planned only after their recovery.
        failures: those that could not be looked at.
    """

    steps: list[FreeStep] = field(default_factory=list)
    held: dict[tuple[Path, TopicPartition], Hold] = field(default_factory=dict)
    unclean: dict[tuple[Path, TopicPartition], LogwrightError] = field(default_factory=dict)
    failures: dict[tuple[Path, TopicPartition], LogwrightError] = field(default_factory=dict)

    @contextmanager
    def of(self, log_dir: Path, partition: TopicPartition) -> Iterator[None]:
        """Keep the first error of a partition, instead of raising it."""
        try:
            yield
        except UncleanLogDir as error:
            self.unclean.setdefault((log_dir, partition), error.as_value())
        except LogwrightError as error:
            self.failures.setdefault((log_dir, partition), error.as_value())


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What became of one step.

    Attributes:
        freed: bytes, by the file system. free: bytes that are free now.
        error: why it was not done, or not wholly.
        need: of a compaction that ended for want of room: the bytes that its next group of segments
            needs; None: it did not.
    """

    step: FreeStep
    freed: int
    free: int
    seconds: float
    error: LogwrightError | None = None
    need: int | None = None


class Operator(Protocol):
    """Who sees what is done, and may stop it before."""

    def planned(self, outlook: Outlook, chosen: Sequence[FreeStep]) -> bool:
        """Show a plan; return whether it is done."""

    def done(self, done: Done) -> None:
        """Show what became of a step."""

    def recover(self) -> None:
        """Recover what was not shut down cleanly: before that no records are deleted."""


@dataclass(slots=True, kw_only=True)
class Freeing:
    """One file system, and the log directories on it.

    Attributes:
        goal: bytes that shall be free.
        reserve: what a compaction leaves free, bytes; None: `Space.reserve`.
        strays: names of directories of stray logs that may go.
        tighter: topics with another retention than their own.
        lowest: the fewest free bytes that were seen.
        recovered: what was not shut down cleanly has been recovered.
        tried: steps that are not done again; but a compaction when this many bytes are free.
        went, became_free: bytes that were removed, and by how many more are free since; without
            compactions, of which nobody knows before what they free.
    """

    directories: Sequence[FreeDirectory]
    goal: int
    now_ms: TimestampMs
    reserve: int | None = None
    strays: frozenset[str] = frozenset()
    tighter: Limits = field(default_factory=dict)
    lowest: int = -1
    recovered: bool = False
    tried: dict[tuple[Kind, Path, str], int | None] = field(default_factory=dict)
    went: int = 0
    became_free: int = 0

    @property
    def is_in_vain(self) -> bool:
        """Whether what is removed does not become free: then no records are deleted for it."""
        return self.became_free < self.went // 2

    @property
    def space(self) -> Space:
        """Effects: asks the file system."""
        space = space_of(self.directories[0].log_dir)
        self.lowest = space.free if self.lowest < 0 else min(self.lowest, space.free)
        return space

    def note(self) -> None:
        """Remember how many bytes are free at this moment. Effects: as `space`."""
        _ = self.space

    @property
    def missing(self) -> int:
        """Bytes that are to be freed yet; 0 or less if none are. Effects: as `space`."""
        return self.goal - self.space.free

    @property
    def kept_free(self) -> int:
        """What a compaction leaves free."""
        return self.space.reserve if self.reserve is None else self.reserve

    def has_room(self, need: int) -> bool:
        """Return whether this many bytes leave what is kept free. Effects: as `space`."""
        return fits(need, self.space, self.kept_free)

    def is_open(self, step: FreeStep) -> bool:
        """Return whether a step was not tried, or there was no room then. Effects: as `space`."""
        need = self.tried.get(key_of(step), 0)
        return need is not None and self.has_room(need)

    def look(self) -> Outlook:
        """Return all that would free something and can be tried. Effects: reads.

        Raises:
            LogwrightError: a log directory or its state cannot be read.
        """
        outlook = Outlook()
        for directory in self.directories:
            _look(self, directory, outlook)
        outlook.steps = [step for step in in_order(outlook.steps) if self.is_open(step)]
        if self.recovered:
            outlook.failures |= outlook.unclean
            outlook.unclean = {}
        return outlook

    def short_by(self, outlook: Outlook) -> DiskFull | None:
        """Return why a run would end with fewer bytes free than are asked for, as far as it can be
        seen before; None if enough may become free. Effects: as `space`.
        """
        most = self.space.free + at_most(outlook.steps)
        if most >= self.goal:
            return None
        unclean = len(outlook.unclean)
        more = f", without what {unclean} logs free after their recovery" if unclean else ""
        return DiskFull(
            f"{most} bytes at most would be free{more}, and {self.goal} are asked for.",
            path=self.directories[0].log_dir,
            remedy=NOTHING_LEFT,
        )

    def short(self) -> DiskFull | None:
        """Return why fewer bytes are free than were asked for; None if enough are. Effects: as
        `space`.
        """
        free = self.space.free
        if free >= self.goal:
            return None
        if self.is_in_vain:
            return DiskFull(
                f"{self.went} bytes were removed, and {self.became_free} became free: a process has"
                " the removed files open, another one fills the disk, or a snapshot of the volume"
                " has them. No more records were deleted.",
                path=self.directories[0].log_dir,
                remedy="`lsof +L1` lists open files that were removed. Stop that process, or remove"
                " the snapshot, and run it again.",
            )
        return DiskFull(
            f"{free} bytes are free, and {self.goal} were asked for: nothing that is left may go.",
            path=self.directories[0].log_dir,
            remedy=NOTHING_LEFT,
        )


def require_names(
    directories: Sequence[FreeDirectory], strays: Iterable[str], topics: Iterable[str]
) -> None:
    """Refuse names that match nothing in the log directories. Effects: lists them.

    Args:
        strays: names of directories of stray logs.

    Raises:
        PolicyError: one or more are not there.
        LogwrightError: a directory cannot be listed.
    """
    marked = (one for each in directories for one in list_marked(each.log_dir))
    require_known("stray log", strays, {one.name for one in marked if one.mark == "stray"})
    known = {one.topic for each in directories for one in each.partitions}
    require_known("topic", topics, known)


def by_file_system(directories: Iterable[FreeDirectory]) -> list[list[FreeDirectory]]:
    """Return the log directories of each file system. Effects: looks."""
    by_device: dict[int, list[FreeDirectory]] = {}
    for each in directories:
        by_device.setdefault(each.log_dir.stat().st_dev, []).append(each)
    return list(by_device.values())


def key_of(step: FreeStep) -> tuple[Kind, Path, str]:
    """Return what a step is known by in another look."""
    return step.kind, step.log_dir, step.name


def free_space(freeing: Freeing, operator: Operator) -> None:
    """Do no more than is needed, until the goal is reached, nothing is left, the operator stops it,
    or what is removed does not become free. Effects: removes files; what the operator does.

    Raises:
        LogwrightError: as `Freeing.look`.
    """
    while freeing.missing > 0:
        outlook = freeing.look()
        chosen = needed(outlook.steps, freeing.missing)
        if not operator.planned(outlook, chosen):
            return
        for step in chosen:
            if freeing.missing <= 0 and step.kind != "due":
                break
            if freeing.is_in_vain and step.kind in COST_RECORDS:
                return
            operator.done(_do(freeing, step))
        if not chosen and freeing.recovered:
            return
        if freeing.missing > 0 and not freeing.recovered:
            freeing.recovered = True
            operator.recover()


def _look(freeing: Freeing, directory: FreeDirectory, outlook: Outlook) -> None:
    log_dir, delay_ms = directory.log_dir, directory.delete_delay_ms
    due = deleted_steps(log_dir, "due", now_ms=freeing.now_ms, delay_ms=delay_ms)
    names = {step.name for step in due}
    every = deleted_steps(log_dir, "retired", now_ms=EVER, delay_ms=0)
    outlook.steps += [*due, *(step for step in every if step.name not in names)]
    outlook.steps += stray_steps(log_dir, freeing.strays)
    states = read_state(log_dir)
    for partition in directory.partitions:
        hold = states.get(partition, NOTHING).hold(freeing.now_ms, force=True)
        if hold is not None:
            outlook.held[log_dir, partition] = hold
            continue
        with outlook.of(log_dir, partition):
            outlook.steps.extend(_purges(freeing, directory, partition))
        with outlook.of(log_dir, partition):
            stray = directory.stray(partition)
            if stray is not None:
                outlook.held[log_dir, partition] = Hold(kind="stray", sentence=f"stray: {stray}")
                continue
            outlook.steps.extend(_records(freeing, directory, partition, states))


def _purges(
    freeing: Freeing, directory: FreeDirectory, partition: TopicPartition
) -> Iterator[FreeStep]:
    listing = list_partition(directory.log_dir / partition.directory_name)
    delay_ms = directory.settings(partition.topic)[0].file_delete_delay_ms
    due = purge_step(listing, "due", now_ms=freeing.now_ms, delay_ms=delay_ms)
    if due is not None:
        yield due
    every = purge_step(listing, "retired", now_ms=EVER, delay_ms=0)
    if every is not None and (due is None or every.files > due.files):
        yield every


def _records(
    freeing: Freeing, directory: FreeDirectory, partition: TopicPartition, states: LogDirState
) -> Iterator[FreeStep]:
    """Yield the steps that delete records. Effects: reads."""
    for kind in _retentions(freeing, partition):
        plan = _retention(freeing, directory, partition, kind, states)
        step = None if plan is None else retention_step(plan, kind)
        if step is not None:
            yield step
    cleaning = _cleaning(freeing, directory, partition)
    if cleaning is not None:
        yield compaction_step(cleaning)


def _retentions(freeing: Freeing, partition: TopicPartition) -> tuple[Kind, ...]:
    return ("retention", "tighter") if partition.topic in freeing.tighter else ("retention",)


def _cleaning(
    freeing: Freeing, directory: FreeDirectory, partition: TopicPartition
) -> CleanPlan | None:
    return compaction_plan(
        directory.log_dir,
        partition,
        directory.settings(partition.topic),
        now_ms=freeing.now_ms,
        high_watermark=directory.high_watermark,
    )


def _retention(
    freeing: Freeing,
    directory: FreeDirectory,
    partition: TopicPartition,
    kind: Kind,
    states: LogDirState,
) -> RetentionPlan | None:
    """Return the retention of a log by its own settings, or by the tighter ones; None if it has
    none. Effects: reads.
    """
    config, cleaner = directory.settings(partition.topic)
    if kind == "tighter":
        if not config.delete:
            raise PolicyError(
                f"{partition}: its cleanup.policy has no delete, so no retention applies.",
                remedy="Leave it out of --tighter-retention.",
            )
        limits = freeing.tighter[partition.topic]
        own = {name.replace(".", "_"): value for name, value in limits.items()}
        config = config.model_copy(update=own)
    state = states.get(partition, NOTHING)
    if retention_hold(config, cleaner, state, now_ms=freeing.now_ms, force=False) is not None:
        return None
    return plan_oldest(
        directory.log_dir,
        partition,
        config,
        now_ms=freeing.now_ms,
        high_watermark=directory.high_watermark,
    )


def _do(freeing: Freeing, step: FreeStep) -> Done:
    """Do one step; it is decided again, by what is there now. Effects: removes files."""
    (directory,) = (one for one in freeing.directories if one.log_dir == step.log_dir)
    before, started = freeing.space.free, time.monotonic()
    error: LogwrightError | None = None
    need: int | None = None
    removed = 0
    try:
        if step.kind == "compaction":
            need = _compact(freeing, directory, step)
        else:
            removed = _remove_and_account(freeing, directory, step)
    except LogwrightError as failure:
        error = failure.as_value()
    free = freeing.space.free
    waits = error is None and not removed and step.kind in _RETENTIONS and free < step.need
    if waits:
        error = DiskFull(
            f"its active segment may go, but to roll it takes {step.need} bytes, and {free} are"
            " free."
        )
    if error is not None or free <= before or need is not None:
        freeing.tried[key_of(step)] = step.need if waits else need
    return Done(
        step=step,
        freed=free - before,
        free=free,
        seconds=time.monotonic() - started,
        error=error,
        need=need,
    )


def _remove_and_account(freeing: Freeing, directory: FreeDirectory, step: FreeStep) -> int:
    """Do a step that removes files; return the bytes of the blocks that should be free then.
    Records go in two parts as long as nothing has become free: one segment shows whether the rest
    is of use. Effects: removes files; waits.
    """
    removed = 0
    parts = 2 if step.kind in _RETENTIONS and not freeing.became_free else 1
    for _ in range(parts):
        before = freeing.space.free
        expected = _remove(freeing, directory, step)
        _account(freeing, before, expected)
        removed += expected
        if freeing.is_in_vain or freeing.missing <= 0:
            break
    return removed


def _account(freeing: Freeing, before: int, expected: int) -> None:
    """Compare what a step removed with what became free. Effects: asks the file system; waits a
    little for one that frees later.
    """
    deadline = time.monotonic() + _FREED_LATER_SECONDS
    while (freed := freeing.space.free - before) < expected // 2 and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
    freeing.went += expected
    freeing.became_free += max(0, freed)


def _remove(freeing: Freeing, directory: FreeDirectory, step: FreeStep) -> int:
    """Do a step; return the bytes of the blocks that should be free then. Of a retention one
    segment goes as long as nothing has become free. Effects: removes files.
    """
    log_dir, partition = directory.log_dir, TopicPartition.parse(step.name)
    is_due, is_retention = step.kind == "due", step.kind in _RETENTIONS
    clock_ms = freeing.now_ms if is_due else EVER
    delay_ms = 0
    if is_due and partition is None:
        delay_ms = directory.delete_delay_ms
    elif is_due and partition is not None:
        delay_ms = directory.settings(partition.topic)[0].file_delete_delay_ms

    def first() -> Path | None:
        if partition is None or is_retention:
            return None
        return first_due(log_dir, partition, now_ms=clock_ms, delay_ms=delay_ms)

    with alone(log_dir, first) as files:
        if partition is None:
            remove_marked(step, files, now_ms=clock_ms, delay_ms=delay_ms)
        elif is_retention:
            states = read_state(log_dir)
            plan = _retention(freeing, directory, partition, step.kind, states)
            missing = freeing.missing
            if plan is not None and freeing.space.free < roll_need(plan):
                plan = sealed_only(plan)
            if plan is None or not plan.deleted or missing <= 0:
                return 0
            return retain_needed(plan, files, missing if freeing.became_free else 1)
        else:
            purge_log(log_dir, partition, files, now_ms=clock_ms, delay_ms=delay_ms)
    return step.bytes


def _compact(freeing: Freeing, directory: FreeDirectory, step: FreeStep) -> int | None:
    """Compact a log as far as there is room and it is needed; return the bytes that the next group
    of its segments needs, None if none is left to do. Effects: changes it.

    Raises:
        LogwrightError: it failed; the log is as it was, or is recovered by the next run.
    """
    partition = TopicPartition.parse(step.name)
    if partition is None:
        raise InvariantError("a log is compacted")
    plan = _cleaning(freeing, directory, partition)
    if plan is None:
        return None

    def goes(need: int) -> bool:
        return freeing.missing > 0 and freeing.has_room(need)

    room = freeing.space.free - freeing.kept_free
    with alone(directory.log_dir) as files:
        need = compact(plan, files, room=room, goes=goes, at_worst=freeing.note)
    return None if freeing.missing <= 0 else need
