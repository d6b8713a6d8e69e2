"""Batches that cannot be read: refused by file and position, or left out and counted."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from logwright.batches import segment_file
from logwright.errors import CorruptLogError, UnsupportedFormatError
from logwright.format.batch import CRC_START
from logwright.format.codec import GZIP
from logwright.format.crc import crc32c
from logwright.log.model import PartitionLog
from logwright.records.model import ReadCounts, ReadRequest
from tests.log_builder import LogBuilder
from tests.plain_consumer import arrow_rows
from tests.unit.records.reading import observed_again, offsets, read

SKIP = ReadRequest(on_corrupt="skip")
Damage = Callable[[bytearray, int], None]


def set_bytes(at: int, form: str, value: int) -> Damage:
    """Write a field of the batch's header."""

    def damage(content: bytearray, position: int) -> None:
        struct.pack_into(form, content, position + at, value)

    return damage


def with_right_crc(damage: Damage) -> Damage:
    """Damage the batch, and make its CRC right again."""

    def damage_and_sign(content: bytearray, position: int) -> None:
        damage(content, position)
        (length,) = struct.unpack_from(">i", content, position + 8)
        crc = crc32c(bytes(content[position + CRC_START : position + 12 + length]))
        struct.pack_into(">I", content, position + 17, crc)

    return damage_and_sign


def flip_in_records(content: bytearray, position: int) -> None:
    """One bit of a value."""
    content[position + 75] ^= 4


def damaged(
    tmp_path: Path, damage: Damage, *, codec: int = 0, batch: int = 3
) -> tuple[PartitionLog, int, int]:
    """Two segments of five batches of two records, one of them damaged; its position and size."""
    builder = LogBuilder(tmp_path / "logs")
    for base in (0, 10):
        segment = builder.segment(base)
        for at in range(base, base + 10, 2):
            segment.batch(at, [(f"k{at}", "v" * 20), (f"k{at + 1}", "w" * 20)], codec=codec)
    builder.segment(20)
    builder.write()
    contents = builder.segments[0].batches
    position = sum(map(len, contents[:batch]))
    path = builder.directory / f"{0:020}.log"
    content = bytearray(path.read_bytes())
    damage(content, position)
    path.write_bytes(content)
    return observed_again(builder), position, len(contents[batch])


def wrong_count_and_length(content: bytearray, position: int) -> None:
    """A length that leads into the next batch."""
    set_bytes(8, ">i", 100)(content, position)
    set_bytes(57, ">i", -1)(content, position)


def count_no_record(content: bytearray, position: int) -> None:
    """Make a control batch of it that has no records, as a cleaning leaves them."""
    set_bytes(21, ">h", 0x20)(content, position)
    set_bytes(57, ">i", 0)(content, position)


AFTER_IT_ALL_IS_READ = {
    "a flipped bit": flip_in_records,
    "another length of a record": with_right_crc(set_bytes(61, ">b", 0x7C)),
    "a key longer than the record": with_right_crc(set_bytes(65, ">b", 0x7E)),
    "a record count below the records": with_right_crc(set_bytes(57, ">i", 1)),
    "a record count above the offsets": with_right_crc(set_bytes(57, ">i", 3)),
    "an absurd record count": set_bytes(57, ">i", 2**31 - 1),
    "an absurd offset delta": set_bytes(23, ">i", 2**31 - 1),
    "a negative offset delta": set_bytes(23, ">i", -1),
    "an offset delta up to the segment's end": set_bytes(23, ">i", 3),
    "an unknown codec": with_right_crc(set_bytes(21, ">h", 7)),
    "not compressed by its codec": with_right_crc(set_bytes(21, ">h", 3)),
    "a control batch without a type": with_right_crc(set_bytes(21, ">h", 0x20)),
    "a control batch without records but with bytes": with_right_crc(count_no_record),
    "a data batch without records but with bytes": with_right_crc(set_bytes(57, ">i", 0)),
    "an offset of the segment before": set_bytes(0, ">q", 1),
    "an offset of the segment after": set_bytes(0, ">q", 12),
}
REST_IS_SKIPPED = {
    "a length of zero": set_bytes(8, ">i", 0),
    "a negative length": set_bytes(8, ">i", -5),
    "a length into the middle of the next batch": set_bytes(8, ">i", 100),
    "a wrong count and a length into the next batch": wrong_count_and_length,
    "a length beyond the file": set_bytes(8, ">i", 2**31 - 1),
}
MAGIC = set_bytes(16, ">b", 1)


@pytest.fixture(params=[1, 1 << 20], autouse=True)
def sizes_of_pieces(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of one batch each, or of everything."""
    monkeypatch.setattr(segment_file, "PIECE_BYTES", request.param)


@pytest.mark.parametrize("damage", AFTER_IT_ALL_IS_READ)
@pytest.mark.parametrize("batch", [1, 3, 4])
def test_one_batch_is_left_out(tmp_path: Path, damage: str, batch: int) -> None:
    """What follows is read, as long as the length is right."""
    log, position, size = damaged(tmp_path, AFTER_IT_ALL_IS_READ[damage], batch=batch)
    counts = ReadCounts()
    read_offsets = [row[2] for row in arrow_rows(read(log, SKIP, counts=counts))]
    assert [offset for offset in range(20) if offset // 2 != batch] == read_offsets
    path = str(log.directory / f"{0:020}.log")
    assert (1, size) == (counts.corrupt_batches, counts.corrupt_bytes)
    assert counts.first_corrupt is not None
    assert (path, position) == counts.first_corrupt[:2]


@pytest.mark.parametrize("damage", REST_IS_SKIPPED)
def test_the_rest_of_a_segment_is_left_out(tmp_path: Path, damage: str) -> None:
    """Where nobody knows where the next batch begins."""
    log, _, size = damaged(tmp_path, REST_IS_SKIPPED[damage])
    counts = ReadCounts()
    read_offsets = [row[2] for row in arrow_rows(read(log, SKIP, counts=counts))]
    assert [*range(6), *range(10, 20)] == read_offsets
    # The batch of another length has a wrong CRC, and the rest follows it.
    batches = 2 if "middle" in damage else 1
    assert (batches, 2 * size) == (counts.corrupt_batches, counts.corrupt_bytes)


def test_another_magic(tmp_path: Path) -> None:
    """Batches of old formats have the same length field."""
    log, _, _ = damaged(tmp_path, MAGIC)
    assert [*range(6), *range(8, 20)] == offsets(log, SKIP)


@pytest.mark.parametrize(
    "damage", [*AFTER_IT_ALL_IS_READ.values(), *REST_IS_SKIPPED.values(), MAGIC]
)
def test_without_the_option_it_is_refused(tmp_path: Path, damage: Damage) -> None:
    """By file and position, unless the header is as it could be: then by the next batch's."""
    log, position, size = damaged(tmp_path, damage)
    with pytest.raises((CorruptLogError, UnsupportedFormatError)) as caught:
        read(log)
    assert log.directory / f"{0:020}.log" == caught.value.path
    assert caught.value.position in {position, position + size}
    assert caught.value.remedy


def test_what_does_not_decompress(tmp_path: Path) -> None:
    """A compressed batch with a right CRC is left out as well."""
    log, _, _ = damaged(tmp_path, with_right_crc(set_bytes(70, ">q", -1)), codec=GZIP)
    assert [*range(6), *range(8, 20)] == offsets(log, SKIP)


def test_no_row_of_a_batch_that_is_left_out(tmp_path: Path) -> None:
    """Though its first records are right, and the record batch is full after each row."""
    damage = with_right_crc(set_bytes(57, ">i", 1))
    log, _, _ = damaged(tmp_path, damage)
    batches = read(log, SKIP, batch_rows=1)
    assert [*range(6), *range(8, 20)] == [row[2] for row in arrow_rows(batches)]


def test_the_end_of_a_part_is_found(tmp_path: Path) -> None:
    """A batch whose wrong offset delta reaches beyond the end hides none of those before it."""
    log, _, _ = damaged(tmp_path, set_bytes(23, ">i", 3), batch=1)
    request = ReadRequest(on_corrupt="skip", end_offset=5)
    assert [0, 1, 4] == offsets(log, request)
