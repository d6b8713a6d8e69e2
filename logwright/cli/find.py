"""``logwright find``: every record of some keys in every file, and what removes it when."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Unpack

import click

from logwright.cli.find_show import show_findings, show_forecast
from logwright.cli.keys import KeyOptions, Wanted, key_options, read_wanted, search_options
from logwright.cli.request import Request, directory_options

if TYPE_CHECKING:
    from logwright.erasure.find.model import Finding
    from logwright.erasure.find.result import Found, Settings

FOUND: Final = 8
"""Exit status: records were found."""
INCOMPLETE: Final = 9
"""Exit status: nothing was found, but not all files could be searched."""
LATE: Final = 10
"""Exit status: records were found that are not gone by the deadline."""
_PATH: Final = click.Path(path_type=Path)


class _Given(KeyOptions):
    """Values of the options below, as click passes them."""

    more_dirs: tuple[Path, ...]
    archives: tuple[Path, ...]
    tables: tuple[Path, ...]
    pattern: Path | None
    forecast: bool
    deadline: str | None
    run_interval_ms: int
    appends_continue: bool


@click.command(name="find")
@key_options
@search_options
@click.option(
    "--table",
    "tables",
    metavar="PATH",
    type=_PATH,
    multiple=True,
    help="A Parquet file, or a directory of them, such as a table of `logwright latest`; "
    "repeatable.",
)
@click.option(
    "--forecast",
    is_flag=True,
    help="Forecast when each key is gone; those with a value as if deleted now by a tombstone.",
)
@click.option(
    "--deadline",
    metavar="TIME",
    help="When the keys must be gone: ms since the epoch, or ISO 8601 with a time zone.",
)
@directory_options
def command(request: Request, **given: Unpack[_Given]) -> None:
    """Find every record of some keys in every file of LOG_DIRs. Changes nothing.

    Keys are shown as HMACs, never in clear. Exit status: 0 nothing was found in any file; 8 records
    were found; 9 nothing was found, but some files could not be searched, and are named; 10 records
    were found that are not gone by --deadline.
    """
    if given["keys"] is None and given["requests"] is None and given["pattern"] is None:
        raise click.UsageError("give --keys, --requests or --pattern")
    deadline_ms = _deadline(given["deadline"])
    wanted = read_wanted(request, given, given["pattern"])
    found = _search(request, given, wanted)
    if request.dry_run:
        return
    rows = [(one, finding) for one in found for finding in one.findings]
    show_findings(request, wanted, found)
    late = deadline_ms is not None and _is_late(rows, deadline_ms)
    if given["forecast"]:
        late = _forecast(request, wanted, found, given, deadline_ms) or late
    status = FOUND if rows else INCOMPLETE if any(one.unsearched for one in found) else 0
    click.get_current_context().exit(LATE if rows and late else status)


def _deadline(text: str | None) -> int | None:
    from logwright.erasure.landing import time_ms  # noqa: PLC0415 -- kernels: not for --help

    found = None if text is None else time_ms(text)
    if text is not None and found is None:
        raise click.UsageError(
            f"--deadline {text!r} is neither ms since the epoch nor ISO 8601 with a time zone"
        )
    return found


def _settings(request: Request, given: _Given) -> Settings:
    from logwright.erasure.find.result import Settings  # noqa: PLC0415 -- kernels: not for --help

    return Settings(
        of_topic=request.settings,
        broker=request.broker(),
        now_ms=request.now_ms,
        high_watermark=request.high_watermark,
        run_interval_ms=given["run_interval_ms"],
        appends_continue=given["appends_continue"],
    )


def _search(request: Request, given: _Given, wanted: Wanted) -> list[Found]:
    """Search all directories and tables. Effects: reads them."""
    from logwright.erasure.find.places import list_files  # noqa: PLC0415 -- kernels: not for --help
    from logwright.erasure.find.search import search_log_dir, search_table_files  # noqa: PLC0415

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
        settings = _settings(request.of(log_dir), given) if maintained else None
        with request.output.progress(str(log_dir)) as progress:
            found.append(
                search_log_dir(
                    log_dir, wanted.keys, settings, patterns=wanted.patterns, progress=progress
                )
            )
    if not request.dry_run:
        found += [search_table_files(root, wanted.keys) for root in given["tables"]]
    return found


def _is_late(rows: Sequence[tuple[Found, Finding]], deadline_ms: int) -> bool:
    return any(
        finding.gone_by_ms is None or finding.gone_by_ms > deadline_ms for _, finding in rows
    )


def _forecast(
    request: Request, wanted: Wanted, found: Sequence[Found], given: _Given, deadline_ms: int | None
) -> bool:
    """Show when the keys are gone; return whether some are late."""
    from logwright.erasure.deadline import forecast_log  # noqa: PLC0415 -- kernels: not for --help
    from logwright.erasure.find.removal import upkeep_of  # noqa: PLC0415

    late = False
    for one in found:
        settings = _settings(request.of(one.directory), given) if one.live else None
        for partition, live in one.live.items():
            if settings is None:
                continue
            forecast = forecast_log(
                live,
                settings.of_topic(partition.topic)[0],
                upkeep_of(settings, partition.topic, live.hold),
                now_ms=request.now_ms,
                deadline_ms=deadline_ms,
            )
            show_forecast(request, wanted, partition, forecast, deadline_ms)
            latest = forecast.latest_ms
            late = late or (deadline_ms is not None and (latest is None or latest > deadline_ms))
    return late
