"""``logwright find``: every record of some keys in every file, and what removes it when."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

import click

from logwright.cli.options.find import Given
from logwright.cli.request import Request
from logwright.cli.run.find_show import show_findings, show_forecast
from logwright.cli.run.keys import Wanted, read_wanted, search_settings
from logwright.erasure.account import account_of
from logwright.erasure.certificate.search import replicas_elsewhere
from logwright.erasure.find.model import Finding
from logwright.erasure.find.places import list_files
from logwright.erasure.find.result import Found
from logwright.erasure.find.search import search_log_dir
from logwright.erasure.find.tables import search_table_files
from logwright.erasure.outlook.removals import upkeep_of
from logwright.erasure.outlook.suggestions import forecast_log
from logwright.erasure.status import FOUND, INCOMPLETE, LATE


def run(request: Request, **given: Unpack[Given]) -> None:
    """Run the command."""
    if given["keys"] is None and given["requests"] is None and given["pattern"] is None:
        raise click.UsageError("give --keys, --requests or --pattern")
    deadline_ms = given["deadline_ms"]
    wanted = read_wanted(request, given, given["pattern"])
    found = _search(request, given, wanted)
    if request.dry_run:
        return
    rows = [(one, finding) for one in found for finding in one.findings]
    show_findings(request, wanted, found)
    late = deadline_ms is not None and _is_late(rows, deadline_ms)
    if given["forecast"]:
        late = _forecast(request, wanted, found, given, deadline_ms) or late
    click.get_current_context().exit(
        INCOMPLETE
        if _show_rest(request, given, wanted, found)
        else LATE
        if rows and late
        else FOUND
        if rows
        else 0
    )


def _show_rest(request: Request, given: Given, wanted: Wanted, found: Sequence[Found]) -> bool:
    """Name replicas elsewhere and topics without a log; return whether something that could hold
    records was not searched. Effects: lists the directories; output.
    """
    live = [request.of(one) for one in (request.log_dir, *given["more_dirs"])]
    replicas = replicas_elsewhere(
        [(one.log_dir, one.sources()) for one in live],
        wanted.keys,
        every_topic=bool(wanted.patterns),
    )
    for one in replicas:
        brokers = ", ".join(map(str, one.brokers))
        request.output.text(f"not searched: {one.topic}: its replicas on brokers {brokers}.")
        request.output.json_object({"topic": one.topic, "replicasNotSearched": list(one.brokers)})
    account = account_of(
        found, secret=wanted.keys.secret.id, unsearched=[one.topic for one in replicas]
    )
    incomplete = bool(wanted.patterns and account.unsearched)
    for topics in sorted(wanted.keys.topics_asked):
        look = account.look(topics, "")
        incomplete = incomplete or bool(look.unsearched)
        if not look.topics:
            request.output.text(f"no log is of the topic {topics}: its keys were searched in none.")
            request.output.json_object({"topics": topics, "problem": "no log is of this topic"})
            incomplete = True
    return incomplete


def _search(request: Request, given: Given, wanted: Wanted) -> list[Found]:
    """Search all directories and tables. Effects: reads them."""
    live = (request.log_dir, *given["more_dirs"])
    found: list[Found] = []
    for log_dir in (*live, *given["archives"]):
        if request.dry_run:
            files = list_files(log_dir).files
            size = sum(one.stamp[1] for one in files)
            request.output.text(f"{log_dir}: {len(files)} files, {size} bytes.")
            request.output.json_object(
                {"directory": str(log_dir), "files": len(files), "bytes": size}
            )
            continue
        maintained = log_dir in live
        settings = search_settings(request.of(log_dir), given) if maintained else None
        with request.output.progress(str(log_dir)) as progress:
            found.append(
                search_log_dir(
                    log_dir, wanted.keys, settings, patterns=wanted.patterns, progress=progress
                )
            )
    if not request.dry_run:
        found += [
            search_table_files(root, wanted.keys, patterns=wanted.patterns)
            for root in given["tables"]
        ]
    return found


def _is_late(rows: Sequence[tuple[Found, Finding]], deadline_ms: int) -> bool:
    return any(
        finding.gone_by_ms is None or finding.gone_by_ms > deadline_ms for _, finding in rows
    )


def _forecast(
    request: Request, wanted: Wanted, found: Sequence[Found], given: Given, deadline_ms: int | None
) -> bool:
    """Show when the keys are gone; return whether some are late."""
    late = False
    for one in found:
        settings = search_settings(request.of(one.directory), given) if one.live else None
        for partition, live in one.live.items():
            if settings is None:
                continue
            forecast = forecast_log(
                live,
                settings.of_topic(partition.topic)[0],
                upkeep_of(settings, live),
                now_ms=request.now_ms,
                deadline_ms=deadline_ms,
            )
            show_forecast(request, wanted, partition, forecast, deadline_ms)
            latest = forecast.latest_ms
            late = late or (deadline_ms is not None and (latest is None or latest > deadline_ms))
    return late
