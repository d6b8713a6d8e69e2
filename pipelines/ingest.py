"""The ingest job, and the sensor of the landing directories."""

import hashlib
from pathlib import Path
from typing import Final

import dagster as dg

from logwright.assets.ingest import INGESTED, log_dir_of
from logwright.ingest.ledger import waiting_files
from logwright.pipelines.lib.runs import runs_in_flight
from logwright.pipelines.lib.skipped import RETRY_AFTER_MS
from logwright.resources.clock import Clock
from logwright.resources.log_dirs import LogDirs
from logwright.resources.policies import PolicyDirectory

INGEST: Final = "ingest"
LANDING_SECONDS: Final = 60

ingest = dg.define_asset_job(
    INGEST,
    selection=dg.AssetSelection.assets(INGESTED),
    executor_def=dg.in_process_executor,
    description="Append new files of the landing directories to their topics.",
)


@dg.sensor(
    job=ingest,
    description="Requests an ingest when a landing directory of the policies has new files.",
    minimum_interval_seconds=LANDING_SECONDS,
    default_status=dg.DefaultSensorStatus.STOPPED,
)
def landing(
    context: dg.SensorEvaluationContext,
    log_dirs: LogDirs,
    policies: PolicyDirectory,
    clock: Clock,
) -> dg.SensorResult:
    """Request a run if there are new files or an interrupted run; for the same files again only
    after a while. Effects: lists the landing directories, without reading files.
    """
    if runs_in_flight(context.instance, INGEST):
        return dg.SensorResult(skip_reason="An ingest is running.")
    sources = policies.load().ingest.sources
    directories = log_dirs.named() if sources else {}
    waiting = {
        source.topic: waiting_files(
            log_dir_of(source, directories), source.topic, Path(source.path)
        )
        for source in sources
    }
    files = [f"{topic}\0{path}" for topic, paths in waiting.items() for path in paths]
    if not files:
        return dg.SensorResult(skip_reason=f"{len(sources)} landing directories, no new files.")
    now_ms = clock.now_ms()
    digest = hashlib.sha256("\n".join(files).encode()).hexdigest()[:16]
    requested, _, asked_ms = (context.cursor or "::0").rpartition(":")
    if requested == digest and now_ms < int(asked_ms) + RETRY_AFTER_MS:
        return dg.SensorResult(skip_reason=f"A run was requested; {len(files)} files are waiting.")
    key = f"{digest}:{now_ms}"
    request = dg.RunRequest(run_key=key, tags={"logwright/files": str(len(files))})
    return dg.SensorResult(run_requests=[request], cursor=key)
