"""``startup``: how long commands take that have next to nothing to do."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks.logs import fresh_copy, prepare
from benchmarks.table import table

_SCALE: Final = 0.0002
"""Of the log `u100`: 200 KB."""
_COMMAND: Final = ("-c", "from logwright.cli.main import main; main()")
_CLEAN: Final = ("--force", "--yes", "--config", "cleanup.policy=compact")


def startup(*, rounds: int, work: Path) -> str:
    """A table of medians over the rounds. Effects: works below `work`."""
    log = prepare("u100", scale=_SCALE, work=work)
    copy = work / "copy"
    kept, fresh = work / "kernels", work / "no-kernels"
    seconds: dict[str, list[float]] = {}
    for number in range(rounds + 1):
        times = {"python -c 'import numba'": _wall(("-c", "import numba"), kept)}
        for name, words in {
            "logwright --help": ("--help",),
            "logwright plan": ("plan", fresh_copy(log, copy)),
            "logwright clean": ("clean", copy, *_CLEAN),
        }.items():
            times[name] = _wall((*_COMMAND, *words), kept)
        shutil.rmtree(fresh, ignore_errors=True)
        words = ("clean", fresh_copy(log, copy), *_CLEAN)
        times["logwright clean, the first on a machine"] = _wall((*_COMMAND, *words), fresh)
        if number:  # the first round fills the caches
            for name, time_taken in times.items():
                seconds.setdefault(name, []).append(time_taken)
    shutil.rmtree(copy)
    medians = {name: statistics.median(each) for name, each in seconds.items()}
    numba = next(iter(medians.values()))
    return table(
        ("", "wall s", "of `import numba`"),
        [(name, f"{each:.2f}", f"{each / numba:.1f}") for name, each in medians.items()],
    )


def _wall(words: Sequence[str | Path], kernels: Path) -> float:
    """Seconds of a process of Python. Effects: its own; kernels are kept in `kernels`."""
    started = time.perf_counter()
    subprocess.run(
        [sys.executable, *map(str, words)],
        env=os.environ | {"NUMBA_CACHE_DIR": str(kernels)},
        stdout=subprocess.DEVNULL,
        check=True,
    )
    return time.perf_counter() - started
