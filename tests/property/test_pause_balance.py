"""Pauses balance, however moves, operators, failures, kills and time come after one another."""

# ruff: noqa: D102  the names of the rules say it

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from logwright.errors import LogwrightError, Paused
from logwright.move.commit import abandon_move, move_partition
from logwright.state.model import NOTHING, Pause
from logwright.state.store import change_state, read_state
from logwright.units import TimestampMs
from tests.crash.filesystems import Crash, FailingFileSystem
from tests.crash.moves import NOW_MS, T0, DyingFileSystem, Pair, Unsynced, make_pair

OWNERS = st.sampled_from(["ops", "backup"])
CALLS = st.integers(1, 120)
HOUR_MS = 3_600_000


class Pauses(RuleBasedStateMachine):
    """One partition between two log directories; the model is who paused it until when.

    Attributes:
        wanted: expiry of each operator's pause, None for none.
        here: index of the log directory that has the partition, as far as the model knows.
    """

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp())
        self.pair: Pair = make_pair(self.root / "pair")
        self.dirs = [self.pair.source, self.pair.destination]
        self.here = 0
        self.now = int(NOW_MS)
        self.wanted: dict[str, int | None] = {}

    def teardown(self) -> None:
        """Whatever happened: once the operators let go and the move ends, nothing is left."""
        try:
            change_state(self.dirs[self.here], T0, lambda now: now.without_pauses("ops"))
            change_state(self.dirs[self.here], T0, lambda now: now.without_pauses("backup"))
            self.move_with(Unsynced)
            assert {} == read_state(self.dirs[0])
            assert {} == read_state(self.dirs[1])
        finally:
            shutil.rmtree(self.root)

    def move_with(self, wrap: Any) -> None:  # noqa: ANN401  any file system
        move_partition(
            self.dirs[self.here],
            T0,
            self.dirs[1 - self.here],
            now_ms=TimestampMs(self.now),
            progress=lambda _what, _done, _total: None,
            wrap=wrap,
        )
        self.here = 1 - self.here
        self.wanted.clear()

    def held(self) -> bool:
        return any(until is None or self.now < until for until in self.wanted.values())

    @rule(owner=OWNERS, hours=st.none() | st.integers(0, 3))
    def pause(self, owner: str, hours: int | None) -> None:
        until = None if hours is None else self.now + hours * HOUR_MS
        wanted = Pause(
            owner=owner,
            reason="because",
            since_ms=TimestampMs(self.now),
            expires_at_ms=None if until is None else TimestampMs(until),
        )
        change_state(self.dirs[self.here], T0, lambda now: now.with_pause(wanted))
        self.wanted[owner] = until

    @rule(owner=OWNERS)
    def resume(self, owner: str) -> None:
        change_state(self.dirs[self.here], T0, lambda now: now.without_pauses(owner))
        self.wanted.pop(owner, None)

    @rule(hours=st.integers(1, 4))
    def wait(self, hours: int) -> None:
        self.now += hours * HOUR_MS

    @rule()
    def move(self) -> None:
        if self.held():
            try:
                self.move_with(Unsynced)
            except Paused:
                return
            raise AssertionError("a paused partition was moved")
        self.move_with(Unsynced)

    @rule(call=CALLS)
    def move_fails(self, call: int) -> None:
        if self.held():
            return
        try:
            self.move_with(lambda disk: FailingFileSystem(Unsynced(disk), fail_at=call, code=5))
        except LogwrightError:
            assert [] == self.moves_pauses()

    @rule(call=CALLS)
    def move_is_killed(self, call: int) -> None:
        if self.held():
            return
        try:
            self.move_with(lambda disk: DyingFileSystem(Unsynced(disk), crash_at=call))
        except Crash:
            expiries = [one.expires_at_ms for one in self.moves_pauses()]
            assert expiries in ([], [self.now + HOUR_MS])

    @rule()
    def abandon(self) -> None:
        try:
            abandon_move(self.dirs[self.here], T0, now_ms=TimestampMs(self.now), wrap=Unsynced)
        except LogwrightError:
            return
        assert [] == self.moves_pauses()
        assert (self.dirs[self.here] / str(T0)).is_dir()

    def moves_pauses(self) -> list[Pause]:
        state = read_state(self.dirs[self.here]).get(T0, NOTHING)
        return [one for one in state.pauses if one.owner.startswith("move:")]

    @invariant()
    def pauses_are_the_operators_and_at_most_one_of_a_move(self) -> None:
        state = read_state(self.dirs[self.here]).get(T0, NOTHING)
        paused = {
            pause.owner: pause.expires_at_ms
            for pause in state.pauses
            if not pause.owner.startswith("move:")
        }
        assert paused == self.wanted or (state == NOTHING and not self.held())
        assert len(self.moves_pauses()) <= 1
        assert len([one for one in self.dirs if (one / str(T0)).is_dir()]) <= 1


TestPauses = Pauses.TestCase
TestPauses.settings = settings(max_examples=12, stateful_step_count=15, deadline=None)


def test_an_expired_pause_stays_behind(tmp_path: Path) -> None:
    """A pause that is over by the time of the move is not written to the other directory."""
    pair = make_pair(tmp_path / "pair")
    over = Pause(owner="ops", reason="over", since_ms=NOW_MS, expires_at_ms=NOW_MS)
    change_state(pair.source, T0, lambda now: now.with_pause(over))
    pair.move()
    assert {} == read_state(pair.source)
    assert {} == read_state(pair.destination)
