"""Directories of this machine in which copies of records are for a while, and are removed again:
working copies of logs, copies of a table's files, rows that Spark shuffles.

Each has a lock file next to it, held while it is used. What a killed process left has a lock that
nobody holds, and is removed by the next one. One that is elsewhere (``--scratch``) has a note among
the temporary files of this user, so that the next one learns of it, too.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

from logwright import durable
from logwright.errors import DiskFull, LogwrightError, NotALogDir, PolicyError, unreadable
from logwright.locks import acquire, held
from logwright.place.files import open_log_dir
from logwright.place.local import LocalDir
from logwright.units import ByteCount

_LOG = logging.getLogger(__name__)

_NAME: Final = "logwright-copy-{}"
_OURS: Final = re.compile(r"logwright-copy-[0-9a-f]{16}")
_LOCK: Final = "{}.lock"
_OF_A_USER: Final = re.compile(r"logwright-([0-9]+)")
_NOTE: Final = "elsewhere"
"""File of a directory that is only a note: the path of the one that it is about, and a line end."""
_WITHOUT_DIRECTORIES: Final = 2
"""Links of a directory that has no other one in it. Some file systems do not count them."""


@contextmanager
def working_directory(scratch: Path, needed: ByteCount) -> Iterator[Path]:
    """Give a directory of its own, which is removed on leaving. Effects: makes the scratch
    directory, and removes what killed processes left there.

    Args:
        scratch: where. Nobody but this user and root may be able to rename what is in it: what
            they put in the place of a working copy would be committed.
        needed: bytes that must be free there.

    Raises:
        DiskFull: they are not.
        PolicyError: others may rename what is there.
        UnreadableFile: the scratch directory cannot be made or used.
        LogDirLocked: see `logwright.locks.acquire`.
    """
    name = _NAME.format(secrets.token_hex(8))
    with ExitStack() as stack:
        with suppress(LogwrightError, OSError):  # without a note, the next one there removes it
            own = own_temporary()
            if scratch.resolve() != own.resolve():
                note = stack.enter_context(_directory(own, _NAME.format(secrets.token_hex(8))))
                durable.replace(note / _NOTE, b"%b\n" % os.fsencode(scratch.resolve() / name))
        yield stack.enter_context(_directory(scratch, name, needed))


@contextmanager
def temporary_directory() -> Iterator[Path]:
    """Give a directory of its own among the temporary files of this user. Effects and errors: as
    `working_directory`.
    """
    with working_directory(own_temporary(), ByteCount(0)) as path:
        yield path


def own_temporary() -> Path:
    """Return where working copies are made if nothing else is said: of this user alone."""
    return Path(tempfile.gettempdir()) / f"logwright-{os.geteuid()}"


def left_behind() -> dict[Path, str]:
    """Remove what killed processes of this user left on this machine.

    Returns:
        path → why it is still there, or why nobody knows what is there. What a process uses is not
        among it.
    """
    try:
        own = own_temporary()
    except FileNotFoundError:
        return {}  # no directory for temporary files can be written
    left = _of_others(own.parent, own.name)
    try:
        if os.path.lexists(own):
            _require_own_name(own)
            with open_log_dir(own) as directory:
                _require_own(directory, own)
                left |= _remove_left(directory)
    except LogwrightError as error:
        left[own] = error.problem
    return left


@contextmanager
def _directory(scratch: Path, name: str, needed: ByteCount | None = None) -> Iterator[Path]:
    """Give a directory of this name, locked. Effects: as `working_directory`."""
    _make_scratch(scratch)
    scratch = scratch.resolve()
    with open_log_dir(scratch) as directory:
        _require_own(directory, scratch)
        for path, problem in _remove_left(directory).items():
            _LOG.warning("path=%s a killed command left it, and %s", path, problem)
        free = shutil.disk_usage(scratch).free
        if needed is not None and free < needed:
            raise DiskFull(
                f"the working copy needs {needed} bytes, and {free} are free.",
                path=scratch,
                remedy="Nothing was changed. Give another directory (--scratch DIR), or free some"
                " space.",
            )
        lock = _LOCK.format(name)
        file = acquire(directory, lock, "exclusive")
        while file is None:  # somebody looks whether it is left
            file = acquire(directory, lock, "exclusive")
        path = scratch / name
        with held(file, remove=(directory, lock)):
            try:
                _make(path)
                yield path
            finally:
                shutil.rmtree(path, ignore_errors=True)


def _make_scratch(scratch: Path) -> None:
    """Make the scratch directory. Effects: as said.

    Raises:
        UnreadableFile: it cannot be made. PolicyError: see `_require_own_name`.
    """
    try:
        if scratch == own_temporary():
            _require_own_name(scratch)
            scratch.mkdir(mode=0o700, exist_ok=True)
        durable.make_directory(scratch)
    except OSError as error:
        raise unreadable(error, scratch) from error


def _require_own_name(own: Path) -> None:
    """Refuse a link in the place of the directory of this user. Effects: looks."""
    if own.is_symlink():
        raise PolicyError(
            "it is a symbolic link, which is not followed.",
            path=own,
            remedy="Remove it, or set TMPDIR to another directory.",
        )


def _require_own(directory: LocalDir, scratch: Path) -> None:
    """Refuse a directory in which others may rename what is there. Effects: looks."""
    status = os.fstat(directory.fd)
    others_write = bool(status.st_mode & (stat.S_IWGRP | stat.S_IWOTH))
    if status.st_uid not in {os.geteuid(), 0} or (
        others_write and not status.st_mode & stat.S_ISVTX
    ):
        raise PolicyError(
            "others may change what is in the scratch directory.",
            path=scratch,
            remedy="Give a directory of your own (--scratch DIR, or TMPDIR).",
        )


def _make(path: Path) -> None:
    """Make the directory of a working copy, for this user alone. Effects: as said."""
    try:
        path.mkdir(mode=0o700)
    except OSError as error:
        raise no_room_or_unreadable(error, path, path) from error


def no_room_or_unreadable(error: OSError, path: Path, source: object) -> LogwrightError:
    """Return the error for a file of a working copy that could not be written.

    Args:
        source: what was read for it, for messages.
    """
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return DiskFull(
            "there is no room for the working copy.",
            path=path,
            remedy="Nothing was changed. Give another directory (--scratch DIR).",
        )
    return unreadable(error, source)


def _of_others(temporary: Path, own: str) -> dict[Path, str]:
    """Return the directories of other users that have working copies, or may have some; what is in
    them, and whether it is used, only they can see. Effects: looks.
    """
    there: dict[Path, str] = {}
    try:
        for entry in os.scandir(temporary):
            user = _OF_A_USER.fullmatch(entry.name)
            if user is not None and entry.name != own and entry.is_dir(follow_symlinks=False):
                status = entry.stat(follow_symlinks=False)
                if status.st_uid == int(user[1]) and status.st_nlink != _WITHOUT_DIRECTORIES:
                    there[Path(entry.path)] = "it is of another user, who has copies there"
    except OSError as error:
        there[temporary] = unreadable(error, temporary).problem
    return there


def _remove_left(directory: LocalDir) -> dict[Path, str]:
    """Remove what killed processes left; return what is still there, with the reason. Effects: as
    said.
    """
    left = {}
    names = {name.removesuffix(_LOCK.format("")) for name in directory.names()}
    for name in sorted(filter(_OURS.fullmatch, names)):
        try:
            problem = _remove(directory, name)
        except LogwrightError as error:
            problem = error.problem
        if problem:
            left[directory.path / name] = problem
    return left


def _remove(directory: LocalDir, name: str) -> str:
    """Remove a working copy that nobody uses, and what it is a note of; return why not, empty if it
    is gone or used. Effects: as said.
    """
    lock = _LOCK.format(name)
    file = acquire(directory, lock, "exclusive")
    if file is None:
        return ""
    with held(file, remove=(directory, lock)):
        return _remove_noted(directory.path / name / _NOTE) or _remove_tree(directory, name)


def _remove_noted(note: Path) -> str:
    """Remove the directory that a note is about; return why not. Effects: as said."""
    try:
        content = note.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as error:
        return unreadable(error, note).problem
    path = Path(os.fsdecode(content.removesuffix(b"\n")))
    if not path.is_absolute() or _OURS.fullmatch(path.name) is None:
        return "its note is malformed"
    try:
        with open_log_dir(path.parent) as directory:
            _require_own(directory, path.parent)
            problem = _remove(directory, path.name)
    except NotALogDir:
        problem = f"its directory is not there; if it will not come back, remove {note.parent}"
    except LogwrightError as error:
        problem = error.problem
    return f"is for {path}: {problem}" if problem else ""


def _remove_tree(directory: LocalDir, name: str) -> str:
    """Remove what has a name; links are not followed. Return why not. Effects: as said."""
    path = directory.path / name
    with suppress(OSError):
        mode = os.stat(name, dir_fd=directory.fd, follow_symlinks=False).st_mode
        if stat.S_ISDIR(mode):
            shutil.rmtree(name, ignore_errors=True, dir_fd=directory.fd)
        else:
            os.unlink(name, dir_fd=directory.fd)
        _LOG.warning("path=%s removed: a killed command left it", path)
    try:
        os.stat(name, dir_fd=directory.fd, follow_symlinks=False)
    except FileNotFoundError:
        return ""
    except OSError as error:
        return unreadable(error, path).problem
    return "it cannot be removed"
