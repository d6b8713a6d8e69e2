"""The snapshots of an Iceberg table: logwright's newest, those since, and the files of all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Snapshot

from logwright.tables.model import PROGRESS_KEY


def version_of(table: Table) -> int | None:
    """Return the number of the current snapshot, None if there is none."""
    snapshot = table.current_snapshot()
    return None if snapshot is None else snapshot.snapshot_id


def since_ours(table: Table) -> list[Snapshot]:
    """Return the current snapshot and those before it, down to logwright's newest one."""
    snapshots: list[Snapshot] = []
    snapshot = table.current_snapshot()
    while snapshot is not None:
        snapshots.append(snapshot)
        if PROGRESS_KEY in properties_of(snapshot) or snapshot.parent_snapshot_id is None:
            break
        snapshot = table.snapshot_by_id(snapshot.parent_snapshot_id)
    return snapshots


def newest_ours(table: Table) -> tuple[Snapshot | None, str | None]:
    """Return logwright's newest snapshot below the current one, and what may have changed rows
    since: a snapshot of another program that does not just replace files by files with the same
    rows (Iceberg's specification, "Snapshots": the operation "replace").
    """
    since = since_ours(table)
    if not since:
        return None, None
    if PROGRESS_KEY not in properties_of(since[-1]):
        return None, "logwright's snapshot is not there any more"
    change = None
    for snapshot in since[:-1]:
        operation = None if snapshot.summary is None else snapshot.summary.operation
        if operation != Operation.REPLACE:
            operation_name = "a change" if operation is None else operation.value
            change = f"{operation_name} in snapshot {snapshot.snapshot_id}"
    return since[-1], change


def kept_by_ref(table: Table) -> str | None:
    """Return the name of a branch or tag that keeps a snapshot below logwright's
    newest, or not below the current one; None: none does.
    """
    stay = {snapshot.snapshot_id for snapshot in since_ours(table)}
    refs = sorted(table.metadata.refs.items())
    return next((name for name, ref in refs if ref.snapshot_id not in stay), None)


def properties_of(snapshot: Snapshot) -> Mapping[str, str]:
    """Return what the writer of a snapshot has noted in it."""
    return {} if snapshot.summary is None else snapshot.summary.additional_properties


def used_files(table: Table) -> Iterator[str]:
    """Yield the locations of all files of all snapshots, and of the metadata that says so. Effects:
    reads their manifests.
    """
    yield table.metadata_location
    yield from (entry.metadata_file for entry in table.metadata.metadata_log)
    for snapshot in table.snapshots():
        yield snapshot.manifest_list
        for manifest in snapshot.manifests(table.io):
            yield manifest.manifest_path
            for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
                yield entry.data_file.file_path
