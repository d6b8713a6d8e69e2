"""``bucket-costs``: the requests of each operation on a log in a bucket, counted, and what they
would cost of a petabyte.

The bucket is a directory: which requests are made does not depend on the server. What a store bills
as writing (PUT, POST, LIST) and as reading (GET, HEAD) is counted apart; to delete costs nothing.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple
from unittest.mock import patch

import obstore

from benchmarks.logs import BenchLog, fresh_copy, prepare
from benchmarks.table import table
from logwright.bucket import store
from logwright.bucket.agreement import agree
from logwright.bucket.store import Bucket
from tests.e2e.command import call

SEGMENT_BYTES: Final = 128 << 20
WRITES, READS = "writes", "reads"
PART_BYTES: Final = 8 << 20
PETABYTE_GB: Final = 1_000_000
LOGS: Final = 10_000
"""Of the petabyte: 100 GB each."""


class Prices(NamedTuple):
    """Dollars: of 1,000 requests, and of a GB for a month."""

    writes: float
    reads: float
    storage: float


class Counting:
    """The client, which counts what it asks for."""

    def __init__(self) -> None:
        self.counted: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 -- a function of the client
        function = getattr(obstore, name)
        counted = {
            "put": self._put,
            "list": self._list,
            "list_with_delimiter": self._listed,
        }
        if name in counted:
            return counted[name]

        def counting(*words: object, **options: object) -> object:
            self.counted[READS] += name in {"get", "get_range", "head"}
            return function(*words, **options)

        return counting

    def _put(self, opened: object, key: str, content: Any, **options: Any) -> object:  # noqa: ANN401
        if isinstance(content, bytes):
            self.counted[WRITES] += 1
            return obstore.put(opened, key, content, **options)
        self.counted[WRITES] += 2  # it is begun, and completed
        return obstore.put(opened, key, self._parts(content), **options)

    def _parts(self, content: Iterator[bytes]) -> Iterator[bytes]:
        for piece in content:
            self.counted[WRITES] += -(-len(piece) // PART_BYTES)
            yield piece

    def _list(self, *words: object, **options: Any) -> Iterator[Any]:  # noqa: ANN401
        self.counted[WRITES] += 1
        for number, page in enumerate(obstore.list(*words, **options)):
            self.counted[WRITES] += number > 0
            yield page

    def _listed(self, *words: object) -> object:
        self.counted[WRITES] += 1
        return obstore.list_with_delimiter(*words)


def bucket_costs(*, scale: float, prices: Prices, work: Path, say: Callable[[str], None]) -> str:
    """A table of what two logs needed, one with twice as many segments as the other, and of what
    that makes of a petabyte. Effects: writes logs below `work`.
    """
    logs = [
        prepare("u100", scale=each * scale, work=work, segment_bytes=SEGMENT_BYTES)
        for each in (1, 2)
    ]
    small, large = (_all_steps(log, work, say) for log in logs)
    sizes = [log.log_bytes / 1e9 for log in logs]
    rows = [_row(what, (small[what], large[what]), sizes, prices) for what in small]
    head = ("what", "writes of a GB", "reads", "writes of a log", "reads")
    more = (f"a petabyte, {LOGS:,} logs: million writes", "million reads", "dollars")
    storage = f"To store a petabyte costs {PETABYTE_GB * prices.storage:,.0f} dollars a month."
    return f"{table((*head, *more), rows)}\n\n{storage}"


def _row(
    what: str, counted: tuple[Counter[str], Counter[str]], sizes: Sequence[float], prices: Prices
) -> list[str]:
    small, large = counted
    grown = sizes[1] - sizes[0]
    of_gb = [(large[kind] - small[kind]) / grown for kind in (WRITES, READS)]
    of_log = [
        small[kind] - each * sizes[0] for kind, each in zip((WRITES, READS), of_gb, strict=True)
    ]
    total = [PETABYTE_GB * gb + LOGS * log for gb, log in zip(of_gb, of_log, strict=True)]
    dollars = (total[0] * prices.writes + total[1] * prices.reads) / 1000
    each = [f"{value:.0f}" for value in (of_gb[0], of_gb[1], *of_log)]
    return [what, *each, *(f"{value / 1e6:.2f}" for value in total), f"{dollars:,.0f}"]


def _all_steps(log: BenchLog, work: Path, say: Callable[[str], None]) -> dict[str, Counter[str]]:
    """What each operation asks for, one after the other."""
    bucket, copy, keys = work / "bucket", work / "copy", work / "keys.txt"
    shutil.rmtree(bucket, ignore_errors=True)
    fresh_copy(log, copy)
    keys.write_text("nobody\n")
    url, given = f"file://{bucket}/logs", settings(log)
    agree(Bucket.of(url))  # once for all logs: 160 writes
    steps: dict[str, tuple[object, ...]] = {
        "upload": ("upload", copy, "--to", url),
        "upload again: nothing is new": ("upload", copy, "--to", url),
        "plan": ("plan", url, *given, "--no-forecast"),
        "find": ("find", url, "--keys", keys),
        "latest": ("latest", url, log.partition.topic, "--to", work / "table"),
        "verify": ("verify", url),
        "download": ("download", url, "--to", work / "restored"),
        "clean": ("clean", url, *given, "--yes", "--force", "--scratch", work / "scratch"),
        "purge, nothing is due": ("purge", url, "--yes"),
    }
    counted = {}
    for what, words in steps.items():
        counted[what] = _counted(*words)
        say(f"{log.log_bytes / 1e9:.2f} GB: {what}: {dict(counted[what])}")
    for each in (bucket, copy, work / "table", work / "restored"):
        shutil.rmtree(each)
    return counted


def _counted(*words: object) -> Counter[str]:
    client = Counting()
    with patch.object(store, "_calls", lambda: client):
        answer = call(*words)
    if answer.status:
        message = f"{words[0]}: {answer.err}"
        raise RuntimeError(message)
    return client.counted


def settings(log: BenchLog) -> list[str]:
    """The words of a command for this log: its clock, and the settings of its topic."""
    words = ["--now", str(log.now_ms)]
    for name, value in log.settings.items():
        words += ["--config", f"{name}={value}"]
    return words
