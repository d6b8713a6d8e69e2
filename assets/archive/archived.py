"""The assets `archived/<topic>`: the logs of a topic in a bucket, for each topic whose policy has
``archive:``.

They are made from the policies when the code location is loaded; where a topic is archived is read
again in each run. A run writes what is new, from a stopped directory or from one that a broker has
open (`logwright.upload`), and looks then how far the archive lags.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from math import inf
from typing import TYPE_CHECKING, Any, Final

import dagster as dg

from logwright.assets.ingest import INGESTED
from logwright.assets.lib.boundary import boundary, dagster_failure
from logwright.assets.lib.partitions import SEGMENT_SET
from logwright.assets.lib.report import table
from logwright.assets.tables.latest_state import owner_of
from logwright.assets.tables.topic_logs import topic_of
from logwright.batches.runtime import Throttle
from logwright.config.archive import TopicArchive
from logwright.config.policies import Policies
from logwright.config.resolved import given_configs
from logwright.config.sources import DirectorySettings
from logwright.errors import LogwrightError, PolicyError
from logwright.extras import require
from logwright.format.names import TopicPartition
from logwright.log.load import observe
from logwright.place.model import Place
from logwright.reading import reading
from logwright.resources.clock import Clock
from logwright.resources.log_dirs import Listing, LogDirs, MaintainedLog
from logwright.resources.policies import PolicyDirectory
from logwright.running.place import as_it_runs, look_at
from logwright.times import duration

if TYPE_CHECKING:
    from logwright.bucket.store import Bucket
    from logwright.upload.upload import Uploaded

ARCHIVED: Final = "archived"
CURRENT: Final = "current"
WHOLE: Final = "objects_whole"
WEEKLY: Final = "0 4 * * 0"
POOL: Final = "archived"
"""Its limit is how many topics are archived at once."""
_TAG: Final = re.compile(r"[A-Za-z0-9_.-]{1,63}")
_COLUMNS: Final = (
    *("log", "version", "archived up to", "committed up to", "lag offsets", "lag seconds"),
    *("bytes", "bytes sent", "missing"),
)
_MS: Final = 1000


def archive_key(topic: str) -> dg.AssetKey:
    """Return the key of a topic's archive."""
    return dg.AssetKey([ARCHIVED, topic])


def archived_assets(
    archives: Mapping[str, TopicArchive], policies: Policies
) -> list[dg.AssetsDefinition]:
    """Return one asset for each topic with an archive."""
    return [archived(topic, archive, policies) for topic, archive in archives.items()]


def archived(topic: str, archive: TopicArchive, policies: Policies) -> dg.AssetsDefinition:
    """Return the asset of a topic's archive."""
    key = archive_key(topic)
    labels = policies.labels_for(topic)

    @dg.multi_asset(
        name=key.to_python_identifier(),
        specs=[
            dg.AssetSpec(
                key,
                deps=[SEGMENT_SET, INGESTED],
                group_name=ARCHIVED,
                kinds={"kafka", archive.to.partition("://")[0]},
                description=f"The logs of topic {topic} in a bucket, as they are, at {archive.to}.",
                owners=[owner_of(labels.owner)] if labels.owner else [],
                tags={tag: "" for tag in labels.tags if _TAG.fullmatch(tag)},
            )
        ],
        pool=POOL,
        check_specs=[
            dg.AssetCheckSpec(
                CURRENT,
                asset=key,
                description="The first committed record that is not archived is not older than"
                " `late_after_ms` of the topic's entry, and no archive ends after its log.",
            )
        ],
        can_subset=True,
    )
    def made(
        context: dg.AssetExecutionContext,
        log_dirs: LogDirs,
        policies: PolicyDirectory,
        clock: Clock,
    ) -> Iterator[dg.MaterializeResult[None] | dg.AssetCheckResult]:
        writes = key in context.selected_asset_keys
        done = _done(context, topic, (log_dirs, policies, clock), writes=writes)
        if writes:
            yield done
        else:
            yield from done.check_results or ()

    return made


def _done(
    context: dg.AssetExecutionContext,
    topic: str,
    resources: tuple[LogDirs, PolicyDirectory, Clock],
    *,
    writes: bool,
) -> dg.MaterializeResult[None]:
    """Archive a topic's logs, and look how far the archive lags. Effects: writes to the bucket, if
    that is asked for.

    Raises:
        Failure, RetryRequested: one of the topic's logs. What was done for the others stays.
    """
    log_dirs, policies, clock = resources
    with boundary(f"{ARCHIVED}/{topic}"):
        require("bucket", by="archive")
        archive, settings = archive_of(policies, topic), policies.settings()
        logs = topic_of(topic, archive.log_dir, _here(log_dirs.listing()), entry="archive")
        rows, failures = _of_logs(logs, archive, settings, clock, writes=writes)
    if failures:
        raise dagster_failure(
            failures,
            logs=len(logs),
            retry_number=context.op_execution_context.retry_number,
        )
    return dg.MaterializeResult(
        asset_key=archive_key(topic),
        metadata=_metadata(rows, archive),
        check_results=[current_result(topic, rows, archive)],
    )


def _here(listing: Listing) -> Listing:
    """Return the logs of this machine: those in a bucket are archives themselves."""
    here = {key: log for key, log in listing.logs.items() if not log.in_bucket}
    return Listing(logs=here, unreadable=listing.unreadable)


def archive_of(policies: PolicyDirectory, topic: str) -> TopicArchive:
    """Return where a topic is archived. Effects: reads the policies.

    Raises:
        PolicyError: they are invalid, or the topic has no archive any more.
    """
    archive = policies.load().archives.get(topic)
    if archive is None:
        raise PolicyError(
            f"topic {topic} has no 'archive:' in the policies any more.",
            path=policies.path(),
            remedy="Reload the code location.",
        )
    return archive


Row = dict[str, Any]


def _of_logs(
    logs: Sequence[MaintainedLog],
    archive: TopicArchive,
    settings: DirectorySettings,
    clock: Clock,
    *,
    writes: bool,
) -> tuple[list[Row], dict[str, LogwrightError]]:
    """Return what is known of each log's archive, and which log failed. Effects: as `_done`."""
    rows: list[Row] = []
    failures: dict[str, LogwrightError] = {}
    with ExitStack() as stack:
        places: dict[object, Place] = {}
        for log in logs:
            try:
                if log.log_dir not in places:
                    place = as_it_runs(log.log_dir, exact=True)
                    stack.enter_context(reading(place))
                    places[log.log_dir] = place
                    own = [each for each in logs if each.log_dir == log.log_dir]
                    look_at(place, [each.partition.directory_name for each in own])
                rows.append(_row(log, places[log.log_dir], archive, settings, clock, writes=writes))
            except LogwrightError as error:
                failures[log.key] = error.as_value()
    return rows, failures


def _row(
    log: MaintainedLog,
    place: Place,
    archive: TopicArchive,
    settings: DirectorySettings,
    clock: Clock,
    *,
    writes: bool,
) -> Row:
    """Return what is known of a log's archive. Effects: as `_done`."""
    from logwright.bucket.agreement import agree  # noqa: PLC0415 -- of an extra
    from logwright.bucket.store import Bucket  # noqa: PLC0415 -- as above
    from logwright.upload.lag import lag_of  # noqa: PLC0415 -- as above
    from logwright.upload.upload import Upload  # noqa: PLC0415 -- as above

    bucket, partition = Bucket.of(archive.to), log.partition
    row: Row = dict.fromkeys(_COLUMNS, 0) | {"log": str(partition), "missing": ""}
    if writes:
        configs = given_configs(settings.sources(log.log_dir), partition.topic)
        upload = Upload(
            place=place,
            partition=partition,
            bucket=bucket,
            limits=agree(bucket),
            configs=configs,
            now_ms=clock.now_ms(),
            throttle=Throttle(archive.bytes_per_second or inf),
        )
        row |= _written(upload.run())
    else:
        row |= _version(bucket, partition)
    now = observe(as_it_runs(log.log_dir), partition, high_watermark="end")
    lag = lag_of(now, int(row["archived up to"]))
    row["committed up to"], row["lag offsets"] = lag.end_offset, lag.offsets
    row["lag seconds"] = lag.age_ms(clock.now_ms()) / _MS
    return row


def _written(done: "Uploaded") -> Row:
    """Return what an upload has done."""
    missing = "" if done.missing is None else f"{done.missing[0]} to {done.missing[1]}"
    return {
        "version": done.version,
        "archived up to": done.end_offset,
        "bytes": done.bytes,
        "bytes sent": done.sent_bytes,
        "missing": missing,
    }


def _version(bucket: "Bucket", partition: TopicPartition) -> Row:
    """Return what the newest version of a log has. Effects: reads the bucket."""
    from logwright.bucket.commit import newest  # noqa: PLC0415 -- of an extra
    from logwright.bucket.driver import drive  # noqa: PLC0415 -- as above

    manifest = drive(bucket.below(partition.directory_name), newest())
    if manifest is None:
        return {"version": -1, "archived up to": -1}
    files = manifest.state.files.values()
    return {
        "version": manifest.version,
        "archived up to": manifest.state.log_end_offset,
        "bytes": sum(file.bytes for file, _ in files),
    }


def _metadata(rows: Sequence[Row], archive: TopicArchive) -> dict[str, Any]:
    return {
        "to": dg.MetadataValue.text(archive.to),
        "bytes": sum(row["bytes"] for row in rows),
        "bytes sent": sum(row["bytes sent"] for row in rows),
        "lag offsets": sum(row["lag offsets"] for row in rows),
        "lag seconds": max((row["lag seconds"] for row in rows), default=0.0),
        "partitions": table(_COLUMNS, ([row[name] for name in _COLUMNS] for row in rows)),
    }


def current_result(topic: str, rows: Sequence[Row], archive: TopicArchive) -> dg.AssetCheckResult:
    """Check that what is not archived is young enough, and each log has a version that does not end
    after the log: that would be of another log. Pure.
    """
    late = [
        row["log"]
        for row in rows
        if row["version"] < 0
        or row["archived up to"] > row["committed up to"]
        or row["lag seconds"] * _MS > archive.late_after_ms
    ]
    return dg.AssetCheckResult(
        asset_key=archive_key(topic),
        check_name=CURRENT,
        passed=bool(rows) and not late,
        severity=dg.AssetCheckSeverity.WARN,
        description=f"{len(rows) - len(late)} of {len(rows)} partitions have all that the log has,"
        f" but for the last {duration(archive.late_after_ms)}",
        metadata={
            "partitions that lag": str(late),
            "lag offsets": sum(row["lag offsets"] for row in rows),
            "lag seconds": max((row["lag seconds"] for row in rows), default=0.0),
        },
    )


def whole_check(topic: str) -> dg.AssetChecksDefinition:
    """Return the check of a topic's objects: it reads all of them, so it runs once a week, or when
    it is asked for.
    """

    @dg.asset_check(
        asset=archive_key(topic),
        name=WHOLE,
        description="The objects of the newest version of each log are there, with their sizes and"
        " checksums; those of earlier versions are there.",
        automation_condition=dg.AutomationCondition.on_cron(WEEKLY),
    )
    def whole(policies: PolicyDirectory) -> dg.AssetCheckResult:
        with boundary(f"{ARCHIVED}/{topic}"):
            require("bucket", by="archive")
            archive = archive_of(policies, topic)
            return whole_result(topic, archive)

    return whole


def whole_result(topic: str, archive: TopicArchive) -> dg.AssetCheckResult:
    """Check the objects of all versions of a topic's logs. Effects: reads the newest ones.

    Raises:
        LogwrightError: see `logwright.maintenance.scrub.scrub`.
    """
    from logwright.bucket.store import Bucket  # noqa: PLC0415 -- of an extra
    from logwright.maintenance.scrub import scrub  # noqa: PLC0415 -- as above

    bucket = Bucket.of(archive.to)
    names = [name for name in bucket.directories() if _is_of(name, topic)]
    reports = {name: scrub(bucket.below(name)) for name in names}
    wrong = [(name, *fault) for name, report in reports.items() for fault in report.wrong]
    return dg.AssetCheckResult(
        asset_key=archive_key(topic),
        check_name=WHOLE,
        passed=bool(names) and not wrong,
        description=f"{len(wrong)} objects are wrong in {len(names)} partitions",
        metadata={
            "partitions": len(names),
            "objects": table(("log", "object", "problem"), wrong),
            "objects of earlier versions": sum(len(one.earlier) for one in reports.values()),
            "objects that no version names": sum(len(one.unnamed) for one in reports.values()),
        },
    )


def _is_of(name: str, topic: str) -> bool:
    partition = TopicPartition.parse(name)
    return partition is not None and partition.topic == topic
