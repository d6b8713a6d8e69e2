"""A table of Delta Lake, by the library `deltalake`.

Its files are ``partition=0/bucket=3/<random>.parquet``. A change is one commit of Delta's log with
the files that are added and removed, and the deletion vectors of files that lose rows; its commit
info has form and progress. The library makes the table and reads it, but writes no deletion
vectors; so later commits are written here, as Delta's protocol has them ("Actions"). Delta's log
refuses a commit that another process was faster with.
"""

from __future__ import annotations

import json
import re
import secrets
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, TableFeatures
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction, create_table_with_add_actions
from numpy.typing import NDArray

from logwright import durable
from logwright.errors import InvariantError
from logwright.tables.columns import BUCKET, PARTITION
from logwright.tables.deletion_vectors import (
    FEATURE,
    NAME,
    Descriptor,
    read_descriptor,
    remove_unused,
    vector_file,
    write_vectors,
)
from logwright.tables.delta_log import (
    LOG,
    forget_before,
    look_since,
    oldest_commit,
    write_checkpoint,
)
from logwright.tables.local_files import first_lost, refuse_others
from logwright.tables.model import (
    FORM_KEY,
    PROGRESS_KEY,
    Commit,
    DataFile,
    Snapshot,
    dump_form,
    dump_progress,
)
from logwright.tables.store import DirectoryStore, TableLocation

VECTORS_KEY: Final = "logwright.deletionVectors"
"""Name of file → descriptor of its deletion vector, in the commit info."""
_LOOKED_AT: Final = (1, 50, None)
"""How many of the newest commits are searched for ours: others, such as of a vacuum, may follow."""
_PARTS: Final = re.compile(r"partition=.*|deletion_vector_.*\.bin")
"""What a killed first update may leave."""
_DATA: Final = re.compile(r"partition=[^/]*/bucket=[^/]*/[^/]*\.parquet")
_HOUR_MS: Final = 3_600_000
_CHECKPOINT_EVERY: Final = 100
"""Commits after which the log gets a checkpoint, as the library has it."""
_OTHER_FORM: Final = (AttributeError, KeyError, TypeError, ValueError)
"""What reading something of another form raises."""
_ENABLED: Final = "delta.enableDeletionVectors"


class DeltaStore(DirectoryStore):
    """A table of Delta Lake in a local directory."""

    deletes_rows: ClassVar[bool] = True
    errors: ClassVar[tuple[type[Exception], ...]] = (DeltaError,)

    def __init__(self, location: TableLocation) -> None:
        super().__init__(location)
        self._vectors: dict[str, Mapping[str, Any]] = {}
        self._deleted: dict[str, NDArray[np.int64]] | None = None

    def recover(self) -> None:
        """Remove what a killed commit left in the log. Files without a commit are not part of the
        table; `remove_old` removes them.
        """
        durable.remove_leftovers(self._directory / LOG, older_than_s=0)

    def load(self) -> Snapshot | None:
        """See `Store.load`."""
        if not DeltaTable.is_deltatable(str(self._directory)):
            refuse_others(self._directory, _PARTS)
            return None
        table = DeltaTable(str(self._directory))
        info = self._commit_info(table)
        files = tuple(_files(table))
        in_doubt = self._load_vectors(table, info, files)
        deleted: Counter[int] = Counter()
        for file in files:
            deleted[file.partition] += len(self.deleted(file))
        return self._snapshot(
            form=info[FORM_KEY],
            progress=info.get(PROGRESS_KEY),
            columns=[column.name for column in table.schema().fields],
            files=files,
            version=str(table.version()),
            deleted=deleted,
            in_doubt=in_doubt,
        )

    @contextmanager
    def output(self, partition: int, bucket: int) -> Iterator[tuple[str, Any]]:
        """See `Store.output`."""
        path = f"partition={partition}/bucket={bucket}/{secrets.token_hex(16)}.parquet"
        with durable.created(self._directory / path) as file:
            yield path, file

    def deleted(self, file: DataFile) -> NDArray[np.int64]:
        """See `Store.deleted`. Only what was loaded has them."""
        if self._deleted is None:
            raise InvariantError("the table was not loaded")
        return self._deleted.get(file.path, np.empty(0, dtype=np.int64))

    def commit(self, commit: Commit, schema: pa.Schema) -> None:
        """See `Store.commit`."""
        metadata = {FORM_KEY: dump_form(commit.form), PROGRESS_KEY: dump_progress(commit.progress)}
        if not DeltaTable.is_deltatable(str(self._directory)):
            now_ms = time.time_ns() // 1_000_000
            create_table_with_add_actions(
                str(self._directory),
                Schema.from_arrow(schema),
                [_first_add(file, now_ms) for file in commit.added],
                partition_by=[PARTITION, BUCKET],
                commit_properties=CommitProperties(custom_metadata=metadata, max_commit_retries=0),
            )
            durable.sync(self._directory / LOG / f"{0:020d}.json")
            durable.sync(self._directory / LOG)
            durable.sync(self._directory)
            return
        table = DeltaTable(str(self._directory))
        if any(commit.deleted.values()) and FEATURE not in _features(table):
            _enable_vectors(table)
        self._write_commit(commit, metadata, table.version() + 1)

    def remove_old(self, keep_ms: int) -> int:
        """See `Store.remove_old`. Effects: a checkpoint of the log, from time to time, too. If no
        earlier version is kept, the log forgets them.

        The library's own vacuum is not used: it takes deletion vectors for files without use.
        """
        table = DeltaTable(str(self._directory))
        if keep_ms == 0:
            forget_before(table, self._directory, int(self._commit_info(table)["version"]))
            table = DeltaTable(str(self._directory))  # the other one reads what is gone now
        elif table.version() and table.version() % _CHECKPOINT_EVERY == 0:
            write_checkpoint(table, self._directory)
            table.cleanup_metadata()
        hours = max(keep_ms // _HOUR_MS, 0)
        unused = table.vacuum(hours, dry_run=True, enforce_retention_duration=False, full=True)
        files = [self._directory / path for path in unused if _DATA.fullmatch(path)]
        for file in files:
            file.unlink(missing_ok=True)
        before_ms = time.time_ns() // 1_000_000 - keep_ms
        try:
            used = _vectors_since(table, before_ms)
        except _OTHER_FORM:  # of another program: it may use any of them
            return len(files)
        names = {NAME.format(one.file) for one in used}
        names |= {name for one in self._vectors.values() if (name := vector_file(one)) is not None}
        return len(files) + remove_unused(self._directory, names, before_ms / 1000)

    def _commit_info(self, table: DeltaTable) -> dict[str, Any]:
        """Return the info of our newest commit."""
        for limit in _LOOKED_AT:
            for info in table.history(limit):
                if FORM_KEY in info:
                    return info
        oldest = oldest_commit(self._directory)
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
        paths = {Path(file.path).name: file.path for file in files}
        deleted: dict[str, NDArray[np.int64]] = {}
        try:
            since = look_since(self._directory, versions, _named(info))
            named = since.vectors.keys() & set(paths.values())
            self._vectors = {path: since.vectors[path] for path in named}
            lost = first_lost(self._directory, self._expected(files))
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

    def _write_commit(self, commit: Commit, metadata: dict[str, str], version: int) -> None:
        """Write deletion vectors, then the commit. Effects: as said."""
        now_ms = time.time_ns() // 1_000_000
        lists = commit.deleted_of_buckets
        again = {file: rows for found in lists.values() for file, rows in found.items()}
        again = {one: rows for one, rows in again.items() if not self._has(one, rows)}
        written = write_vectors(self._directory, list(again.values()))
        vectors = self._vectors.copy()
        actions: list[dict[str, Any]] = [
            {"remove": _remove(file, now_ms, vectors.pop(file.path, None))}
            for file in (*commit.removed, *again)
        ]
        actions += [{"add": _add(file, now_ms, None)} for file in commit.added]
        for file, vector in zip(again, written, strict=True):
            vectors[file.path] = vector.action
            actions.append({"add": _add(file, now_ms, vector)})
        named = dict(sorted(vectors.items()))
        info = {"timestamp": now_ms, "operation": "WRITE", "engineInfo": "logwright", **metadata}
        actions.insert(0, {"commitInfo": {**info, VECTORS_KEY: json.dumps(named)}})
        log = self._directory / LOG
        content = "".join(f"{json.dumps(action, separators=(',', ':'))}\n" for action in actions)
        durable.new(log / f"{version:020d}.json", content.encode())

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


def _enable_vectors(table: DeltaTable) -> None:
    """Say that files may have deletion vectors. Effects: two commits."""
    table.alter.add_feature(TableFeatures.DeletionVectors, allow_protocol_versions_increase=True)
    table.alter.set_table_properties({_ENABLED: "true"})


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


def _vectors_since(table: DeltaTable, before_ms: int) -> list[Descriptor]:
    """Return the deletion vectors of the versions that were the newest at a time, or later.
    Effects: reads the log.
    """
    used: list[Descriptor] = []
    for info in table.history():
        if FORM_KEY in info:
            used += map(read_descriptor, _named(info).values())
            if info["timestamp"] < before_ms:
                break
    return used


def _values(file: DataFile) -> dict[str, str | None]:
    return {PARTITION: str(file.partition), BUCKET: str(file.bucket)}


def _stats(file: DataFile) -> str:
    return json.dumps({"numRecords": file.rows})


def _first_add(file: DataFile, now_ms: int) -> AddAction:
    return AddAction(
        path=file.path,
        size=file.bytes,
        partition_values=_values(file),
        modification_time=now_ms,
        data_change=True,
        stats=_stats(file),
    )


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
