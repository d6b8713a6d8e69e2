"""The progress bar of a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from logwright.batches.runtime import Progress


@contextmanager
def bar(title: str) -> Iterator[Progress]:
    """Show a progress bar. Effects: writes to stderr."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
    )
    with Bars(*columns, console=Console(stderr=True), transient=True) as shown:
        tasks: dict[str, TaskID] = {}

        def progress(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = shown.add_task(f"{title} {stage}", total=total)
            shown.update(tasks[stage], completed=done, total=total)

        yield progress
