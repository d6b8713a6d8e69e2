"""A manifest is read as it was written, and nothing else is."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from logwright.bucket.manifest import (
    MOST_OPERATIONS,
    LogState,
    Manifest,
    following,
    manifest_key,
    parse_manifest,
    serialize_manifest,
    version_of,
)
from logwright.bucket.stored import StoredFile, StoredSegment, StoredSnapshot
from logwright.errors import CorruptLogError, UnsupportedFormatError

FILE = StoredFile(key="data/a-0-1.log", bytes=300, crc32c=7, head=b"\x00\xff", tail=b"end")


def segment(base: int, end: int) -> StoredSegment:
    return StoredSegment(
        base_offset=base,
        next_offset=end,
        max_timestamp_ms=-1,
        modified_ns=5,
        log=FILE,
        index=replace(FILE, key="data/a-0-2.index"),
        timeindex=FILE,
    )


STATE = LogState(
    topic="t",
    number=3,
    topic_id="A" * 22,
    log_start_offset=1,
    high_watermark=9,
    log_end_offset=12,
    cleaner_checkpoint=None,
    leader_epochs=b"0\n1\n0 0\n",
    configs={"cleanup.policy": "compact"},
    segments=(segment(0, 10), replace(segment(10, 12), txnindex=FILE)),
    snapshots=(StoredSnapshot(offset=10, modified_ns=6, file=FILE),),
)


def manifest(state: LogState = STATE) -> Manifest:
    return following(None, state, operation="job", attempt=2, written_ms=44)


def test_what_is_written_is_read() -> None:
    """Every field, also bytes that are not a text."""
    written = manifest()
    assert written == parse_manifest(serialize_manifest(written), "x")
    assert ("job", 0, -1) == (written.operation, written.version, written.parent)
    assert 0 == written.version_of("job")


def test_segments_are_a_sequence() -> None:
    """Those of a manifest are as those that it was made of, however they are looked at."""
    read = parse_manifest(serialize_manifest(manifest()), "x").state.segments
    assert 2 == len(read)
    assert [*STATE.segments] == [*read]
    assert STATE.segments[-1] == read[-1]
    assert STATE.segments[:1] == read[:1]
    assert [*reversed(STATE.segments)] == [*reversed(read)]
    assert STATE.segments == read
    assert read != STATE.segments[:1]
    assert read != list(STATE.segments)
    with pytest.raises(IndexError):
        read[2]


def test_the_last_operations_are_named() -> None:
    """As many as fit, with the versions that they made."""
    last = manifest()
    for number in range(1, MOST_OPERATIONS + 5):
        last = following(last, STATE, operation=f"job{number}", attempt=0, written_ms=0)
    assert MOST_OPERATIONS == len(last.operations)
    assert (None, 6) == (last.version_of("job"), last.version_of("job6"))
    assert last == parse_manifest(serialize_manifest(last), "x")


def test_names() -> None:
    """Of a version and back; nothing else is one."""
    assert "manifest/00000000000000000012" == manifest_key(12)
    assert 12 == version_of(manifest_key(12))
    for key in ("manifest/12", "manifest/000000000000000000120", "data/x", "manifest/"):
        assert version_of(key) is None


@pytest.mark.parametrize("position", [0, 40, -70, -2])
def test_a_changed_byte_is_noticed(position: int) -> None:
    """Wherever it is, in the body or in the checksum."""
    content = bytearray(serialize_manifest(manifest()))
    content[position] ^= 1
    with pytest.raises(CorruptLogError, match="x: the manifest's checksum does not match"):
        parse_manifest(bytes(content), "x")


@pytest.mark.parametrize("size", [0, 10, 64, 65, 66, 500])
def test_a_part_is_refused(size: int) -> None:
    """Of any length."""
    with pytest.raises(CorruptLogError, match="checksum"):
        parse_manifest(serialize_manifest(manifest())[:size], "x")


def signed(change: Callable[[dict[str, Any]], object]) -> bytes:
    """A manifest with a change, and the checksum of that."""
    body = json.loads(serialize_manifest(manifest()).partition(b"\n")[0])
    change(body)
    content = json.dumps(body).encode() + b"\n"
    return content + hashlib.sha256(content).hexdigest().encode() + b"\n"


def in_segment(name: str, value: object) -> Callable[[dict[str, Any]], object]:
    return lambda body: body["state"]["segments"][name].__setitem__(1, value)


def in_file(name: str, value: object) -> Callable[[dict[str, Any]], object]:
    return lambda body: body["state"]["segments"]["log"][name].__setitem__(0, value)


def in_columns(name: str, value: object) -> Callable[[dict[str, Any]], object]:
    return lambda body: body["state"]["segments"].update({name: value})


def shorter(*names: str) -> Callable[[dict[str, Any]], object]:
    def change(body: dict[str, Any]) -> None:
        column = body["state"]["segments"]
        for name in names:
            column = column[name]
        column.pop()

    return change


def in_state(name: str, value: object) -> Callable[[dict[str, Any]], object]:
    return lambda body: body["state"].update({name: value})


def _without_segments(columns: dict[str, Any]) -> None:
    for column in columns.values():
        for each in column.values() if isinstance(column, dict) else (column,):
            each.clear()


WRONG: dict[str, Callable[[dict[str, Any]], object]] = {
    "a key that leads elsewhere": in_file("key", "data/../../other/data/x.log"),
    "a key without a name": in_file("key", "data/"),
    "a file larger than any": in_file("bytes", 1 << 31),
    "a negative size": in_file("bytes", -1),
    "a size that is a text": in_file("bytes", "300"),
    "ends longer than the file": in_file("bytes", 1),
    "an unknown field": in_columns("other", []),
    "a long begin": in_file("head", "AAAA" * 100),
    "a segment before the one before": in_segment("base_offset", 3),
    "a segment that ends before it begins": in_segment("next_offset", 9),
    "an offset above int64": in_segment("next_offset", 1 << 63),
    "another end": in_state("log_end_offset", 11),
    "a high watermark beyond the end": in_state("high_watermark", 13),
    "a start beyond the high watermark": in_state("log_start_offset", 10),
    "no column": in_state("segments", {}),
    "segments one by one": in_state("segments", []),
    "a column that ends before the others": shorter("next_offset"),
    "a file that has no size": shorter("index", "bytes"),
    "a transaction index that has no segment": shorter("with_txnindex"),
    "a transaction index of a segment that is not there": in_columns("with_txnindex", [2]),
    "no segment": lambda body: _without_segments(body["state"]["segments"]),
    "a topic that is a path": in_state("topic", "../t"),
    "a short id": in_state("topic_id", "A"),
    "another last operation": lambda body: body.update(operation="other"),
    "no operation": lambda body: body.update(operations=[]),
    "no version": lambda body: body.pop("version"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_true_is_refused(name: str) -> None:
    """With a checksum that is right: a manifest is untrusted input."""
    with pytest.raises(CorruptLogError, match=r"malformed|contradicts itself"):
        parse_manifest(signed(WRONG[name]), "x")


def test_two_segments_with_one_base_offset_are_refused() -> None:
    """Their files would have the same names."""
    empty = segment(12, 12)
    twice = replace(STATE, segments=(*STATE.segments, empty, empty))
    with pytest.raises(CorruptLogError, match="two segments have the base offset 12"):
        parse_manifest(serialize_manifest(manifest(twice)), "x")


def test_another_format_is_said() -> None:
    """Not that it is damaged."""
    with pytest.raises(UnsupportedFormatError, match="format is not 3"):
        parse_manifest(signed(lambda body: body.update(format=1, new=1)), "x")


def test_nothing_of_the_content_is_in_a_message() -> None:
    """A manifest may be anything."""
    with pytest.raises(CorruptLogError) as caught:
        parse_manifest(signed(in_state("topic", "secret/")), "x")
    assert "secret" not in str(caught.value)
