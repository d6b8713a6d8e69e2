"""``platform``: a sweep of many small logs as Dagster's job `sweep`, compared with ``clean --engine
spark`` on the same logs, both as whole commands.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

import yaml

from benchmarks.compare import Figure
from benchmarks.logs import BenchLog, prepare
from benchmarks.runs import ROOT
from benchmarks.scale import SMALL_SCALE, SMALL_SEGMENTS, many_segments
from benchmarks.sweeps import command_seconds, copies, installed
from benchmarks.table import seconds, table

INSTANCE: Final = ROOT / "pipelines" / "dagster.yaml"

_EVENTS: Final = """
import json
import dagster as dg

with dg.DagsterInstance.get() as instance:
    (run,) = instance.get_runs()
    seconds = {}
    for stats in instance.get_run_step_stats(run.run_id):
        seconds[stats.step_key] = stats.end_time - stats.start_time
    events = len(instance.all_logs(run.run_id))
    print(json.dumps({"status": run.status.value, "events": events, "steps": seconds}))
    instance.delete_run(run.run_id)
"""
"""Reads the one run of an instance, then deletes it."""


def platform_rows(
    *, logs: int, rounds: int, instance: Path, work: Path, say: Callable[[str], None]
) -> str:
    """The table. Effects: writes logs and copies below `work`.

    Args:
        logs: how many logs of 200 KB in 13 segments, all of them dirty.
        rounds: how often each is measured, in turn.
        instance: the ``dagster.yaml`` of the instance that stores the events.
    """
    small = prepare("u100", scale=SMALL_SCALE, work=work)
    log = replace(small, directory=many_segments(small, work / "small", SMALL_SEGMENTS))
    spark: list[float] = []
    rounds_taken: list[dict[str, float]] = []
    with installed(work) as environment:
        for number in range(rounds):
            target = work / "small-spark"
            spark.append(command_seconds(log, target, environment, logs=logs, engine="spark"))
            rounds_taken.append(_job(log, work, environment, logs=logs, instance=instance))
            shown = ", ".join(f"{name} {value:.1f}" for name, value in rounds_taken[-1].items())
            say(f"platform {number + 1}/{rounds}: clean {spark[-1]:.1f}; sweep: {shown}")
    by_spark = Figure.of(spark)
    rows = [[f"clean --engine spark of {logs} logs: wall s", seconds(by_spark), ""]]
    for name in rounds_taken[0]:
        figure = Figure.of([each[name] for each in rounds_taken])
        ratio = f"**{figure.median / by_spark.median:.2f}**" if name == "wall s" else ""
        rows.append([f"job sweep: {name}", seconds(figure), ratio])
    return table(("what", "figure", "times clean"), rows)


def _job(
    log: BenchLog, work: Path, environment: Mapping[str, str], *, logs: int, instance: Path
) -> dict[str, float]:
    """Figures of one run of the job in a process of its own; its start counts."""
    target, home = work / "small-dagster", work / "dagster-home"
    copies(log, target, logs)
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir()
    shutil.copyfile(instance, home / "dagster.yaml")
    policies = home / "policies"
    policies.mkdir()
    settings = {"version": 1, "high_watermark": "end", "defaults": dict(log.settings)}
    (policies / "bench.yml").write_text(yaml.safe_dump(settings))
    full = {
        **environment,
        "DAGSTER_HOME": str(home),
        "LOGWRIGHT_LOG_DIRS": str(target),
        "LOGWRIGHT_POLICIES": str(policies),
        "LOGWRIGHT_NOW_MS": str(log.now_ms),
    }
    command = Path(sys.executable).with_name("dagster")
    words = [command, "job", "execute", "-m", "logwright.pipelines.definitions", "-j", "sweep"]
    start = time.perf_counter()
    process = subprocess.Popen(
        [str(word) for word in words],
        cwd=ROOT,
        env=full,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, _, used = os.wait4(process.pid, 0)
    wall = time.perf_counter() - start
    read = subprocess.run(
        [sys.executable, "-c", _EVENTS], env=full, check=True, capture_output=True, text=True
    )
    line = json.loads(read.stdout.splitlines()[-1])
    if line["status"] != "SUCCESS":
        raise RuntimeError(f"the run ended with {line['status']}")
    shutil.rmtree(target)
    steps = {f"step {name}: wall s": value for name, value in line["steps"].items()}
    memory = used.ru_maxrss / 1024
    return {"wall s": wall, "events": line["events"], "resident MiB": memory, **steps}
