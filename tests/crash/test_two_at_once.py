"""Two commands on one log directory at once end as one after the other, or one refuses and has
changed nothing.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Iterator

import pytest

import logwright.steps.live
from logwright.format.names import TopicPartition
from tests.crash.commands import COMMANDS, T0, U0, Command
from tests.crash.pairs import Starts
from tests.crash.schedules import scheduled
from tests.differential.random_logs import scratch_directory

pytestmark = pytest.mark.crash

NAMED = {command.name: command for command in COMMANDS}

NARROW = (
    ("recover", "retain", U0),
    ("move", "ingest", T0),
    ("move", "pause", T0),
)
"""Pairs with few stops at which something could go wrong, of which a fault is known."""

MORE_NARROW = (
    ("clean", "clean", T0),
    ("clean", "delete", T0),
    ("clean", "resume", U0),
    ("recover", "delete", U0),
)
"""The same, by day one of them."""

MANY = 200
"""Calls of a command of which half are tried."""

HONOURS_PAUSES = ("clean", "retain", "undo-swap", "undo-retain", "purge")

OTHERS = 5
"""Pairs on two partitions that are tried by day."""

EVERY = 4
"""One of this number of pairs on one partition is tried by day."""


@pytest.fixture
def starts() -> Iterator[Starts]:
    """What pairs begin with, in a directory in memory where there is one."""
    with scratch_directory() as scratch, scheduled():
        yield Starts(scratch)


def test_two_commands_end_as_one_after_the_other_at_any_stop(starts: Starts, seed: int) -> None:
    """Some pairs on one partition, and some on two, with one stop each."""
    chosen = random.Random(f"{seed} two at once")
    pairs = [(one, other, T0) for one in COMMANDS for other in COMMANDS]
    pairs = chosen.sample(pairs, len(pairs) // EVERY)
    pairs += [(*chosen.choices(COMMANDS, k=2), U0) for _ in range(OTHERS)]
    problems = []
    for first, second, other in pairs:
        pair = starts.pair(first, second, other)
        calls = starts.calls(pair)
        problems += pair.run_all([chosen.randint(1, len(calls))])[1]
    assert problems == []


@pytest.mark.parametrize(("first", "second", "other"), NARROW)
def test_a_pair_ends_as_one_after_the_other_at_each_stop(
    starts: Starts, first: str, second: str, other: TopicPartition
) -> None:
    """Before each call of the first command the second one may run; before every second one of a
    command that makes many.
    """
    try_stops(starts, first, second, other)


@pytest.mark.rotates(len(MORE_NARROW))
@pytest.mark.parametrize(("first", "second", "other"), MORE_NARROW)
def test_another_pair_ends_as_one_after_the_other_at_each_stop(
    starts: Starts, first: str, second: str, other: TopicPartition
) -> None:
    """As above."""
    try_stops(starts, first, second, other)


def try_stops(starts: Starts, first: str, second: str, other: TopicPartition) -> None:
    """One run for each stop."""
    pair = starts.pair(NAMED[first], NAMED[second], other)
    calls = len(starts.calls(pair))
    _, problems = pair.run_all(range(1, calls + 1, 1 + calls // MANY))
    assert problems == []


@pytest.mark.parametrize("name", HONOURS_PAUSES)
def test_who_was_paused_before_it_had_the_lock_changes_nothing(starts: Starts, name: str) -> None:
    """A pause that is set before the partition is locked holds; so pauses are asked under the
    lock.
    """
    pair = starts.pair(NAMED[name], NAMED["pause"], T0)
    calls = starts.calls(pair)
    opened = max(number for number, call in enumerate(calls) if call == "open lock")
    locked = next(n for n, call in enumerate(calls) if n > opened and call.startswith("fcntl"))
    counts, problems = pair.run_all(range(1, locked + 2))
    assert problems == []
    assert {"A refused (Paused)": locked + 1} == counts


def test_the_judge_sees_a_plan_that_is_not_compared(
    starts: Starts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a retention would not look again under its lock, ends come that no order has."""
    monkeypatch.setattr(logwright.steps.live, "refuse_changed", lambda _log: None)
    pair = starts.pair(NAMED["retain"], NAMED["clean"], T0)
    assert pair.run_all(range(1, len(starts.calls(pair)) + 1))[1] != []


@pytest.mark.nightly
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("first", COMMANDS, ids=str)
def test_each_pair_ends_as_one_after_the_other_at_each_stop(starts: Starts, first: Command) -> None:
    """All pairs, all stops; with -s a line for each pair."""
    problems = []
    total: Counter[str] = Counter()
    for second in COMMANDS:
        for other in (T0, U0):
            pair = starts.pair(first, second, other)
            counts, wrong = pair.run_all(range(1, len(starts.calls(pair)) + 1))
            sys.stdout.write(f"{pair!s:46}{_line(counts)}; wrong: {len(wrong)}\n")
            problems += wrong
            total += counts
    sys.stdout.write(f"{first!s:46}{_line(total)}; wrong: {len(problems)}\n")
    assert problems == []


def _line(counts: Counter[str]) -> str:
    kinds = ", ".join(f"{number} {kind}" for kind, number in counts.most_common())
    return f"{counts.total():6}: {kinds}"
