"""Our dump of every case is Kafka's own, byte for byte."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from logwright.errors import (
    CorruptProducerSnapshot,
    NotALogDir,
    UncleanLogDir,
)
from logwright.format.batch import parse_batch, serialize_batch
from logwright.format.names import TopicPartition
from logwright.format.record import encode_records
from logwright.log.dump import dump_partition, segment_lines, to_json
from tests.fixtures import CASES, Side, case_dir, copy_before, partitions
from tests.unit.format import builders
from tests.unit.format.builders import a_batch, a_header, a_header_pair, a_record

if TYPE_CHECKING:
    from pathlib import Path


def kafkas_lines(name: str, side: Side, partition: str) -> list[str]:
    directory = case_dir(name)
    dumped = directory / f"{side}.{partition}.jsonl"
    return (dumped if dumped.exists() else directory / f"{side}.jsonl").read_text().splitlines()


@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize("name", CASES)
def test_every_case_dumps_as_kafka_dumps_it(name: str, side: Side) -> None:
    """Batches, records, indexes, snapshots, torn and corrupt tails: the same lines of text."""
    for partition in partitions(name):
        topic_partition = TopicPartition.parse(partition.name)
        assert topic_partition is not None
        ours = [to_json(line) for line in dump_partition(case_dir(name) / side, topic_partition)]
        assert kafkas_lines(name, side, partition.name) == ours


def kinds(content: bytes) -> list[str]:
    lines = list(segment_lines(content, base_offset=0))
    return [str(line.get("error", line["type"])) for line in lines]


def test_a_batch_with_a_wrong_crc_keeps_its_line_without_records() -> None:
    """Its line says that it is not valid, and reading continues after it."""
    content = bytearray(a_batch() + a_batch(1))
    content[70] ^= 1
    lines = list(segment_lines(bytes(content), base_offset=0))
    assert [(line["valid"], len(line["records"])) for line in lines[1:]] == [(False, 0), (True, 1)]


@pytest.mark.parametrize(
    ("tail", "expected"),
    [
        (a_batch(1)[:-1], ["trailing"]),
        (bytes(100), ["CorruptRecordException", "trailing"]),
        (bytes(12), ["CorruptRecordException", "trailing"]),
        (bytes(11), ["trailing"]),
        (b"", []),
    ],
)
def test_a_tail_is_told_as_kafkas_reader_meets_it(tail: bytes, expected: list[str]) -> None:
    """Zeros are an error, a cut-off batch only trails."""
    assert ["segment", "batch", *expected] == kinds(a_batch() + tail)


def test_malformed_records_stop_the_segment_behind_their_batch() -> None:
    """A valid CRC over records that cannot be read."""
    content = serialize_batch(a_header(records_count=2), builders.PLAIN_RECORD)
    error = {"type": "error", "segment": 0, "position": 70, "error": "InvalidRecordException"}
    assert error in list(segment_lines(content + a_batch(), base_offset=0))


def test_an_unknown_codec_stops_the_segment_before_its_batch() -> None:
    """As CompressionType.forId, which throws."""
    content = serialize_batch(a_header(attributes=7), builders.PLAIN_RECORD)
    assert kinds(content) == ["segment", "IllegalArgumentException", "trailing"]


def test_noise_for_a_payload_stops_the_segment() -> None:
    """As a record stream that cannot be decompressed."""
    content = serialize_batch(a_header(attributes=4), b"noise")
    assert kinds(content) == ["segment", "KafkaException"]


def test_a_batch_smaller_than_its_header_stops_the_segment() -> None:
    """Kafka's reader runs over the end of such a batch."""
    content = bytearray(a_batch())
    content[8:12] = (48).to_bytes(4, "big")
    assert kinds(bytes(content)) == ["segment", "IndexOutOfBoundsException", "trailing"]


def test_a_damaged_magic_stops_the_segment() -> None:
    """As of an old format the lengths in it are wrong."""
    content = bytearray(a_batch())
    content[16] = 1
    assert ["segment", "InvalidRecordException", "trailing"] == kinds(bytes(content))


def test_a_later_magic_stops_the_segment() -> None:
    """Kafka's reader in memory takes it for corruption."""
    content = bytearray(a_batch())
    content[16] = 3
    assert ["segment", "CorruptRecordException", "trailing"] == kinds(bytes(content))


def test_a_foreign_name_is_told_with_its_path(tmp_path: Path) -> None:
    """What stops a whole dump names the file."""
    log_dir = copy_before("basic-none", tmp_path)
    (log_dir / "t-0" / "0.log").touch()
    with pytest.raises(UncleanLogDir) as unclean:
        list(dump_partition(log_dir, TopicPartition("t", 0)))
    assert log_dir / "t-0" / "0.log" == unclean.value.path


def test_json_is_written_as_jackson_writes_it() -> None:
    """Non-ASCII as it is, control characters with upper-case digits, backslashes unchanged."""
    header = a_header()
    key = 'é\x1f\\u001f"'
    record = a_record(headers=(a_header_pair(key.encode(), None),))
    content = serialize_batch(header, encode_records(header, [record]))
    text = to_json(list(segment_lines(content, base_offset=0))[1])
    assert '"headers":[{"key":"é\\u001F\\\\u001f\\"","value":null}]' in text
    assert key == json.loads(text)["records"][0]["headers"][0]["key"]
    assert parse_batch(content).crc == json.loads(text)["crc"]


def test_a_missing_partition_is_refused(tmp_path: Path) -> None:
    """Before the first line."""
    with pytest.raises(NotALogDir):
        next(dump_partition(tmp_path, TopicPartition("t", 0)))


def test_a_malformed_snapshot_is_named(tmp_path: Path) -> None:
    """The error has the file's path."""
    log_dir = copy_before("basic-none", tmp_path)
    path = log_dir / "t-0" / "00000000000000000077.snapshot"
    path.write_bytes(b"\x00\x01")
    with pytest.raises(CorruptProducerSnapshot) as refused:
        list(dump_partition(log_dir, TopicPartition("t", 0)))
    assert path == refused.value.path
