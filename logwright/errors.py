"""Every error that the engine raises on purpose. The branch says whose fault it is.

::

    LogwrightError                 exit status
    ├─ PolicyError                 2   the operator's settings
    ├─ CorruptLogError             3   the bytes on disk
    │   ├─ CorruptBatch
    │   ├─ CorruptIndex
    │   ├─ CorruptCheckpoint
    │   └─ CorruptProducerSnapshot
    ├─ RefusedRecord               3   a record that was to be appended
    ├─ UnsupportedFormatError      4   a version, codec or feature that we refuse to guess at
    ├─ PreconditionError           5   the world is not as the operation needs it, or moved
    │   ├─ NotALogDir
    │   ├─ UnreadableFile
    │   ├─ UncleanLogDir
    │   ├─ LossNotAccepted
    │   ├─ LogDirLocked
    │   ├─ StalePlan
    │   ├─ CannotUndo
    │   ├─ Paused
    │   ├─ OutOfMemory
    │   └─ DiskFull
    ├─ QualityError                6   a check or contract failed on the compacted output
    └─ StepFailed                  7   the machine: a file step failed

    InvariantError(AssertionError)     our own fault; never caught

A message never holds a record's key or value, only offsets, positions and lengths.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar


class LogwrightError(Exception):
    """Base of all errors that an operator can act on.

    Attributes:
        path: the file or directory concerned, if there is one.
        position: byte position in that file, if it is known.
        remedy: what to do about it, one sentence.
    """

    exit_status: ClassVar[int] = 1

    def __init__(
        self,
        problem: str,
        *,
        path: Path | str | None = None,
        position: int | None = None,
        remedy: str | None = None,
    ) -> None:
        self.problem = problem
        self.path = Path(path) if path is not None else None
        self.position = position
        self.remedy = remedy
        super().__init__(str(self))

    def __str__(self) -> str:
        where = ""
        if self.path is not None:
            where = f"{self.path}: "
            if self.position is not None:
                where = f"{self.path} at byte {self.position}: "
        remedy = f" {self.remedy}" if self.remedy else ""
        return f"{where}{self.problem}{remedy}"

    def __reduce__(self) -> tuple[object, ...]:
        """Errors cross process borders (Spark workers), so they pickle with their attributes."""
        what = (type(self), self.problem, self.path, self.position, self.remedy)
        return (_rebuild, what, self.__dict__)


def _rebuild(
    kind: type[LogwrightError],
    problem: str,
    path: Path | None,
    position: int | None,
    remedy: str | None,
) -> LogwrightError:
    return kind(problem, path=path, position=position, remedy=remedy)


class PolicyError(LogwrightError):
    """A setting is unknown, malformed or out of Kafka's range."""

    exit_status = 2


class CorruptLogError(LogwrightError):
    """The bytes of a log are wrong. The log was left untouched."""

    exit_status = 3


class CorruptBatch(CorruptLogError):
    """A record batch fails its CRC, its lengths or its structure."""


class CorruptIndex(CorruptLogError):
    """An index file is malformed."""


class CorruptCheckpoint(CorruptLogError):
    """A checkpoint file is malformed."""


class CorruptProducerSnapshot(CorruptLogError):
    """A producer snapshot is malformed."""


class RefusedRecord(LogwrightError):
    """A record that was to be appended is not one that a broker accepts. Nothing was appended."""

    exit_status = 3


class UnsupportedFormatError(LogwrightError):
    """Data of a version, codec or kind that this version does not handle. The log was left
    untouched.
    """

    exit_status = 4


class PreconditionError(LogwrightError):
    """The directory is not in the state that the operation needs. Nothing was changed."""

    exit_status = 5


class NotALogDir(PreconditionError):
    """The directory is missing, or is no Kafka log directory."""


class UnreadableFile(PreconditionError):
    """A file cannot be opened or is not a regular file."""


class UncleanLogDir(PreconditionError):
    """The directory was not shut down cleanly, or holds leftovers of an interrupted operation."""


class LossNotAccepted(PreconditionError):
    """A recovery would drop data that lies behind damage, which nobody has said it may."""


class LogDirLocked(PreconditionError):
    """A broker or another process works on the directory or partition."""


class StalePlan(PreconditionError):
    """The log changed after it was planned."""


class CannotUndo(PreconditionError):
    """What is to be brought back is gone, or the log moved on since."""


class Paused(PreconditionError):
    """Somebody wants the partition to be left alone, or it is in quarantine."""


class OutOfMemory(PreconditionError):
    """What a log needs to be worked on does not fit into memory."""


class DiskFull(PreconditionError):
    """There is no room for the staged output."""


class QualityError(LogwrightError):
    """The compacted output failed a check or a contract; the swap was not done."""

    exit_status = 6


class StepFailed(LogwrightError):
    """A file step could not be executed; the log is in a state that recovery understands.

    Attributes:
        step_number: of the step in its plan, from 1.
        step: its kind, such as ``Rename``.
        errno_name: the system's error, such as ``EIO``.
    """

    exit_status = 7
    step_number: int = 0
    step: str = ""
    errno_name: str = ""


@contextmanager
def enough_memory(log: Path) -> Iterator[None]:
    """Let one log's want of memory be that log's error.

    Raises:
        OutOfMemory: instead of MemoryError.
    """
    try:
        yield
    except MemoryError as error:
        raise OutOfMemory(
            "there is not enough memory for it.",
            path=log,
            remedy="Nothing was changed. Give it more memory, or restore the log: what is damaged"
            " can declare more records than it has.",
        ) from error


class InvariantError(AssertionError):
    """A fault of ours. Never caught."""


def invariant(holds: object, message: str) -> None:
    """Assert what must always hold; stays on in production.

    Raises:
        InvariantError: if it does not hold.
    """
    if not holds:
        raise InvariantError(message)
