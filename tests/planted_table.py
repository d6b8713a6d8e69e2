"""A table format that the product does not have, as a new one is added: `LISTED` has Parquet files
of any names, and a list of them that is replaced as a whole.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import pyarrow as pa

from logwright.config.table import FORMATS, TableFormat
from logwright.tables.model import Commit, DataFile, Snapshot, dump_form, dump_progress
from logwright.tables.store import DirectoryStore

LISTED = "listed"
LIST = "_list.json"


class ListedConflict(Exception):
    """Another program was faster."""


class ListedStore(DirectoryStore):
    """The table. Files have the columns of their place: their paths do not."""

    places_in_files: ClassVar[bool] = True

    errors: ClassVar[tuple[type[Exception], ...]] = (ListedConflict,)
    conflicts: ClassVar[tuple[type[Exception], ...]] = (ListedConflict,)

    def load(self) -> Snapshot | None:
        """See `Store.load`."""
        path = self._directory / LIST
        if not path.exists():
            return None
        stored = json.loads(path.read_text())
        if "form" not in stored:
            raise self._refused("the list is not of logwright.")
        return self._snapshot(
            form=stored["form"],
            progress=stored["progress"],
            version=stored["version"],
            files=tuple(DataFile(**file) for file in stored["files"]),
            in_doubt=None,
        )

    @contextmanager
    def output(self, partition: int, bucket: int) -> Iterator[tuple[str, Any]]:
        """See `Store.output`."""
        self._directory.mkdir(exist_ok=True)
        path = f"{partition}-{bucket}-{secrets.token_hex(8)}.parquet"
        with (self._directory / path).open("xb") as file:
            yield path, file

    def commit(self, commit: Commit, schema: pa.Schema) -> None:
        """See `Store.commit`."""
        del schema
        before = self.load()
        number = 0 if before is None else int(before.version) + 1
        if (self._directory / "busy").exists():
            raise ListedConflict
        old = () if before is None else before.files
        files = [*(file for file in old if file not in commit.removed), *commit.added]
        names = ("partition", "bucket", "path", "rows", "bytes")
        stored = {
            "form": dump_form(commit.form),
            "progress": dump_progress(commit.progress),
            "version": str(number),
            "files": [{name: getattr(file, name) for name in names} for file in files],
        }
        (self._directory / LIST).write_text(json.dumps(stored))

    def remove_old(self, keep_ms: int) -> int:
        """See `Store.remove_old`: every file that is not in the list."""
        del keep_ms
        snapshot = self.load()
        used = {file.path for file in (() if snapshot is None else snapshot.files)}
        unused = [path for path in self._directory.glob("*.parquet") if path.name not in used]
        for path in unused:
            path.unlink()
        return len(unused)


@contextmanager
def planted() -> Iterator[None]:
    """Have the format: this module, and its one registration."""
    FORMATS[LISTED] = TableFormat(f"{__name__}:ListedStore", keeps_versions=False)
    try:
        yield
    finally:
        del FORMATS[LISTED]
