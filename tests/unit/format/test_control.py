"""Control records both ways."""

from __future__ import annotations

import pytest

from logwright.errors import CorruptBatch
from logwright.format.batch import parse_batch
from logwright.format.control import (
    ControlType,
    parse_control_key,
    parse_marker_value,
    serialize_control_key,
    serialize_marker_value,
)
from logwright.format.record import read_records
from tests.unit.format import builders


def test_kafkas_abort_marker() -> None:
    """A whole marker batch as Kafka wrote it: ABORT, coordinator epoch 9, at offset 5."""
    content = builders.ABORT_MARKER
    (record,) = read_records(parse_batch(content), content)
    assert (record.offset, record.timestamp_ms, record.sequence) == (5, 1234, -1)
    assert ControlType.ABORT is parse_control_key(record.key)
    assert parse_marker_value(record.value) == 9
    assert record.key == serialize_control_key(ControlType.ABORT)
    assert record.value == serialize_marker_value(9)


@pytest.mark.parametrize("kind", list(ControlType))
def test_control_keys_round_trip(kind: ControlType) -> None:
    """Ids 0 to 6, and -1 which nobody writes."""
    assert kind is parse_control_key(serialize_control_key(kind))


@pytest.mark.parametrize("key", [b"\x00\x00\x00\x07", b"\x00\x00\x7f\xff"])
def test_unknown_types_are_no_error(key: bytes) -> None:
    """Readers skip them, the cleaner never discards them."""
    assert ControlType.UNKNOWN is parse_control_key(key)


def test_only_markers_end_transactions() -> None:
    """COMMIT and ABORT."""
    ending = [kind for kind in ControlType if kind.ends_transaction]
    assert ending == [ControlType.ABORT, ControlType.COMMIT]


def test_later_versions_are_read_as_version_0() -> None:
    """Of keys and of values; bytes after what is known are ignored."""
    assert ControlType.COMMIT is parse_control_key(b"\x00\x05\x00\x01more")
    assert parse_marker_value(b"\x00\x05\x00\x00\x00\x09more") == 9


@pytest.mark.parametrize("key", [None, b"", b"\x00\x00\x00", b"\xff\xff\x00\x00"])
def test_malformed_keys_are_refused(key: bytes | None) -> None:
    """Missing, too short, of a negative version."""
    with pytest.raises(CorruptBatch):
        parse_control_key(key)


@pytest.mark.parametrize("value", [None, b"", b"\x00" * 5, b"\xff\xff\x00\x00\x00\x00"])
def test_malformed_values_are_refused(value: bytes | None) -> None:
    """Missing, too short, of a negative version."""
    with pytest.raises(CorruptBatch):
        parse_marker_value(value)
