"""A partition's directory as a listing: every plain file stamped, and the segments the names give.

What a broker would have to repair when it loads the directory (LogLoader of Kafka 4.3.0) is found
here by name alone, and refused.
"""

from __future__ import annotations

import os
import re
import stat
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from logwright.errors import UncleanLogDir
from logwright.format import names
from logwright.log.files import OpenDir, file_names, not_regular, unreadable
from logwright.log.model import FileStamp
from logwright.units import INT64_MAX, Offset

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_LIVE_SUFFIXES: Final = (*names.SEGMENT_SUFFIXES, names.SNAPSHOT)
_LEFTOVER_SUFFIXES: Final = (names.CLEANED, names.SWAP)
_LOG_FILE_SUFFIXES: Final = (*_LIVE_SUFFIXES, *_LEFTOVER_SUFFIXES)
stamp: Final[Callable[[tuple[str, int, int, int]], FileStamp]] = partial(tuple.__new__, FileStamp)
"""One of its fields; twice as quick as a call of the class."""
_KNOWN_FILES: Final = frozenset((names.LEADER_EPOCH_CHECKPOINT, names.PARTITION_METADATA))
_MOST_NAMED: Final = 5
_DIGITS: Final = 20
_LARGEST: Final = f"{INT64_MAX:020d}"
_OFFSET: Final = "0[0-8][0-9]{18}"
_WHOLE: Final = re.compile(
    rf"(?:{_OFFSET}\.snapshot/)*"
    rf"(?:({_OFFSET})\.index/\1\.log/(?:\1\.snapshot/)?\1\.timeindex/(?:\1\.txnindex/)?"
    rf"(?:{_OFFSET}\.snapshot/)*)+"
    rf"(?:{names.LEADER_EPOCH_CHECKPOINT}/)?(?:{re.escape(names.PARTITION_METADATA)}/)?"
)
"""The names of all files of a whole log, each with a `/` behind it, which is in no name. Others are
looked at one by one."""
_REMEDIES: Final = {
    True: "The log was left untouched and is whole: `logwright purge` removes what was left.",
    False: "The log was left untouched. Recover it first: `logwright recover`; or start a broker on"
    " the directory and stop it cleanly.",
}
"""By whether a purge is enough (`logwright.purge.plan`, 2 and 3)."""


class Damage(NamedTuple):
    """What the names of a partition's files say.

    Attributes:
        findings: what is wrong, in words.
        stems: base offsets of the segments as they are written, ascending.
        purgeable: a purge is enough to mend it.
    """

    findings: tuple[str, ...]
    stems: tuple[str, ...]
    purgeable: bool


def stamp_files(directory: OpenDir) -> dict[str, FileStamp]:
    """All plain files, by name and in its order. Effects: reads the directory.

    Directories are passed over, as Kafka does, and so is what is neither; unless it has the name of
    a log's file.

    Raises:
        UnreadableFile: a symlink, FIFO, directory or the like has the name of a log's file.
    """
    stamps: dict[str, FileStamp] = {}
    fd = directory.fd
    for name in file_names(directory):
        try:
            found = os.stat(name, dir_fd=fd, follow_symlinks=False)
        except OSError as error:
            raise unreadable(error, directory.file(name)) from error
        if stat.S_ISREG(found.st_mode):
            stamps[name] = stamp((name, found.st_size, found.st_mtime_ns, found.st_ino))
        elif is_of_a_log(name):
            raise not_regular(directory.path / name)
    return stamps


def is_of_a_log(name: str) -> bool:
    """Whether this is the name of a log's file, or like one."""
    return name in _KNOWN_FILES or name.endswith(_LOG_FILE_SUFFIXES)


def segment_stems(
    stamps: Mapping[str, FileStamp], path: str, *, clean_shutdown: bool
) -> tuple[str, ...]:
    """Base offsets of all segments as they are written, ascending, at least one.

    Args:
        stamps: as `stamp_files` gives them.
        path: of the partition's directory.
        clean_shutdown: whether the log directory has the broker's marker.

    Raises:
        UncleanLogDir: the marker is missing, an interrupted operation left files, or a segment is
            not whole; all of that is named.
    """
    found = look_for_damage(stamps)
    if clean_shutdown and not found.findings:
        return found.stems
    findings = list(found.findings)
    if not clean_shutdown:
        marker = f"the broker was not stopped cleanly (no {names.CLEAN_SHUTDOWN_MARKER})"
        findings.insert(0, marker)
    purgeable = clean_shutdown and found.purgeable
    raise UncleanLogDir("; ".join(findings) + ".", path=path, remedy=_REMEDIES[purgeable])


def look_for_damage(stamps: Mapping[str, FileStamp]) -> Damage:
    """What the names say of interrupted operations and missing files."""
    if _WHOLE.fullmatch("/".join([*stamps, ""])):
        whole = [name[:_DIGITS] for name in stamps if name.endswith(names.LOG)]
        return Damage(findings=(), stems=tuple(whole), purgeable=True)
    stems, indexes, leftovers, foreign = _by_kind(stamps)
    logs = set(stems)
    orphans = [name for name in indexes if name[:_DIGITS] not in logs]
    missing = [
        name
        for stem in stems
        for name in (stem + names.INDEX, stem + names.TIMEINDEX)
        if name not in stamps
    ]
    findings = _sentences(leftovers, foreign, orphans, missing)
    if not stems:
        findings.append("there is no segment")
    worthless = bool(stems) and not foreign and not missing
    return Damage(
        findings=tuple(findings),
        stems=tuple(stems),
        purgeable=worthless and (not leftovers or _uncommitted(leftovers, logs)),
    )


def _sentences(
    leftovers: list[str], foreign: list[str], orphans: list[str], missing: list[str]
) -> list[str]:
    """What is wrong with the files of each list, one sentence for one that is not empty."""
    if not (leftovers or foreign or orphans or missing):
        return []
    findings: list[str] = []
    for what, files in (
        ("an interrupted operation left", leftovers),
        ("no broker writes a file", foreign),
        ("there is no .log to", orphans),
        ("a .log lacks its", missing),
    ):
        if files:
            more = f" and {len(files) - _MOST_NAMED} more" if len(files) > _MOST_NAMED else ""
            findings.append(f"{what} {', '.join(files[:_MOST_NAMED])}{more}")
    return findings


def _by_kind(stamps: Mapping[str, FileStamp]) -> tuple[list[str], list[str], list[str], list[str]]:
    """Stems of the logs; names of the indexes; of leftovers; of what only looks like a log's."""
    stems: list[str] = []
    indexes: list[str] = []
    leftovers: list[str] = []
    foreign: list[str] = []
    offset = ""
    for name in stamps:
        stem, suffix = name[:_DIGITS], name[_DIGITS:]
        if suffix in _LIVE_SUFFIXES and (stem == offset or _is_offset(stem)):
            offset = stem
            if suffix == names.LOG:
                stems.append(stem)
            elif suffix != names.SNAPSHOT:
                indexes.append(name)
        elif name.endswith(_LOG_FILE_SUFFIXES):
            (leftovers if name.endswith(_LEFTOVER_SUFFIXES) else foreign).append(name)
    return stems, indexes, leftovers, foreign


def snapshot_offsets(stamps: Mapping[str, FileStamp]) -> tuple[Offset, ...]:
    """Offsets of the producer snapshots, ascending: names are, and all have as many digits."""
    end = -len(names.SNAPSHOT)
    return tuple([Offset(int(name[:end])) for name in stamps if name.endswith(names.SNAPSHOT)])


def _uncommitted(leftovers: list[str], stems: set[str]) -> bool:
    """Whether no swap had been committed: each ``.swap`` has its guard, a ``.cleaned``, and the old
    ``.log``, of the same base; or of a lower one, and no ``.log`` of its own.
    """
    guards = {name[:20] for name in leftovers if name.endswith(names.CLEANED)} & stems
    swaps = {name[:20] for name in leftovers if name.endswith(names.SWAP)}
    return all(
        swap in guards or (swap not in stems and any(guard < swap for guard in guards))
        for swap in swaps
    )


def _is_offset(stem: str) -> bool:
    """Whether this is an offset as Kafka writes it."""
    return len(stem) == _DIGITS and stem.isdecimal() and stem.isascii() and stem <= _LARGEST
