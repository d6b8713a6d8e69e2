"""Which tombstones are lacking where, and what is said of the rest."""

from __future__ import annotations

import pyarrow as pa
import pytest

from logwright.erasure.keys import KeySet
from logwright.erasure.request import Request
from logwright.ingest.schema import COPIED
from logwright.rolling.erasing import requested
from logwright.rolling.model import ClusterNow, PartitionNow
from logwright.rolling.plan import not_on_record
from logwright.rolling.tombstones import (
    KeyRecord,
    Lacking,
    concerned,
    latest,
    left_alone,
    not_looked_at,
)
from tests.found import SECRET

A, B, C = b"a", b"b", b"c"


def partition(
    topic: str, number: int = 0, *, compacted: bool = True, led: bool = True
) -> PartitionNow:
    return PartitionNow(
        topic=topic,
        number=number,
        leader=1 if led else None,
        replicas=(1, 2, 3),
        isr=frozenset({1, 2, 3}),
        min_isr=2,
        delete_retention_ms=86_400_000 if compacted else None,
    )


def cluster(*partitions: PartitionNow) -> ClusterNow:
    return ClusterNow(cluster_id="c", brokers=frozenset({1, 2, 3}), partitions=partitions)


def request(key: bytes, topics: str, *, has_filter: bool = True) -> Request:
    return Request(
        id=key.decode(),
        topics=topics,
        hmac=SECRET.hmac(key),
        filter=SECRET.filter(key) if has_filter else None,
        received_at_ms=0,
        deadline_ms=1,
    )


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ([], ()),
        ([(A, False)], (0,)),
        ([(A, False), (A, True)], (1,)),
        ([(A, True), (A, False)], (1,)),
        ([(A, False), (B, False), (A, False)], (1, 2)),
        ([(A, False), (B, False), (A, True), (C, True), (B, False)], (2, 3, 4)),
    ],
)
def test_the_latest_record_decides(
    records: list[tuple[bytes, bool]], expected: tuple[int, ...]
) -> None:
    """One of each key, in the order of their offsets."""
    all_records = [KeyRecord(*each, offset) for offset, each in enumerate(records)]
    assert [all_records[at] for at in expected] == list(latest(all_records))


def test_what_a_cleaning_cannot_count() -> None:
    """What a broker should have a replica of and has no high watermark of, or one that is lower.
    What is another broker's, and what nothing was looked for in, does not matter.
    """
    now = cluster(partition("people"), partition("people", 1))
    wanted = {"people-0": 7, "people-1": 5, "elsewhere-0": 9}
    assert not_on_record(now, 1, {"people-0": 7, "people-1": 6}, wanted) is None
    assert not_on_record(now, 1, {"people-0": 7}, {"people-0": 7}) is None
    assert not_on_record(now, 4, {}, wanted) is None
    ends = "and what a cleaning is to count ends at"
    assert f"the high watermark of people-0 on record is 6, {ends} 7" == not_on_record(
        now, 1, {"people-0": 6, "people-1": 5}, wanted
    )
    assert f"the high watermark of people-1 is not known, {ends} 5" == not_on_record(
        now, 3, {"people-0": 7}, wanted
    )


def test_where_the_keys_are_looked_for() -> None:
    """In compacted topics that a request applies to; never in Kafka's own. A partition without a
    leader is named, and so is a topic that is none.
    """
    people, events, other = partition("people"), partition("events", compacted=False), "other"
    second, lost = partition("people", 1), partition("people", 2, led=False)
    now = cluster(people, second, lost, events, partition(other), partition("__consumer_offsets"))
    keys = KeySet.of(
        SECRET, requests=[request(A, "regex:people|events"), request(B, "persons")], clear=[]
    )
    where = concerned(now, keys)
    assert (people, second) == where.partitions
    assert (lost,) == where.without_leader
    assert ("events",) == where.not_compacted
    assert ("persons",) == where.unknown
    assert [
        "events is not compacted and gets no tombstones: its records go by its retention."
    ] == list(left_alone(where))
    lacking = [
        Lacking(partition="people-0", keys=(A,), undecided=7),
        Lacking(partition="people-1", keys=(A,)),
    ]
    assert [
        "people-2 has no leader and was not looked at: it got no tombstones.",
        "no topic of the cluster is persons: its keys were looked for in none.",
        "people-0 has an open transaction and was looked at only up to offset 7.",
    ] == list(not_looked_at(where, lacking))


def test_all_was_looked_at() -> None:
    """Then nothing is said, and each key in clear is looked for in every topic but Kafka's own."""
    now = cluster(partition("people"), partition("__transaction_state"))
    where = concerned(now, KeySet.of(SECRET, clear=[A]))
    assert ["people"] == [each.topic for each in where.partitions]
    assert [] == [*left_alone(where), *not_looked_at(where, [Lacking(partition="p-0", keys=())])]


def test_many_names_are_cut() -> None:
    """Three, and how many more."""
    now = cluster(*(partition(f"t{number}", led=False) for number in range(5)))
    where = concerned(now, KeySet.of(SECRET, clear=[A]))
    (sentence,) = not_looked_at(where)
    assert "t0-0, t1-0, t2-0 and 2 more has no leader and was not looked at" in sentence


def test_requested_records_among_those_of_a_consumer() -> None:
    """By key in clear, by HMAC and filter, by HMAC only; a null key is nobody's, an empty value is
    no tombstone.
    """
    requests = [request(A, "t"), request(B, "t", has_filter=False)]
    keys = KeySet.of(SECRET, requests=requests, clear=[C], topics="t")
    rows = [(A, b"1"), (None, b"2"), (b"x", b"3"), (B, None), (b"", b"4"), (C, b""), (A, None)]
    batch = pa.RecordBatch.from_pylist(
        [
            {"key": key, "value": value, "headers": [], "timestamp": 0, "offset": at}
            for at, (key, value) in enumerate(rows)
        ],
        schema=COPIED,
    )
    expected = [
        KeyRecord(A, False, 0),
        KeyRecord(B, True, 3),
        KeyRecord(C, False, 5),
        KeyRecord(A, True, 6),
    ]
    assert expected == list(requested(batch, keys.for_topic("t"), set()))
    assert [] == list(requested(batch, keys.for_topic("u"), set()))
    assert [] == list(requested(batch.slice(1, 1), keys, set()))


def test_keys_in_another_form_are_not_looked_at() -> None:
    """One that is a requested key in another form, and of a decoded key one that is not a text."""
    rows = [(A, b"1"), (b'"' + A + b'"', b"2"), (b"\0\0\0\0\0\0\0\x2a", b"3")]
    batch = pa.RecordBatch.from_pylist(
        [
            {"key": key, "value": value, "headers": [], "timestamp": 0, "offset": at}
            for at, (key, value) in enumerate(rows)
        ],
        schema=COPIED,
    )
    for decoded, offsets in ((False, [0]), (True, [0, 1])):
        keys, unclear = KeySet.of(SECRET, clear=[A], topics="t", decoded=decoded), set[str]()
        matching = requested(batch, keys.for_topic("t"), unclear)
        assert offsets == [record.offset for record in matching]
        assert 1 == len(unclear)
    lacking = Lacking(partition="t-0", keys=(), unclear=1)
    (sentence,) = not_looked_at(concerned(cluster(partition("t")), keys), [lacking])
    assert "t-0 has 1 keys that cannot be decoded" in sentence


def test_no_key_is_shown() -> None:
    """Not even by accident."""
    assert "secret-key" not in repr(Lacking(partition="p-0", keys=(b"secret-key",)))
