"""Tables of change events: values that the source left out, truncations, records without a key."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from logwright.config.decoding import UNAVAILABLE, JsonSpec
from logwright.config.json_fields import JsonField
from logwright.tables.compare import compare, compare_topic
from logwright.tables.events import Events
from logwright.tables.files import hidden_in
from logwright.tables.quarantine import Quarantine
from logwright.tables.topic import LocatedTable, TopicUpdate, decoder_of, open_store
from tests.log_builder import LogBuilder, Pair
from tests.table_rows import FORMATS, read_table
from tests.table_world import place, topic_logs, update

COLUMNS = ("id", "doc", "raw", "tags", "plain")
FIELDS = [
    {"name": "id", "type": "long", "nullable": False},
    {"name": "doc", "type": "string"},
    {"name": "raw", "type": "binary"},
    {"name": "tags", "type": "array", "fields": [{"name": "element", "type": "string"}]},
    {"name": "plain", "type": "long"},
]
OF = {"format": "json", "fields": FIELDS}
LEFT_OUT = {
    "doc": UNAVAILABLE,
    "raw": base64.b64encode(UNAVAILABLE.encode()).decode(),
    "tags": [UNAVAILABLE],
}
SIZE = 5
Row = dict[str, Any]


def event(op: str, after: Row | None = None) -> str:
    shown = None if after is None else {**after, "raw": _base64(after["raw"])}
    return json.dumps({"op": op, "after": shown, "source": {"ts_ms": 1}})


def _base64(raw: bytes | str | None) -> str | None:
    return base64.b64encode(raw).decode() if isinstance(raw, bytes) else raw


def key(number: int) -> str:
    return json.dumps({"id": number})


def table(tmp_path: Path, form: str, unique: str = "partition", **spec: object) -> LocatedTable:
    value = {"format": "debezium", "of": OF, **spec}
    where = tmp_path / "tables" / "t"
    return place(form, where, key={"format": "string"}, value=value, unique=unique, buckets=3)


def by_decoded(where: LocatedTable) -> LocatedTable:
    """The table with one row of a decoded key."""
    key = JsonSpec(fields=(JsonField(name="id", type="long", nullable=False),))
    return replace(where, table=where.table.model_copy(update={"key": key, "unique_by": "decoded"}))


def rows_of(where: LocatedTable) -> dict[int, Row]:
    assert where.directory is not None
    read = read_table(where.table.format, where.directory)
    rows = read.select(COLUMNS).to_pylist() if len(read) else []  # Iceberg without a file
    by_id = {row["id"]: row for row in rows}
    assert len(rows) == len(by_id)
    return by_id


def require_equal(where: LocatedTable, log_dir: Path) -> None:
    """As the daily check of a table compares it with its log."""
    assert where.directory is not None
    store, refused = open_store(where), open_store(where, quarantine=True)
    snapshot = store.load()
    assert snapshot is not None
    events = Events(snapshot, where.base)
    quarantine = Quarantine(store=refused, topic="t", work=where.base)
    logs = topic_logs(log_dir)
    if where.table.remembers_keys:
        hidden = hidden_in(where.files)
        decoder = decoder_of(where, snapshot) if where.table.unique_by == "decoded" else None
        compared = compare_topic(
            store, snapshot, quarantine, logs, hidden, events=events, decoder=decoder
        )
    else:
        (log,) = logs
        comparison = compare(store, snapshot, quarantine, log, events=events)
        assert comparison is not None
        compared = (comparison,)
    assert [True] == [one.equal for one in compared], compared


class World:
    """A source's table, and the log of its changes; `rows` after each record."""

    def __init__(self, draw: random.Random) -> None:
        self.draw = draw
        self.now: dict[int, Row] = {}
        self.pairs: list[Pair] = []
        self.rows: list[dict[int, Row]] = []
        self.keyless: list[int] = []

    def change(self, *, truncates: bool) -> None:
        """Make a change, and log it."""
        draw, number = self.draw, self.draw.randrange(8)
        chance = draw.random()
        if chance < 0.03 and truncates:
            self.now = {}
            self._log(None, event("t"))
        elif chance < 0.08:
            other = {**self._values(), "id": 99}
            self._log(None, event("m") if draw.random() < 0.5 else event("c", other))
        elif number in self.now and chance < 0.25:
            del self.now[number]
            self._log(key(number), event("d"))
            if draw.random() < 0.5:
                self._log(key(number), None)
        elif number in self.now:
            kept = {name for name in LEFT_OUT if draw.random() < 0.5}
            row = {**self._values(), "id": number}
            shown = {**row, **{name: LEFT_OUT[name] for name in kept}}
            self.now[number] = {**row, **{name: self.now[number][name] for name in kept}}
            self._log(key(number), event("u", shown))
        else:
            self.now[number] = {**self._values(), "id": number}
            self._log(key(number), event(draw.choice("cr"), self.now[number]))

    def _values(self) -> Row:
        draw = self.draw
        text = draw.choice([None, f"v{draw.randrange(1000)}"])
        raw = draw.choice([None, draw.randbytes(3)])
        tags = draw.choice([None, [], ["a"], ["a", None]])
        return {"doc": text, "raw": raw, "tags": tags, "plain": draw.randrange(1000)}

    def _log(self, of: str | None, value: str | None) -> None:
        self.pairs.append((of, value))
        self.rows.append({number: dict(row) for number, row in self.now.items()})
        self.keyless.append(of is None)


class Ways(World):
    """A log in which keys are written in several ways."""

    def _log(self, of: str | None, value: str | None) -> None:
        space = self.draw.choice(["", " ", "  "])
        super()._log(of if of is None else of.replace(" ", space), value)


def write(log_dir: Path, pairs: Sequence[Pair], offsets: Sequence[int], **options: int) -> Path:
    """A log of records at these offsets, `SIZE` offsets in each batch."""
    log = LogBuilder(log_dir, "t-0")
    segment = log.segment(0)
    for start in range(0, max(offsets) + 1, SIZE):
        here = [at for at in offsets if start <= at < start + SIZE]
        if here:
            segment.batch(
                start, [pairs[at] for at in here], offsets=here, last_offset=start + SIZE - 1
            )
    log.write(**options)
    return log_dir


def cuts(draw: random.Random, count: int) -> list[int]:
    end = count - count % SIZE
    return [*sorted(draw.sample(range(SIZE, end, SIZE), 2)), end]


@pytest.mark.parametrize("unique", ["partition", "topic"])
@pytest.mark.parametrize("form", FORMATS)
def test_a_table_is_the_source(tmp_path: Path, form: str, unique: str, seed: int) -> None:
    """However updates were cut, and if it is made again: all values, also those that the source has
    left out, and nothing of before a truncation.
    """
    world = World(random.Random(seed))
    for _ in range(70):
        world.change(truncates=True)
    where = table(tmp_path, form, unique, truncate="delete")
    keyless = 0
    for at in cuts(world.draw, len(world.pairs)):
        done = update(where, write(tmp_path / f"logs-{at}", world.pairs, range(at)))
        assert world.rows[at - 1] == rows_of(where)
        require_equal(where, tmp_path / f"logs-{at}")
        assert (0, {}) == (done.quarantined, done.result.failures)
        keyless += sum(one.keyless for one in done.result.partitions)
        assert 0 == sum(one.unknown for one in done.result.partitions)
    assert sum(world.keyless[:at]) == keyless
    again = table(tmp_path / "again", form, unique, truncate="delete")
    update(again, tmp_path / f"logs-{at}")
    assert rows_of(where) == rows_of(again)


@pytest.mark.parametrize("unique", ["partition", "topic"])
@pytest.mark.parametrize("form", FORMATS)
def test_a_table_by_decoded_keys_is_the_source(
    tmp_path: Path, form: str, unique: str, seed: int
) -> None:
    """However the keys are written: the row before has the values that were left out."""
    world = Ways(random.Random(seed))
    for _ in range(70):
        world.change(truncates=True)
    where = by_decoded(table(tmp_path, form, unique, truncate="delete"))
    for at in cuts(world.draw, len(world.pairs)):
        done = update(where, write(tmp_path / f"logs-{at}", world.pairs, range(at)))
        assert world.rows[at - 1] == rows_of(where)
        require_equal(where, tmp_path / f"logs-{at}")
        assert (0, {}) == (done.quarantined, done.result.failures)
        assert 0 == sum(one.unknown for one in done.result.partitions)


@pytest.mark.parametrize("is_decoded", [False, True])
@pytest.mark.parametrize("form", FORMATS)
def test_a_cleaned_log(tmp_path: Path, form: str, seed: int, *, is_decoded: bool) -> None:
    """A value that the log has lost is null, and counted; never an older one. So with keys that are
    written in several ways, of which the cleaner keeps a record each.
    """
    world = (Ways if is_decoded else World)(random.Random(seed))
    for _ in range(80):
        world.change(truncates=False)
    end = len(world.pairs) - len(world.pairs) % SIZE
    for number, first in enumerate(world.draw.sample(range(SIZE, end, SIZE), 2)):
        where = table(tmp_path / str(number), form)
        where = by_decoded(where) if is_decoded else where
        update(where, write(tmp_path / f"{number}-a", world.pairs, range(first)))
        cleaned_to = world.draw.choice(range(SIZE, end + 1, SIZE))
        newest = {of: at for at, (of, _) in enumerate(world.pairs[:cleaned_to])}
        kept = [at for at in range(end) if at >= cleaned_to or newest[world.pairs[at][0]] == at]
        kept = [at for at in kept if at >= cleaned_to or world.pairs[at][0] is not None]
        log_dir = write(tmp_path / f"{number}-b", world.pairs, kept, cleaner_checkpoint=cleaned_to)
        done = update(where, log_dir)
        lost = require_true(world.rows[end - 1], rows_of(where))
        unknown = sum(one.unknown for one in done.result.partitions)
        assert lost <= unknown, "a value is missing, and not counted"


def require_true(source: dict[int, Row], rows: dict[int, Row]) -> int:
    """Each value is that of the source, or null; return how many rows have lost one."""
    assert source.keys() == rows.keys()
    lost = 0
    for number, row in rows.items():
        wrong = {name for name in row if row[name] != source[number][name]}
        assert all(row[name] is None for name in wrong), (row, source[number])
        lost += bool(wrong)
    return lost


def test_the_record_before_was_cleaned(tmp_path: Path) -> None:
    """The table has the value of an older record, and it is unknown whether it still is."""
    where = table(tmp_path, "delta")
    old = [(key(number), event("c", {**ROW, "id": number})) for number in (1, 2, 3, 4, 5)]
    new = [
        (key(1), event("u", {**ROW, "doc": "new"})),
        (key(1), event("u", {**ROW, **LEFT_OUT})),
        (key(2), event("u", {**ROW, **LEFT_OUT, "id": 2})),
        (key(6), event("c", {**ROW, "id": 6})),
        (key(7), event("c", {**ROW, "id": 7})),
    ]
    update(where, write(tmp_path / "logs-a", old, range(5)))
    pairs = [*old, *new]
    cleaned = write(tmp_path / "logs-b", pairs, [1, 2, 3, 4, 6, 7, 8, 9], cleaner_checkpoint=7)
    done = update(where, cleaned)
    (result,) = done.result.partitions
    assert ("upsert", 1) == (result.step.kind, result.unknown)
    rows = rows_of(where)
    assert {**ROW, **dict.fromkeys(LEFT_OUT)} == rows[1]
    assert {**ROW, "id": 2} == rows[2]


ROW = {"id": 1, "doc": "d", "raw": b"r", "tags": ["t"], "plain": 1}


def updated(tmp_path: Path, where: LocatedTable, pairs: Sequence[Pair]) -> TopicUpdate:
    """Update the table from a log with a batch for each record."""
    log = LogBuilder(tmp_path / f"logs-{len(pairs)}", "t-0")
    segment = log.segment(0)
    for offset, pair in enumerate(pairs):
        segment.batch(offset, [pair])
    log.write()
    return update(where, log.log_dir)


@pytest.mark.parametrize("size", [1, 2, 8])
def test_a_lost_value_is_counted(tmp_path: Path, size: int) -> None:
    """The record before is refused, a deletion, of another key, or there is none: also if the key
    had a value before that. So it is however updates are cut.
    """
    where = table(tmp_path, "parquet")
    wrong = json.dumps({"op": "c", "after": {"id": "x"}, "source": {}})
    pairs: list[Pair] = [(key(1), event("u", {**ROW, **LEFT_OUT}))]
    for number, before in ((2, wrong), (3, event("d"))):
        of, shown = key(number), {**ROW, "id": number}
        pairs += [(of, event("c", shown)), (of, before), (of, event("u", {**shown, **LEFT_OUT}))]
    unknown = 0
    for end in [*range(size, len(pairs), size), len(pairs)]:
        (result,) = updated(tmp_path, where, pairs[:end]).result.partitions
        unknown += result.unknown
    null = {**ROW, **dict.fromkeys(LEFT_OUT)}
    assert 3 == unknown
    assert {number: {**null, "id": number} for number in (1, 2, 3)} == rows_of(where)


def test_another_placeholder(tmp_path: Path) -> None:
    """As the connector is configured: the default one is then a value like any other."""
    where = table(tmp_path, "parquet", unavailable="<gone>")
    pairs = [
        (key(1), event("c", {**ROW, "doc": UNAVAILABLE})),
        (key(1), event("u", {**ROW, "doc": "<gone>", "plain": 2})),
    ]
    updated(tmp_path, where, pairs)
    assert {1: {**ROW, "doc": UNAVAILABLE, "plain": 2}} == rows_of(where)


@pytest.mark.parametrize("partitions", [1, 2])
def test_a_truncation_that_is_refused(tmp_path: Path, partitions: int) -> None:
    """By default; and of a topic with several partitions in any case, since nobody knows which rows
    were before. It is in quarantine, and the rows stay.
    """
    spec = {} if partitions == 1 else {"truncate": "delete"}
    where = table(tmp_path, "parquet", **spec)
    log_dir = write(tmp_path / "logs", [(key(1), event("c", ROW)), (None, event("t"))], range(2))
    if partitions == 2:
        other = LogBuilder(tmp_path / "other", "t-1")
        other.segment(0).batch(0, [(key(2), event("c", {**ROW, "id": 2}))])
        other.write()
        (tmp_path / "other" / "t-1").rename(log_dir / "t-1")
    done = update(where, log_dir)
    assert 1 == done.quarantined
    assert partitions == len(rows_of(where))
    assert 1 == sum(one.keyless for one in done.result.partitions)
    assert 0 == sum(one.truncations for one in done.result.partitions)


def test_a_value_between_two_ways(tmp_path: Path) -> None:
    """The record before may be of another way, and be removed: then its value is not known, and the
    one before that is not the value.
    """
    where = by_decoded(table(tmp_path, "parquet"))
    spaced, plain = key(1), key(1).replace(" ", "")
    pairs = [
        (spaced, event("c", ROW)),
        (plain, event("u", {**ROW, "doc": "new"})),
        (plain, event("u", {**ROW, **LEFT_OUT, "plain": 2})),
        (spaced, event("u", {**ROW, **LEFT_OUT, "plain": 3})),
    ]
    updated(tmp_path, where, pairs)
    assert {1: {**ROW, "doc": "new", "plain": 3}} == rows_of(where)
    cleaned = write(tmp_path / "cleaned", pairs[:3], [0, 2], cleaner_checkpoint=3)
    again = by_decoded(table(tmp_path / "again", "parquet"))
    done = update(again, cleaned)
    assert [1] == [one.unknown for one in done.result.partitions]
    assert {1: {**ROW, **dict.fromkeys(LEFT_OUT), "plain": 2}} == rows_of(again)
