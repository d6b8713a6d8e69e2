"""The readers that are tried, by name, and the process in which they read."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Event
from pathlib import Path

from logwright.errors import LogwrightError
from tests.live import plain
from tests.live.rows import LEVELS, Isolation, Reading, Refusal

Reader = Callable[[Path, str, Isolation], Reading]
"""Reads a partition's log by its directory name. Raises LogwrightError to refuse."""

READERS: dict[str, Reader] = {"plain": plain.read}
PAUSE_SECONDS = 0.3
"""Longest pause between two readings of a process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What a process reads: random logs of a directory by random readers."""

    log_dir: Path
    names: Sequence[str]
    logs: Sequence[str]
    seed: int


def read_on(work: Work, out: Queue[Reading | Refusal], stop: Event) -> None:
    """Read until `stop` is set. Effects: reads, fills `out`."""
    draw = random.Random(work.seed)
    while not stop.is_set():
        name, log, level = draw.choice(work.names), draw.choice(work.logs), draw.choice(LEVELS)
        out.put(attempt(name, work.log_dir, log, level))
        time.sleep(draw.uniform(0, PAUSE_SECONDS))


def attempt(name: str, log_dir: Path, log: str, isolation: Isolation) -> Reading | Refusal:
    """One reading, or what was refused. Effects: reads the log."""
    try:
        return READERS[name](log_dir, log, isolation)
    except Exception as error:  # noqa: BLE001 -- whatever it is, it is counted
        named = isinstance(error, LogwrightError)
        return Refusal(reader=name, log=log, cause=cause_of(error), is_named=named)


def cause_of(error: Exception) -> str:
    """The class of an error and its first sentence, without its numbers and paths."""
    first = str(error).partition("\n")[0]
    return (
        f"{type(error).__name__}: {re.sub(r'[0-9]+', 'N', re.sub(r'/[^ :]*', 'PATH', first))[:120]}"
    )
