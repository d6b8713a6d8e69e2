"""``logwright metrics``: metrics of log directories for Prometheus. Read-only."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypedDict, Unpack

import click

from logwright.cli.log_lines import LogFormat, log_format_option, log_to_stderr, say
from logwright.cli.parameters import kafka_version_option
from logwright.errors import UnreadableFile
from logwright.extras import require
from logwright.units import INT64_MAX, TimestampMs

if TYPE_CHECKING:
    from collections.abc import Callable

    from logwright.metrics.values import LastSweep, Sample

    Values = dict[str, list[Sample]]

_PATH: Final = click.Path(path_type=Path)
_NS_PER_MS: Final = 1_000_000
_LAST_PORT: Final = 65_535


class _Given(TypedDict):
    """Values of the options about settings, as click passes them."""

    policies: Path | None
    metadata: Path | None
    no_metadata: bool
    server_properties: Path | None
    kafka_version: str | None
    high_watermark: Literal["end", "checkpoint"] | None


@click.command(name="metrics")
@click.argument("log_dirs", metavar="LOG_DIR...", nargs=-1, required=True, type=_PATH)
@click.option("--textfile", metavar="FILE", type=_PATH, help="Write to this file, atomically.")
@click.option(
    "--port",
    metavar="N",
    type=click.IntRange(0, _LAST_PORT),
    help="Serve over HTTP until interrupted; each request reads the directories.",
)
@click.option(
    "--address", default="127.0.0.1", show_default=True, help="Address to listen on with --port."
)
@click.option(
    "--history",
    metavar="DIR",
    type=_PATH,
    help="The platform's maintenance history: adds the metrics of the last sweep.",
)
@click.option(
    "--policies", metavar="DIR", type=_PATH, help="Directory of YAML files with settings per topic."
)
@click.option("--metadata", metavar="DIR", type=_PATH, help="The cluster's __cluster_metadata-0.")
@click.option("--no-metadata", is_flag=True, help="Do not read cluster metadata.")
@click.option(
    "--server-properties", metavar="FILE", type=_PATH, help="The broker's server.properties."
)
@kafka_version_option
@click.option(
    "--high-watermark",
    type=click.Choice(["end", "checkpoint"]),
    help="What counts as committed [default: from --policies, else end].",
)
@click.option(
    "--now",
    "now_ms",
    metavar="MS",
    type=click.IntRange(0, INT64_MAX),
    help="Fix the clock, in ms since the epoch.",
)
@log_format_option
def command(
    log_dirs: tuple[Path, ...],
    *,
    textfile: Path | None,
    port: int | None,
    history: Path | None,
    now_ms: int | None,
    address: str,
    log_format: LogFormat,
    **given: Unpack[_Given],
) -> None:
    """Export metrics for Prometheus, with the names of Kafka's: to stdout, a file or over HTTP.

    A log directory on which a broker runs has only the metrics of the directory.
    """
    log_to_stderr(verbose=False, form=log_format)
    require("metrics", by="metrics")
    if textfile is not None and port is not None:
        raise click.UsageError("--textfile and --port contradict each other")
    from logwright.metrics.export import serve_metrics, text_of, write_metrics  # noqa: PLC0415

    read = _reader(log_dirs, history, now_ms, **given)
    if port is not None:
        try:
            server, thread = serve_metrics(read, address=address, port=port)
        except OSError as error:
            raise click.UsageError(f"{address}:{port}: {error.strerror}") from error
        say("info", f"Listening on http://{address}:{server.server_port}/metrics")
        thread.join()
    elif textfile is not None:
        try:
            write_metrics(read(), textfile)
        except OSError as error:
            raise click.UsageError(f"{textfile}: {error.strerror}") from error
    else:
        click.echo(text_of(read()), nl=False)


def _reader(
    log_dirs: tuple[Path, ...],
    history: Path | None,
    now_ms: int | None,
    **given: Unpack[_Given],
) -> Callable[[], Values]:
    """Return what reads the values. Effects: loads the policies."""
    from logwright.config.policies import Policies, load_policies  # noqa: PLC0415 -- not for --help
    from logwright.config.sources import DirectorySettings, Places  # noqa: PLC0415
    from logwright.fleet.observe import observe_fleet  # noqa: PLC0415
    from logwright.metrics.values import metric_values  # noqa: PLC0415

    policies, committed = given["policies"], given["high_watermark"]
    loaded = Policies(high_watermark="end") if policies is None else load_policies(policies)
    if committed is not None:
        loaded = replace(loaded, high_watermark=committed)
    places = Places(
        metadata=given["metadata"],
        find=not given["no_metadata"],
        properties=given["server_properties"],
        kafka_version=given["kafka_version"],
    )

    def read() -> Values:
        clock_ms = time.time_ns() // _NS_PER_MS if now_ms is None else now_ms
        fleet = observe_fleet(
            {str(path): path.absolute() for path in log_dirs},
            DirectorySettings(loaded, lambda _: places),
            now_ms=TimestampMs(clock_ms),
        )
        return metric_values(fleet, None if history is None else _last_sweep(history))

    return read


def _last_sweep(history: Path) -> LastSweep | None:
    from pyarrow import ArrowException  # noqa: PLC0415 -- of an extra

    from logwright.history.store import read_history  # noqa: PLC0415
    from logwright.metrics.values import last_sweep  # noqa: PLC0415

    try:
        rows = read_history(history).to_pylist()
    except (OSError, ArrowException) as error:
        raise UnreadableFile(
            f"the history cannot be read: {error}", path=history, remedy="Leave --history out."
        ) from error
    return last_sweep(rows)
