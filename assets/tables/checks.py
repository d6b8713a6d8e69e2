"""The checks of the assets `latest_state/<topic>`.

Some are cheap and part of each update. Others read the whole topic: to find its state again, and to
count the keys that are in several partitions. They run once a day, or when they are asked for.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import gettempdir
from typing import Any, Final

import dagster as dg

from logwright.assets.lib.boundary import boundary
from logwright.assets.tables.topic_logs import table_key, table_of, topic_logs
from logwright.errors import PointNotHeld
from logwright.log.model import ReadableLog
from logwright.maintenance.scratch import temporary_directory
from logwright.place.model import is_running
from logwright.resources.log_dirs import LogDirs
from logwright.resources.policies import PolicyDirectory
from logwright.tables.compare import (
    Comparison,
    compare,
    compare_topic,
    keys_in_several,
    largest_offsets,
)
from logwright.tables.events import Events
from logwright.tables.files import DirectoryFiles, hidden_in
from logwright.tables.local_files import WORK
from logwright.tables.logs import TopicLog
from logwright.tables.model import Snapshot
from logwright.tables.quarantine import Quarantine
from logwright.tables.store import Store
from logwright.tables.topic import (
    LocatedTable,
    TopicUpdate,
    decoder_of,
    open_store,
    table_errors,
)

HELD: Final = "held_below_last_stable_offset"
DECODED: Final = "records_decoded"
EQUAL: Final = "rows_equal_live_keys"
ONE_PARTITION: Final = "keys_in_one_partition"
DAILY: Final = "0 3 * * *"


def held_result(
    store: Store, snapshot: Snapshot, logs: Mapping[int, ReadableLog]
) -> dg.AssetCheckResult:
    """Check that the table holds nothing that a consumer may not read yet; of a running broker's
    log the files may say less than what was committed when the table was made. Effects: reads the
    footers of the table's files.
    """
    wrong = []
    largest = largest_offsets(store, snapshot)
    for partition, progress in sorted(snapshot.progress.items()):
        log = logs.get(partition)
        known = log is not None and not is_running(log.log_dir)
        if log is not None and known and progress.end_offset > log.last_stable_offset:
            wrong.append(
                f"partition {partition} is held up to {progress.end_offset}, above the last stable"
                f" offset {log.last_stable_offset}"
            )
        if largest.get(partition, -1) >= progress.end_offset:
            wrong.append(
                f"partition {partition} has a row of offset {largest[partition]}, and is held up to"
                f" {progress.end_offset}"
            )
    return dg.AssetCheckResult(
        check_name=HELD,
        passed=not wrong,
        description="; ".join(wrong) or None,
        metadata={"partitions": len(snapshot.progress), "violations": len(wrong)},
    )


def decoded_result(update: TopicUpdate) -> dg.AssetCheckResult | None:
    """Check that not all records were refused: such a table is not the state of its topic. None if
    there is no record: neither read, nor with a row, nor refused before.
    """
    refused = sum(one.refused for one in update.result.partitions)
    read = sum(one.records for one in update.result.partitions)
    snapshot = update.result.snapshot
    if not (read or update.quarantined or (snapshot is not None and snapshot.rows)):
        return None
    wrong = update.only_refused
    return dg.AssetCheckResult(
        check_name=DECODED,
        passed=not wrong,
        description="No record could be decoded." if wrong else None,
        metadata={
            "records read": read,
            "records refused": refused,
            "rows in quarantine": update.quarantined,
        },
    )


def equal_check(topic: str) -> dg.AssetChecksDefinition:
    """Return the check that finds the state of the topic again."""

    @dg.asset_check(
        asset=table_key(topic),
        name=EQUAL,
        description="The rows are the newest committed records of all keys, found again from the"
        " whole log below the offset that the table holds.",
        automation_condition=daily(),
    )
    def rows_equal_live_keys(log_dirs: LogDirs, policies: PolicyDirectory) -> dg.AssetCheckResult:
        with boundary(f"{EQUAL} {topic}"):
            place, _ = table_of(policies, topic)
            settings = policies.settings()
            with (
                topic_logs(topic, place.table, log_dirs, settings) as readable,
                table_errors(place),
            ):
                for error in readable.failures.values():
                    raise error
                return _equal_result(place, readable.logs)

    return rows_equal_live_keys


def one_partition_check(topic: str) -> dg.AssetChecksDefinition:
    """Return the check of a table in which a key may have a row for each of its partitions."""

    @dg.asset_check(
        asset=table_key(topic),
        name=ONE_PARTITION,
        description="No key has records in several partitions, as after their number has grown: the"
        " table has a row for each, of keys that were deleted in another one, too.",
        automation_condition=daily(),
    )
    def keys_in_one_partition(log_dirs: LogDirs, policies: PolicyDirectory) -> dg.AssetCheckResult:
        with boundary(f"{ONE_PARTITION} {topic}"):
            place, _ = table_of(policies, topic)
            settings = policies.settings()
            with (
                topic_logs(topic, place.table, log_dirs, settings) as readable,
                temporary_directory() as work,
            ):
                for error in readable.failures.values():
                    raise error
                return _one_partition_result(readable.logs, work)

    return keys_in_one_partition


def _one_partition_result(logs: Sequence[TopicLog], work: Path) -> dg.AssetCheckResult:
    counts = keys_in_several(logs, work)
    wrong = counts.in_several > 0
    return dg.AssetCheckResult(
        passed=not wrong,
        severity=dg.AssetCheckSeverity.WARN,
        description=f"{counts.in_several} keys have records in several partitions. With 'unique:"
        " topic' in a new table each has one row, of its newest record, or none."
        if wrong
        else None,
        metadata={
            "keys": counts.keys,
            "keys in several partitions": counts.in_several,
            "partitions read": len(logs),
        },
    )


def daily() -> dg.AutomationCondition[Any]:
    """Return the condition of a check that runs once a day."""
    condition = dg.AutomationCondition
    return condition.cron_tick_passed(DAILY) & ~condition.in_progress()


def _equal_result(place: LocatedTable, logs: Sequence[TopicLog]) -> dg.AssetCheckResult:
    store = open_store(place)
    snapshot = store.load()
    if snapshot is None:
        return _not_compared("There is no table yet.")
    absent = sorted(snapshot.progress.keys() - {log.partition for log in logs})
    if absent and place.table.remembers_keys:
        return _not_compared(f"A key may be in partitions that have no log here: {absent}.")
    comparisons, skipped = _compared(place, store, snapshot, logs)
    wrong = [one for one in comparisons if not one.equal]
    problems = [
        f"partition {comparison.partition}: {comparison.live_keys} live keys,"
        f" {comparison.rows} rows and {comparison.refused} in quarantine"
        for comparison in wrong
    ]
    if skipped:
        problems.append(
            f"not compared, since the log was cleaned after the last update: {', '.join(skipped)}"
        )
    if not comparisons:
        return _not_compared("; ".join(problems) or "The topic has no log here.")
    running = any(log.bound is not None for log in logs)
    if wrong and running:
        problems.append("the broker may have cleaned the log since the last update")
    certain = wrong and not running
    return dg.AssetCheckResult(
        passed=not problems,
        severity=dg.AssetCheckSeverity.ERROR if certain else dg.AssetCheckSeverity.WARN,
        description="; ".join(problems) or None,
        metadata={
            "live keys": sum(one.live_keys for one in comparisons),
            "rows": sum(one.rows for one in comparisons),
            "refused": sum(one.refused for one in comparisons),
            "partitions compared": len(comparisons),
            "partitions not compared": len(skipped),
        },
    )


def _compared(
    place: LocatedTable, store: Store, snapshot: Snapshot, logs: Sequence[TopicLog]
) -> tuple[Sequence[Comparison], Sequence[str]]:
    """Return what comparing came to, and the partitions that were cleaned after the last update.
    Effects: reads the logs and the table.
    """
    work = Path(gettempdir()) if place.directory is None else place.directory / WORK
    quarantine = Quarantine(store=open_store(place, quarantine=True), topic=place.topic, work=work)
    events = Events(snapshot, place.base)
    if place.table.remembers_keys:
        try:
            hidden = hidden_in(place.files or DirectoryFiles(place.base))
            decoder = decoder_of(place, snapshot) if place.table.unique_by == "decoded" else None
            compared = compare_topic(
                store, snapshot, quarantine, logs, hidden, events=events, decoder=decoder
            )
        except PointNotHeld:
            return [], [str(log.partition) for log in logs]
        else:
            return compared, []
    comparisons: list[Comparison] = []
    skipped: list[str] = []
    for log in logs:
        try:
            comparison = compare(store, snapshot, quarantine, log, events=events)
        except PointNotHeld:
            skipped.append(str(log.partition))
            continue
        if comparison is not None:
            comparisons.append(comparison)
    return comparisons, skipped


def _not_compared(why: str) -> dg.AssetCheckResult:
    """A check that was asked for needs a result: it has not passed, and nothing is wrong."""
    return dg.AssetCheckResult(
        passed=False,
        severity=dg.AssetCheckSeverity.WARN,
        description=f"Nothing was compared. {why}",
        metadata={"partitions compared": 0},
    )
