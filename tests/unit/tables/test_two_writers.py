"""Tables of Iceberg in a catalog that decides on the place: by a catalog in a file of SQLite; by a
REST catalog nightly, in tests/e2e.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from logwright import durable
from logwright.errors import LogwrightError, PolicyError, StepFailed
from logwright.tables.topic import LocatedTable
from tests.table_world import catalog_place, update, write_logs
from tests.two_writers import RACES, Race, check_race


def in_sqlite(tmp_path: Path, scheme: str = "file://") -> LocatedTable:
    """A table in a catalog with a directory for all tables."""
    catalog = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db"}
    catalog |= {"warehouse": f"{scheme}{tmp_path}/warehouse"}
    return catalog_place(catalog, tmp_path, buckets=2)


@pytest.mark.parametrize("race", RACES.values(), ids=RACES)
def test_a_second_writer(
    tmp_path: Path, race: Race, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An update that another one overtakes is refused, whatever it would commit."""
    check_race(in_sqlite(tmp_path), race, tmp_path, seed, monkeypatch)


@pytest.mark.parametrize("scheme", ["file://", "file:", ""])
def test_local_files_are_durable(
    tmp_path: Path, scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the catalog decides on the place, however it writes it."""
    synced: list[Path] = []
    sync = durable.sync

    def noted(path: Path) -> None:
        synced.append(path)
        sync(path)

    monkeypatch.setattr(durable, "sync", noted)
    update(in_sqlite(tmp_path, scheme), write_logs(tmp_path / "logs", {0: [("k", "v")]}))
    written = list((tmp_path / "warehouse").rglob("*.parquet"))
    assert len(written) == 1
    assert [*written, written[0].parent] == synced[-2:]


@pytest.mark.parametrize(
    ("catalog", "error", "sentence"),
    [
        ({"type": "s3cret"}, PolicyError, "cannot be opened: ValueError. Check the properties"),
        ({"type": "rest", "token": "s3cret"}, PolicyError, "cannot be opened: ValueError. Check"),
        ({"type": "rest", "uri": "s3cret"}, PolicyError, "cannot be opened: MissingSchema. Check"),
        ({"type": "hive", "uri": "thrift://s3cret"}, StepFailed, "NotInstalledError"),
    ],
)
def test_catalogs_that_cannot_be_opened(
    tmp_path: Path, catalog: dict[str, str], error: type[LogwrightError], sentence: str
) -> None:
    """The error says of which table, and no property of the catalog."""
    log_dir = write_logs(tmp_path / "logs", {0: [("k", "v")]})
    with pytest.raises(error, match=sentence) as raised:
        update(catalog_place(catalog, tmp_path), log_dir)
    assert "latest_state.t" in str(raised.value)
    assert "s3cret" not in str(raised.value)
