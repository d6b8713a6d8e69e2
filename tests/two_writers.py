"""Two updates of one table at once, where nothing but the catalog keeps them apart: a table of
Iceberg without a directory has no lock.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table

from logwright.errors import StepFailed
from logwright.tables.iceberg import IcebergStore
from logwright.tables.topic import LocatedTable, open_store
from tests.log_builder import Pair
from tests.table_rows import Rows, expected_rows
from tests.table_world import random_pairs, update, write_logs

NAME = "logwright"
"""Of the catalog: SQLite files keep it."""
ROWS, TOMBSTONES = 300, 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Race:
    """Ends of the log.

    Attributes:
        first: that the table holds before; None: there is no table.
        mine: that an update reads.
        other: that another update reads, which begins and ends within it.
        at: it does so before this call of the first one, see `overtake`.
    """

    first: int | None
    mine: int
    other: int
    at: str


RACES = {
    "the same rows": Race(first=ROWS, mine=400, other=400, at="commit"),
    "the other has fewer": Race(first=ROWS, mine=400, other=350, at="output"),
    "the other has more": Race(first=ROWS, mine=350, other=400, at="commit"),
    "the other only deletes": Race(first=ROWS, mine=305, other=ROWS + TOMBSTONES, at="commit"),
    "both make the table": Race(first=None, mine=ROWS, other=350, at="prepare"),
    "one makes it, the other fills it": Race(first=None, mine=ROWS, other=350, at="prepare._load"),
    "both write its first rows": Race(first=None, mine=ROWS, other=350, at="output"),
    "both commit its first rows": Race(first=None, mine=350, other=350, at="commit"),
}


def iceberg_table(where: LocatedTable, name: str = "latest_state.t") -> Table:
    """A table as readers open it."""
    return load_catalog(NAME, **where.catalog).load_table(name)


def rows_of(table: Table) -> Rows:
    """The rows as pyiceberg reads them."""
    columns = ("partition", "offset", "key", "value")
    rows: pa.Table = table.scan(selected_fields=columns).to_arrow()
    return sorted(zip(*(rows[name].to_pylist() for name in columns), strict=True))


def overtake(monkeypatch: pytest.MonkeyPatch, at: str, other: Callable[[], object]) -> None:
    """Do something before the next call of this method of a store; ``a.b``: before the first call
    of b after the beginning of a.
    """
    name, _, then = at.partition(".")
    method = getattr(IcebergStore, name)

    def called(*arguments: object) -> object:
        monkeypatch.setattr(IcebergStore, name, method)
        if then:
            overtake(monkeypatch, then, other)
        else:
            other()
        return method(*arguments)

    monkeypatch.setattr(IcebergStore, name, called)


def check_race(
    where: LocatedTable, race: Race, tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The update that is overtaken is refused, the table is the other's, the next one is right."""
    draw = random.Random(seed)
    pairs: list[Pair] = random_pairs(draw, ROWS, keys=100)
    keys = sorted({key for key, value in pairs if key is not None and value is not None})
    pairs += [(key, None) for key in draw.sample(keys, TOMBSTONES)]
    pairs += random_pairs(draw, ROWS, keys=100)

    def log(end: int) -> Path:
        directory = tmp_path / f"logs-{end}"
        return directory if directory.exists() else write_logs(directory, {0: pairs[:end]}, size=5)

    if race.first is not None:
        update(where, log(race.first))
    overtake(monkeypatch, race.at, lambda: update(where, log(race.other)))
    with pytest.raises(StepFailed, match="another process has changed the table latest_state"):
        update(where, log(race.mine))
    assert expected_rows(log(race.other), "t") == rows_of(iceberg_table(where))
    for end in (450, 500):
        snapshot = update(where, log(end)).result.snapshot
        expected = expected_rows(log(end), "t")
        assert expected == rows_of(iceberg_table(where))
        assert snapshot is not None
        assert len(expected) == snapshot.rows


def data_files(where: LocatedTable) -> Mapping[str, Any]:
    """Path → the file, of the newest version."""
    snapshot = open_store(where).load()
    assert snapshot is not None
    return {file.path: file for file in snapshot.files}
