"""How logs are maintained, by policies, settings, and what holds a log."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from logwright.config.erasure import ErasureSettings
from logwright.erasure.outlook.removals import removal_of_file, upkeep_of
from logwright.erasure.outlook.upkeep import SweepTimes, Upkeep, next_sweep_ms
from logwright.format.deletions import LEDGER, Origin, serialize_retirement
from logwright.log.record_files import list_files
from logwright.state.model import Hold
from logwright.units import INT64_MAX
from tests.found import find, settings
from tests.log_builder import START_MS, LogBuilder

MARGIN: Final = 5_000
PAUSED: Final = Hold(kind="paused", sentence="paused")
QUARANTINED: Final = Hold(kind="quarantined", sentence="in quarantine")


@pytest.mark.parametrize(
    ("erasure", "expected"),
    [
        (ErasureSettings(), Upkeep()),
        (ErasureSettings(appends_continue=True, deadline_sweeps=True), Upkeep()),
        (ErasureSettings(store="s"), Upkeep(run_interval_ms=300_000)),
        (
            ErasureSettings(store="s", margin_ms=7, appends_continue=True, deadline_sweeps=True),
            Upkeep(run_interval_ms=300_000, margin_ms=7, appends_continue=True),
        ),
    ],
)
def test_policies(erasure: ErasureSettings, expected: Upkeep) -> None:
    """Without a store they say nothing; sweeps count only where they are said to be."""
    assert expected == Upkeep.of_policies(erasure)


@pytest.mark.parametrize(
    ("policy", "cleaner", "hold", "expected"),
    [
        ("compact", "true", None, (True, True, MARGIN)),
        ("compact", "true", PAUSED, (False, False, None)),
        ("compact", "true", QUARANTINED, (False, False, None)),
        ("delete", "true", QUARANTINED, (False, True, None)),
        ("compact", "false", None, (False, False, MARGIN)),
        ("delete", "false", None, (True, True, MARGIN)),
    ],
)
def test_what_holds_a_log(
    tmp_path: Path,
    policy: str,
    cleaner: str,
    hold: Hold | None,
    expected: tuple[bool, bool, int | None],
) -> None:
    """Whether it is cleaned and retained, and whether it is swept."""
    log = LogBuilder(tmp_path / "logs")
    log.segment(0).batch(0, [("k", "1")])
    log.write()
    pairs = {"cleanup.policy": policy, "log.cleaner.enable": cleaner}
    searched = settings(pairs, upkeep=Upkeep(margin_ms=MARGIN))
    (live,) = find(log.log_dir, [b"k"], searched).live.values()
    assert [INT64_MAX] == live.deadlines.tolist()
    upkeep = upkeep_of(searched, replace(live, hold=hold))
    assert expected == (upkeep.cleans, upkeep.retains, upkeep.margin_ms)


@pytest.mark.parametrize(
    ("requested", "expected"), [(-1, 10), (9, 10), (10, 20), (19, 20), (20, 900_020), (30, 900_030)]
)
def test_the_next_sweep(requested: int, expected: int) -> None:
    """Once for each time, then every 15 minutes."""
    assert expected == next_sweep_ms(SweepTimes(10, 20), requested)


@pytest.mark.parametrize(("delay_ms", "expected_ms"), [(9_000, 9_000), (1_000, 5_000)])
def test_a_retired_file_is_kept_by_the_longer_delay(
    tmp_path: Path, delay_ms: int, expected_ms: int
) -> None:
    """That of the settings that it was retired with, or that of the settings now."""
    log = LogBuilder(tmp_path / "logs")
    log.segment(0).batch(0, [("k", "1")])
    log.write()
    name = f"{0:020d}.log.deleted"
    (log.directory / name).write_bytes(b"")
    (log.directory / ".logwright").mkdir()
    origin = Origin(operation="retain", id="x", delay_ms=delay_ms)
    line = serialize_retirement([name], at_ms=START_MS, origin=origin)
    (log.directory / ".logwright" / LEDGER).write_bytes(line)
    (file,) = [each for each in list_files(log.log_dir).files if each.relative.endswith(name)]
    searched = settings({"file.delete.delay.ms": "5000"})
    gone_ms = START_MS + expected_ms + searched.upkeep.run_interval_ms
    assert ("file.delete.delay.ms", gone_ms) == removal_of_file(file, searched, log.log_dir)
