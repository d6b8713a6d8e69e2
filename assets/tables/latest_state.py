"""The assets `latest_state/<topic>`: the latest state of a topic as a table, for each topic whose
policy has ``table:`` (docs/adr/0027).

They are made from the policies when the code location is loaded; what a table is like is read again
in each run. A table is updated after each change of a log, since a run without new records changes
nothing; what a running broker changes is noticed by `logwright.pipelines.tables.running`.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from typing import Any, Final

import dagster as dg

from logwright.assets.ingest import INGESTED
from logwright.assets.lib.automation import after_changes
from logwright.assets.lib.boundary import boundary, dagster_failure
from logwright.assets.lib.partitions import SEGMENT_SET
from logwright.assets.tables.checks import DECODED, HELD, decoded_result, held_result
from logwright.assets.tables.contract import CONTRACT, contract_result
from logwright.assets.tables.report import preview, update_metadata
from logwright.assets.tables.topic_logs import LATEST_STATE, table_key, table_of, topic_logs
from logwright.config.policies import Policies
from logwright.config.table import TopicTable
from logwright.errors import LogwrightError
from logwright.resources.clock import Clock
from logwright.resources.log_dirs import LogDirs
from logwright.resources.policies import PolicyDirectory
from logwright.tables.topic import LocatedTable, TopicUpdate, table_errors, update_topic

_TAG: Final = re.compile(r"[A-Za-z0-9_.-]{1,63}")
"""Tags of a topic's entry that Dagster accepts as one."""
POOL: Final = "latest_state"
"""Its limit is how many tables are updated at once."""

_CHECKS: Final = {
    HELD: "No row is at or above the offset up to which the table holds its partition, and that is"
    " not above the log's last stable offset.",
    DECODED: "Not all records were refused. Those that cannot be decoded are in the quarantine"
    " table, and their keys have no row.",
    CONTRACT: "The value contracts of the topic's entry, on the rows. A rule of a column that the"
    " table does not have is not looked at, and has not passed.",
}


def latest_state_assets(
    tables: Mapping[str, TopicTable], policies: Policies
) -> list[dg.AssetsDefinition]:
    """Return one asset for each topic with a table."""
    return [latest_state(topic, table, policies) for topic, table in tables.items()]


def owner_of(owner: str) -> str:
    """Return the `owner` of a topic's entry as Dagster's: an e-mail address, or a team."""
    return owner if "@" in owner or owner.startswith("team:") else f"team:{owner}"


def freshness_of(table: TopicTable) -> dg.FreshnessPolicy | None:
    """Return the freshness policy of a table."""
    if table.fresh_within_ms is None:
        return None
    return dg.FreshnessPolicy.time_window(fail_window=timedelta(milliseconds=table.fresh_within_ms))


def latest_state(topic: str, table: TopicTable, policies: Policies) -> dg.AssetsDefinition:
    """Return the asset of a topic's table."""
    key = table_key(topic)
    labels = policies.labels_for(topic)

    @dg.multi_asset(
        name=key.to_python_identifier(),
        specs=[
            dg.AssetSpec(
                key,
                deps=[SEGMENT_SET, INGESTED],
                group_name=LATEST_STATE,
                kinds={"kafka", table.format},
                automation_condition=after_changes(),
                freshness_policy=freshness_of(table),
                description=f"The latest state of topic {topic} as a table: one row for each key,"
                " without tombstones.",
                owners=[owner_of(labels.owner)] if labels.owner else [],
                tags={tag: "" for tag in labels.tags if _TAG.fullmatch(tag)},
            )
        ],
        pool=POOL,
        check_specs=[
            dg.AssetCheckSpec(name, asset=key, description=description)
            for name, description in _CHECKS.items()
        ],
        can_subset=True,  # a check that looked at nothing has no result
    )
    def made(
        context: dg.AssetExecutionContext,
        log_dirs: LogDirs,
        policies: PolicyDirectory,
        clock: Clock,
    ) -> Iterator[dg.MaterializeResult[None] | dg.AssetCheckResult]:
        done = _updated(context, topic, (log_dirs, policies, clock))
        if key in context.selected_asset_keys:
            yield done
        else:
            yield from done.check_results or ()

    return made


def _updated(
    context: dg.AssetExecutionContext,
    topic: str,
    resources: tuple[LogDirs, PolicyDirectory, Clock],
) -> dg.MaterializeResult[None]:
    """Update a topic's table, and check it. Effects: see `update_topic`.

    Raises:
        Failure, RetryRequested: the table, or one of the topic's logs. What was done for the others
            stays.
    """
    log_dirs, policies, clock = resources
    with boundary(f"{LATEST_STATE}/{topic}"):
        place, loaded = table_of(policies, topic)
        settings = policies.settings()
        with topic_logs(topic, place.table, log_dirs, settings) as readable:
            now_ms = clock.now_ms()
            update = update_topic(place, readable.logs, now_ms=now_ms)
            logs = {one.partition: one for one in readable.logs}
            failures: dict[str, LogwrightError] = dict(readable.failures)
            failures |= {
                logs[number].log.partition.directory_name: error
                for number, error in update.result.failures.items()
            }
            with table_errors(place):
                metadata = update_metadata(place, update, logs, now_ms=now_ms)
                metadata |= _preview(place, update)
                checks = list(_results(place, update, loaded, readable.logs))
    if failures:
        context.log.info("updated but for %s: %s", ", ".join(failures), figures(metadata))
        raise dagster_failure(
            failures,
            logs=len(failures) + len(update.result.partitions),
            retry_number=context.op_execution_context.retry_number,
        )
    return dg.MaterializeResult(asset_key=table_key(topic), metadata=metadata, check_results=checks)


def figures(metadata: Mapping[str, Any]) -> str:
    """Return the figures of an update as one line."""
    shown = {name: value for name, value in metadata.items() if isinstance(value, (int, float))}
    return ", ".join(f"{name} {value}" for name, value in shown.items())


def _preview(place: LocatedTable, update: TopicUpdate) -> dict[str, Any]:
    snapshot = update.result.snapshot
    if not place.table.preview or snapshot is None:
        return {}
    return {"preview": preview(update.store, snapshot, update.columns.stored)}


def _results(
    place: LocatedTable, update: TopicUpdate, policies: Policies, logs: Iterable[Any]
) -> Iterator[dg.AssetCheckResult]:
    """Yield the results of the checks that have looked at something. Effects: reads the table."""
    snapshot = update.result.snapshot
    if snapshot is not None:
        store = update.store
        yield held_result(store, snapshot, {one.partition: one.log for one in logs})
        decoded = decoded_result(update)
        if decoded is not None:
            yield decoded
        contract = contract_result(store, snapshot, update.columns, policies, place.topic)
        if contract is not None:
            yield contract
