"""What the sums of records are made of: all that a cleaning keeps, and nothing that it changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from logwright.audit.model import HIDDEN, KEYED, TOMBSTONE, TRANSACTED
from logwright.audit.observe import look
from logwright.audit.records import read_rows
from logwright.errors import CorruptBatch
from logwright.format.batch import HEADER_BYTES, RecordBatch, parse_batch, serialize_batch
from logwright.format.siphash import HashKey
from tests.log_builder import START_MS, LogBuilder, SegmentBuilder
from tests.replicas import recoded

KEY = HashKey(low=1, high=2)


def sums(directory: Path, batch: bytes) -> list[int]:
    """The sums of a log of one batch."""
    builder = LogBuilder(directory)
    builder.segment(0).batches.append(batch)
    builder.write()
    replica = look(builder.log_dir, builder.partition, high_watermark="end")
    return [int(one) for rows in read_rows(replica, KEY) for one in rows["sum"]]


def written(value: str = "1", **more: object) -> bytes:
    """A batch of two records."""
    pairs = [("a", value), ("b", None)]
    (batch,) = SegmentBuilder(0).batch(0, pairs, producer_id=5, **more).batches  # type: ignore[arg-type]
    return batch


def changed(whole: bytes, change: Callable[[RecordBatch], RecordBatch]) -> bytes:
    """A batch with another header."""
    return serialize_batch(change(parse_batch(whole)), whole[HEADER_BYTES:])


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
def test_a_cleaning_keeps_them(tmp_path: Path, codec: int) -> None:
    """Whatever the codec, with a delete horizon, and if the other record of the batch is gone."""
    plain = sums(tmp_path / "plain", written())
    assert plain == sums(tmp_path / "other codec", recoded(written(), codec))
    with_horizon = written(horizon_ms=START_MS + 99)
    assert plain == sums(tmp_path / "horizon", recoded(with_horizon, codec))
    (left,) = SegmentBuilder(0).batch(0, [("b", None)], offsets=[1], producer_id=5).batches
    assert plain[1:] == sums(tmp_path / "left", left)


@pytest.mark.parametrize(
    "other",
    [
        written("2"),
        written(timestamps=[START_MS + 9] * 2),
        written(producer_epoch=1),
        written(transactional=True),
        written(append_time_ms=START_MS),
        changed(written(), lambda one: replace(one, partition_leader_epoch=1)),
        changed(written(), lambda one: replace(one, producer_id=6)),
    ],
    ids=["value", "time", "epoch", "transaction", "append time", "leader epoch", "producer"],
)
def test_anything_else_changes_them(tmp_path: Path, other: bytes) -> None:
    """All that a consumer or a follower would see."""
    assert sums(tmp_path / "one", written())[0] != sums(tmp_path / "other", other)[0]


def test_what_is_known_of_a_record(tmp_path: Path) -> None:
    """Key, tombstone, and whether its transaction is committed."""
    builder = LogBuilder(tmp_path / "logs")
    segment = builder.segment(0).batch(0, [("a", "1"), (None, "2"), ("c", None)])
    for producer in (5, 6, 7):
        segment.batch(producer, [("d", "1")], producer_id=producer, transactional=True)
    segment.marker(8, 5, "commit").marker(9, 6, "abort")
    builder.write(log_start=1, producers=True)
    replica = look(builder.log_dir, builder.partition, high_watermark="end")
    (rows,) = read_rows(replica, KEY)
    in_txn = KEYED | TRANSACTED
    assert [
        (1, 0),
        (2, KEYED | TOMBSTONE),
        (5, in_txn),
        (6, in_txn | HIDDEN),
        (7, in_txn | HIDDEN),
        (8, 0),
        (9, 0),
    ] == [(int(row["offset"]), int(row["flags"])) for row in rows]
    assert [[7, 7]] == replica.transactions.open.tolist()
    assert rows["hash1"][2] == rows["hash1"][3] != rows["hash1"][1]


def test_a_wrong_crc_is_told_of(tmp_path: Path) -> None:
    """With its file and position."""
    wrong = bytearray(written())
    wrong[-1] ^= 1
    builder = LogBuilder(tmp_path / "logs")
    builder.segment(0).batches.append(bytes(wrong))
    builder.segment(2).batch(2, [("c", "1")])
    builder.write()
    replica = look(builder.log_dir, builder.partition, high_watermark="end")
    with pytest.raises(CorruptBatch, match=r"00000000000000000000\.log at byte 0: the CRC"):
        list(read_rows(replica, KEY))
