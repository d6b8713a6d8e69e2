"""What stops a broker, in sequences, and the rescue that makes it start again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from logwright.rescue.free_groups import compact, compaction_plan
from logwright.rescue.free_run import alone
from logwright.units import INT64_MAX
from tests.e2e.command import call
from tests.latest_rows import replayed
from tests.property.accidents import META
from tests.sequences.content import Content, any_of, cleaned
from tests.sequences.reading import bases_of
from tests.sequences.step import Step, pick, unchanged
from tests.sequences.world import (
    COMPACTED,
    DELETE_RETENTION_MS,
    RETAINED,
    TAKEN_IN,
    Difference,
    RecoveryFails,
    World,
    parsed,
    repair,
    settings_of,
)

_OTHER_ID: Final = "b3RoZXItZGlyZWN0b3J5LQ"
_STRANGER: Final = "backup"


def rescue(world: World, choice: int) -> Step:
    """Something stops a broker: a strange directory or file, a malformed checkpoint. A rescue takes
    it out of the way, killed or not, and no log changes for its consumers.
    """
    name = pick(world, choice, (COMPACTED, TAKEN_IN, RETAINED))
    log = world.logs[name]

    def run() -> None:
        repair(world)
        _format(world)
        _damage(log.where, name, choice)
        world.stopped = True
        rescue_now(world)

    return Step(name, run, unchanged(world, name))


def free(world: World, choice: int) -> Step:
    """Compact a log group by group, as on a full disk; sometimes there is no room for the later
    groups. Nothing of it can be undone.
    """
    name = pick(world, choice, (COMPACTED, COMPACTED, TAKEN_IN))
    log = world.logs[name]
    room = iter(range((1, 2, 3, 99)[choice // 64 % 4]))
    made: list[tuple[Content, list[int]]] = []

    def run() -> None:
        repair(world)
        plan = compaction_plan(
            log.where,
            parsed(name),
            settings_of(name, choice // 8),
            now_ms=world.clock,
            high_watermark="end",
        )
        assert log.content is not None
        if plan is None:
            made[:] = [(log.content, [])]
            return
        bounds = plan.compaction
        result = cleaned(
            log.content,
            dirty=bounds.first_dirty_offset,
            uncleanable=bounds.first_uncleanable_offset,
            now_ms=world.now,
            delete_retention_ms=DELETE_RETENTION_MS,
            empty=False,
            removable=INT64_MAX,
        )
        made[:] = [(result, bases_of(log.where, name))]
        with alone(log.where) as files:
            compact(
                plan,
                files,
                room=1 << 40,
                goes=lambda _: next(room, None) is not None,
                at_worst=lambda: None,
            )

    def done() -> Iterator[Content]:
        for result, bases in made:
            assert log.content is not None
            yield result
            known = replayed(log.content)
            yield from (one for one in any_of(result, log.content, bases) if replayed(one) == known)

    return Step(name, run, done)


def rescue_now(world: World) -> None:
    """Rescue both directories; nothing then stops a broker. Effects: changes them.

    Raises:
        RecoveryFails: it ends in another way.
    """
    log_dirs = (world.first, world.second)
    done = call("rescue", *log_dirs, "--yes", "--now", world.now)
    if done.status:
        raise RecoveryFails(f"rescue: {done.status}: {done.out} {done.err}")
    if (world.first / _STRANGER).exists() or (world.second / _STRANGER).exists():
        raise Difference("rescue leaves what stops a broker")
    world.stopped = False


def _format(world: World) -> None:
    for log_dir, content in (
        (world.first, META),
        (world.second, META.replace("YWJjZGVmZ2hpamtsbW5vcA", _OTHER_ID)),
    ):
        if not (log_dir / "meta.properties").exists():
            (log_dir / "meta.properties").write_text(content)


def _damage(log_dir: Path, name: str, choice: int) -> None:
    kind = choice % 4
    if kind == 0:
        (log_dir / _STRANGER).mkdir(exist_ok=True)
    elif kind == 1 and (log_dir / name).is_dir():
        (log_dir / name / "x.log").write_bytes(b"")
    elif kind == 2:
        _garble(log_dir / "recovery-point-offset-checkpoint")
    else:
        _garble(log_dir / "cleaner-offset-checkpoint")


def _garble(path: Path) -> None:
    fresh = path.with_name(f"{path.name}.new")
    fresh.write_bytes(bytes(20))
    fresh.rename(path)
