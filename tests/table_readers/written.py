"""Tables to be read: of each format and way to update, with enough rows for several row groups."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq

from tests.table_rows import Rows, expected_rows
from tests.table_world import NOW_MS, place, update, write_logs

TABLES: Final[Mapping[str, tuple[str, str]]] = {
    "Parquet": ("parquet", "copy-on-write"),
    "Delta, copy-on-write": ("delta", "copy-on-write"),
    "Delta, merge-on-read": ("delta", "merge-on-read"),
    "Iceberg, copy-on-write": ("iceberg", "copy-on-write"),
    "Iceberg, merge-on-read": ("iceberg", "merge-on-read"),
}
"""Title → format and update mode."""

CONTROL: Final[Mapping[str, str]] = {
    "parquet": "Parquet",
    "delta": "Delta, copy-on-write",
    "iceberg": "Iceberg, copy-on-write",
}
"""Format → the table that its readers must read."""
KEYS: Final = 150_000
VALUE_BYTES: Final = 120
"""Random ones, in hexadecimal digits: the largest file gets several row groups, and engines that
read a file in parts must still know the number of each row.
"""


def written(root: Path, keys: int = KEYS) -> tuple[Rows, dict[str, Path]]:
    """Write all tables: two updates after the first one, each with changed and deleted keys.
    Effects: makes them, with the logs of which they are. Batches have `keys` / 100 records: the
    end of a log is that of a batch of the next log.

    Returns:
        the rows that each must have, and title → its directory.
    """
    draw = random.Random(20)
    numbers = {0: keys, 1: keys // 4}
    pairs: dict[int, list[tuple[str | bytes | None, str | bytes | None]]] = {
        number: [(f"k{each:07}", draw.randbytes(VALUE_BYTES).hex()) for each in range(count)]
        for number, count in numbers.items()
    }
    paths = {title: root / f"table-{at}" / "t" for at, title in enumerate(TABLES)}
    log_dir = root
    for time in range(3):
        log_dir = write_logs(root / f"logs-{time}", pairs, size=keys // 100)
        for title, (form, mode) in TABLES.items():
            where = place(form, paths[title], update_mode=mode, buckets=1)
            update(where, log_dir, now_ms=NOW_MS + time)
        for number, count in numbers.items():
            pairs[number] += [
                (f"k{draw.randrange(count):07}", draw.choice([None, f"changed {draw.random()}"]))
                for _ in range(keys // 100 * 3)
            ]
    return expected_rows(log_dir, "t"), paths


def deleted_rows(form: str, path: Path) -> Iterator[Path]:
    """The files that say which rows of other files are deleted."""
    if form == "delta":
        yield from path.glob("deletion_vector_*.bin")
    elif form == "iceberg":
        files = path.rglob("*.parquet")
        yield from (file for file in files if "file_path" in pq.read_schema(file).names)


def most_groups(path: Path) -> int:
    """How many row groups the file with the most of them has."""
    return max(pq.read_metadata(one).num_row_groups for one in path.rglob("*.parquet"))
