"""Whether a broker's user may read and write what a start opens.

By owner, group and mode alone, as of the user who starts the broker: so it is the same whoever
asks, root among them. A broker opens all segments and indexes for reading and writing
(FileRecords.open, AbstractIndex), reads the other files, and replaces them by new ones of the same
name. A start that recovers nothing needs no right to write in a log's directory; the first roll or
deletion does, and takes the log directory offline without it (found out with Kafka 4.3.0).
"""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from logwright.errors import PolicyError
from logwright.format.names import BROKER_LOCK, INDEX, LOG, TIMEINDEX
from logwright.log.checkpoints import CHECKPOINT_FILES
from logwright.metadata.read import META_PROPERTIES
from logwright.rescue.model import Effect, StartFinding

_READ, _WRITE, _SEARCH = 4, 2, 1
_OPENED: Final = _READ | _WRITE
_LISTED: Final = _READ | _SEARCH
_ALL: Final = _READ | _WRITE | _SEARCH
_LATER: Final = " If a broker starts, it takes the directory offline at the first write there."
_WORDS: Final = {
    _READ: "read",
    _OPENED: "read and write",
    _ALL: "list and change",
    _LISTED: "list",
    _SEARCH: "pass",
}


@dataclass(frozen=True, slots=True)
class User:
    """Who starts the broker.

    Attributes:
        groups: all of its groups' ids.
    """

    name: str
    uid: int
    groups: frozenset[int]


def user_named(name: str) -> User:
    """Return a user by its name or number. Effects: reads the machine's users.

    Raises:
        PolicyError: there is none of this name.
    """
    try:
        return _user(pwd.getpwuid(int(name)) if name.isdecimal() else pwd.getpwnam(name))
    except KeyError as error:
        if name.isdecimal():
            return User(name, int(name), frozenset())
        raise PolicyError(f"there is no user {name} on this machine.") from error


def owner_of(log_dirs: Iterable[Path]) -> User | None:
    """Return who owns the first ``meta.properties``: who formatted the directory, as a rule; None
    if there is none. Effects: looks.
    """
    for log_dir in log_dirs:
        path = log_dir / META_PROPERTIES
        try:
            status = path.lstat()
        except OSError:
            continue
        try:
            return _user(pwd.getpwuid(status.st_uid))
        except KeyError:  # of a container
            return User(str(status.st_uid), status.st_uid, frozenset((status.st_gid,)))
    return None


def _user(entry: pwd.struct_passwd) -> User:
    groups = os.getgrouplist(entry.pw_name, entry.pw_gid)
    return User(entry.pw_name, entry.pw_uid, frozenset(groups))


def judge_rights(log_dir: Path, names: Iterable[str], user: User) -> Iterator[StartFinding]:
    """Yield what a user may not do that a start does, one finding for each directory. Effects:
    looks at the log directory and all of its logs' files.

    Args:
        names: of the logs' directories.
    """
    if user.uid == 0:
        return
    where = log_dir.resolve()
    for above in reversed(where.parents):
        yield from _refused({above: _SEARCH}, user, "stops")
    yield from _refused({where: _ALL}, user, "stops")
    yield from _refused(_of_root(log_dir), user, "stops")
    temporary = (log_dir / f"{name}.tmp" for name in (*CHECKPOINT_FILES, META_PROPERTIES))
    yield from _refused(dict.fromkeys(temporary, _OPENED), user, "not judged")
    for name in names:
        directory = log_dir / name
        stops = [
            *_refused({directory: _LISTED}, user, "stops"),
            *_refused(_of_log(directory), user, "stops"),
        ]
        yield from stops or _refused({directory: _ALL}, user, "not judged")


def _of_root(log_dir: Path) -> dict[Path, int]:
    """Return what a start needs of the files in the root."""
    read = (log_dir / name for name in (*CHECKPOINT_FILES, META_PROPERTIES))
    return {log_dir / BROKER_LOCK: _OPENED, **dict.fromkeys(read, _READ)}


def _of_log(directory: Path) -> dict[Path, int]:
    """Return what a start needs of the files of a log: it reads all, whatever their names are
    (LogLoader.removeTempFilesAndCollectSwapFiles).
    """
    try:
        with os.scandir(directory) as entries:
            names = sorted(entry.name for entry in entries if entry.is_file())
    except OSError:  # it is found that it cannot be listed
        return {}
    return {
        directory / name: _OPENED if name.endswith((LOG, INDEX, TIMEINDEX)) else _READ
        for name in names
    }


def _refused(needs: dict[Path, int], user: User, effect: Effect) -> Iterator[StartFinding]:
    """Yield one finding for the files that a user may not use; what is not there needs nothing."""
    refused: list[tuple[Path, int, os.stat_result]] = []
    for path, need in needs.items():
        try:
            status = path.stat()
        except FileNotFoundError:
            continue
        except OSError:
            return  # a directory above may not be passed by this process; it is found unreadable
        if not _may(status, user, need):
            refused.append((path, need, status))
    if not refused:
        return
    path, need, status = refused[0]
    more = f", nor {len(refused) - 1} more of its directory" if len(refused) > 1 else ""
    top = path.parent if len(refused) > 1 else path
    yield StartFinding(
        path=path,
        problem=f"the user {user.name} may not {_WORDS[need]} it{more}: its owner is"
        f" {status.st_uid}:{status.st_gid}, its mode {stat.S_IMODE(status.st_mode):04o}."
        + (_LATER if effect == "not judged" else ""),
        effect=effect,
        about="machine",
        remedy=f"Give {user.name} the right to pass it."
        if need == _SEARCH
        else f"Give it to {user.name}: `chown -R {user.name} {top}`.",
    )


def _may(status: os.stat_result, user: User, need: int) -> bool:
    if status.st_uid == user.uid:
        mode = status.st_mode >> 6
    else:
        mode = status.st_mode >> 3 if status.st_gid in user.groups else status.st_mode
    return mode & need == need
