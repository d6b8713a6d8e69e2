"""``ticks``: what a tick of each sensor and the fleet's inventory take for a fleet of small logs,
first in a process and again, when nothing has changed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import dagster as dg
import yaml

from benchmarks.compare import Figure
from benchmarks.logs import BenchLog, prepare, read
from benchmarks.runs import ROOT
from benchmarks.scale import SMALL_SCALE, many_segments
from benchmarks.sweeps import copies
from benchmarks.table import seconds, table

SEGMENTS: Final = 3
TICKS_TO_READ_ALL: Final = 6
"""A tick plans at most 2,000 changed logs."""


def tick_rows(*, logs: int, rounds: int, work: Path, say: Callable[[str], None]) -> str:
    """The table. Effects: writes logs below `work`."""
    small = prepare("u100", scale=SMALL_SCALE, work=work)
    segments_log = many_segments(small, work / "tick-log", SEGMENTS)
    copies(replace(small, directory=segments_log), work / "tick-fleet", logs)
    ticks: list[dict[str, float]] = []
    for number in range(rounds):
        words = [sys.executable, "-m", "benchmarks.ticks", small.directory, work / "tick-fleet"]
        done = subprocess.run(
            [str(word) for word in words], cwd=ROOT, check=True, capture_output=True, text=True
        )
        ticks.append(json.loads(done.stdout.splitlines()[-1]))
        say(f"ticks {number + 1}/{rounds}: {ticks[-1]}")
    names = list(ticks[0])
    figures = [Figure.of([each[name] for each in ticks]) for name in names]
    rows = [[name, seconds(figure)] for name, figure in zip(names, figures, strict=True)]
    return table((f"{logs} logs of {SEGMENTS} segments", "wall s"), rows)


def _measure(log: BenchLog, log_dir: Path) -> dict[str, float]:
    """Figures of one process, with an instance of its own."""
    from logwright.pipelines.definitions import defs  # noqa: PLC0415 - takes seconds
    from logwright.resources.catalogue import platform_resources  # noqa: PLC0415 - as above

    times: dict[str, float] = {}
    with TemporaryDirectory(prefix="logwright-ticks-") as home:
        policies = Path(home) / "policies"
        policies.mkdir()
        # Nothing is due: the ticks look at all logs, and request no run.
        settings = dict(log.settings) | {"min.cleanable.dirty.ratio": 1.0}
        policy = {"version": 1, "high_watermark": "end", "defaults": settings}
        (policies / "bench.yml").write_text(yaml.safe_dump(policy))
        os.environ |= {
            "LOGWRIGHT_LOG_DIRS": str(log_dir),
            "LOGWRIGHT_POLICIES": str(policies),
            "LOGWRIGHT_NOW_MS": str(log.now_ms),
        }
        with dg.DagsterInstance.local_temp(home) as instance:
            repository = defs.get_repository_def()
            cursors: dict[str, str | None] = {}
            for tick in ("first", *["more"] * (TICKS_TO_READ_ALL - 1), "warm"):
                for name in ("discovery", "due_logs", "purge_due", "pauses"):
                    start = time.perf_counter()
                    with dg.build_sensor_context(
                        instance=instance,
                        cursor=cursors.get(name),
                        resources=platform_resources(),
                    ) as context:
                        data = repository.get_sensor_def(name).evaluate_tick(context)
                    for request in data.dynamic_partitions_requests or ():
                        instance.add_dynamic_partitions(
                            request.partitions_def_name, request.partition_keys
                        )
                    cursors[name] = data.cursor
                    if tick != "more":
                        times[f"{name}, {tick} tick"] = time.perf_counter() - start
            start = time.perf_counter()
            defs.resolve_implicit_global_asset_job_def().execute_in_process(
                instance=instance,
                asset_selection=[dg.AssetKey(["kafka_logs", "fleet_inventory"])],
                run_config={"loggers": {"console": {"config": {"log_level": "ERROR"}}}},
            )
            times["fleet_inventory"] = time.perf_counter() - start
    return times


if __name__ == "__main__":
    print(json.dumps(_measure(read(Path(sys.argv[1])), Path(sys.argv[2]))))
