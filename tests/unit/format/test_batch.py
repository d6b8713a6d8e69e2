"""Record batch headers both ways, and the walk over a buffer."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logwright.errors import CorruptBatch, UnsupportedFormatError
from logwright.format.batch import (
    HEADER_BYTES,
    RecordBatch,
    crc_is_valid,
    decrement_sequence,
    emptied_batch,
    increment_sequence,
    parse_batch,
    serialize_batch,
    serialize_header,
    walk_batches,
)
from logwright.units import INT32_MAX, Offset, TimestampMs
from tests.unit.format import builders
from tests.unit.format.builders import a_batch, a_header

INT16 = st.integers(-(2**15), 2**15 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
HEADERS = st.builds(
    RecordBatch,
    base_offset=INT64,
    batch_length=st.integers(49, 2**31 - 1),
    partition_leader_epoch=INT32,
    crc=st.integers(0, 2**32 - 1),
    attributes=INT16,
    last_offset_delta=INT32,
    base_timestamp=INT64,
    max_timestamp=INT64,
    producer_id=INT64,
    producer_epoch=INT16,
    base_sequence=INT32,
    records_count=INT32,
)


def test_kafkas_two_records_parse_to_their_fields() -> None:
    """Every header field stands where Kafka writes it."""
    batch = parse_batch(builders.TWO_RECORDS)
    expected = RecordBatch(
        base_offset=Offset(100),
        batch_length=76,
        partition_leader_epoch=4,
        crc=0xC0A93F08,
        attributes=0,
        last_offset_delta=1,
        base_timestamp=TimestampMs(1000),
        max_timestamp=TimestampMs(1000),
        producer_id=7,
        producer_epoch=1,
        base_sequence=50,
        records_count=2,
    )
    assert expected == batch
    assert (
        batch.size_bytes,
        batch.last_offset,
        batch.next_offset,
        batch.last_sequence,
    ) == (88, 101, 102, 51)
    assert batch.delete_horizon_ms is None


def test_the_horizon_bit_makes_the_base_timestamp_a_delete_horizon() -> None:
    """KIP-534: baseTimestamp holds the horizon once attribute bit 6 is set."""
    assert parse_batch(builders.TOMBSTONE_WITH_HORIZON).delete_horizon_ms == 5600


def test_a_marker_is_transactional_and_control() -> None:
    """Attributes 0x30, no sequence."""
    batch = parse_batch(builders.ABORT_MARKER)
    assert (batch.is_transactional, batch.is_control, batch.last_sequence) == (True, True, -1)


@pytest.mark.parametrize(
    "content",
    [
        builders.TWO_RECORDS,
        builders.TOMBSTONE_WITH_HORIZON,
        builders.EMPTIED,
        builders.ABORT_MARKER,
    ],
)
def test_kafkas_batches_come_back_byte_for_byte(content: bytes) -> None:
    """Length and CRC are computed as Kafka computes them."""
    batch = parse_batch(content)
    assert crc_is_valid(batch, content)
    forgotten = replace(batch, crc=0, batch_length=0)
    assert content == serialize_batch(forgotten, content[HEADER_BYTES:])


def test_an_emptied_batch_is_the_one_that_kafka_leaves() -> None:
    """Source: DefaultRecordBatch.writeEmptyHeader, for the batch of two records."""
    emptied = emptied_batch(parse_batch(builders.TWO_RECORDS))
    assert serialize_batch(emptied, b"") == builders.EMPTIED


def test_an_emptied_batch_loses_codec_and_horizon_but_not_its_kind() -> None:
    """Attribute bits 3, 4 and 5 stay, the others go."""
    assert emptied_batch(a_header(attributes=0x7B)).attributes == 0x38


@given(HEADERS)
def test_headers_round_trip(batch: RecordBatch) -> None:
    """What is serialised is parsed back, whatever the values."""
    assert batch == parse_batch(serialize_header(batch))


@given(st.binary(max_size=200), st.integers(0, 7))
def test_one_wrong_bit_behind_the_crc_is_noticed(payload: bytes, bit: int) -> None:
    """The CRC covers all from the attributes on, and nothing before."""
    content = bytearray(serialize_batch(a_header(), payload))
    content[-1] ^= 1 << bit
    assert not crc_is_valid(parse_batch(bytes(content)), bytes(content))
    content[-1] ^= 1 << bit
    content[12] ^= 1 << bit
    assert crc_is_valid(parse_batch(bytes(content)), bytes(content))


def test_a_header_that_is_cut_off_is_refused() -> None:
    """60 bytes are not a header."""
    with pytest.raises(CorruptBatch, match="truncated"):
        parse_batch(builders.EMPTIED[:60])


def test_a_length_without_room_for_the_header_is_refused() -> None:
    """A v2 batch has at least 61 bytes, its length is at least 49."""
    content = bytearray(builders.EMPTIED)
    struct.pack_into(">i", content, 8, 48)
    with pytest.raises(CorruptBatch, match="shorter than its header"):
        parse_batch(bytes(content))


@pytest.mark.parametrize(
    ("magic", "problem", "remedy"),
    [
        (0, "unknown", "Restore the segment"),
        (1, "unknown", "Restore the segment"),
        (3, "unknown", "Restore the segment"),
        (-1, "unknown", "Restore the segment"),
    ],
)
def test_another_magic_is_refused(magic: int, problem: str, remedy: str) -> None:
    """Only magic 2 is read here; `logwright.format.legacy` has the old formats."""
    content = bytearray(builders.EMPTIED)
    content[16] = magic & 0xFF
    with pytest.raises(UnsupportedFormatError, match=problem) as refused:
        parse_batch(bytes(content))
    assert remedy in (refused.value.remedy or "")


def walked(content: bytes, *, in_memory: bool = False) -> list[tuple[int, int]]:
    return [(span.position, span.bytes) for span in walk_batches(content, in_memory=in_memory)]


def test_batches_are_walked_by_their_lengths() -> None:
    """Each span begins where the one before ended."""
    content = builders.TWO_RECORDS + builders.EMPTIED + builders.ABORT_MARKER
    assert walked(content) == [(0, 88), (88, 61), (149, 78)]


@pytest.mark.parametrize("left", [0, 1, 16, 17, 18, 60, 77])
def test_a_cut_off_batch_ends_the_walk_without_an_error(left: int) -> None:
    """FileLogInputStream gives no batch for a tail that is not whole."""
    assert walked(builders.TWO_RECORDS + builders.ABORT_MARKER[:left]) == [(0, 88)]


@pytest.mark.parametrize("length", [13, 0, -1, -(2**31)])
def test_an_impossible_length_is_an_error_with_its_position(length: int) -> None:
    """Lengths below the smallest legacy record's are corrupt; zero-filled tails end here."""
    tail = bytearray(61)
    struct.pack_into(">i", tail, 8, length)
    walk = walk_batches(builders.TWO_RECORDS + tail)
    assert next(walk).bytes == 88
    with pytest.raises(CorruptBatch) as refused:
        next(walk)
    assert refused.value.position == 88


def test_seventeen_zeros_are_ignored_in_a_file_and_refused_in_memory() -> None:
    """The two readers of Kafka differ in what a tail of 12 to 17 bytes is to them."""
    content = builders.EMPTIED + bytes(17)
    assert walked(content) == [(0, 61)]
    with pytest.raises(CorruptBatch):
        walked(content, in_memory=True)
    assert walked(builders.EMPTIED + bytes(11), in_memory=True) == [(0, 61)]


def test_a_later_magic_passes_the_file_reader_only() -> None:
    """The file reader leaves the magic to whoever reads the batch."""
    content = bytearray(builders.EMPTIED)
    content[16] = 3
    assert [span.magic for span in walk_batches(bytes(content))] == [3]
    with pytest.raises(UnsupportedFormatError):
        walked(bytes(content), in_memory=True)


def test_a_length_beyond_the_buffer_ends_the_walk() -> None:
    """A length of 2 GiB allocates nothing and is not a batch."""
    content = bytearray(a_batch())
    struct.pack_into(">i", content, 8, INT32_MAX)
    assert walked(bytes(content)) == []


@pytest.mark.parametrize(
    ("sequence", "increment", "expected"),
    [(0, 1, 1), (INT32_MAX, 1, 0), (INT32_MAX - 1, 3, 1), (15, -16777216, 2130706447)],
)
def test_sequences_wrap_at_int32(sequence: int, increment: int, expected: int) -> None:
    """DefaultRecordBatch.incrementSequence, also for a delta that is nonsense."""
    assert expected == increment_sequence(sequence, increment)


@given(st.integers(0, INT32_MAX), st.integers(0, INT32_MAX))
def test_decrementing_undoes_incrementing(sequence: int, change: int) -> None:
    """Sequences live in a ring of 2**31."""
    assert sequence == decrement_sequence(increment_sequence(sequence, change), change)
