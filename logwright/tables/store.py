"""What a table's format has to do: show what is there, and commit files with the progress."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, ClassVar, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from logwright.tables.model import Commit, DataFile, Form, Snapshot


class Store(Protocol):
    """A table of one format. Its methods raise OSError, and what the format's library raises.

    Attributes:
        places_in_files: the files have the columns of their place, partition and bucket.
        keeps_empty: a bucket without rows keeps a file without rows.
        deletes_rows: rows of a file can be deleted without writing it again.
        name: where the table is, for messages.
    """

    places_in_files: ClassVar[bool]
    keeps_empty: ClassVar[bool]
    deletes_rows: ClassVar[bool]
    name: str

    def recover(self) -> None:
        """Complete or remove what a killed process left. Effects: changes files. The caller is the
        only one that writes to the table.
        """

    def load(self) -> Snapshot | None:
        """Return the newest version, None if there is no table. Effects: reads.

        Raises:
            UnknownTable: it is not logwright's.
        """

    def prepare(self, form: Form, schema: pa.Schema) -> None:
        """Make what must exist before files can be written. Effects: may make an empty table."""

    def output(self, partition: int, bucket: int) -> AbstractContextManager[tuple[str, Any]]:
        """Open a new file that no reader sees yet; yields its path and the open file. Effects:
        makes it; it is durable when the block has ended.
        """

    def source(self, file: DataFile) -> AbstractContextManager[Any]:
        """Open a file of a snapshot for reading."""

    def deleted(self, file: DataFile) -> NDArray[np.int64]:
        """Return the deleted rows of a file of the newest snapshot, ascending. Effects: reads."""

    def commit(self, commit: Commit, schema: pa.Schema) -> None:
        """Make a change visible with its progress. Effects: a new version.

        Args:
            commit: what changes; its added files are made by `output`.
            schema: of the table, with partition and bucket.
        """

    def remove_old(self, keep_ms: int) -> int:
        """Remove the files of versions that are older than this; return how many."""
