"""``logwright rolling``: maintain the brokers of a running cluster, one after another."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from logwright.cli.output import Output, human_bytes
from logwright.cli.statuses import STOPPED
from logwright.cli.streams import confirmed
from logwright.cli.wording import counted
from logwright.erasure.status import INCOMPLETE
from logwright.errors import PreconditionError
from logwright.rolling.broker import Maintained, Site
from logwright.rolling.erasing import ClusterErasures
from logwright.rolling.hooks import masked
from logwright.rolling.plan import Order, outside_of_windows
from logwright.rolling.run import plan, roll
from logwright.rolling.run import run as only_run
from logwright.rolling.site import open_site
from logwright.rolling.tombstones import Lacking


def run(
    output: Output,
    *,
    file: Path,
    brokers: tuple[int, ...],
    restart: bool,
    dry_run: bool,
    yes: bool,
) -> int:
    """Run the command."""
    if not (yes or dry_run or sys.stdin.isatty()):
        raise click.UsageError("this stops brokers: give --yes, or run it in a terminal")
    site = open_site(file, output.message)
    order = plan(site, brokers)
    erasures = ClusterErasures(
        site,
        brokers,
        report=lambda lacking: _show_tombstones(output, lacking, produced=not dry_run),
    )
    if dry_run:
        status = _show(output, site, order, erasures)
        erasures.look()
        return status if erasures.complete else status or INCOMPLETE
    if not yes:
        for line in _lines(site, order, erasures):
            output.message(line)
        names = ", ".join(str(turn.broker) for turn in order.turns)
        if not confirmed(f"Stop, maintain and start the brokers {names}?"):
            output.message("Nothing was changed.")
            raise click.exceptions.Exit(STOPPED)
    with only_run(site, restart=restart):
        for broker, done in roll(site, brokers, erasures):
            _report(output, broker, done)
    output.text("All brokers are maintained and in sync.")
    return 0 if erasures.complete else INCOMPLETE


def _show_tombstones(output: Output, lacking: Lacking, *, produced: bool) -> None:
    """Show how many tombstones a partition got, or lacks. Effects: output."""
    count = counted(len(lacking.keys), "tombstone")
    output.result(
        f"{lacking.partition}: {count} {'produced' if produced else 'to be produced'}",
        topicPartition=lacking.partition,
        tombstones=len(lacking.keys),
        produced=produced,
    )


def _show(output: Output, site: Site, order: Order, erasures: ClusterErasures) -> int:
    """Show the order, the reasons and what would be done. Effects: output.

    Returns:
        the exit status: whether a run would refuse.
    """
    node = order.controller.node
    for number, turn in enumerate(order.turns, 1):
        output.result(
            None,
            broker=turn.broker,
            turn=number,
            reason=turn.reason,
            activeController=None if node is None else node == turn.broker,
            obstacles=[each.sentence for each in turn.obstacles],
        )
    for line in _lines(site, order, erasures):
        output.text(line)
    if node is None and output.is_json:
        output.message(f"{order.about_controller}.")
    closed = outside_of_windows(site.config.windows, site.config.time_zone, site.now_ms())
    if closed is not None:
        output.message(f"Now {closed.sentence}.")
    refused = closed is not None or any(turn.obstacles for turn in order.turns)
    return PreconditionError.exit_status if refused else 0


def _lines(site: Site, order: Order, erasures: ClusterErasures) -> list[str]:
    """Return what is done through the cluster and to each broker, in order, and what keeps it from
    being stopped.
    """
    lines = [f"{order.about_controller}."]
    lines += [
        f"Before the first one is stopped, tombstones: {masked(shlex.join(words), site.secrets)}"
        for words in erasures.commands
    ]
    for number, turn in enumerate(order.turns, 1):
        broker = site.broker(turn.broker)
        commands = site.config.commands_of(broker)
        lines.append(f"{number}. broker {turn.broker}: {turn.reason}")
        lines += [f"   not now: {each.sentence}" for each in turn.obstacles]
        steps = [
            ("stop", commands.stop or ()),
            *(("maintain", words) for words in commands.on_directories),
            ("start", commands.start or ()),
        ]
        lines += [f"   {name}: {masked(shlex.join(words), site.secrets)}" for name, words in steps]
        lines.append(f"   in {', '.join(broker.log_dirs)}")
    return lines


def _report(output: Output, broker: int, done: Sequence[Maintained]) -> None:
    """Show what was done to a broker. Effects: output."""
    for each in done:
        logs = counted(each.logs, "log")
        output.result(
            f"broker {broker}: {each.command} {each.log_dir}: {logs} reported,"
            f" {human_bytes(each.freed_bytes)} less, {each.seconds:.1f} s",
            broker=broker,
            command=each.command,
            logDir=each.log_dir,
            logs=each.logs,
            freedBytes=each.freed_bytes,
            seconds=round(each.seconds, 3),
        )
