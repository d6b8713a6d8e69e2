"""A table of Delta Lake, by the library `deltalake`.

Its files are ``partition=0/bucket=3/<random>.parquet``. A change is one commit of Delta's log with
the files that are added and removed, and the deletion vectors of files that lose rows; its commit
info has form and progress. The library reads the table, but writes no deletion vectors; so commits
are written here, as Delta's protocol has them ("Actions"). A commit is of the version after the one
that was read: if there is one already, another process was faster, and it is refused.
"""

from __future__ import annotations

import json
import re
import secrets
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import PurePosixPath
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable, Schema
from deltalake.exceptions import DeltaError
from numpy.typing import NDArray

from logwright import durable
from logwright.errors import InvariantError
from logwright.tables.columns import BUCKET, PARTITION
from logwright.tables.deletion_vectors import (
    FEATURE,
    NAME,
    Descriptor,
    read_descriptor,
    vector_file,
    write_vectors,
)
from logwright.tables.delta_log import (
    LOG,
    commit_path,
    forget_before,
    is_there,
    look_since,
    newest_protocol,
    oldest_commit,
    write_checkpoint,
)
from logwright.tables.delta_rules import (
    asked_of_metadata,
    asked_of_protocol,
    same_types,
    vectors_are_off,
    with_metadata_of,
)
from logwright.tables.files import Changed, DirectoryFiles
from logwright.tables.local_files import refuse_others
from logwright.tables.model import (
    FORM_KEY,
    PROGRESS_KEY,
    Asked,
    Commit,
    DataFile,
    OtherForm,
    Snapshot,
    dump_form,
    dump_progress,
    load_form,
    require_columns,
)
from logwright.tables.store import MADE_AGAIN, FilesStore, TableLocation

VECTORS_KEY: Final = "logwright.deletionVectors"
"""Name of file → descriptor of its deletion vector, in the commit info."""
_LOOKED_AT: Final = (1, 50, None)
"""How many of the newest commits are searched for ours: others, such as of a vacuum, may follow."""
_VECTORS: Final = re.compile(r"deletion_vector_[^/]*\.bin")
_PARTS: Final = re.compile(rf"partition=.*|{_VECTORS.pattern}|{LOG}")
"""What a killed first update may leave."""
_DATA: Final = re.compile(r"partition=[^/]*/bucket=[^/]*/[^/]*\.parquet")
_HOUR_MS: Final = 3_600_000
_CHECKPOINT_EVERY: Final = 100
"""Commits after which the log gets a checkpoint, as the library has it."""
_OTHER_FORM: Final = (AttributeError, KeyError, TypeError, ValueError)
"""What reading something of another form raises."""
_ENABLED: Final = "delta.enableDeletionVectors"
_PLAIN: Final = {"minReaderVersion": 1, "minWriterVersion": 2}
_NO_ZONE: Final = "timestampNtz"
_NO_ZONE_TYPE: Final = '"timestamp_ntz"'


class DeltaStore(FilesStore):
    """A table of Delta Lake, in a local directory or in a bucket."""

    deletes_rows: bool = True
    errors: ClassVar[tuple[type[Exception], ...]] = (DeltaError, Changed)
    conflicts: ClassVar[tuple[type[Exception], ...]] = (Changed,)

    def __init__(self, location: TableLocation) -> None:
        super().__init__(location)
        self._version = -1
        self._columns: tuple[tuple[str, str], ...] = ()
        self._vectors: dict[str, Mapping[str, Any]] = {}
        self._deleted: dict[str, NDArray[np.int64]] | None = None

    @classmethod
    def accepts(cls, field: pa.Field) -> bool:
        """See `Store.accepts`."""
        try:
            Schema.from_arrow(pa.schema([field]))
        except Exception:  # noqa: BLE001 -- the library raises no narrower one
            return False
        return super().accepts(field)

    def recover(self) -> None:
        """Remove what a killed commit left in the log. Files without a commit are not part of the
        table; `remove_old` removes them.
        """
        if isinstance(self._files, DirectoryFiles):
            durable.remove_leftovers(self._files.directory / LOG, older_than_s=0)

    def load(self) -> Snapshot | None:
        """See `Store.load`.

        Raises:
            UnknownTable: it is not logwright's, or asks of writers what logwright does not do.
            OtherForm: another program has changed the columns.
        """
        self._version = -1
        if not is_there(self._files):
            refuse_others(self._files, _PARTS)
            return None
        table = self._opened()
        self._version = table.version()
        info = self._commit_info(table)
        form = load_form(info[FORM_KEY], table=self.name)
        require_columns(form, [one.name for one in table.schema().fields], table=self.name)
        self._require_rules(table)
        files = tuple(_files(table))
        in_doubt = self._load_vectors(table, info, files)
        deleted: Counter[int] = Counter()
        for file in files:
            deleted[file.partition] += len(self.deleted(file))
        snapshot = self._snapshot(
            form=info[FORM_KEY],
            progress=info.get(PROGRESS_KEY),
            columns=[column.name for column in table.schema().fields],
            files=files,
            version=str(table.version()),
            deleted=deleted,
            in_doubt=in_doubt,
        )
        self._columns = snapshot.form.columns
        return snapshot

    @contextmanager
    def output(self, partition: int, bucket: int) -> Iterator[tuple[str, Any]]:
        """See `Store.output`."""
        path = f"partition={partition}/bucket={bucket}/{secrets.token_hex(16)}.parquet"
        with self._files.output(path) as file:
            yield path, file

    def deleted(self, file: DataFile) -> NDArray[np.int64]:
        """See `Store.deleted`. Only what was loaded has them."""
        if self._deleted is None:
            raise InvariantError("the table was not loaded")
        return self._deleted.get(file.path, np.empty(0, dtype=np.int64))

    def commit(self, commit: Commit, schema: pa.Schema) -> None:
        """See `Store.commit`."""
        metadata = {FORM_KEY: dump_form(commit.form), PROGRESS_KEY: dump_progress(commit.progress)}
        made: list[dict[str, Any]] = []
        if self._version < 0:
            made = _new_table(schema)
        elif commit.form.columns != self._columns:
            table = DeltaTable(self._files.location, version=self._version)
            made = _with_schema(table, schema)
        elif any(commit.deleted.values()):
            table = DeltaTable(self._files.location, version=self._version)
            if FEATURE not in _features(table):
                made = _with_vectors(table)
        self._write_commit(commit, metadata, made)
        self._columns = commit.form.columns

    def remove_old(self, keep_ms: int) -> int:
        """See `Store.remove_old`. Effects: a checkpoint of the log, from time to time, too. If no
        earlier version is kept, the log forgets them.

        The library's own vacuum is not used: it takes deletion vectors for files without use.
        """
        files, location = self._files, self._files.location
        table = DeltaTable(location)
        vectors = self._unused_vectors(table, keep_ms)
        if keep_ms == 0:
            forget_before(table, files, int(self._commit_info(table)["version"]))
            table = DeltaTable(location)  # the other one reads what is gone now
        elif table.version() and table.version() % _CHECKPOINT_EVERY == 0:
            write_checkpoint(table, files)
            table.cleanup_metadata()
        removed = {path for path in self._unused(table, keep_ms) if _DATA.fullmatch(path)}
        removed |= vectors
        for path in removed:
            files.remove(path)
        return len(removed)

    def _unused(self, table: DeltaTable, keep_ms: int) -> set[str]:
        """Return the files that no kept version names. Effects: lists the files.

        One that no version named is not among them while it is younger than `orphan_ms`.
        """
        hours = max(keep_ms // _HOUR_MS, 0)
        expired = partial(table.vacuum, hours, dry_run=True, enforce_retention_duration=False)
        unused = set(expired(full=True))
        orphan_ms = self._files.orphan_ms
        if not unused or keep_ms >= orphan_ms:
            return unused
        named = set(expired(full=False))
        before_ms = self._files.now_ms() - orphan_ms
        old = {one.path for one in self._files.listing() if one.modified_ms < before_ms}
        return unused & (named | old)

    def _unused_vectors(self, table: DeltaTable, keep_ms: int) -> set[str]:
        """Return the files of deletion vectors that no kept version names; see `_unused`. They have
        no rows: in a bucket, where each commit is a request, they are looked at with a checkpoint.
        Effects: lists the files, reads commits.
        """
        files = self._files
        if files.orphan_ms and keep_ms and table.version() % _CHECKPOINT_EVERY:
            return set()
        names = {name for one in self._vectors.values() if (name := vector_file(one)) is not None}
        there = [one for one in files.listing() if _VECTORS.fullmatch(one.path)]
        there = [one for one in there if one.path not in names]
        if not there:
            return set()
        now_ms = files.now_ms()
        try:
            used, earlier = _vectors_of(table, time.time_ns() // 1_000_000 - keep_ms)
        except _OTHER_FORM:  # of another program: it may use any of them
            return set()
        orphan_ms = max(keep_ms, files.orphan_ms)
        return {
            each.path
            for each in there
            if each.path not in used
            and now_ms - each.modified_ms > (keep_ms if each.path in earlier else orphan_ms)
        }

    def _commit_info(self, table: DeltaTable) -> dict[str, Any]:
        """Return the info of our newest commit."""
        for limit in _LOOKED_AT:
            for info in table.history(limit):
                if FORM_KEY in info:
                    return info
        oldest = oldest_commit(self._files)
        if oldest:
            raise self._refused(
                f"the log of the Delta table begins at version {oldest}: it was cleaned, and has no"
                " commit of logwright any more, if there ever was one.",
                "Remove the table; it is then made again from the topic. A longer"
                " delta.logRetentionDuration keeps logwright's commits.",
            )
        raise self._refused(
            "the Delta table was not made by logwright.", "Give another path, or remove the table."
        )

    def _opened(self) -> DeltaTable:
        """Return the newest version. Effects: reads the log.

        Raises:
            UnknownTable: it has a protocol that the library does not know.
        """
        try:
            return DeltaTable(self._files.location)
        except DeltaError as error:
            protocol = newest_protocol(self._files) or {}
            features = [*protocol.get("readerFeatures", ()), *protocol.get("writerFeatures", ())]
            self._refuse(
                asked_of_protocol(
                    int(protocol.get("minReaderVersion", 0)),
                    int(protocol.get("minWriterVersion", 0)),
                    map(str, features),
                ),
                error,
            )
            raise

    def _require_rules(self, table: DeltaTable) -> None:
        """Require that logwright does what the table asks of its writers.

        Raises:
            UnknownTable: it asks for more, or is partitioned in another way.
        """
        protocol, metadata = table.protocol(), table.metadata()
        features = [*(protocol.reader_features or ()), *(protocol.writer_features or ())]
        versions = protocol.min_reader_version, protocol.min_writer_version
        self._refuse(asked_of_protocol(*versions, features))
        self._refuse(asked_of_metadata(metadata.configuration, table.schema().to_json()))
        if list(metadata.partition_columns) != [PARTITION, BUCKET]:
            raise self._refused("another program has partitioned the table in another way.")
        self.deletes_rows = not vectors_are_off(metadata.configuration, features)

    def _refuse(self, demand: Asked | None, cause: Exception | None = None) -> None:
        if demand is not None:
            problem = f"the Delta table cannot be updated: {demand.problem}"
            raise self._refused(problem, demand.remedy) from cause

    def _require_types(self, table: DeltaTable, version: int) -> None:
        """Require that columns have the types with which logwright left them in a version. Effects:
        reads it.

        Raises:
            OtherForm: they have others, or that version is not there any more.
        """
        try:
            ours = DeltaTable(self._files.location, version=version).schema().to_json()
        except DeltaError:
            ours = ""
        if not ours or not same_types(ours, table.schema().to_json()):
            raise OtherForm(
                f"another program has changed the types of columns of the table {self.name}.",
                remedy=MADE_AGAIN,
            )

    def _load_vectors(
        self, table: DeltaTable, info: Mapping[str, Any], files: tuple[DataFile, ...]
    ) -> str | None:
        """Note the deletion vectors of the table, and their descriptors, which a commit must repeat
        to replace them, and which the library does not show; return why the rows are in doubt.
        Effects: reads, and looks at all files.

        Raises:
            UnknownTable: another program has deleted rows, and it is not known how.
        """
        versions = range(int(info["version"]) + 1, table.version() + 1)
        paths = {PurePosixPath(file.path).name: file.path for file in files}
        deleted: dict[str, NDArray[np.int64]] = {}
        try:
            since = look_since(self._files, versions, _named(info))
            if since.has_metadata:
                self._require_types(table, versions.start - 1)
            named = since.vectors.keys() & set(paths.values())
            self._vectors = {path: since.vectors[path] for path in named}
            lost = self._files.first_lost(self._expected(files))
            if lost is None and FEATURE in _features(table):
                deleted = dict(_deleted_rows(table, paths))
            counts = {path: int(one["cardinality"]) for path, one in self._vectors.items()}
        except _OTHER_FORM as error:
            raise self._refused("its deletion vectors are not readable.") from error
        if lost is None and counts != {path: len(rows) for path, rows in deleted.items()}:
            raise self._refused("another program has deleted rows of the table.")
        self._deleted = deleted
        return lost or since.change

    def _expected(self, files: tuple[DataFile, ...]) -> Iterator[tuple[str, int | None]]:
        """Yield the files that the table needs, with their sizes."""
        for file in files:
            yield file.path, file.bytes
        for vector in self._vectors.values():
            name = vector_file(vector)
            if name is not None:
                yield name, None

    def _write_commit(
        self, commit: Commit, metadata: dict[str, str], made: list[dict[str, Any]]
    ) -> None:
        """Write deletion vectors, then the commit, with the actions that are `made`. Effects: as
        said.

        Raises:
            Changed: another process has committed this version.
        """
        now_ms = time.time_ns() // 1_000_000
        lists = commit.deleted_of_buckets
        again = {file: rows for found in lists.values() for file, rows in found.items()}
        again = {one: rows for one, rows in again.items() if not self._has(one, rows)}
        written = write_vectors(self._files, list(again.values()))
        vectors = self._vectors.copy()
        actions: list[dict[str, Any]] = made + [
            {"remove": _remove(file, now_ms, vectors.pop(file.path, None))}
            for file in (*commit.removed, *again)
        ]
        actions += [{"add": _add(file, now_ms, None)} for file in commit.added]
        for file, vector in zip(again, written, strict=True):
            vectors[file.path] = vector.action
            actions.append({"add": _add(file, now_ms, vector)})
        named = dict(sorted(vectors.items()))
        info = {"timestamp": now_ms, "operation": "WRITE", "engineInfo": "logwright", **metadata}
        info |= {"txnId": str(uuid.uuid4()), VECTORS_KEY: json.dumps(named)}
        actions.insert(0, {"commitInfo": info})
        content = "".join(f"{json.dumps(action, separators=(',', ':'))}\n" for action in actions)
        self._files.create(commit_path(self._version + 1), content.encode())
        self._version += 1
        self._vectors = vectors

    def _has(self, file: DataFile, rows: NDArray[np.int64]) -> bool:
        return np.array_equal(self.deleted(file), rows)


def _files(table: DeltaTable) -> Iterator[DataFile]:
    actions = pa.table(table.get_add_actions(flatten=True))
    names = ["partition.partition", "partition.bucket", "path", "num_records", "size_bytes"]
    for partition, bucket, path, rows, size in zip(
        *(actions[name].to_pylist() for name in names), strict=True
    ):
        yield DataFile(
            partition=-1 if partition is None else partition,
            bucket=-1 if bucket is None else bucket,
            path=path,
            rows=rows or 0,  # a file of another program may not say it
            bytes=size,
        )


def _features(table: DeltaTable) -> list[str]:
    return table.protocol().reader_features or []


def _new_table(schema: pa.Schema) -> list[dict[str, Any]]:
    """Return the actions that make a table."""
    now_ms = time.time_ns() // 1_000_000
    text = Schema.from_arrow(schema).to_json()
    protocol = _protocol([_NO_ZONE]) if _NO_ZONE_TYPE in text else dict(_PLAIN)
    metadata = {
        "id": str(uuid.uuid4()),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": text,
        "partitionColumns": [PARTITION, BUCKET],
        "createdTime": now_ms,
        "configuration": {},
    }
    return [{"protocol": protocol}, {"metaData": metadata}]


def _with_schema(table: DeltaTable, schema: pa.Schema) -> list[dict[str, Any]]:
    """Return the actions by which a table has other columns: all else that it has stays."""
    known, protocol = table.metadata(), table.protocol()
    text = with_metadata_of(Schema.from_arrow(schema).to_json(), table.schema().to_json())
    readers = {*(protocol.reader_features or ())}
    writers = {*(protocol.writer_features or ())}
    metadata = {
        "id": str(known.id),
        "name": known.name,
        "description": known.description,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": text,
        "partitionColumns": list(known.partition_columns),
        "createdTime": known.created_time,
        "configuration": dict(known.configuration),
    }
    actions: list[dict[str, Any]] = [{"metaData": metadata}]
    if _NO_ZONE_TYPE in text and _NO_ZONE not in readers:
        actions.insert(0, {"protocol": _protocol({*readers, _NO_ZONE}, {*writers, _NO_ZONE})})
    return actions


def _with_vectors(table: DeltaTable) -> list[dict[str, Any]]:
    """Return the actions by which files may have deletion vectors."""
    known, protocol = table.metadata(), table.protocol()
    features = {*(protocol.reader_features or ()), FEATURE}
    others = {*(protocol.writer_features or ()), *features}
    metadata = {
        "id": str(known.id),
        "name": known.name,
        "description": known.description,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": table.schema().to_json(),
        "partitionColumns": list(known.partition_columns),
        "createdTime": known.created_time,
        "configuration": {**known.configuration, _ENABLED: "true"},
    }
    return [{"protocol": _protocol(features, others)}, {"metaData": metadata}]


def _protocol(readers: Iterable[str], writers: Iterable[str] | None = None) -> dict[str, Any]:
    """Return the protocol of a table with these features."""
    features = sorted(readers)
    return {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": features,
        "writerFeatures": features if writers is None else sorted(writers),
    }


def _deleted_rows(
    table: DeltaTable, paths: Mapping[str, str]
) -> Iterator[tuple[str, NDArray[np.int64]]]:
    """Yield path and deleted rows of the files that have a deletion vector. Effects: reads them.

    Args:
        paths: last part of the path, which is unique → path.
    """
    for batch in table.deletion_vectors():
        vectors = pa.record_batch(batch)
        for uri, kept in zip(vectors["filepath"], vectors["selection_vector"], strict=True):
            mask = np.asarray(kept.values.to_numpy(zero_copy_only=False), dtype=np.bool_)
            yield paths[str(uri).rpartition("/")[2]], np.flatnonzero(~mask).astype(np.int64)


def _named(info: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return path → descriptor of a commit info, as actions have it.

    Raises:
        AttributeError, KeyError, TypeError, ValueError: it has another form.
    """
    descriptors = json.loads(info.get(VECTORS_KEY, "{}"))
    return {str(path): read_descriptor(action).action for path, action in descriptors.items()}


def _vectors_of(table: DeltaTable, before_ms: int) -> tuple[set[str], set[str]]:
    """Return the files of the deletion vectors of the versions that were the newest at a time, or
    later, and of earlier ones. Effects: reads the log.
    """
    used: set[str] = set()
    earlier: set[str] = set()
    names = used
    for info in table.history():
        if FORM_KEY in info:
            descriptors = map(read_descriptor, _named(info).values())
            names.update(NAME.format(one.file) for one in descriptors)
            if info["timestamp"] < before_ms:
                names = earlier
    return used, earlier


def _values(file: DataFile) -> dict[str, str | None]:
    return {PARTITION: str(file.partition), BUCKET: str(file.bucket)}


def _stats(file: DataFile) -> str:
    return json.dumps({"numRecords": file.rows})


def _add(file: DataFile, now_ms: int, vector: Descriptor | None) -> dict[str, Any]:
    add = {
        "path": file.path,
        "partitionValues": _values(file),
        "size": file.bytes,
        "modificationTime": now_ms,
        "dataChange": True,
        "stats": _stats(file),
    }
    return add if vector is None else {**add, "deletionVector": vector.action}


def _remove(file: DataFile, now_ms: int, vector: Mapping[str, Any] | None) -> dict[str, Any]:
    remove = {
        "path": file.path,
        "deletionTimestamp": now_ms,
        "dataChange": True,
        "extendedFileMetadata": True,
        "partitionValues": _values(file),
        "size": file.bytes,
    }
    return remove if vector is None else {**remove, "deletionVector": vector}
