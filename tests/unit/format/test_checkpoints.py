"""Offset checkpoints and leader epochs both ways."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logwright.errors import CorruptCheckpoint, UnsupportedFormatError
from logwright.format.checkpoints import (
    LeaderEpoch,
    find_offset,
    parse_leader_epochs,
    parse_offset_checkpoint,
    serialize_leader_epochs,
    serialize_offset_checkpoint,
)
from logwright.format.names import TopicPartition
from logwright.units import Offset
from tests.fixtures import CASES, case_dir

PATH = Path("cleaner-offset-checkpoint")
PARTITIONS = st.builds(
    TopicPartition, st.from_regex(r"\A[a-zA-Z0-9._-]{1,20}\Z"), st.integers(0, 2**31 - 1)
)


def test_an_offset_checkpoint_as_kafka_writes_it() -> None:
    """Version, count, then topic, partition, offset."""
    content = b"0\n2\na-b 0 17\nt 3 0\n"
    entries = {TopicPartition("a-b", 0): 17, TopicPartition("t", 3): 0}
    assert entries == parse_offset_checkpoint(content, PATH)
    assert content == serialize_offset_checkpoint(entries)


@given(st.dictionaries(PARTITIONS, st.integers(0, 2**63 - 1), max_size=5))
def test_offset_checkpoints_round_trip(entries: dict[TopicPartition, int]) -> None:
    """Whatever the topic's name and the offset; with the line ends of another system, too."""
    content = serialize_offset_checkpoint(entries)
    assert entries == parse_offset_checkpoint(content, PATH)
    assert entries == parse_offset_checkpoint(content.replace(b"\n", b"\r\n"), PATH)


@pytest.mark.parametrize("content", [b"", b"0\n", b"0\n0\n", b"0\n0"])
def test_an_empty_checkpoint_has_no_entries(content: bytes) -> None:
    """An empty file is legal, so is a count of 0."""
    assert parse_offset_checkpoint(content, PATH) == {}
    assert parse_leader_epochs(content, PATH) == ()


@pytest.mark.parametrize("content", [b"0\r\n1\r\nt  0\t5\r\n", b"0\n1\nt 0 5", b"0\n1\nt 0 +5 \n"])
def test_any_white_space_and_line_end_will_do(content: bytes) -> None:
    """As Java's readLine and its white-space pattern."""
    assert {TopicPartition("t", 0): 5} == parse_offset_checkpoint(content, PATH)


def test_the_last_of_two_entries_counts() -> None:
    """As in Kafka, whose map keeps the last."""
    assert {TopicPartition("t", 0): 6} == parse_offset_checkpoint(b"0\n2\nt 0 5\nt 0 6\n", PATH)


@pytest.mark.parametrize(
    "content",
    [
        b"0\n2\nt 0 5\n",
        b"0\n0\nt 0 5\n",
        b"0\n-1\n",
        b"0\n1\nt 0\n",
        b"0\n1\nt 0 5 6\n",
        b"0\n1\n\n",
        b"0\n1\nt 0 5\n\n",
        b"0\n1\nt x 5\n",
        b"0\n4\na\x1cb 1 2\nc\x1cd 3 4\ne\x1cf 5 6\n",
        b"0\n1\nt 0 5x\n",
        b"0\n0 ",
        b"0 \n0\n",
        b"0\n1\n t 0 5\n",
        b"0\n1\nt 0 -5\n",
        b"0\n1\nt -1 5\n",
        b"0\n1\nt 0 9223372036854775808\n",
        b"0\n1\nt 2147483648 5\n",
        b"0\nx\n",
        b"x\n0\n",
        b"\n",
        b"\xff\xfe0",
        b"0\n99999999999999999999999\n",
        bytes(40),
    ],
)
def test_malformed_checkpoints_are_refused(content: bytes) -> None:
    """Counts, columns, numbers and text; the file and a remedy are named."""
    with pytest.raises(CorruptCheckpoint) as refused:
        parse_offset_checkpoint(content, PATH)
    assert refused.value.path == PATH
    assert refused.value.remedy


def test_another_version_is_unsupported() -> None:
    """Only version 0 is known."""
    with pytest.raises(UnsupportedFormatError, match="version is 1"):
        parse_offset_checkpoint(b"1\n0\n", PATH)


def test_leader_epochs_as_kafka_writes_them() -> None:
    """Epoch, start offset."""
    content = b"0\n2\n0 0\n3 1500\n"
    epochs = (
        LeaderEpoch(epoch=0, start_offset=Offset(0)),
        LeaderEpoch(epoch=3, start_offset=Offset(1500)),
    )
    assert epochs == parse_leader_epochs(content, PATH)
    assert content == serialize_leader_epochs(epochs)


@pytest.mark.parametrize(
    "content", [b"0\n2\n3 0\n2 5\n", b"0\n2\n3 5\n4 5\n", b"0\n1\n-1 0\n", b"0\n1\n1 2 3\n"]
)
def test_leader_epochs_ascend(content: bytes) -> None:
    """Both columns do, and no number is negative."""
    with pytest.raises(CorruptCheckpoint):
        parse_leader_epochs(content, PATH)


@pytest.mark.parametrize("name", CASES)
def test_kafkas_checkpoints_come_back(name: str) -> None:
    """Byte for byte where there is one entry at most (more have no defined order)."""
    for path in case_dir(name).glob("*/*-offset-checkpoint"):
        content = path.read_bytes()
        entries = parse_offset_checkpoint(content, path)
        assert entries == parse_offset_checkpoint(serialize_offset_checkpoint(entries), path)
        if content and len(entries) < 2:
            assert content == serialize_offset_checkpoint(entries)
    for path in case_dir(name).glob("*/*/leader-epoch-checkpoint"):
        content = path.read_bytes()
        assert content == serialize_leader_epochs(parse_leader_epochs(content, path))


def test_one_entry_is_found_without_parsing_the_others() -> None:
    """A name is taken literally, the last of two entries counts, a prefix is another topic's."""
    content = b"0\n5\na.b 1 7\naxb 1 8\na.b 11 9\nza.b 1 10\na.b 1 12\r\n"
    assert find_offset(content, TopicPartition("a.b", 1)) == 12
    assert find_offset(content, TopicPartition("axb", 1)) == 8
    assert find_offset(content, TopicPartition("a.b", 2)) is None
