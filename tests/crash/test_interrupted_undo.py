"""An undo of a swap that died is finished, or taken back, by the command that comes next."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest
from click.testing import CliRunner

from logwright.cli.main import main
from tests import fixtures
from tests.crash.filesystems import Crash, CrashingFileSystem
from tests.crash.operations import SCENARIOS, Log, Scenario, again_in, interposed, prepared
from tests.differential.random_logs import scratch_directory

pytestmark = pytest.mark.crash

UNDOS = [
    pytest.param(
        scenario,
        marks=[] if scenario.name == "undo-merge" else [pytest.mark.nightly],
        id=scenario.name,
    )
    for scenario in SCENARIOS
    if scenario.kind == "groups"
]
DONE = "no compaction or retention is on record"
PARTS = 4
"""Of the calls at which an undo dies."""


def logwright(command: str, log: Log) -> tuple[int, str]:
    """Exit status and all that was said."""
    words = [
        command,
        str(log.root),
        "t-0",
        "--yes",
        "--now",
        str(log.now),
        *fixtures.settings(log.case),
    ]
    done = CliRunner().invoke(main, words)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.output


def live(log: Log) -> dict[str, bytes]:
    """The segments' logs."""
    return {path.name: path.read_bytes() for path in (log.root / "t-0").glob("*.log")}


def leftovers(log: Log) -> list[str]:
    names = [path.name for path in (log.root / "t-0").iterdir()]
    return [name for name in names if name.endswith((".swap", ".cleaned"))]


@pytest.mark.rotates(PARTS)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("scenario", UNDOS)
def test_every_interruption_is_mended(scenario: Scenario, part: int) -> None:
    """A death before each call: a purge then leaves no leftover, and each group either cleaned or
    as it was; an undo, with or without the purge before it, ends where an uninterrupted one does.
    """
    with scratch_directory() as scratch:
        begun = prepared(scenario, scratch / "begun")
        whole = again_in(begun, scratch / "whole")
        cleaned = live(whole)
        scenario.act(whole)
        original = live(whole)
        states = 0
        for number in count(1 + part, PARTS):
            made = again_in(begun, scratch / f"made-{number}")
            try:
                interposed(
                    lambda real, number=number: CrashingFileSystem(real, crash_at=number),
                    lambda made=made: scenario.act(made),
                )
            except Crash:
                states += 1
            else:
                break
            purged = again_in(made, scratch / f"purged-{number}")
            assert 0 == logwright("purge", purged)[0], f"purge after a death before call {number}"
            assert [] == leftovers(purged)
            assert live(purged).items() <= original.items() | cleaned.items()
            for log in (made, purged):
                status, output = logwright("undo", log)
                assert status == 0 or DONE in output, f"undo after call {number}: {output}"
                assert original == live(log), f"undo after a death before call {number}"
                assert [] == leftovers(log)
        assert states > 10 // PARTS


def test_purge_of_what_is_paused_keeps_the_way_back(tmp_path: Path) -> None:
    """What was retired stays as long as somebody wants the log to be skipped."""
    log = Log("recleaned-2", fixtures.copy_before("recleaned-2", tmp_path))
    log.clean()
    before = sorted(path.name for path in (log.root / "t-0").iterdir())
    words = [str(log.root), "t-0", "--yes", "--now", str(log.now)]
    CliRunner().invoke(main, ["pause", *words, "--reason", "look"], catch_exceptions=False)
    later = [str(log.root), "t-0", "--yes", "--now", str(log.now + 10**9)]
    refused = CliRunner().invoke(main, ["purge", *later], catch_exceptions=False)
    assert 0 == refused.exit_code
    assert "skipped: paused by" in refused.stderr
    assert before == sorted(path.name for path in (log.root / "t-0").iterdir())
    CliRunner().invoke(main, ["resume", *words], catch_exceptions=False)
    CliRunner().invoke(main, ["purge", *later], catch_exceptions=False)
    assert not list((log.root / "t-0").glob("*.deleted"))
