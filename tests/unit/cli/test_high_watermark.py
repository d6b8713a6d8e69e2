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
        ((SECTION[None], None), COMMITTED),
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
