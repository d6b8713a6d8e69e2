"""Reading a log directory, whether a broker has it open or not, without keeping one from starting.

A broker that finds ``.lock`` taken, even by a shared lock, ends. So a reader takes none. It asks
for the lock before and afterwards, and looks whether a broker ran in between: one that starts
removes the clean-shutdown marker, and one that stops makes another and removes ``.lock``. What was
read counts only if none did. A recovery by logwright looks the same, and truncates logs as well;
what other commands change meanwhile is noticed by the stamps of what was planned. An append renames
the marker and renames it back (`steps.marker`): it stays the same file.

Not noticed: a broker that starts and is killed while a directory without a marker, that `recover`
made usable, is read.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Final

from logwright.errors import (
    BatchAboveLimit,
    CorruptLogError,
    StalePlan,
    Unsettled,
    UnsupportedFormatError,
)
from logwright.format.names import BROKER_LOCK, CLEAN_SHUTDOWN_MARKER
from logwright.locks import held_by_broker
from logwright.place.model import ReadOnlyPlace
from logwright.running.broker import broker_process
from logwright.running.place import RunningPlace
from logwright.steps.marker import markers_aside

if TYPE_CHECKING:
    from collections.abc import Iterator

    from logwright.place.model import Place

_LOOKS: Final = 10
"""How often the marker may have neither name: an append renames it meanwhile."""


@dataclass(frozen=True, slots=True)
class _Signs:
    """What a broker changes when it starts or stops: inode and modification time in ns of ``.lock``
    and of the clean-shutdown marker, None of what is not there.
    """

    lock: tuple[int, int] | None
    marker: tuple[int, int] | None


@dataclass(slots=True)
class _Watch:
    """A log directory that is being read.

    Attributes:
        before: its signs when the first of its readers began.
        readers: of this process.
    """

    before: _Signs
    readers: int = 0


_watches: dict[str, _Watch] = {}
_turn: Final = Lock()


@contextmanager
def reading(log_dir: Place) -> Iterator[None]:
    """Read a log directory. Afterwards, require that no broker began to work on it meanwhile; of a
    place that can only be read, see `ReadOnlyPlace.reading`. Effects: asks for the broker's lock;
    takes none.

    Raises:
        LogDirLocked: a broker works on it already.
        NotALogDir: there is no such directory.
        UnreadableFile: the lock file may not be read.
        Unsettled: on leaving: a broker started meanwhile. As `ReadOnlyPlace.reading`.
    """
    if isinstance(log_dir, ReadOnlyPlace):
        with log_dir.reading():
            yield
        return
    _begin(log_dir)
    try:
        yield
        _require_no_broker(log_dir)
    except (CorruptLogError, UnsupportedFormatError, BatchAboveLimit, StalePlan):
        _require_no_broker(log_dir)
        raise
    finally:
        _end(log_dir)


def require_history(place: Place, directory: str) -> None:
    """Require now that what was read of a log in `reading` is still its history, before it is
    written anywhere. Effects: looks.

    Args:
        directory: the name of the log's directory.

    Raises:
        Unsettled: it is not.
    """
    if isinstance(place, RunningPlace):
        place.session.require_history(directory)
    elif not isinstance(place, ReadOnlyPlace):
        _require_no_broker(place)


def _begin(log_dir: Path) -> None:
    signs = _signs(log_dir)  # before the question: who starts after it changes them
    process = broker_process(log_dir)
    if process is not None:
        with _turn:
            if _key(log_dir) in _watches:
                raise _started(log_dir)
        raise held_by_broker(log_dir, process)
    with _turn:
        _watches.setdefault(_key(log_dir), _Watch(signs)).readers += 1


def _end(log_dir: Path) -> None:
    with _turn:
        watch = _watches[_key(log_dir)]
        watch.readers -= 1
        if not watch.readers:
            del _watches[_key(log_dir)]


def _require_no_broker(log_dir: Path) -> None:
    with _turn:
        watch = _watches.get(_key(log_dir))
    if watch is None:
        return
    before, now = watch.before, _signs(log_dir)
    has_ended = before.lock is not None and before.lock != now.lock
    if has_ended or before.marker != now.marker or broker_process(log_dir) is not None:
        raise _started(log_dir)


def _started(log_dir: Path) -> Unsettled:
    return Unsettled(
        "a broker worked on it while it was read, or a recovery.",
        path=log_dir,
        remedy="What was read may not be its history any more. Run it again.",
    )


def _key(log_dir: Path) -> str:
    return os.path.abspath(log_dir)  # noqa: PTH100 -- resolve() would follow symlinks


def _signs(log_dir: Path) -> _Signs:
    return _Signs(_identity(log_dir / BROKER_LOCK), _marker(log_dir))


def _marker(log_dir: Path) -> tuple[int, int] | None:
    """Return the identity of the marker, which has another name during an append."""
    for _ in range(_LOOKS):
        seen = _identity(log_dir / CLEAN_SHUTDOWN_MARKER)
        if seen is not None:
            return seen
        aside = markers_aside(log_dir)
        if not aside:
            if _identity(log_dir / CLEAN_SHUTDOWN_MARKER) is None:
                return None
            continue
        seen = _identity(aside[0])
        if seen is not None:
            return seen
    return None


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.lstat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns
