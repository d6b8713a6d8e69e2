"""Two commands on the same logs, run at once, and what is said of the end.

Right is what one of the two orders leaves, or a refusal by a command that has changed nothing: the
end is then that of the other one alone.
"""

from __future__ import annotations

import shutil
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from logwright.errors import LogwrightError, PolicyError, PreconditionError
from logwright.format.names import TopicPartition
from tests.crash.commands import PREPARATIONS, T0, Act, Command, Place, make_place
from tests.crash.ends import End, look, staging
from tests.crash.schedules import Schedule

ORDERS = ("AB", "BA")
"""A is the first command of a pair, B the second."""

CAN_BE_REPEATED = ("recover", "ingest-new")
"""Commands that may be refused with a part done; done again they leave what an order leaves."""


@dataclass(frozen=True)
class Ended:
    """How a run of one or both commands ended: what is there, and what they raised."""

    end: End
    first: BaseException | None
    second: BaseException | None

    @property
    def errors(self) -> tuple[BaseException | None, BaseException | None]:
        """Of both."""
        return self.first, self.second


@dataclass
class Pair:
    """Two commands and the logs that they begin with.

    Attributes:
        partitions: of the first and of the second.
        ends: of the orders that were looked at.
    """

    first: Command
    second: Command
    partitions: tuple[TopicPartition, TopicPartition]
    start: Place
    scratch: Path
    ends: dict[str, Ended] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=count)

    def __str__(self) -> str:
        where = "same" if len(set(self.partitions)) == 1 else "other"
        return f"{self.first} | {self.second} | {where}"

    def copied(self) -> Place:
        """The logs that a run begins with."""
        return self.start.copied(self.scratch / f"{next(self.numbers)}")

    def act(self, place: Place, which: int) -> None:
        """Run one of the two."""
        (self.first, self.second)[which].act(place, self.partitions[which])

    def alone(self, order: str) -> Ended:
        """One after the other, or one only, or none: of `AB`, `BA`, `A`, `B` and nothing."""
        if order not in self.ends:
            place = self.copied()
            errors: list[BaseException | None] = [None, None]
            for name in order:
                try:
                    self.act(place, "AB".index(name))
                except LogwrightError as error:
                    errors["AB".index(name)] = error
            self.ends[order] = Ended(look(place), *errors)
            shutil.rmtree(place.root)
        return self.ends[order]

    def calls(self) -> list[str]:
        """Those of the first command alone."""
        place = self.copied()
        schedule = Schedule(root=place.root)
        schedule.run(lambda: self.act(place, 0))
        shutil.rmtree(place.root)
        return schedule.made

    def run(self, stop: int) -> tuple[str, str]:
        """How the schedule with this stop ended, and what is wrong with it, if anything is."""
        place = self.copied()
        schedule = Schedule(root=place.root, stop=stop, second=lambda: self.act(place, 1))
        schedule.run(lambda: self.act(place, 0))
        if not schedule.began:  # the first made fewer calls now
            shutil.rmtree(place.root)
            return "not begun", ""
        ended = Ended(look(place), schedule.first_error, schedule.second_error)
        kind, problem = self.judge(ended, place)
        if not problem and (left := staging(place)):
            problem = f"a purge leaves {left}"
        shutil.rmtree(place.root)
        if problem:
            call = schedule.made[stop - 1].replace(str(place.root), "")
            problem = f"{self}: stop {stop} ({call}): {problem}"
        return kind + ("; B waited" if schedule.waited else ""), problem

    def run_all(self, stops: Iterable[int]) -> tuple[Counter[str], list[str]]:
        """How often each kind of end was seen, and what was wrong."""
        counts: Counter[str] = Counter()
        problems = []
        for stop in stops:
            kind, problem = self.run(stop)
            counts[kind] += 1
            problems += [problem] if problem else []
        return counts, problems

    def judge(self, ended: Ended, place: Place) -> tuple[str, str]:
        """The kind of end, and what is wrong with it."""
        failed = [
            error
            for error in ended.errors
            if not isinstance(error, PreconditionError | PolicyError | None)
        ]
        if failed:
            shown = "".join(traceback.format_exception(failed[0])[-4:])
            return f"failed ({type(failed[0]).__name__})", shown
        if ended.errors == (None, None):
            for order in ORDERS:
                serial = self.alone(order)
                if serial.end == ended.end and serial.errors == (None, None):
                    return ";".join(order), ""
            return "both done", self.differences(ended, *ORDERS)
        return self._judge_refusal(ended, place)

    def _judge_refusal(self, ended: Ended, place: Place) -> tuple[str, str]:
        names = zip("AB", ended.errors, strict=True)
        refused = ", ".join(
            f"{name} refused ({type(error).__name__})" for name, error in names if error is not None
        )
        done = "".join(n for n, error in zip("AB", ended.errors, strict=True) if error is None)
        if ended.end == self.alone(done).end:
            one_would = self.alone("A").first or self.alone("B").second
            return refused, "" if done or one_would else f"both refused: {ended.errors}"
        if self._can_be_repeated(ended, place):
            return f"{refused}, repeated", ""
        return refused, f"{ended.errors}: {self.differences(ended, done)}"

    def _can_be_repeated(self, ended: Ended, place: Place) -> bool:
        """A recovery of many partitions is one of each: those that it could not have are left. One
        that finds the empty directory which an ingest has made gives it a segment, as a broker's.
        """
        commands = (self.first, self.second)
        again = [number for number in (0, 1) if ended.errors[number] is not None]
        if any(not commands[number].name.startswith(CAN_BE_REPEATED) for number in again):
            return False
        try:
            for number in again:
                self.act(place, number)
        except LogwrightError:
            return False
        end = look(place)
        return any(end == self.alone(order).end for order in ORDERS)

    def differences(self, ended: Ended, *orders: str) -> str:
        """What is there that none of these orders leaves."""
        lines = ["the end is none of those expected:"]
        for order in orders:
            serial = self.alone(order)
            lines += [
                f"  {order}: refused: {error}" for error in serial.errors if error is not None
            ]
            for key in sorted({*serial.end, *ended.end}):
                if serial.end.get(key) != ended.end.get(key):
                    lines.append(f"  {order or 'start'}: {key}: {serial.end.get(key)}")
                    lines.append(f"     found: {ended.end.get(key)}")
        return "\n".join(lines)


class Starts:
    """The logs that pairs begin with, and what the first command does there, each made once."""

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch
        self.made: dict[tuple[tuple[Act, TopicPartition], ...], Place] = {}
        self.warm: set[str] = set()
        self.counted: dict[tuple[Path, str], list[str]] = {}

    def pair(self, first: Command, second: Command, other: TopicPartition) -> Pair:
        """The first command works on t-0, the second on another partition or the same."""
        partitions = (T0, other)
        wanted = {
            (act, partition)
            for command, partition in zip((first, second), partitions, strict=True)
            for act in command.before
        }
        steps = tuple(sorted(wanted, key=lambda one: (PREPARATIONS.index(one[0]), one[1])))
        if steps not in self.made:
            place = make_place(self.scratch / f"start-{len(self.made)}")
            for act, partition in steps:
                act(place, partition)
            self.made[steps] = place
        scratch = self.scratch / f"{first}-{second}-{other}"
        return Pair(first, second, partitions, self.made[steps], scratch)

    def calls(self, pair: Pair) -> list[str]:
        """Those of the pair's first command alone."""
        key = (pair.start.root, pair.first.name)
        if key not in self.counted:
            if pair.first.name not in self.warm:  # a process' first run of some code makes more
                pair.calls()
                self.warm.add(pair.first.name)
            self.counted[key] = pair.calls()
        return self.counted[key]
