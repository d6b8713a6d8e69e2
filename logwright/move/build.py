"""Build the copy: make it equal to the source, and durable, before it is visible."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from logwright.batches.runtime import Progress
from logwright.errors import DiskFull, QualityError, StalePlan
from logwright.log.checkpoints import read_checkpoints
from logwright.move.observe import (
    Files,
    check_destination,
    check_source,
    differing,
    list_files,
    room,
)
from logwright.move.plan import Places, files_to_copy
from logwright.move.steps import copy_steps, directory_steps, settle_steps
from logwright.place.model import FileStamp
from logwright.steps.filesystem import FileSystem
from logwright.steps.interpreter import execute
from logwright.steps.step import CopyRange, FileStep
from logwright.units import ByteCount

ROUNDS: Final = 3
"""How often the copy is brought up to date with a source that changes, before we give up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Copying:
    """The arguments of building a copy.

    Attributes:
        renew: called now and then, so that the move's pause does not expire.
    """

    places: Places
    fs: FileSystem
    progress: Progress
    renew: Callable[[], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """The figures of a copy.

    Attributes:
        files, bytes: of the whole log.
        copied_bytes: what this run copied, repeats after a change of the source included.
    """

    files: int
    bytes: ByteCount
    copied_bytes: ByteCount


def copy_log(move: Copying) -> Copied:
    """Make the copy equal to the source, and durable. Effects: the destination."""
    places = move.places
    for path, steps in directory_steps(places):
        if not path.is_dir():
            execute(steps, move.fs)
    again: frozenset[str] = frozenset()
    copied = 0
    for _ in range(ROUNDS):
        wanted, there = list_files(places.source, places.live.name), copied_files(places)
        files = files_to_copy(wanted, there, again)
        copied += sum(stamp.bytes for stamp in files)
        execute(_reported(move, copy_steps(places, wanted, there, files), files), move.fs)
        execute(settle_steps(places, wanted), move.fs)
        if list_files(places.source, places.live.name) != wanted:
            continue
        again = differing(places, wanted, _counted(move, "compared", total_bytes(wanted)))
        if not again and list_files(places.source, places.live.name) == wanted:
            return Copied(
                files=len(wanted),
                bytes=total_bytes(wanted),
                copied_bytes=ByteCount(copied),
            )
    if again:
        raise QualityError(
            f"the copy of {min(again)} has other bytes than the source.",
            path=places.copy,
            remedy="The source was left untouched. Check both disks.",
        )
    raise StalePlan(
        "the log changed each time after it was copied.",
        path=places.live,
        remedy="The source was left untouched. Stop the program that writes to it.",
    )


def check_move(places: Places) -> None:
    """Refuse a log that cannot be moved, before anything is created. Effects: reads.

    Raises:
        PreconditionError and its kinds: as `logwright.move.commit.move_partition`.
    """
    check_destination(places)
    check_source(places)
    read_checkpoints(places.destination)  # one that is malformed would stop the switch
    wanted = list_files(places.source, places.live.name)
    space = room(places, files_to_copy(wanted, copied_files(places), frozenset()))
    if space.needed > space.free:
        raise DiskFull(
            f"the copy needs {space.needed} bytes, {space.free} are free.",
            path=places.destination,
            remedy="Nothing was copied. Free some space there.",
        )


def _reported(
    move: Copying, steps: Iterable[FileStep], files: Iterable[FileStamp]
) -> Iterator[FileStep]:
    """Yield the same steps; in between, report the progress and renew the pause."""
    total = sum(stamp.bytes for stamp in files)
    report = _counted(move, "copied", total)
    for step in steps:
        yield step
        if isinstance(step, CopyRange):
            report(step.bytes)
            move.renew()


def _counted(move: Copying, what: str, total: int) -> Callable[[int], None]:
    done = 0

    def report(count: int) -> None:
        nonlocal done
        done += count
        move.progress(what, done, total)
        move.renew()

    return report


def copied_files(places: Places) -> Files:
    """List the copy's files, by name. Effects: reads its directories."""
    if not places.copy.is_dir():
        return {}
    below = places.copy.relative_to(places.destination).parts
    return list_files(places.destination, *below)


def total_bytes(files: Files) -> ByteCount:
    """Return the size of these files."""
    return ByteCount(sum(stamp.bytes for stamp in files.values()))
