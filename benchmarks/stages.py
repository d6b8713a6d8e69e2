"""The time of a cleaning by stage: measures the engine's functions by wrapping them for a while.

A stage's time is its own: that of the stages called within it is theirs. The kernels are timed
where Python calls them, so one that calls another counts for both.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from logwright.checks import kernels, quick, quick_kernels, thorough, thorough_kernels
from logwright.checks import segments as check_segments
from logwright.compaction import backward, build, survivors
from logwright.keys import read, rows
from logwright.keys import receipt as digest
from logwright.rewrite import chunks
from logwright.rewrite import copy as copying
from logwright.steps import live
from logwright.sweep import commit as committing

REST: Final = "Python and all else"


@dataclass(slots=True, kw_only=True)
class Stage:
    """What one stage took; `read_bytes` is how much log it walked over."""

    part: str
    name: str
    wall_seconds: float = 0.0
    cpu_seconds: float = 0.0
    calls: int = 0
    read_bytes: int = 0


class Stopwatch:
    """Shares the time out among stages: exactly one of them runs at any moment.

    Attributes:
        part: under which new stages are put.
        stages: by part and name, in the order in which they first ran.
    """

    def __init__(self) -> None:
        self.part = ""
        self.stages: dict[tuple[str, str], Stage] = {}
        self._running = REST
        self._since = (time.perf_counter(), time.process_time())

    def stage(self, name: str) -> Stage:
        """The stage of this name in the current part."""
        key = (self.part, name)
        if key not in self.stages:
            self.stages[key] = Stage(part=self.part, name=name)
        return self.stages[key]

    def _switch(self, name: str) -> str:
        now = (time.perf_counter(), time.process_time())
        if self.part:
            stage = self.stage(self._running)
            stage.wall_seconds += now[0] - self._since[0]
            stage.cpu_seconds += now[1] - self._since[1]
        before, self._running, self._since = self._running, name, now
        return before

    @contextmanager
    def during(self, part: str) -> Iterator[None]:
        """Everything inside belongs to this part."""
        self._switch(REST)
        self.part = part
        self.stage(REST).calls += 1
        try:
            yield
        finally:
            self._switch(REST)
            self.part = ""

    def wrap(self, name: str, function: Callable[..., Any], size: _Size) -> Callable[..., Any]:
        """The function, timed as a stage."""

        def timed(*args: object, **options: object) -> object:
            before, result = self._switch(name), None
            try:
                result = function(*args, **options)
            finally:
                self._switch(before)
                if self.part:
                    stage = self.stage(name)
                    stage.calls += 1
                    stage.read_bytes += size(args, result)
            return result

        return timed

    def read_bytes(self, part: str) -> int:
        """Bytes of log that a part walked over, each pass counted."""
        return sum(stage.read_bytes for stage in self.stages.values() if stage.part == part)


_Arguments = tuple[Any, ...]
_Size = Callable[[_Arguments, Any], int]


def _nothing(_args: _Arguments, _result: object) -> int:
    return 0


def _of_mapped(args: _Arguments, reached: tuple[int, int]) -> int:
    return int(args[1]["size"][args[2][0] : reached[0]].sum())


def _of_mapped_backwards(args: _Arguments, reached: tuple[int, int]) -> int:
    return int(args[1]["size"][reached[0] : args[2][1]].sum())


def _of_batches(at: int) -> _Size:
    return lambda args, _: int(args[at]["size"].sum())


def _of_matched(args: _Arguments, _result: object) -> int:
    return 2 * int(args[1]["size"].sum())


def _of_both(args: _Arguments, _result: object) -> int:
    return _of_side(args, None) + int(args[1].batches["size"].sum())


def _of_side(args: _Arguments, _result: object) -> int:
    return int(args[0].batches["size"].sum())


_STAGES: Final[tuple[tuple[Any, str, str, _Size], ...]] = (
    (survivors, "open_source", "header scan", _nothing),
    (read, "read_batches", "CRC, decode, hash", _of_mapped),
    (rows, "put_window", "map", _nothing),
    (backward, "read_backwards", "CRC, decode, hash, map, rebuild", _of_mapped_backwards),
    (digest, "sum_map", "sums", _nothing),
    (build, "group_facts", "sums", _nothing),
    (build, "unchanged_segment", "indexes", _nothing),
    (survivors, "mark_unmapped", "transactions", _nothing),
    (survivors, "decide_fates", "transactions", _nothing),
    (survivors, "discard_batches", "transactions", _nothing),
    (copying, "copy_batches", "copy", _nothing),
    (chunks, "_write_at", "write", _nothing),
    (os, "fsync", "fsync", _nothing),
    (check_segments, "open_source", "header scan", _nothing),
    (check_segments, "scan_whatever", "header scan", _nothing),
    (check_segments, "open_window", "windows", _nothing),
    (check_segments, "check_indexes", "indexes", _nothing),
    (quick, "open_window", "windows", _nothing),
    (quick_kernels, "check_batches", "CRC, headers, records", _of_batches(1)),
    (quick_kernels, "check_packed", "records", _of_side),
    (thorough, "bad_crcs", "CRC", _of_batches(1)),
    (thorough, "open_window", "windows", _nothing),
    (kernels, "survey", "survey of records", _of_side),
    (thorough_kernels, "match_batches", "equal batches", _of_matched),
    (thorough_kernels, "check_survivors", "equal records", _of_both),
    (thorough_kernels, "weigh_keys", "decode, hash, map", _of_side),
    (live, "fingerprint", "is the plan stale", _nothing),
    (committing, "execute_together", "renames", _nothing),
)
"""Where each stage is called: object, attribute, name, bytes of log that a call walks over."""


@contextmanager
def watched() -> Iterator[Stopwatch]:
    """A stopwatch on all stages. Effects: replaces functions of the engine, and puts them back."""
    watch = Stopwatch()
    kept = [(owner, name, getattr(owner, name)) for owner, name, _, _ in _STAGES]
    for owner, name, stage, size in _STAGES:
        setattr(owner, name, watch.wrap(stage, getattr(owner, name), size))
    try:
        yield watch
    finally:
        for owner, name, function in kept:
            setattr(owner, name, function)
