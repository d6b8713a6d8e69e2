"""``logwright find``: every record of some keys in every file, and what removes it when."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

import click

from logwright.cli.options.find import Given
from logwright.cli.request import Request
from logwright.cli.run.find_keys import require_new, write_keys
from logwright.cli.run.find_show import is_late, show_findings, show_forecast
from logwright.cli.run.keys import Wanted, read_wanted, search_settings
from logwright.erasure.account import Account, account_of
from logwright.erasure.certificate.model import Replicas
from logwright.erasure.certificate.search import replicas_elsewhere
from logwright.erasure.find.result import SearchResult
from logwright.erasure.find.search import search_log_dir
from logwright.erasure.find.tables import search_table_files
from logwright.erasure.outlook.removals import upkeep_of
from logwright.erasure.outlook.suggestions import forecast_log
from logwright.erasure.status import FOUND, INCOMPLETE, LATE
from logwright.errors import PreconditionError
from logwright.log.record_files import list_files
from logwright.place.model import Place, is_running


def run(request: Request, **given: Unpack[Given]) -> int:
    """Run the command."""
    if given["keys"] is None and given["requests"] is None and given["pattern"] is None:
        raise click.UsageError("give --keys, --requests or --pattern")
    deadline_ms, keys_to = given["deadline_ms"], given["keys_to"]
    if keys_to is not None:
        require_new(given["pattern"], keys_to)
    if given["forecast"]:
        _refuse_forecast(_live(request, given))
    wanted = read_wanted(request, given, given["pattern"])
    if request.dry_run:
        _show_files(request, given)
        return 0
    searched = _search(request, given, wanted)
    findings = [finding for place in searched for finding in place.findings]
    replicas = replicas_elsewhere(
        [(log_dir, request.of(log_dir).sources()) for log_dir in _live(request, given)],
        wanted.keys,
        every_topic=bool(wanted.patterns),
    )
    unsearched = [each.topic for each in replicas]
    account = account_of(searched, secret=wanted.keys.secret.id, unsearched=unsearched)
    show_findings(request, wanted, searched, account)
    if keys_to is not None:
        write_keys(request, searched, keys_to)
    late = any(is_late(finding.gone_by_ms, deadline_ms) for finding in findings)
    if given["forecast"]:
        late = _forecast(request, wanted, searched, given) or late
    if _show_rest(request, wanted, replicas, account):
        return INCOMPLETE
    if findings and late:
        return LATE
    return FOUND if findings else 0


def _live(request: Request, given: Given) -> tuple[Place, ...]:
    return (request.place, *given["more_dirs"])


def _remote(given: Given) -> tuple[Place, ...]:
    """Return the remote segments that are searched, too. Pure."""
    return () if given["tier"] is None else (given["tier"].place,)


def _refuse_forecast(log_dirs: Sequence[Place]) -> None:
    """Refuse directories of running brokers.

    Raises:
        PreconditionError: nobody can say when a broker's cleaner comes to a log.
    """
    for log_dir in filter(is_running, log_dirs):
        raise PreconditionError(
            "a broker has it open, and when its cleaner comes to a log is not known.",
            path=log_dir,
            remedy="Search without --forecast, or stop the broker.",
        )


def _show_rest(
    request: Request, wanted: Wanted, replicas: Sequence[Replicas], account: Account
) -> bool:
    """Name replicas elsewhere and topics without a log; return whether something that could hold
    records was not searched. Effects: output.
    """
    for elsewhere in replicas:
        brokers = ", ".join(map(str, elsewhere.brokers))
        request.output.result(
            f"not searched: {elsewhere.topic}: its replicas on brokers {brokers}.",
            topic=elsewhere.topic,
            replicasNotSearched=list(elsewhere.brokers),
        )
    incomplete = bool(wanted.patterns and account.unsearched)
    for topics in sorted(wanted.keys.topics_asked):
        look = account.look(topics, "")
        incomplete = incomplete or bool(look.unsearched)
        if not look.topics:
            request.output.result(
                f"no log is of the topic {topics}: its keys were searched in none.",
                topics=topics,
                problem="no log is of this topic",
            )
            incomplete = True
    return incomplete or _has_other_forms(wanted, account)


def _has_other_forms(wanted: Wanted, account: Account) -> bool:
    """Return whether other forms of a key were found that are not its request's."""
    requests = (wanted.keys.request(number) for number in range(len(wanted.keys)))
    return any(account.look(each.topics, each.hmac.hex()).others for each in requests)


def _show_files(request: Request, given: Given) -> None:
    """Show what would be searched. Effects: lists the directories; output."""
    for log_dir in (*_live(request, given), *_remote(given), *given["archives"]):
        tree = list_files(log_dir).tree
        files, size = len(tree.files), tree.total_bytes
        request.output.result(
            f"{log_dir}: {files} files, {size} bytes.",
            directory=str(log_dir),
            files=files,
            bytes=size,
        )


def _search(request: Request, given: Given, wanted: Wanted) -> list[SearchResult]:
    """Search all directories and tables. Effects: reads them."""
    live = _live(request, given)
    searched: list[SearchResult] = []
    for log_dir in (*live, *_remote(given), *given["archives"]):
        settings = search_settings(request.of(log_dir), given) if log_dir in live else None
        with request.output.progress(str(log_dir)) as progress:
            searched.append(
                search_log_dir(
                    log_dir,
                    wanted.keys,
                    settings,
                    patterns=wanted.patterns,
                    progress=progress,
                    threads=given["threads"],
                    tier=given["tier"],
                )
            )
    tables = given["tables"]
    return searched + [
        search_table_files(table, wanted.keys, patterns=wanted.patterns) for table in tables
    ]


def _forecast(
    request: Request, wanted: Wanted, searched: Sequence[SearchResult], given: Given
) -> bool:
    """Show when the keys are gone; return whether some are late."""
    deadline_ms = given["deadline_ms"]
    late = False
    for place in searched:
        log_dir = next((live.log.log_dir for live in place.live.values()), None)
        if log_dir is None:
            continue
        settings = search_settings(request.of(log_dir), given)
        for partition, live in place.live.items():
            forecast = forecast_log(
                live,
                settings.of_topic(partition.topic)[0],
                upkeep_of(settings, live),
                now_ms=request.now_ms,
                deadline_ms=deadline_ms,
            )
            show_forecast(request, wanted, partition, forecast, deadline_ms)
            late = late or is_late(forecast.latest_ms, deadline_ms)
    return late
