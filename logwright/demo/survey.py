"""Tables of what the demo changed, measured on disk before and after, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich import box
from rich.table import Table

MIB: Final = 1024 * 1024
SEGMENT_NAME: Final = "[0-9]" * 20 + ".log"


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Size of a partition: number of its live segments and bytes of their `.log` files."""

    segments: int
    log_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """The run's result for one log.

    Attributes:
        why: the number that decided whether it was due.
        records: number of records read; 0 if it was not due.
        removed: cause → number of records removed.
    """

    why: str
    records: int
    removed: Mapping[str, int]


def survey(log_dir: Path) -> dict[str, Size]:
    """Return directory name → size of each partition. Effects: reads directory entries."""
    sizes = {}
    for directory in sorted(path for path in log_dir.iterdir() if path.is_dir()):
        logs = [path.stat().st_size for path in directory.glob(SEGMENT_NAME)]
        sizes[directory.name] = Size(segments=len(logs), log_bytes=sum(logs))
    return sizes


def comparison(
    before: Mapping[str, Size], after: Mapping[str, Size], accounts: Mapping[str, Account]
) -> Table:
    """Return a table with one row per partition and the total."""
    table = Table(title="Reclaimed space", title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("log")
    for heading in ("segments", "MiB", "reclaimed"):
        table.add_column(heading, justify="right")
    table.add_column("decided by")
    for name, was in before.items():
        now = after.get(name, Size(segments=0, log_bytes=0))
        table.add_row(name, *_cells(was, now), accounts[name].why if name in accounts else "")
    table.add_section()
    table.add_row("all", *_cells(total(before), total(after)), style="bold")
    return table


def causes(accounts: Mapping[str, Account]) -> Table:
    """Return a table with one row per cause of removal, also for 0 records, and what is left."""
    records = sum(account.records for account in accounts.values())
    removed: Counter[str] = Counter()
    for account in accounts.values():
        removed.update(dict(account.removed))
    table = Table(title="Why records were removed", title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("cause")
    for heading in ("records", "share"):
        table.add_column(heading, justify="right")
    for cause, number in removed.items():
        table.add_row(cause, f"{number:,}", _share(number, records))
    table.add_section()
    left = records - removed.total()
    table.add_row("left", f"{left:,}", _share(left, records), style="bold")
    return table


def total(sizes: Mapping[str, Size]) -> Size:
    """Return the sum over partitions."""
    return Size(
        segments=sum(size.segments for size in sizes.values()),
        log_bytes=sum(size.log_bytes for size in sizes.values()),
    )


def _cells(was: Size, now: Size) -> list[str]:
    share = 1 - now.log_bytes / was.log_bytes if was.log_bytes else 0.0
    return [
        f"{was.segments} → {now.segments}",
        f"{was.log_bytes / MIB:.2f} → {now.log_bytes / MIB:.2f}",
        f"{share:.0%}" if was != now else "not due",
    ]


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else ""
