"""The file steps of a move, and what a broker and logwright do in each state.

The copy is made where no broker looks, in the work directory of a directory with a future log's
name: ``DEST/TOPIC-N.ID-future/.logwright/copy``. Kafka loads that directory as an empty log without
a topic id, and calls it stray. Were the files themselves in it, a broker that starts on a half-made
copy would take it for its own unfinished move and append after a torn end.

=====  ======================================  =============================  =================
state  what exists                             what a broker does             logwright does
=====  ======================================  =============================  =================
C      SOURCE/TOPIC-N; a copy, or a part       serves SOURCE/TOPIC-N; the     copy what is
                                               future directory gets          missing or
                                               ``-stray``                     differs; or remove
                                                                              the copy
D      the same, and DEST's checkpoints have   the same; it drops the         as in C
       the partition's entries                 entries
W1     SOURCE/TOPIC-N.ID-moved; the copy,      does not start: it names the   continue; or rename
       whole and synced                        directory                      the source back
W2     SOURCE/TOPIC-N.ID-moved; DEST/TOPIC-N   the same                       continue
F      SOURCE/TOPIC-N.ID-delete; DEST/TOPIC-N  serves DEST/TOPIC-N, deletes   remove SOURCE's
                                               ``-delete`` after its delay    entries
=====  ======================================  =============================  =================

- **Never two current copies**: the source loses its name first. Two copies would keep a broker from
  starting, and neither would be known to be right.
- **Never none that a broker can see**: between the two renames there is no TOPIC-N. A broker that
  started then would make a new, empty log for it, and delete a source named ``-delete``. So the
  source is ``-moved`` for that moment, which is not a partition's name: LogManager refuses the log
  directory, says which directory it is, and changes nothing.
- Each phase of the switch is one rename, and the next begins with the fsync that makes it durable:
  so a crash leaves one of these states in any order of the file system, and so does a crash of
  the run that continues after one that was killed between the two.
- The records of ingests and the mark of an erasure (``.logwright`` of the partition) are part of
  the copy. So they are there in W2, before anyone can read the log under its name in DEST.
- DEST's checkpoints are written before the switch and SOURCE's after it: a full disk then stops a
  move where a broker can start.

Sources: KIP-113; LogManager.loadLogs and replaceCurrentWithFutureLog (4.3.0), whose own order,
future to current first, leaves two current logs in a crash.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from logwright.move.plan import Places
from logwright.place.model import FileStamp
from logwright.steps.step import (
    CopyRange,
    FileStep,
    FsyncDir,
    FsyncFile,
    MakeDir,
    RemoveDir,
    RenameDir,
    SetMtime,
    Unlink,
    WriteFile,
)

RANGE_BYTES: Final = 32 * 1024 * 1024
"""Limit of one copy step: the progress bar moves between steps."""


def directory_steps(places: Places) -> Iterator[tuple[Path, tuple[FileStep, ...]]]:
    """Yield each directory that the copy needs, outermost first, and the steps that create it."""
    chain = (
        (places.future, places.live),
        (places.work, None),
        (places.copy, places.live),
        (places.copy_work, None),
    )
    for path, like in chain:
        yield path, (MakeDir(path, like=like), FsyncDir(path.parent))


def copy_steps(
    places: Places,
    wanted: Mapping[str, FileStamp],
    there: Mapping[str, FileStamp],
    files: tuple[FileStamp, ...],
) -> Iterator[FileStep]:
    """Yield the steps that copy the source's files. A file gets its time after all its bytes, so
    that an incomplete one is never taken for complete.

    Args:
        places: of the move.
        wanted, there: as of `files_to_copy`.
        files: which it gave.
    """
    gone = [name for name in there if name not in wanted]
    yield from (Unlink(places.copy / name) for name in gone)
    for stamp in files:
        source, target = places.live / stamp.name, places.copy / stamp.name
        yield WriteFile(target, b"", like=source)
        for position in range(0, stamp.bytes, RANGE_BYTES):
            yield CopyRange(source, target, position, min(RANGE_BYTES, stamp.bytes - position))
        yield SetMtime(target, stamp.modified_ns)
        yield FsyncFile(target)


def settle_steps(places: Places, names: Mapping[str, FileStamp]) -> tuple[FileStep, ...]:
    """Return the steps that make all of the copy durable, including files that an earlier run
    created and did not sync.
    """
    return (
        *(FsyncFile(places.copy / name) for name in names),
        *(FsyncDir(path) for path in (places.copy_work, places.copy, places.work, places.future)),
        FsyncDir(places.destination),
    )


def hide_steps(places: Places) -> tuple[FileStep, ...]:
    """Return the steps from C or D to W1: the source is renamed."""
    return (RenameDir(places.live, places.moved),)


def place_steps(places: Places) -> tuple[FileStep, ...]:
    """Return the steps from W1 to W2: the copy is renamed into place, after the source's rename is
    durable.
    """
    return (FsyncDir(places.source), RenameDir(places.copy, places.placed))


def retire_steps(places: Places) -> tuple[FileStep, ...]:
    """Return the steps from W2 to F: the directories around the copy are removed; once all of that
    is durable, the source gets its deleted name.
    """
    return (
        FsyncDir(places.destination),
        *(RemoveDir(path, missing_ok=True) for path in (places.work, places.future)),
        FsyncDir(places.destination),
        RenameDir(places.moved, places.deleted),
    )


def abandon_steps(
    places: Places, *, hidden: bool, copied: Mapping[str, FileStamp]
) -> tuple[FileStep, ...]:
    """Return the steps back from C, D or W1: the source gets its name again, then the copy is
    removed.

    Args:
        places: of the move.
        hidden: the source has lost its name.
        copied: the copy's files, by name.
    """
    back = (RenameDir(places.moved, places.live), FsyncDir(places.source)) if hidden else ()
    directories = (places.copy_work, places.copy, places.work, places.future)
    return (
        *back,
        *(Unlink(places.copy / name) for name in copied),
        *(RemoveDir(path, missing_ok=True) for path in directories),
        FsyncDir(places.destination),
    )
