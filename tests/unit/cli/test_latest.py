"""``logwright latest``: tables in three formats, now and in the past, plain files, refusals."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from logwright.locks import lock_log_dir
from tests.fixtures import case_dir, copy_before
from tests.latest_rows import replayed
from tests.log_builder import START_MS, LogBuilder
from tests.planted_format import REVERSED, planted
from tests.planted_table import LISTED
from tests.planted_table import planted as planted_table
from tests.sequences.reading import read_content
from tests.unit.cli.conftest import Call

NOW = START_MS + 10_000
JSON = ("--output", "json", "--now", NOW)


COLUMNS = 'partition, key, value, "offset"'


def rows_of(directory: Path, files: str = "*/**/rows.parquet") -> list[tuple[Any, ...]]:
    """Partition, key, value and offset of the Parquet files of a directory, by DuckDB."""
    table = duckdb.read_parquet(f"{directory}/{files}", hive_partitioning=True)
    return sorted(table.project(COLUMNS).fetchall())


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """A topic of two partitions; the first one is not cleaned."""
    first = LogBuilder(tmp_path / "logs", "t-0")
    first.segment(0).batch(0, [("a", "1"), ("b", "2"), (None, "x")])
    first.segment(3).batch(3, [("a", "3"), ("b", None), ("c", "4")])
    first.write()
    second = LogBuilder(tmp_path / "other", "t-1")
    second.segment(0).batch(0, [("a", "5")])
    second.write()
    (second.directory).rename(tmp_path / "logs" / "t-1")
    return tmp_path / "logs"


NOW_ROWS = [(0, b"a", b"3", 3), (0, b"c", b"4", 5), (1, b"a", b"5", 0)]


def test_a_table_is_made_and_updated(call: Call, log_dir: Path, tmp_path: Path) -> None:
    """The first run reads everything, a second one nothing; each says what it did."""
    answer = call("latest", log_dir, "t", "--to", tmp_path / "table", *JSON)
    assert answer.status == 0, answer.err
    first, second = answer.lines
    assert (first["topicPartition"], first["step"], first["rows"]) == ("t-0", "rebuild", 2)
    assert (second["topicPartition"], second["endOffset"], second["rows"]) == ("t-1", 1, 1)
    assert rows_of(tmp_path / "table") == NOW_ROWS
    again = call("latest", log_dir, "t", "--to", tmp_path / "table", *JSON)
    assert [(one["step"], one["bytesRead"]) for one in again.lines] == [("nothing", 0)] * 2
    assert rows_of(tmp_path / "table") == NOW_ROWS


def test_a_partition_without_a_log_is_named(call: Call, log_dir: Path, tmp_path: Path) -> None:
    """Its disk may only be unmounted, so its rows stay; that they were not updated is said."""
    words = ("latest", log_dir, "t", "--to", tmp_path / "table")
    words = (*words, "--key", "string", "--value", "string")
    assert "" == call(*words, *JSON).err
    shutil.rmtree(log_dir / "t-1")
    answer = call(*words, *JSON)
    rows = [(0, "a", "3", 3), (0, "c", "4", 5), (1, "a", "5", 0)]
    assert (0, rows) == (answer.status, rows_of(tmp_path / "table"))
    assert {"topicPartition": "t-1", "step": "left"} == answer.lines[-1]
    errors = call(*words, "--now", NOW).err
    assert "t-1: " in errors
    assert "has no log of it, so its rows stay as they were" in errors


def test_what_records_came_to(call: Call, tmp_path: Path) -> None:
    """Counted in the summary and in JSON: records without a key, truncations, values that the
    source left out and nobody knows.
    """
    left_out = '{"op": "u", "after": {"id": 1, "doc": "__debezium_unavailable_value"}}'
    pairs = [(None, '{"op": "c", "after": {"id": 2}}'), (None, '{"op": "t"}'), ("a", left_out)]
    log = LogBuilder(tmp_path / "logs")
    log.segment(0).batch(0, pairs)
    log.write()
    spec = "{format: debezium, truncate: delete}"
    words = ("latest", log.log_dir, "t", "--key", "string", "--value", spec, "--to")
    (line,) = call(*words, tmp_path / "one", *JSON).lines
    names = ("recordsWithoutKey", "truncations", "rowsWithUnknownValues", "messages", "rows")
    assert [2, 1, 1, 0, 1] == [line[name] for name in names]
    out = call(*words, tmp_path / "two").out
    assert "Of the new records: without a key, and so without a row: 2; truncations" in out
    assert "unavailable values that are not known, rows with null: 1." in out


def test_each_format(call: Call, log_dir: Path, tmp_path: Path) -> None:
    """Delta and Iceberg tables have the same rows, by readers of their own."""
    for form in ("delta", "iceberg"):
        target = tmp_path / form
        assert call("latest", log_dir, "t", "--to", target, "--format", form).status == 0
    columns = ["partition", "key", "value", "offset"]
    table = DeltaTable(str(tmp_path / "delta")).to_pyarrow_table(columns=columns)
    rows = sorted(tuple(row.values()) for row in table.to_pylist())
    assert rows == NOW_ROWS
    assert rows_of(tmp_path / "iceberg", "data/**/*.parquet") == NOW_ROWS


def decoded(directory: Path) -> list[tuple[Any, ...]]:
    """The decoded columns."""
    table = duckdb.read_parquet(f"{directory}/*/*/rows.parquet")
    return table.project("key, name, age").fetchall()


def test_keys_and_values_are_decoded(call: Call, tmp_path: Path) -> None:
    """By options, or by the topic's entry in the policies."""
    log = LogBuilder(tmp_path / "logs")
    log.segment(0).batch(0, [("a", '{"name": "Ada", "age": 36}'), ("b", "no JSON")])
    log.write()
    words = ("--key", "string", "--value", "json")
    answer = call("latest", log.log_dir, "t", "--to", tmp_path / "one", *words, *JSON)
    assert answer.status == 0, answer.err
    assert [one["recordsRefused"] for one in answer.lines] == [1]
    assert decoded(tmp_path / "one") == [("a", "Ada", 36)]
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "topics.yml").write_text(
        "version: 1\ntopics:\n  - name: t\n    table:\n      format: delta\n"
        "      path: /elsewhere\n      key: string\n"
        "      value: {format: json, schema: {name: string, age: long}}\n"
    )
    policies = ("--policies", tmp_path / "policies", "--format", "parquet")
    answer = call("latest", log.log_dir, "t", "--to", tmp_path / "two", *policies)
    assert answer.status == 0, answer.err
    assert decoded(tmp_path / "two") == [("a", "Ada", 36)]
    assert "--format parquet: the topic's table in --policies has the format delta." in answer.err


SPECS = {
    "string": (b"text", ("text",)),
    "{format: json, schema: {a: long}}": (b'{"a": 1}', (1,)),
    "{format: avro, schema_file: SCHEMAS/7.avsc}": (b"\x06Ada", ("Ada",)),
    "{format: protobuf, schema_file: SCHEMAS/m.proto, message: M}": (b"\x0a\x03Ada", ("Ada",)),
    "{format: registry, schemas: SCHEMAS}": (b"\0\0\0\0\x07\x06Ada", ("Ada",)),
    "@SCHEMAS/spec.yml": (b"\x06Ada", ("Ada",)),
}


@pytest.mark.parametrize("spec", SPECS)
def test_each_spec_needs_no_policies(call: Call, tmp_path: Path, spec: str) -> None:
    """With its options in the call, in a file, or a directory of schemas, which also has schemas
    of other topics, with higher ids.
    """
    schemas = tmp_path / "schemas"
    schemas.mkdir()
    for name in ("7.avsc", "9.avsc"):
        kind = {
            "type": "record",
            "name": f"r{name[0]}",
            "fields": [{"name": "n", "type": "string"}],
        }
        (schemas / name).write_text(json.dumps(kind))
    (schemas / "m.proto").write_text('syntax = "proto3"; message M { string n = 1; }')
    (schemas / "spec.yml").write_text("format: avro\nschema_file: 7.avsc\n")
    content, expected = SPECS[spec]
    log = LogBuilder(tmp_path / "logs")
    log.segment(0).batch(0, [("k", content)])
    log.write()
    words = ("--key", "string", "--value", spec.replace("SCHEMAS", str(schemas)))
    answer = call("latest", log.log_dir, "t", "--to", tmp_path / "table", *words, *JSON)
    assert (0, "") == (answer.status, answer.err)
    table = duckdb.read_parquet(f"{tmp_path}/table/*/*/rows.parquet")
    others = ("topic", "partition", "offset", "timestamp", "bucket", "_key")
    named = [name for name in table.columns if name not in others]
    assert [("k", *expected)] == table.project(", ".join(named)).fetchall()


def test_one_row_of_a_key(call: Call, log_dir: Path, tmp_path: Path) -> None:
    """In the whole topic, if the option or the policies say so; a table keeps to its rule."""
    words = ("latest", log_dir, "t", "--now", NOW, "--to")
    assert 0 == call(*words, tmp_path / "a", "--unique", "topic").status
    assert NOW_ROWS[:2] == rows_of(tmp_path / "a")
    refused = call(*words, tmp_path / "a")
    assert 5 == refused.status
    assert "it was made with unique: topic" in refused.err
    policies = tmp_path / "policies"
    policies.mkdir()
    entry = "{format: delta, path: /elsewhere, unique: topic}"
    (policies / "topics.yml").write_text(f"version: 1\ntopics:\n  - name: t\n    table: {entry}\n")
    assert 0 == call(*words, tmp_path / "b", "--policies", policies).status
    table = DeltaTable(str(tmp_path / "b")).to_pyarrow_table(columns=["offset"])
    assert [3, 5] == sorted(table["offset"].to_pylist())


def test_the_format_of_the_policies(call: Call, log_dir: Path, tmp_path: Path) -> None:
    """It is that of the table, unless another one is given, which is said."""
    for form in ("delta", "iceberg"):
        policies = tmp_path / f"policies-{form}"
        policies.mkdir()
        (policies / "topics.yml").write_text(
            f"version: 1\ntopics:\n  - name: t\n    table: {{format: {form}, path: /elsewhere}}\n"
        )
        words = ("latest", log_dir, "t", "--policies", policies, "--to")
        answer = call(*words, tmp_path / form)
        assert 0 == answer.status, answer.err
        assert "--format" not in answer.err
        given = call(*words, tmp_path / f"{form}-not", "--format", "parquet")
        assert f"--format parquet: the topic's table in --policies has the format {form}." in (
            given.err
        )
        assert NOW_ROWS == rows_of(tmp_path / f"{form}-not")
    table = DeltaTable(str(tmp_path / "delta")).to_pyarrow_table(columns=["offset"])
    assert [0, 3, 5] == sorted(table["offset"].to_pylist())
    assert NOW_ROWS == rows_of(tmp_path / "iceberg", "data/**/*.parquet")


def test_what_is_not_decoded_is_named(call: Call, tmp_path: Path) -> None:
    """What keys and values look like, by how many, and the option that decodes them; no value."""
    log = LogBuilder(tmp_path / "logs")
    log.segment(0).batch(0, [(f"k{number}", '{"name": "s3cret"}') for number in range(3)])
    log.write()
    words = ("latest", log.log_dir, "t", "--to")
    answer = call(*words, tmp_path / "blobs")
    assert "3 of 3 keys looked at look like UTF-8: --key string\n" in answer.err
    assert "3 of 3 values looked at look like JSON: --value json\n" in answer.err
    assert "s3cret" not in answer.err
    assert "" == call(*words, tmp_path / "blobs").err  # nothing is new
    decoded = call(*words, tmp_path / "table", "--key", "string", "--value", "json")
    assert (0, "") == (decoded.status, decoded.err)
    given = call(*words, tmp_path / "bytes", "--key", "string")
    assert "--key" not in given.err
    assert "--value json" in given.err


def test_a_time_before_all_records_is_named(call: Call, log_dir: Path, tmp_path: Path) -> None:
    """The table is empty, and why is said of each partition."""
    words = ("latest", log_dir, "t", "--to", tmp_path / "table", "--as-of-time")
    answer = call(*words, START_MS - 1)
    assert 0 == answer.status
    assert "t-0: nothing is that old. Its first record is of 20" in answer.err
    assert "t-1: nothing is that old. Its first record is of 20" in answer.err
    assert "nothing is that old" not in call(*words, START_MS).err


def test_a_new_format(call: Call, log_dir: Path, tmp_path: Path) -> None:
    """A format that is registered can be chosen for values, and no other one."""
    words = ("latest", log_dir, "t", "--to", tmp_path / "table", "--value", REVERSED, *JSON)
    assert "--value is invalid: must be one of avro, binary," in call(*words).err
    with planted():
        assert 0 == call(*words).status
    decoded = pq.read_table(tmp_path / "table")
    assert {"3", "4", "5"} == set(decoded["value"].to_pylist())


def test_a_new_table_format(call: Call, log_dir: Path, tmp_path: Path) -> None:
    """A format of tables that is registered can be chosen, and no other one."""
    words = ("latest", log_dir, "t", "--to", tmp_path / "table", "--format", LISTED, *JSON)
    assert "is not one of 'parquet', 'delta', 'iceberg'" in call(*words).err
    with planted_table():
        assert 0 == call(*words).status
        assert ["nothing"] * 2 == [line["step"] for line in call(*words).lines]
    files = sorted((tmp_path / "table").glob("*.parquet"))
    assert NOW_ROWS == rows_of(tmp_path / "table", "*.parquet")
    assert 2 == len(files)


@pytest.mark.parametrize(
    ("point", "expected"),
    [
        (["--as-of-offset", "0:3"], [(0, b"a", b"1", 0), (0, b"b", b"2", 1), NOW_ROWS[2]]),
        (["--as-of-offset", "0:0", "--as-of-offset", "1:0"], []),
        (
            ["--as-of-time", str(START_MS + 2)],
            [(0, b"a", b"1", 0), (0, b"b", b"2", 1), NOW_ROWS[2]],
        ),
        (["--as-of-time", "2025-10-09T08:53:20.000Z"], [(0, b"a", b"1", 0), NOW_ROWS[2]]),
        (["--as-of-time", "2025-10-09T08:53:20"], [(0, b"a", b"1", 0), NOW_ROWS[2]]),
        (["--as-of-time", "2025-10-09T10:53:20+02:00"], [(0, b"a", b"1", 0), NOW_ROWS[2]]),
        (["--as-of-time", "2200-01-01"], NOW_ROWS),
    ],
)
@pytest.mark.parametrize("plain", [False, True])
def test_points_in_the_past(
    call: Call,
    log_dir: Path,
    tmp_path: Path,
    point: list[str],
    expected: list[tuple[Any, ...]],
    *,
    plain: bool,
) -> None:
    """Offsets by partition, or a time; partitions that are not named are as they are now."""
    words = ["--columns", "key,value,offset"] if plain else []
    answer = call("latest", log_dir, "t", "--to", tmp_path / "table", *point, *words, *JSON)
    assert answer.status == 0, answer.err
    assert rows_of(tmp_path / "table") == expected


def test_a_table_of_the_past_is_not_an_update(call: Call, log_dir: Path, tmp_path: Path) -> None:
    """It has a path of its own; a later update brings it to now."""
    words = ("latest", log_dir, "t", "--to", tmp_path / "table", *JSON)
    assert call(*words, "--as-of-offset", "0:3").status == 0
    refused = call(*words, "--as-of-offset", "0:4")
    assert refused.status == 5
    assert "a table is there already" in refused.err
    answer = call(*words)
    assert [one["step"] for one in answer.lines] == ["upsert", "nothing"]
    assert rows_of(tmp_path / "table") == NOW_ROWS


def test_a_table_of_the_past_may_have_missed_tombstones(call: Call, tmp_path: Path) -> None:
    """Its update takes the rows away whose records a cleaning has removed since that point, however
    short ago it was made.
    """
    before = LogBuilder(tmp_path / "logs")
    before.segment(0).batch(0, [("b", "2")]).batch(1, [("a", "1")]).batch(2, [("b", None)])
    before.write()
    words = ("t", "--to", tmp_path / "table", *JSON)
    assert call("latest", before.log_dir, *words, "--as-of-offset", 2).status == 0
    cleaned = LogBuilder(tmp_path / "cleaned")
    cleaned.segment(0).batch(1, [("a", "1")])
    cleaned.segment(3).batch(3, [("c", "3")])
    cleaned.write(cleaner_checkpoint=3)
    (done,) = call("latest", cleaned.log_dir, *words).lines
    assert ("upsert", 4, 2, 1) == (
        *(done[name] for name in ("step", "endOffset", "rows", "rowsDeleted")),
    )
    assert "offset 2 is missing: a tombstone may have been there" == done["reason"]


def test_a_lost_point_is_refused(call: Call, tmp_path: Path) -> None:
    """With the offsets, and what can be asked for; nothing is written."""
    log = LogBuilder(tmp_path / "logs")
    log.segment(0).batch(0, [("a", "1")]).batch(2, [("b", "2")]).batch(3, [("c", "3")])
    log.segment(4).batch(4, [("d", "4"), ("e", "5")])
    log.write(cleaner_checkpoint=4)
    words = ("latest", log.log_dir, "t", "--to", tmp_path / "table")
    for offset, problem in (
        (3, "offset 1 is missing, and the log was cleaned up to 4."),
        (3, "Ask for an offset up to 1, or from 4 to 6."),
        (7, "its log start offset is 0, its last stable offset 6."),
    ):
        answer = call(*words, "--as-of-offset", offset)
        assert answer.status == 5
        assert problem in answer.err
    assert not (tmp_path / "table").exists()
    for offset in (1, 4, 5, 6):
        plain = ("--columns", "key,value,offset", "--as-of-offset", offset)
        target = tmp_path / str(offset)
        assert call("latest", log.log_dir, "t", "--to", target, *plain).status == 0
        assert len(rows_of(target)) == {1: 1, 4: 3, 5: 4, 6: 5}[offset]


def test_plain_files(call: Call, tmp_path: Path) -> None:
    """The asked columns, without the partition, which is in the directory's name; once."""
    log_dir = copy_before("basic-zstd", tmp_path)
    target = tmp_path / "plain"
    words = ("latest", log_dir, "t", "--to", target, "--columns", "offset,key,partition,headers")
    answer = call(*words, *JSON)
    assert answer.status == 0, answer.err
    (line,) = answer.lines
    table = pq.read_table(line["path"], partitioning=None)
    assert table.schema.names == ["offset", "key", "headers"]
    expected = [(row[0], row[2]) for row in replayed(read_content(log_dir, "t-0"))]
    rows = list(zip(table["key"].to_pylist(), table["offset"].to_pylist(), strict=True))
    assert expected == rows
    assert line["rows"] == len(expected)
    assert [path.name for path in target.parent.iterdir() if path.name.startswith(".")] == []
    again = call(*words)
    assert again.status == 5
    assert "not an empty directory" in again.err


def test_dry_run_reads_no_record(call: Call, log_dir: Path, tmp_path: Path) -> None:
    """It shows the offsets, and writes nothing."""
    point = ("--as-of-offset", "0:3")
    answer = call("latest", log_dir, "t", "--to", tmp_path / "table", "--dry-run", *point, *JSON)
    assert answer.lines == [
        {"topicPartition": "t-0", "startOffset": 0, "endOffset": 3},
        {"topicPartition": "t-1", "startOffset": 0, "endOffset": 1},
    ]
    assert not (tmp_path / "table").exists()


def test_only_what_was_replicated(call: Call, tmp_path: Path) -> None:
    """With the high watermark of the checkpoint; an offset above it is refused."""
    log = LogBuilder(tmp_path / "logs")
    log.segment(0).batch(0, [("a", "1"), ("a", "2"), ("b", "3")])
    log.write(high_watermark=1)
    words = (
        "latest",
        log.log_dir,
        "t",
        "--high-watermark",
        "checkpoint",
        "--columns",
        "offset,key",
    )
    answer = call(*words, "--to", tmp_path / "table", *JSON)
    assert [(one["rows"], one["endOffset"]) for one in answer.lines] == [(1, 1)]
    assert call(*words, "--to", tmp_path / "other", "--as-of-offset", 2).status == 5


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ([], "give one TOPIC"),
        (["t", "u"], "give one TOPIC"),
        (["t", "--as-of-offset", "3"], "has 2 partitions: give P:OFFSET"),
        (["t", "--as-of-offset", "0:x"], "is not P:OFFSET or OFFSET"),
        (["t", "--as-of-offset", "2:3"], "each of the topic's partitions once"),
        (["t", "--as-of-offset", "0:3", "--as-of-offset", "0:4"], "once at most"),
        (["t", "--as-of-offset", "0:3", "--as-of-time", "5"], "contradict each other"),
        (["t", "--as-of-time", "soon"], "is neither ms since the epoch nor ISO 8601"),
        (["t", "--columns", "key,valeu"], "expected some of key, value"),
        (["t", "--columns", "key,key"], "each once"),
        (["t", "--columns", "key", "--format", "delta"], "--columns is for --format parquet"),
        (["t", "--columns", "key", "--key", "string"], "--columns is for --format parquet"),
        (["t", "--columns", "key", "--unique", "topic"], "--columns writes one row of a key for"),
        (["t", "--format", "orc"], "--format"),
        (["t", "--value", "strng"], "--value is invalid: must be one of avro"),
        (["t", "--key", "avro"], "--key is invalid: schema_file: is required"),
        (["t", "--key", "debezium"], "--key and --value: the format debezium is for values"),
    ],
)
def test_wrong_calls(
    call: Call, log_dir: Path, tmp_path: Path, words: list[str], problem: str
) -> None:
    """Exit with status 2 and say what is expected."""
    answer = call("latest", log_dir, "--to", tmp_path / "table", *words)
    assert answer.status == 2
    assert problem in answer.err
    assert not (tmp_path / "table").exists()


def test_what_cannot_be_read(call: Call, log_dir: Path, tmp_path: Path) -> None:
    """A missing topic, a running broker, a file in the way, a directory that needs a recovery."""
    to = ("--to", tmp_path / "table")
    answer = call("latest", log_dir, "absent", *to)
    assert (answer.status, "no partition of topic absent" in answer.err) == (5, True)
    (tmp_path / "file").write_text("")
    plain = ("--columns", "key")
    assert call("latest", log_dir, "t", "--to", tmp_path / "file", *plain).status == 5
    below = call("latest", log_dir, "t", "--to", tmp_path / "file" / "table", *plain)
    assert (below.status, "cannot be written: Not a directory." in below.err) == (7, True)
    assert call("latest", case_dir("torn-tail") / "before", "t", *to).status == 5
    assert not (tmp_path / "table").exists()


def test_reads_beside_other_readers(call: Call, log_dir: Path, tmp_path: Path) -> None:
    """The lock on the log directory is a shared one."""
    with lock_log_dir(log_dir):
        assert call("latest", log_dir, "t", "--to", tmp_path / "table").status == 0


def test_without_a_high_watermark_no_table_is_emptied(call: Call, tmp_path: Path) -> None:
    """A log with records and none on record is refused, and what the message says works."""
    log = LogBuilder(tmp_path / "logs")
    log.segment(0).batch(0, [("a", "1"), ("b", "2")])
    log.write()
    words = ("latest", log.log_dir, "t", "--to", tmp_path / "table", *JSON)
    assert call(*words).status == 0
    before = rows_of(tmp_path / "table")
    refused = call(*words, "--high-watermark", "checkpoint")
    assert refused.status == 5
    assert "has records, and no high watermark in replication-offset-checkpoint" in refused.err
    assert rows_of(tmp_path / "table") == before
    assert call(*words, "--high-watermark", "end").status == 0


def test_a_lower_high_watermark_takes_no_row_away(call: Call, tmp_path: Path) -> None:
    """It is refused, and what the message says works."""
    log = LogBuilder(tmp_path / "logs")
    log.segment(0).batch(0, [("a", "1")]).batch(1, [("b", "2")])
    log.write(high_watermark=1)
    words = ("latest", log.log_dir, "t", "--to", tmp_path / "table", *JSON)
    assert call(*words, "--high-watermark", "end").status == 0
    refused = call(*words, "--high-watermark", "checkpoint")
    assert refused.status == 5
    assert "the high watermark is 1, below offset 2" in refused.err
    assert len(rows_of(tmp_path / "table")) == 2
    assert call(*words, "--high-watermark", "end").status == 0


def test_all_records_refused_is_no_success(call: Call, tmp_path: Path) -> None:
    """The status says so, also in the next run, and when only the new ones are refused."""
    log = LogBuilder(tmp_path / "logs")
    log.segment(0).batch(0, [("a", "s3cret"), ("b", "s3cret"), ("c", None)])
    log.write()
    words = ("t", "--to", tmp_path / "table", "--value", "int", *JSON)
    for _ in range(2):
        answer = call("latest", log.log_dir, *words)
        assert answer.status == 6
        assert "No record could be decoded" in answer.err
        assert "s3cret" not in answer.err
    more = LogBuilder(tmp_path / "more")
    more.segment(0).batch(0, [("a", "s3cret"), ("b", "s3cret"), ("c", None)])
    more.segments[0].batch(3, [("a", b"\0\0\0\1")])
    more.write()
    assert call("latest", more.log_dir, *words).status == 0
    worse = LogBuilder(tmp_path / "worse")
    worse.segments.extend(more.segments)
    worse.segment(4).batch(4, [("b", "s3cret")])
    worse.write()
    assert call("latest", worse.log_dir, *words).status == 6
    assert call("latest", worse.log_dir, *words).status == 0  # the table has a row
