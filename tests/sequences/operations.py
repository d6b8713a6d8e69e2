"""The operations of a sequence: what each does to the disk, and what it makes of the model.

Each is a function of the world and a number, from which everything about it follows; it returns a
`Step`. A command recovers what a crash left before it begins, as `logwright COMMAND` does.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from logwright.compaction.model import CleanPlan, StagedCleaning
from logwright.deletion.commit import delete_log, find_deleted, restore_log
from logwright.deletion.commit import purge_deleted as purge_deleted_
from logwright.erasure.erase.commit import erase_partition
from logwright.errors import QualityError, UncleanLogDir
from logwright.log.committed import HighWatermark
from logwright.move.commit import move_partition
from logwright.purge.commit import purge_partition
from logwright.retention.commit import plan_retention_of
from logwright.roll.commit import plan_roll_of, roll_partition
from logwright.state.model import Pause, Quarantine
from logwright.state.store import change_state
from logwright.steps import failed_output
from logwright.sweep.build import build, examine
from logwright.sweep.commit import commit
from logwright.sweep.model import LogWork
from logwright.sweep.retain import retain as retain_log
from logwright.sweep.stages import discard
from logwright.undo.commit import undo_partition
from logwright.undo.observe import plan_undo_of
from logwright.units import INT64_MAX, TimestampMs
from tests.erasing import PlainKeys, require_nowhere
from tests.plans import forced_plan
from tests.sequences.away import away, is_unfinished
from tests.sequences.brokers import broker, broker_crash
from tests.sequences.content import (
    Content,
    between,
    brought_back,
    cleaned,
    erased,
    retained,
)
from tests.sequences.followers import follower
from tests.sequences.ingests import archive, ingest
from tests.sequences.missing import lose
from tests.sequences.reading import bases_of, last_offsets, old_expired
from tests.sequences.rescues import free, rescue, undo_rescue
from tests.sequences.retaining import Piece, cleanable_end, high_watermark, pieces_of, start_after
from tests.sequences.rich_logs import KEYS
from tests.sequences.running import running
from tests.sequences.settings import found_settings
from tests.sequences.starts import doctor
from tests.sequences.step import Step, pick, unchanged
from tests.sequences.tables import table
from tests.sequences.world import (
    BOTH,
    BOTH_PAIRS,
    COMPACTED,
    COPIED,
    DELETE_RETENTION_MS,
    RETAINED,
    RETAINED_PAIRS,
    SECOND,
    TAKEN_IN,
    Difference,
    World,
    parsed,
    repair,
    settings_of,
)

DELAY_MS: Final = 2_000
"""After that a purge unlinks."""


def clean(world: World, choice: int) -> Step:
    """Compact, and roll if it is due; sometimes coordinated with a replica that is away, and which
    has never been cleaned: then no tombstone goes; one that has to be recovered is refused. A log
    that is not compacted stays as it is, although its lag is exceeded.
    """
    name = pick(world, choice, (COMPACTED, COMPACTED, TAKEN_IN, RETAINED, SECOND, BOTH, BOTH))
    log = world.logs[name]
    is_coordinated = name == COMPACTED and choice % 5 == 0 and not log.is_another
    replicas = (away(world.root),) if is_coordinated else ()
    is_refused = any(is_unfinished(one, name) for one in replicas)
    watermark: HighWatermark = "recorded" if name in (SECOND, BOTH) else "end"
    erased_from: list[tuple[Content, bool, list[int]]] = []

    def run() -> None:
        repair(world)
        try:
            plan = forced_plan(
                log.where,
                parsed(name),
                settings_of(name, choice // 8),
                now_ms=world.clock,
                high_watermark=watermark,
                replicas=replicas,
            )
        except UncleanLogDir:
            if log.content is None or not is_refused:
                raise
            erased_from[:] = [(log.content, False, [])]
            return
        assert not (is_refused and plan.clean)
        assert log.content is not None
        assert name != RETAINED or not plan.clean
        bounds = plan.compaction
        dirty, uncleanable = bounds.first_dirty_offset, bounds.first_uncleanable_offset
        _require_bound(world, name, plan, choice)
        result = cleaned(
            log.content,
            dirty=dirty,
            uncleanable=uncleanable,
            now_ms=world.now,
            delete_retention_ms=DELETE_RETENTION_MS,
            empty=not plan.clean,
            removable=0 if replicas else INT64_MAX,
            expired=old_expired(log.where, name, dirty, DELETE_RETENTION_MS),
        )
        erased_from[:] = [(result, plan.clean, bases_of(log.where, name))]
        if not plan.clean and not plan.roll.due:
            return
        staged = None
        if plan.clean:
            log.before[world.now] = ("swap", log.content)
            staged = _checked(plan, again=choice % 7 == 0)
        commit(plan, staged)

    def halfway() -> Iterator[Content]:
        for result, _, bases in erased_from:
            assert log.content is not None
            yield from between(result, log.content, (*bases, log.content.end))

    return Step(name, run, lambda: [one[0] for one in erased_from], halfway)


def _require_bound(world: World, name: str, plan: CleanPlan, choice: int) -> None:
    """A cleaning goes up to where Kafka's does: not beyond the high watermark."""
    log, bounds = world.logs[name], plan.compaction
    content = log.content
    assert content is not None
    dirty, uncleanable = bounds.first_dirty_offset, bounds.first_uncleanable_offset
    assert uncleanable <= max(content.stable, dirty)
    if name not in (SECOND, BOTH) or not plan.clean:
        return
    config, _ = settings_of(name, choice // 8)
    pieces = pieces_of(log.where, name, content.end)
    if plan.roll.due:
        pieces.append(Piece(content.end, content.end, 0, 0))
    expected = cleanable_end(
        pieces,
        dirty=dirty,
        stable=min(content.stable, high_watermark(log.where, name, content.end)),
        now_ms=world.now,
        lag_ms=config.min_compaction_lag_ms,
    )
    if uncleanable != expected:
        raise Difference(f"{name}: a cleaning from {dirty} to {uncleanable}, expected {expected}")


def _checked(plan: CleanPlan, *, again: bool) -> StagedCleaning:
    """A cleaning that was built and has passed its checks; `again`: built twice, as by Spark when
    the first executor is lost.
    """
    staged = build(plan)
    if again:
        staged = build(plan)
    assert () == tuple(examine(plan, staged).failed)
    return staged


def fail(world: World, choice: int) -> Step:
    """Compact, but the output fails a check, and is kept for inspection for a while; however little
    space this machine's disk has.
    """
    name = pick(world, choice, (COMPACTED, TAKEN_IN, BOTH))
    log = world.logs[name]

    def run() -> None:
        repair(world)
        settings = settings_of(name, choice // 8)
        plan = forced_plan(
            log.where,
            parsed(name),
            settings,
            now_ms=world.clock,
            keep_failed_output_ms=1 + choice % 5_000,
        )
        if not plan.clean:
            return
        build(plan)
        failure = QualityError("the output fails a check.")
        work = LogWork(key=name, log_dir=log.where, partition=parsed(name), plan=plan)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(failed_output, "LEAST_FREE_SHARE", 0.0)
            discard([work.failed(failure)])

    return Step(name, run, unchanged(world, name))


def roll(world: World, choice: int) -> Step:
    """Begin a new active segment."""
    name = pick(world, choice, (COMPACTED, TAKEN_IN, RETAINED, SECOND, BOTH))
    log = world.logs[name]

    def run() -> None:
        repair(world)
        config, _ = settings_of(name)
        roll_partition(
            *plan_roll_of(log.where, parsed(name), config, now_ms=world.clock, force=True)
        )

    return Step(name, run, unchanged(world, name))


def retain(world: World, choice: int) -> Step:
    """Delete the oldest segments: up to an offset, by size or by time."""
    name = pick(world, choice, (RETAINED, BOTH))
    log = world.logs[name]
    bases: list[int] = []
    starts: list[int] = []
    lasts: dict[int, int] = {}

    def run() -> None:
        repair(world)
        start, end = (0, 0) if log.content is None else (log.content.start, log.content.end)
        pieces = pieces_of(log.where, name, end)
        watermark = high_watermark(log.where, name, end)
        limits = _limits(world, pieces, choice // 8)
        before = max(start, min(start + choice % (end - start + 1), watermark))
        if limits and choice % 3:
            before = start
        pairs = dict(RETAINED_PAIRS if name == RETAINED else BOTH_PAIRS)
        pairs |= {key: str(value) for key, value in limits.items()}
        aside, topic = world.root / "settings", parsed(name).topic
        config, _ = found_settings(log.where, aside, topic, pairs, choice // 64)
        plan = plan_retention_of(
            log.where,
            parsed(name),
            config,
            now_ms=world.clock,
            high_watermark="recorded",
            delete_records_before=None if before == start else before,
        )
        expected = start_after(
            pieces,
            start=before,
            watermark=watermark,
            now_ms=world.now,
            retention_bytes=limits.get("retention.bytes", -1),
            retention_ms=limits.get("retention.ms", -1),
        )
        if log.content is not None and plan.log_start_offset != expected:
            raise Difference(
                f"{name}: retention up to {plan.log_start_offset}, expected {expected}"
            )
        bases[:] = bases_of(log.where, name)
        lasts.update(last_offsets(log.where, name))
        starts[:] = [plan.log_start_offset]
        if log.content is not None:
            log.before[world.now] = ("retain", log.content)
        retain_log(plan)

    def halfway() -> Iterator[Content]:
        if starts and log.content is not None:
            for start in {*bases, *starts}:
                if log.content.start <= start <= starts[0]:
                    yield retained(log.content, start, lasts)

    def done() -> Iterable[Content | None]:
        return () if log.content is None else [retained(log.content, one, lasts) for one in starts]

    return Step(name, run, done, halfway)


def _limits(world: World, pieces: Sequence[Piece], choice: int) -> dict[str, int]:
    """Of size or time: just so that some segment goes, or just not; or none."""
    rnd = random.Random(choice)
    kind = rnd.choice(("none", "retention.bytes", "retention.ms"))
    if kind == "none" or not pieces:
        return {}
    number = rnd.randrange(len(pieces))
    if kind == "retention.ms":
        limit = world.now - pieces[number].largest_ms
    else:
        limit = sum(one.size for one in pieces[number + 1 :])
    return {kind: max(limit + rnd.choice((-1, 0, 1)), 0)}


def undo(world: World, choice: int) -> Step:
    """Bring back what the last operation on a log retired."""
    worked_on = tuple(name for name, one in world.logs.items() if one.before)
    if not worked_on and choice % 4:
        return clean(world, choice)
    name = pick(world, choice, worked_on or (COMPACTED, RETAINED))
    log = world.logs[name]
    restored: list[tuple[str, Content, Content]] = []
    bases: list[int] = []

    def run() -> None:
        repair(world)
        plan = plan_undo_of(log.where, parsed(name))
        kind, before = log.before[plan.at_ms]
        assert log.content is not None
        start = before.start if kind == "retain" else None
        restored[:] = [(kind, before, brought_back(log.content, before, start=start))]
        bases[:] = bases_of(log.where, name)
        undo_partition(plan, now_ms=world.clock)
        del log.before[plan.at_ms]

    def halfway() -> Iterator[Content]:
        for kind, _, back in restored:
            assert log.content is not None
            if kind == "retain":
                starts = {*bases, back.start, log.content.start}
                for start in starts:
                    if back.start <= start <= log.content.start:
                        yield retained(back, start, {})
            else:
                cuts = (*bases, *(base for base in bases_of(log.where, name)), back.end)
                yield from between(log.content, back, cuts)

    return Step(name, run, lambda: [one[2] for one in restored], halfway)


def purge(world: World, choice: int) -> Step:
    """Unlink what was retired long enough ago; also in a directory that a crash left."""
    name = pick(world, choice, (COMPACTED, RETAINED, TAKEN_IN, BOTH))
    log = world.logs[name]

    def run() -> None:
        purge_partition(
            log.where,
            parsed(name),
            now_ms=world.clock,
            file_delete_delay_ms=DELAY_MS,
            force=True,
        )

    return Step(name, run, unchanged(world, name), unclean=True)


def recover(world: World, choice: int) -> Step:
    """Repair what a crash left."""
    del choice
    return Step(COMPACTED, lambda: repair(world), unchanged(world, COMPACTED))


def delete(world: World, choice: int) -> Step:
    """Delete a whole log."""
    name = pick(world, choice, (TAKEN_IN, RETAINED, COMPACTED, BOTH))
    log = world.logs[name]
    was: list[Content | None] = []

    def run() -> None:
        repair(world)
        was[:] = [log.content]
        delete_log(log.where, parsed(name), now_ms=world.clock)

    def gone() -> Iterable[Content | None]:
        if was:
            log.deleted, log.taking = was[0], None
        return (None,)

    return Step(name, run, gone, gone)


def restore(world: World, choice: int) -> Step:
    """Undo a deletion."""
    names = [name for name, log in world.logs.items() if log.content is None and log.deleted]
    name = names[choice % len(names)] if names else TAKEN_IN
    log = world.logs[name]

    def run() -> None:
        restore_log(log.where, find_deleted(log.where, parsed(name)))

    return Step(name, run, lambda: (log.deleted,), lambda: (log.deleted, None))


def purge_deleted(world: World, choice: int) -> Step:
    """Remove the deleted logs whose delay is over."""
    name = pick(world, choice, (TAKEN_IN, RETAINED, COMPACTED))

    def run() -> None:
        for log_dir in (world.first, world.second):
            purge_deleted_(log_dir, now_ms=world.clock, delay_ms=DELAY_MS)

    return Step(name, run, unchanged(world, name), unclean=True)


def erase(world: World, choice: int) -> Step:
    """Erase the records of a key at once: afterwards no file of the log has it, and no undo brings
    it back.
    """
    name = pick(world, choice, (COMPACTED, TAKEN_IN, RETAINED, COPIED, SECOND, BOTH))
    log = world.logs[name]
    keys = [key.encode() for key in KEYS]
    key = keys[choice // 8 % (len(keys) if name in (SECOND, BOTH) else 6)]
    erased_from: list[tuple[Content, list[int]]] = []

    def run() -> None:
        repair(world)
        if log.content is None:
            return
        erased_from[:] = [(erased(log.content, key), bases_of(log.where, name))]
        done = erase_partition(
            log.where, parsed(name), settings_of(name), PlainKeys([key]), now_ms=world.clock
        )
        require_nowhere(log.where / name, key)
        if done.segments or done.purged:
            log.before.clear()

    def halfway() -> Iterator[Content]:
        for result, bases in erased_from:
            assert log.content is not None
            yield from between(result, log.content, (*bases, log.content.end))

    return Step(
        name, run, lambda: [one[0] for one in erased_from] or unchanged(world, name)(), halfway
    )


def pause(world: World, choice: int) -> Step:
    """Pause and resume a log, or put it into quarantine and take it out."""
    name = pick(world, choice, (COMPACTED, RETAINED, TAKEN_IN))
    log = world.logs[name]
    partition = parsed(name)

    def run() -> None:
        now = world.clock
        until = TimestampMs(world.now + choice % 3_000)
        if choice % 5 == 0:
            reason = Quarantine(
                cause="CorruptBatch",
                problem="p",
                file=None,
                position=None,
                since_ms=now,
                retry_at_ms=until,
                failures=1,
            )
            change_state(log.where, partition, lambda one: replace(one, quarantine=reason))
        elif choice % 2:
            held = Pause(owner="me", reason="r", since_ms=now, expires_at_ms=until)
            change_state(log.where, partition, lambda one: one.with_pause(held))
        else:
            change_state(
                log.where, partition, lambda one: replace(one.without_pauses("me"), quarantine=None)
            )

    return Step(name, run, unchanged(world, name), unclean=True)


def move(world: World, choice: int) -> Step:
    """Move a log to the other log directory, or continue a move."""
    name = world.moving or pick(world, choice, (COMPACTED, RETAINED, TAKEN_IN, SECOND, BOTH))
    log = world.logs[name]

    def run() -> None:
        repair(world)
        destination = world.second if log.where == world.first else world.first
        world.moving = name
        move_on(world, log.where, destination, name)
        world.moving = None

    return Step(name, run, unchanged(world, name), again=True)


def move_on(world: World, source: Path, destination: Path, name: str) -> None:
    """Begin or continue a move. Effects and errors: as `move_partition`."""
    move_partition(source, parsed(name), destination, now_ms=world.clock, progress=lambda *_: None)


OPERATIONS: Final[dict[str, Callable[[World, int], Step]]] = {
    "clean": clean,
    "fail": fail,
    "roll": roll,
    "retain": retain,
    "undo": undo,
    "purge": purge,
    "recover": recover,
    "delete": delete,
    "restore": restore,
    "purge-deleted": purge_deleted,
    "ingest": ingest,
    "archive": archive,
    "pause": pause,
    "move": move,
    "table": table,
    "erase": erase,
    "running": running,
    "follower": follower,
    "lose": lose,
    "rescue": rescue,
    "undo-rescue": undo_rescue,
    "doctor": doctor,
    "free": free,
    "broker-crash": broker_crash,
    "broker": broker,
}
