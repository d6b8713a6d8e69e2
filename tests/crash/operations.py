"""Operations on real logs that tests interrupt: roll, retention, deletion, purge, undo, erasure."""

# ruff: noqa: D102  the methods of Log are the commands

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

import logwright.deletion.commit
import logwright.purge.commit
import logwright.steps.live
from logwright.config.topic import CleanerConfig, TopicConfig, effective
from logwright.deletion.commit import delete_log, find_deleted, finish_deletion, restore_log
from logwright.deletion.commit import purge_deleted as purge_deleted_
from logwright.erasure.erase.commit import erase_partition
from logwright.errors import CannotUndo, NotALogDir, UncleanLogDir
from logwright.format.names import TopicPartition
from logwright.purge.commit import purge_partition
from logwright.retention.commit import plan_retention_of
from logwright.roll.commit import plan_roll_of, roll_partition
from logwright.steps.filesystem import RealFileSystem
from logwright.sweep.build import build
from logwright.sweep.commit import commit
from logwright.sweep.retain import retain as retain_log
from logwright.undo.commit import undo_partition
from logwright.undo.observe import plan_undo_of
from logwright.units import TimestampMs
from tests import fixtures
from tests.comparison import CHECKPOINTS, read_checkpoint
from tests.erasing import PlainKeys, keys_in, logs_of
from tests.plans import forced_plan

T0 = TopicPartition("t", 0)
RUNS = (logwright.steps.live, logwright.deletion.commit, logwright.purge.commit)
LATER_MS = 100_000


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
        roll_partition(*plan_roll_of(self.root, T0, config, now_ms=self.now, force=True))

    def retain(self, before: int | None = None, **more: str) -> None:
        config, _ = self.settings(**more)
        plan = plan_retention_of(
            self.root,
            T0,
            config,
            now_ms=self.now,
            high_watermark="end",
            delete_records_before=before,
        )
        retain_log(plan)

    def clean(self) -> None:
        plan = forced_plan(self.root, T0, self.settings(), now_ms=self.now, like_kafka=True)
        commit(plan, build(plan))

    def erase(self) -> None:
        before = logs_of(fixtures.case_dir(self.case) / "before" / str(T0))
        keys = PlainKeys(keys_in(before)[::3])
        erase_partition(self.root, T0, self.settings(), keys, now_ms=self.now)

    def undo(self) -> None:
        undo_partition(plan_undo_of(self.root, T0), now_ms=self.now)

    def purge(self) -> None:
        later = TimestampMs(self.now + LATER_MS)
        purge_partition(self.root, T0, now_ms=later, file_delete_delay_ms=LATER_MS)

    def delete(self) -> None:
        if (self.root / str(T0)).exists():
            delete_log(self.root, T0, now_ms=self.now)
        else:
            finish_deletion(self.root, T0)

    def restore(self) -> None:
        restore_log(self.root, find_deleted(self.root, T0))

    def purge_deleted(self) -> None:
        later = TimestampMs(self.now + LATER_MS)
        purge_deleted_(self.root, now_ms=later, delay_ms=LATER_MS)


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
            earlier and earlier; `either`: old or new; `groups`: group by group old or new, the last
            one first; `segments`: the same, the first one first; `deleted`: there or deleted.
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
    Scenario("erase", "basic-none", nothing, Log.erase, "segments"),
    Scenario("erase-txn", "txn-1-mixed", nothing, Log.erase, "segments"),
    Scenario("erase-retired", "recleaned-2", Log.clean, Log.erase, "segments"),
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


def prepared(scenario: Scenario, directory: Path) -> Log:
    log = Log(scenario.case, fixtures.copy_before(scenario.case, directory))
    scenario.before(log)
    return log


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


def again_in(made: Log, root: Path) -> Log:
    shutil.copytree(made.root, root, copy_function=shutil.copy2)
    relink(made.root, root)
    return Log(made.case, root)


def repeat(scenario: Scenario, log: Log) -> bool:
    """Whether the operation could be repeated, or had nothing left to do."""
    for _ in range(2):
        try:
            scenario.act(log)
        except (CannotUndo, NotALogDir):
            return True  # all was done but the last steps
        except UncleanLogDir as error:
            if "purge" not in str(error):
                return False
            purge_partition(log.root, T0, now_ms=TimestampMs(0), file_delete_delay_ms=LATER_MS)
        else:
            return True
    return False


def outcome(root: Path) -> dict[str, object]:
    """What a broker would use; names and checkpoints without what is random or rewritten.

    Snapshots at or below the log's start are dropped when it loads the log.
    """
    outcome_of: dict[str, object] = {}
    first = min((int(path.stem) for path in root.glob("*/*.log")), default=0)
    start = read_checkpoint(root / "log-start-offset-checkpoint").get("t-0", first)
    for path in root.rglob("*"):
        name = re.sub(r"[0-9a-f]{32}", "", str(path.relative_to(root)))
        if not path.is_file() or ".logwright" in name or name.endswith((".deleted", ".tmp")):
            continue
        if path.suffix == ".snapshot" and int(path.stem) <= start:
            continue
        entries = (
            read_checkpoint(path) if path.parent == root and path.name in CHECKPOINTS else None
        )
        outcome_of[name] = path.read_bytes() if entries is None else entries
    return {name: value for name, value in outcome_of.items() if value != {} and name != ".lock"}
