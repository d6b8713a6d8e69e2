"""Whatever happens to log and table between two updates: the rows are right, or it is said."""

from __future__ import annotations

import logging
import warnings
from pathlib import Path

import pytest

from tests.differential.kafka_cleaner import KafkaCleaner
from tests.table_sequences.driver import Figures, Setting, run_many

pytestmark = [pytest.mark.crash, pytest.mark.oracle]

IN_EVERY_RUN = 8
NIGHTLY = 1_000
KNOWN = 42_430_870
"""A tombstone was forgotten while another partition has a row of its key."""
MOST = 10_000
"""Seeds of a run are below this multiple of its number."""


def sequences(tmp_path: Path, first: int, count: int) -> Figures:
    """Some of them, with Kafka's own cleaner."""
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), KafkaCleaner() as kafka:
            warnings.simplefilter("ignore")  # of the other programs
            setting = Setting(scratch=tmp_path / "work", kafka=kafka)
            return run_many(range(first, first + count), setting)
    finally:
        logging.disable(logging.NOTSET)


def test_table_sequences(tmp_path: Path, seed: int) -> None:
    """Of all three formats, with updates that die and with acts of other programs."""
    figures = sequences(tmp_path, seed * MOST, IN_EVERY_RUN)
    assert [] == figures.differences
    assert IN_EVERY_RUN == figures.sequences
    assert 2 * IN_EVERY_RUN <= figures.updates


def test_a_tombstone_of_a_key_with_a_row_is_remembered(tmp_path: Path) -> None:
    """Whatever is erased meanwhile."""
    assert [] == sequences(tmp_path, KNOWN, 1).differences


@pytest.mark.nightly
def test_many_table_sequences(tmp_path: Path, seed: int) -> None:
    """The same, longer."""
    figures = sequences(tmp_path, (seed + 1) * MOST, NIGHTLY)
    assert [] == figures.differences
    assert figures.refusals
    assert min(figures.killed, figures.by_others, figures.acts["clean"]) > 0
