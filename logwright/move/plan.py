"""What a move does, in file steps, and what each of its states is to a broker and to us.

The copy is made where no broker looks, in the work directory of a directory with a future log's
name: ``DEST/TOPIC-N.ID-future/.logwright/copy``. Kafka loads that directory as an empty log without
a topic id, and calls it stray. Were the files themselves in it, a broker that starts on a half-made
copy would take it for its own unfinished move and append behind a torn end.

=====  ======================================  =============================  =================
state  what is there                           what a broker does             what we do next
=====  ======================================  =============================  =================
C      SOURCE/TOPIC-N; a copy, or a part       serves SOURCE/TOPIC-N; the     copy what is
                                               future directory gets          missing or
                                               ``-stray``                     differs; or remove
                                                                              the copy
D      the same, and DEST's checkpoints have   the same; it drops the         as in C
       the partition's entries                 entries
W1     SOURCE/TOPIC-N.ID-moved; the copy,      does not start: it names the   go on; or put the
       whole and synced                        directory                      source back
W2     SOURCE/TOPIC-N.ID-moved; DEST/TOPIC-N   the same                       go on
F      SOURCE/TOPIC-N.ID-delete; DEST/TOPIC-N  serves DEST/TOPIC-N, deletes   remove SOURCE's
                                               ``-delete`` after its delay    entries
=====  ======================================  =============================  =================

- **Never two current copies**: the source loses its name first. Two would keep a broker from
  starting, but nothing would say which of them is right.
- **Never none that a broker can see**: between the two renames there is no TOPIC-N. A broker that
  started then would make a new, empty log for it, and delete a source named ``-delete``. So the
  source is ``-moved`` for that instant, which is no name of a partition: LogManager refuses the log
  directory, says which directory it is, and changes nothing.
- Each phase of the switch is one rename, and the next begins with the fsync that makes it durable:
  so a crash leaves one of these states, whatever the file system reorders, and so does a crash of
  the run that goes on after one that was killed between the two.
- DEST's checkpoints are written before the switch and SOURCE's after it: a full disk then stops a
  move where a broker can start.

Sources: KIP-113; LogManager.loadLogs and replaceCurrentWithFutureLog (4.3.0), whose own order,
future to current first, leaves two current logs in a crash.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from logwright.format.names import (
    DELETE_DIRECTORY,
    FUTURE_DIRECTORY,
    WORK_DIRECTORY,
    TopicPartition,
    marked_directory_name,
)
from logwright.log.model import FileStamp
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

COPY: Final = "copy"
MOVED_DIRECTORY: Final = "-moved"
"""No suffix of Kafka's: see the module."""

RANGE_BYTES: Final = 32 * 1024 * 1024
"""One step copies at most so much: the progress bar moves on between steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """The directories of one move.

    Attributes:
        source, destination: the two log directories.
        move_id: 32 hexadecimal digits.
    """

    source: Path
    destination: Path
    partition: TopicPartition
    move_id: str

    @property
    def live(self) -> Path:
        """The partition's directory in the source."""
        return self.source / self.partition.directory_name

    @property
    def moved(self) -> Path:
        """The same during the switch."""
        return self._marked(self.source, MOVED_DIRECTORY)

    @property
    def deleted(self) -> Path:
        """The same after the switch."""
        return self._marked(self.source, DELETE_DIRECTORY)

    @property
    def future(self) -> Path:
        """The directory in the destination around the copy."""
        return self._marked(self.destination, FUTURE_DIRECTORY)

    @property
    def work(self) -> Path:
        """The work directory in it."""
        return self.future / WORK_DIRECTORY

    @property
    def copy(self) -> Path:
        """The copy itself."""
        return self.work / COPY

    @property
    def copy_work(self) -> Path:
        """The copy's work directory: what the partition remembers of ingests goes along."""
        return self.copy / WORK_DIRECTORY

    @property
    def placed(self) -> Path:
        """The partition's directory in the destination."""
        return self.destination / self.partition.directory_name

    def _marked(self, log_dir: Path, suffix: str) -> Path:
        return log_dir / marked_directory_name(self.partition, self.move_id, suffix)


def directory_steps(places: Places) -> Iterator[tuple[Path, tuple[FileStep, ...]]]:
    """Each directory that the copy needs, from the outside in, and the steps that make it."""
    chain = (
        (places.future, places.live),
        (places.work, None),
        (places.copy, places.live),
        (places.copy_work, None),
    )
    for path, like in chain:
        yield path, (MakeDir(path, like=like), FsyncDir(path.parent))


def files_to_copy(
    wanted: Mapping[str, FileStamp], there: Mapping[str, FileStamp], again: frozenset[str]
) -> tuple[FileStamp, ...]:
    """The source's files that the copy lacks, or has with another size or time.

    Args:
        wanted, there: files of the source and of the copy, by name.
        again: names of files whose bytes are known to differ.
    """
    return tuple(
        stamp
        for name, stamp in wanted.items()
        if name in again or name not in there or not _alike(stamp, there[name])
    )


def copy_steps(
    places: Places,
    wanted: Mapping[str, FileStamp],
    there: Mapping[str, FileStamp],
    files: tuple[FileStamp, ...],
) -> Iterator[FileStep]:
    """Make the copy have the source's files. A file gets its time when all of it is there, so that
    one that was cut short is never taken for whole.

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
    """Make all of the copy durable, also what an earlier run made and did not sync."""
    return (
        *(FsyncFile(places.copy / name) for name in names),
        *(FsyncDir(path) for path in (places.copy_work, places.copy, places.work, places.future)),
        FsyncDir(places.destination),
    )


def hide_steps(places: Places) -> tuple[FileStep, ...]:
    """C or D to W1: the source loses its name."""
    return (RenameDir(places.live, places.moved),)


def place_steps(places: Places) -> tuple[FileStep, ...]:
    """W1 to W2: the copy gets it, once it is durable that the source has lost it, whoever did
    that.
    """
    return (FsyncDir(places.source), RenameDir(places.copy, places.placed))


def retire_steps(places: Places) -> tuple[FileStep, ...]:
    """W2 to F: what was around the copy goes; then, once all of that is durable, the source is
    given up.
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
    """From C, D or W1 back: the source gets its name again, then the copy goes.

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


def _alike(one: FileStamp, other: FileStamp) -> bool:
    return (one.bytes, one.modified_ns) == (other.bytes, other.modified_ns)
