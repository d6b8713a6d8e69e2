"""No crash in a move leaves two current logs, or none that the next run does not bring back."""

from __future__ import annotations

import errno
import json
import random
import shutil
import subprocess
from functools import partial
from pathlib import Path

import pytest

from logwright.errors import DiskFull, LogwrightError, StepFailed
from logwright.move.commit import abandon_move
from logwright.state.file import STATE_FILE
from logwright.state.store import read_state
from logwright.steps.filesystem import RealFileSystem
from tests.crash.filesystems import Crash, FailingFileSystem, InterceptedFileSystem
from tests.crash.loader import judge_jvm
from tests.crash.moves import (
    NOW_MS,
    T0,
    DyingFileSystem,
    Pair,
    PowerLossTree,
    Unsynced,
    files_of,
    make_pair,
)

pytestmark = [pytest.mark.crash]

POWER_LOSSES = 80
PARTS = 8
"""Of the calls at which something happens to a move."""

CODES = (errno.EIO, errno.ENOSPC, errno.EROFS, errno.EACCES)


def counted(pair: Pair) -> int:
    """How many calls a whole move makes."""
    made = []

    def wrap(disk: RealFileSystem) -> InterceptedFileSystem:
        made.append(InterceptedFileSystem(Unsynced(disk)))
        return made[-1]

    pair.move(wrap)
    return made[0].calls


def die_at(pair: Pair, number: int) -> None:
    with pytest.raises(Crash):
        pair.move(lambda disk: DyingFileSystem(Unsynced(disk), crash_at=number))


def assert_one_or_hidden(pair: Pair) -> None:
    """At most one current copy, and that one whole; without one, the hidden source is whole and
    keeps brokers away.
    """
    current = pair.current()
    hidden = [path for path in pair.source.iterdir() if path.name.endswith("-moved")]
    assert len(current) <= 1
    if current:
        assert files_of(current[0]) == pair.files
    else:
        (source,) = hidden
        assert files_of(source) == pair.files


@pytest.mark.rotates(PARTS)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("formatted", [True, False], ids=["formatted", "new"])
def test_process_that_dies_at_any_step_is_finished_by_the_next_run(
    tmp_path: Path, formatted: bool, part: int
) -> None:
    """Whichever step was the last, there is one log at most, and the next run ends the move; also
    to a directory that no broker has formatted yet.
    """
    count = counted(make_pair(tmp_path / "whole", formatted=formatted))
    assert count > 60
    for number in range(1 + part, count + 1, PARTS):
        pair = make_pair(tmp_path / str(number), formatted=formatted)
        die_at(pair, number)
        assert_one_or_hidden(pair)
        pair.move()
        pair.assert_moved()
        shutil.rmtree(pair.root)


@pytest.mark.rotates(4)
@pytest.mark.parametrize("part", range(4))
def test_process_that_dies_twice_is_finished_all_the_same(
    tmp_path: Path, seed: int, part: int
) -> None:
    """The run that continues may die too, anywhere."""
    count = counted(make_pair(tmp_path / "whole"))
    chosen = random.Random(f"{seed} twice {part}")
    for number in range(6):
        pair = make_pair(tmp_path / str(number))
        die_at(pair, chosen.randint(1, count - 1))
        for _ in range(3):
            try:
                pair.move(
                    lambda disk: DyingFileSystem(Unsynced(disk), crash_at=chosen.randint(1, count))
                )
            except Crash:
                assert_one_or_hidden(pair)
            else:
                break
        pair.move()
        pair.assert_moved()
        shutil.rmtree(pair.root)


@pytest.mark.rotates(4)
@pytest.mark.parametrize("part", range(4))
def test_move_that_died_can_be_given_up(tmp_path: Path, part: int) -> None:
    """Until the destination is current, `abandon` brings back exactly what was there."""
    count = counted(make_pair(tmp_path / "whole"))
    given_up = 0
    for number in (*range(1, count - 20, 4), *range(count - 20, count + 1))[part::4]:
        pair = make_pair(tmp_path / str(number))
        before = {path.name for path in pair.destination.iterdir()}
        die_at(pair, number)
        if not read_state(pair.source):
            continue
        if pair.current() == [pair.destination / str(T0)]:
            with pytest.raises(LogwrightError, match="current already"):
                abandon_move(pair.source, T0, now_ms=NOW_MS)
            pair.move()
            pair.assert_moved()
            continue
        abandon_move(pair.source, T0, now_ms=NOW_MS)
        given_up += 1
        assert pair.current() == [pair.source / str(T0)]
        assert files_of(pair.source / str(T0)) == pair.files
        assert read_state(pair.source) == {}
        left = {path.name for path in pair.destination.iterdir() if path.suffix != ".tmp"}
        assert left - {".lock"} == before
        shutil.rmtree(pair.root)
    assert given_up > 1


@pytest.mark.rotates(4)
@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("formatted", [True, False], ids=["formatted", "new"])
def test_power_loss_with_any_order_of_writing_is_finished_by_the_next_run(
    tmp_path: Path, seed: int, formatted: bool, part: int
) -> None:
    """Any subset of what is not synced may be on disk: there is one whole log at most, and the next
    run ends the move.
    """
    chosen = random.Random(f"{seed} power {part}")
    pair = make_pair(tmp_path / "whole", formatted=formatted)
    states = power_losses(pair, tmp_path / "states", chosen)
    assert len(states) >= POWER_LOSSES
    assert any(not pair.current() for pair in states)
    for pair in states[part::4]:
        assert_one_or_hidden(pair)
        pair.move()
        pair.assert_moved()
        shutil.rmtree(pair.root)


def test_the_model_sees_the_loss_when_an_fsync_is_missing(tmp_path: Path, seed: int) -> None:
    """Without the fsyncs of directories there are states with two current logs or a log that is
    not whole: the model is able to see them.
    """
    chosen = random.Random(f"{seed} missing")
    pair = make_pair(tmp_path / "whole")
    bad = 0
    for state in power_losses(pair, tmp_path / "states", chosen, synced=False):
        try:
            assert_one_or_hidden(state)
        except (AssertionError, ValueError):
            bad += 1
    assert bad > 0


def power_losses(
    pair: Pair, states: Path, chosen: random.Random, *, synced: bool = True
) -> list[Pair]:
    """States that a power loss anywhere in a move may leave."""
    states.mkdir()
    pairs: list[Pair] = []

    def lose() -> None:
        made = pair.at(states / str(len(pairs)))
        tree.write_state(made.root, chosen)
        lead_elsewhere(made, pair.root)
        pairs.append(made)

    def wrap(disk: RealFileSystem) -> PowerLossTree:
        nonlocal tree
        tree = PowerLossTree(disk, pair.root)
        tree.on_step = lose
        if not synced:
            tree.fsync_dir = disk.fsync_dir  # type: ignore[method-assign]
        return tree

    tree: PowerLossTree
    pair.move(wrap)
    lose()
    return pairs


def lead_elsewhere(pair: Pair, before: Path) -> None:
    """The state file holds the destination's path; these directories lie elsewhere."""
    path = pair.source / STATE_FILE
    if path.exists():
        path.write_text(path.read_text().replace(str(before), str(pair.root)))


@pytest.mark.rotates(2 * PARTS)
@pytest.mark.parametrize("part", range(2 * PARTS))
@pytest.mark.parametrize("code", CODES)
def test_call_that_fails_leaves_no_pause(tmp_path: Path, code: int, part: int) -> None:
    """Every call fails once (KAFKA-9087): the error says which, nobody is left paused unless the
    state file itself could not be written, and the next run ends the move.
    """
    count = counted(make_pair(tmp_path / "whole"))
    assert count > 60
    for number in range(1 + part, count + 1, 2 * PARTS):
        pair = make_pair(tmp_path / str(number))
        fails = partial(FailingFileSystem, fail_at=number, code=code)
        with pytest.raises(DiskFull if code == errno.ENOSPC else StepFailed, match="step "):
            pair.move(lambda disk, fails=fails: fails(Unsynced(disk)))
        assert_one_or_hidden(pair)
        paused = [one for state in read_state(pair.source).values() for one in state.pauses]
        assert paused == []
        pair.move()
        pair.assert_moved()
        shutil.rmtree(pair.root)


@pytest.mark.oracle
def test_a_broker_finds_one_current_log_or_refuses(tmp_path: Path) -> None:
    """Kafka's LogManager on both directories: it loads the source, then, during the switch, names
    what keeps it from starting and changes nothing, then loads the destination.
    """
    count = counted(make_pair(tmp_path / "whole"))
    states: dict[str, Pair] = {}
    for number in range(1, count + 1):
        pair = make_pair(tmp_path / f"died-{number}")
        die_at(pair, number)
        names = sorted(path.name for path in pair.root.rglob("*") if path.is_dir())
        shape = repr([name.rpartition(".")[2][32:] or name for name in names])
        states.setdefault(shape, pair)
    answers = started([pair.root for pair in states.values()])
    hidden = 0
    for pair, line in zip(states.values(), answers, strict=True):
        if any(path.name.endswith("-moved") for path in pair.source.iterdir()):
            hidden += 1
            assert "-moved" in line["error"]
            assert "is not in the form of topic-partition" in line["error"]
            pair.move()
            pair.assert_moved()
            continue
        assert line["error"] is None, line
        assert line["current"] is not None
        assert (1, 6) != (line["start"], line["end"])
        assert not line["future"]
    assert hidden >= 2
    assert {"source", "destination"} == {line["current"] for line in answers if line["current"]}


def started(roots: list[Path]) -> list[dict[str, object]]:
    """What Kafka's LogManager makes of each of these pairs of directories."""
    command = [*judge_jvm(), "oracle.MoveStates", str(T0)]
    done = subprocess.run(
        [*command, *map(str, roots)], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
