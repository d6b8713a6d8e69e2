"""What stops a broker, in sequences, the rescue that makes it start again, and its undo."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from logwright.rescue.free_groups import compact, compaction_plan
from logwright.rescue.free_run import alone
from logwright.units import INT64_MAX
from tests.e2e.command import call
from tests.latest_rows import replayed
from tests.sequences.content import Content, any_of, cleaned
from tests.sequences.reading import bases_of, old_expired
from tests.sequences.starts import require_verdict
from tests.sequences.step import Step, pick, unchanged
from tests.sequences.world import (
    COMPACTED,
    DELETE_RETENTION_MS,
    RETAINED,
    TAKEN_IN,
    Aside,
    Difference,
    RecoveryFails,
    World,
    parsed,
    repair,
    settings_of,
)

_STRANGER: Final = "backup"
_NOTES: Final = "notes"
_STRANGE_FILE: Final = "x.log"
_JOURNAL: Final = ".logwright-rescue.json"
_NO_CHECKPOINT: Final = bytes(20)


def rescue(world: World, choice: int) -> Step:
    """Something stops a broker: a strange directory or file, a malformed checkpoint; doctor says
    so. A rescue takes it out of the way, killed or not, and no log changes for its consumers.
    """
    name = pick(world, choice, (COMPACTED, TAKEN_IN, RETAINED))
    log = world.logs[name]

    def run() -> None:
        repair(world)
        damaged = _damage(log.where, name, choice)
        if damaged is not None:
            world.damaged.append(damaged)
        require_verdict(world, starts=not world.damaged)
        rescue_now(world)

    return Step(name, run, unchanged(world, name))


def undo_rescue(world: World, choice: int) -> Step:
    """Bring back what the rescues so far set aside, killed or not; what a broker or a command wrote
    since stays. Then rescue again.
    """
    if not any((each / _JOURNAL).exists() for each in (world.first, world.second)):
        return rescue(world, choice)

    def run() -> None:
        repair(world)
        world.undoing = [
            aside for each in (world.first, world.second) for aside in _to_bring_back(world, each)
        ]
        undo_now(world)
        require_verdict(world, starts=not world.damaged)
        rescue_now(world)

    return Step(COMPACTED, run, unchanged(world, COMPACTED))


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
            expired=old_expired(log.where, name, bounds.first_dirty_offset, DELETE_RETENTION_MS),
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
    """Rescue both directories; nothing then stops a broker, and what stopped it is kept. Effects:
    changes them.

    Raises:
        RecoveryFails: it ends in another way.
    """
    log_dirs = (world.first, world.second)
    done = call("rescue", *log_dirs, "--yes", "--now", world.now)
    if done.status:
        raise RecoveryFails(f"rescue: {done.status}: {done.out} {done.err}")
    require_verdict(world, starts=True)
    steps = [step for each in log_dirs for step in _journal(each)]
    for path, content in world.damaged:
        if not any(step.path == path and _content(step.target) == content for step in steps):
            raise Difference(f"a rescue keeps no {path}")
    for step in steps:
        world.sealed.setdefault(step.target, _stamp(step.path))
    world.damaged.clear()


def undo_now(world: World) -> None:
    """Undo the rescues of both directories; all is there again that was to be brought back.
    Effects: changes them.

    Raises:
        RecoveryFails: it ends in another way.
    """
    assert world.undoing is not None
    log_dirs = (world.first, world.second)
    kept = [aside for aside in world.undoing if not aside.comes_back]
    done = call("rescue", *log_dirs, "--undo", "--yes", "--now", world.now)
    if done.status != (5 if kept else 0):
        raise RecoveryFails(f"rescue --undo: {done.status}: {done.out} {done.err}")
    for aside in world.undoing:
        place = aside.path if aside.comes_back else aside.target
        if _content(place) != aside.content:
            raise Difference(f"{place} is another after an undo: {done.out}")
    left = {step.target for each in log_dirs for step in _journal(each)}
    if left != {aside.target for aside in kept}:
        raise Difference(f"the journals after an undo: {left}: {done.out}")
    world.damaged = [
        (aside.path, aside.content) for aside in world.undoing if aside.comes_back and _stops(aside)
    ]
    world.undoing = None
    world.sealed = {target: stamp for target, stamp in world.sealed.items() if target in left}


def _stops(aside: Aside) -> bool:
    """Whether what came back stops a broker: not a checkpoint that was whole when a rescue kept it,
    since the power loss before had undone the damage.
    """
    is_checkpoint = aside.path.name.endswith("-offset-checkpoint")
    return not is_checkpoint or aside.content.startswith(_NO_CHECKPOINT)


def after_power_loss(world: World) -> None:
    """Forget a damage that a power loss has undone, since it was not on the disk yet, and note what
    a rescue has sealed.
    """
    for log_dir in (world.first, world.second):
        _give_inodes(world, log_dir)
    steps = [step for each in (world.first, world.second) for step in _journal(each)]
    for step in steps:
        if step.stamp is not None:
            world.sealed.setdefault(step.target, step.stamp)
    world.damaged = [
        (path, content)
        for path, content in world.damaged
        if content in (_content(path), *(_content(step.target) for step in steps))
    ]


def _give_inodes(world: World, log_dir: Path) -> None:
    """The power loss of a test writes each file again; on a disk it would keep its inode, which a
    journal has.
    """
    path = log_dir / _JOURNAL
    if not path.exists():
        return
    journal = json.loads(path.read_text())
    for row in journal["steps"]:
        now, target = _stamp(log_dir / row["path"]), log_dir / row["target"]
        if now is None:
            continue
        if row["stamp"] and tuple(row["stamp"][:2]) == now[:2]:
            row["stamp"] = list(now)
        if target in world.sealed and world.sealed[target][:2] == now[:2]:
            world.sealed[target] = now
    path.write_text(json.dumps(journal, indent=1))


@dataclass(frozen=True, slots=True)
class _Kept:
    """A step in the journal of a rescue."""

    kind: str
    path: Path
    target: Path
    stamp: tuple[int, int, int] | None


def _journal(log_dir: Path) -> list[_Kept]:
    path = log_dir / _JOURNAL
    rows = json.loads(path.read_text())["steps"] if path.exists() else []
    return [
        _Kept(
            row["kind"],
            log_dir / row["path"],
            log_dir / row["target"],
            row["stamp"] and tuple(row["stamp"]),
        )
        for row in rows
    ]


def _to_bring_back(world: World, log_dir: Path) -> Iterator[Aside]:
    """What an undo makes of each step, last one first: nothing where something has the name, but of
    a checkpoint that is as a rescue left it which ended, or where the log is gone.
    """
    taken: dict[Path, Path] = {}
    for step in reversed(_journal(log_dir)):
        content = _content(step.target)
        if content is None or _same_file(taken.get(step.path, step.path), step.target):
            continue
        is_free = step.path not in taken and step.path.parent.is_dir() and not step.path.exists()
        if step.kind == "kept" and step.target not in world.sealed:
            is_free = False  # the power went before that rescue ended
        elif step.kind == "kept" and step.path not in taken:
            is_free |= _stamp(step.path) == world.sealed[step.target]
        if is_free:
            taken[step.path] = step.target
        yield Aside(step.path, step.target, content, comes_back=is_free)


def _same_file(path: Path, other: Path) -> bool:
    return path.exists() and path.samefile(other)


def _stamp(path: Path) -> tuple[int, int, int] | None:
    if not path.is_file():
        return None
    status = path.stat()
    return status.st_size, status.st_mtime_ns, status.st_ino


def _content(path: Path) -> bytes | None:
    """Of a file, or of the one in a directory; None if it is not there."""
    place = path / _NOTES if path.is_dir() else path
    return place.read_bytes() if place.exists() else None


def _damage(log_dir: Path, name: str, choice: int) -> tuple[Path, bytes] | None:
    """Damage a directory; what stops a broker now, and its content. Effects: as said."""
    kind, content = choice % 4, b"%d" % choice
    if kind == 0:
        path = log_dir / _STRANGER
        path.mkdir()
        (path / _NOTES).write_bytes(content)
        return path, content
    if kind == 1:
        if not (log_dir / name).is_dir():
            return None
        path = log_dir / name / _STRANGE_FILE
        path.write_bytes(content)
        return path, content
    path = log_dir / f"{'recovery-point' if kind == 2 else 'cleaner'}-offset-checkpoint"
    content = _NO_CHECKPOINT + content
    fresh = path.with_name(f"{path.name}.new")
    fresh.write_bytes(content)
    fresh.rename(path)
    return path, content
