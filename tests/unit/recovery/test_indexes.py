"""When a recovery rebuilds the indexes of a segment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from logwright.format.names import INDEX, TIMEINDEX, TXNINDEX
from logwright.recovery.indexes import index_problem
from logwright.recovery.segments import LoadedSegment
from tests.unit.recovery.test_splitting import a_segment

Files = dict[str, bytes]
ENTRY = (3).to_bytes(4, "big") + (200).to_bytes(4, "big")
TIME_ENTRY = (1_760_000_000_000).to_bytes(8, "big") + (3).to_bytes(4, "big")


def problem(segment: LoadedSegment, files: Files, *, like_kafka: bool = False) -> str | None:
    return index_problem(segment, lambda _, suffix: files[suffix], like_kafka=like_kafka)


@pytest.fixture
def files() -> Files:
    return {INDEX: ENTRY, TIMEINDEX: TIME_ENTRY, TXNINDEX: b""}


@pytest.fixture
def segment(tmp_path: Path) -> LoadedSegment:
    return a_segment(tmp_path, 0, 1, 2, 3)


def test_right_indexes_stay(segment: LoadedSegment, files: Files) -> None:
    """Nothing is rebuilt without a reason."""
    assert problem(segment, files) is None
    assert problem(segment, files, like_kafka=True) is None


def test_a_missing_offset_index_is_rebuilt(segment: LoadedSegment, files: Files) -> None:
    """By Kafka as well."""
    without = replace(segment, has_index=False)
    assert "its .index is missing" == problem(without, files)
    assert "its .index is missing" == problem(without, files, like_kafka=True)


def test_kafka_accepts_a_missing_time_index(segment: LoadedSegment, files: Files) -> None:
    """It creates an empty one."""
    without = replace(segment, has_timeindex=False)
    assert "its .timeindex is missing" == problem(without, files)
    assert problem(without, files, like_kafka=True) is None


@pytest.mark.parametrize(
    "damage",
    [
        lambda files: files.update({INDEX: ENTRY[:-1]}),
        lambda files: files.update({INDEX: ENTRY + ENTRY}),
        lambda files: files.update({INDEX: ENTRY[:4] + (1 << 30).to_bytes(4, "big")}),
        lambda files: files.update({TIMEINDEX: TIME_ENTRY + TIME_ENTRY}),
    ],
    ids=["cut entry", "offset twice", "beyond the log", "time twice"],
)
def test_a_wrong_entry_is_found(
    segment: LoadedSegment, files: Files, damage: Callable[[Files], None]
) -> None:
    """An index is a hint that is checked; Kafka trusts it after a clean stop."""
    damage(files)
    wrong = problem(segment, files)
    assert wrong is not None
    assert wrong.startswith("an index of it is wrong: ")
    assert problem(segment, files, like_kafka=True) is None


def test_a_wrong_transaction_index_is_marked(segment: LoadedSegment, files: Files) -> None:
    """What must not be read as an index is rebuilt from the log, and known as the cause."""
    files[TXNINDEX] = b"x" * 33
    marked = replace(segment, has_txnindex=True)
    wrong = problem(marked, files)
    assert wrong is not None
    assert wrong.startswith("its .txnindex is wrong: ")
    assert marked.txnindex_wrong
