"""A durable ledger of failed runs, independent of the retention of Dagster's event log."""

import json
from pathlib import Path
from typing import Any, Final

import dagster as dg

from logwright import durable
from logwright.assets.lib.partitions import LOGS_NAME
from logwright.pipelines.lib.runs import run_logs

LEDGER: Final = "failures.jsonl"
SHOWN_MESSAGE: Final = 2_000
"""Maximum length of a step's error, in characters."""


@dg.run_failure_sensor(
    description="Appends every failed run to logwright/failures.jsonl in the instance's storage.",
    default_status=dg.DefaultSensorStatus.RUNNING,
    monitor_all_code_locations=False,
)
def failed_runs(context: dg.RunFailureSensorContext) -> None:
    """Append a line to the ledger of failures: run, job, logs, failed steps and their errors."""
    instance = context.instance
    known = list(instance.get_dynamic_partitions(LOGS_NAME))
    run = context.dagster_run
    entry = {
        "run": run.run_id,
        "job": run.job_name,
        "logs": run_logs(run, known),
        "message": context.failure_event.message,
        "steps": [_failed_step(event) for event in context.get_step_failure_events()],
    }
    line = json.dumps(entry, ensure_ascii=False) + "\n"
    durable.append(Path(instance.storage_directory()) / "logwright" / LEDGER, line.encode())


def _failed_step(event: dg.DagsterEvent) -> dict[str, Any]:
    data = event.step_failure_data
    error = data.error.cause or data.error if data.error is not None else None
    text = error.message.strip() if error is not None else ""
    return {"step": event.step_key, "error": text[:SHOWN_MESSAGE]}
