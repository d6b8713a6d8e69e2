"""``logwright rescue --free``: free a full disk."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import click

from logwright.cli.output import human_bytes
from logwright.cli.recovering import recover_first
from logwright.cli.request import Request, local_directory
from logwright.cli.selection import leave_held, leave_strays
from logwright.compaction.model import CleanPlan
from logwright.config.topic import TopicConfig
from logwright.errors import DiskFull, LogwrightError, PolicyError, UncleanLogDir
from logwright.format.names import TopicPartition
from logwright.place.model import Place
from logwright.rescue.free import FreeStep, Kind, Space, fits, in_order, needed
from logwright.rescue.free_look import (
    EVER,
    compaction_plan,
    compaction_step,
    deleted_steps,
    first_file,
    held_open,
    purge_step,
    retention_step,
    space_of,
    stray_steps,
)
from logwright.rescue.free_run import alone, compact, plan_oldest, remove_marked, retain_needed
from logwright.rescue.free_run import purge_log as purge_one
from logwright.retention.plan import RetentionPlan, retention_hold
from logwright.state.model import NOTHING
from logwright.state.store import read_state

_SETTINGS: Final = ("retention.ms", "retention.bytes")
_NOTHING_LEFT: Final = (
    "Name topics whose oldest segments may go (--tighter-retention TOPIC=retention.bytes:SIZE),"
    " delete logs (`logwright delete`), or move some to another directory (`logwright move`)."
)


@dataclass(slots=True, kw_only=True)
class _Rescue:
    """One file system, and the log directories on it.

    Attributes:
        requests: one for each log directory.
        lowest: the fewest free bytes that were seen.
        tried: what is not done again; but a compaction when this many bytes are free.
    """

    requests: Sequence[Request]
    goal: int
    reserve: int | None
    strays: frozenset[str]
    tighter: dict[str, dict[str, int]]
    lowest: int = -1
    recovered: bool = False
    tried: dict[tuple[Kind, Path, str], int | None] = field(default_factory=dict)

    @property
    def space(self) -> Space:
        """Effects: asks the file system."""
        space = space_of(self.requests[0].log_dir)
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
        need = self.tried.get(_key(step), 0)
        return need is not None and self.has_room(need)


def free_disk(
    request: Request,
    more_dirs: tuple[Place, ...],
    *,
    goal: int,
    reserve: int | None,
    strays: tuple[str, ...],
    tighter: tuple[tuple[str, str], ...],
) -> None:
    """Free the file systems of some log directories. Effects: removes files, unless it is a dry
    run; output.

    Args:
        request: of the first log directory; more_dirs: the others.
        goal: bytes that shall be free on each of their file systems.
        reserve: what a compaction leaves free, bytes.
        strays: names of directories of stray logs that may go.
        tighter: topics with another retention than their own.

    Raises:
        DiskFull: fewer bytes are free in the end.
    """
    requests = [request, *map(request.of, more_dirs)]
    limits = _limits(tighter)
    by_device: dict[int, list[Request]] = {}
    for each in requests:
        local_directory(each.place)
        each.partitions()  # refuses what is not a log directory
        by_device.setdefault(each.log_dir.stat().st_dev, []).append(each)
    short = []
    for own in by_device.values():
        rescue = _Rescue(
            requests=own,
            goal=goal,
            reserve=reserve,
            strays=frozenset(strays),
            tighter=limits,
        )
        _rescue(rescue)
        if rescue.missing > 0 and not request.dry_run:
            short.append(rescue)
    if short:
        free = short[0].space.free
        raise DiskFull(
            f"{free} bytes are free, and {goal} were asked for: nothing that is left may go.",
            path=short[0].requests[0].log_dir,
            remedy=_NOTHING_LEFT,
        )


def _limits(tighter: Sequence[tuple[str, str]]) -> dict[str, dict[str, int]]:
    """Return the settings of ``--tighter-retention`` by topic."""
    limits: dict[str, dict[str, int]] = {}
    for topic, text in tighter:
        name, _, value = text.partition(":")
        if name not in _SETTINGS or not value.isdecimal():
            raise click.UsageError(
                f"--tighter-retention {topic}={text}: give TOPIC=retention.ms:MS or"
                " TOPIC=retention.bytes:BYTES"
            )
        limits.setdefault(topic, {})[name.replace(".", "_")] = int(value)
    return limits


def _rescue(rescue: _Rescue) -> None:
    """Free one file system. Effects: removes files, unless it is a dry run; output."""
    request, started = rescue.requests[0], time.monotonic()
    before = rescue.space.free
    while rescue.missing > 0:
        steps = [step for step in in_order(_look(rescue)) if rescue.is_open(step)]
        chosen = needed(steps, rescue.missing)
        _show_plan(rescue, steps, chosen)
        if request.dry_run:
            return
        if chosen:
            request.confirm(
                f"Remove what these {len(chosen)} steps name, as far as it is needed? There is no"
                " undo."
            )
        for step in chosen:
            if rescue.missing <= 0 and step.kind != "due":
                break
            _do(rescue, step)
        if not chosen and rescue.recovered:
            break
        if rescue.missing > 0 and not rescue.recovered:
            _recover(rescue)
    _show_end(rescue, before, time.monotonic() - started)


def _key(step: FreeStep) -> tuple[Kind, Path, str]:
    return step.kind, step.log_dir, step.name


def _recover(rescue: _Rescue) -> None:
    """Recover what was not shut down cleanly: before that no records are deleted. Effects: as
    `recover_first`.
    """
    rescue.recovered = True
    for request in rescue.requests:
        recover_first(request, request.partitions())


def _look(rescue: _Rescue) -> Iterator[FreeStep]:
    """Yield all that would free something. Effects: reads; output."""
    for request in rescue.requests:
        log_dir, delay_ms = request.log_dir, request.broker().file_delete_delay_ms
        due = deleted_steps(log_dir, "due", now_ms=request.now_ms, delay_ms=delay_ms)
        yield from due
        names = {step.name for step in due}
        for step in deleted_steps(log_dir, "retired", now_ms=EVER, delay_ms=0):
            if step.name not in names:
                yield step
        yield from stray_steps(log_dir, rescue.strays)
        for partition in leave_held(request, request.partitions()):
            with request.failures.of(partition), suppress(UncleanLogDir):
                yield from _purges(request, partition)
        yield from _records(rescue, request)


def _purges(request: Request, partition: TopicPartition) -> Iterator[FreeStep]:
    delay_ms = request.settings(partition.topic)[0].file_delete_delay_ms
    due = purge_step(request.log_dir, partition, "due", now_ms=request.now_ms, delay_ms=delay_ms)
    if due is not None:
        yield due
    every = purge_step(request.log_dir, partition, "retired", now_ms=EVER, delay_ms=0)
    if every is not None and (due is None or every.files > due.files):
        yield every


def _records(rescue: _Rescue, request: Request) -> Iterator[FreeStep]:
    """Yield the steps that delete records. Effects: reads; output."""
    free = leave_held(request, leave_strays(request, request.partitions()))
    for partition in free:
        try:
            for kind in ("retention", "tighter"):
                plan = _retention(rescue, request, partition, kind)
                step = None if plan is None else retention_step(plan, kind)
                if step is not None:
                    yield step
            cleaning = _cleaning(request, partition)
            if cleaning is not None:
                yield compaction_step(cleaning)
        except UncleanLogDir as error:
            if rescue.recovered:
                request.failures.add(partition, error)
            else:
                request.output.message(f"{partition}: to be planned after its recovery")
        except LogwrightError as error:
            request.failures.add(partition, error)


def _retention(
    rescue: _Rescue, request: Request, partition: TopicPartition, kind: Kind
) -> RetentionPlan | None:
    """Return the retention of a log by its own settings, or by the tighter ones; None if it has
    none. Effects: reads.
    """
    config, cleaner = request.settings(partition.topic)
    if kind == "tighter":
        if partition.topic not in rescue.tighter:
            return None
        config = _tightened(config, partition, rescue.tighter[partition.topic])
    state = read_state(request.log_dir).get(partition, NOTHING)
    if retention_hold(config, cleaner, state, now_ms=request.now_ms, force=False) is not None:
        return None
    return plan_oldest(
        request.log_dir,
        partition,
        config,
        now_ms=request.now_ms,
        high_watermark=request.high_watermark,
    )


def _tightened(
    config: TopicConfig, partition: TopicPartition, limits: dict[str, int]
) -> TopicConfig:
    if not config.delete:
        raise PolicyError(
            f"{partition}: its cleanup.policy has no delete, so no retention applies.",
            remedy="Leave it out of --tighter-retention.",
        )
    return config.model_copy(update=limits)


def _do(rescue: _Rescue, step: FreeStep) -> None:
    """Do one step, and report what it freed. Effects: removes files; output."""
    (request,) = (one for one in rescue.requests if one.log_dir == step.log_dir)
    before, started = rescue.space.free, time.monotonic()
    partition = TopicPartition.parse(step.name)
    error: LogwrightError | None = None
    need: int | None = None
    try:
        if step.kind == "compaction" and partition is not None:
            need = _compact(rescue, request, partition)
        else:
            _remove(rescue, request, step, partition)
    except DiskFull as full:
        error = full
    except LogwrightError as other:
        error = other
        if partition is not None:
            request.failures.add(partition, other)
        else:
            request.failures.add_directory(step.name, other)
    freed = rescue.space.free - before
    if error is not None or freed <= 0 or need is not None:
        rescue.tried[_key(step)] = need
    if error is None and partition is not None:
        request.changed.append(partition)
    outcome = f"freed {human_bytes(freed)}" if error is None else f"not done: {error}"
    request.output.result(
        f"{step.kind}: {step.log_dir / step.name}: {outcome}",
        step=step.kind,
        path=str(step.log_dir / step.name),
        done=error is None,
        freedBytes=freed,
        freeBytes=rescue.space.free,
        seconds=round(time.monotonic() - started, 3),
    )


def _remove(
    rescue: _Rescue, request: Request, step: FreeStep, partition: TopicPartition | None
) -> None:
    """Do a step that needs no room. Effects: removes files."""
    retired = [step]
    with alone(step.log_dir, lambda: first_file(step.log_dir, retired)) as files:
        clock_ms = request.now_ms if step.kind == "due" else EVER
        if step.kind in {"retention", "tighter"} and partition is not None:
            plan = _retention(rescue, request, partition, step.kind)
            if plan is not None and plan.deleted and rescue.missing > 0:
                retain_needed(plan, files, rescue.missing)
        elif partition is not None:
            delay_ms = request.settings(partition.topic)[0].file_delete_delay_ms
            delay_ms = delay_ms if step.kind == "due" else 0
            purge_one(step.log_dir, partition, files, now_ms=clock_ms, delay_ms=delay_ms)
        else:
            delay_ms = request.broker().file_delete_delay_ms if step.kind == "due" else 0
            remove_marked(step, files, now_ms=clock_ms, delay_ms=delay_ms)


def _cleaning(request: Request, partition: TopicPartition) -> CleanPlan | None:
    """Return the cleaning of a log, None if there is nothing to clean. Effects: reads."""
    return compaction_plan(
        request.log_dir,
        partition,
        request.settings(partition.topic),
        now_ms=request.now_ms,
        high_watermark=request.high_watermark,
    )


def _compact(rescue: _Rescue, request: Request, partition: TopicPartition) -> int | None:
    """Compact a log as far as there is room and it is needed; return the bytes that the next group
    of its segments needs, None if none is left to do. Effects: changes it; output.

    Raises:
        LogwrightError: it failed; the log is as it was, or is recovered by the next run.
    """
    plan = _cleaning(request, partition)
    if plan is None:
        return None

    def goes(need: int) -> bool:
        return rescue.missing > 0 and rescue.has_room(need)

    room = rescue.space.free - rescue.kept_free
    with alone(request.log_dir) as files:
        need = compact(plan, files, room=room, goes=goes, at_worst=rescue.note)
    if need is None or rescue.missing <= 0:
        return None
    space = rescue.space
    request.output.message(
        f"{partition}: not compacted to its end: the next group of segments needs"
        f" {human_bytes(need)}, and {human_bytes(space.free)} are free, of which"
        f" {human_bytes(rescue.kept_free)} are kept"
    )
    return need


def _show_plan(rescue: _Rescue, steps: Sequence[FreeStep], chosen: Sequence[FreeStep]) -> None:
    """Show what would be done, in its order. Effects: output."""
    output, space = rescue.requests[0].output, rescue.space
    output.message(
        f"{human_bytes(space.free)} of {human_bytes(space.total)} are free,"
        f" {human_bytes(rescue.goal)} were asked for."
    )
    picked = set(map(_key, chosen))
    output.show(
        [
            {
                "step": step.kind,
                "path": str(step.log_dir / step.name),
                "needed": _key(step) in picked,
                "bytesAtMost": step.bytes,
                "files": step.files,
                "linkedFiles": step.linked,
                "needBytes": step.need,
                "estimatedSeconds": round(step.seconds, 1),
                "detail": step.detail,
            }
            for step in steps
        ],
        {
            "step": "step",
            "path": "path",
            "needed": lambda row: "yes" if row["needed"] else "no",
            "at most": lambda row: human_bytes(row["bytesAtMost"]),
            "files": "files",
            "linked": "linkedFiles",
            "needs": lambda row: human_bytes(row["needBytes"]),
            "seconds": "estimatedSeconds",
            "what": "detail",
        },
    )


def _show_end(rescue: _Rescue, before: int, seconds: float) -> None:
    """Show what is free now, and who holds removed files open. Effects: output."""
    output, space = rescue.requests[0].output, rescue.space
    holders = held_open(space.device)
    for process, size in holders:
        output.message(
            f"Process {process} holds {human_bytes(size)} of removed files open: they are free when"
            " it ends."
        )
    output.result(
        f"{human_bytes(space.free)} are free, {human_bytes(before)} were;"
        f" {human_bytes(rescue.goal)} were asked for. At the worst moment"
        f" {human_bytes(rescue.lowest)} were free.",
        askedBytes=rescue.goal,
        freeBytes=space.free,
        freeBytesBefore=before,
        lowestFreeBytes=rescue.lowest,
        reached=space.free >= rescue.goal,
        seconds=round(seconds, 3),
        heldOpen=[{"process": process, "bytes": size} for process, size in holders],
    )
