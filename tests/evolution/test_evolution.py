"""However the schemas of a topic evolve: a row is what the official decoder reads, or it is refused
by name.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.evolution import judge
from tests.evolution.draw import FIRST, KINDS
from tests.evolution.judge import Figures
from tests.evolution.run import quiet, run_many
from tests.evolution.tables import Found, update

IN_EVERY_RUN = 10
"""Histories of each kind of schemas."""
NIGHTLY = 1_500
MOST = 10_000
"""Seeds of a run are below this multiple of its number."""


def histories(tmp_path: Path, first: int, count: int) -> Figures:
    """Some of them."""
    with quiet():
        return run_many(range(first, first + count), tmp_path)


def test_evolution(tmp_path: Path, seed: int) -> None:
    """Of all kinds of schemas; tables of Parquet, some of Delta."""
    figures = histories(tmp_path, seed * MOST, IN_EVERY_RUN * len(KINDS))
    assert [] == figures.differences
    assert IN_EVERY_RUN * len(KINDS) == figures.histories
    assert figures.records > figures.histories
    assert figures.counts["fastavro agrees"] > 0


@pytest.mark.parametrize("kind", KINDS)
def test_columns_of_another_version_are_found(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The judge finds a table that does not have the columns that it says."""

    def of_the_first(*arguments: Any) -> Found:
        contents = update(*arguments)
        contents.values = (FIRST, contents.values[1])
        return contents

    monkeypatch.setattr(judge, "update", of_the_first)
    with quiet():
        figures = run_many(range(8), tmp_path, kind=kind)
    assert figures.different


@pytest.mark.nightly
def test_many_evolutions(tmp_path: Path, seed: int) -> None:
    """The same, longer."""
    figures = histories(tmp_path, (seed + 1) * MOST, NIGHTLY)
    assert [] == figures.differences
    assert figures.refusals
