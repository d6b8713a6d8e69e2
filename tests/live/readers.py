"""The readers that are tried, by name, and the process in which they read."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import TYPE_CHECKING

from tests.live import commands, plain
from tests.live.calls import NAMED, Audit, Caller, Dump, fleet
from tests.live.erasing import Certifier, Search
from tests.live.rows import LEVELS, Call, Findings, Isolation, Reading, Refusal, general

if TYPE_CHECKING:
    from multiprocessing.sharedctypes import SynchronizedArray

Reader = Callable[[Path, str, Isolation], Reading | Findings | Call]
"""Reads a partition's log by its directory name. Raises one of REFUSALS to refuse."""
Outcome = Reading | Findings | Call | Refusal

REFUSALS = (*NAMED, commands.Refused)
"""Any other error is a fault."""
PAUSE_SECONDS = 0.3
"""Longest pause between two readings of a process that reads for some time."""
REPLICAS_ONLY = ("audit",)
"""Readers that read a stopped directory only with others."""


def _words(log_dir: Path, log: str) -> Sequence[str | Path]:
    return (log_dir, log, "--output", "json")


def _of_topic(log_dir: Path, log: str) -> Sequence[str | Path]:
    return (log_dir, log.rpartition("-")[0], "--output", "json")


def readers(log_dirs: Sequence[Path], scratch: Path) -> dict[str, Reader]:
    """The readers of these directories, each with its own memory of what it read; what they write
    is below `scratch`.
    """
    certifier = Certifier(log_dirs, scratch)
    return {
        "plain": plain.read,
        "records": commands.records,
        "latest": commands.latest,
        "table": commands.Tables(scratch).read,
        "upload": commands.Uploads(scratch).read,
        "source": commands.Batches().read,
        "stream": commands.Streams().read,
        "dump": Dump().read,
        "inspect": Caller("inspect", lambda *at: (*_words(*at), "--verbose")).call,
        "plan": Caller("plan", _words).call,
        "verify": Caller("verify", _words).call,
        "metrics": Caller("metrics", lambda log_dir, _: (log_dir,)).call,
        "config": Caller("config", _of_topic).call,
        "fleet": fleet,
        "audit": Audit(log_dirs, scratch).call,
        "find": Search(log_dirs, scratch).find,
        "certificate": certifier.certificate,
        "verify-certificate": certifier.verify,
    }


NAMES = tuple(readers((), Path()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What a process reads: random logs of directories, by each reader in turn.

    Attributes:
        scratch: a new directory for what the readers write, outside of these.
        ended: by number of a name, whether it has read enough.
        pause_seconds: the longest between two readings.
    """

    log_dirs: Sequence[Path]
    names: Sequence[str]
    logs: Sequence[str]
    seed: int
    scratch: Path
    ended: SynchronizedArray[int]
    pause_seconds: float


def read_on(work: Work, out: Queue[tuple[Outcome, float]], stop: Event) -> None:
    """Read until `stop` is set. Effects: reads; fills `out`, with the CPU seconds of each."""
    draw = random.Random(work.seed)
    by_name = readers(work.log_dirs, work.scratch)
    while not stop.is_set():
        names = [name for name, ended in zip(work.names, work.ended[:], strict=True) if not ended]
        time.sleep(0 if names else PAUSE_SECONDS)
        for name in draw.sample(names, len(names)):
            log, level = draw.choice(work.logs), draw.choice(LEVELS)
            log_dir = draw.choice(work.log_dirs)
            begun = time.process_time()
            outcome = attempt(by_name, name, log_dir, log, level)
            spent = time.process_time() - begun
            if len(work.log_dirs) > 1:
                outcome = replace(outcome, reader=f"{name}@{log_dir.parent.name}")
            out.put((outcome, spent))
            time.sleep(draw.uniform(0, work.pause_seconds))
            if stop.is_set():
                break


def attempt(
    by_name: Mapping[str, Reader], name: str, log_dir: Path, log: str, isolation: Isolation
) -> Outcome:
    """One reading, or what was refused. Effects: reads the log."""
    try:
        return by_name[name](log_dir, log, isolation)
    except Exception as error:  # noqa: BLE001 -- whatever it is, it is counted
        named = isinstance(error, REFUSALS)
        return Refusal(reader=name, log=log, cause=cause_of(error), is_named=named)


def cause_of(error: Exception) -> str:
    """The class of an error and its first sentence."""
    return f"{type(error).__name__}: {general(str(error))}"
