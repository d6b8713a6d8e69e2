"""What a metadata log may take of memory and time: nothing that it promises is believed."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest

from logwright.errors import CorruptBatch
from logwright.format.batch import HEADER_BYTES, parse_batch, serialize_batch
from logwright.format.codec import compress
from logwright.metadata import files
from logwright.metadata.read import read_metadata
from tests.metadata_builder import NO_OP, MetadataBuilder, batches, topic

FIRST, SECOND = batches(0, [topic("t", 1), NO_OP], [NO_OP, NO_OP])


@pytest.fixture
def directory(tmp_path: Path) -> MetadataBuilder:
    """An empty directory."""
    return MetadataBuilder(tmp_path / "kafka-logs")


def test_damage_of_more_than_a_batch_is_no_torn_tail(
    directory: MetadataBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No append that was interrupted leaves so much."""
    monkeypatch.setattr(files, "LARGEST_TORN_BYTES", 100)
    path = directory.write(f"{0:020d}.log", [FIRST, bytes(100)])
    assert 2 == read_metadata(directory.path).end_offset
    path.write_bytes(FIRST + bytes(101))
    with pytest.raises(CorruptBatch, match="corrupt after offset 2"):
        read_metadata(directory.path)


def test_a_tail_like_many_batches_is_refused_in_time(
    directory: MetadataBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where every byte could begin a batch, not every one is tried."""
    monkeypatch.setattr(files, "_MOST_CHECKED_BYTES", 10_000)
    hostile = (bytes(8) + b"\x00\x00\x02\x02" + bytes(4) + b"\x02" + bytes(44)) * 100
    directory.write(f"{0:020d}.log", [FIRST, b"\x55" * 20, hostile])
    with pytest.raises(CorruptBatch, match="corrupt after offset 2"):
        read_metadata(directory.path)


ONE = batches(2, [NO_OP])[0][HEADER_BYTES:]
"""The records of a batch of one."""


@pytest.mark.parametrize(("last_delta", "count"), [(1, 1), (0, 2), (10**7, 1), (10**7, 10**7 + 1)])
def test_a_batch_without_all_of_its_records_is_refused(
    directory: MetadataBuilder, last_delta: int, count: int
) -> None:
    """The metadata log is not compacted: one that is missing may have set something. What a header
    promises takes no memory before it is there.
    """
    header = replace(parse_batch(SECOND), last_offset_delta=last_delta, records_count=count)
    directory.write(f"{0:020d}.log", [FIRST, serialize_batch(header, ONE)])
    tracemalloc.start()
    with pytest.raises(CorruptBatch, match="at offset 2 lacks records"):
        read_metadata(directory.path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 * 1024 * 1024


def test_a_batch_of_very_many_records_is_refused(directory: MetadataBuilder) -> None:
    """Compressed they are few bytes, decoded they would be gigabytes."""
    count = files.MOST_RECORDS + 1
    header = replace(
        parse_batch(SECOND), attributes=1, last_offset_delta=count - 1, records_count=count
    )
    records = compress(1, b"".join([b"\x0c\x00\x00\x00\x01\x01\x00"] * count))
    directory.write(f"{0:020d}.log", [FIRST, serialize_batch(header, records)])
    with pytest.raises(CorruptBatch, match=f"or has more than {files.MOST_RECORDS}"):
        read_metadata(directory.path)


def test_a_batch_larger_than_any_is_refused(
    directory: MetadataBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not read into memory, and no torn tail has its size."""
    path = directory.segment(0, [topic("t", 1), NO_OP], [NO_OP] * 200)
    for name in ("WINDOW_BYTES", "LARGEST_TORN_BYTES"):
        monkeypatch.setattr(files, name, 1_000)
    with pytest.raises(CorruptBatch, match="corrupt after offset 2") as refused:
        read_metadata(directory.path)
    assert (path, len(FIRST)) == (refused.value.path, refused.value.position)
