"""``logwright erase``: erase the records of some keys, by Kafka's rules or at once; shown and asked
for on the terminal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

import click

from logwright.batches.runtime import available_cores
from logwright.cli.options.erase import Given
from logwright.cli.request import Request
from logwright.cli.run.erase_show import Shown, sentence
from logwright.cli.run.keys import read_wanted, search_settings
from logwright.cli.run.replicas import say_unknown_replicas
from logwright.cli.selection import choose, leave_held, ready
from logwright.config.table import tables_of
from logwright.erasure.keys import KeySet
from logwright.erasure.outcome import PlannedTombstones
from logwright.erasure.remains import exit_status, not_reached, search_remains
from logwright.erasure.run import Erasure, erase_log_dir, plan_log_dir
from logwright.erasure.topics import topics_of
from logwright.extras import require
from logwright.format.names import TopicPartition
from logwright.place.model import AnyPlace, Place, is_versioned


def run(request: Request, **given: Unpack[Given]) -> int:
    """Run the command."""
    there = is_versioned(request.place)
    request.require_terminal(versioned=True)
    if given["keys"] is None and given["requests"] is None:
        raise click.UsageError("say which keys: --keys FILE, or --requests DIR")
    if there and not given["at_once"]:
        raise click.UsageError("a log in a bucket gets no tombstones: give --now-and-for-good")
    keys = read_wanted(request, given).keys
    topics = topics_of(request.place, request.sources().metadata)
    logs = tuple(
        partition
        for partition in request.partitions()
        if not keys.for_topic(partition.topic).is_empty
    )
    if not given["at_once"]:
        require("spark", by="logwright erase without --now-and-for-good")
        logs = choose(request, logs)
    shell = _Terminal(request, logs)
    erasure = _erasure(request, given, keys, request.place)

    def of_local(local: Request) -> Erasure:
        return _erasure(local, given, keys, local.log_dir)

    if there:
        from logwright.cli.run.erase_in_bucket import erase_in_bucket  # noqa: PLC0415 -- of an extra

        free = leave_held(request, logs)
        has_matches = erase_in_bucket(
            request, erasure, free, shell, in_copy=of_local, scratch=given["scratch"]
        )
    elif request.dry_run:
        has_matches = plan_log_dir(of_local(request), ready(request, logs), shell)
    else:
        has_matches = erase_log_dir(of_local(request), shell)
    if not has_matches:
        where = "The newest version of no log" if there else "No log"
        would = "would be" if request.dry_run else "was"
        request.output.text(f"{where} has a record of these keys: nothing {would} erased.")
    return _show_remains(request, erasure, topics, shell)


def _erasure(request: Request, given: Given, keys: KeySet, log_dir: AnyPlace) -> Erasure[AnyPlace]:
    """Return what is erased from a log directory."""
    return Erasure(
        log_dir=log_dir,
        keys=keys,
        now_ms=request.now_ms,
        of_topic=request.settings,
        search=lambda: search_settings(request),
        topic_ids=request.topic_id,
        at_once=given["at_once"],
        purge_unreadable=given["purge_unreadable"],
        threads=given["threads"] or available_cores(),
        is_wanted=request.is_wanted,
        progress=request.output.progress,
        replicas_of=lambda partition: request.sources().replicas_of(partition),
    )


def _show_remains(
    request: Request, erasure: Erasure[Place], topics: frozenset[str], shell: _Terminal
) -> int:
    """Show what is left and what no search reaches; return the exit status. Effects: reads; output.

    Args:
        topics: of the log directory and of the cluster's metadata, before the erasure.
    """
    remains = []
    if not request.dry_run:
        tables = {} if request.policies is None else tables_of(request.policies)
        for place in search_remains([erasure], tables):
            shell.show(place)
            remains.append(place)
    for place in not_reached([(request.place, request.sources())], erasure.keys, topics):
        shell.show(place)
        remains.append(place)
    return exit_status(remains)


class _Terminal(Shown):
    """Shows and asks on the terminal."""

    def __init__(self, request: Request, logs: Sequence[TopicPartition]) -> None:
        super().__init__(request)
        self._request = request
        self._logs = logs

    def recover(self) -> tuple[TopicPartition, ...]:
        """Recover what a crash has left; return the logs to continue with. Effects: changes them;
        output.
        """
        return ready(self._request, self._logs, locked=True)

    def ask(self, erasure: Erasure, logs: int, planned: Sequence[PlannedTombstones]) -> None:
        """Ask whether to continue, unless nothing is to be appended. Effects: output; exits."""
        request = self._request
        if planned and not erasure.at_once:
            say_unknown_replicas(request)
        if erasure.at_once:
            request.confirm(
                f"Erase {len(erasure.keys)} keys from {logs} logs in {request.log_dir}, at once"
                " and beyond undo?"
            )
        elif any(plan.has_matches for plan in planned):
            request.confirm(
                f"Append tombstones in {request.log_dir}, roll, compact and purge?",
                map(sentence, planned),
            )
