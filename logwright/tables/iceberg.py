"""A table of Apache Iceberg, by the library `pyiceberg`.

The catalog is any that pyiceberg knows: REST, SQL … Without one it is a file of SQLite below the
table's path, ``<path>/catalog.db``. The form is in the table's properties, the progress in those of
each snapshot. The catalog refuses a commit that another process was faster with, and such a commit
is not tried again: what it deletes was found in the version before.
"""

from __future__ import annotations

import os
import re
import secrets
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import ValidationError
from pyiceberg import exceptions
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.io.pyarrow import (
    UnsupportedPyArrowTypeException,
    _pyarrow_to_schema_without_ids,
    parquet_files_to_data_files,
)
from pyiceberg.manifest import DataFile as IcebergFile
from pyiceberg.manifest import FileFormat
from pyiceberg.table import FileScanTask, Table
from sqlalchemy.exc import SQLAlchemyError

from logwright import durable
from logwright.bucket.store import is_url
from logwright.errors import PolicyError
from logwright.tables.columns import BUCKET, PARTITION
from logwright.tables.files import DirectoryFiles, files_at
from logwright.tables.iceberg_deletes import RowDelta, delete_file, read_deletes, write_deletes
from logwright.tables.iceberg_history import (
    kept_by_ref,
    newest_ours,
    properties_of,
    since_ours,
    used_files,
    version_of,
)
from logwright.tables.iceberg_rules import NAME_MAPPING, asked_of, changed_columns, is_ours
from logwright.tables.iceberg_schema import change_schema, other_columns
from logwright.tables.local_files import refuse_others
from logwright.tables.model import (
    FORM_KEY,
    PROGRESS_KEY,
    Commit,
    DataFile,
    Form,
    InDoubt,
    OtherForm,
    Snapshot,
    UnknownTable,
    dump_form,
    dump_progress,
    load_form,
    require_columns,
)
from logwright.tables.store import MADE_AGAIN, Store, TableLocation

CATALOG_FILE: Final = "catalog.db"
_CATALOG_NAME: Final = "logwright"
_FILE: Final = "file://"
_S3: Final = {"s3.endpoint": "AWS_ENDPOINT_URL", "s3.region": "AWS_REGION"}
_LOCAL: Final = re.compile(r"(?:file:(?://)?)?(/.*)", re.DOTALL)
"""The locations of local files, with their paths: of logwright, and as catalogs have them."""
_DATA: Final = "data"
_METADATA: Final = "metadata"
_OWN_METADATA: Final = ("*.metadata.json", "*.avro")
"""What an update writes there. Statistics and others are of other programs."""
_PARTS: Final = re.compile(rf"{_DATA}|{_METADATA}|{re.escape(CATALOG_FILE)}.*")
"""What a killed first update may leave."""


class IcebergStore(Store):
    """A table in a catalog. Without properties of one it is a file of SQLite in the directory.
    Files without a commit are not part of the table.
    """

    places_in_files: ClassVar[bool] = True
    deletes_rows: bool = True
    errors: ClassVar[tuple[type[Exception], ...]] = (
        *(kind for kind in vars(exceptions).values() if isinstance(kind, type)),
        NotImplementedError,
        SQLAlchemyError,
        ValidationError,
    )
    """Also for an answer that is not one; a connection's errors are OSErrors."""
    conflicts: ClassVar[tuple[type[Exception], ...]] = (
        CommitFailedException,
        TableAlreadyExistsError,
    )

    def __init__(self, location: TableLocation) -> None:
        super().__init__(location)
        self._place = location
        self._opened: Catalog | None = None
        self._loaded: Table | None = None
        self._version: int | None = None
        self._deleted: dict[str, dict[str, NDArray[np.int64]]] = {}

    @classmethod
    def accepts(cls, field: pa.Field) -> bool:
        """See `Store.accepts`."""
        try:
            _pyarrow_to_schema_without_ids(pa.schema([field]))
        except (UnsupportedPyArrowTypeException, NotImplementedError, ValueError):
            return False
        return super().accepts(field)

    @property
    def _catalog(self) -> Catalog:
        if self._opened is None:
            properties = dict(self._place.catalog)
            if not properties and self._place.directory is not None:
                self._place.directory.mkdir(parents=True, exist_ok=True)
                file = self._place.directory / CATALOG_FILE
                warehouse = f"{_FILE}{self._place.directory}"
                properties = {"type": "sql", "uri": f"sqlite:///{file}", "warehouse": warehouse}
            self._opened = _open_catalog(self.name, _of_environment() | properties)
        return self._opened

    @property
    def _table(self) -> Table:
        return self._load() if self._loaded is None else self._loaded

    def _load(self) -> Table:
        self._loaded = self._catalog.load_table(self._place.identifier)
        return self._loaded

    def load(self) -> Snapshot | None:
        """See `Store.load`.

        Raises:
            UnknownTable: it is not logwright's, or asks of writers what logwright does not do.
            OtherForm: another program has changed the columns.
        """
        self._version = None
        place = self._place
        if place.directory and not place.catalog and not (place.directory / CATALOG_FILE).exists():
            refuse_others(DirectoryFiles(place.directory), _PARTS)
            return None
        try:
            table = self._table.refresh()
        except NoSuchTableError:
            self._loaded = None
            return None
        if FORM_KEY not in table.properties:
            raise UnknownTable(
                f"the Iceberg table {self.name} was not made by logwright.",
                remedy="Give another name or catalog, or remove the table.",
            )
        self._require_rules(table)
        self._version = version_of(table)
        newest, in_doubt = newest_ours(table)
        if newest is not None:
            in_doubt = in_doubt or other_columns(table, newest)
        progress = None if newest is None else properties_of(newest).get(PROGRESS_KEY)
        files = self._files(table)
        self._deleted.clear()
        deletes = {one for file in files for one in _handle(file).delete_files}
        deleted: Counter[int] = Counter()
        for delete in deletes:
            deleted[_number(delete.partition[0])] += delete.record_count
        return self._snapshot(
            form=table.properties[FORM_KEY],
            progress=progress,
            columns=[column.name for column in table.schema().fields],
            files=files,
            version=str(self._version),
            deleted=deleted,
            in_doubt=in_doubt
            or _other_format(files)
            or _first_lost(table, [*(_handle(file).file for file in files), *deletes]),
        )

    def _require_rules(self, table: Table) -> None:
        """Require that the table has logwright's columns, and asks of its writers what it does.

        Raises:
            UnknownTable, OtherForm: it does not.
        """
        form = load_form(table.properties[FORM_KEY], table=self.name)
        require_columns(form, [one.name for one in table.schema().fields], table=self.name)
        changed = changed_columns(table)
        if changed is not None:
            raise OtherForm(
                f"another program has changed the column {changed} of the table {self.name}.",
                remedy=MADE_AGAIN,
            )
        demand = asked_of(table)
        if demand is not None:
            raise UnknownTable(
                f"the Iceberg table {self.name} cannot be updated: {demand.problem}",
                remedy=demand.remedy,
            )

    def _files(self, table: Table) -> tuple[DataFile, ...]:
        """Return the files of a table. Effects: reads its manifests.

        Raises:
            UnknownTable: another program has deleted rows by equality, or has files in other
                places.
        """
        schema = table.schema()
        ours = {number for number, spec in table.specs().items() if is_ours(spec, schema)}
        try:
            tasks = list(table.scan().plan_files())
        except ValueError as error:  # pyiceberg knows no equality deletes
            raise self._changed("has deleted rows in a way that is not readable") from error
        placed = (one for task in tasks for one in (task.file, *task.delete_files))
        if any(file.spec_id not in ours for file in placed):
            raise self._changed("has partitioned it in another way")
        return tuple(_files(tasks))

    def _changed(self, how: str) -> UnknownTable:
        return UnknownTable(
            f"another program {how}: the Iceberg table {self.name}.",
            remedy=MADE_AGAIN,
        )

    def prepare(self, form: Form, schema: pa.Schema) -> None:
        """Make the empty table: it has the place where files are written.

        Raises:
            CommitFailedException, TableAlreadyExistsError: another process has made it meanwhile.
        """
        if self._loaded is not None:
            return
        self._catalog.create_namespace_if_not_exists(self._place.identifier[:-1])
        directory, files = self._place.directory, self._place.files
        location = None if files is None else files.location
        with self._catalog.create_table_transaction(
            self._place.identifier,
            schema=schema,
            location=location if directory is None else f"{_FILE}{directory}",
            properties={FORM_KEY: dump_form(form)},
        ) as change:
            with change.update_spec() as spec:
                spec.add_identity(PARTITION)
                spec.add_identity(BUCKET)
            mapping = change.table_metadata.schema().name_mapping.model_dump_json()
            named: dict[str, Any] = {NAME_MAPPING: mapping}
            change.set_properties(**named)
        self._load()

    @contextmanager
    def output(self, partition: int, bucket: int) -> Iterator[tuple[str, Any]]:
        """See `Store.output`."""
        table = self._table
        folder = f"{table.location()}/{_DATA}/partition={partition}/bucket={bucket}"
        path = f"{folder}/{secrets.token_hex(16)}.parquet"
        with table.io.new_output(path).create() as file:
            yield path, file
        local = _LOCAL.fullmatch(path)
        if local is not None:
            for written in (Path(local[1]), Path(local[1]).parent):
                durable.sync(written)

    @contextmanager
    def source(self, file: DataFile) -> Iterator[Any]:
        """See `Store.source`."""
        with self._table.io.new_input(file.path).open() as opened:
            yield opened

    def deleted(self, file: DataFile) -> NDArray[np.int64]:
        """See `Store.deleted`. Effects: reads the bucket's delete files, once."""
        positions = [np.empty(0, dtype=np.int64)]
        for deletes in _handle(file).delete_files:
            known = self._deleted.get(deletes.file_path)
            if known is None:
                with self._table.io.new_input(deletes.file_path).open() as opened:
                    known = self._deleted[deletes.file_path] = read_deletes(opened)
            positions.append(known.get(file.path, positions[0]))
        return np.unique(np.concatenate(positions))

    def commit(self, commit: Commit, schema: pa.Schema) -> None:
        """See `Store.commit`.

        Raises:
            CommitFailedException: there is another version than `load`, or the last commit, saw.
        """
        table = self._table
        if version_of(table) != self._version:
            raise CommitFailedException("the table has another version than the one that was read")
        lists = commit.deleted_of_buckets
        written = [self._write_deletes(place, lists[place]) for place in lists if lists[place]]
        replaced = {
            deletes
            for task in table.scan().plan_files()
            if (_number(task.file.partition[0]), _number(task.file.partition[1])) in lists
            for deletes in task.delete_files
        }
        known = load_form(table.properties.get(FORM_KEY), table=self.name)
        with table.transaction() as change:
            if known.columns != commit.form.columns:
                change_schema(change, schema)
            if known != commit.form:
                named: dict[str, Any] = {FORM_KEY: dump_form(commit.form)}
                change.set_properties(**named)
            files = RowDelta(change, {PROGRESS_KEY: dump_progress(commit.progress)})
            paths = iter([file.path for file in commit.added])
            for added in parquet_files_to_data_files(table.io, change.table_metadata, paths):
                files.append_data_file(added)
            for file in commit.removed:
                files.delete_data_file(_handle(file).file)
            files.added_deletes.extend(written)
            files.removed_deletes.update(replaced)
            files.commit()
        self._version = version_of(table)

    def _write_deletes(
        self, place: tuple[int, int], rows: Mapping[DataFile, NDArray[np.int64]]
    ) -> IcebergFile:
        """Write the delete file of a bucket. Effects: makes it, durably."""
        with self.output(*place) as (path, opened):
            write_deletes(opened, {file.path: found for file, found in rows.items()})
            size = opened.tell()
        return delete_file(path, size, sum(map(len, rows.values())), place)

    def remove_old(self, keep_ms: int) -> int:
        """Let the catalog forget old snapshots, and remove their files if the table has a
        directory on this machine; others are left to the catalog. Logwright's newest snapshot
        stays, with those of other programs since, which are judged by the next update, and what a
        branch or tag keeps. See `Store.remove_old`.

        Raises:
            InDoubt: nothing may be kept, and a branch or tag keeps something.
        """
        table = self._table
        before = datetime.now(UTC) - timedelta(milliseconds=keep_ms)
        before_ms = before.timestamp() * 1000
        stay = {one.snapshot_id for one in since_ours(table)}
        stay |= {one.snapshot_id for one in table.metadata.refs.values()}
        old = [one for one in table.snapshots() if one.timestamp_ms < before_ms]
        expired = [one.snapshot_id for one in old if one.snapshot_id not in stay]
        if expired:
            table.maintenance.expire_snapshots().by_ids(expired).commit()
        table.refresh()
        removed = self._remove_unused(table, before.timestamp())
        kept = kept_by_ref(table)
        if keep_ms == 0 and kept is not None:
            raise InDoubt(
                f"the branch or tag {kept} of the Iceberg table {self.name} keeps an earlier"
                " version, with rows that are to be gone.",
                remedy="Remove it and update again, or remove the table; it is then made again"
                " from the log.",
            )
        return removed

    def _remove_unused(self, table: Table, before_s: float) -> int:
        """Remove files below the directory that no snapshot has, and that are older; return how
        many have rows. Effects: as said.
        """
        directory = self._place.directory
        if directory is None:
            return 0
        used = {local[1] for one in used_files(table) if (local := _LOCAL.fullmatch(one))}
        removed = 0
        candidates = [*(directory / _DATA).rglob("*.parquet")]
        candidates += [one for name in _OWN_METADATA for one in (directory / _METADATA).glob(name)]
        for path in candidates:
            if str(path) not in used and path.stat().st_mtime < before_s:
                path.unlink()
                removed += path.suffix == ".parquet"
        return removed


def _of_environment() -> dict[str, str]:
    """Return where the environment has S3: pyiceberg knows none of these variables. Its keys are
    taken from the environment by the client itself, and are in no property.
    """
    values = {name: os.environ.get(variable, "") for name, variable in _S3.items()}
    return {name: value for name, value in values.items() if value}


def _open_catalog(name: str, properties: Mapping[str, str]) -> Catalog:
    """Return the catalog of a table. Effects: may connect to it.

    Raises:
        PolicyError: its properties are incomplete or wrong. They may be secrets, so only the
            error's kind is said.
    """
    try:
        return load_catalog(_CATALOG_NAME, **properties)
    except ValueError as error:
        raise PolicyError(
            f"the catalog of the table {name} cannot be opened: {type(error).__name__}.",
            remedy="Check the properties of its catalog.",
        ) from None


def _first_lost(table: Table, files: Iterable[IcebergFile]) -> str | None:
    """Return which of some files is gone, if it is a local one, or in the table's bucket. Effects:
    looks at each, or lists those of the table.
    """
    files = list(files)
    location = table.location().rstrip("/")
    if is_url(location) and not location.startswith(_FILE):
        inside = ((one.file_path, one.file_size_in_bytes) for one in files)
        prefix = f"{location}/"
        return files_at(location).first_lost(
            (path.removeprefix(prefix), size) for path, size in inside if path.startswith(prefix)
        )
    local = ((_LOCAL.fullmatch(one.file_path), one.file_size_in_bytes) for one in files)
    return DirectoryFiles(Path("/")).first_lost((path[1], size) for path, size in local if path)


def _number(value: int | None) -> int:
    """Return a partition or bucket; -1 for that of a file of another program that has none."""
    return -1 if value is None else value


def _other_format(files: Iterable[DataFile]) -> str | None:
    """Return which of some files logwright cannot read: it writes Parquet."""
    for file in files:
        form = _handle(file).file.file_format
        if form != FileFormat.PARQUET:
            return f"it has a file of the format {form.value}"
    return None


def _files(tasks: Iterable[FileScanTask]) -> Iterator[DataFile]:
    for task in tasks:
        file = task.file
        yield DataFile(
            partition=_number(file.partition[0]),
            bucket=_number(file.partition[1]),
            path=file.file_path,
            rows=file.record_count,
            bytes=file.file_size_in_bytes,
            handle=task,
        )


def _handle(file: DataFile) -> FileScanTask:
    """Return what `_files` made the file of."""
    assert isinstance(file.handle, FileScanTask)  # noqa: S101 - files of a snapshot have one
    return file.handle
