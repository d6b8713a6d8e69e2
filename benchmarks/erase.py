"""``erase``: what erasing some keys from a log costs next to a full cleaning of the same log."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

import numpy as np

from benchmarks.logs import BenchLog, fresh_copy, plan, prepare
from benchmarks.table import table
from logwright.batches.projection import read_window
from logwright.batches.runtime import Runtime
from logwright.batches.source import row_ranges
from logwright.config.topic import parse_settings
from logwright.erasure.erase.commit import build_and_check, commit_erasure, plan_erasure_of
from logwright.erasure.erase.scan import open_segments
from logwright.erasure.keys import KeySet
from logwright.erasure.secret import Secret
from logwright.format.batch import CONTROL
from logwright.log.load import observe
from logwright.rewrite.unsynced import Unsynced
from logwright.sweep.build import build_and_examine
from logwright.sweep.commit import commit
from logwright.units import TimestampMs

CASES: Final = ("u100", "u1k", "zstd", "lz4", "txn")
KEYS: Final = 1_000
_SEED: Final = 7

_Value = TypeVar("_Value")


def erasures(cases: tuple[str, ...], *, keys: int, scale: float, work: Path) -> str:
    """Return a table of seconds, warm, one thread. Effects: works below `work`."""
    rows = [_row(prepare(case, scale=scale, work=work), keys, work / "erase") for case in cases]
    shutil.rmtree(work / "erase", ignore_errors=True)
    head = ["log", "size, MB", "keys", "records erased", "segments rebuilt"]
    head += ["cleaning, s", "erasure, s", "of that scan", "build and check", "commit", "CPU s"]
    return table(head, rows)


def _row(log: BenchLog, keys: int, copy: Path) -> list[str]:
    chosen = KeySet.of(Secret.random(), clear=_some_keys(log, keys))
    for _ in range(2):  # the first run compiles
        fresh_copy(log, copy)
        cleaning, _ = _timed(lambda: _clean(log, copy))
    for _ in range(2):
        fresh_copy(log, copy)
        began = time.process_time()
        parts, records, segments = _erase(log, copy, chosen)
        cpu = time.process_time() - began
    return [
        f"`{log.name}`",
        f"{log.log_bytes / 1e6:.0f}",
        f"{len(chosen):,}",
        f"{records:,}",
        f"{segments}",
        f"{cleaning:.2f}",
        f"{sum(parts):.2f}",
        *(f"{one:.2f}" for one in parts),
        f"{cpu:.2f}",
    ]


def _erase(log: BenchLog, copy: Path, keys: KeySet) -> tuple[tuple[float, ...], int, int]:
    """Erase and return the seconds of the stages, and what was erased."""
    settings = parse_settings(log.settings)
    scan, planned = _timed(
        lambda: plan_erasure_of(
            copy,
            log.partition,
            settings,
            keys,
            now_ms=TimestampMs(log.now_ms),
            progress=lambda *_: None,
            runtime=Runtime(),
        )
    )
    building, staged = _timed(
        lambda: build_and_check(planned, keys, progress=lambda *_: None, runtime=Runtime())
    )
    committing, done = _timed(lambda: commit_erasure(staged, keys))
    parts = (scan, building, committing)
    return parts, done.records, len(done.segments)


def _timed(act: Callable[[], _Value]) -> tuple[float, _Value]:
    began = time.perf_counter()
    value = act()
    return time.perf_counter() - began, value


def _clean(log: BenchLog, copy: Path) -> None:
    """As a sweep of one large log: the output becomes durable while it is examined."""
    planned, files = plan(log, copy), Unsynced()
    staged, _ = build_and_examine(planned, runtime=Runtime(sync=files.start))
    files.finish()
    commit(planned, staged)


def _some_keys(log: BenchLog, count: int) -> list[bytes]:
    """Return distinct keys of windows drawn from all over the log, in a fixed order."""
    sources = open_segments(observe(log.directory, log.partition, high_watermark="end"))
    windows = [
        (source, rows)
        for source in sources
        for rows in row_ranges(source, first=0, last=len(source.batches))
    ]
    random = np.random.default_rng(_SEED)
    chosen: dict[bytes, None] = {}
    each = max(count // max(len(windows), 1), 1) + 1
    for at in random.permutation(len(windows)).tolist():
        source, (first, last) = windows[at]
        records = read_window(source, slice(first, last))
        data = (records.batches["attributes"][records.rows["row"]] & CONTROL) == 0
        keyed = np.flatnonzero((records.rows["key_length"] >= 0) & data)
        for row in random.choice(keyed, size=min(each, len(keyed))).tolist():
            chosen[records.bytes_of(row, "key") or b""] = None
    return list(chosen)[:count]
