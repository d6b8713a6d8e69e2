"""No crash in a recovery loses more than the recovery itself gives up, for a broker or for us."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark import ParameterSet

from logwright.config.topic import parse_settings
from logwright.errors import DiskFull, LogwrightError, StepFailed
from logwright.format.names import TopicPartition
from logwright.recovery import commit as run
from logwright.recovery.directory_plan import plan_directory
from logwright.recovery.model import RecoveryOptions
from logwright.recovery.steps import recovery_steps
from logwright.steps.filesystem import RealFileSystem
from logwright.steps.interpreter import execute
from logwright.sweep.recover import recover_directory
from logwright.units import TimestampMs
from tests import fixtures
from tests.comparison import live_files
from tests.crash.filesystems import (
    Crash,
    CrashingFileSystem,
    FailingFileSystem,
    InterceptedFileSystem,
    PowerLossModel,
    RecordingFileSystem,
    every_file,
    plain_files,
    with_paths,
)
from tests.crash.layouts import (
    TAILS,
    TXNINDEX_STAYS,
    Files,
    Layout,
)
from tests.crash.loader import bad, judge
from tests.differential.oracle_server import OracleServer
from tests.differential.random_logs import scratch_directory
from tests.overflowing import NOW_MS, overflowing_log

pytestmark = [pytest.mark.crash, pytest.mark.oracle]

PARTITION = TopicPartition("t", 0)
CASES = ("torn-tail", "bad-crc-sealed", "crash-swap", "crash-swap-some-deleted", "missing-index")
SPLITS = {"overflow": (0, 0), "overflow-behind-base": (0, 7)}
"""Base offset of the segment that is split, offset of its first batch."""
MODES = (RecoveryOptions(like_kafka=True), RecoveryOptions(accept_loss=True))
CODES = (errno.EIO, errno.ENOSPC, errno.EROFS, errno.EACCES)
MOST_STATES = 1_500
"""Of one recovery's power losses; the smallest subsets come first in each phase."""


@pytest.fixture(scope="module")
def server() -> Iterator[OracleServer]:
    """Kafka's loader, in one JVM."""
    with OracleServer() as running:
        yield running


@pytest.fixture
def scratch() -> Iterator[Path]:
    """An empty directory, in memory where that can be had."""
    with scratch_directory() as directory:
        yield directory


@dataclass(frozen=True, kw_only=True)
class Damaged:
    """A log that has to be recovered.

    Attributes:
        name: of the case.
        origin: its log directory.
    """

    name: str
    origin: Path
    options: RecoveryOptions

    @property
    def now_ms(self) -> TimestampMs:
        """The case's clock."""
        return TimestampMs(self.facts["now"])

    @property
    def facts(self) -> dict[str, Any]:
        """What case.json says, or would say."""
        if self.name in SPLITS:
            return {"now": NOW_MS, "producerIdExpirationMs": 86_400_000}
        return fixtures.description(self.name)

    def copy(self, target: Path) -> Path:
        """A copy to work on."""
        shutil.copytree(self.origin, target, copy_function=shutil.copy2)
        return target

    def settings(self) -> dict[str, str]:
        """The topic's."""
        if self.name in SPLITS:
            return {}
        return dict(fixtures.partition_of(self.name).config)

    def recover(self, log_dir: Path) -> None:
        """Recover it; then it counts as cleanly stopped."""
        config, _ = parse_settings(self.settings())
        result = recover_directory(
            log_dir, [PARTITION], lambda _: config, now_ms=self.now_ms, options=self.options
        )
        assert {} == result.failures
        assert result.clean

    def failure(self, log_dir: Path) -> LogwrightError | None:
        """What a recovery raises or says of the partition; without one it counts as clean."""
        config, _ = parse_settings(self.settings())
        try:
            result = recover_directory(
                log_dir, [PARTITION], lambda _: config, now_ms=self.now_ms, options=self.options
            )
        except LogwrightError as error:
            return error
        assert result.clean == (not result.failures)
        return result.failures.get(PARTITION)

    def by_kafka(self, log_dir: Path, server: OracleServer) -> dict[str, bytes]:
        """The logs that Kafka's loader makes of a copy of a directory."""
        request = {
            "request": "recover",
            "logDir": str(log_dir),
            "topicPartition": str(PARTITION),
            "config": self.settings(),
            "now": self.now_ms,
            "producerIdExpirationMs": self.facts["producerIdExpirationMs"],
        }
        answer = server.ask(request)
        assert "loadFailed" not in answer, answer
        return logs(log_dir)


def logs(log_dir: Path) -> dict[str, bytes]:
    """Return those that are not empty: an interrupted split may leave an empty one in front."""
    files = live_files(log_dir / str(PARTITION))
    return {
        name: content
        for name, path in files.items()
        if name.endswith(".log") and (content := path.read_bytes())
    }


def contents(log_dir: Path) -> dict[str, bytes]:
    """All that a broker would use, but for the text of the marker, empty segments in front with the
    snapshot after them, and empty transaction indexes.
    """
    full = min(logs(log_dir))[:20]
    contents_of = {
        name: content
        for name, path in live_files(log_dir / str(PARTITION)).items()
        if not name[:20].isdigit() or name[:20] >= full
        if name != f"{full}.snapshot"
        if (content := path.read_bytes()) or not name.endswith(".txnindex")
    }
    return contents_of | {
        path.name: path.read_bytes() for path in log_dir.glob("*-checkpoint") if path.is_file()
    }


def _pairs() -> Iterator[ParameterSet]:
    """Each case in each mode; the long ones in one mode only, but for the night."""
    for case in (*CASES, *SPLITS):
        for options in MODES:
            mode = "like Kafka" if options.like_kafka else "keeping"
            at_night = case in SPLITS and options.like_kafka == (case == "overflow")
            marks = [pytest.mark.nightly] if at_night else []
            yield pytest.param((case, options), id=f"{case}, {mode}", marks=marks)


@pytest.fixture(params=_pairs())
def damaged(request: pytest.FixtureRequest, tmp_path: Path) -> Damaged:
    case, options = request.param
    if case in SPLITS:
        base, first = SPLITS[case]
        origin = overflowing_log(tmp_path / "origin", base=base, first=first).log_dir
        (origin / ".kafka_cleanshutdown").unlink()
        return Damaged(name=case, origin=origin, options=options)
    return Damaged(name=case, origin=fixtures.case_dir(case) / "before", options=options)


@pytest.mark.rotates(4)
def test_process_that_dies_at_any_step_leaves_what_can_be_recovered(
    damaged: Damaged, scratch: Path, server: OracleServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a death before each call, our recovery comes to the same end as if it had not died, and
    so does Kafka's loading, as far as the logs go.
    """
    whole = damaged.copy(scratch / "whole")
    damaged.recover(whole)
    wanted = contents(whole)
    wanted_logs = damaged.by_kafka(damaged.copy(scratch / "kafka"), server)
    assert wanted_logs == logs(whole)
    states = 0
    for number in count(1):
        log_dir = damaged.copy(scratch / "crashed")

        def crashing(root: Path, number: int = number) -> CrashingRoot:
            return CrashingRoot(root, number)

        with monkeypatch.context() as patch:
            patch.setattr(run, "RealFileSystem", crashing)
            try:
                damaged.recover(log_dir)
            except Crash:
                died = True
            else:
                died = False
        again = scratch / "again"
        shutil.copytree(log_dir, again, copy_function=shutil.copy2)
        damaged.recover(again)
        assert wanted == contents(again), f"after a death before call {number}"
        assert wanted_logs == damaged.by_kafka(log_dir, server), f"before call {number}"
        shutil.rmtree(log_dir)
        shutil.rmtree(again)
        if not died:
            break
        states += 1
    assert states > 5


class CrashingRoot:
    """The real file system of a root, which dies before a call."""

    def __init__(self, root: Path, crash_at: int) -> None:
        self.real = RealFileSystem(root)
        self.made: InterceptedFileSystem = CrashingFileSystem(self.real, crash_at=crash_at)

    def __enter__(self) -> InterceptedFileSystem:
        return self.made

    def __exit__(self, *_: object) -> None:
        self.real.close()


class FailingRoot(CrashingRoot):
    """The same, in which a call fails."""

    def __init__(self, root: Path, fail_at: int, code: int) -> None:
        super().__init__(root, 0)
        self.made = FailingFileSystem(self.real, fail_at=fail_at, code=code, root=root)


@pytest.mark.rotates(4)
def test_call_that_fails_is_named_and_leaves_what_a_death_leaves(
    damaged: Damaged, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every call once, the errors in turn: the directory is as after a death before that call, it
    is not taken for clean, and a recovery comes to the same end.
    """
    whole = damaged.copy(scratch / "whole")
    damaged.recover(whole)
    for number in count(1):
        code = CODES[number % len(CODES)]
        log_dir = damaged.copy(scratch / "failed")
        root = FailingRoot(log_dir, number, code)
        with monkeypatch.context() as patch:
            patch.setattr(run, "RealFileSystem", lambda _, root=root: root)
            error = damaged.failure(log_dir)
        if error is None:
            assert root.made.calls < number
            break
        assert type(error) is (DiskFull if code == errno.ENOSPC else StepFailed)
        assert errno.errorcode[code] in str(error)
        assert isinstance(root.made, FailingFileSystem)
        assert root.made.found == every_file(log_dir), number
        damaged.recover(log_dir)
        assert contents(whole) == contents(log_dir), number
        shutil.rmtree(log_dir)
    assert number > 5


@pytest.mark.rotates(4)
def test_power_loss_at_any_step_leaves_what_can_be_recovered(
    damaged: Damaged, scratch: Path, server: OracleServer
) -> None:
    """Any subset of what is not synced may be on the disk: our recovery and Kafka's loading come to
    the same logs as from the damaged directory itself.
    """
    wanted = damaged.by_kafka(damaged.copy(scratch / "kafka"), server)
    seen: set[frozenset[tuple[str, bytes]]] = set()
    for number, files in enumerate(after_power_loss(damaged, scratch / "logs")):
        identity = frozenset(files.items())
        if identity in seen or len(seen) == MOST_STATES:
            continue
        seen.add(identity)
        for who in ("ours", "kafka"):
            log_dir = scratch / who / "logs"
            shutil.copytree(
                damaged.origin, log_dir, copy_function=shutil.copy2, ignore=only_the_root
            )
            (log_dir / ".kafka_cleanshutdown").unlink(missing_ok=True)
            (log_dir / str(PARTITION)).mkdir()
            for name, data in files.items():
                (log_dir / str(PARTITION) / name).write_bytes(data)
            if who == "ours":
                damaged.recover(log_dir)
                assert wanted == logs(log_dir), f"ours, state {number}"
            else:
                assert wanted == damaged.by_kafka(log_dir, server), f"Kafka, state {number}"
            shutil.rmtree(scratch / who)
    assert len(seen) >= 3


@pytest.mark.rotates(2)
@pytest.mark.parametrize(
    ("layout", "options"), [(TXNINDEX_STAYS, MODES[0]), (TAILS, MODES[1])], ids=str
)
def test_swap_that_was_cut_short_is_finished_or_undone(
    layout: Layout, options: RecoveryOptions, tmp_path: Path
) -> None:
    """What our recovery makes of each state of a swap is, to Kafka's loader, the old or the new
    log.
    """
    log_dir = tmp_path / "logs"
    steps = layout.build(log_dir)
    directory = log_dir / str(layout.partition)
    with RealFileSystem(log_dir) as real:
        recorder = RecordingFileSystem(real, directory)
        execute(steps, recorder)
    config, _ = parse_settings(layout.description["topicConfig"])
    now_ms = TimestampMs(layout.description["now"])
    states: list[tuple[str, Files]] = []
    for number, files in enumerate([*recorder.states, plain_files(directory)]):
        copy = tmp_path / f"state-{number}"
        shutil.copytree(log_dir, copy, ignore=lambda _, names: [n for n in names if "-0" in n])
        (copy / ".kafka_cleanshutdown").unlink(missing_ok=True)
        (copy / str(layout.partition)).mkdir()
        for name, data in files.items():
            (copy / str(layout.partition) / name).write_bytes(data)
        result = recover_directory(
            copy, [layout.partition], lambda _: config, now_ms=now_ms, options=options
        )
        assert {} == result.failures
        left = plain_files(copy / str(layout.partition))
        states.append((f"before step {number + 1}", left))
        assert not [name for name in left if name.endswith((".swap", ".cleaned"))]
    verdicts = judge(tmp_path / "judge", layout, states)
    assert bad(verdicts) == []
    assert verdicts[0].old
    assert verdicts[-1].new


def only_the_root(_directory: str, names: list[str]) -> list[str]:
    return [name for name in names if name == str(PARTITION)]


def after_power_loss(damaged: Damaged, log_dir: Path) -> Iterator[dict[str, bytes]]:
    """Every state that a power loss may leave of the partition, from the first step to the last."""
    damaged.copy(log_dir)
    config, _ = parse_settings(damaged.settings())
    (log_dir / ".kafka_cleanshutdown").unlink(missing_ok=True)
    plan = plan_directory(
        log_dir, [PARTITION], lambda _: config, now_ms=damaged.now_ms, options=damaged.options
    )
    (plan_of_log,) = plan.plans
    cut = log_dir / str(PARTITION) / ".logwright" / "cut" / "1"
    cut.mkdir(parents=True)
    every = {path: path.read_bytes() for path in log_dir.rglob("*") if path.is_file()}
    model = PowerLossModel(log_dir / str(PARTITION), every)
    with RealFileSystem(log_dir) as real:
        steps = recovery_steps(plan_of_log, cut=None if damaged.options.like_kafka else cut)
        for step in with_paths(steps):
            execute([step], model)
            execute([step], real)
            yield from model.after_power_loss()
