"""What a table's format has to do: show what is there, and commit files with the progress.

A new format is a subclass of `Store`, `FilesStore` or `DirectoryStore`, and its entry in
`logwright.config.table.FORMATS`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from logwright.tables.files import DirectoryFiles, TableFiles
from logwright.tables.model import (
    Commit,
    DataFile,
    Form,
    Snapshot,
    UnknownTable,
    load_form,
    load_progress,
    require_columns,
)

MADE_AGAIN: Final = "Remove the table; it is then made again from the log."


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLocation:
    """Where a table is.

    Attributes:
        identifier: namespace and name, such as ``("latest_state", "orders")``.
        files: where the table is; None: a catalog decides.
        catalog: properties of the catalog, if the format has one.
    """

    identifier: tuple[str, ...]
    files: TableFiles | None
    catalog: Mapping[str, str] = field(default_factory=dict)

    @property
    def directory(self) -> Path | None:
        """The local directory of the table; None: it is in a bucket, or a catalog decides."""
        return self.files.directory if isinstance(self.files, DirectoryFiles) else None


class Store(ABC):
    """A table of one format. Its methods raise OSError, and what the format's library raises.

    Attributes:
        places_in_files: the files have the columns of their place, partition and bucket.
        keeps_empty: a bucket without rows keeps a file without rows.
        deletes_rows: rows of a file can be deleted without writing it again.
        errors: what the format's library raises, besides errors of Arrow.
        conflicts: those of them that are raised if another process was faster.
        name: where the table is, for messages.
    """

    places_in_files: ClassVar[bool] = False
    keeps_empty: ClassVar[bool] = False
    deletes_rows: bool = False
    errors: ClassVar[tuple[type[Exception], ...]] = ()
    conflicts: ClassVar[tuple[type[Exception], ...]] = ()

    def __init__(self, location: TableLocation) -> None:
        self.name = ".".join(location.identifier)

    @classmethod
    def accepts(cls, field: pa.Field) -> bool:
        """Return whether a table can have a column of this type; the library is asked."""
        try:
            pq.ParquetWriter(pa.BufferOutputStream(), pa.schema([field])).close()
        except (OSError, pa.ArrowException):
            return False
        return True

    def recover(self) -> None:  # noqa: B027 - most formats need nothing
        """Complete or remove what a killed process left. Effects: changes files. The caller is the
        only one that writes to the table.
        """

    @abstractmethod
    def load(self) -> Snapshot | None:
        """Return the newest version, None if there is no table. Effects: reads.

        Raises:
            UnknownTable: it is not logwright's.
        """

    def prepare(self, form: Form, schema: pa.Schema) -> None:  # noqa: B027 - the same
        """Make what must exist before files can be written. Effects: may make an empty table."""

    @abstractmethod
    def output(self, partition: int, bucket: int) -> AbstractContextManager[tuple[str, Any]]:
        """Open a new file that no reader sees yet; yields its path and the open file. Effects:
        makes it; it is durable when the block has ended.
        """

    @abstractmethod
    def source(self, file: DataFile) -> AbstractContextManager[Any]:
        """Open a file of a snapshot for reading."""

    def deleted(self, file: DataFile) -> NDArray[np.int64]:  # noqa: ARG002 - not every format can
        """Return the deleted rows of a file of the newest snapshot, ascending. Effects: reads."""
        return np.empty(0, dtype=np.int64)

    @abstractmethod
    def commit(self, commit: Commit, schema: pa.Schema) -> None:
        """Make a change visible with its progress. Effects: a new version.

        Args:
            commit: what changes; its added files are made by `output`.
            schema: of the table, with partition and bucket.
        """

    @abstractmethod
    def remove_old(self, keep_ms: int) -> int:
        """Remove the files of versions that are older than this; return how many."""

    def _snapshot(
        self,
        *,
        form: str | None,
        progress: str | None,
        columns: Sequence[str] | None = None,
        version: str,
        files: tuple[DataFile, ...],
        deleted: Mapping[int, int] = MappingProxyType({}),
        in_doubt: str | None,
    ) -> Snapshot:
        """Return a version of the table.

        Args:
            form, progress: texts of `dump_form` and `dump_progress`, as they are stored.
            columns: those that the table has now; None: the format does not say it.
            version, files, deleted, in_doubt: as `Snapshot` has them.

        Raises:
            UnknownTable: the form or the progress is not one of logwright.
            OtherForm: another program has changed the columns.
        """
        known = load_form(form, table=self.name)
        if columns is not None:
            require_columns(known, columns, table=self.name)
        return Snapshot(
            form=known,
            progress=load_progress(progress, table=self.name),
            files=files,
            version=version,
            deleted=deleted,
            in_doubt=in_doubt,
        )


class FilesStore(Store):
    """A table whose files are in a directory, or below a prefix of a bucket."""

    def __init__(self, location: TableLocation) -> None:
        if location.files is None:
            raise AssertionError("the policies require a path")
        self._files = location.files
        self.name = str(location.files)

    def source(self, file: DataFile) -> AbstractContextManager[Any]:
        """See `Store.source`."""
        opened: AbstractContextManager[Any] = self._files.source(file.path)
        return opened

    def _refused(self, problem: str, remedy: str = MADE_AGAIN) -> UnknownTable:
        """Return the error of a table that logwright does not continue."""
        if isinstance(self._files, DirectoryFiles):
            return UnknownTable(problem, path=self._files.directory, remedy=remedy)
        return UnknownTable(f"{self._files}: {problem}", remedy=remedy)


class DirectoryStore(FilesStore):
    """A table whose files are in a local directory."""

    def __init__(self, location: TableLocation) -> None:
        super().__init__(location)
        if location.directory is None:
            raise AssertionError("the policies require a path of this machine")
        self._directory = location.directory
