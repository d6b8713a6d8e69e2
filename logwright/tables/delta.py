"""A table of Delta Lake, by the library `deltalake`.

Its files are ``partition=0/bucket=3/<random>.parquet``. A change is one commit of Delta's log with
the files that are added and removed; its commit info has form and progress. Delta's log refuses a
commit that another process was faster with.
"""

from __future__ import annotations

import json
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, ClassVar, Final

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema
from deltalake.transaction import AddAction, RemoveAction, create_table_with_add_actions

from logwright.tables.columns import BUCKET, PARTITION
from logwright.tables.local_files import durable, refuse_others
from logwright.tables.model import (
    FORM_KEY,
    PROGRESS_KEY,
    Commit,
    DataFile,
    Form,
    Snapshot,
    UnknownTable,
    dump_form,
    dump_progress,
    load_form,
    load_progress,
)

_LOOKED_AT: Final = (1, 50, None)
"""How many of the newest commits are searched for ours: others, such as of a vacuum, may follow."""
_PARTS: Final = re.compile(r"partition=.*")
"""What a killed first update may leave."""
_HOUR_MS: Final = 3_600_000


class DeltaStore:
    """A table of Delta Lake in a local directory."""

    places_in_files: ClassVar[bool] = False
    keeps_empty: ClassVar[bool] = False

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.name = str(directory)

    def recover(self) -> None:
        """Nothing is needed: files without a commit are not part of the table, and `remove_old`
        removes them.
        """

    def load(self) -> Snapshot | None:
        """See `Store.load`."""
        if not DeltaTable.is_deltatable(str(self._directory)):
            refuse_others(self._directory, _PARTS)
            return None
        table = DeltaTable(str(self._directory))
        info = self._commit_info(table)
        return Snapshot(
            form=load_form(info[FORM_KEY], table=self.name),
            progress=load_progress(info.get(PROGRESS_KEY), table=self.name),
            files=tuple(_files(table)),
            version=str(table.version()),
        )

    def prepare(self, form: Form, schema: pa.Schema) -> None:
        """Nothing is needed."""

    @contextmanager
    def output(self, partition: int, bucket: int) -> Iterator[tuple[str, Any]]:
        """See `Store.output`."""
        path = f"partition={partition}/bucket={bucket}/{secrets.token_hex(16)}.parquet"
        with durable(self._directory / path) as file:
            yield path, file

    def source(self, file: DataFile) -> AbstractContextManager[Any]:
        """See `Store.source`."""
        return (self._directory / file.path).open("rb")

    def commit(self, commit: Commit, schema: pa.Schema) -> None:
        """See `Store.commit`."""
        now_ms = time.time_ns() // 1_000_000
        metadata = {FORM_KEY: dump_form(commit.form), PROGRESS_KEY: dump_progress(commit.progress)}
        properties = CommitProperties(custom_metadata=metadata, max_commit_retries=0)
        added = [_add(file, now_ms) for file in commit.added]
        delta_schema = Schema.from_arrow(schema)
        if not DeltaTable.is_deltatable(str(self._directory)):
            create_table_with_add_actions(
                str(self._directory),
                delta_schema,
                added,
                partition_by=[PARTITION, BUCKET],
                commit_properties=properties,
            )
            return
        removed = [_remove(file, now_ms) for file in commit.removed]
        DeltaTable(str(self._directory)).create_write_transaction(
            [*removed, *added],
            "append",
            delta_schema,
            partition_by=[PARTITION, BUCKET],
            commit_properties=properties,
        )

    def remove_old(self, keep_ms: int) -> int:
        """See `Store.remove_old`. Effects: a commit of Delta's vacuum, if files are removed."""
        table = DeltaTable(str(self._directory))
        hours = max(keep_ms // _HOUR_MS, 0)
        named = table.vacuum(hours, dry_run=True, enforce_retention_duration=False)
        there = [path for path in named if (self._directory / path).exists()]
        if there:
            table.vacuum(hours, dry_run=False, enforce_retention_duration=False)
        return len(there)

    def _commit_info(self, table: DeltaTable) -> dict[str, Any]:
        """Return the info of our newest commit."""
        for limit in _LOOKED_AT:
            for info in table.history(limit):
                if FORM_KEY in info:
                    return info
        raise UnknownTable(
            "the Delta table was not made by logwright.",
            path=self._directory,
            remedy="Give another path, or remove the table.",
        )


def _files(table: DeltaTable) -> Iterator[DataFile]:
    actions = pa.table(table.get_add_actions(flatten=True))
    names = ["partition.partition", "partition.bucket", "path", "num_records", "size_bytes"]
    for partition, bucket, path, rows, size in zip(
        *(actions[name].to_pylist() for name in names), strict=True
    ):
        yield DataFile(partition=partition, bucket=bucket, path=path, rows=rows, bytes=size)


def _values(file: DataFile) -> dict[str, str | None]:
    return {PARTITION: str(file.partition), BUCKET: str(file.bucket)}


def _add(file: DataFile, now_ms: int) -> AddAction:
    return AddAction(
        path=file.path,
        size=file.bytes,
        partition_values=_values(file),
        modification_time=now_ms,
        data_change=True,
        stats=json.dumps({"numRecords": file.rows}),
    )


def _remove(file: DataFile, now_ms: int) -> RemoveAction:
    return RemoveAction(
        path=file.path,
        data_change=True,
        deletion_timestamp=now_ms,
        size=file.bytes,
        partition_values=_values(file),
    )
