"""Which plans are alive: a purge leaves their staging directories alone.

A plan is alive from its build until it is committed or discarded, or until the process that made it
dies. Its id holds a token of that process. While a process has plans that are alive in a log
directory it holds an exclusive lock on ``<log dir>/.logwright-plans-<token>.lock``: one descriptor
for each log directory, however many logs are planned. Whoever can take that lock, or finds no such
file, has proof that the process is dead or has ended all its plans there.

Workers that build for a driver hold nothing: the token shows that the plan is another process's. So
does a process that was forked from one with plans. It has a share of the lock, which lasts until
both have ended or the parent has given it back: too long rather than too short.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Final

from logwright.errors import LogwrightError
from logwright.locks import give_lock_back, take_lock, try_lock
from logwright.place.files import names_in

if TYPE_CHECKING:
    from logwright.place.model import Place
    from logwright.units import TimestampMs

_PLAN_ID: Final = re.compile(r"-?[0-9]+-([0-9a-f]{8})-[0-9a-f]{8}")
_LOCK_NAME: Final = re.compile(r"\.logwright-plans-[0-9a-f]{8}\.lock")

_Key = tuple[int, int]
"""Device and inode of a log directory: it may be named in several ways."""


@dataclass(slots=True)
class _LogDir:
    """A log directory in which this process has plans that are alive. `file`: the lock's."""

    path: Path
    file: int
    plans: set[str] = field(default_factory=set)


@dataclass(slots=True)
class _Process:
    """Plans of this process; `visited`: log directories without lock files of dead ones."""

    process: int = field(default_factory=os.getpid)
    token: str = field(default_factory=lambda: os.urandom(4).hex())
    changing: Lock = field(default_factory=Lock)
    log_dirs: dict[_Key, _LogDir] = field(default_factory=dict)
    visited: set[_Key] = field(default_factory=set)


_here = _Process()


def new_plan_id(now_ms: TimestampMs) -> str:
    """Return a unique id for a plan of this process: ``<now>-<token>-<random>``."""
    return f"{now_ms}-{_this_process().token}-{os.urandom(4).hex()}"


def hold_plan(log_dir: Path, plan_id: str) -> None:
    """Count a plan of this process as alive from now on; plans of other processes are ignored.
    Effects: makes and locks the lock file, if it is the first in this log directory.

    Raises:
        NotALogDir: there is no such directory.
        DiskFull, UnreadableFile: there is no room for the file, or something has its name.
    """
    here = _this_process()
    if _token_of(plan_id) != here.token:
        return
    with here.changing:
        key = _key(log_dir)
        directory = here.log_dirs.get(key)
        if directory is None:
            _end_removed(here)
            directory = _LogDir(log_dir, take_lock(log_dir, _lock_name(here.token)))
            here.log_dirs[key] = directory
            if key not in here.visited:
                here.visited.add(key)
                _remove_dead(log_dir, here.token)
        directory.plans.add(plan_id)


def end_plan(log_dir: Path, plan_id: str) -> None:
    """End a plan; one that was not alive is not an error. Effects: removes the lock file with the
    last plan of this process in this log directory.
    """
    here = _this_process()
    if _token_of(plan_id) != here.token:
        return
    with here.changing, suppress(OSError):
        key = _key(log_dir)
        directory = here.log_dirs.get(key)
        if directory is None:
            return
        directory.plans.discard(plan_id)
        if not directory.plans:
            del here.log_dirs[key]
            give_lock_back(log_dir, _lock_name(here.token), directory.file)


def plan_is_alive(log_dir: Place, plan_id: str) -> bool:
    """Return whether a plan that staged something below this log directory is alive; True where
    that is not known, in another place. Effects: removes the lock file of a dead process.
    """
    if not isinstance(log_dir, Path):
        return True
    here, token = _this_process(), _token_of(plan_id)
    if token == here.token:
        with here.changing:
            return any(plan_id in one.plans for one in here.log_dirs.values())
    return token is not None and _is_held(log_dir, _lock_name(token))


def _is_held(log_dir: Path, name: str) -> bool:
    """Return whether another process or thread holds the lock file of this name; True if unknown.
    Effects: removes one that nobody holds.
    """
    try:
        file = os.open(log_dir / name, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        return error.errno != errno.ENOENT
    if not stat.S_ISREG(os.fstat(file).st_mode) or not try_lock(file, "exclusive"):
        os.close(file)
        return True
    give_lock_back(log_dir, name, file)
    return False


def _this_process() -> _Process:
    """Return this process's token and plans: a forked process starts with its own token and without
    plans.
    """
    global _here  # noqa: PLW0603 - one for each process
    if _here.process != os.getpid():
        _here = _Process()
    return _here


def _token_of(plan_id: str) -> str | None:
    matched = _PLAN_ID.fullmatch(plan_id)
    return None if matched is None else matched[1]


def _lock_name(token: str) -> str:
    return f".logwright-plans-{token}.lock"


def _key(log_dir: Path) -> _Key:
    status = os.stat(log_dir)  # noqa: PTH116 -- a path costs, for a fleet
    return status.st_dev, status.st_ino


def _remove_dead(log_dir: Path, own: str) -> None:
    """Remove lock files of processes that died before staging anything: no purge looks for them."""
    with suppress(OSError, LogwrightError):
        for name in names_in(log_dir):
            if _LOCK_NAME.fullmatch(name) and name != _lock_name(own):
                _is_held(log_dir, name)


def _end_removed(here: _Process) -> None:
    """Release the locks of log directories that no longer exist."""
    for key, directory in list(here.log_dirs.items()):
        if os.fstat(directory.file).st_nlink == 0:
            del here.log_dirs[key]
            os.close(directory.file)
