"""Metadata records, from bytes that Kafka 4.3.0 wrote and from bytes of the documented format."""

from __future__ import annotations

import pytest

from logwright.errors import CorruptBatch, UnsupportedFormatError
from logwright.metadata.records import (
    ConfigRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
    TransactionRecord,
    decode_metadata_record,
)
from tests.metadata_builder import (
    int32s,
    partition,
    partition_change,
    string,
    tagged,
    topic,
    uuid,
    uuid_text,
    uuids,
    value,
)

BROKERS = {
    "0102000a6364632e757365727367fea7bcca554ca885417afd9c89603600": TopicRecord(
        name="cdc.users", topic_id="Z_6nvMpVTKiFQXr9nIlgNg"
    ),
    "0103020000000067fea7bcca554ca885417afd9c89603602000000010200000001010100000001000000000000"
    "000002d3e71447a356419957af70970620433200": PartitionRecord(
        partition=0,
        topic_id="Z_6nvMpVTKiFQXr9nIlgNg",
        replicas=(1,),
        in_sync=(1,),
        directories=("0-cUR6NWQZlXr3CXBiBDMg",),
    ),
    "0104000401146d696e2e696e73796e632e7265706c69636173023100": ConfigRecord(
        resource_type=4, resource_name="", name="min.insync.replicas", value="1"
    ),
    "010400020661756469741464656c6574652e726574656e74696f6e2e6d7303373700": ConfigRecord(
        resource_type=2, resource_name="audit", name="delete.retention.ms", value="77"
    ),
    "01050200000000e27b122034f24651b227f42b823e269c040001010104ffffffff0605020000000107050200"
    "000001": PartitionChangeRecord(
        partition=0,
        topic_id="4nsSIDTyRlGyJ_Qrgj4mnA",
        replicas=None,
        in_sync=(),
        directories=None,
    ),
    "010900a4cc7253663a41008227c4756403126f00": RemoveTopicRecord(
        topic_id="pMxyU2Y6QQCCJ8R1ZAMSbw"
    ),
    "010c00116d657461646174612e76657273696f6e001e00": FeatureLevelRecord(
        name="metadata.version", level=30
    ),
    "01170001001212426f6f747374726170207265636f726473": TransactionRecord.BEGIN,
    "01180000": TransactionRecord.END,
    "01190000": TransactionRecord.ABORT,
    "01140000": None,
    "01110300000001000000000000000c01030101": None,
}
"""Values that a broker wrote, in hexadecimal; None: not about topics."""


@pytest.mark.parametrize("content", BROKERS)
def test_a_broker_s_records_are_decoded(content: str) -> None:
    """Each record that a real broker wrote gives its fields; other api keys give None."""
    assert BROKERS[content] == decode_metadata_record(bytes.fromhex(content))


@pytest.mark.parametrize(("version", "directories"), [(0, ()), (1, (5, 6)), (2, (5, 6))])
def test_a_partition_has_directories_from_version_1_on(
    version: int, directories: tuple[int, ...]
) -> None:
    """The directories follow the epochs from version 1 on, and are in no record before."""
    expected = PartitionRecord(
        partition=3,
        topic_id=uuid_text(7),
        replicas=(1, 2),
        in_sync=(1, 2),
        directories=tuple(map(uuid_text, directories)),
    )
    record = decode_metadata_record(partition(7, 3, [1, 2], directories, version=version))
    assert expected == record


@pytest.mark.parametrize("version", [1, 2])
def test_a_partition_s_change_is_in_its_tags(version: int) -> None:
    """Tag 0 has the in-sync replicas, 2 the replicas, 8 the directories; others are skipped."""
    fields = {0: int32s([1]), 2: int32s([2, 3]), 8: uuids([5, 6]), 99: b"unknown"}
    expected = PartitionChangeRecord(
        partition=1,
        topic_id=uuid_text(7),
        replicas=(2, 3),
        in_sync=(1,),
        directories=(uuid_text(5), uuid_text(6)),
    )
    record = decode_metadata_record(partition_change(7, 1, fields, version=version))
    assert expected == record


def test_tags_of_null_change_nothing() -> None:
    """A nullable array of null in a tag is the same as no tag."""
    record = decode_metadata_record(partition_change(7, 1, {2: int32s(None), 8: uuids(None)}))
    assert decode_metadata_record(partition_change(7, 1, {})) == record


LATEST = {2: 0, 3: 2, 4: 0, 5: 2, 9: 0, 12: 0, 23: 0, 24: 0, 25: 0}


@pytest.mark.parametrize("api_key", LATEST)
def test_a_later_version_is_refused_by_name(api_key: int) -> None:
    """A message's version above the known ones is refused with the api key and the version."""
    later = LATEST[api_key] + 1
    with pytest.raises(UnsupportedFormatError, match=f"api key {api_key} has version {later}"):
        decode_metadata_record(value(api_key, later, b""))


def test_another_frame_version_is_refused() -> None:
    """Only frame version 1 is known."""
    with pytest.raises(UnsupportedFormatError, match="frame version is 2"):
        decode_metadata_record(value(2, 0, b"", frame_version=2))


def test_a_later_version_of_an_unknown_record_is_passed_over() -> None:
    """A record that is not about topics may have any version."""
    assert decode_metadata_record(value(999, 77, b"anything")) is None


MALFORMED = {
    "null": None,
    "empty": b"",
    "varint": b"\x01\xff\xff\xff\xff\xff\xff",
    "name null": value(2, 0, string(None) + uuid(1) + tagged()),
    "name too long": value(2, 0, b"\xff\xff\xff\xff\x0f" + b"abc"),
    "name no UTF-8": value(2, 0, b"\x02\xff" + uuid(1) + tagged()),
    "id cut off": value(2, 0, string("t") + uuid(1)[:-1]),
    "bytes left": topic("t", 1) + b"\x00",
    "replicas null": value(3, 0, bytes(20) + b"\x00"),
    "too many replicas": value(3, 0, bytes(20) + b"\xff\xff\xff\xff\x0f" + bytes(40)),
    "too many directories": partition(1, 0, [1], version=1)[:-5] + b"\xff\xff\xff\xff\x0f",
    "too many tags": value(9, 0, uuid(1) + b"\xff\xff\xff\xff\x0f"),
    "tag too long": value(9, 0, uuid(1) + b"\x01\x05\x7f"),
    "tag twice": value(9, 0, uuid(1) + b"\x02\x05\x00\x05\x00"),
    "tag not filled": partition_change(1, 0, {2: int32s([1]) + b"\x00"}),
    "directories of version 0": partition_change(1, 0, {8: uuids([1])}, version=0),
}


@pytest.mark.parametrize("what", MALFORMED)
def test_a_malformed_record_is_refused(what: str) -> None:
    """Lengths beyond the value's end, nulls, bytes left over: one error, and nothing allocated."""
    with pytest.raises(CorruptBatch):
        decode_metadata_record(MALFORMED[what])


@pytest.mark.parametrize("content", BROKERS)
def test_every_cut_record_is_refused(content: str) -> None:
    """No prefix of a record that is decoded passes for a record."""
    if BROKERS[content] is None:
        return
    whole = bytes.fromhex(content)
    for size in range(len(whole)):
        with pytest.raises(CorruptBatch):
            decode_metadata_record(whole[:size])
