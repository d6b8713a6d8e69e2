"""Parts of an update: names of columns, buckets, spilled rows, the comparison with the log."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from logwright.config.decoding import Decoding
from logwright.decode.make import make_decoder
from logwright.tables.buckets import FILE_BYTES, MOST_BUCKETS, bucket_count, buckets_of
from logwright.tables.columns import TIMESTAMP_TYPE, columns_of
from logwright.tables.compare import compare, largest_offsets
from logwright.tables.model import Commit, DataFile, Form
from logwright.tables.quarantine import Quarantine
from logwright.tables.rewrite import GroupWriter
from logwright.tables.spill import Spill
from logwright.tables.topic import open_store, read_rows
from tests.table_rows import FORMATS, read_table
from tests.table_world import place, random_pairs, topic_logs, update, write_logs


@pytest.mark.parametrize(
    ("sizes", "buckets"),
    [
        ([], 1),
        ([0], 1),
        ([FILE_BYTES], 1),
        ([1, FILE_BYTES + 1], 2),
        ([10 * FILE_BYTES], 10),
        ([10**15], MOST_BUCKETS),
    ],
)
def test_number_of_buckets(sizes: list[int], buckets: int) -> None:
    """By the largest partition, within limits."""
    assert buckets == bucket_count(sizes)


def test_buckets_are_even_within_a_partition() -> None:
    """Also for the keys that Kafka's partitioner put into one of 16 partitions: without the
    finalizer they would all be in one of 16 buckets.
    """
    keys = pa.array([f"key-{number}".encode() for number in range(160_000)], pa.binary())
    of_partition = keys.filter(pa.array(murmur2(keys) % 16 == 3))
    assert 9_000 < len(of_partition)
    counts = Counter(buckets_of(of_partition, 16).tolist())
    expected = len(of_partition) / 16
    assert counts.keys() == set(range(16))
    assert all(abs(count - expected) < 0.2 * expected for count in counts.values())


def murmur2(keys: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Kafka's murmur2 with the sign bit cleared, as plainly as can be."""
    hashes = []
    for key in keys.to_pylist():
        digest = 0x9747B28C ^ len(key)
        whole = len(key) - len(key) % 4
        for at in range(0, whole, 4):
            word = int.from_bytes(key[at : at + 4], "little") * 0x5BD1E995 % 2**32
            word = (word ^ word >> 24) * 0x5BD1E995 % 2**32
            digest = digest * 0x5BD1E995 % 2**32 ^ word
        if key[whole:]:
            digest = (digest ^ int.from_bytes(key[whole:], "little")) * 0x5BD1E995 % 2**32
        digest = (digest ^ digest >> 13) * 0x5BD1E995 % 2**32
        hashes.append((digest ^ digest >> 15) & 0x7FFFFFFF)
    return np.array(hashes, dtype=np.int64)


def test_buckets_stay() -> None:
    """The hash is part of the format of tables on disk: these are its results."""
    keys = pa.array([b"", b"a", b"key-1", b"\x00\xff"], pa.binary())
    assert [5, 5, 4, 3] == buckets_of(keys, 7).tolist()
    assert buckets_of(keys.slice(2), 7).tolist() == buckets_of(keys, 7).tolist()[2:]


def test_columns_of_bytes() -> None:
    """Without decoding the key is the raw key."""
    columns = columns_of(make_decoder(Decoding(), base=Path()).schema)
    assert ["offset", "timestamp", "key", "value"] == columns.stored.names
    assert "key" == columns.key
    assert ["partition", "bucket"] == columns.full.names[:2]


def test_columns_that_are_decoded() -> None:
    """The raw key has a column of its own, and no two names differ only in case."""
    fields = ("Offset", "BUCKET", "key", "_key", "name", "Name", "value")
    spec = {
        "key": {"format": "string"},
        "value": {"format": "json", "fields": [{"name": name, "type": "long"} for name in fields]},
    }
    columns = columns_of(make_decoder(Decoding.model_validate(spec), base=Path()).schema)
    names = columns.full.names
    assert "_key" == columns.key
    assert len(names) == len({name.casefold() for name in names}) == len(fields) + 6
    assert {"partition", "bucket", "offset", "timestamp", "_key", "key"} <= set(names)


@pytest.mark.parametrize("limit", [1, 5_000, 1 << 30])
def test_spilled_rows_come_back(tmp_path: Path, limit: int, seed: int) -> None:
    """Each in its bucket, in their order; a file has no name, so that nothing is left of it."""
    draw = random.Random(seed)
    schema = pa.schema([("key", pa.binary()), ("number", pa.int64())])
    rows = [(f"k{draw.randrange(500)}".encode(), number) for number in range(3_000)]
    with Spill(schema, "key", 7, tmp_path, limit=limit) as spill:
        for start in range(0, len(rows), 250):
            part = rows[start : start + 250]
            columns = [pa.array([key for key, _ in part], pa.binary())]
            columns.append(pa.array([number for _, number in part], pa.int64()))
            spill.add(pa.RecordBatch.from_arrays(columns, schema=schema))
        assert [] == list(tmp_path.iterdir())
        assert len(rows) == spill.rows
        read_back = []
        for bucket in spill.buckets:
            read = [
                (row["key"], row["number"])
                for batch in spill.read(bucket)
                for row in batch.to_pylist()
            ]
            assert read == sorted(read, key=lambda row: row[1])
            keys = pa.array([key for key, _ in read], pa.binary())
            assert {bucket} == set(buckets_of(keys, 7).tolist())
            read_back += read
    assert sorted(rows) == sorted(read_back)


def test_memory_does_not_grow_with_the_rows(tmp_path: Path) -> None:
    """Beyond the limit, what waits is in the file."""
    schema = pa.schema([("key", pa.binary())])
    batch = pa.RecordBatch.from_arrays([pa.array([bytes(1000)] * 100, pa.binary())], schema=schema)
    before = pa.total_allocated_bytes()
    with Spill(schema, "key", 2, tmp_path, limit=1 << 20) as spill:
        for _ in range(200):
            spill.add(batch)
            assert pa.total_allocated_bytes() - before < 4 << 20


def test_a_comparison_finds_what_is_wrong(tmp_path: Path, seed: int) -> None:
    """A table that lacks a row, or has one too many, is not equal to the log."""
    draw = random.Random(seed)
    pairs = random_pairs(draw, 200)
    log_dir = write_logs(tmp_path / "logs", {0: pairs})
    where = place("delta", tmp_path / "table", buckets=3)
    snapshot = update(where, log_dir).result.snapshot
    assert snapshot is not None
    store = open_store(where)
    assert store.load() == snapshot
    refused = Quarantine(store=open_store(where, quarantine=True), topic="t", work=tmp_path)
    (log,) = topic_logs(log_dir)
    same = compare(store, snapshot, refused, log)
    assert same is not None
    assert same.equal
    assert (snapshot.rows, 0) == (same.live_keys, same.refused)
    assert largest_offsets(store, snapshot)[0] < snapshot.progress[0].end_offset
    dead = write_logs(tmp_path / "dead", {0: [*pairs, *((f"k{n}", None) for n in range(40))]})
    (other,) = topic_logs(dead)
    changed = update(where, dead).result.snapshot
    assert changed is not None
    assert 0 == changed.rows
    wrong = compare(store, replace(changed, files=snapshot.files), refused, other)
    assert wrong is not None
    assert not wrong.equal
    assert (0, snapshot.rows) == (wrong.live_keys, wrong.rows)


TYPES: dict[str, tuple[pa.DataType, object]] = {
    "int16": (pa.int16(), 1),
    "int32": (pa.int32(), 1),
    "int64": (pa.int64(), 1),
    "float32": (pa.float32(), 1.5),
    "float64": (pa.float64(), 1.5),
    "bool": (pa.bool_(), True),
    "string": (pa.string(), "x"),
    "binary": (pa.binary(), b"x"),
    "fixed": (pa.binary(16), b"x" * 16),
    "date32": (pa.date32(), date(2020, 1, 1)),
    "moment": (pa.timestamp("us", tz="UTC"), datetime(2020, 1, 1, tzinfo=UTC)),
    "milliseconds": (pa.timestamp("ms", tz="UTC"), datetime(2020, 1, 1, tzinfo=UTC)),
    "decimal": (pa.decimal128(38, 2), Decimal("1.50")),
    "list": (pa.list_(pa.struct([("a", pa.int16())])), [{"a": 1}]),
    "map": (pa.map_(pa.string(), pa.int64()), [("a", 1)]),
}
"""What decoders make, with a value of each."""


@pytest.mark.parametrize("form", FORMATS)
def test_types_of_columns(tmp_path: Path, form: str) -> None:
    """Each format keeps what decoders make, and another engine reads it."""
    origin = [pa.field("topic", pa.string()), pa.field("partition", pa.int32())]
    origin += [pa.field("offset", pa.int64()), pa.field("timestamp", TIMESTAMP_TYPE)]
    fields = [pa.field(name, kind) for name, (kind, _) in TYPES.items()]
    columns = columns_of(pa.schema([*origin, *fields]))
    store = open_store(place(form, tmp_path / "table"))
    made = Form(topic="t", buckets=1, columns=columns.pairs)
    store.prepare(made, columns.full)
    row = {name: value for name, (_, value) in TYPES.items()}
    row |= {"offset": 7, "timestamp": datetime(2020, 1, 1, tzinfo=UTC), "_key": b"k"}
    batch = pa.RecordBatch.from_pylist([row], schema=columns.stored)
    inside = store.places_in_files
    with store.output(0, 0) as (path, opened):
        writer = GroupWriter(opened, columns.full if inside else columns.stored)
        writer.write(columns.placed(batch, 0, 0) if inside else batch)
        writer.close()
        file = DataFile(partition=0, bucket=0, path=path, rows=1, bytes=opened.tell())
    change = Commit(form=made, progress={}, added=(file,), removed=())
    store.commit(change, columns.full)
    snapshot = store.load()
    assert snapshot is not None
    assert made == snapshot.form
    (rows,) = read_rows(store, snapshot, columns.stored.names)
    assert [row] == rows.to_pylist()
    read = read_table(form, tmp_path / "table")
    assert 7 == read["offset"][0].as_py()
    assert set(columns.full.names) == set(read.column_names)
