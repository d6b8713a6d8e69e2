"""Position deletes of Apache Iceberg: which rows of data files are deleted.

Iceberg's specification, "Position Delete Files": a Parquet file with the path of a data file and
the position of a row, sorted, for data files of one partition of the table. `pyiceberg` reads them
but writes none, so the snapshot is made here from its parts: its data manifests as the library has
them, and one manifest with all delete files.

A manifest has the lowest and highest key of each file. Of removed files a snapshot has none of it:
what an update takes away is not in the metadata of the version that it makes.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from typing import IO, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriterV2,
)
from pyiceberg.table import Transaction
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.update.snapshot import _OverwriteFiles
from pyiceberg.typedef import Record

_FIELD_ID: Final = b"PARQUET:field_id"
_SCHEMA: Final = pa.schema(
    [
        pa.field("file_path", pa.string(), nullable=False, metadata={_FIELD_ID: b"2147483546"}),
        pa.field("pos", pa.int64(), nullable=False, metadata={_FIELD_ID: b"2147483545"}),
    ]
)


def write_deletes(file: IO[bytes] | Any, deleted: Mapping[str, NDArray[np.int64]]) -> None:  # noqa: ANN401 - Arrow's files too
    """Write a position delete file. Effects: writes to `file`, which stays open.

    Args:
        deleted: path of a data file → deleted rows, ascending.
    """
    with pq.ParquetWriter(file, _SCHEMA, compression="zstd") as writer:
        for path, rows in sorted(deleted.items()):
            columns = [pa.array([path] * len(rows), pa.string()), pa.array(rows, pa.int64())]
            writer.write_table(pa.Table.from_arrays(columns, schema=_SCHEMA))


def read_deletes(file: IO[bytes] | Any) -> dict[str, NDArray[np.int64]]:  # noqa: ANN401 - the same
    """Return path of a data file → deleted rows, ascending. Effects: reads."""
    deletes = pq.read_table(file, columns=["file_path", "pos"])
    positions = deletes["pos"].to_numpy()
    paths = deletes["file_path"].combine_chunks().dictionary_encode()
    numbers = paths.indices.to_numpy()
    return {
        str(path): np.sort(positions[numbers == number])
        for number, path in enumerate(paths.dictionary.to_pylist())
    }


def delete_file(path: str, size: int, rows: int, place: tuple[int, int]) -> DataFile:
    """Return a position delete file as a manifest has it.

    Args:
        size: in bytes.
        rows: number of deleted rows.
        place: partition and bucket of its data files.
    """
    return DataFile.from_args(
        content=DataFileContent.POSITION_DELETES,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=Record(*place),
        record_count=rows,
        file_size_in_bytes=size,
    )


def _without_metrics(file: DataFile) -> DataFile:
    """Return a file of a manifest without what it says of the values of its columns."""
    bare = DataFile.from_args(
        content=file.content,
        file_path=file.file_path,
        file_format=file.file_format,
        partition=file.partition,
        record_count=file.record_count,
        file_size_in_bytes=file.file_size_in_bytes,
    )
    bare.spec_id = file.spec_id
    return bare


def _entry(entry: ManifestEntry, status: ManifestEntryStatus, snapshot_id: int) -> ManifestEntry:
    """Return the entry of a manifest with another status, of another snapshot."""
    return ManifestEntry.from_args(
        status=status,
        snapshot_id=snapshot_id,
        sequence_number=entry.sequence_number,
        file_sequence_number=entry.file_sequence_number,
        data_file=entry.data_file,
    )


class _DeleteManifestWriter(ManifestWriterV2):
    """Writes a manifest of delete files."""

    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


class RowDelta(_OverwriteFiles):
    """A snapshot that adds and removes data files and delete files. It follows the one that the
    table has when it is made, and no other: the library alone would try a refused commit again
    after the snapshot of another process, if that one adds no data files and removes none of these.

    Attributes:
        added_deletes: delete files that are added.
        removed_deletes: those that are removed.
    """

    def __init__(self, transaction: Transaction, properties: dict[str, str]) -> None:
        has_snapshot = transaction.table_metadata.current_snapshot() is not None
        super().__init__(
            operation=Operation.OVERWRITE if has_snapshot else Operation.APPEND,
            transaction=transaction,
            io=transaction._table.io,  # noqa: SLF001 - as `Transaction.update_snapshot` does
            commit_uuid=uuid.uuid4(),
            snapshot_properties=properties,
        )
        self.added_deletes: list[DataFile] = []
        self.removed_deletes: set[DataFile] = set()

    def _validate_concurrency(self) -> None:
        """Called before the commit is tried again.

        Raises:
            CommitFailedException: another process has committed.
        """
        if self._parent_snapshot_id != self._starting_snapshot_id:
            raise CommitFailedException("another process has committed")

    def _deleted_entries(self) -> list[ManifestEntry]:
        """Removed files, without the values of their columns."""
        entries = super()._deleted_entries()
        for entry in entries:
            entry.data_file = _without_metrics(entry.data_file)
        return entries

    def _existing_manifests(self) -> list[ManifestFile]:
        manifests = super()._existing_manifests()
        old = [one for one in manifests if one.content == ManifestContent.DELETES]
        data = [one for one in manifests if one.content == ManifestContent.DATA]
        data = [one for each in data for one in self._without_removed(each)]
        if not self.added_deletes and not self.removed_deletes:
            return [*data, *old]
        return [*data, *self._delete_manifest(old)]

    def _without_removed(self, manifest: ManifestFile) -> Iterator[ManifestFile]:
        """Yield a manifest without the files that earlier snapshots have removed; nothing if it has
        no others. Effects: may write it again.
        """
        if manifest.deleted_files_count == 0:
            yield manifest
            return
        entries = self.fetch_manifest_entry(manifest)
        if not entries:
            return
        with self.new_manifest_writer(self.spec(manifest.partition_spec_id)) as writer:
            for entry in entries:
                status = ManifestEntryStatus.EXISTING
                writer.add_entry(_entry(entry, status, entry.snapshot_id or self._snapshot_id))
        yield writer.to_manifest_file()

    def _delete_manifest(self, old: list[ManifestFile]) -> Iterator[ManifestFile]:
        """Write the manifest of all delete files. Effects: as said."""
        spec = self._transaction.table_metadata.spec()
        writer = _DeleteManifestWriter(
            spec, self.schema(), self.new_manifest_output(), self._snapshot_id, self._compression
        )
        entries = [entry for one in old for entry in self.fetch_manifest_entry(one)]
        with writer:
            for entry in entries:
                gone = entry.data_file in self.removed_deletes
                status = ManifestEntryStatus.DELETED if gone else ManifestEntryStatus.EXISTING
                snapshot_id = None if gone else entry.snapshot_id
                writer.add_entry(_entry(entry, status, snapshot_id or self._snapshot_id))
            for file in self.added_deletes:
                writer.add(
                    ManifestEntry.from_args(
                        status=ManifestEntryStatus.ADDED,
                        snapshot_id=self._snapshot_id,
                        sequence_number=None,
                        file_sequence_number=None,
                        data_file=file,
                    )
                )
        yield writer.to_manifest_file()

    def _summary(self, snapshot_properties: dict[str, str] | None = None) -> Summary:
        data = self._added_data_files, self._deleted_data_files
        self._added_data_files = [*data[0], *self.added_deletes]
        self._deleted_data_files = data[1] | self.removed_deletes
        try:
            return super()._summary(snapshot_properties or {})
        finally:
            self._added_data_files, self._deleted_data_files = data
