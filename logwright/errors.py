"""The exceptions that the engine raises. The branch of the tree shows who has to act.

::

    LogwrightError                 exit status
    ├─ PolicyError                 2   the operator's settings
    ├─ CorruptLogError             3   the bytes on disk
    │   ├─ CorruptBatch
    │   ├─ CorruptIndex
    │   ├─ CorruptCheckpoint
    │   ├─ CorruptObject
    │   └─ CorruptProducerSnapshot
    ├─ RefusedRecord               3   a record that cannot be appended
    ├─ RecordAboveLimit            3   a record that Kafka's cleaner would not read
    ├─ UnsupportedFormatError      4   an unknown version, codec or feature
    ├─ PreconditionError           5   the log directory or the machine, as it is now
    │   ├─ NotALogDir
    │   ├─ UnreadableFile
    │   ├─ UncleanLogDir
    │   ├─ LossNotAccepted
    │   ├─ LogDirLocked
    │   ├─ StalePlan
    │   ├─ DataLoss
    │   ├─ CannotUndo
    │   ├─ PointNotHeld
    │   ├─ Paused
    │   ├─ OutOfMemory
    │   ├─ BatchAboveLimit
    │   └─ DiskFull
    ├─ QualityError                6   the compacted output failed a check or a contract
    └─ StepFailed                  7   the machine: a file step failed

    InvariantError(AssertionError)     a bug in logwright; never caught

A message never contains a record's key or value, only offsets, positions and lengths, nor what a
URL has of credentials. What cannot be read has the same message everywhere: the functions at the
end make it.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import ClassVar, Final, Self

from logwright.credentials import without_credentials

_UNCHANGED: Final = re.compile(
    r"The log was (?:not changed|left untouched)|Nothing was changed|the log was not changed"
)
"""What the remedies of errors say of a log."""

_NOT_REGULAR: Final = frozenset((errno.ELOOP, errno.ESPIPE, errno.ENXIO))
"""Errors of opening, or reading at a position of, a symlink, a FIFO or a socket."""


class LogwrightError(Exception):
    """Base of all errors that an operator can act on.

    Attributes:
        path: the file or directory concerned, None if there is none.
        position: byte position in that file, None if unknown.
        remedy: what to do about it, one sentence.
    """

    exit_status: ClassVar[int] = 1

    def __init__(
        self,
        problem: str,
        *,
        path: object | None = None,
        position: int | None = None,
        remedy: str | None = None,
    ) -> None:
        self.problem = problem
        # Of another place there is a name, for messages only.
        self.path = None if path is None else Path(str(path))
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
        return without_credentials(f"{where}{self.problem}{remedy}")

    def after_recovery(self) -> Self:
        """Return the error of a log that the same command recovered before: its remedy does not say
        that the log is as it was.
        """
        recovered = copy(self)
        if recovered.remedy:
            sentence = "The log was recovered, and not changed after that"
            recovered.remedy = _UNCHANGED.sub(sentence, recovered.remedy)
        return recovered

    def as_value(self) -> Self:
        """Return the error to be kept: without the frames that it passed. They refer to what was
        under way, open files too, and one of them to where the error is kept.
        """
        link: BaseException | None = self
        while link is not None:
            link.__traceback__ = None
            link = link.__cause__ or link.__context__
        return self

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle with all attributes: errors are sent from Spark workers to the driver."""
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
    """The bytes of a log are invalid. The log was not changed."""

    exit_status = 3


class CorruptBatch(CorruptLogError):
    """A record batch has a wrong CRC, length or structure."""


class CorruptIndex(CorruptLogError):
    """An index file is malformed."""


class CorruptCheckpoint(CorruptLogError):
    """A checkpoint file is malformed."""


class CorruptObject(CorruptLogError):
    """An object of remote storage is missing, shorter than it was, or not what was written."""


class CorruptProducerSnapshot(CorruptLogError):
    """A producer snapshot is malformed."""


class RefusedRecord(LogwrightError):
    """A broker would not accept a record that was to be appended. Nothing was appended."""

    exit_status = 3


class RecordAboveLimit(LogwrightError):
    """A compressed record is above ``max.decompressed.message.bytes``: Kafka's cleaner fails on it.
    The log was not changed.
    """

    exit_status = 3


class UnsupportedFormatError(LogwrightError):
    """Data has a version, codec or feature that is not supported. The log was not changed."""

    exit_status = 4


class PreconditionError(LogwrightError):
    """The operation cannot run in the current state of the directory. Nothing was changed."""

    exit_status = 5


class NotALogDir(PreconditionError):
    """The directory is missing or is not a Kafka log directory."""


class UnreadableFile(PreconditionError):
    """A file cannot be opened or is not a regular file."""


class UncleanLogDir(PreconditionError):
    """The directory was not shut down cleanly, or has leftovers of an interrupted operation."""


class LossNotAccepted(PreconditionError):
    """A recovery would drop data after a corrupt batch, without ``--accept-loss``."""


class LogDirLocked(PreconditionError):
    """A broker or another process holds the lock of the directory or partition."""


class StalePlan(PreconditionError):
    """The log changed after it was planned."""


class Unsettled(PreconditionError):
    """A log that a broker has open shows no state that can be trusted, or not yet."""


class DataLoss(PreconditionError):
    """Records that a stream has not read are gone."""


class CannotUndo(PreconditionError):
    """The files of the last change are gone, or the log has changed since."""


class PointNotHeld(PreconditionError):
    """A state was asked for as of a point that the log no longer holds, or does not hold yet."""


class Paused(PreconditionError):
    """The partition is paused or in quarantine."""


class OutOfMemory(PreconditionError):
    """Processing a log needs more memory than there is."""


class BatchAboveLimit(PreconditionError):
    """A record batch unpacks to more than the limit. Nobody knows whether it is corrupt."""


class DiskFull(PreconditionError):
    """The disk has not enough space for the output."""


class QualityError(LogwrightError):
    """The compacted output failed a check or a contract; it was not swapped in."""

    exit_status = 6


class StepFailed(LogwrightError):
    """A file step failed; recovery can handle the state that the log is in.

    Attributes:
        step_number: number of the step in its plan, from 1.
        step: kind of the step, such as ``Rename``.
        errno_name: the operating system's error, such as ``EIO``.
    """

    exit_status = 7
    step_number: int = 0
    step: str = ""
    errno_name: str = ""


@contextmanager
def enough_memory(log: object) -> Iterator[None]:
    """Turn MemoryError into an error of the one log that needs the memory.

    Raises:
        OutOfMemory: instead of MemoryError.
    """
    try:
        yield
    except MemoryError as error:
        raise OutOfMemory(
            "not enough memory.",
            path=log,
            remedy="Nothing was changed. Give the process more memory; if the log is damaged,"
            " restore it: a corrupt header can declare too many records.",
        ) from error


class InvariantError(AssertionError):
    """A bug in logwright. Never caught."""


def invariant(holds: object, message: str) -> None:
    """Assert an invariant; active in production too.

    Raises:
        InvariantError: the invariant does not hold.
    """
    if not holds:
        raise InvariantError(message)


def not_regular(path: object) -> UnreadableFile:
    """Return the error for a symlink, FIFO, socket, device or directory in a file's place."""
    return UnreadableFile(
        "expected a regular file.",
        path=path,
        remedy="Symlinks are not followed. Put the file itself here.",
    )


def unreadable(error: OSError, path: object, position: int | None = None) -> UnreadableFile:
    """Return the error for a file or directory that the system cannot read."""
    name = errno.errorcode.get(error.errno or 0, "unknown error")
    what = f"{name}: {error.strerror}" if error.errno else str(error) or type(error).__name__
    remedy = "Check the device."
    if isinstance(error, PermissionError):
        remedy = "Give this user read permission, or run as the broker's user."
    elif isinstance(error, FileNotFoundError):
        remedy = "It vanished while it was read. Stop other programs that use this directory."
    if "://" in str(path) and not isinstance(error, FileNotFoundError):
        remedy = "Look at the URL; the endpoint and the credentials are of the environment."
    return UnreadableFile(f"cannot be read ({what}).", path=path, position=position, remedy=remedy)


def unreadable_file(error: OSError, path: object) -> UnreadableFile:
    """Return the error for a file that cannot be opened, or is none."""
    if isinstance(error, IsADirectoryError) or error.errno in _NOT_REGULAR:
        return not_regular(path)
    return unreadable(error, path)


def no_directory(path: object) -> NotALogDir:
    """Return the error for a partition directory that is missing."""
    return NotALogDir(
        "there is no such partition directory.",
        path=path,
        remedy="Name a partition that is in this log directory.",
    )


def link_or_file(path: object) -> UnreadableFile:
    """Return the error for something else in a partition directory's place."""
    return UnreadableFile(
        "the partition directory is a symlink, or no directory.",
        path=path,
        remedy="Symlinks are not followed; move the directory itself here.",
    )
