"""The sensor that keeps the tables of running topics up to date, and its job.

A broker records the high watermarks of its logs every 5 s. A tick compares them, the log start
offsets and the directories with those of the last request: it reads two small files of each log
directory, and no log. The run that it requests reads up to what is committed, and waits for it.
"""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, Final

import dagster as dg

from logwright.assets.tables.checks import DECODED, HELD
from logwright.assets.tables.contract import CONTRACT
from logwright.assets.tables.topic_logs import LATEST_STATE, table_key, topic_of
from logwright.config.table import TopicTable, tables_of
from logwright.errors import LogwrightError
from logwright.format import names
from logwright.format.checkpoints import find_offset
from logwright.log.checkpoints import checkpoint_contents
from logwright.pipelines.lib.runs import RUNS_IN_FLIGHT
from logwright.pipelines.lib.skipped import RETRY_AFTER_MS, shortened, skip_message
from logwright.place.bucket import manifest_of
from logwright.place.model import Place, is_local
from logwright.resources.clock import Clock
from logwright.resources.log_dirs import Listing, LogDirs
from logwright.resources.policies import PolicyDirectory
from logwright.running.broker import broker_process
from logwright.units import INT64_MAX

TICK_SECONDS: Final = 60
IDLE_MS: Final = 24 * 60 * 60 * 1000
"""A table of which nothing is new is updated so often: old rows leave its files then. With
`fresh_within_ms`, twice as often as that."""
TOPIC_TAG: Final = "logwright/table"
"""Tag of a run: the topic whose table it updates."""

_RECORDED: Final = (names.HIGH_WATERMARK_CHECKPOINT, names.LOG_START_OFFSET_CHECKPOINT)
_FAILED: Final = (dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED)

Cursor = dict[str, tuple[str, int]]
"""Topic → (what was seen of its logs when an update was requested, when that was)."""


def tables_job(topics: Sequence[str]) -> Any:  # noqa: ANN401 - Dagster does not export its type
    """Return the job that updates tables, with the checks that are part of an update."""
    keys = [table_key(topic) for topic in topics]
    checks = [dg.AssetCheckKey(key, name) for key in keys for name in (HELD, DECODED, CONTRACT)]
    return dg.define_asset_job(
        LATEST_STATE,
        selection=dg.AssetSelection.assets(*keys).without_checks()
        | dg.AssetSelection.checks(*checks),
        description="Update the tables of topics from what is new in their logs.",
        executor_def=dg.in_process_executor,
    )


def running_tables_sensor(job: Any) -> dg.SensorDefinition:  # noqa: ANN401 - as above
    """Return the sensor. `job`: of `tables_job`."""

    @dg.sensor(
        job=job,
        description="Requests an update of the table of each topic of which a running broker has"
        " recorded something new, by its files alone, or that has a new version in a bucket.",
        minimum_interval_seconds=TICK_SECONDS,
        default_status=dg.DefaultSensorStatus.STOPPED,
    )
    def running_tables(
        context: dg.SensorEvaluationContext,
        log_dirs: LogDirs,
        policies: PolicyDirectory,
        clock: Clock,
    ) -> dg.SensorResult:
        return _tick(context, log_dirs.listing(), tables_of(policies.load()), clock.now_ms())

    return running_tables


def _tick(
    context: dg.SensorEvaluationContext,
    listing: Listing,
    tables: Mapping[str, TopicTable],
    now_ms: int,
) -> dg.SensorResult:
    before = _load(context.cursor)
    kept: Cursor = {}
    requests: list[dg.RunRequest] = []
    skipped: dict[str, str] = {}
    for topic, table in tables.items():
        why, seen = "", ""
        try:
            seen = _seen(topic, table, listing)
        except (LogwrightError, OSError) as error:
            why = f"refused: {shortened(str(error))}"
        if not why:
            idle_ms = min(IDLE_MS, (table.fresh_within_ms or INT64_MAX) // 2)
            known, requested_ms = before.get(topic, ("", 0))
            age_ms = now_ms - requested_ms
            due = seen != known or age_ms >= idle_ms
            why = _why_not(context.instance, topic, seen, age_ms, due=due)
        if why:
            skipped[topic] = why
            kept |= {topic: before[topic]} if topic in before else {}
        else:
            kept[topic] = (seen, now_ms)
            requests.append(_request(topic, now_ms))
    return dg.SensorResult(
        run_requests=requests,
        skip_reason=None if requests else listing.sentence(_message(skipped)),
        cursor=json.dumps(kept),
    )


def _message(skipped: Mapping[str, str]) -> str:
    return skip_message(skipped) if skipped else "No topic has a table."


def _seen(topic: str, table: TopicTable, listing: Listing) -> str:
    """Identify what brokers have recorded of a topic's logs, and the versions of those in buckets;
    empty if no broker has them open and none is in a bucket. Effects: asks for the brokers' locks,
    reads checkpoints and manifests.

    Raises:
        LogwrightError, OSError: a log directory cannot be read.
    """
    contents: dict[Place, Mapping[str, bytes]] = {}
    facts: list[object] = []
    for log in topic_of(topic, table.log_dir, listing):
        if not is_local(log.log_dir):
            manifest = manifest_of(log.log_dir, log.partition)
            facts.append((log.long_key, None if manifest is None else manifest.version))
            continue
        if log.log_dir not in contents:
            runs = broker_process(log.log_dir) is not None
            contents[log.log_dir] = checkpoint_contents(log.log_dir) if runs else {}
        recorded = contents[log.log_dir]
        if recorded:
            offsets = [find_offset(recorded.get(name, b""), log.partition) for name in _RECORDED]
            inode = os.lstat(log.log_dir / log.partition.directory_name).st_ino
            facts.append((log.long_key, inode, offsets))
    content = repr(facts).encode()
    return hashlib.blake2b(content, digest_size=8).hexdigest() if facts else ""


def _why_not(instance: dg.DagsterInstance, topic: str, seen: str, age_ms: int, *, due: bool) -> str:
    """Return why no update is requested; empty if one is. Effects: reads the topic's last run.

    Args:
        seen: of its logs.
        age_ms: of the last request.
        due: something is new, or nothing for long.
    """
    if not seen:
        return "no broker has its logs open"
    runs = instance.get_runs(dg.RunsFilter(tags={TOPIC_TAG: topic}), limit=1)
    status = runs[0].status if runs else None
    if status in RUNS_IN_FLIGHT:
        return "an update is in progress"
    if due or (status in _FAILED and age_ms >= RETRY_AFTER_MS):
        return ""
    return "nothing is new since the last request"


def _request(topic: str, now_ms: int) -> dg.RunRequest:
    key = table_key(topic)
    return dg.RunRequest(
        run_key=f"{topic}:{now_ms}",
        asset_selection=[key],
        asset_check_keys=[dg.AssetCheckKey(key, name) for name in (HELD, DECODED, CONTRACT)],
        tags={TOPIC_TAG: topic},
    )


def _load(cursor: str | None) -> Cursor:
    """Return a cursor; an empty one if it has another form."""
    try:
        known = json.loads(cursor or "{}")
        return {str(topic): (str(seen), int(at_ms)) for topic, (seen, at_ms) in known.items()}
    except (ValueError, TypeError, AttributeError):
        return {}
