"""Keys that are written in several ways: `unique_by: decoded`, and how many there are."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from logwright.config.decoding import JsonSpec, ScalarSpec
from logwright.config.json_fields import JsonField
from logwright.config.table import hidden_of
from logwright.errors import PolicyError
from logwright.tables.compare import compare, compare_topic, decoded_keys
from logwright.tables.events import Events
from logwright.tables.files import hidden_in
from logwright.tables.model import OtherForm
from logwright.tables.quarantine import Quarantine
from logwright.tables.topic import LocatedTable, decoder_of, open_store
from tests.log_builder import LogBuilder
from tests.table_rows import FORMATS, table_rows
from tests.table_schemas import ID, LEVEL, Schemas, record
from tests.table_world import DAY_MS, NOW_MS, place, topic_logs, update

Record = tuple[str | None, str | None]
PLAIN, SPACED, TURNED = (
    '{"id":%d,"n":"x"}',
    '{ "id": %d, "n": "x" }',
    '{"n":"x","id":%d}',
)
"""The ways in which a key is written."""
KEYS = JsonSpec(
    fields=(
        JsonField(name="id", type="long", nullable=False),
        JsonField(name="n", type="string"),
    )
)
STRINGS = ScalarSpec(format="string")


def logs(
    log_dir: Path, partitions: Mapping[int, Sequence[Record]], *, size: int = 3, **options: int
) -> Path:
    """Each record is a millisecond younger than the one before it."""
    for number, records in partitions.items():
        log = LogBuilder(log_dir, f"t-{number}")
        for start in range(0, len(records), size):
            if start % (4 * size) == 0:
                segment = log.segment(start)
            part = list(records[start : start + size])
            times = [1_000 + start + each for each in range(len(part))]
            segment.batch(start, part, timestamps=times)
        log.write(**options)  # type: ignore[arg-type]  # all but the flags
    return log_dir


def table(tmp_path: Path, form: str = "parquet", **settings: object) -> LocatedTable:
    given = {"key": KEYS, "value": STRINGS, "unique_by": "decoded", **settings}
    return place(form, tmp_path / "tables" / "t", **given)


def rows(where: LocatedTable) -> list[tuple[int, int, str]]:
    """Partition, number in the key, and value."""
    assert where.directory is not None
    rows_found = table_rows(where.table.format, where.directory)
    return sorted((number, key["id"], value) for number, _, key, value in rows_found)


def state(partitions: Mapping[int, Sequence[Record]]) -> list[tuple[int, int, str]]:
    """What a dictionary of the decoded keys of each partition holds."""
    live: dict[tuple[int, int], str | None] = {}
    for number, records in partitions.items():
        for key, value in records:
            live[number, json.loads(key or "")["id"]] = value
    return sorted((*at, value) for at, value in live.items() if value is not None)


def require_equal(where: LocatedTable, log_dir: Path) -> None:
    """Compare the table as its daily check does."""
    store = open_store(where)
    snapshot = store.load()
    assert snapshot is not None
    refused = Quarantine(
        store=open_store(where, quarantine=True), topic="t", work=where.base / "work"
    )
    compared = compare_topic(
        store,
        snapshot,
        refused,
        topic_logs(log_dir),
        hidden_in(where.files),
        events=Events(snapshot, where.base),
        decoder=decoder_of(where, snapshot),
    )
    assert sorted(snapshot.progress) == [one.partition for one in compared]
    assert all(one.equal for one in compared), compared
    counted = decoded_keys(store, snapshot, where.base)
    assert counted is not None
    assert (snapshot.rows, 0, {}) == counted


@pytest.mark.parametrize("form", FORMATS)
def test_one_row_whichever_way_the_key_is_written(tmp_path: Path, form: str) -> None:
    """The newest record by offset counts, a tombstone too. Another update, and a table that is made
    again, have the same rows.
    """
    first = [
        (PLAIN % 1, "a"),
        (PLAIN % 2, "b"),
        (PLAIN % 3, "c"),
        (PLAIN % 4, "d"),
        (TURNED % 4, "e"),
    ]
    where = table(tmp_path, form)
    update(where, logs(tmp_path / "1", {0: first}, size=5))
    assert [(0, 1, "a"), (0, 2, "b"), (0, 3, "c"), (0, 4, "e")] == rows(where)
    then = [*first, (SPACED % 1, "a2"), (SPACED % 2, None), (PLAIN % 3, "c2"), (PLAIN % 4, None)]
    done = update(where, logs(tmp_path / "2", {0: then}, size=5))
    assert ["upsert"] == [one.step.kind for one in done.result.partitions]
    assert [(0, 1, "a2"), (0, 3, "c2")] == rows(where)
    require_equal(where, tmp_path / "2")
    last = [*then, (TURNED % 2, "b3"), (PLAIN % 1, None)]
    update(where, logs(tmp_path / "3", {0: last}, size=5))
    assert [(0, 2, "b3"), (0, 3, "c2")] == rows(where)
    require_equal(where, tmp_path / "3")
    again = table(tmp_path / "again", form)
    update(again, tmp_path / "3")
    assert rows(where) == rows(again)


@pytest.mark.parametrize("form", FORMATS)
def test_rows_of_each_way_are_counted(tmp_path: Path, form: str) -> None:
    """Without the setting each way has a row, as the cleaner keeps a record of each."""
    pairs = [(PLAIN % 1, "a"), (SPACED % 1, "b"), (PLAIN % 2, "c"), (TURNED % 1, "d")]
    where = table(tmp_path, form, unique_by="bytes")
    update(where, logs(tmp_path / "logs", {0: pairs, 1: [(PLAIN % 1, "e")]}, size=4))
    store = open_store(where)
    snapshot = store.load()
    assert snapshot is not None
    assert 5 == snapshot.rows
    assert (3, 1, {0: 1}) == decoded_keys(store, snapshot, tmp_path)
    whole = table(tmp_path / "whole", form, unique_by="bytes", unique="topic")
    update(whole, tmp_path / "logs")
    store = open_store(whole)
    snapshot = store.load()
    assert snapshot is not None
    assert (2, 1, {}) == decoded_keys(store, snapshot, tmp_path)


def test_a_key_of_several_partitions(tmp_path: Path) -> None:
    """Alone, it has a row in each; with `unique: topic` the one with the latest time."""
    pairs = {0: [(PLAIN % 1, "a"), (SPACED % 2, "b")], 1: [(SPACED % 1, "c"), (PLAIN % 1, "d")]}
    log_dir = logs(tmp_path / "logs", pairs)
    alone = table(tmp_path / "alone")
    update(alone, log_dir)
    assert [(0, 1, "a"), (0, 2, "b"), (1, 1, "d")] == rows(alone)
    require_equal(alone, log_dir)
    whole = table(tmp_path / "whole", unique="topic")
    update(whole, log_dir)
    assert [(0, 2, "b"), (1, 1, "d")] == rows(whole)
    require_equal(whole, log_dir)


def test_a_tombstone_is_remembered(tmp_path: Path) -> None:
    """The cleaner removes it, and keeps the record of another way: that is not the key's state."""
    first = [(PLAIN % 1, "a"), (PLAIN % 2, "b"), (SPACED % 1, None)]
    where = table(tmp_path, keep_versions_ms=1)
    update(where, logs(tmp_path / "1", {0: first}))
    assert [(0, 2, "b")] == rows(where)
    cleaned = tmp_path / "2"
    log = LogBuilder(cleaned, "t-0")
    log.segment(0).batch(0, [(PLAIN % 1, "a"), (PLAIN % 2, "b")])
    log.segment(3).batch(3, [(PLAIN % 3, "c")])
    log.write(cleaner_checkpoint=3)
    for time in range(3):
        update(where, cleaned, now_ms=NOW_MS + time * DAY_MS)
        assert [(0, 2, "b"), (0, 3, "c")] == rows(where)
    require_equal(where, cleaned)


def test_a_record_that_cannot_be_decoded_takes_the_row_away(tmp_path: Path) -> None:
    """Its key can be decoded, whichever way it is written."""
    value = JsonSpec(fields=(JsonField(name="v", type="long", nullable=False),))
    first = [(PLAIN % 1, '{"v":1}'), (PLAIN % 2, '{"v":2}')]
    where = table(tmp_path, value=value)
    update(where, logs(tmp_path / "1", {0: first}, size=2))
    then = [*first, (SPACED % 1, "no object"), ("no key", '{"v":3}'), ("{}", '{"v":4}')]
    done = update(where, logs(tmp_path / "2", {0: then}, size=2))
    assert 3 == done.quarantined
    assert where.directory is not None
    rows_found = table_rows("parquet", where.directory, ["key", "v"])
    assert [(0, 1, {"id": 2, "n": "x"}, 2)] == rows_found
    require_equal(where, tmp_path / "2")


@pytest.mark.parametrize("unique", ["partition", "topic"])
@pytest.mark.parametrize("seed", range(4))
def test_updates_have_the_rows_of_a_dictionary(tmp_path: Path, unique: str, seed: int) -> None:
    """However they are cut, and in several buckets; one partition may be made again alone."""
    draw = random.Random(seed)
    ways = (PLAIN, SPACED, TURNED)
    numbers = (0, 1) if unique == "partition" else (0,)
    whole: dict[int, list[Record]] = {
        number: [
            (draw.choice(ways) % draw.randrange(12), None if draw.random() < 0.3 else f"v{each}")
            for each in range(60)
        ]
        for number in numbers
    }
    where = table(tmp_path, draw.choice(FORMATS), unique=unique, buckets=draw.choice([1, 3]))
    for time, end in enumerate(sorted(draw.sample(range(3, 60, 3), 4))):
        known = {number: records[:end] for number, records in whole.items()}
        update(where, logs(tmp_path / str(time), known))
        assert state(known) == rows(where)
        require_equal(where, tmp_path / str(time))
    shorter = whole | {0: whole[0][:6]}
    done = update(where, logs(tmp_path / "shorter", shorter))
    assert state(shorter) == rows(where)
    kinds = {one.partition: one.step.kind for one in done.result.partitions}
    assert {number: "upsert" if number else "rebuild" for number in numbers} == kinds
    require_equal(where, tmp_path / "shorter")


def test_keys_that_are_kept_are_those_of_the_log(tmp_path: Path) -> None:
    """So that searches for erasures find them."""
    where = table(tmp_path)
    update(where, logs(tmp_path / "logs", {0: [(PLAIN % 7, "a"), (SPACED % 7, None)]}))
    assert where.directory is not None
    (file,) = hidden_of(where.directory).glob("*.parquet")
    assert {(PLAIN % 7).encode(), (SPACED % 7).encode()} == set(
        pq.read_table(file)["key"].to_pylist()
    )


def test_what_cannot_be(tmp_path: Path) -> None:
    """Bytes are not decoded; a table has one rule for its life."""
    log_dir = logs(tmp_path / "logs", {0: [(PLAIN % 1, "a")]})
    with pytest.raises(PolicyError, match="not decoded"):
        update(table(tmp_path / "bytes", key=ScalarSpec()), log_dir)
    update(table(tmp_path), log_dir)
    with pytest.raises(OtherForm, match="unique_by: decoded"):
        update(table(tmp_path, unique_by="bytes"), log_dir)


def test_records_of_types_that_the_table_does_not_have(tmp_path: Path) -> None:
    """Such a record has no row, also of a decoded key, and the daily check agrees."""
    schemas = Schemas(tmp_path)
    schemas.add(1, record(ID))
    schemas.add(2, record(ID, LEVEL, name="Order"))
    other = [schemas.value(2, id=number, level="x") for number in (1, 2)]
    named = {"format": "registry", "schemas": "schemas", "records": ["shop.Customer"]}
    pairs = [(schemas.value(1, id=1), "a"), (other[0], "b"), (schemas.value(1, id=2), "c")]
    log_dir = schemas.logs("logs-1", pairs)
    where = schemas.table("parquet", key=named, value={"format": "string"}, unique_by="decoded")
    update(where, log_dir)
    assert [(0, 1, "a"), (0, 2, "c")] == rows(where)
    require_equal(where, log_dir)
    log_dir = schemas.logs("logs-2", [*pairs, (other[1], "d"), (pairs[0][0], "e")])
    update(where, log_dir)
    assert [(0, 1, "e"), (0, 2, "c")] == rows(where)
    require_equal(where, log_dir)


@pytest.mark.parametrize("is_newest", [False, True])
def test_values_of_types_that_the_table_does_not_have(tmp_path: Path, *, is_newest: bool) -> None:
    """A key whose newest record is of such a type has no row, and the daily check agrees."""
    schemas = Schemas(tmp_path)
    schemas.add(1, record(ID))
    schemas.add(2, record(ID, LEVEL, name="Order"))
    named = {"format": "registry", "schemas": "schemas", "records": ["shop.Customer"]}
    pairs = [("a", schemas.value(1, id=1)), ("b", schemas.value(2, id=2, level="x"))]
    if is_newest:
        pairs.append(("a", schemas.value(2, id=3, level="x")))
    log_dir = schemas.logs("logs", pairs)
    where = schemas.table("parquet", value=named)
    update(where, log_dir)
    store = open_store(where)
    snapshot = store.load()
    assert snapshot is not None
    assert (0 if is_newest else 1) == snapshot.rows
    refused = Quarantine(store=open_store(where, quarantine=True), topic="t", work=tmp_path)
    (log,) = topic_logs(log_dir)
    compared = compare(store, snapshot, refused, log, events=Events(snapshot, where.base))
    assert compared is not None
    assert compared.equal
