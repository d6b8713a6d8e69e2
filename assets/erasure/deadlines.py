"""The assets of erasure requests: what was asked, and how long it has until the deadlines.

They are part of the platform if the policies have ``erasure:`` with a store (docs/adr/0029). No
metadata has a key, and none an HMAC.
"""

from collections.abc import Iterable, Iterator, Mapping
from heapq import nsmallest
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

import dagster as dg

from logwright import durable
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
from logwright.config.policies import Policies
from logwright.config.sources import DirectorySettings
from logwright.erasure.account import account_of
from logwright.erasure.case.certified import read_certified
from logwright.erasure.case.make import Searched, pages_of_search, replicas_unread, unread_of
from logwright.erasure.case.model import CasePage, Certified, Unread, urgency
from logwright.erasure.case.page import case_html
from logwright.erasure.certificate.search import replicas_elsewhere
from logwright.erasure.decoded import readers_of
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
from logwright.place.model import Place
from logwright.resources.clock import Clock
from logwright.resources.erasure import RequestPlaces, countdown_path, request_places
from logwright.resources.log_dirs import LogDirs
from logwright.resources.page import case_name, cases_directory
from logwright.resources.policies import PolicyDirectory
from logwright.running.place import as_it_runs
from logwright.units import TimestampMs

ERASURE_REQUESTS: Final = dg.AssetKey(["kafka_logs", "erasure_requests"])
DELETION_DEADLINES: Final = dg.AssetKey(["kafka_logs", "deletion_deadlines"])
POOL: Final = "erasure"
MOST_PAGES: Final = 1_000
"""Maximum pages of cases; those that need attention are among them."""
_TABLE: Final = "it, or a part of it, was not searched"


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
    policies, and until when it may: the result of a search of all files. Archives are not searched;
    directories that a broker has open are.
    Each topic's deadline is a partition of `deletion_deadline`.
    """
    storage = context.instance.storage_directory()
    directory = cases_directory(storage)
    with boundary("deletion_deadlines"):
        certified = _certified(context, directory)
        countdown, pages = search_deadlines(log_dirs, policies, clock, certified)
    try:
        write_countdown(countdown_path(storage), countdown)
        write_pages(directory, pages)
    except (OSError, LogwrightError) as error:
        raise dg.Failure(
            description=f"what was found cannot be written: {error}", allow_retries=False
        ) from error
    yield from _deadlines(context.instance, countdown, directory)
    yield dg.MaterializeResult(
        check_results=deadline_checks(countdown), metadata=countdown_metadata(countdown, directory)
    )


def _deadlines(
    instance: dg.DagsterInstance, countdown: Countdown, pages: Path
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
            metadata=unplotted(topic_metadata(row, countdown.looked_ms, countdown.cases, pages)),
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


def _certified(context: dg.AssetExecutionContext, directory: Path) -> Mapping[str, Certified]:
    """Return id → its last certificate; none, with a warning, if the list cannot be read. Effects:
    reads it.
    """
    try:
        return read_certified(directory)
    except LogwrightError as error:
        context.log.warning("the last certificates are not shown: %s", error)
        return {}


def write_pages(directory: Path, pages: Iterable[CasePage]) -> None:
    """Write the pages of the cases that need attention first, and remove those of others. Effects:
    changes the directory; makes it.

    Raises:
        OSError: one cannot be written.
    """
    durable.make_directory(directory)
    shown = nsmallest(MOST_PAGES, pages, key=lambda page: urgency(page.worst))
    names = {case_name(page.worst.id): page for page in shown}
    for name, page in names.items():
        durable.replace(directory / name, case_html(page).encode())
    for path in directory.glob("case-*.html"):
        if path.name not in names:
            path.unlink()


class Search(NamedTuple):
    """The result of a search: the countdown, and the page of each case."""

    countdown: Countdown
    pages: tuple[CasePage, ...]


def _stored_keys(policies: Policies, directory: Path) -> KeySet:
    """Return the keys of all stored requests. Effects: reads the store and the secret."""
    places = request_places(policies.erasure)
    stored = read_store(places.store, places.secret)
    return KeySet.of(places.secret, requests=stored).read_by(readers_of(policies, directory))


def search_deadlines(
    log_dirs: LogDirs,
    policies: PolicyDirectory,
    clock: Clock,
    certified: Mapping[str, Certified] = MappingProxyType({}),
) -> Search:
    """Search all log directories and the tables of the policies. Effects: reads all files.

    Args:
        certified: id → its last certificate.
    """
    settings = policies.settings()
    keys = _stored_keys(settings.policies, policies.path())
    now_ms = clock.now_ms()
    searches = {
        name: search_log_dir(
            as_it_runs(log_dir, whole=True),
            keys,
            search_settings(settings, log_dir, now_ms),
            progress=silent,
        )
        for name, log_dir in log_dirs.named().items()
    }
    sources = [(log_dir, settings.sources(log_dir)) for log_dir in log_dirs.named().values()]
    logs = {name: one.findings for name, one in searches.items()}
    tables = search_tables(settings.policies, keys, logs.values(), now_ms=now_ms)
    elsewhere = [
        *replicas_unread(replicas_elsewhere(sources, keys)),
        *(Unread(where=f"table of {each}", topic=each, why=_TABLE) for each in tables.unsearched),
    ]
    account = account_of(
        searches.values(),
        secret=keys.secret.id,
        topics={log.partition.topic for log in log_dirs.listing().logs.values()},
        unsearched=[each.topic for each in elsewhere],
        others=tables.others,
    )
    countdown = count_down(
        keys.requests, logs | tables.findings, account.topics, now_ms=now_ms, account=account
    )
    pages = pages_of_search(
        keys.requests,
        [
            *(Searched(str(one.directory), one.files, one.findings) for one in searches.values()),
            *(Searched(path, None, findings) for path, findings in tables.findings.items()),
        ],
        [
            *(
                part
                for each in searches.values()
                for part in unread_of(str(each.directory), each.unsearched)
            ),
            *elsewhere,
        ],
        account,
        now_ms=now_ms,
        version=version("logwright"),
        certified=certified,
    )
    return Search(countdown, tuple(pages))


def search_settings(settings: DirectorySettings, log_dir: Place, now_ms: TimestampMs) -> Settings:
    """Return what the search asks of a log directory's settings. Effects: reads them."""
    return Settings(
        of_topic=lambda topic: settings.of(log_dir, topic),
        broker=settings.broker(log_dir),
        now_ms=now_ms,
        high_watermark=settings.policies.high_watermark,
        upkeep=Upkeep.of_policies(settings.policies.erasure),
        metadata=settings.sources(log_dir).metadata,
    )
