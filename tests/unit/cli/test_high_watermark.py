"""What counts as committed: the option, else the policies, else all of a stopped log."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.log_builder import START_MS, LogBuilder
from tests.unit.cli.conftest import Call

SECTION = {"end": "high_watermark: end\n", "checkpoint": "high_watermark: checkpoint\n", None: ""}
END = 4
"""Where the closed segments end."""
COMMITTED = 3
"""What the high watermark's checkpoint says: some replicas do not have the last record."""


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    builder = LogBuilder(tmp_path / "logs")
    builder.segment(0).batch(0, [("a", "1"), ("b", "1"), ("a", "2")])
    builder.segment(COMMITTED).batch(COMMITTED, [("b", "2")])
    builder.segment(END)
    return builder.write(high_watermark=COMMITTED).log_dir


def words(tmp_path: Path, policies: str | None, option: str | None) -> list[str | Path | int]:
    """Options of a command; `policies` is the content of their only file, None: no policies."""
    options: list[str | Path | int] = ["--now", START_MS + 10_000, "--output", "json"]
    options += ["--config", "cleanup.policy=compact"]
    if policies is not None:
        (tmp_path / "policies").mkdir()
        (tmp_path / "policies" / "p.yml").write_text(f"version: 1\n{policies}")
        options += ["--policies", tmp_path / "policies"]
    return options if option is None else [*options, "--high-watermark", option]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ((None, None), END),
        ((None, "checkpoint"), COMMITTED),
        ((SECTION["checkpoint"], None), COMMITTED),
        ((SECTION["end"], None), END),
        ((SECTION[None], None), END),
        ((SECTION["checkpoint"], "end"), END),
        ((SECTION["end"], "checkpoint"), COMMITTED),
    ],
)
def test_nothing_above_it_is_cleaned(
    call: Call,
    tmp_path: Path,
    log_dir: Path,
    given: tuple[str | None, str | None],
    expected: int,
) -> None:
    """A record above the high watermark may still be replaced by another leader's."""
    options = words(tmp_path, *given)
    (inspected,) = call("inspect", log_dir, "t-0", *options).lines
    assert expected == inspected["highWatermark"]
    assert expected == call("plan", log_dir, *options).lines[0]["highWatermark"]
    answer = call("clean", log_dir, *options, "--force", "--yes")
    assert 0 == answer.status, answer.err
    assert expected == answer.lines[0]["newFirstDirtyOffset"]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ((None, None), "the end of each log (the default of the command line)"),
        ((SECTION[None], None), "the end of each log (the default of the command line)"),
        (
            (SECTION["checkpoint"], None),
            "replication-offset-checkpoint (high_watermark: checkpoint of the policies)",
        ),
        ((SECTION["checkpoint"], "end"), "the end of each log (--high-watermark end)"),
    ],
)
def test_a_plan_names_where_it_is_from(
    call: Call,
    tmp_path: Path,
    log_dir: Path,
    given: tuple[str | None, str | None],
    expected: str,
) -> None:
    """What counts as committed, and what says so: the same with and without other policies."""
    options = words(tmp_path, *given)
    text = call("plan", log_dir, *options, "--output", "text")
    assert f"high watermark: {expected}" == text.out.splitlines()[1]
    summary = call("plan", log_dir, *options).lines[-1]
    assert expected.endswith(f"({summary['highWatermarkFrom']})")


def test_a_reason_names_the_checkpoint(call: Call, tmp_path: Path, log_dir: Path) -> None:
    """Where the high watermark holds a cleaning back, the reason has its file, not only "the last
    stable offset".
    """
    builder = LogBuilder(tmp_path / "held")
    builder.segment(0).batch(0, [("a", "1"), ("b", "1"), ("a", "2")])
    builder.segment(COMMITTED).batch(COMMITTED, [("b", "2")])
    builder.segment(END)
    log_dir = builder.write(high_watermark=2).log_dir
    options = words(tmp_path, SECTION["checkpoint"], None)
    line = call("plan", log_dir, *options).lines[0]
    expected = "first uncleanable offset 0: the high watermark of replication-offset-checkpoint"
    assert expected in " ".join(line["reasons"])
    text = call("plan", log_dir, *options, "--output", "text").out
    assert "not cleaned from offset 2 on: the high watermark of replication-off" in text
