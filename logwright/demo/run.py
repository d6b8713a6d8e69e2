"""`logwright demo`: unpack a log directory, sweep it, show the changes, serve the web UI."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.progress import Progress

from logwright.demo.home import DemoHome, opened, prepare
from logwright.demo.pages import check_port, serve
from logwright.demo.sensors import RUNNING_BY_DEFAULT, SENSORS
from logwright.demo.survey import Account, causes, comparison, survey
from logwright.errors import StepFailed

WORK: Final = "logwright.pipelines.demo"
SWEEP_SECONDS: Final = 1800
"""Timeout of the runs; they take less than a minute on two cores."""
SHOWN_LOG_BYTES: Final = 3000
STEP: Final = re.compile(r' STEP_(START|SUCCESS) - .*step "(\S+)"')
"""Dagster's log lines for the start and success of a step."""


def run_demo(*, home: Path, ui: bool, port: int, bucket: str | None = None) -> int:
    """Run the demo from unpacking to the tables; with `ui`, then serve Dagster's web UI.

    Effects: writes below `home`, and the logs of one topic into the bucket, if one is given; starts
    processes; writes to stdout.

    Args:
        bucket: URL of a log directory in a bucket.

    Returns:
        exit status, 0.

    Raises:
        LogwrightError: the demo cannot run; the message has the remedy.
    """
    console = Console(highlight=False)
    with opened(home, bucket) as demo:
        if ui:
            check_port(port)
        with _kernels_compiled_meanwhile(demo):
            _unpack(console, demo)
            before = survey(demo.log_dir)
            started = time.monotonic()
            _sweep(console, demo)
        report = json.loads(demo.report.read_text())
        accounts = {name: Account(**row) for name, row in report["logs"].items()}
        console.print(comparison(before, survey(demo.log_dir), accounts))
        console.print(causes(accounts))
        _conclude(console, demo, report, seconds=time.monotonic() - started)
        if ui:
            console.print("Starting Dagster's web UI (half a minute)")
            serve(demo, port=port, ready=lambda address: _invite(console, demo, address))
            console.print("Stopped.")
    return 0


@contextmanager
def _kernels_compiled_meanwhile(demo: DemoHome) -> Iterator[None]:
    """Load the kernels in a process of its own: where they were never compiled, they are when
    Spark's workers look for them. Effects: a process; the cache of the kernels.
    """
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "logwright.spark.warmup"],
        env=dict(demo.environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            yield
        finally:
            process.kill()


def _unpack(console: Console, demo: DemoHome) -> None:
    with Progress(console=console, transient=True) as bar:
        task = bar.add_task("Unpacking a log directory written by Kafka", total=None)
        prepare(demo, lambda done, total: bar.update(task, completed=done, total=total))
    console.print(f"A Kafka log directory: {demo.log_dir}", soft_wrap=True)


def _sweep(console: Console, demo: DemoHome) -> None:
    """Run the jobs `sweep` and `retention` over all logs, then the inventory and the table, in a
    child process; print one line per step.

    Effects: compacts and retains the logs, writes to stdout.

    Raises:
        StepFailed: a run failed.
    """
    log_path = demo.root / "sweep.log"
    command = [sys.executable, "-m", WORK, str(demo.report)]
    console.print("Running the jobs sweep and retention, then the fleet inventory and a table:")
    with (
        console.status("starting Dagster") as status,
        log_path.open("w") as log,
        subprocess.Popen(
            command,
            cwd=demo.root,
            env=dict(demo.environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        ) as process,
    ):
        limit = threading.Timer(SWEEP_SECONDS, process.kill)
        limit.start()
        try:
            started: dict[str, float] = {}
            ended: set[str] = set()
            for line in process.stdout or ():
                log.write(line)
                matched = STEP.search(line)
                if matched and matched[1] == "START":
                    started[matched[2]] = time.monotonic()
                    status.update(matched[2])
                elif matched and matched[2] in started:
                    ended.add(matched[2])
                    _say_step(console, matched[2], time.monotonic() - started[matched[2]])
        except BaseException:
            process.kill()
            raise
        finally:
            limit.cancel()
    if process.returncode != 0:
        raise StepFailed(f"The run failed. {_reason(log_path)}", path=log_path)
    for step, seconds in json.loads(demo.report.read_text())["steps"].items():
        if step not in ended:  # Dagster may lose the last log lines of a step
            _say_step(console, step, seconds)


def _say_step(console: Console, step: str, seconds: float) -> None:
    console.print(f"  {step:<28}{seconds:5.1f} s")


def _reason(log_path: Path) -> str:
    """Return the first line in which Dagster reports a failure, else the end of its output."""
    text = log_path.read_text(errors="replace")
    named = re.search(r"^dagster\S*(?:Failure|Error): (.+)$", text, re.MULTILINE)
    return named[1] if named else f"The end of its output:\n{text[-SHOWN_LOG_BYTES:]}"


def _conclude(console: Console, demo: DemoHome, report: dict[str, Any], *, seconds: float) -> None:
    command = Path(sys.executable).with_name("logwright")
    policies = f"--policies {demo.policies}"
    lines = [
        f"{seconds:.0f} s. The old segments are kept as .deleted files until they are purged.",
        f"Show the logs: {command} inspect {demo.log_dir} {policies}",
        f"What is due:   {command} plan {demo.log_dir} {policies}",
        f"All logs:      {report['page']}",
        *([] if demo.bucket is None else [f"In the bucket: {command} inspect {demo.bucket}"]),
        *(f"Latest state of {topic}: {path}" for topic, path in report["tables"].items()),
        *(f"Spark's tasks: {path}" for path in report["spark_events"]),
    ]
    for line in lines:
        console.print(line, soft_wrap=True)


def _invite(console: Console, demo: DemoHome, address: str) -> None:
    sensors = ", ".join((*RUNNING_BY_DEFAULT, *SENSORS))
    schedules = ", ".join(demo.schedules)
    console.print(f"Running: sensors {sensors}; schedules {schedules}.", soft_wrap=True)
    console.print(f"[bold]{address}/assets/kafka_logs/segment_set[/bold]   Press Ctrl-C to stop.")
