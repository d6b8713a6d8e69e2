"""``logwright`` in processes of its own that start quickly: forked from one that has it all."""

from __future__ import annotations

import multiprocessing
import os
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path

from logwright.cli.main import main

READY = [
    "logwright.cli.main",
    "logwright.cli.run.move",
    "logwright.cli.run.clean",
    "logwright.sweep.clean",
]


def context() -> ForkServerContext:
    """Where processes are forked from."""
    forkserver = multiprocessing.get_context("forkserver")
    forkserver.set_forkserver_preload(READY)
    return forkserver


def run(words: list[str]) -> None:
    """What such a process does. Its exit status is the command's."""
    _be_quiet()
    main(words)


def start(*words: str | Path | int) -> ForkServerProcess:
    """A process that runs a command line."""
    process = context().Process(target=run, args=([str(word) for word in words],), daemon=True)
    process.start()
    return process


def clean_each(
    log_dirs: list[Path], words: list[str], barrier: multiprocessing.Barrier, out: Path
) -> None:  # type: ignore[valid-type]
    """Clean one directory after the other, each at the same instant as somebody else."""
    statuses = []
    _be_quiet()
    for log_dir in log_dirs:
        barrier.wait()
        try:
            main(["clean", str(log_dir), *words])
        except SystemExit as end:
            statuses.append(str(end.code or 0))
    out.write_text(" ".join(statuses))


def _be_quiet() -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nothing, stream)
