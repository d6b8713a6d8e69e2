"""The names that retired files get, and the record of when."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from logwright.errors import InvariantError
from logwright.format.deletions import (
    Origin,
    Retirement,
    parse_ledger,
    parse_retirements,
    remaining_ledger,
    serialize_retirement,
)
from logwright.format.lines import parse_lines, serialize_line
from logwright.steps.retire import deleted_names, record_retirement, recorded_names
from logwright.steps.step import Append, FsyncDir, FsyncFile
from logwright.units import TimestampMs

A, B = "00000000000000000000.log", "00000000000000000000.index"
RETAIN = Origin(operation="retain", id="1-a", facts={"epochs": [[0, 0]]})
UNDO = Origin(operation="undo", id="2-b", facts={"of": "1-a"})


def times(ledger: bytes) -> dict[str, int]:
    """``.deleted`` name → time of its last retirement."""
    return {name: line.at_ms for name, line in parse_ledger(ledger).items()}


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
    ledger = "/logs/t-0/.logwright/deletions.jsonl"
    steps = record_retirement(Path("/logs/t-0"), [f"{A}.deleted"], now_ms=TimestampMs(5))
    assert steps == (
        Append(ledger, serialize_retirement([f"{A}.deleted"], at_ms=5), create=True),
        FsyncFile(ledger),
        FsyncDir("/logs/t-0/.logwright"),
    )


def test_ledger_round_trip() -> None:
    """What is written is read, and the latest record of a name counts."""
    content = serialize_retirement(["a", "b"], at_ms=7) + serialize_retirement(["b"], at_ms=9)
    assert times(content) == {"a": 7, "b": 9}
    assert times(remaining_ledger(content, {"a", "b"})) == {"a": 7, "b": 9}
    assert [{"at_ms": 7, "files": ["a"]}] == list(parse_lines(serialize_retirement(["a"], at_ms=7)))
    assert times(b"") == {}


def test_name_given_again_makes_the_earlier_record_incomplete() -> None:
    """An undo of the earlier operation would bring back another one's file."""
    content = serialize_retirement(["a", "b"], at_ms=7, origin=RETAIN)
    content += serialize_retirement(["b"], at_ms=9)
    assert parse_retirements(content) == (
        Retirement(at_ms=7, files=("a",), origin=RETAIN, incomplete=True),
        Retirement(at_ms=9, files=("b",)),
    )


def test_interrupted_retirement_goes_on_under_its_names() -> None:
    """The newest record of a file that is still live counts; names in use are not given again."""
    content = serialize_retirement([f"{A}.deleted", f"{B}.deleted"], at_ms=7, origin=RETAIN)
    content += serialize_retirement([f"{A}.1.deleted"], at_ms=9, origin=RETAIN)
    assert recorded_names([A, B], content, present={A, B}) == {
        A: f"{A}.1.deleted",
        B: f"{B}.deleted",
    }
    assert recorded_names([A, B], content, present={A, B, f"{B}.deleted"}) == {A: f"{A}.1.deleted"}
    assert recorded_names([A], b"", present={A}) == {}


def test_record_with_a_wrong_byte_is_passed_over() -> None:
    """An undo cannot distinguish it from what was written."""
    line = serialize_retirement(["a"], at_ms=7, origin=RETAIN)
    for at in range(1, len(line) - 1):
        wrong = line[:at] + bytes([line[at] ^ 1]) + line[at + 1 :]
        assert parse_retirements(wrong) == ()


def test_torn_append_spoils_no_other_line() -> None:
    """However short an append was cut, the records before and after it are read."""
    first, torn, last = (
        serialize_retirement([name], at_ms=at) for name, at in (("a", 1), ("b", 2), ("c", 3))
    )
    for cut in range(len(torn)):
        read = times(first + torn[:cut] + last)
        assert {"a": 1, "c": 3}.items() <= read.items()
        assert read.get("b", 2) == 2


@pytest.mark.parametrize(
    "line", [b"[]", b"7", b'{"at_ms":"1","files":[]}', b'{"at_ms":1}', b"\xff", b"[" * 100_000]
)
def test_line_that_is_no_record_is_passed_over(line: bytes) -> None:
    """The ledger is a file like any other: what it holds may be anything."""
    assert times(line + serialize_retirement(["a"], at_ms=1)) == {"a": 1}


def test_origin_is_read_back() -> None:
    """What did it, and what an undo needs, survive; what a recovery retires has neither."""
    content = serialize_retirement(["b", "a"], at_ms=7, origin=RETAIN)
    content += serialize_retirement(["c"], at_ms=8)
    assert parse_retirements(content) == (
        Retirement(at_ms=7, files=("a", "b"), origin=RETAIN),
        Retirement(at_ms=8, files=("c",)),
    )


def test_partly_purged_operation_says_so() -> None:
    """An undo must know that files are gone; what is left of the others is as it was."""
    content = serialize_retirement(["a", "b"], at_ms=7, origin=RETAIN)
    content += serialize_retirement([], at_ms=8, origin=UNDO)
    left = parse_retirements(remaining_ledger(content, {"b"}))
    assert left == (
        Retirement(at_ms=7, files=("b",), origin=RETAIN, incomplete=True),
        Retirement(at_ms=8, files=(), origin=UNDO),
    )
    again = remaining_ledger(remaining_ledger(content, {"b"}), {"b"})
    assert parse_retirements(again) == left
    assert remaining_ledger(content, set()) == b""


def test_origin_of_another_form_counts_as_none() -> None:
    """A line that a later version wrote still says when; only the undo goes without."""
    line = serialize_line({"at_ms": 3, "files": ["a"], "operation": "dance", "id": 4})
    assert parse_retirements(line) == (Retirement(at_ms=3, files=("a",)),)


def test_the_delay_is_on_record() -> None:
    """In whole milliseconds, as the settings had it; anything else counts as none, as it is
    in the lines of earlier versions.
    """
    origin = Origin(operation="swap", id="x", delay_ms=3_600_000)
    line = serialize_retirement(["a"], at_ms=7, origin=origin)
    (read,) = parse_retirements(line)
    assert (origin, 3_600_007) == (read.origin, read.not_before_ms)
    assert line == remaining_ledger(line, {"a"})
    for wrong in ("3600000.5", "true", "-1", '"1"', "null"):
        entry = json.loads(line.decode().strip()) | {"delay_ms": json.loads(wrong)}
        entry.pop("crc")
        (read,) = parse_retirements(serialize_line(entry))
        assert read.origin is not None
        assert (0, 7) == (read.origin.delay_ms, read.not_before_ms)
    assert 9 == parse_retirements(serialize_retirement(["a"], at_ms=9))[0].not_before_ms
