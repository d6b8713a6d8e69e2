"""What the check of the next starts says, and when it does not pass."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest

from logwright.assets.fleet.will_start import will_start_check
from logwright.fleet.starts import DirectoryStart
from logwright.rescue.model import Effect, StartFinding, StartVerdict
from logwright.units import ByteCount

LOGS = Path("/logs")


def start(*effects: Effect, name: str = "logs") -> DirectoryStart:
    """A directory with these findings, each on the offsets 3 to 7."""
    findings = tuple(
        StartFinding(
            path=LOGS / "t-0" / f"{number}.log",
            problem="cut: it is torn.",
            effect=effect,
            bytes=ByteCount(9 if effect == "loses" else 0),
            first_offset=3,
            end_offset=7,
        )
        for number, effect in enumerate(effects)
    )
    verdict = StartVerdict(
        log_dirs=(LOGS,),
        logs=1,
        findings=findings,
        space={},
        user=None,
        not_looked_at=("its network",),
    )
    return DirectoryStart(name=name, log_dir=LOGS, verdict=verdict)


RUNNING = DirectoryStart(name="r", log_dir=Path("/running"), why="a broker runs on it")
GONE = DirectoryStart(name="g", log_dir=Path("/gone"), why="/gone: is gone.", failed=True)


@pytest.mark.parametrize(
    ("starts", "passed", "severity"),
    [
        ([start()], True, "WARN"),
        ([start("repairs")], True, "WARN"),
        ([start(), RUNNING], True, "WARN"),
        ([start("sets aside")], False, "WARN"),
        ([start("not judged")], False, "WARN"),
        ([start("not judged", "loses")], False, "ERROR"),
        ([start("loses")], False, "ERROR"),
        ([start(), start("stops", name="b")], False, "ERROR"),
        ([start(), GONE], False, "WARN"),
        ([RUNNING], False, "WARN"),
        ([], False, "WARN"),
    ],
)
def test_only_a_start_without_loss_passes(
    starts: list[DirectoryStart], passed: bool, severity: str
) -> None:
    """What is not known is a warning; nothing judged is not passed."""
    check = will_start_check(starts)
    assert (passed, severity) == (check.passed, check.severity.name)


def test_what_is_not_judged_is_named() -> None:
    check = will_start_check([start(), RUNNING])
    assert "/running: not judged: a broker runs on it" == check.description
    assert 1 == check.metadata["log directories judged"].value
    assert "its network" == check.metadata["not looked at"].value
    assert "No log directory was judged" in str(will_start_check([RUNNING]).description)


def test_findings_have_paths_and_offsets() -> None:
    """The gravest first; those of a node of two directories once."""
    first = start("repairs", "loses")
    second = DirectoryStart(name="second", log_dir=Path("/second"), verdict=first.verdict)
    check = will_start_check([first, second])
    shown = check.metadata["findings"]
    assert isinstance(shown, dg.TableMetadataValue)
    rows = [record.data for record in shown.records]
    assert ["loses", "repairs"] == [row["what a start does"] for row in rows]
    assert {
        "log directory": "logs, second",
        "path": "/logs/t-0/1.log",
        "bytes lost": 9,
        "first offset": 3,
        "end offset": 7,
    }.items() <= rows[0].items()
