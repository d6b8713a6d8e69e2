"""Text output of ``inspect``: one line per log, or all details."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from logwright.cli.output import Cell, Output, human_bytes, size_cell
from logwright.cli.request import Request
from logwright.cli.run.purge import is_forced
from logwright.cli.wording import counted, instant, moment, retired, short_names
from logwright.config.topic import TopicConfig
from logwright.deletion.commit import plan_purge_deleted
from logwright.errors import LogwrightError, UncleanLogDir, Unsettled, UnsupportedFormatError
from logwright.format import names
from logwright.format.names import TopicPartition
from logwright.log.inventory import DELETED_LOG_DELAY
from logwright.log.log_dir import MarkedDirectory
from logwright.place.model import is_local
from logwright.purge.observe import list_partition
from logwright.purge.plan import retired_files
from logwright.steps.failed_output import FailedOutput

Problem = UncleanLogDir | UnsupportedFormatError | Unsettled
"""Why the offsets of a log are not known."""
_PROBLEMS: Final[dict[type[Problem], str]] = {
    UncleanLogDir: "needs recovery",
    UnsupportedFormatError: "not handled",
    Unsettled: "not settled",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """The files of a partition directory by kind.

    Attributes:
        segments: base offset → suffix → (bytes, modification time in ms).
        leftovers: names with one of the suffixes .cleaned, .swap and .deleted.
        staging: ids of the plans that have a staging directory.
        failed_outputs: outputs that failed their checks and are kept → bytes.
        others: all other names; directories end in a slash.
    """

    segments: Mapping[int, Mapping[str, tuple[int, int]]]
    snapshots: tuple[int, ...]
    leftovers: tuple[str, ...]
    staging: tuple[str, ...]
    failed_outputs: Mapping[FailedOutput, int]
    others: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectedLog:
    """What ``inspect`` found about one partition.

    Attributes:
        offsets: field name of the output → offset; empty if there is a problem.
        recorded: the offsets in the checkpoint files.
        problem: why it needs recovery first, is not handled, or keeps changing.
        config: None if the settings cannot be read.
        stray: why a broker would not serve it from this directory.
        remote: segments of it that only remote storage has.
    """

    partition: TopicPartition
    listing: Listing
    offsets: Mapping[str, int]
    recorded: Mapping[str, int | None]
    problem: Problem | None
    config: TopicConfig | None
    stray: str | None
    remote: int = 0

    @property
    def policy(self) -> str | None:
        """``cleanup.policy``; ``unknown`` if no source sets it, None if the settings cannot be
        read.
        """
        return None if self.config is None else ",".join(self.config.cleanup_policy)

    @property
    def bytes(self) -> int:
        """Size of all ``.log`` files, in bytes."""
        segments = self.listing.segments.values()
        return sum(files[names.LOG][0] for files in segments if names.LOG in files)


def show(
    request: Request, logs: Sequence[InspectedLog], marked: Sequence[tuple[MarkedDirectory, int]]
) -> None:
    """Print one line per log, with --verbose all details too. Effects: writes to stdout; may read
    settings.
    """
    output = request.output
    whole = [*(str(log.partition) for log in logs), *(str(each.partition) for each, _ in marked)]
    short = {name: name for name in whole} if output.verbose else short_names(whole)
    purged_ms = _purged_ms(request) if marked else {}
    rows = [_log_row(request, log, short[str(log.partition)]) for log in logs]
    for directory, size in marked:
        due_ms = purged_ms.get(directory.name)
        note = f"{directory.mark} log"
        if due_ms is not None:
            past = due_ms <= request.now_ms
            note += f", {'purge due since' if past else 'purged from'} "
            note += moment(due_ms, request.now_ms)
        cells = (size_cell(size), None, None, Cell(text=note, colour="yellow"))
        rows.append((short[str(directory.partition)], None, None, *cells))
    header = ("partition", "policy", "segments", "size", "offsets", "last write", "notes")
    output.table(header, rows)
    if output.verbose:
        for directory, size in marked:
            output.text(f"{directory.mark} log: {directory.name}, {size} bytes")
        for log in logs:
            _show_everything(output, log)


def _purged_ms(request: Request) -> dict[str, int]:
    """Return directory → purge time in ms of the deleted logs for which it is known: nothing purges
    another place. Effects: reads the log directory.
    """
    if not is_local(request.place):
        return {}
    try:
        deleted = plan_purge_deleted(
            request.place,
            now_ms=request.now_ms,
            delay_ms=request.broker().file_delete_delay_ms,
            named=None,
            force=request.gives(DELETED_LOG_DELAY),
        )
    except LogwrightError:
        return {}
    return {log.directory: log.due_at_ms for log in deleted}


def _log_row(request: Request, log: InspectedLog, name: str) -> tuple[object, ...]:
    """Return the table row of one partition. Effects: may read the ledger of retired files."""
    policy = _policy_text(log, unread="?")
    written = [files[names.LOG][1] for files in log.listing.segments.values() if names.LOG in files]
    offsets = None
    if log.offsets:
        offsets = f"{log.offsets['logStartOffset']}..{log.offsets['logEndOffset']}"
    notes = []
    if log.problem is not None:
        notes = [f"{_PROBLEMS[type(log.problem)]}: {log.problem.problem}"]
    notes += [] if log.stray is None else [f"stray: {log.stray}"]
    colour = "red" if notes else "yellow"
    notes += [counted(log.remote, "remote segment")] if log.remote else []
    notes += _leftover_notes(request, log)
    unknown = log.config is not None and not log.config.policy_known
    return (
        name,
        Cell(text=policy, colour="yellow" if unknown else None),
        len(log.listing.segments),
        size_cell(log.bytes),
        offsets,
        moment(max(written, default=None), request.now_ms),
        Cell(text="; ".join(notes), colour=colour),
    )


def _policy_text(log: InspectedLog, *, unread: str) -> str:
    return unread if log.policy is None else log.policy or "(empty)"


def _leftover_notes(request: Request, log: InspectedLog) -> list[str]:
    """Return notes about leftovers. Effects: may read the ledger of retired files."""
    listing = log.listing
    files = [name for name in listing.leftovers if name.endswith(names.DELETED)]
    notes = []
    if files and not is_local(request.place):
        notes.append(counted(len(files), "retired file"))
    elif files:
        try:
            notes.append(retired(_retired_files(request, log), request.now_ms))
        except LogwrightError:
            notes.append(counted(len(files), "retired file"))
    for number, what in (
        (len(listing.leftovers) - len(files), "unfinished file"),
        (len(listing.staging), "staged plan"),
        (len(listing.others), "other file"),
    ):
        if number:
            notes.append(counted(number, what))
    return notes + [
        f"failed output kept until {instant(failed.due_at_ms)}: {human_bytes(size)}"
        for failed, size in listing.failed_outputs.items()
    ]


def _retired_files(request: Request, log: InspectedLog) -> list[tuple[int, int | None]]:
    """Return (bytes, purge time in ms) of each retired file. Effects: reads the ledger."""
    delay_ms = 0 if log.config is None else log.config.file_delete_delay_ms
    listing = list_partition(request.log_dir / log.partition.directory_name)
    return [
        (file.bytes, None if log.config is None else due_at_ms)
        for file, due_at_ms in retired_files(
            listing, file_delete_delay_ms=delay_ms, force=is_forced(request)
        )
    ]


def _show_everything(output: Output, log: InspectedLog) -> None:
    """Print one partition's offsets, checkpoints, file names and segments. Effects: writes to
    stdout.
    """
    listing = log.listing
    output.text()
    output.text(f"{log.partition}: {len(listing.segments)} segments, {log.bytes} bytes")
    output.text(f"  cleanup.policy: {_policy_text(log, unread='unknown')}")
    if log.stray is not None:
        output.text(f"  stray: {log.stray}")
    for title, facts in (("offsets", log.offsets), ("checkpoints", log.recorded)):
        if facts:
            words = (f"{name} {'-' if value is None else value}" for name, value in facts.items())
            output.text(f"  {title}: {', '.join(words)}")
    for title, listed in (
        ("snapshots", listing.snapshots),
        ("leftovers", listing.leftovers),
        ("staged by plans", listing.staging),
        ("others", listing.others),
    ):
        if listed:
            output.text(f"  {title}: {', '.join(map(str, listed))}")
    for failed, size in listing.failed_outputs.items():
        output.text(
            f"  failed output: {size} bytes until {instant(failed.due_at_ms)}: {failed.name}"
        )
    if log.problem is not None:
        output.text(f"  problem: {log.problem}")
    header = ("base offset", "log", "index", "timeindex", "txnindex", "modified")
    output.table(header, [_segment_row(base, files) for base, files in listing.segments.items()])


def _segment_row(base: int, files: Mapping[str, tuple[int, int]]) -> tuple[object, ...]:
    sizes = (size_of(files, suffix) for suffix in names.SEGMENT_SUFFIXES)
    return base, *sizes, instant(files[names.LOG][1] if names.LOG in files else None)


def size_of(files: Mapping[str, tuple[int, int]], suffix: str) -> int | None:
    """Return the size of a segment's file in bytes, None if it does not exist."""
    return files[suffix][0] if suffix in files else None
