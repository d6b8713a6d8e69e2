"""The assets of erasure requests: what was asked, and how long it has until the deadlines.

They are part of the platform if the policies have ``erasure:`` with a store (docs/adr/0029). No
metadata has a key, and none an HMAC.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import dagster as dg

from logwright.assets.erasure.contract import broken_rules
from logwright.assets.erasure.report import (
    CONTRACT,
    IN_TIME,
    MET,
    contract_check,
    countdown_metadata,
    deadline_checks,
    doubtful_keys,
    topic_metadata,
)
from logwright.assets.erasure.table_search import search_tables
from logwright.assets.lib.boundary import boundary
from logwright.assets.lib.human import human_time
from logwright.assets.lib.partitions import SEGMENT_SET
from logwright.assets.lib.report import unplotted
from logwright.config.sources import DirectorySettings
from logwright.erasure.account import account_of
from logwright.erasure.certificate.search import replicas_elsewhere
from logwright.erasure.find.result import Settings
from logwright.erasure.find.search import search_log_dir
from logwright.erasure.keys import KeySet
from logwright.erasure.landing import Landed, read_landing
from logwright.erasure.outlook.countdown import Countdown, count_down, write_countdown
from logwright.erasure.outlook.upkeep import Upkeep
from logwright.erasure.request import Request
from logwright.erasure.run import silent
from logwright.erasure.store import merge, read_store, write_store
from logwright.errors import LogwrightError
from logwright.resources.clock import Clock
from logwright.resources.erasure import RequestPlaces, countdown_path, request_places
from logwright.resources.log_dirs import LogDirs
from logwright.resources.policies import PolicyDirectory
from logwright.units import TimestampMs

ERASURE_REQUESTS: Final = dg.AssetKey(["kafka_logs", "erasure_requests"])
DELETION_DEADLINES: Final = dg.AssetKey(["kafka_logs", "deletion_deadlines"])
POOL: Final = "erasure"


TOPICS: Final = dg.DynamicPartitionsDefinition(name="erasure_topics")
"""The topics of the requests; a search adds and removes them."""
DELETION_DEADLINE: Final = dg.AssetKey(["kafka_logs", "deletion_deadline"])

deletion_deadline = dg.AssetSpec(
    DELETION_DEADLINE,
    deps=[DELETION_DEADLINES],
    partitions_def=TOPICS,
    group_name="kafka_logs",
    kinds={"kafka"},
    description="The next deadline of the erasure requests of each topic, and what remains in it:"
    " recorded by each search for `deletion_deadlines`.",
)


def deadline_partition(topic: str) -> str:
    """Return a topic's key among the partitions, in which Dagster refuses ``...``."""
    return topic.replace(".", "%2E") if "..." in topic else topic


@dg.asset(
    key=ERASURE_REQUESTS,
    group_name="kafka_logs",
    kinds={"kafka", "table"},
    pool=POOL,
    check_specs=[
        dg.AssetCheckSpec(
            CONTRACT,
            asset=ERASURE_REQUESTS,
            description="Every row of the landing directory is a request, and every stored request"
            " has an HMAC, topics, and a deadline after it was received.",
        )
    ],
)
def erasure_requests(policies: PolicyDirectory, clock: Clock) -> dg.MaterializeResult:  # type: ignore[type-arg]  # with checks Dagster takes the bare class
    """The erasure requests of the landing directory, stored as HMACs of their keys. Rows that are
    not requests are refused by file and line; the others are stored.
    """
    with boundary("erasure_requests"):
        places = request_places(policies.load().erasure)
        now_ms = clock.now_ms()
        before = read_store(places.store, places.secret)
        landed = _landed(places)
        requests = merge(before, landed.requests)
        if requests != before:
            _write(places, requests)
    coming = [one.deadline_ms for one in requests if one.deadline_ms > now_ms]
    return dg.MaterializeResult(
        check_results=[contract_check(landed.refused, broken_rules(requests))],
        metadata={
            "dagster/row_count": len(requests),
            "new": len({one.id for one in requests} - {one.id for one in before}),
            "rows refused": len(landed.refused),
            "doubtful keys": doubtful_keys(landed.doubts),
            "deadlines to come": len(coming),
            "next deadline": human_time(min(coming, default=-1)) or "none",
            "store": dg.MetadataValue.path(str(places.store)),
        },
    )


@dg.asset(
    key=DELETION_DEADLINES,
    deps=[ERASURE_REQUESTS, SEGMENT_SET],
    group_name="kafka_logs",
    kinds={"kafka", "table"},
    pool=POOL,
    check_specs=[
        dg.AssetCheckSpec(
            MET,
            asset=DELETION_DEADLINES,
            blocking=True,  # a run that finds a missed deadline fails
            description="Of requests whose deadline has passed nothing remains, and all that could"
            " hold records of them was searched.",
        ),
        dg.AssetCheckSpec(
            IN_TIME,
            asset=DELETION_DEADLINES,
            description="All that remains is gone by its deadline, under the settings of today, and"
            " all that could hold records was searched.",
        ),
    ],
)
def deletion_deadlines(
    context: dg.AssetExecutionContext, log_dirs: LogDirs, policies: PolicyDirectory, clock: Clock
) -> Iterator[dg.AssetMaterialization | dg.MaterializeResult]:  # type: ignore[type-arg]  # as above
    """What remains of each erasure request in the log directories and in the tables of the
    policies, and until when it may: the result of a search of all files. Archives are not searched.
    Each topic's deadline is a partition of `deletion_deadline`.
    """
    with boundary("deletion_deadlines"):
        countdown = _countdown(log_dirs, policies, clock)
    path = countdown_path(context.instance.storage_directory())
    try:
        write_countdown(path, countdown)
    except (OSError, LogwrightError) as error:
        raise dg.Failure(
            description=f"the countdown cannot be written: {error}", allow_retries=False
        ) from error
    yield from _deadlines(context.instance, countdown)
    yield dg.MaterializeResult(
        check_results=deadline_checks(countdown), metadata=countdown_metadata(countdown)
    )


def _deadlines(
    instance: dg.DagsterInstance, countdown: Countdown
) -> Iterator[dg.AssetMaterialization]:
    """Yield each topic's deadline. Effects: adds and removes the partitions."""
    rows = {deadline_partition(row.topic): row for row in countdown.topics if row.topic}
    known = set(instance.get_dynamic_partitions(TOPICS.name or ""))
    instance.add_dynamic_partitions(TOPICS.name or "", sorted(rows.keys() - known))
    for key in known - rows.keys():
        instance.delete_dynamic_partition(TOPICS.name or "", key)
    for key, row in rows.items():
        yield dg.AssetMaterialization(
            asset_key=DELETION_DEADLINE,
            partition=key,
            description=f"{row.state}: {row.records:,} records remain.",
            metadata=unplotted(topic_metadata(row, countdown.looked_ms)),
        )


def _landed(places: RequestPlaces) -> Landed:
    if places.landing is None:
        return Landed(requests=(), refused=())
    return read_landing(places.landing, places.secret)


def _write(places: RequestPlaces, requests: tuple[Request, ...]) -> None:
    """Store the requests. Effects: replaces the store.

    Raises:
        Failure: it cannot be written.
    """
    try:
        write_store(places.store, requests, places.secret)
    except OSError as error:
        raise dg.Failure(
            description=f"the requests cannot be stored: {places.store}: {error.strerror}",
            allow_retries=False,
        ) from error


def _countdown(log_dirs: LogDirs, policies: PolicyDirectory, clock: Clock) -> Countdown:
    """Search all log directories and the tables of the policies. Effects: reads all files."""
    settings = policies.settings()
    places = request_places(settings.policies.erasure)
    keys = KeySet.of(places.secret, requests=read_store(places.store, places.secret))
    now_ms = clock.now_ms()
    searches = {
        name: search_log_dir(
            log_dir, keys, search_settings(settings, log_dir, now_ms), progress=silent
        )
        for name, log_dir in log_dirs.named().items()
    }
    sources = [(log_dir, settings.sources(log_dir)) for log_dir in log_dirs.named().values()]
    elsewhere = [one.topic for one in replicas_elsewhere(sources, keys)]
    logs = {name: one.findings for name, one in searches.items()}
    tables = search_tables(settings.policies, keys, logs.values(), now_ms=now_ms)
    return count_down(
        keys.requests,
        logs | tables.findings,
        {log.partition.topic for log in log_dirs.listing().logs.values()},
        now_ms=now_ms,
        account=account_of(
            searches.values(), secret=keys.secret.id, unsearched=(*elsewhere, *tables.unsearched)
        ),
    )


def search_settings(settings: DirectorySettings, log_dir: Path, now_ms: TimestampMs) -> Settings:
    """Return what the search asks of a log directory's settings. Effects: reads them."""
    return Settings(
        of_topic=lambda topic: settings.of(log_dir, topic),
        broker=settings.broker(log_dir),
        now_ms=now_ms,
        high_watermark=settings.policies.high_watermark,
        upkeep=Upkeep.of_policies(settings.policies.erasure),
        metadata=settings.sources(log_dir).metadata,
    )
