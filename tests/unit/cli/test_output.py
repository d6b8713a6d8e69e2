"""Text for people: tables in colour on a terminal, sizes, times, names."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import click
import pytest

from logwright.cli.output import Cell, table_lines
from logwright.cli.wording import LONGEST_NAME, moment, retired, short_names
from logwright.times import duration, duration_ms
from tests.fixtures import case_dir

DAY = 86_400_000
LOGWRIGHT = Path(sys.executable).with_name("logwright")
GREEN = "\x1b[32m"


def on_a_terminal(*words: object, **environment: str) -> str:
    """What a command writes to a terminal of its own."""
    ours, theirs = pty.openpty()
    inherited = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    command = [LOGWRIGHT, *map(str, words)]
    with subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=inherited | environment
    ) as process:
        os.close(theirs)
        output = b""
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:
                break
            if not part:
                break
            output += part
    os.close(ours)
    assert 0 == process.returncode, output
    return output.decode()


def test_colour_on_a_terminal_only_and_not_with_no_color() -> None:
    """A due log's reason is green; NO_COLOR and a pipe get plain text."""
    words = ["plan", case_dir("basic-none") / "before", "--no-forecast"]
    words += ["--config", "cleanup.policy=compact"]
    assert f"{GREEN}due: dirty ratio" in on_a_terminal(*words)
    assert "\x1b[" not in on_a_terminal(*words, NO_COLOR="1")
    assert f"{GREEN}due: dirty ratio" in on_a_terminal(*words, NO_COLOR="")
    piped = subprocess.run(
        [LOGWRIGHT, *map(str, words)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "due: dirty ratio" in piped
    assert "\x1b[" not in piped


def test_colours_do_not_shift_columns() -> None:
    """The codes of a colour take no width; nothing ends in blanks."""
    rows = [
        (Cell(text="a", colour="red"), Cell(text="9 B", right=True), "x"),
        ("bbb", Cell(text="10.0 KiB", right=True, colour="green"), None),
        ("cc", None, Cell(text="")),
    ]
    lines = [click.unstyle(line) for line in table_lines(("name", "size", "note"), rows)]
    assert [
        "name      size  note",
        "a          9 B  x",
        "bbb   10.0 KiB  -",
        "cc           -",
    ] == lines
    assert "\x1b[31ma\x1b[0m" in table_lines(("name", "size", "note"), rows)[1]


@pytest.mark.parametrize(
    ("time_ms", "expected"),
    [
        (10 * DAY + 3_660_000, "01:01"),
        (11 * DAY - 1, "23:59"),
        (11 * DAY, "1970-01-12 00:00"),
        (10 * DAY - 1, "1970-01-10 23:59"),
        (None, "-"),
        (-1, "-"),
        (1 << 62, "-"),
    ],
)
def test_a_time_has_its_date_if_it_is_not_today(time_ms: int | None, expected: str) -> None:
    """Today by the command's clock, in UTC."""
    assert expected == moment(time_ms, 10 * DAY + 5)


@pytest.mark.parametrize(
    ("time_ms", "expected"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1999, "1 s 999 ms"),
        (2000, "2 s"),
        (5_400_000, "1 h 30 min"),
        (DAY, "1 d"),
        (2 * DAY + 6 * 3_600_000 + 59_000, "2 d 6 h"),
        (413 * DAY + 1, "413 d"),
    ],
)
def test_a_duration_is_in_its_two_largest_units(time_ms: int, expected: str) -> None:
    """Rounded down; what is printed can be typed."""
    assert expected == duration(time_ms)
    assert expected == duration(duration_ms(expected) or 0)


def test_retired_files_of_several_times_have_the_first_and_the_last() -> None:
    """Those of one minute have one time; those without a time have none."""
    assert "2 files, 3.0 KiB, purged from 00:01 to 00:05" == retired(
        [(1024, 300_000), (2048, 60_000)], 0
    )
    assert "2 files, 2 B, purged from 00:01" == retired([(1, 60_001), (1, 60_000)], 0)
    assert "1 file, 7 B, retired" == retired([(7, None)], 0)
    assert "1 file, 7 B, purge due since 00:01" == retired([(7, 60_000)], 60_000)


def test_only_names_that_stay_distinct_are_shortened() -> None:
    """Short names stay, and so do two that differ in the middle only."""
    long, twin = (f"{'x' * 40}{one}{'y' * 40}-0" for one in "ab")
    assert {"t-0": "t-0", long: long, twin: twin} == short_names(["t-0", long, twin])
    assert LONGEST_NAME == len(short_names([long])[long])
