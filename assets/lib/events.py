"""Storing many events in one step, at the pace of the instance."""

import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from typing import Final
from uuid import uuid4

import dagster as dg
from dagster._core.events import AssetMaterializationPlannedData, DagsterEventBatchMetadata
from dagster._core.storage.event_log.sqlite.sqlite_event_log import (
    INDEX_SHARD_NAME,
    SqliteEventLogStorage,
)

from logwright.assets.lib.partitions import SEGMENT_SET

BATCH_SIZE_VARIABLE: Final = "DAGSTER_EVENT_BATCH_SIZE"
"""Dagster's own: how many events it stores at once, where the storage can (PostgreSQL)."""
BUSY_SECONDS: Final = 10
"""How long another process may keep an event file locked, as it does to write back its log."""


@contextmanager
def many_events(context: dg.OpExecutionContext) -> Iterator[None]:
    """Keep the event files of an instance on SQLite open while a step stores many events.

    Dagster opens and closes the files for each event. When the last connection to a file is closed,
    SQLite writes its write-ahead log back and waits for the disk, several times for each event. As
    long as this connection is open, it does not. Where it cannot be opened, the step takes longer.
    Other instances are left as they are.
    """
    storage = context.instance.event_log_storage
    with ExitStack() as stack:
        if isinstance(storage, SqliteEventLogStorage):
            for shard in (context.run_id, INDEX_SHARD_NAME):
                with suppress(sqlite3.Error):
                    opened = sqlite3.connect(storage.path_for_shard(shard), timeout=BUSY_SECONDS)
                    stack.enter_context(closing(opened))
                    # A connection counts from its first query on.
                    opened.execute("SELECT count(*) FROM sqlite_master").fetchone()
        yield


def in_batches(
    context: dg.OpExecutionContext, materializations: Iterable[dg.AssetMaterialization]
) -> Iterator[dg.AssetMaterialization]:
    """Yield materializations for a step to yield; with DAGSTER_EVENT_BATCH_SIZE store them in
    batches of that size instead, as Dagster does itself for a run of an asset's partition range.

    Effects: reads the environment; stores events. What is waiting is stored also if the iterable
    raises.
    """
    if int(os.environ.get(BATCH_SIZE_VARIABLE) or 0) <= 1:
        yield from materializations
        return
    step = context.get_step_execution_context()
    batch = str(uuid4())
    waiting: dg.AssetMaterialization | None = None
    try:
        for materialization in materializations:
            if waiting is not None:
                more = DagsterEventBatchMetadata(batch, is_end=False)
                dg.DagsterEvent.asset_materialization(step, waiting, more)
            waiting = materialization
    finally:
        if waiting is not None:
            end = DagsterEventBatchMetadata(batch, is_end=True)
            dg.DagsterEvent.asset_materialization(step, waiting, end)


def show_as_failed(context: dg.OpExecutionContext, keys: Iterable[str]) -> None:
    """Make the partitions of logs that failed show as failed, once the run has failed.

    Dagster shows a partition as failed if a run that failed had planned its materialization. It
    plans those of an asset's run, but not those of a job. Effects: stores an event for each.
    """
    for key in keys:
        planned = AssetMaterializationPlannedData(SEGMENT_SET, partition=key)
        event = dg.DagsterEvent.build_asset_materialization_planned_event(
            context.job_name, context.get_step_execution_context().step.key, planned
        )
        context.instance.report_dagster_event(event, context.run_id)
