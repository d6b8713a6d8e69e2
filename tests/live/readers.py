"""The readers that are tried, by name, and the process in which they read."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Event
from pathlib import Path

from logwright.errors import NotALogDir, UncleanLogDir, Unsettled
from tests.live import commands, plain
from tests.live.rows import LEVELS, Call, Findings, Isolation, Reading, Refusal, general

Reader = Callable[[Path, str, Isolation], Reading | Findings | Call]
"""Reads a partition's log by its directory name. Raises one of REFUSALS to refuse."""
Outcome = Reading | Findings | Call | Refusal

READERS: dict[str, Reader] = {
    "plain": plain.read,
    "records": commands.records,
    "latest": commands.latest,
    "table": commands.Tables().read,
    "find": commands.Search().find,
    **{name: commands.Caller(name).call for name in commands.CALLS},
}
REFUSALS = (NotALogDir, UncleanLogDir, Unsettled, commands.Refused)
"""The errors of a log that is being made or deleted, of a broker that was killed, or of a log that
keeps changing; any other is a fault.
"""
PAUSE_SECONDS = 0.3
"""Longest pause between two readings of a process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What a process reads: random logs of directories, by each reader in turn."""

    log_dirs: Sequence[Path]
    names: Sequence[str]
    logs: Sequence[str]
    seed: int


def read_on(work: Work, out: Queue[Outcome], stop: Event) -> None:
    """Read until `stop` is set. Effects: reads, fills `out`."""
    draw = random.Random(work.seed)
    while not stop.is_set():
        for name in draw.sample(work.names, len(work.names)):
            log, level = draw.choice(work.logs), draw.choice(LEVELS)
            log_dir = draw.choice(work.log_dirs)
            outcome = attempt(name, log_dir, log, level)
            if len(work.log_dirs) > 1:
                outcome = replace(outcome, reader=f"{name}@{log_dir.parent.name}")
            out.put(outcome)
            time.sleep(draw.uniform(0, PAUSE_SECONDS))
            if stop.is_set():
                break


def attempt(name: str, log_dir: Path, log: str, isolation: Isolation) -> Outcome:
    """One reading, or what was refused. Effects: reads the log."""
    try:
        return READERS[name](log_dir, log, isolation)
    except Exception as error:  # noqa: BLE001 -- whatever it is, it is counted
        named = isinstance(error, REFUSALS)
        return Refusal(reader=name, log=log, cause=cause_of(error), is_named=named)


def cause_of(error: Exception) -> str:
    """The class of an error and its first sentence."""
    return f"{type(error).__name__}: {general(str(error))}"
