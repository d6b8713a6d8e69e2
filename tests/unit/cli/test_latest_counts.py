"""What ``logwright latest`` counts: reasons of refusals, decoded keys with several rows; and tables
of topics that have tombstones only.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.catalog import load_catalog

from tests.log_builder import START_MS, LogBuilder, Pair
from tests.table_rows import FORMATS, read_table, table_rows
from tests.unit.cli.conftest import Call

JSON = ("--output", "json", "--now", START_MS + 10_000)
KEYS = ("--key", "{format: json, schema: {id: long}}")
VALUES = ("--value", "{format: json, schema: {v: long not null}}")


def logs(directory: Path, *partitions: list[Pair]) -> Path:
    """Each record is a batch."""
    for number, pairs in enumerate(partitions):
        log = LogBuilder(directory, f"t-{number}")
        segment = log.segment(0)
        for offset, pair in enumerate(pairs):
            segment.batch(offset, [pair])
        log.write()
    return directory


def columns_of(form: str, path: Path) -> tuple[int, set[str]]:
    """Number of the rows, and the columns, by a reader of the format."""
    if form == "iceberg":
        catalog = load_catalog("logwright", type="sql", uri=f"sqlite:///{path}/catalog.db")
        table = catalog.load_table("latest_state.t").scan().to_arrow()
    else:
        table = read_table(form, path)
    return table.num_rows, set(table.column_names)


def test_reasons_are_counted(call: Call, tmp_path: Path) -> None:
    """The most frequent first, also of earlier updates; without a value."""
    log_dir = logs(
        tmp_path / "logs",
        [('{"id":1}', "secret"), ('{"id":2}', '{"v":null,"w":"secret"}'), ('{"id":3}', '{"v":1}')],
        [('{"id":4}', "{}"), ('{"id":"secret"}', '{"v":1}')],
    )
    words = ("latest", log_dir, "t", "--to", tmp_path / "table", *KEYS, *VALUES)
    answer = call(*words, *JSON)
    assert 0 == answer.status, answer.err
    missing = {"part": "value", "reason": "field v is missing or null", "records": 2}
    for line in answer.lines:
        assert 4 == line["quarantined"]
        assert missing == line["refusalReasons"][0]
        assert 3 == len(line["refusalReasons"])
    again = call(*words, "--now", START_MS + 10_000)
    assert "  2 in quarantine: value field v is missing or null\n" in again.out
    assert "  1 in quarantine: key field id " in again.out
    assert "secret" not in answer.out + again.out + again.err


def test_keys_that_are_written_in_several_ways(call: Call, tmp_path: Path) -> None:
    """They are counted, and with `--unique-by decoded` they have one row."""
    log_dir = logs(
        tmp_path / "logs",
        [('{"id":1}', '{"v":1}'), ('{"id": 1}', '{"v":2}'), ('{"id":2}', '{"v":3}')],
        [('{"id":1}', '{"v":4}')],
    )
    words = ("latest", log_dir, "t", *KEYS, *VALUES, "--to")
    answer = call(*words, tmp_path / "bytes", *JSON)
    assert [1, 0] == [line["decodedKeysInSeveralRows"] for line in answer.lines]
    assert "1 of 3 decoded keys have several rows" in answer.err
    nothing_new = call(*words, tmp_path / "bytes", *JSON)
    assert not any("decodedKeysInSeveralRows" in line for line in nothing_new.lines)
    whole = call(*words, tmp_path / "whole", "--unique", "topic", *JSON)
    assert [1, 1] == [line["decodedKeysInSeveralRows"] for line in whole.lines]
    decoded = call(*words, tmp_path / "decoded", "--unique-by", "decoded", *JSON)
    assert [0, 0] == [line["decodedKeysInSeveralRows"] for line in decoded.lines]
    assert "several rows" not in decoded.err
    rows = table_rows("parquet", tmp_path / "decoded", ["v"])
    assert [(0, 1, 2), (0, 2, 3), (1, 0, 4)] == rows
    refused = call(*words[:-1], "--key", "binary", "--unique-by", "decoded", "--to", tmp_path / "x")
    assert 2 == refused.status
    assert "keys are not decoded to one" in refused.err


@pytest.mark.parametrize("unique", ["partition", "topic"])
@pytest.mark.parametrize("form", FORMATS)
def test_tombstones_only(call: Call, tmp_path: Path, form: str, unique: str) -> None:
    """The table is empty, and has its columns; records that come later are its rows."""
    gone: list[Pair] = [('{"id":1}', None), ('{"id":2}', None)]
    to = tmp_path / "table"
    words = ("t", "--to", to, "--format", form, "--unique", unique, *KEYS, *VALUES)
    answer = call("latest", logs(tmp_path / "1", gone), *words, *JSON)
    assert (0, [0]) == (answer.status, [line["rows"] for line in answer.lines]), answer.err
    own = {"partition", "bucket", "offset", "timestamp", "_key"}
    assert (0, own | {"key", "v"}) == columns_of(form, to)
    more = logs(tmp_path / "2", [*gone, ('{"id":1}', '{"v":7}')])
    answer = call("latest", more, *words, *JSON)
    assert ["upsert"] == [line["step"] for line in answer.lines], answer.err
    assert [(0, 2, {"id": 1}, 7)] == table_rows(form, to, ["key", "v"])


def test_tombstones_have_no_fields_to_infer(call: Call, tmp_path: Path) -> None:
    """There is no column to make: it says why and what to do, and a later run makes the table."""
    gone: list[Pair] = [("a", None), ("b", None)]
    words = ("t", "--to", tmp_path / "table", "--key", "string", "--value", "json")
    answer = call("latest", logs(tmp_path / "1", gone), *words)
    assert 2 == answer.status
    assert "no record that was looked at has a value" in answer.err
    assert "Set schema" in answer.err
    assert "or run it again" in answer.err
    more = logs(tmp_path / "2", [*gone, ("a", '{"v":7}')])
    answer = call("latest", more, *words)
    assert 0 == answer.status, answer.err
    assert [(0, 2, "a", 7)] == table_rows("parquet", tmp_path / "table", ["key", "v"])
