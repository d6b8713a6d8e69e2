"""No crash in a roll, a retention, a deletion, a purge, an undo or an erasure costs a record that
the plan keeps: judged by Kafka's loader, and by ours where it opens the state.
"""

from __future__ import annotations

import errno
import random
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from logwright.errors import (
    DiskFull,
    LogwrightError,
    StepFailed,
    UncleanLogDir,
)
from logwright.log.load import observe
from logwright.purge.commit import purge_partition
from logwright.steps.filesystem import RealFileSystem
from logwright.units import TimestampMs
from tests import fixtures
from tests.crash.filesystems import Crash, CrashingFileSystem, FailingFileSystem, every_file
from tests.crash.log_states import View, look, make_case, write_job
from tests.crash.operations import (
    SCENARIOS,
    T0,
    Log,
    Scenario,
    again_in,
    interposed,
    outcome,
    prepared,
    repeat,
)
from tests.crash.power_loss import Tree, TwinFileSystem
from tests.differential.random_logs import scratch_directory

pytestmark = [pytest.mark.crash, pytest.mark.oracle]

MODES = ("CLEAN", "UNCLEAN", "SCRATCH")
MOST_STATES = 8
"""Judged of one operation by day."""

MOST_CALLS = 24
"""Of one operation that are made to fail, or not made any more, by day."""

CODES = (errno.EIO, errno.ENOSPC, errno.EROFS, errno.EACCES)


@pytest.fixture
def scratch() -> Iterator[Path]:
    """An empty directory in memory: thousands of small trees are written."""
    with scratch_directory() as directory:
        yield directory


@dataclass(slots=True)
class Tried:
    """An operation, every state that it may be interrupted in, and what Kafka sees there."""

    states: list[tuple[str, Tree]]
    views: list[View]


def look_at_all(base: Path, most: int, draw: random.Random) -> tuple[dict[str, Tried], int]:
    """All scenarios, looked at by one JVM, and how many states were tried."""
    tried_states = 0
    states: dict[str, list[tuple[str, Tree]]] = {}
    for scenario in SCENARIOS:
        log = prepared(scenario, base / "logs" / scenario.name)
        plain = fixtures.case_dir(scenario.case) / "before"
        case = make_case(base / "cases" / scenario.name, log.described, plain)
        twin = interposed(
            lambda real, log=log: TwinFileSystem(real, log.root),  # type: ignore[misc]
            lambda scenario=scenario, log=log: scenario.act(log),  # type: ignore[misc]
        )
        twin.finish()
        assert twin.calls > 1
        chosen = some(list(twin.states.values()), most, draw)
        states[scenario.name] = chosen
        write_job(base / "jobs" / scenario.name, case, chosen)
        tried_states += twin.tried
    views = look([base / "jobs" / scenario.name for scenario in SCENARIOS])
    found_views = {name: Tried(states=found, views=views[name]) for name, found in states.items()}
    return found_views, tried_states


def some(states: list[tuple[str, Tree]], most: int, draw: random.Random) -> list[tuple[str, Tree]]:
    """The first, the last, and others by chance, in their order."""
    if len(states) <= most:
        return states
    between = sorted(draw.sample(range(1, len(states) - 1), most - 2))
    return [states[0], *(states[at] for at in between), states[-1]]


@pytest.fixture(scope="module")
def tried(seed: int) -> Iterator[dict[str, Tried]]:
    """A bounded share of the states."""
    with scratch_directory() as base:
        yield look_at_all(base, MOST_STATES, random.Random(f"{seed} states"))[0]


@pytest.mark.nightly
@pytest.mark.timeout(3600, method="thread")
def test_every_state_of_every_operation(scratch: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same by night for all states, with the figures."""
    tried, states = look_at_all(scratch, 1_000_000, random.Random(0))
    judged = sum(len(one.states) for one in tried.values())
    problems = [one for scenario in SCENARIOS for one in bad(scenario, tried[scenario.name])]
    with capsys.disabled():
        sys.stdout.write(f"\n{states} states, {judged} that differ, {len(problems)} bad\n")
    assert problems == []


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_every_state_is_one_that_kafka_reads_well(
    scenario: Scenario, tried: dict[str, Tried]
) -> None:
    """Whatever a dying process or a power loss leaves."""
    assert bad(scenario, tried[scenario.name]) == []


def bad(scenario: Scenario, attempt: Tried) -> list[str]:
    """What is wrong, with the state and the mode."""
    assert len(attempt.views) == len(MODES) * len(attempt.states)
    problems_of = []
    for mode in MODES:
        views = [view for view in attempt.views if view.mode == mode]
        for view in views:
            problems = [*view.problems, *judge(scenario.kind, view, views[0], views[-1])]
            problems_of += [f"{scenario} {view.state} ({mode}): {problem}" for problem in problems]
    return problems_of


def judge(kind: str, view: View, old: View, new: View) -> list[str]:
    """What is wrong with a state between these two."""
    if kind == "deleted" and view.deleted:
        return [] if new.deleted or old.deleted else ["it is not there"]
    whole = new if old.deleted else old
    if kind in ("either", "deleted"):
        ends = [one for one in (old, new) if not one.deleted]
        return [] if any(same(view, one) for one in ends) else ["neither old nor new"]
    problems = [] if view.end == whole.end else ["another log end"]
    union = {**old.records, **new.records}
    if kind == "suffix":
        wanted = {offset: one for offset, one in union.items() if offset >= view.start}
        problems += [] if view.records == wanted else ["records are missing or more"]
        bounds = sorted([old.start, new.start])
        problems += [] if bounds[0] <= view.start <= bounds[1] else ["another log start"]
        committed = {*old.committed, *new.committed}
        wanted_committed = sorted(offset for offset in committed if offset >= view.start)
        problems += [] if list(view.committed) == wanted_committed else ["committed records"]
        epochs = possible_epochs(old, new, view.start)
        problems += [] if view.epochs in epochs else ["leader epochs"]
    else:
        problems += [] if view.start == old.start else ["another log start"]
        problems += [] if view.epochs == old.epochs else ["leader epochs"]
        problems += groups(view, old, new, first_first=kind == "segments")
    if view.producers not in (old.producers, new.producers):
        problems.append("producers")
    return problems


def same(view: View, other: View) -> bool:
    """All but the label."""
    return (view.records, view.committed, view.start, view.end, view.producers, view.epochs) == (
        other.records,
        other.committed,
        other.start,
        other.end,
        other.producers,
        other.epochs,
    )


def possible_epochs(old: View, new: View, start: int) -> list[tuple[tuple[int, int], ...]]:
    """The longer history, cut at the start or not yet: an epoch may begin below the log, and is
    cut with the next retention. One that begins at the log's end is dropped at load.
    """
    whole = min(old, new, key=lambda one: one.start).epochs
    passed = [epoch for epoch in whole if epoch[1] <= start]
    later = tuple(epoch for epoch in whole if epoch[1] > start)
    cut = ((passed[-1][0], start), *later) if passed else later
    return [whole, cut, tuple(epoch for epoch in cut if epoch[1] < old.end)]


def groups(view: View, old: View, new: View, *, first_first: bool) -> list[str]:
    """Group by group the records are those of `old` up to some group, then those of `new`; the
    other way round with `first_first`.
    """
    differing = sorted(
        offset
        for offset in old.records.keys() | new.records.keys()
        if old.records.get(offset) != new.records.get(offset)
    )
    is_new = [view.records.get(offset) == new.records.get(offset) for offset in differing]
    same_elsewhere = all(
        view.records.get(offset) == records
        for offset, records in old.records.items()
        if new.records.get(offset) == records
    )
    foreign = view.records.keys() - old.records.keys() - new.records.keys()
    problems = [] if same_elsewhere and not foreign else ["records are missing or more"]
    in_order = is_new == sorted(is_new, reverse=first_first)
    return problems + ([] if in_order else ["a group is new out of its turn"])


@pytest.mark.parametrize("scenario", [one for one in SCENARIOS if one.kind != "deleted"], ids=str)
def test_our_loader_reads_the_same_or_refuses(
    scenario: Scenario, tried: dict[str, Tried], scratch: Path
) -> None:
    """Where `observe` or a purge and `observe` open a state, its ends are those Kafka sees."""
    attempt = tried[scenario.name]
    clean = {view.state: view for view in attempt.views if view.mode == "CLEAN"}
    opened = 0
    for number, (label, tree) in enumerate(attempt.states):
        root = scratch / str(number)
        for name, content in tree.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(content)
        try:
            seen = observe(root, T0, high_watermark="end")
        except UncleanLogDir as error:
            if "purge" not in str(error):
                continue
            purge_partition(root, T0, now_ms=TimestampMs(0), file_delete_delay_ms=0)
            seen = observe(root, T0, high_watermark="end")
        opened += 1
        assert (seen.log_start_offset, seen.log_end_offset) == (
            clean[label].start,
            clean[label].end,
        ), label
        shutil.rmtree(root)
    assert opened >= 1


@pytest.mark.rotates(4)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
@pytest.mark.parametrize("code", CODES)
def test_call_that_fails_is_named(scenario: Scenario, code: int, scratch: Path) -> None:
    """A changing call fails: a clear error; what is left is one of the states above. EIO at every
    call, but of the longest operations at evenly chosen ones.
    """
    fail_calls(scenario, code, scratch, most=MOST_CALLS if code == errno.EIO else 3)


@pytest.mark.nightly
@pytest.mark.timeout(3600, method="thread")
def test_every_call_that_fails_is_named(scratch: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same by night for every call and error."""
    failed = sum(
        fail_calls(scenario, code, scratch / f"{scenario}-{code}", most=1_000_000)
        for scenario in SCENARIOS
        for code in CODES
    )
    with capsys.disabled():
        sys.stdout.write(f"\n{failed} calls failed\n")


def fail_calls(scenario: Scenario, code: int, scratch: Path, *, most: int) -> int:
    """Let the calls of an operation fail one by one; how many were. What is left is what a process
    that dies there leaves: one of the states above.
    """
    made = prepared(scenario, scratch / "made")
    chosen = chosen_calls(scenario, made, scratch, most)
    for number in chosen:
        log = again_in(made, scratch / str(number))
        fails = partial(FailingFileSystem, fail_at=number, code=code, root=log.root)
        error, failed = failure(scenario, log, fails)
        assert failed.calls >= number
        if error is None:
            assert goes_on_without_room(scenario, code), number
            assert log_files(log.root) == log_files(scratch / "whole")
        else:
            assert type(error) is (DiskFull if code == errno.ENOSPC else StepFailed)
            assert errno.errorcode[code] in str(error)
            assert failed.found == every_file(log.root), number
        shutil.rmtree(log.root)
    shutil.rmtree(scratch / "whole")
    return len(chosen)


def failure(
    scenario: Scenario, log: Log, fails: Callable[[RealFileSystem], FailingFileSystem]
) -> tuple[LogwrightError | None, FailingFileSystem]:
    """What an operation raises one of whose calls fails, and the file system of that."""
    made: list[FailingFileSystem] = []

    def make(real: RealFileSystem) -> FailingFileSystem:
        made.append(fails(real))
        return made[-1]

    try:
        interposed(make, lambda: scenario.act(log))
    except LogwrightError as error:
        return error, made[0]
    return None, made[0]


def goes_on_without_room(scenario: Scenario, code: int) -> bool:
    """A retention, a purge and the purge of an erasure do: what they free is what is needed."""
    return code == errno.ENOSPC and scenario.name.startswith(("retain", "purge", "erase"))


def log_files(root: Path) -> set[Path]:
    """The segments' files that a broker reads."""
    suffixes = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
    return {path.relative_to(root) for path in root.rglob("*") if path.name.endswith(suffixes)}


def chosen_calls(scenario: Scenario, made: Log, scratch: Path, most: int) -> range:
    """Numbers of the calls that an operation makes, all or evenly chosen ones."""
    whole = again_in(made, scratch / "whole")
    counter = interposed(
        lambda real: FailingFileSystem(real, fail_at=0, code=0), lambda: scenario.act(whole)
    )
    return range(1, counter.calls + 1, 1 + counter.calls // most)


@pytest.mark.rotates(4)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_interrupted_operation_is_finished_by_repeating_it(
    scenario: Scenario, scratch: Path
) -> None:
    """After a purge of leftovers where that is asked for; a swap that was committed and not
    finished is for a recovery.
    """
    made = prepared(scenario, scratch / "made")
    chosen = chosen_calls(scenario, made, scratch, MOST_CALLS)
    expected, unfinished = outcome(scratch / "whole"), 0
    for number in chosen:
        log = again_in(made, scratch / str(number))
        with pytest.raises(Crash):
            interposed(
                lambda real, number=number: CrashingFileSystem(real, crash_at=number),  # type: ignore[misc]
                lambda log=log: scenario.act(log),  # type: ignore[misc]
            )
        if repeat(scenario, log):
            assert expected == outcome(log.root), number
        else:
            unfinished += 1
        shutil.rmtree(log.root)
    assert unfinished == 0 or scenario.kind in ("groups", "segments")
    assert unfinished < len(chosen)


def test_the_twin_sees_a_missing_sync(scratch: Path) -> None:
    """Without the syncs between two logs, a later one may be gone while an earlier is there."""
    scenario = SCENARIOS[2]
    log = prepared(scenario, scratch)

    class Forgetful(TwinFileSystem):
        def twin_fsync_dir(self, path: Path) -> None:
            if path.name != "t-0":
                super().twin_fsync_dir(path)

    twin = interposed(lambda real: Forgetful(real, log.root), lambda: scenario.act(log))
    holes = [
        tree
        for _, tree in twin.states.values()
        if f"t-0/{0:020d}.log" in tree and f"t-0/{34:020d}.log" not in tree
    ]
    assert holes
