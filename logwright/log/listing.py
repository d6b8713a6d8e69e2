"""A partition directory, read once: its plain files, and the segments that their names give.

What a broker would have to repair when it loads the directory (LogLoader of Kafka 4.3.0) is found
by name alone, and refused.
"""

from __future__ import annotations

import os
import re
import stat
from functools import partial
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar

from logwright.errors import UncleanLogDir, not_regular, unreadable
from logwright.format import names
from logwright.log.kinds import FileKinds, file_kinds, is_of_a_log
from logwright.place.local import LocalDir
from logwright.place.model import FileStamp, OpenDir
from logwright.units import Offset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

stamp: Final[Callable[[tuple[str, int, int, int]], FileStamp]] = partial(tuple.__new__, FileStamp)
"""One of its fields; twice as fast as a call of the class."""
_MOST_NAMED: Final = 5
_DIGITS: Final = 20
_OFFSET: Final = "0[0-8][0-9]{18}"
_WHOLE: Final = re.compile(
    rf"(?:{_OFFSET}\.snapshot/)*"
    rf"(?:({_OFFSET})\.index/\1\.log/(?:\1\.snapshot/)?\1\.timeindex/(?:\1\.txnindex/)?"
    rf"(?:{_OFFSET}\.snapshot/)*)+"
    rf"(?:{names.LEADER_EPOCH_CHECKPOINT}/)?(?:{re.escape(names.PARTITION_METADATA)}/)?"
)
"""The names of all files of an intact log, each followed by a `/`, which is in no name. It is
faster than `file_kinds`, which matches the names of other logs one by one."""
_PURGE: Final = "The log was left untouched and is whole: `logwright purge` removes what was left."
"""Remedy if a purge is enough (`logwright.purge.plan`, 2 and 3)."""
_RECOVER: Final = (
    "The log was left untouched. Recover it first: `logwright recover`; or start a broker on the"
    " directory and stop it cleanly."
)
_MOVE: Final = (
    "The log was left untouched. Move the file away: a broker fails on it, or takes it for another"
    " file."
)

_File = TypeVar("_File")


class Listing(NamedTuple, Generic[_File]):
    """The entries of a directory, sorted by name.

    Attributes:
        files: the plain files.
        others: names of directories and of what is neither.
    """

    files: dict[str, _File]
    others: tuple[str, ...]


class Damage(NamedTuple):
    """Damage that the names of a partition's files show.

    Attributes:
        findings: what is wrong, in words.
        stems: base offsets of the segments as they are written, ascending.
        purgeable: a purge is enough to repair it.
        foreign: no broker writes one of the files.
    """

    findings: tuple[str, ...]
    stems: tuple[str, ...]
    purgeable: bool
    foreign: bool = False


def read_listing(
    directory: LocalDir, make: Callable[[str, os.stat_result], _File]
) -> Listing[_File]:
    """List a directory without following links. Effects: reads the directory.

    Args:
        directory: a partition directory, or one below it.
        make: makes the value of a plain file from its name and status.

    Raises:
        UnreadableFile: a symlink, FIFO, directory or the like has the name of a log's file.
    """
    files: dict[str, _File] = {}
    others: list[str] = []
    fd = directory.fd
    for name in directory.names():
        try:
            status = os.stat(name, dir_fd=fd, follow_symlinks=False)
        except OSError as error:
            raise unreadable(error, directory.file(name)) from error
        if stat.S_ISREG(status.st_mode):
            files[name] = make(name, status)
        elif is_of_a_log(name):
            raise not_regular(directory.path / name)
        else:
            others.append(name)
    return Listing(files, tuple(others))


def stamp_of(name: str, status: os.stat_result) -> FileStamp:
    """Return the stamp of a file, for `read_listing`."""
    return stamp((name, status.st_size, status.st_mtime_ns, status.st_ino))


def stamp_files(directory: OpenDir) -> dict[str, FileStamp]:
    """Return all plain files in the order of their names. Kafka ignores other entries, too.

    Effects and errors: as `read_listing`.
    """
    if isinstance(directory, LocalDir):
        return read_listing(directory, stamp_of).files
    stamps: dict[str, FileStamp] = {}
    for kind, stamp, *_ in directory.entries():
        if kind == "file":
            stamps[stamp.name] = stamp
        elif is_of_a_log(stamp.name):
            raise not_regular(directory.file(stamp.name))
    return stamps


def segment_stems(
    stamps: Mapping[str, FileStamp], path: str, *, clean_shutdown: bool
) -> tuple[str, ...]:
    """Return the base offsets of all segments as they are written, ascending, at least one.

    Args:
        stamps: as `stamp_files` gives them.
        path: of the partition's directory.
        clean_shutdown: whether the log directory has the broker's marker.

    Raises:
        UncleanLogDir: the marker is missing, an interrupted operation left files, or a segment is
            not whole; all of that is named.
    """
    damage = look_for_damage(stamps)
    if clean_shutdown and not damage.findings:
        return damage.stems
    findings = list(damage.findings)
    if not clean_shutdown:
        marker = f"the broker was not stopped cleanly (no {names.CLEAN_SHUTDOWN_MARKER})"
        findings.insert(0, marker)
    enough = clean_shutdown and damage.purgeable
    remedy = _MOVE if damage.foreign else _PURGE if enough else _RECOVER
    raise UncleanLogDir("; ".join(findings) + ".", path=path, remedy=remedy)


def look_for_damage(stamps: Mapping[str, FileStamp]) -> Damage:
    """Find interrupted operations and missing files by the names."""
    if _WHOLE.fullmatch("/".join([*stamps, ""])):
        whole = [name[:_DIGITS] for name in stamps if name.endswith(names.LOG)]
        return Damage(findings=(), stems=tuple(whole), purgeable=True)
    kinds = file_kinds(stamps)
    return Damage(
        findings=tuple(_findings(kinds)),
        stems=kinds.stems,
        purgeable=not (kinds.foreign or kinds.missing or kinds.needed_swaps) and bool(kinds.stems),
        foreign=bool(kinds.foreign),
    )


def _findings(kinds: FileKinds) -> list[str]:
    """Return one sentence for each kind of damage."""
    findings: list[str] = []
    for what, files in (
        ("an interrupted operation left", sorted((*kinds.cleaned, *kinds.swaps))),
        ("no broker writes a file", kinds.foreign),
        ("there is no .log to", kinds.orphans),
        ("a .log lacks its", kinds.missing),
    ):
        if files:
            more = f" and {len(files) - _MOST_NAMED} more" if len(files) > _MOST_NAMED else ""
            findings.append(f"{what} {', '.join(files[:_MOST_NAMED])}{more}")
    if not kinds.stems:
        findings.append("there is no segment")
    return findings


def snapshot_offsets(files: Iterable[str]) -> tuple[Offset, ...]:
    """Return the offsets of the producer snapshots among the files of a log's directory, ascending
    if the names are sorted: all have the same number of digits. Other files may be there, with any
    names.
    """
    parsed = [
        names.parse_segment_file_name(name) for name in files if name.endswith(names.SNAPSHOT)
    ]
    return tuple([Offset(each[0]) for each in parsed if each is not None])
