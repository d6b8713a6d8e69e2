"""Storing many events in one step, at the pace of the instance."""

import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager

import dagster as dg
from dagster._core.storage.event_log.sqlite.sqlite_event_log import (
    INDEX_SHARD_NAME,
    SqliteEventLogStorage,
)


@contextmanager
def many_events(context: dg.OpExecutionContext) -> Iterator[None]:
    """Keep the event files of an instance on SQLite open while a step stores many events.

    Dagster opens and closes the files for each event. When the last connection to a file is closed,
    SQLite writes its write-ahead log back and waits for the disk, several times for each event. As
    long as this connection is open, it does not. Other instances are left as they are.
    """
    storage = context.instance.event_log_storage
    with ExitStack() as stack:
        if isinstance(storage, SqliteEventLogStorage):
            for shard in (context.run_id, INDEX_SHARD_NAME):
                path = storage.path_for_shard(shard)
                connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
                stack.enter_context(closing(connection))
                # A connection counts from its first query on.
                connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        yield
