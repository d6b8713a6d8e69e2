"""What each test costs: a file of a whole run, and the table of its folders.

Counted are seconds, and CPU seconds of a test's process and all its descendants: brokers, JVMs,
commands. They vary with the machine; what they are compared with is a budget with room to spare.

    python -m tests.costs          # of the last run: folder, tests, seconds, CPU seconds, budget
    python -m tests.costs keep     # what each file cost in it goes into tests/costs.json
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).parent
RECORD = TESTS / "costs.json"
BUILD = TESTS.parent / "build"
LAST, LAST_ALONE = BUILD / "test-costs.json", BUILD / "test-costs-alone.json"
"""What the last run cost, and that of the tests that run alone; `keep` takes both."""

BUDGETS = TESTS / "budgets.json"
SLOW_SECONDS = 1.0
"""A test function that takes less in all its cases is not named in the file."""

TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(slots=True)
class FileCost:
    """What a file of tests took in one run.

    Attributes:
        tests: cases that ran; none where all waited for the night.
        every: all of the file runs on one day of this number.
        slow: of each slow function, its cases and what all of them took.
    """

    tests: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    every: int = 1
    slow: dict[str, tuple[int, float]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Record:
    """The costs of a run, by file below the repository."""

    files: Mapping[str, FileCost]

    def seconds_of(self, scope: str) -> float:
        """What a file, a folder or a case took. What is not known is thought to be long."""
        file, _, function = scope.partition("::")
        cost = self.files.get(file) or self.folders().get(file)
        if cost is None:
            return float("inf")
        return self.case_seconds(scope.partition("[")[0]) if function else cost.seconds

    def case_seconds(self, name: str) -> float:
        """What a case of a function took. One that is not known is thought to be quick."""
        file, _, function = name.partition("::")
        cases, seconds = self.files.get(file, FileCost()).slow.get(function, (1, 0.0))
        return seconds / cases

    def folders(self) -> dict[str, FileCost]:
        """The same by folder, for a day on which each rotating file takes its share."""
        sums: dict[str, FileCost] = {}
        for file, cost in self.files.items():
            total = sums.setdefault(folder_of(file), FileCost())
            total.tests += cost.tests
            total.seconds += cost.seconds / cost.every
            total.cpu_seconds += cost.cpu_seconds / cost.every
        return sums

    def with_newer(self, newer: Record) -> Record:
        """What is known after another run: a file that did not run keeps what it cost before."""
        files = dict(self.files)
        files.update({file: cost for file, cost in newer.files.items() if cost.tests})
        return Record({file: files.get(file, cost) for file, cost in newer.files.items()})


def folder_of(file: str) -> str:
    """The folder that a file's cost counts for: `tests/unit/cli`, `tests/e2e`."""
    parts = Path(file).parts
    return "/".join(parts[: 3 if parts[1] == "unit" and len(parts) > 3 else 2])


def read(path: Path) -> Record:
    """A run's costs from a file; none from a file that is not there."""
    text = path.read_text() if path.exists() else "{}"
    return Record({file: FileCost(**cost) for file, cost in json.loads(text).items()})


@cache
def recorded() -> Record:
    """The costs of the run that is kept."""
    return read(RECORD)


def write(files: Mapping[str, FileCost], path: Path) -> None:
    """Write a run's costs. Effects: one file."""
    path.parent.mkdir(exist_ok=True)
    # A file's own costs stand on one line.
    lines = [f"{json.dumps(file)}: {json.dumps(asdict(files[file]))}" for file in sorted(files)]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


class Meter:
    """A plugin of pytest that counts what each file costs, in this process or in its workers."""

    def __init__(self, path: Path) -> None:
        self.files: dict[str, FileCost] = {}
        self._path = path

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Iterator[None]:
        """Count one test, and the CPU time of its file at the file's end."""
        file, _, function = item.nodeid.partition("::")
        started = time.monotonic()
        result: Any = yield
        seconds = time.monotonic() - started
        cost = self.files.setdefault(file, FileCost())
        cost.every = days_between(item)
        cost.tests += 1
        cost.seconds += seconds
        _add(cost.slow, function.partition("[")[0], 1, seconds)
        if nextitem is None or nextitem.path != item.path:
            used = cpu_seconds_of_tree()
            cost.cpu_seconds += max(used - self._used, 0.0)
            self._used = used
        return result

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        """Know the files of which nothing runs."""
        for item in items:
            self.files.setdefault(item.nodeid.partition("::")[0], FileCost())

    def pytest_runtestloop(self) -> None:
        """Count from here, without what the collection cost."""
        self._used = cpu_seconds_of_tree()

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Hand the costs to the process that started the workers, or write them."""
        output = getattr(session.config, "workeroutput", None)
        if output is None and any(cost.tests for cost in self.files.values()):
            write(self.rounded(), self._path)
        elif output is not None:
            output["costs"] = {file: asdict(cost) for file, cost in self.files.items()}

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:  # noqa: ANN401 -- a class of xdist
        """Take what a worker counted."""
        for file, cost in getattr(node, "workeroutput", {}).get("costs", {}).items():
            total = self.files.setdefault(file, FileCost())
            total.tests += cost["tests"]
            total.every = max(total.every, cost["every"])
            total.seconds += cost["seconds"]
            total.cpu_seconds += cost["cpu_seconds"]
            for name, (cases, seconds) in cost["slow"].items():
                _add(total.slow, name, cases, seconds)

    def rounded(self) -> dict[str, FileCost]:
        """The costs as they are kept."""
        return {
            file: FileCost(
                tests=cost.tests,
                every=cost.every,
                seconds=round(cost.seconds, 1),
                cpu_seconds=round(cost.cpu_seconds, 1),
                slow={
                    name: (cases, round(seconds, 1))
                    for name, (cases, seconds) in cost.slow.items()
                    if seconds >= SLOW_SECONDS
                },
            )
            for file, cost in self.files.items()
        }


def days_between(item: pytest.Item) -> int:
    """On one of how many days the whole of a test's file runs."""
    marker = item.get_closest_marker("rotates")
    return marker.args[0] if marker is not None and marker.kwargs else 1


def _add(slow: dict[str, tuple[int, float]], name: str, cases: int, seconds: float) -> None:
    before = slow.get(name, (0, 0.0))
    slow[name] = (before[0] + cases, before[1] + seconds)


def cpu_seconds_of_tree() -> float:
    """The CPU seconds that this process, its descendants and those that it waited for have used."""
    children: dict[int, list[int]] = {}
    used: dict[int, int] = {}
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            status = (directory / "stat").read_bytes()
        except OSError:
            continue  # it has ended meanwhile
        fields = status[status.rindex(b")") + 2 :].split()
        children.setdefault(int(fields[1]), []).append(int(directory.name))
        used[int(directory.name)] = sum(map(int, fields[11:15]))
    total = 0
    waiting = [os.getpid()]
    while waiting:
        pid = waiting.pop()
        total += used.get(pid, 0)
        waiting += children.get(pid, ())
    return total / TICKS


def budgets() -> dict[str, float]:
    """CPU seconds that each folder may take by day."""
    content: dict[str, float] = json.loads(BUDGETS.read_text())
    return content


def table(record: Record) -> str:
    """Folder, tests, seconds, CPU seconds, budget: as a table of Markdown."""
    allowed = budgets()
    rows = ["| folder | tests | seconds | CPU seconds | budget |", "|---|---:|---:|---:|---:|"]
    for folder, cost in sorted(record.folders().items()):
        rows.append(
            f"| {folder} | {cost.tests} | {cost.seconds:.0f} | {cost.cpu_seconds:.0f} "
            f"| {allowed.get(folder, 0):g} |"
        )
    return "\n".join(rows)


def last() -> Record:
    """The costs of the last run, those that run alone among them."""
    files = dict(read(LAST).files)
    for file, cost in read(LAST_ALONE).files.items():
        total = files.setdefault(file, FileCost())
        total.tests += cost.tests
        total.seconds += cost.seconds
        total.cpu_seconds += cost.cpu_seconds
        total.slow.update(cost.slow)
    return Record(files)


def main(words: list[str]) -> int:
    """Print the table, or keep the last run; the exit status."""
    match words:
        case []:
            sys.stdout.write(table(last()) + "\n")
        case ["keep"]:
            write(read(RECORD).with_newer(last()).files, RECORD)
        case _:
            sys.stderr.write(__doc__ or "")
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
