"""Random histories of a platform: logs, policies, ticks and runs, with the clock; judged after each
step, and in the end, when nothing is left to do.
"""

from __future__ import annotations

import logging
import random
import shutil
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

from logwright.resources.clock import NOW_VARIABLE
from tests.platform_sequences import world as disk
from tests.platform_sequences.events import Difference, require
from tests.platform_sequences.judge import Judge
from tests.platform_sequences.platform import SWEEPS, Ending, Requested, platform_of
from tests.platform_sequences.rules import due_of
from tests.platform_sequences.world import HOUR_MS, MINUTE_MS, SECOND_MS, World, make_world

SHORTEST: Final = 8
LONGEST: Final = 20
DEEPEST: Final = 120
"""The last effect of a run before which it is killed or canceled."""
WAITS: Final = (
    1,
    SECOND_MS,
    61 * SECOND_MS,
    5 * MINUTE_MS,
    5 * MINUTE_MS,
    16 * MINUTE_MS,
    HOUR_MS,
    3 * HOUR_MS,
    25 * HOUR_MS,
)
WHOLE: Final = 10
"""One history of this many has the profiles of Great Expectations."""
ROUNDS: Final = 12
"""Most sweeps after the last step, until nothing is due."""

Act = Callable[[World, random.Random], None]
_LOGS: Final[dict[str, tuple[int, Act]]] = {
    "grow": (8, disk.grow),
    "roll": (6, disk.roll),
    "appear": (3, disk.appear),
    "disappear": (2, disk.disappear),
    "corrupt": (3, disk.corrupt),
    "repair": (2, disk.repair),
    "crash": (2, disk.crash),
    "pause": (3, disk.pause),
    "resume": (1, disk.resume),
    "settings": (5, disk.change_settings),
    "away": (1, disk.move_away),
}
_PLATFORM: Final = {
    "due tick": 16,
    "purge tick": 4,
    "pauses tick": 3,
    "discovery tick": 3,
    "retention tick": 3,
    "inventory": 2,
    "lose a cursor": 3,
    "run": 20,
    "kill": 3,
    "cancel": 2,
    "withdraw": 2,
    "notice": 3,
    "backfill": 3,
}
_ENDINGS: Final[dict[str, Ending | None]] = {"run": None, "kill": "kill", "cancel": "cancel"}
Operation = tuple[str, int]
"""Name of the act, and the number from which all about it follows."""


def after(wait_ms: int, name: str, variant: int = 0) -> Operation:
    """An act after one of `WAITS`; each variant draws something else."""
    numbers = [one for one in range(1000) if random.Random(one).choice(WAITS) == wait_ms]
    return name, numbers[variant]


@dataclass(slots=True)
class Figures:
    """What many histories came to.

    Attributes:
        acts: what happened; runs: how runs ended, by their job.
        differences: seed, what differs, the acts.
    """

    histories: int = 0
    acts: Counter[str] = field(default_factory=Counter)
    runs: Counter[str] = field(default_factory=Counter)
    differences: list[tuple[int, str, tuple[str, ...]]] = field(default_factory=list)

    def add(self, other: Figures) -> None:
        """Take over what others came to."""
        self.histories += other.histories
        self.acts += other.acts
        self.runs += other.runs
        self.differences += other.differences


def drawn(seed: int) -> tuple[Operation, ...]:
    """The acts of a seed."""
    draw = random.Random(seed)
    weights = {name: weight for name, (weight, _) in _LOGS.items()} | _PLATFORM
    count = draw.randint(SHORTEST, LONGEST)
    names = draw.choices(list(weights), list(weights.values()), k=count)
    return tuple((name, draw.randrange(1 << 30)) for name in names)


def run(
    seed: int,
    operations: Sequence[Operation],
    root: Path,
    figures: Figures,
    *,
    settles: bool = True,
) -> str | None:
    """Do a history. Effects: makes the root, and removes it.

    `settles`: in the end all is repaired and done, and judged again.

    Returns:
        what differs, None if nothing does.
    """
    figures.histories += 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(NOW_VARIABLE, "0")
        try:
            world = make_world(seed, root)
            with platform_of(world, whole=seed % WHOLE == 0) as platform:
                history = _History(Judge(platform), figures)
                history.begin()
                for name, choice in operations:
                    history.act(name, choice)
                if settles:
                    history.end(random.Random(seed))
        except Difference as error:
            return f"Difference: {error}"
        except Exception as error:  # noqa: BLE001 -- whatever it is, it is a fault
            where = [
                frame
                for frame in traceback.extract_tb(error.__traceback__)
                if "platform_sequences" in frame.filename
            ][-1]
            return f"{type(error).__name__}: {error} ({where.name}:{where.lineno})"
        finally:
            shutil.rmtree(root, ignore_errors=True)
    return None


@dataclass(slots=True)
class _History:
    """Does the acts, and has each judged.

    Attributes:
        failed: sweeps that can be executed again.
    """

    judge: Judge
    figures: Figures
    failed: list[Requested] = field(default_factory=list)

    @property
    def world(self) -> World:
        """What is on disk."""
        return self.judge.world

    def begin(self) -> None:
        """The first tick of each sensor."""
        self.judge.discovery_tick()
        self.judge.always()

    def act(self, name: str, choice: int) -> None:
        """Do one, at a later time."""
        draw = random.Random(choice)
        self.world.pass_time(draw.choice(WAITS))
        self.figures.acts[name] += 1
        unmaintained = self.world.away or self.world.broken
        if name in _LOGS:
            if not self.world.away or name == "away":
                _LOGS[name][1](self.world, draw)
        elif name in _ENDINGS:
            self._run(_ENDINGS[name], draw)
        elif name == "notice":
            self._notice(draw)
        elif name == "withdraw":
            self.judge.platform.withdraw(draw)
        elif unmaintained:
            self.judge.nothing_tick()
        else:
            self._tick(name, draw)
        self.judge.always()

    def _run(self, ending: Ending | None, draw: random.Random) -> None:
        """Execute a run that waits; if none does, what a tick requests."""
        if not self._waiting() and not self.world.away and not self.world.broken:
            self.judge.due_tick()
        waiting = self._waiting()
        if waiting:
            self.execute(draw.choice(waiting), ending, draw.randint(1, DEEPEST))

    def _waiting(self) -> list[Requested]:
        return [one for one in self.judge.platform.open if not one.dead]

    def _tick(self, name: str, draw: random.Random) -> None:
        judge = self.judge
        if name == "due tick":
            judge.due_tick()
        elif name == "purge tick":
            judge.purge_tick()
        elif name == "pauses tick":
            judge.pauses_tick()
        elif name == "discovery tick":
            judge.discovery_tick()
        elif name == "retention tick":
            judge.retention_tick()
        elif name == "inventory":
            judge.inventory()
        elif name == "backfill":
            self._backfill(draw)
        else:
            judge.forget(draw.choice(["due_logs", "due_logs", "purge_due", "pauses"]))

    def _backfill(self, draw: random.Random) -> None:
        """A backfill of a range of partitions, of logs that are there."""
        self.judge.discovery_tick()
        known = list(self.judge.platform.instance.get_dynamic_partitions("kafka_logs"))
        if known:
            first, last = sorted(draw.choice(range(len(known))) for _ in range(2))
            self.judge.platform.backfill(known[first], known[last])

    def _notice(self, draw: random.Random) -> None:
        """The daemon notices a run that is dead; it, or one that failed, is executed again."""
        platform = self.judge.platform
        dead = [requested for requested in platform.open if requested.dead]
        if dead:
            requested = draw.choice(dead)
            platform.notice(requested)
            self.failed += [requested] if requested.job == "sweep" else []
        elif self.failed and not self.world.broken and not self.world.away:
            requested = self.failed.pop()
            gone = set(requested.logs) - self.world.logs.keys()
            before = self.judge.before()
            again = platform.again(requested, whole=draw.random() < 0.5 or bool(gone))
            status = platform.status(again.run_id)
            self.figures.runs[f"again {status.value}"] += 1
            self.judge.after_sweep(again, status, before)
            self.judge.events_of(again.run_id)
            self.judge.always(deletes=True)

    def execute(self, requested: Requested, ending: Ending | None, after: int) -> None:
        """Execute a run that waits, and judge it."""
        judge = self.judge
        before = {} if self.world.away else judge.before()
        staged = judge.staged()
        status = judge.platform.execute(requested, ending, after)
        self.figures.runs[f"{requested.job} {ending or 'ends'} {status.value}"] += 1
        if ending is not None and not self.world.away:
            judge.after_interrupted(requested, status, staged)
        elif requested.job in SWEEPS:
            judge.after_sweep(requested, status, before)
        elif requested.job == "retention":
            judge.after_retention(status, before)
        elif requested.job == "purge":
            judge.after_purge(requested, status)
        judge.events_of(requested.run_id)
        if status.value == "FAILURE" and requested.job == "sweep":
            self.failed.append(requested)
        judge.always(purges=requested.job == "purge", deletes=requested.job != "purge")

    def end(self, draw: random.Random) -> None:
        """All is repaired, and runs are executed at once: then each log is in order."""
        world, judge = self.world, self.judge
        while world.away or world.broken:
            disk.move_away(world, draw)
        disk.repair(world, draw)
        disk.resume(world, draw)
        world.limits = {}
        world.write_policies()
        for requested in list(judge.platform.open):
            if requested.dead:
                judge.platform.notice(requested)
            else:
                self.execute(requested, None, 0)
        world.pass_time(25 * HOUR_MS)
        judge.discovery_tick()
        for _ in range(ROUNDS):
            requests = judge.due_tick()
            for requested in list(judge.platform.open):
                self.execute(requested, None, 0)
            world.pass_time(SECOND_MS)
            if not requests and not world.doubtful:
                break
            world.pass_time(16 * MINUTE_MS if not requests else 0)
        left = {name for name in world.logs if due_of(world, name).due}
        require(not left, f"{left} are due in the end")
        require(world.is_clean, "the directory is not clean in the end")
        world.pass_time(3 * HOUR_MS)
        judge.purge_tick()
        for requested in list(judge.platform.open):
            self.execute(requested, None, 0)
        files = [path.name for path in world.log_dir.rglob("*.deleted")]
        require(not files, f"never purged: {files}")


def shrunk(seed: int, operations: tuple[Operation, ...], root: Path) -> tuple[Operation, ...]:
    """A shorter history that still differs."""
    at = len(operations)
    while at > 0:
        at -= 1
        fewer = operations[:at] + operations[at + 1 :]
        if run(seed, fewer, root / f"{len(fewer)}-{at}", Figures()) is not None:
            operations = fewer
    return operations


def run_many(seeds: range, root: Path, *, shrinks: bool = False) -> Figures:
    """The histories of some seeds. Effects: works below the root; prints each difference."""
    figures = Figures()
    for seed in seeds:
        operations = drawn(seed)
        reason = run(seed, operations, root / str(seed), figures)
        if reason is not None:
            if shrinks:
                operations = shrunk(seed, operations, root / f"{seed}-shorter")
            names = tuple(name for name, _ in operations)
            figures.differences.append((seed, reason, names))
            sys.stdout.write(f"seed {seed}: {'; '.join(names)}\n    {reason}\n")
            sys.stdout.flush()
    return figures


def silenced() -> None:
    """Without the log messages of what fails on purpose."""
    logging.disable(logging.CRITICAL)
