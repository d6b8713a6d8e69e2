"""No crash in a roll, a retention, a deletion, a purge or an undo costs a record that the plan
keeps: judged by Kafka's loader, and by ours where it opens the state.
"""

from __future__ import annotations

import errno
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

import logwright.deletion.run
import logwright.purge.run
import logwright.steps.live
from logwright import maintain
from logwright.compaction.model import CleaningOptions
from logwright.config.topic import CleanerConfig, TopicConfig, effective
from logwright.errors import DiskFull, LogwrightError, StepFailed, UncleanLogDir
from logwright.format.names import TopicPartition
from logwright.log.load import observe
from logwright.purge.run import purge_partition
from logwright.steps.filesystem import RealFileSystem
from logwright.units import TimestampMs
from tests import fixtures
from tests.crash.filesystems import FailingFileSystem
from tests.crash.log_states import View, look, make_case, write_job
from tests.crash.power_loss import Tree, TwinFileSystem
from tests.differential.random_logs import scratch_directory

# ruff: noqa: D102  the methods of Log are the commands

pytestmark = [pytest.mark.crash, pytest.mark.oracle]

T0 = TopicPartition("t", 0)
RUNS = (logwright.steps.live, logwright.deletion.run, logwright.purge.run)
MODES = ("CLEAN", "UNCLEAN", "SCRATCH")
LATER_MS = 100_000
MOST_STATES = 40
"""Judged of one operation in every commit's run."""


@dataclass(frozen=True, slots=True)
class Log:
    """A case's log, copied, with its settings and clock."""

    case: str
    root: Path

    @property
    def described(self) -> dict[str, Any]:
        return fixtures.description(self.case)

    @property
    def now(self) -> TimestampMs:
        return TimestampMs(self.described["now"])

    def settings(self, **more: str) -> tuple[TopicConfig, CleanerConfig]:
        pairs = {one.replace("_", "."): value for one, value in more.items()}
        return effective(self.described["topicConfig"] | pairs)

    def roll(self) -> None:
        config, _ = self.settings()
        maintain.roll_partition(
            *maintain.plan_roll(self.root, T0, config, now_ms=self.now, force=True)
        )

    def retain(self, before: int | None = None, **more: str) -> None:
        config, _ = self.settings(**more)
        plan = maintain.plan_retention(
            self.root,
            T0,
            config,
            now_ms=self.now,
            high_watermark="end",
            delete_records_before=before,
        )
        assert plan.deleted
        maintain.retain(plan)

    def clean(self) -> None:
        plan = maintain.plan_clean(
            self.root,
            T0,
            self.settings(),
            now_ms=self.now,
            options=CleaningOptions(force=True, like_kafka=True),
            high_watermark="end",
        )
        maintain.commit(plan, maintain.build(plan))

    def undo(self) -> None:
        maintain.undo_partition(maintain.plan_undo(self.root, T0), now_ms=self.now)

    def purge(self) -> None:
        later = TimestampMs(self.now + LATER_MS)
        purge_partition(self.root, T0, now_ms=later, file_delete_delay_ms=LATER_MS)

    def delete(self) -> None:
        maintain.delete_log(self.root, T0, now_ms=self.now)

    def restore(self) -> None:
        maintain.restore_log(self.root, maintain.find_deleted(self.root, T0))

    def purge_deleted(self) -> None:
        later = TimestampMs(self.now + LATER_MS)
        maintain.purge_deleted(self.root, now_ms=later, delay_ms=LATER_MS)


def nothing(log: Log) -> None:
    """The operation begins with the log as Kafka wrote it."""
    del log


@dataclass(frozen=True, slots=True)
class Scenario:
    """One operation on one log.

    Attributes:
        before: what is done first, uninterrupted.
        act: what is interrupted.
        kind: how the states between are judged: `suffix`: the log begins later and later, or
            earlier and earlier; `either`: old or new; `groups`: group by group old or new;
            `deleted`: there or deleted.
    """

    name: str
    case: str
    before: Callable[[Log], None]
    act: Callable[[Log], None]
    kind: str

    def __str__(self) -> str:
        return self.name


def txn_retain(log: Log) -> None:
    """Two segments with transactions go."""
    bases = fixtures.description(log.case)["loaded"]["segments"]
    log.retain(bases[2], cleanup_policy="delete", retention_ms="-1")


def into_a_segment(log: Log) -> None:
    """Segments go, and the log begins inside one."""
    bases = fixtures.description(log.case)["loaded"]["segments"]
    log.retain(bases[2] + 1, cleanup_policy="delete", retention_ms="-1")


SCENARIOS = (
    Scenario("roll", "basic-none", nothing, Log.roll, "either"),
    Scenario("roll-txn", "txn-ongoing", nothing, Log.roll, "either"),
    Scenario("retain-prefix", "delete-size", nothing, Log.retain, "suffix"),
    Scenario("retain-txn", "txn-1-mixed", nothing, txn_retain, "suffix"),
    Scenario("retain-inside", "txn-1-mixed", nothing, into_a_segment, "suffix"),
    Scenario("retain-all", "delete-time-all", nothing, Log.retain, "suffix"),
    Scenario("purge", "delete-size", Log.retain, Log.purge, "either"),
    Scenario("purge-swap", "recleaned-2", Log.clean, Log.purge, "either"),
    Scenario("undo-retain", "delete-size", Log.retain, Log.undo, "suffix"),
    Scenario("undo-retain-txn", "txn-1-mixed", txn_retain, Log.undo, "suffix"),
    Scenario("undo-inside", "txn-1-mixed", into_a_segment, Log.undo, "suffix"),
    Scenario("undo-all", "delete-time-all", Log.retain, Log.undo, "suffix"),
    Scenario("undo-merge", "recleaned-2", Log.clean, Log.undo, "groups"),
    Scenario("undo-tails", "emptied-2", Log.clean, Log.undo, "groups"),
    Scenario("undo-swap-txn", "txn-2-second", Log.clean, Log.undo, "groups"),
    Scenario("delete", "delete-records", nothing, Log.delete, "deleted"),
    Scenario("restore", "delete-records", Log.delete, Log.restore, "deleted"),
    Scenario("purge-deleted", "delete-records", Log.delete, Log.purge_deleted, "deleted"),
)


class Opened:
    """Stands for RealFileSystem where the runs open it: one twin for a whole operation."""

    def __init__(self, make: Callable[[RealFileSystem], Any]) -> None:
        self.make = make
        self.made: Any = None

    def __call__(self, root: Path) -> Self:
        self.real = RealFileSystem(root)
        return self

    def __enter__(self) -> Any:  # noqa: ANN401  whatever wraps a file system
        if self.made is None:
            self.made = self.make(self.real)
        return self.made

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """The real one stays open: an operation may open it more than once."""


def interposed(make: Callable[[RealFileSystem], Any], act: Callable[[], None]) -> Any:  # noqa: ANN401
    """What `make` made of the file system in which `act` was done."""
    opened = Opened(make)
    with pytest.MonkeyPatch.context() as patch:
        for module in RUNS:
            patch.setattr(module, "RealFileSystem", opened)
        act()
    return opened.made


@pytest.fixture
def scratch() -> Iterator[Path]:
    """An empty directory in memory: thousands of small trees are written."""
    with scratch_directory() as directory:
        yield directory


def prepared(scenario: Scenario, directory: Path) -> Log:
    log = Log(scenario.case, fixtures.copy_before(scenario.case, directory))
    scenario.before(log)
    return log


@dataclass(slots=True)
class Tried:
    """An operation, every state that it may be interrupted in, and what Kafka sees there."""

    states: list[tuple[str, Tree]]
    views: list[View]


def look_at_all(base: Path, most: int) -> tuple[dict[str, Tried], int]:
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
        found = some(list(twin.states.values()), most)
        states[scenario.name] = found
        write_job(base / "jobs" / scenario.name, case, found)
        tried_states += twin.tried
    views = look([base / "jobs" / scenario.name for scenario in SCENARIOS])
    found_views = {name: Tried(states=found, views=views[name]) for name, found in states.items()}
    return found_views, tried_states


def some(states: list[tuple[str, Tree]], most: int) -> list[tuple[str, Tree]]:
    """The first, the last, and others evenly."""
    if len(states) <= most:
        return states
    return [states[round(at * (len(states) - 1) / (most - 1))] for at in range(most)]


@pytest.fixture(scope="module")
def tried() -> Iterator[dict[str, Tried]]:
    """A bounded share of the states."""
    with scratch_directory() as base:
        yield look_at_all(base, MOST_STATES)[0]


@pytest.mark.nightly
@pytest.mark.timeout(3600, method="thread")
def test_every_state_of_every_operation(scratch: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same by night for all states, with the figures."""
    tried, states = look_at_all(scratch, 1_000_000)
    judged = sum(len(one.states) for one in tried.values())
    found = [one for scenario in SCENARIOS for one in bad(scenario, tried[scenario.name])]
    with capsys.disabled():
        sys.stdout.write(f"\n{states} states, {judged} that differ, {len(found)} bad\n")
    assert found == []


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_every_state_is_one_that_kafka_reads_well(
    scenario: Scenario, tried: dict[str, Tried]
) -> None:
    """Whatever a dying process or a power loss leaves."""
    assert bad(scenario, tried[scenario.name]) == []


def bad(scenario: Scenario, one: Tried) -> list[str]:
    """What is wrong, with the state and the mode."""
    assert len(one.views) == len(MODES) * len(one.states)
    found = []
    for mode in MODES:
        views = [view for view in one.views if view.mode == mode]
        for view in views:
            problems = [*view.problems, *judge(scenario.kind, view, views[0], views[-1])]
            found += [f"{scenario} {view.state} ({mode}): {problem}" for problem in problems]
    return found


def judge(kind: str, view: View, old: View, new: View) -> list[str]:
    """What is wrong with a state between these two."""
    if kind == "deleted" and view.deleted:
        return [] if new.deleted or old.deleted else ["it is not there"]
    whole = new if old.deleted else old
    if kind in ("either", "deleted"):
        ends = [one for one in (old, new) if not one.deleted]
        return [] if any(same(view, one) for one in ends) else ["neither old nor new"]
    found = [] if view.end == whole.end else ["another log end"]
    union = {**old.records, **new.records}
    if kind == "suffix":
        wanted = {offset: one for offset, one in union.items() if offset >= view.start}
        found += [] if view.records == wanted else ["records are missing or more"]
        bounds = sorted([old.start, new.start])
        found += [] if bounds[0] <= view.start <= bounds[1] else ["another log start"]
        committed = {*old.committed, *new.committed}
        wanted_committed = sorted(offset for offset in committed if offset >= view.start)
        found += [] if list(view.committed) == wanted_committed else ["committed records"]
        epochs = possible_epochs(old, new, view.start)
        found += [] if view.epochs in epochs else ["leader epochs"]
    else:
        found += [] if view.start == old.start else ["another log start"]
        found += [] if view.epochs == old.epochs else ["leader epochs"]
        found += groups(view, old, new)
    if view.producers not in (old.producers, new.producers):
        found.append("producers")
    return found


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


def groups(view: View, old: View, new: View) -> list[str]:
    """Group by group the records are those of `old` up to some group, then those of `new`."""
    differing = sorted(
        offset
        for offset in old.records.keys() | new.records.keys()
        if old.records.get(offset) != new.records.get(offset)
    )
    is_new = [view.records.get(offset) == new.records.get(offset) for offset in differing]
    same_elsewhere = all(
        view.records.get(offset) == one
        for offset, one in old.records.items()
        if new.records.get(offset) == one
    )
    foreign = view.records.keys() - old.records.keys() - new.records.keys()
    found = [] if same_elsewhere and not foreign else ["records are missing or more"]
    return found + ([] if is_new == sorted(is_new) else ["a later group is undone, not this one"])


@pytest.mark.parametrize("scenario", [one for one in SCENARIOS if one.kind != "deleted"], ids=str)
def test_our_loader_reads_the_same_or_refuses(
    scenario: Scenario, tried: dict[str, Tried], scratch: Path
) -> None:
    """Where `observe` or a purge and `observe` open a state, its ends are those Kafka sees."""
    one = tried[scenario.name]
    clean = {view.state: view for view in one.views if view.mode == "CLEAN"}
    opened = 0
    for number, (label, tree) in enumerate(one.states):
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


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EROFS, errno.EACCES])
@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_call_that_fails_is_named_and_can_be_repeated(
    scenario: Scenario, code: int, scratch: Path
) -> None:
    """Every changing call fails once: a clear error; what was left is one of the states above."""
    log = prepared(scenario, scratch / "whole")
    counter = interposed(
        lambda real: FailingFileSystem(real, fail_at=0, code=code), lambda: scenario.act(log)
    )
    chosen = range(1, counter.calls + 1, 1 if code == errno.EIO else 5)
    made = prepared(scenario, scratch / "made")
    for number in chosen:
        root = scratch / str(number)
        shutil.copytree(made.root, root, copy_function=shutil.copy2)
        relink(made.root, root)
        again = Log(scenario.case, root)
        with pytest.raises(LogwrightError) as caught:
            interposed(
                lambda real, number=number: FailingFileSystem(real, fail_at=number, code=code),  # type: ignore[misc]
                lambda again=again: scenario.act(again),  # type: ignore[misc]
            )
        assert type(caught.value) is (DiskFull if code == errno.ENOSPC else StepFailed)
        assert errno.errorcode[code] in str(caught.value)
        shutil.rmtree(root)


def relink(source: Path, target: Path) -> None:
    """Hard links are hard links in the copy."""
    first: dict[int, Path] = {}
    for path in sorted(source.rglob("*")):
        if not path.is_file():
            continue
        copied = target / path.relative_to(source)
        known = first.setdefault(path.stat().st_ino, copied)
        if known != copied:
            copied.unlink()
            copied.hardlink_to(known)


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
