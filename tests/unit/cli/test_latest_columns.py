"""``logwright latest`` of topics whose records get a newer schema: ``--dry-run``, ``--rebuild``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import duckdb
import pytest

from tests.log_builder import START_MS, Pair
from tests.table_schemas import ID, LEVEL, Schemas, record
from tests.unit.cli.conftest import Call

JSON = ("--output", "json", "--now", START_MS + 10_000)


def seen(directory: Path) -> dict[str, int]:
    """All files, with the time of their last change."""
    return {str(path): path.stat().st_mtime_ns for path in directory.rglob("*") if path.is_file()}


def words(schemas: Schemas, tmp_path: Path, name: str, pairs: Sequence[Pair]) -> list[object]:
    spec = f"{{format: registry, schemas: {tmp_path}/schemas}}"
    logs = schemas.logs(name, pairs)
    to = ("--to", tmp_path / "table", "--key", "string", "--value", spec)
    return ["latest", logs, "t", *to, "--high-watermark", "end"]


def test_a_newer_schema_is_shown_before(call: Call, tmp_path: Path) -> None:
    """What the dry run says is what the update does, and it writes nothing."""
    schemas = Schemas(tmp_path)
    schemas.add(1, record(ID))
    schemas.add(2, record({"name": "id", "type": "long"}, LEVEL))
    first = [("a", schemas.value(1, id=1))]
    given = words(schemas, tmp_path, "logs-1", first)
    new = call(*given, "--dry-run", *JSON)
    assert {("_key", "added"), ("id", "added")} <= {
        (line["column"], line["change"]) for line in new.lines if "column" in line
    }
    assert not (tmp_path / "table").exists()
    assert call(*given, *JSON).status == 0
    given = words(schemas, tmp_path, "logs-2", [*first, ("b", schemas.value(2, id=2, level="x"))])
    before = seen(tmp_path)
    planned = call(*given, "--dry-run", *JSON)
    assert before == seen(tmp_path)
    (step, *changes) = planned.lines
    assert ("rebuild", 0) == (step["step"], planned.status)
    size = sum(path.stat().st_size for path in tmp_path.glob("logs-2/t-0/*.log"))
    assert size == step["bytesToRead"]
    assert [
        {"column": "id", "change": "widened", "before": "int32", "after": "int64"},
        {"column": "level", "change": "added", "before": "", "after": "string"},
    ] == changes
    text = call(*given, "--dry-run", "--now", START_MS + 10_000)
    assert "column level is added, string" in text.out
    assert "The table would be made again: id is widened from int32 to int64" in text.out
    done = call(*given, *JSON)
    assert ("rebuild", size) == (done.lines[0]["step"], done.lines[0]["bytesRead"])
    assert "column level is added" in done.err
    nothing = call(*given, "--dry-run", *JSON)
    assert ["nothing"] == [line["step"] for line in nothing.lines]


def test_a_refusal_is_shown_before_and_a_rebuild_is_asked_for(call: Call, tmp_path: Path) -> None:
    schemas = Schemas(tmp_path)
    schemas.add(1, record(ID))
    schemas.add(2, record({"name": "id", "type": "string"}))
    first = [("a", schemas.value(1, id=1))]
    assert call(*words(schemas, tmp_path, "logs-1", first), *JSON).status == 0
    given = words(schemas, tmp_path, "logs-2", [*first, ("b", schemas.value(2, id="x"))])
    for more in (["--dry-run"], []):
        answer = call(*given, *more, *JSON)
        assert answer.status == 5
        assert "id is changed from int32 to string" in answer.err
        assert "--rebuild" in answer.err
    planned = call(*given, "--dry-run", "--rebuild", *JSON)
    assert ("rebuild", 0) == (planned.lines[0]["step"], planned.status)
    done = call(*given, "--rebuild", *JSON)
    assert (0, 1) == (done.status, done.lines[0]["recordsRefused"])
    rows = duckdb.read_parquet(f"{tmp_path}/table/*/*/*.parquet", hive_partitioning=True)
    assert [("b", "x")] == rows.project("key, id").fetchall()


def test_fixed_columns(call: Call, tmp_path: Path) -> None:
    schemas = Schemas(tmp_path)
    schemas.add(1, record(ID))
    schemas.add(2, record(ID, LEVEL))
    first = [("a", schemas.value(1, id=1))]
    assert call(*words(schemas, tmp_path, "logs-1", first), *JSON).status == 0
    given = words(schemas, tmp_path, "logs-2", [*first, ("b", schemas.value(2, id=2, level="x"))])
    done = call(*given, "--schema-changes", "fixed", *JSON)
    assert ("upsert", 2) == (done.lines[0]["step"], done.lines[0]["rows"])
    assert "level" not in duckdb.read_parquet(f"{tmp_path}/table/*/*/*.parquet").columns
    plain = ("--to", tmp_path / "plain", "--columns", "key")
    refused = call("latest", tmp_path / "logs-2", "t", *plain, "--rebuild", *JSON)
    assert "--columns is not for --rebuild" in refused.err


def test_later_fields_of_inferred_json(call: Call, tmp_path: Path) -> None:
    """They are named, in an update and before it; `--rebuild` has them as columns."""
    schemas = Schemas(tmp_path)
    first = [("a", '{"id": 1}')]
    logs = [schemas.logs("logs-1", first), schemas.logs("logs-2", [*first, ("b", '{"new": "x"}')])]
    given = ("t", "--to", tmp_path / "table", "--value", "json", "--high-watermark", "end")
    assert call("latest", logs[0], *given, *JSON).status == 0
    for more in (["--dry-run"], []):
        answer = call("latest", logs[1], *given, *more, *JSON)
        assert "1 fields of the first new records are not in the columns" in answer.err
        assert "new. --rebuild adds them" in answer.err
    assert "not in the columns" not in call("latest", logs[1], *given, *JSON).err
    answer = call("latest", logs[1], *given, "--rebuild", *JSON)
    assert "column new is added, string" in answer.err
    rows = duckdb.read_parquet(f"{tmp_path}/table/*/*/*.parquet", hive_partitioning=True)
    assert [(1, None), (None, "x")] == sorted(rows.project("id, new").fetchall(), key=str)


@pytest.mark.parametrize("unique", ["partition", "topic"])
def test_other_formats_of_keys_and_values(call: Call, tmp_path: Path, unique: str) -> None:
    """`--rebuild` takes them, also a decoded key in place of a raw one; not another `--unique`."""
    schemas = Schemas(tmp_path)
    logs = schemas.logs("logs-1", [("a", '{"id": 1}')], [("b", '{"id": 2}'), ("a", '{"id": 3}')])
    given = ("latest", logs, "t", "--to", tmp_path / "table", "--high-watermark", "end")
    assert call(*given, "--unique", unique, *JSON).status == 0
    formats = ("--key", "string", "--value", "{format: json, schema: {id: long}}")
    refused = call(*given, "--unique", unique, *formats, *JSON)
    assert (5, True) == (refused.status, "--rebuild" in refused.err)
    done = call(*given, "--unique", unique, *formats, "--rebuild", *JSON)
    assert done.status == 0, done.err
    rows = duckdb.read_parquet(f"{tmp_path}/table/*/*/*.parquet", hive_partitioning=True)
    expected = [("a", 1), ("a", 3), ("b", 2)] if unique == "partition" else [("a", 3), ("b", 2)]
    assert expected == sorted(rows.project("key, id").fetchall())
    other = {"partition": "topic", "topic": "partition"}[unique]
    refused = call(*given, "--unique", other, *formats, "--rebuild", *JSON)
    assert (5, True) == (refused.status, "Remove the table" in refused.err)
