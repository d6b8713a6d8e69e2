"""Delta and Iceberg tables, read by DuckDB's own extensions for these formats. They are packages of
an older DuckDB than the locked one, so they are installed into an environment of their own.
"""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path

import pytest

from tests.packaging.building import uv
from tests.table_rows import expected_rows
from tests.table_world import place, random_pairs, update, write_logs

pytestmark = [pytest.mark.e2e, pytest.mark.nightly]

VERSION = "1.4.4"
EXTENSIONS = ("httpfs", "avro", "iceberg", "delta")
"""In the order in which they are loaded: the second half needs the first."""
RECORDS = 150
READ = """
import json, sys
from pathlib import Path
import duckdb, duckdb_ext

table, extensions = sys.argv[1], sys.argv[2:]
connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
(there,) = duckdb_ext.__path__
for name in extensions:
    (file,) = Path(there).rglob(f"{name}.duckdb_extension")
    connection.execute(f"LOAD '{file}'")
query = f'SELECT partition, "offset", hex(key), hex(value) FROM {table} ORDER BY 1, 2'
print(json.dumps(connection.execute(query).fetchall()))
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with DuckDB and its extensions."""
    root = tmp_path_factory.mktemp("duckdb")
    uv("venv", "--python", "3.11", "environment", cwd=root)
    found = root / "environment" / "bin" / "python"
    packages = [f"duckdb-ext-{name}" for name in EXTENSIONS]
    uv("pip", "install", "--python", found, f"duckdb=={VERSION}", *packages, cwd=root)
    return found


def newest_metadata(table: Path) -> Path:
    """The metadata file of an Iceberg table's newest version; its name begins with the number."""
    return max((table / "metadata").glob("*.metadata.json"))


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
    done = subprocess.run(
        [python, "-c", READ, source, *EXTENSIONS],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows = [
        (partition, offset, bytes.fromhex(key), bytes.fromhex(value))
        for partition, offset, key, value in json.loads(done.stdout)
    ]
    assert expected_rows(log_dir, "t") == rows
