"""The names that retired files get, and the record of when."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from logwright.errors import InvariantError
from logwright.format.deletions import parse_ledger, serialize_ledger, serialize_retirement
from logwright.steps.retire import deleted_names, record_retirement
from logwright.steps.step import Append, FsyncDir, FsyncFile
from logwright.units import TimestampMs

A, B = "00000000000000000000.log", "00000000000000000000.index"


def test_free_name_is_kafkas() -> None:
    """Without an earlier deletion the name is Kafka's."""
    assert deleted_names([A, B], present={A, B}) == {A: f"{A}.deleted", B: f"{B}.deleted"}


def test_taken_name_is_not_overwritten() -> None:
    """A file that waits for its purge keeps its name; ours still ends as the loader looks for."""
    present = {A, f"{A}.deleted", f"{A}.1.deleted"}
    assert deleted_names([A], present=present) == {A: f"{A}.2.deleted"}


def test_nothing_is_retired_twice() -> None:
    """Two renames of one file are a fault of the plan."""
    with pytest.raises(InvariantError):
        deleted_names([A, A], present={A})


def test_record_is_durable_and_in_the_work_directory() -> None:
    """The ledger is appended, synced, and its directory entry synced, in this order."""
    directory = Path("/logs/t-0")
    ledger = directory / ".logwright/deletions.jsonl"
    steps = record_retirement(directory, [f"{A}.deleted"], now_ms=TimestampMs(5))
    assert steps == (
        Append(ledger, serialize_retirement([f"{A}.deleted"], at_ms=5), create=True),
        FsyncFile(ledger),
        FsyncDir(ledger.parent),
    )


def test_ledger_round_trip() -> None:
    """What is written is read, and the latest record of a name counts."""
    content = serialize_retirement(["a", "b"], at_ms=7) + serialize_retirement(["b"], at_ms=9)
    assert parse_ledger(content) == {"a": 7, "b": 9}
    assert parse_ledger(serialize_ledger({"a": 7, "b": 9, "c": 7})) == {"a": 7, "b": 9, "c": 7}
    assert json.loads(serialize_retirement(["a"], at_ms=7)) == {"at_ms": 7, "files": ["a"]}
    assert parse_ledger(b"") == {}


def test_torn_append_spoils_no_other_line() -> None:
    """However short an append was cut, the records before and after it are read."""
    first, torn, last = (
        serialize_retirement([name], at_ms=at) for name, at in (("a", 1), ("b", 2), ("c", 3))
    )
    for cut in range(len(torn)):
        read = parse_ledger(first + torn[:cut] + last)
        assert {"a": 1, "c": 3}.items() <= read.items()
        assert read.get("b", 2) == 2


@pytest.mark.parametrize(
    "line", [b"[]", b"7", b'{"at_ms":"1","files":[]}', b'{"at_ms":1}', b"\xff", b"[" * 100_000]
)
def test_line_that_is_no_record_is_passed_over(line: bytes) -> None:
    """The ledger is a file like any other: what it holds may be anything."""
    assert parse_ledger(line + serialize_retirement(["a"], at_ms=1)) == {"a": 1}
