"""Delta and Iceberg tables, read by DuckDB's own extensions for these formats. They are packages of
an older DuckDB than the locked one, so they are installed into an environment of their own.
"""

from __future__ import annotations

import json
import random
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from logwright.tables.merge import MergeLimits
from tests.bucket.servers import NAME, environment, in_a_process
from tests.e2e.rest_catalog import served
from tests.packaging.building import uv
from tests.table_rows import Rows, expected_rows
from tests.table_world import catalog_place, place, random_pairs, update, write_logs

pytestmark = [pytest.mark.e2e, pytest.mark.nightly]

VERSION = "1.4.4"
EXTENSIONS = ("httpfs", "avro", "iceberg", "delta")
"""In the order in which they are loaded: the second half needs the first."""
RECORDS = 150
READ = """
import json, os, sys
from pathlib import Path
import duckdb, duckdb_ext

table, attach, *extensions = sys.argv[1:]
connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
(there,) = duckdb_ext.__path__
for name in extensions:
    (file,) = Path(there).rglob(f"{name}.duckdb_extension")
    connection.execute(f"LOAD '{file}'")
if attach:
    options = f"TYPE iceberg, AUTHORIZATION_TYPE none, ENDPOINT '{attach}'"
    connection.execute(f"ATTACH '' AS rest ({options})")
if "AWS_ENDPOINT_URL" in os.environ:
    key, secret, end = (os.environ[f"AWS_{name}"] for name in (
        "ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "ENDPOINT_URL"))
    end = end.removeprefix("http://")
    connection.execute(
        f"CREATE SECRET (TYPE s3, KEY_ID '{key}', SECRET '{secret}', ENDPOINT '{end}',"
        " URL_STYLE 'path', USE_SSL false, REGION 'us-east-1')"
    )
query = f'SELECT partition, "offset", hex(key), hex(value) FROM {table} ORDER BY 1, 2'
print(json.dumps(connection.execute(query).fetchall()))
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with DuckDB and its extensions."""
    root = tmp_path_factory.mktemp("duckdb")
    uv("venv", "--python", "3.11", "environment", cwd=root)
    program = root / "environment" / "bin" / "python"
    packages = [f"duckdb-ext-{name}" for name in EXTENSIONS]
    uv("pip", "install", "--python", program, f"duckdb=={VERSION}", *packages, cwd=root)
    return program


def newest_metadata(table: Path) -> Path:
    """The metadata file of an Iceberg table's newest version; its name begins with the number."""
    return max((table / "metadata").glob("*.metadata.json"))


def read_rows(python: Path, source: str, attach: str = "") -> Rows:
    """The rows of a table. `attach`: address of a REST catalog of Iceberg."""
    done = subprocess.run(
        [python, "-c", READ, source, attach, *EXTENSIONS],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [
        (partition, offset, bytes.fromhex(key), bytes.fromhex(value))
        for partition, offset, key, value in json.loads(done.stdout)
    ]


@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_another_engine_reads_the_table(tmp_path: Path, python: Path, form: str, seed: int) -> None:
    """After three updates it is what a plain dictionary over the log's records holds."""
    draw = random.Random(seed)
    whole = {number: random_pairs(draw, 3 * RECORDS) for number in range(2)}
    table = tmp_path / "table"
    for time in (1, 2, 3):
        pairs = {number: rows[: time * RECORDS] for number, rows in whole.items()}
        log_dir = write_logs(tmp_path / f"logs-{time}", pairs)
        update(place(form, table, buckets=3), log_dir)
    source = (
        f"delta_scan('{table}')" if form == "delta" else f"iceberg_scan('{newest_metadata(table)}')"
    )
    assert expected_rows(log_dir, "t") == read_rows(python, source)


def test_another_engine_reads_from_a_bucket(
    tmp_path: Path, python: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table of Delta on an S3 server, with deletion vectors."""
    pairs = random_pairs(random.Random(seed), 420, keys=120)
    url, deleted = f"s3://{NAME}/t", 0
    limits = MergeLimits(small_bytes=0, files=8, deleted_share=0.9)
    with in_a_process() as port:
        for name, value in environment(port).items():
            monkeypatch.setenv(name, value)
        where = replace(place("delta", url, buckets=2), limits=limits)
        for end in (360, 380, 400, 420):
            log_dir = write_logs(tmp_path / f"logs-{end}", {0: pairs[:end]})
            snapshot = update(where, log_dir).result.snapshot
            assert snapshot is not None
            deleted += sum(snapshot.deleted.values())
        assert deleted
        assert expected_rows(log_dir, "t") == read_rows(python, f"delta_scan('{url}')")


def test_another_engine_reads_a_rest_catalog(tmp_path: Path, python: Path, seed: int) -> None:
    """Also rows that are deleted by position."""
    pairs = random_pairs(random.Random(seed), 420, keys=120)
    with served(tmp_path / "warehouse") as rest:
        where = catalog_place(rest.catalog, tmp_path, buckets=2)
        deleted = 0
        for end in (360, 380, 400, 420):
            log_dir = write_logs(tmp_path / f"logs-{end}", {0: pairs[:end]})
            snapshot = update(where, log_dir).result.snapshot
            assert snapshot is not None
            deleted += sum(snapshot.deleted.values())
            rows = read_rows(python, "rest.latest_state.t", rest.uri)
            assert expected_rows(log_dir, "t") == rows
        assert deleted > 0
