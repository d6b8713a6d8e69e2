"""A table as a directory of Parquet files.

::

    <path>/partition=0/bucket=3/rows.parquet     the rows; each bucket has one file
    <path>/.logwright/staging/0-3.new            files of a change that is not committed
    <path>/.logwright/commit.json                a change that is committed: the journal
    <path>/.logwright/lock                       empty
    .<name>.logwright.json                       next to it: form, progress, files: the manifest

Engines read the directory and know nothing of a manifest. Polars even fails on a file of another
kind, be it hidden, unless it is empty: outside of an update there is none. So a bucket keeps
the name of its file: the new one replaces the old one by one rename, and a reader never sees a key
twice. Of a change of several buckets a reader may see a part while the files are renamed, which
takes milliseconds, or after a crash in that moment, until the next update.

1. The new files are staged and synced.
2. The journal is written: from here on the change is committed. It has the renames, and the
   manifest as it will be.
3. The renames are done, the manifest is replaced, and the journal is removed. `recover` does the
   same: a rename whose staged file is gone has been done.

A bucket that becomes empty keeps a file without rows, so that engines find the columns.

The manifest has the size of each file and the CRC of its end, where Parquet has the positions and
statistics of all columns: a file that another program has replaced is noticed. Files of other
programs that readers would take for rows are refused by name. A table whose directory is gone, or
was emptied, has been removed, whatever the manifest says.

Versions before 0.2 have the manifest in the table, as ``_logwright.json``; `recover` moves it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Final

import pyarrow as pa

from logwright import durable
from logwright.tables.files import DirectoryFiles
from logwright.tables.local_files import WORK, refuse_others
from logwright.tables.model import (
    Commit,
    DataFile,
    InDoubt,
    Snapshot,
    UnknownTable,
    dump_form,
    dump_progress,
)
from logwright.tables.store import DirectoryStore, TableLocation

EARLIER_MANIFEST: Final = "_logwright.json"
ROWS: Final = "rows.parquet"
_PARTS: Final = re.compile(r"(?!)")
"""Without a manifest and a journal nothing is there."""
_JOURNAL: Final = "commit.json"
_OWN: Final = re.compile(r"partition=\d+/bucket=\d+/rows\.parquet")
_STAGED: Final = re.compile(r"\d+-\d+\.new")
_STAGING: Final = "staging"
_END_BYTES: Final = 1 << 16


class ParquetStore(DirectoryStore):
    """A directory of Parquet files."""

    keeps_empty: ClassVar[bool] = True

    def __init__(self, location: TableLocation) -> None:
        super().__init__(location)
        self._files = DirectoryFiles(self._directory)
        self._work = self._directory / WORK
        self._staging = self._work / _STAGING
        self._manifest = manifest_of(self._directory)

    def recover(self) -> None:
        """See `Store.recover`."""
        earlier = self._directory / EARLIER_MANIFEST
        if earlier.exists():
            durable.replace(self._manifest, earlier.read_bytes())
            earlier.unlink()
        journal = self._work / _JOURNAL
        if journal.exists():
            self._apply(_checked(journal))
        if self._staging.exists():
            shutil.rmtree(self._staging)
        for folder in (self._work, self._directory):
            durable.remove_leftovers(folder, older_than_s=0)

    def load(self) -> Snapshot | None:
        """See `Store.load`."""
        try:
            content = self._manifest.read_text()
        except FileNotFoundError:
            if not (self._work / _JOURNAL).exists():
                refuse_others(self._files, _PARTS)
            return None
        try:
            manifest = json.loads(content)
            files = tuple(_file(*entry) for entry in manifest["files"])
            form, progress = manifest["form"], manifest["progress"]
            number = manifest["number"]
        except (KeyError, TypeError, ValueError) as error:
            raise self._refused("the manifest is not readable.") from error
        if self._is_removed(files):
            return None
        self._refuse_strangers(files)
        return self._snapshot(
            form=form,
            progress=progress,
            files=files,
            version=str(number),
            in_doubt=self._change(files),
        )

    def _is_removed(self, files: tuple[DataFile, ...]) -> bool:
        """Return whether somebody has removed the table. Effects: looks at its directory."""
        if (self._work / _JOURNAL).exists():
            return False
        try:
            names = {path.name for path in self._directory.iterdir()} - {WORK}
        except FileNotFoundError:
            return True
        return bool(files) and not names

    def _refuse_strangers(self, files: tuple[DataFile, ...]) -> None:
        """Refuse files that readers would take for rows of the table. Effects: lists it.

        Raises:
            InDoubt: there are some.
        """
        own = {file.path for file in files}
        present = {
            str(path.relative_to(self._directory)) for path in self._directory.rglob("*.parquet")
        }
        hidden = re.compile(r"(?:^|/)[._]")
        strangers = sorted(one for one in present - own if not hidden.search(one))
        if strangers:
            raise InDoubt(
                f"{len(strangers)} Parquet files are not of the table, and readers would take them"
                f" for rows of it: {strangers[0]} …",
                path=self._directory,
                remedy="Move them away, or remove the table; it is then made again from the log.",
            )

    def _change(self, files: tuple[DataFile, ...]) -> str | None:
        """Return which file another program has changed, None: none. Effects: reads the ends."""
        lost = self._files.first_lost((file.path, file.bytes) for file in files)
        if lost is not None:
            return lost
        for file in files:
            if file.handle not in (None, _crc_of_end(self._directory / file.path)):
                return f"file {file.path} has another content"
        return None

    @contextmanager
    def output(self, partition: int, bucket: int) -> Iterator[tuple[str, Any]]:
        """See `Store.output`."""
        with durable.created(self._staging / f"{partition}-{bucket}.new") as file:
            yield _name(partition, bucket), file

    def commit(self, commit: Commit, schema: pa.Schema) -> None:  # noqa: ARG002 - the files have it
        """See `Store.commit`."""
        before = self.load()
        files = {file.path: file for file in (() if before is None else before.files)}
        ends = {file.path: _crc_of_end(self._staging / _staged(file)) for file in commit.added}
        files = {path: file for path, file in files.items() if file not in commit.removed}
        files |= {file.path: file for file in commit.added}
        removed = {file.path for file in commit.removed} - files.keys()
        manifest = {
            "form": dump_form(commit.form),
            "progress": dump_progress(commit.progress),
            "files": [
                [
                    file.partition,
                    file.bucket,
                    file.rows,
                    file.bytes,
                    ends.get(file.path, file.handle),
                ]
                for file in files.values()
            ],
            "number": 0 if before is None else int(before.version) + 1,
        }
        staged = [[_staged(one), one.path] for one in commit.added]
        journal = {"manifest": manifest, "renames": staged, "removals": sorted(removed)}
        durable.replace(self._work / _JOURNAL, json.dumps(journal).encode())
        self._apply(journal)

    def remove_old(self, keep_ms: int) -> int:  # noqa: ARG002 - there is only one version
        """Return 0: a file is replaced by its successor."""
        return 0

    def _apply(self, journal: dict[str, Any]) -> None:
        """Carry out a committed change, or what is left of it. Effects: renames, removes."""
        folders = set()
        for staged, path in journal["renames"]:
            target = self._directory / path
            source = self._staging / staged
            if source.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                source.replace(target)
            folders |= {target.parent, target.parent.parent}
        for path in journal["removals"]:
            (self._directory / path).unlink(missing_ok=True)
            folders.add((self._directory / path).parent)
        for folder in (*folders, self._directory):
            durable.sync(folder)
        durable.replace(self._manifest, json.dumps(journal["manifest"]).encode())
        (self._work / _JOURNAL).unlink()


def manifest_of(directory: Path) -> Path:
    """Return where the manifest of a table in this directory is: next to it."""
    return directory.with_name(f".{directory.name}.logwright.json")


def _checked(path: Path) -> dict[str, Any]:
    """Return the content of a journal, which names files of the table only. Effects: reads it.

    Raises:
        UnknownTable: it has another form, or names another file.
    """
    try:
        journal: dict[str, Any] = json.loads(path.read_bytes())
        staged = [one for one, _ in journal["renames"]]
        paths = [*(one for _, one in journal["renames"]), *journal["removals"]]
        is_own = all(map(_STAGED.fullmatch, staged)) and all(map(_OWN.fullmatch, paths))
        is_own &= isinstance(journal["manifest"], dict)
    except (KeyError, TypeError, ValueError) as error:
        raise UnknownTable("the journal is not readable.", path=path) from error
    if not is_own:
        raise UnknownTable("the journal names files that are not of the table.", path=path)
    return journal


def _file(partition: int, bucket: int, rows: int, size: int, end: int | None = None) -> DataFile:
    """Return a file as the manifest has it; those of earlier versions have no CRC of the end."""
    path = _name(partition, bucket)
    return DataFile(
        partition=partition, bucket=bucket, path=path, rows=rows, bytes=size, handle=end
    )


def _crc_of_end(path: Path) -> int:
    """Return the CRC-32 of the last bytes of a file. Effects: reads them."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - _END_BYTES, 0))
        return zlib.crc32(file.read(_END_BYTES))


def _staged(file: DataFile) -> str:
    return f"{file.partition}-{file.bucket}.new"


def _name(partition: int, bucket: int) -> str:
    return f"partition={partition}/bucket={bucket}/{ROWS}"
