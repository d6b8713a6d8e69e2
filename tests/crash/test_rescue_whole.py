"""A whole rescue of a full disk that dies, loses power or finds no room at any step: the next one
completes it, and nothing that stays is lost.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any, Final

import pytest

from logwright.rescue.free_disk import Freeing
from tests.crash.filesystems import Crash
from tests.differential.random_logs import scratch_directory
from tests.e2e.command import Answer, call
from tests.latest_rows import replayed
from tests.log_builder import START_MS, LogBuilder
from tests.sequences.content import Content
from tests.sequences.faults import CODES, Fault, Kind, interrupted
from tests.sequences.reading import read_content

pytestmark = [pytest.mark.crash, pytest.mark.alone]  # by the free space of a file system

NOW_MS: Final = START_MS + 90_000_000
POLICIES: Final = """
version: 1
topics:
  - {name: t, cleanup.policy: compact, segment.bytes: 1048576}
  - {name: d, cleanup.policy: delete, retention.ms: 1000}
"""
EVERYTHING: Final = "900TiB"
"""More bytes than there are: no step is left out."""
NO_ROOM: Final = 0
PARTS: Final = 12
"""Of the calls at which something happens."""


@pytest.fixture(autouse=True)
def _by_what_went(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rescue ends if what it removes does not become free: here others may write to the file
    system meanwhile.
    """
    monkeypatch.setattr(Freeing, "is_in_vain", property(lambda _: False))


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Without the log messages of what is interrupted on purpose."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture
def scratch() -> Iterator[Path]:
    """An empty directory in memory."""
    with scratch_directory() as directory:
        yield directory


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log whose oldest segments are due, with a retired file; one of three groups, of which one
    has a tombstone that may go and one the data and the marker of an aborted transaction; a deleted
    log.
    """
    root = tmp_path_factory.mktemp("whole")
    log_dir = root / "logs"
    due = LogBuilder(log_dir, "d-0")
    for base in range(3):
        due.segment(base).batch(base, [("k", "v" * 5000)])
    due.segment(3).batch(3, [("k", "new")], timestamps=[NOW_MS])
    due.write()
    (due.directory / f"{7:020}.log.deleted").write_bytes(bytes(5000))
    deleted = log_dir / f"x-0.{'a' * 32}-delete"
    deleted.mkdir()
    (deleted / f"{0:020}.log").write_bytes(bytes(5000))
    compacted = LogBuilder(log_dir, "t-0")
    large = "v" * 700_000
    first = compacted.segment(0).batch(0, [("gone", large), ("a", "1"), ("a", "2")])
    first.batch(3, [("c", "aborted")], producer_id=7, transactional=True, sequence=0)
    compacted.segment(4).batch(4, [("gone", None)], horizon_ms=START_MS).marker(5, 7, "abort")
    compacted.segment(6).batch(6, [("b", large), ("b", large)])
    compacted.segment(8).batch(8, [("c", large), ("z", "2")])
    compacted.segment(10).batch(10, [("z", "new")])
    compacted.write(producers=True)
    (log_dir / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":0}')
    (root / "policies").mkdir()
    (root / "policies" / "topics.yml").write_text(POLICIES)
    return root


def rescue(root: Path) -> Answer:
    words: tuple[Any, ...] = ("--free", EVERYTHING, "--reserve", NO_ROOM, "--now", NOW_MS, "--yes")
    policies = ("--policies", root / "policies", "--no-metadata", "--output", "json")
    return call("rescue", root / "logs", *words, *policies)


def contents(root: Path) -> list[Content]:
    return [read_content(root / "logs", name) for name in ("d-0", "t-0")]


def leftovers(root: Path) -> list[str]:
    """What a rescue is about, or makes on its way."""
    marks = (".deleted", ".swap", ".cleaned", "-delete", ".logwright")
    return [path.name for path in root.rglob("*") if path.name.endswith(marks)]


def test_all_of_it(made: Path, tmp_path: Path) -> None:
    """Without a fault: what is due and retired goes, and the log is compacted to its end."""
    root = tmp_path / "work"
    shutil.copytree(made, root)
    before = contents(root)
    answer = rescue(root)
    assert 5 == answer.status, answer.err
    steps = [line["step"] for line in answer.lines if "done" in line]
    assert steps[0] in {"due", "retired"}
    assert ["retention", "compaction"] == steps[-2:]
    after = contents(root)
    assert [3] == [row.offset for row in after[0].rows]
    assert [2, 7, 8, 10] == [row.offset for row in after[1].rows if row.offset != 9]
    assert replayed(before[1]) == replayed(after[1])
    assert [] == leftovers(root)


@pytest.mark.rotates(PARTS)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("kind", ["kill", "power", "errno"])
def test_at_every_step(kind: Kind, part: int, made: Path, scratch: Path) -> None:
    """After the fault and another whole rescue all is as without one."""
    whole = scratch / "whole"
    shutil.copytree(made, whole)
    rescue(whole)
    expected = contents(whole)
    happened = 0
    for at in count(1 + part, PARTS):
        root = scratch / "work"
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(made, root)
        fault = Fault(kind, at, at * len(CODES) if kind == "errno" else at)
        try:
            with interrupted(fault, root) as interposed:
                rescue(root)
        except Crash:
            pass
        if not interposed.happened:
            break
        happened += 1
        answer = rescue(root)
        assert 5 == answer.status, (at, answer.err)
        assert not answer.err.count("Traceback"), (at, answer.err)
        assert expected == contents(root), at
        assert [] == leftovers(root), at
    assert happened >= 80 // PARTS
