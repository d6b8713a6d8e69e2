"""``logwright erase``: erase the records of some keys, by Kafka's rules or at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

import click

from logwright.cli.keys import KeyOptions, key_options, read_wanted
from logwright.cli.leaving import leave_held, leave_strays, leave_unknown
from logwright.cli.planning import FailureLog, instant
from logwright.cli.recover import recover_first, show_recovery_first
from logwright.cli.request import Request, request_options
from logwright.errors import LogwrightError
from logwright.extras import require

if TYPE_CHECKING:
    from collections.abc import Sequence

    from logwright.erasure.erase.remaining import Remaining
    from logwright.erasure.erase.by_tombstones import ErasedByRules, Tombstones
    from logwright.erasure.keys import KeySet
    from logwright.format.names import TopicPartition


class _Given(KeyOptions):
    """Values of the options below, as click passes them."""

    at_once: bool
    purge_unreadable: bool
    threads: int | None


@click.command(name="erase")
@key_options
@click.option(
    "--now-and-for-good",
    "at_once",
    is_flag=True,
    help="Rebuild every segment without these records, unlink the old files; no undo.",
)
@click.option(
    "--purge-unreadable",
    is_flag=True,
    help="With --now-and-for-good: retired, staged and cut files go also if they cannot be read.",
)
@click.option(
    "--threads",
    metavar="N",
    type=click.IntRange(min=1),
    help="Threads per log with --now-and-for-good [default: all cores].",
)
@request_options
def command(
    request: Request,
    **given: Unpack[_Given],
) -> None:
    """Erase the records of keys: tombstones, compaction and purge; or at once.

    Only records whose own key is one of these are erased: `logwright find --pattern` names records
    of other keys that have something of a person in their values.

    At the end the log directory is searched for what is left. Exit status: 0 nothing is left; 8
    records remain, and are named with what removes them; 9 not everything could be searched, such
    as replicas on other brokers; a log's error, if one was not erased.
    """
    from logwright.cli.erase_at_once import erase_at_once  # noqa: PLC0415 -- kernels: not for --help
    from logwright.cli.erase_left import say_left  # noqa: PLC0415
    from logwright.erasure.topics import topics_of  # noqa: PLC0415 -- not for --help

    request.require_terminal()
    failures = FailureLog(output=request.output)
    if given["keys"] is None and given["requests"] is None:
        raise click.UsageError("say which keys: --keys FILE, or --requests DIR")
    chosen = read_wanted(request, given).keys
    there = topics_of(request.log_dir, request.sources().metadata)
    partitions = tuple(
        one for one in request.partitions() if not chosen.for_topic(one.topic).is_empty
    )
    if given["at_once"]:
        options = (given["purge_unreadable"], given["threads"])
        matches = erase_at_once(request, chosen, partitions, failures, options)
    else:
        matches = _by_rules(request, chosen, partitions, failures)
    if not matches:
        would = "would be" if request.dry_run else "was"
        request.output.text(f"No log has a record of these keys: nothing {would} erased.")
    status = say_left(request, chosen, there, at_once=given["at_once"])
    click.get_current_context().exit(failures.exit_status or status)


def _by_rules(
    request: Request,
    chosen: KeySet,
    partitions: Sequence[TopicPartition],
    failures: FailureLog,
) -> bool:
    """Erase by the rules; return whether a log has records of the keys. Effects: changes the logs,
    unless it is a dry run; output.
    """
    from logwright.ingest.commit import prepare_log_dir  # noqa: PLC0415 -- kernels: not for --help
    from logwright.locks import lock_log_dir  # noqa: PLC0415

    require("spark", by="logwright erase without --now-and-for-good")
    known = leave_strays(request, partitions, failures)
    known = leave_held(request, leave_unknown(request, known, failures), force=True)
    marked = (request, chosen, failures)
    if request.dry_run:
        ready = show_recovery_first(request, failures, like_kafka=False, partitions=known)
        plans = _missing(request, chosen, ready, failures)
        for found in plans:
            _show_plan(request, found)
        return _say_marked(*marked) or any(one.matches for one in plans)
    with lock_log_dir(request.log_dir):
        recover_first(request, failures, like_kafka=False, partitions=known)
        prepare_log_dir(request.log_dir)
        failed = {partition for partition, _ in failures.failures}
        going = [one for one in known if one not in failed]
        plans = _missing(request, chosen, going, failures)
        if any(one.matches for one in plans) and not request.yes:
            for one in plans:
                request.output.message(_sentence(one))
            request.confirm(f"Append tombstones in {request.log_dir}, roll, compact and purge?")
        for one in plans:
            _erase(request, chosen, one.log.partition, failures)
        purged = _purge_deleted(request, chosen)
        said = _say_marked(*marked)
        return purged or said or any(one.matches for one in plans)


def _purge_deleted(request: Request, chosen: KeySet) -> bool:
    """Remove the deleted logs that are due; return whether there are any. Effects: removes them;
    output.
    """
    from logwright.deletion.commit import plan_purge_deleted, purge_deleted  # noqa: PLC0415

    now_ms, delay_ms = request.now_ms, request.broker().file_delete_delay_ms
    planned = plan_purge_deleted(request.log_dir, now_ms=now_ms, delay_ms=delay_ms)
    due = [
        one.directory
        for one in planned
        if one.goes and not chosen.for_topic(one.partition.topic).is_empty
    ]
    if due:
        purge_deleted(request.log_dir, now_ms=now_ms, delay_ms=delay_ms, directories=due)
    for name in due:
        request.output.text(f"{name}: removed")
    return bool(due)


def _say_marked(request: Request, chosen: KeySet, failures: FailureLog) -> bool:
    """Say which deleted, stray and future logs have records of the keys; return whether one has.
    Effects: reads; output.
    """
    from logwright.erasure.erase.directories import chosen_marked, remaining_marked  # noqa: PLC0415 -- kernels

    delay_ms, some = request.broker().file_delete_delay_ms, False
    for one, keys in chosen_marked(request.log_dir, chosen, request.is_wanted):
        try:
            left = remaining_marked(request.log_dir, one, keys, delay_ms=delay_ms)
        except LogwrightError as error:
            failures.add_directory(one.name, error)
            continue
        if left is None:
            continue
        some = True
        request.output.json_object(
            {"directory": one.name, "now": request.now_ms, "remaining": [_as_object(left)]}
        )
        request.output.text(_as_text(one.name, left))
    return some


def _as_object(left: Remaining) -> dict[str, object]:
    return {
        "what": left.what,
        "records": left.records,
        "rule": left.rule,
        "untilMs": left.until_ms,
    }


def _as_text(name: str, left: Remaining) -> str:
    what = "" if left.what == name else f" {left.what}"
    rule = left.rule or "nothing removes them"
    until = "" if left.until_ms is None else f", {instant(left.until_ms)} at the earliest"
    return f"{name}: remaining: {left.records}{what}: {rule}{until}"


def _missing(
    request: Request,
    chosen: KeySet,
    partitions: Sequence[TopicPartition],
    failures: FailureLog,
) -> list[Tombstones]:
    """Find the tombstones that are missing. Effects: reads; output."""
    from logwright.erasure.erase.by_tombstones import missing_tombstones  # noqa: PLC0415 -- kernels

    found = []
    for partition in partitions:
        config, _ = request.settings(partition.topic)
        keys = chosen.for_topic(partition.topic)
        try:
            found.append(missing_tombstones(request.log_dir, partition, config, keys))
        except LogwrightError as error:
            failures.add(partition, error)
    return found


def _sentence(found: Tombstones) -> str:
    return (
        f"{found.log.partition}: {found.matches} records of these keys, {len(found.keys)}"
        " tombstones are missing"
    )


def _show_plan(request: Request, found: Tombstones) -> None:
    request.output.text(_sentence(found))
    request.output.json_object(
        {
            "topicPartition": str(found.log.partition),
            "now": request.now_ms,
            "erased": False,
            "records": found.matches,
            "tombstones": len(found.keys),
        }
    )


def _erase(
    request: Request, chosen: KeySet, partition: TopicPartition, failures: FailureLog
) -> None:
    """Erase one log, and say what remains. Effects: changes the log; output."""
    from logwright.erasure.erase.remaining import remaining  # noqa: PLC0415 -- kernels
    from logwright.erasure.erase.by_tombstones import erase_by_rules  # noqa: PLC0415

    settings = request.settings(partition.topic)
    keys = chosen.for_topic(partition.topic)
    now_ms = request.now_ms
    try:
        done = erase_by_rules(request.log_dir, partition, settings, keys, now_ms=now_ms)
        left = remaining(request.log_dir, partition, settings[0], keys, now_ms=now_ms)
    except LogwrightError as error:
        failures.add(partition, error)
        return
    _show(request, partition, done, left)


def _show(
    request: Request, partition: TopicPartition, done: ErasedByRules, left: Sequence[Remaining]
) -> None:
    output = request.output
    appended = 0 if done.appended is None or done.appended.repeated else done.appended.records
    output.json_object(
        {
            "topicPartition": str(partition),
            "now": request.now_ms,
            "erased": True,
            "records": done.matches,
            "tombstones": appended,
            "compacted": done.committed is not None,
            "purged": list(done.purged.removed),
            "remaining": [_as_object(one) for one in left],
        }
    )
    output.text(
        f"{partition}: {done.matches} records of these keys, {appended} tombstones appended,"
        f" {len(done.purged.removed)} files removed"
    )
    for one in left:
        output.text(_as_text(str(partition), one))
