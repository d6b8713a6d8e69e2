"""Tables of Iceberg in Apache Iceberg's own REST catalog, which decides where they are."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import dagster as dg
import pytest

from logwright.errors import StepFailed
from logwright.tables.merge import MergeLimits
from tests.e2e.harness import MARKS, POLICY, make_platform
from tests.e2e.rest_catalog import Served, served
from tests.e2e.tables import metadata_of, results
from tests.e2e.tables import update as materialize
from tests.table_rows import expected_rows, read_iceberg
from tests.table_world import catalog_place, random_pairs, update, write_logs
from tests.two_writers import RACES, Race, check_race, data_files, iceberg_table, overtake, rows_of

pytestmark = [*MARKS, pytest.mark.nightly]

BUCKETS = 3
VERSIONS = 9
GIVEN = "s3cret-Zwölf"
TABLE = """\
topics:
  - name: t
    table:
      format: iceberg
      catalog: {{type: rest, uri: "{uri}", token: "${{CATALOG_TOKEN}}"}}
"""


@pytest.fixture
def rest(tmp_path: Path) -> Iterator[Served]:
    """A catalog without tables."""
    with served(tmp_path / "warehouse") as catalog:
        yield catalog


@pytest.mark.parametrize("identifier", ["latest_state.t", "shop.eu.t"])
@pytest.mark.parametrize("has_path", [False, True])
def test_many_versions(
    tmp_path: Path, rest: Served, identifier: str, has_path: bool, seed: int
) -> None:
    """DuckDB and pyiceberg read each as it must be. A rerun makes none. Since old versions are gone
    at once, a file with rows that were replaced is written again, whatever the limits; old files
    are removed where the table has a directory, else only forgotten.
    """
    draw = random.Random(seed)
    whole = {number: random_pairs(draw, 500, keys=120) for number in range(2)}
    path = {"path": str(tmp_path / "table")} if has_path else {}
    settings = {"buckets": BUCKETS, "identifier": identifier, "keep_versions_ms": 0, **path}
    where = catalog_place(rest.catalog, tmp_path, **settings)
    before: frozenset[str] = frozenset()
    removed = 0
    for version in range(VERSIONS):
        pairs = {number: one[: 300 + version * 20] for number, one in whole.items()}
        log_dir = write_logs(tmp_path / f"logs-{version}", pairs)
        files, share = (2, 4, 8)[version % 3], (0.25, 0.6)[version % 2]
        limits = MergeLimits(small_bytes=0, deleted_share=share, files=files)
        done = update(replace(where, limits=limits), log_dir)
        table, expected = iceberg_table(where, identifier), expected_rows(log_dir, "t")
        assert expected == rows_of(table)
        read = read_iceberg(table.metadata_location)
        columns = (read[name].to_pylist() for name in ("partition", "offset", "key", "value"))
        assert expected == sorted(zip(*columns, strict=True))
        assert not update(where, log_dir).result.changed
        assert table.metadata_location == iceberg_table(where, identifier).metadata_location
        assert 1 == len(table.snapshots())
        assert done.result.snapshot is not None
        assert len(expected) == done.result.snapshot.rows
        assert 0 == sum(done.result.snapshot.deleted.values())
        before = frozenset(data_files(where))
        removed += done.removed_files
    assert has_path == (removed > 0)
    assert has_path == (tmp_path / "table/data").exists()
    if not has_path:
        written = list((tmp_path / "warehouse").rglob("*.parquet"))
        assert len(written) > len(before)


@pytest.mark.parametrize("race", RACES.values(), ids=RACES)
def test_a_second_writer(
    tmp_path: Path, rest: Served, race: Race, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An update that another one overtakes is refused, whatever it would commit."""
    where = catalog_place(rest.catalog, tmp_path, buckets=2)
    check_race(where, race, tmp_path, seed, monkeypatch)


@pytest.mark.parametrize("at", ["load", "output", "commit", "remove_old"])
def test_the_server_stops(
    tmp_path: Path, at: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, in or after an update: an error without the token; the next update is right."""
    pairs = random_pairs(random.Random(seed), 400, keys=100)
    logs = [write_logs(tmp_path / f"logs-{end}", {0: pairs[:end]}) for end in (300, 350, 400)]
    warehouse = tmp_path / "warehouse"
    with served(warehouse, GIVEN) as rest:
        where = catalog_place(rest.catalog | {"token": GIVEN}, tmp_path, buckets=2)
        update(where, logs[0])
        overtake(monkeypatch, at, rest.stop)
        with pytest.raises(StepFailed, match="could not be read or written: Connection") as failed:
            update(where, logs[1])
        with pytest.raises(StepFailed, match="could not be read or written: Connection") as two:
            update(where, logs[1])
    for raised in (failed, two):
        assert GIVEN not in repr(raised.value)
        assert raised.value.__suppress_context__
    with served(warehouse, GIVEN) as rest:
        where = catalog_place(rest.catalog | {"token": GIVEN}, tmp_path, buckets=2)
        for log_dir in logs[1:]:
            update(where, log_dir)
            assert expected_rows(log_dir, "t") == rows_of(iceberg_table(where))


def test_refused_records(tmp_path: Path, rest: Served) -> None:
    """They are in the quarantine table of the same catalog, each once."""
    pairs = [(f"k{number % 7}", "{}" if number % 3 else "bad") for number in range(40)]
    where = catalog_place(rest.catalog, tmp_path, value={"format": "json", "fields": []})
    for end in (20, 40):
        log_dir = write_logs(tmp_path / f"logs-{end}", {0: pairs[:end]})
        latest = expected_rows(log_dir, "t")
        refused = update(where, log_dir).quarantined
        table = iceberg_table(where).scan(selected_fields=("offset",)).to_arrow()
        good = [offset for _, offset, _, value in latest if value != b"bad"]
        assert good == sorted(table["offset"].to_pylist())
        table = iceberg_table(where, "latest_state.t_quarantine").scan().to_arrow()
        offsets = table["offset"].to_pylist()
        assert refused == len(offsets) == len(set(offsets))
        assert {offset for _, offset, _, value in latest if value == b"bad"} <= set(offsets)


def test_a_token_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The asset has it. A refused one is in no event, log line or output, although the server's
    answer has it.
    """
    with served(tmp_path / "warehouse", GIVEN) as rest:
        policy = POLICY + TABLE.format(uri=rest.uri)
        platform = make_platform(tmp_path, {"t-0": "basic-none", "t-1": "txn-1-mixed"}, policy)
        monkeypatch.setenv("CATALOG_TOKEN", GIVEN)
        done = materialize(platform)
        rows = expected_rows(platform.log_dir, "t")
        assert len(rows) == metadata_of(done)["dagster/row_count"]
        failed = {name for name, passed in results(done).items() if not passed}
        assert {"keys_in_one_partition"} == failed, "the cases share keys"
        where = catalog_place(rest.catalog | {"token": GIVEN}, tmp_path)
        assert rows == rows_of(iceberg_table(where))
        assert not leaks(platform.instance, done, GIVEN)
        monkeypatch.setenv("CATALOG_TOKEN", "an0ther")
        refused = materialize(platform)
        assert not refused.success
        assert leaks(platform.instance, refused, "could not be read or written: UnauthorizedError")
        assert not leaks(platform.instance, refused, "an0ther")
        monkeypatch.delenv("CATALOG_TOKEN")
        missing = materialize(platform)
        assert leaks(platform.instance, missing, "CATALOG_TOKEN, which are not set")
    output = "".join(capfd.readouterr())
    assert "UnauthorizedError" in output
    assert GIVEN not in output
    assert "an0ther" not in output


def leaks(instance: dg.DagsterInstance, done: dg.ExecuteInProcessResult, text: str) -> bool:
    """Whether the events of a run have a text."""
    return any(text in repr(one) for one in instance.all_logs(done.run_id))
