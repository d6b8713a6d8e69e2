"""``logwright metrics``: metrics of log directories for Prometheus. Read-only."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final, Unpack

import click
from pyarrow import ArrowException

from logwright.cli.options.metrics import Given
from logwright.cli.output import Output
from logwright.cli.request import committed_by, local_directory
from logwright.cli.streams import echo
from logwright.config.policies import Policies, load_policies
from logwright.config.sources import DirectorySettings, Places
from logwright.errors import UnreadableFile
from logwright.fleet.observe import observe_fleet
from logwright.history.store import read_history
from logwright.metrics.export import serve_metrics, text_of, write_metrics
from logwright.metrics.values import LastSweep, Sample, last_sweep, metric_values
from logwright.place.model import Place
from logwright.units import TimestampMs

Values = dict[str, list[Sample]]

_NS_PER_MS: Final = 1_000_000


def run(
    output: Output,
    *,
    log_dirs: tuple[Place, ...],
    textfile: Path | None,
    port: int | None,
    history: Path | None,
    now_ms: int | None,
    address: str,
    **given: Unpack[Given],
) -> None:
    """Run the command."""
    if textfile is not None and port is not None:
        raise click.UsageError("--textfile and --port contradict each other")
    read = _reader(log_dirs, history, now_ms, **given)
    if port is not None:
        try:
            server, thread = serve_metrics(read, address=address, port=port)
        except OSError as error:
            raise click.UsageError(f"{address}:{port}: {error.strerror}") from error
        output.message(f"Listening on http://{address}:{server.server_port}/metrics")
        thread.join()
    elif textfile is not None:
        try:
            write_metrics(read(), textfile)
        except OSError as error:
            raise click.UsageError(f"{textfile}: {error.strerror}") from error
    else:
        echo(text_of(read()), newline=False)


def _reader(
    log_dirs: tuple[Place, ...],
    history: Path | None,
    now_ms: int | None,
    **given: Unpack[Given],
) -> Callable[[], Values]:
    """Return what reads the values. Effects: loads the policies."""
    policies, committed = given["policies_dir"], given["high_watermark"]
    loaded = None if policies is None else load_policies(policies)
    high_watermark, _ = committed_by(committed, loaded)
    loaded = replace(loaded or Policies(), high_watermark=high_watermark)
    places = Places(
        metadata=given["metadata"],
        find=not given["no_metadata"],
        properties=given["properties"],
        kafka_version=given["kafka_version"],
    )

    def read() -> Values:
        clock_ms = time.time_ns() // _NS_PER_MS if now_ms is None else now_ms
        fleet = observe_fleet(
            {str(place): local_directory(place).absolute() for place in log_dirs},
            DirectorySettings(loaded, lambda _: places),
            now_ms=TimestampMs(clock_ms),
        )
        return metric_values(fleet, None if history is None else _last_sweep(history))

    return read


def _last_sweep(history: Path) -> LastSweep | None:
    try:
        rows = read_history(history).to_pylist()
    except (OSError, ArrowException) as error:
        raise UnreadableFile(
            f"the history cannot be read: {error}", path=history, remedy="Leave --history out."
        ) from error
    return last_sweep(rows)
