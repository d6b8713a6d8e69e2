"""Tables are searched whole: each column, each version, and what describes them."""

from __future__ import annotations

import base64
import io
import json
import random
import shutil
import sqlite3
import struct
import zlib
from contextlib import closing
from pathlib import Path

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from logwright.erasure.find.avro_blocks import require_small_blocks
from logwright.erasure.find.result import SearchResult
from logwright.erasure.find.tables import search_table_files
from logwright.erasure.keys import KeySet
from logwright.erasure.request import Request
from tests.e2e.command import call
from tests.found import SECRET
from tests.log_builder import LogBuilder

KEY = b"alice@example.org"
LONG = b"a-key-that-is-longer-than-all-statistics@example.org"


def search(root: Path, *keys: bytes, patterns: tuple[bytes, ...] = ()) -> SearchResult:
    return search_table_files(root, KeySet.of(SECRET, clear=keys or (KEY,)), patterns=patterns)


def by_hmac(key: bytes) -> KeySet:
    request = Request(
        id="r", topics="t", hmac=SECRET.hmac(key), filter=None, received_at_ms=0, deadline_ms=0
    )
    return KeySet.of(SECRET, requests=[request])


def paths(result: SearchResult) -> set[str]:
    return {one.path for one in result.findings}


@pytest.fixture(name="table", params=["parquet", "delta", "iceberg"])
def _table(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A table of `latest`, of three updates."""
    for last in range(3):
        shutil.rmtree(tmp_path / "logs", ignore_errors=True)
        builder = LogBuilder(tmp_path / "logs")
        segment = builder.segment(0)
        for number in range(last + 2):  # the batches of the last update stay: it is the same log
            segment.batch(number, [(f"person-{number}@example.org", "v")])
        builder.write()
        words = ("--to", tmp_path / "t", "--format", request.param, "--key", "string")
        assert 0 == call("latest", tmp_path / "logs", "t", *words, "--value", "string").status
    return tmp_path / "t"


def test_a_table_of_latest_is_searched_whole(table: Path) -> None:
    """All of its files are read, for a key in clear and for one that is known by its HMAC."""
    files = {str(one.relative_to(table)) for one in table.rglob("*") if one.is_file()}
    for keys in (KeySet.of(SECRET, clear=[KEY]), by_hmac(KEY)):
        result = search_table_files(table, keys)
        assert ([], []) == (result.findings, result.unsearched)
        assert files == set(result.looked)
    assert search(table, b"person-1@example.org").findings
    assert search_table_files(table, by_hmac(b"person-1@example.org")).findings


def test_bounds_of_a_file_that_is_away(table: Path) -> None:
    """They may be the beginning of a key: nothing is proved if only its HMAC is known."""
    if not (table / "metadata").exists():
        return
    for path in table.rglob("*.parquet"):
        path.unlink()
    assert search(table, b"person-1@example.org").unsearched
    assert search_table_files(table, by_hmac(KEY)).unsearched
    assert [] == search(table, b"other").unsearched


def test_all_columns(tmp_path: Path) -> None:
    """Of bytes and text, nested and dictionaries too; a pattern is searched in them."""
    rows = {
        "_key": pa.array([b"k0", b"k1", b"k2", b"k3", b"k4", b"k5"]),
        "text": pa.array(["x", KEY.decode(), None, "x", "x", "x"]),
        "struct": pa.array([None, None, {"a": {"b": KEY.decode()}}, None, None, None]),
        "list": pa.array([[], None, ["x"], ["x", KEY.decode()], None, []]),
        "map": pa.array([None] * 4 + [[(KEY.decode(), 1)], []], pa.map_(pa.string(), pa.int32())),
        "words": pa.array(["x"] * 5 + [KEY.decode()]).dictionary_encode(),
        "number": pa.array(range(6)),
    }
    pq.write_table(pa.table(rows), tmp_path / "t.parquet")
    result = search(tmp_path, patterns=(b"alice@", b"nobody"))
    assert [(0, "live")] * 5 == [(one.request, one.kind) for one in result.findings]
    result = search(tmp_path, b"other", patterns=(b"nobody", b"alice@"))
    assert [(2, "value")] * 5 == [(one.request, one.kind) for one in result.findings]
    assert [] == result.unsearched


def test_versions_and_statistics_of_delta(tmp_path: Path) -> None:
    """Deleted rows, the log's statistics, checkpoints, and the texts of a delete's condition."""
    root = tmp_path / "t"
    for name in ("bob", KEY.decode()):
        write_deltalake(root, pa.table({"_key": [name.encode()], "name": [name]}), mode="append")
    table = DeltaTable(root)
    table.delete(f"name = '{KEY.decode()}'")
    table.create_checkpoint()
    result = search(root)
    assert any(path.endswith(".parquet") and "_delta_log" not in path for path in paths(result))
    named = {Path(path).name for path in paths(result)}
    assert {f"{1:020d}.json", f"{2:020d}.json"} <= named
    assert [] == result.unsearched
    table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
    result = search(root)
    assert {"_delta_log"} == {Path(path).parts[0] for path in paths(result)}


def test_cut_statistics(tmp_path: Path) -> None:
    """While the file is there its rows decide; afterwards the beginning of a key proves nothing."""
    root = tmp_path / "t"
    key = pa.table({"_key": [LONG], "name": [LONG.decode()]})
    write_deltalake(root, key)
    assert [] == search(root, b"other").unsearched
    assert [] == search_table_files(root, by_hmac(KEY)).unsearched
    next(root.glob("*.parquet")).unlink()
    assert [] == search(root, b"other").unsearched
    assert ["_delta_log/00000000000000000000.json"] == [
        part.path for part in search(root, LONG).unsearched
    ]
    assert search_table_files(root, by_hmac(b"other")).unsearched


@pytest.mark.parametrize(
    "text",
    [
        KEY.decode(),
        base64.b64encode(KEY).decode(),
        base64.urlsafe_b64encode(KEY).decode(),
        KEY.hex(),
        json.dumps({"minValues": {"key": KEY.decode()}}),
        f"year=2026/name={KEY.decode()}/x.parquet",
        "year=2026/name=alice%40example.org/x.parquet",
        f"name = '{KEY.decode()}'",
    ],
)
def test_forms_of_a_text(tmp_path: Path, text: str) -> None:
    """In which metadata write values."""
    (tmp_path / "x.json").write_text(json.dumps({"add": {"stats": text}}, ensure_ascii=True))
    assert {"x.json"} == paths(search(tmp_path))
    assert set() == paths(search(tmp_path, b"other"))


def test_numbers_of_metadata_are_not_keys(tmp_path: Path) -> None:
    """Sizes are written as texts; in statistics a number is a value."""
    (tmp_path / "metadata").mkdir()
    text = '{"summary": {"added-records": "7"}, "partition": "7"}'
    (tmp_path / "metadata/a.json").write_text(text)
    assert set() == paths(search(tmp_path, b"7"))
    (tmp_path / "b.json").write_text('{"maxValues": {"key": "7"}}')
    assert {"b.json"} == paths(search(tmp_path, b"7"))


def test_files_elsewhere_are_named(tmp_path: Path) -> None:
    """By an address, or a path that is there; those in the table's directory are not."""
    (tmp_path / "other").mkdir()
    (tmp_path / "other/x.parquet").touch()
    root = tmp_path / "t"
    root.mkdir()
    lines = [
        {"add": {"path": f"file://{tmp_path}/other/x.parquet"}},
        {"add": {"path": "s3://bucket/a/x.parquet"}},
        {"add": {"path": f"{root}/gone.parquet"}},
        {"add": {"path": "/nowhere/at/all/x.parquet"}},
    ]
    (root / "0.json").write_text("\n".join(map(json.dumps, lines)))
    problems = {one.problem for one in search(root).unsearched}
    assert {
        f"the table refers to files in {tmp_path}/other, which was not searched",
        "the table refers to files in s3://bucket/a, which was not searched",
    } == problems


def test_catalogs(tmp_path: Path) -> None:
    """All cells of a catalog; a damaged one is not searched."""
    with closing(sqlite3.connect(tmp_path / "catalog.db")) as catalog:
        catalog.execute('CREATE TABLE "a""b" (x, y)')
        catalog.execute('INSERT INTO "a""b" VALUES (1, ?)', (KEY,))
        catalog.commit()
    assert {"catalog.db"} == paths(search(tmp_path))
    whole = (tmp_path / "catalog.db").read_bytes()
    (tmp_path / "catalog.db").write_bytes(whole[:5000])
    assert ["catalog.db"] == [one.path for one in search(tmp_path).unsearched]


def test_deletion_vectors_are_proved(tmp_path: Path) -> None:
    """By size, magic and CRC; anything else of that name is not searched."""
    root = tmp_path / "t"
    root.mkdir()
    data = struct.pack("<i", 1681511377) + b"bitmap"
    vector = b"\x01" + struct.pack(">i", len(data)) + data + struct.pack(">I", zlib.crc32(data))
    (root / "deletion_vector_x.bin").write_bytes(vector)
    assert {"deletion_vector_x.bin": "no records"} == search(root).looked
    (root / "deletion_vector_x.bin").write_bytes(vector + KEY)
    assert {"deletion_vector_x.bin": "not searched"} == search(root).looked


@pytest.mark.parametrize("content", [b"PAR1 and no more", KEY, b"{", b"Obj\x01x", b"PK\3\4"])
def test_what_is_of_no_known_format_is_named(tmp_path: Path, content: bytes) -> None:
    """Whatever its name is."""
    (tmp_path / "rows.parquet").write_bytes(content)
    (tmp_path / "link").symlink_to("/")
    assert ["link", "rows.parquet"] == sorted(one.path for one in search(tmp_path).unsearched)


def test_rows_without_raw_keys_are_named(tmp_path: Path) -> None:
    """Keys may be in another form there; Iceberg's position deletes have none."""
    pq.write_table(pa.table({"id": ["x"]}), tmp_path / "x.parquet")
    deletes = pa.table({"file_path": ["x.parquet"], "pos": [0]})
    pq.write_table(deletes, tmp_path / "deletes.parquet")
    assert ["x.parquet"] == [one.path for one in search(tmp_path).unsearched]


def test_damaged_manifests(tmp_path: Path) -> None:
    """Each is named, whatever the library says of it, and the others are searched."""
    draw, schema = random.Random(1), {"type": "record", "name": "r", "fields": []}
    schema["fields"] = [{"name": "a", "type": "string"}, {"name": "n", "type": ["null", "long"]}]
    whole = io.BytesIO()
    rows = [{"a": f"file-{number}", "n": number} for number in range(20)]
    fastavro.writer(whole, schema, rows, codec="deflate")
    (tmp_path / "t/metadata").mkdir(parents=True)
    for number in range(300):
        changed = bytearray(whole.getvalue())
        for _ in range(draw.randint(1, 3)):
            changed[draw.randrange(4, len(changed))] = draw.randrange(256)
        (tmp_path / f"t/metadata/{number}.avro").write_bytes(changed)
    result = search(tmp_path / "t", b"file-7")
    assert 300 == len(result.looked)
    searched = {name for name, looked in result.looked.items() if looked == "searched"}
    assert {f"metadata/{one}.avro" for one in range(300)} - searched == {
        part.path for part in result.unsearched
    }


def test_a_manifest_that_fills_the_memory(tmp_path: Path) -> None:
    """It is not read."""
    schema = {"type": "record", "name": "r", "fields": [{"name": "a", "type": "string"}]}
    whole = io.BytesIO()
    fastavro.writer(whole, schema, [{"a": "x" * 10_000}] * 10, codec="deflate")
    require_small_blocks(whole.getvalue())
    with pytest.raises(ValueError, match="too large"):
        require_small_blocks(whole.getvalue(), 99_999)
    other = io.BytesIO()
    fastavro.writer(other, schema, [{"a": "x"}], codec="xz")
    with pytest.raises(ValueError, match="another codec"):
        require_small_blocks(other.getvalue())


def test_numbers_of_partitions(tmp_path: Path) -> None:
    """Those of another program's table may be keys; those of our tables are not."""
    root = tmp_path / "t"
    (root / "_delta_log").mkdir(parents=True)
    add = {"path": "x", "size": 12345, "partitionValues": {"customer": "777", "partition": "3"}}
    lines = {"add": add, "data_file": {"partition": {"customer": 888, "bucket": 4}}}
    (root / "_delta_log/00.json").write_text(json.dumps(lines))
    assert search(root, b"777").findings
    assert search(root, b"888").findings
    for key in (b"12345", b"3", b"4"):
        assert [] == search(root, key).findings


def test_a_path_that_leaves_the_table(tmp_path: Path) -> None:
    """It is named as one elsewhere, relative or not."""
    root = tmp_path / "t"
    (root / "_delta_log").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    (tmp_path / "other/a.parquet").touch()
    for path in ("../other/a.parquet", f"{root}/../other/a.parquet", "x/../../other/a.parquet"):
        (root / "_delta_log/00.json").write_text(json.dumps({"add": {"path": path}}))
        (part,) = search(root).unsearched
        assert str(tmp_path / "other") in part.problem
    (root / "_delta_log/00.json").write_text(json.dumps({"add": {"path": "x/../a.parquet"}}))
    assert [] == search(root).unsearched
