"""What of the tests runs by day, in which order, and on which worker.

By day a test with the marker ``rotates(n)`` runs every n-th of its cases, beginning with one that
the seed chooses; with fewer cases than n, on some days none. All have their turn after some runs,
and at night all run. ``rotates(n, by="file")`` is for tests that share something dear: by day all
of the file's run, or none. A case that waits for the night gets the marker ``nightly``.

If the change touches what the test's file imports, all of its cases run by day, too, as long as
that fits into `CHANGE_SECONDS`; the cheapest first.

Workers (pytest-xdist) take the next file when they are free, the longest first, as `tests.costs`
has recorded them. A file is not split, since its fixtures are shared; at night one whose cases
rotate is.
"""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from xdist.scheduler import LoadScopeScheduling

from tests import costs

ROOT = Path(__file__).parents[1]
TIDY = "tests/tidy"
"""These all parse the whole repository: one worker does, once."""

CHANGE_SECONDS = 120
"""How much longer a run by day may take for what a change touches, in seconds of one worker."""


@dataclass(frozen=True, slots=True)
class Rotation:
    """A test function some of whose cases wait for the night.

    Attributes:
        waiting: the cases that this seed has not chosen.
        seconds: what they would cost.
    """

    waiting: list[pytest.Item]
    seconds: float
    path: Path


def runs_by_day(name: str, number: int, every: int, seed: int) -> bool:
    """Whether a seed chooses a case, by its number. Each test begins elsewhere."""
    return (zlib.crc32(name.encode()) + number + seed) % every == 0


def rotate(items: Sequence[pytest.Item], seed: int, changed: frozenset[Path]) -> list[str]:
    """Leave to the night what this seed does not choose and the change does not touch.

    Effects: adds the marker ``nightly`` to items.

    Returns:
        a sentence for each test of which all cases run, or should and do not fit.
    """
    by_function: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("rotates") and not item.get_closest_marker("nightly"):
            by_function.setdefault(item.nodeid.partition("[")[0], []).append(item)
    sentences = []
    left = float(CHANGE_SECONDS)
    rotations = {name: _rotation(name, cases, seed) for name, cases in by_function.items()}
    for name, rotation in sorted(rotations.items(), key=lambda each: each[1].seconds):
        if rotation.waiting and touched(rotation.path, changed):
            if rotation.seconds <= left:
                left -= rotation.seconds
                sentences.append(f"{name}: all cases, since the change touches it")
                continue
            sentences.append(f"{name}: the change touches it, and most cases wait for the night")
        for item in rotation.waiting:
            item.add_marker(pytest.mark.nightly)
    return sentences


def _rotation(name: str, cases: list[pytest.Item], seed: int) -> Rotation:
    marker = cases[0].get_closest_marker("rotates")
    assert marker is not None
    (every,) = marker.args
    if marker.kwargs == {"by": "file"}:
        in_turn = [runs_by_day(name.partition("::")[0], 0, every, seed)] * len(cases)
    else:
        in_turn = [runs_by_day(name, number, every, seed) for number in range(len(cases))]
    waiting = [case for case, runs in zip(cases, in_turn, strict=True) if not runs]
    a_case = costs.recorded().case_seconds(name)
    return Rotation(waiting, a_case * len(waiting), cases[0].path)


def touched(test_file: Path, changed: frozenset[Path]) -> bool:
    """Whether a change is to a test's file, or to a module that it imports."""
    return not changed.isdisjoint({test_file.relative_to(ROOT), *_imported(test_file)})


@cache
def _imported(test_file: Path) -> frozenset[Path]:
    """The files of the product that a test's file imports."""
    modules = set()
    for node in ast.walk(ast.parse(test_file.read_text())):
        match node:
            case ast.Import(names=names):
                modules.update(name.name for name in names)
            case ast.ImportFrom(module=str(module), names=names):
                modules.update({module, *(f"{module}.{name.name}" for name in names)})
            case _:
                pass
    return frozenset(
        Path(*module.split(".")).with_suffix(".py")
        for module in modules
        if module.startswith("logwright.")
    )


def changed_files(since: str | None) -> frozenset[Path]:
    """The files that differ from a revision; empty where there is no such revision.

    since: None stands for where this branch left origin's main branch; on that branch itself, for
    the commit before the newest.
    """
    base = since or _git("merge-base", "HEAD", "origin/HEAD").strip()
    if since is None and base in ("", _git("rev-parse", "HEAD").strip()):
        base = "HEAD^"
    names = _git("diff", "--name-only", base).splitlines()
    untracked = _git("ls-files", "--others", "--exclude-standard").splitlines()
    return frozenset(map(Path, names + untracked))


def _git(*words: str) -> str:
    program = shutil.which("git")
    if program is None:
        return ""
    command = [program, *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else ""


def is_night(mark_expression: str) -> bool:
    """Whether `pytest -m` asks for the tests of the night."""
    return re.search(r"(?<!not )(?<!not \()\bnightly\b", mark_expression) is not None


def in_order(items: Iterable[pytest.Item], *, night: bool) -> list[pytest.Item]:
    """The longest scope first, each scope's tests in their own order."""
    record = costs.recorded()
    scopes: dict[str, list[pytest.Item]] = {}
    for item in items:
        scopes.setdefault(scope_of(item.nodeid, night=night), []).append(item)
    longest_first = sorted(scopes, key=lambda scope: -record.seconds_of(scope))
    return [item for scope in longest_first for item in scopes[scope]]


def scope_of(node_id: str, *, night: bool) -> str:
    """What goes to a worker as one: a file; at night a case of a file whose cases rotate."""
    file = node_id.partition("::")[0]
    if file.startswith(TIDY):
        return TIDY
    return node_id if night and _cases_rotate(file) else file


@cache
def _cases_rotate(file: str) -> bool:
    text = (ROOT / file).read_text()
    return "mark.rotates(" in text and 'by="file"' not in text


class ByFile(LoadScopeScheduling):
    """Gives a free worker the next scope, in the order of the collection."""

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid, night=is_night(self.config.getoption("markexpr")))
