"""The files of a partition directory by the kinds of the inventory, and what follows from them
(LogLoader of Kafka 4.3.0).
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from logwright.format.names import (
    CLEANED,
    INDEX,
    SEGMENT_SUFFIXES,
    SNAPSHOT,
    SWAP,
    TIMEINDEX,
)
from logwright.log.inventory import file_place

if TYPE_CHECKING:
    from collections.abc import Iterable

LIVE_SUFFIXES: Final = (*SEGMENT_SUFFIXES, SNAPSHOT)
_LIVE: Final = ("segment", "index", "snapshot")
_OF_A_LOG: Final = frozenset((*_LIVE, "fact", "foreign", "cleaned", "swap"))
_NUMBER: Final = re.compile(r"([0-9]+)\.")
_DIGITS: Final = 20
_USUAL: Final = re.compile(
    r"(?P<segment>00[0-9]{18}\.log)|(?P<index>00[0-9]{18}\.(?:index|timeindex|txnindex))"
    r"|(?P<snapshot>00[0-9]{18}\.snapshot)"
)
"""The kinds of nearly all files; their rows of the inventory say the same, and cost more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileKinds:
    """The names of a partition directory's plain files by kind, each kind sorted.

    Attributes:
        stems: base offsets of the segments, as their ``.log`` files have them.
        indexes: live index files of any kind.
        cleaned: output that was being built.
        swaps: files that replace others, or were about to.
        retired: files that a broker removes when it loads the log.
        foreign: files that look like a log's, with names that no broker writes.
        temporary: snapshots that were being written.
    """

    stems: tuple[str, ...]
    indexes: tuple[str, ...]
    cleaned: tuple[str, ...]
    swaps: tuple[str, ...]
    retired: tuple[str, ...]
    foreign: tuple[str, ...]
    temporary: tuple[str, ...]

    @property
    def orphans(self) -> tuple[str, ...]:
        """Indexes without a log."""
        logs = frozenset(self.stems)
        return tuple([name for name in self.indexes if name[:_DIGITS] not in logs])

    @property
    def missing(self) -> tuple[str, ...]:
        """The indexes that segments must have and do not."""
        wanted = (stem + suffix for stem in self.stems for suffix in (INDEX, TIMEINDEX))
        return tuple(sorted(set(wanted).difference(self.indexes)))

    @property
    def strange(self) -> tuple[str, ...]:
        """Names on which a broker's loading fails, or that it mistakes for others."""
        leftovers = (
            name
            for name in (*self.cleaned, *self.swaps)
            if (live := _without_stage(name)).endswith(LIVE_SUFFIXES) and not _is_live(live)
        )
        return tuple(sorted((*self.foreign, *leftovers)))

    @property
    def committed_swaps(self) -> tuple[str, ...]:
        """The ``.swap`` files that a loader puts in place: those below every ``.cleaned``. It
        removes the others, which were not committed or are half of a split.
        """
        guard = min(map(offset_in, self.cleaned), default=None)
        return tuple([name for name in self.swaps if guard is None or offset_in(name) < guard])

    @property
    def needed_swaps(self) -> tuple[str, ...]:
        """The ``.swap`` files that may be all that is left of their records. Stricter than a
        loader: an uncommitted one also needs the old log, that is a ``.cleaned`` and a ``.log`` of
        its base, or of a lower base and no ``.log`` of its own
        (`logwright.steps.replace_segments`, R1).
        """
        logs = frozenset(self.stems)
        guards = logs.intersection(name[:_DIGITS] for name in self.cleaned)
        lowest = min(guards, default=None)
        return tuple(
            [
                name
                for name in self.swaps
                if (stem := name[:_DIGITS]) not in guards
                and (stem in logs or lowest is None or lowest >= stem)
            ]
        )


def file_kinds(names: Iterable[str]) -> FileKinds:
    """Sort the names of a partition directory's plain files by kind."""
    return _kinds_of(tuple(sorted(names)))


@lru_cache(maxsize=4)  # a recovery asks several times about one directory
def _kinds_of(names: tuple[str, ...]) -> FileKinds:
    by_kind: defaultdict[str, list[str]] = defaultdict(list)
    for name in names:
        usual = _USUAL.fullmatch(name)
        kind = file_place("log", name).kind if usual is None else usual.lastgroup
        by_kind[kind or ""].append(name)
    return FileKinds(
        stems=tuple([name[:_DIGITS] for name in by_kind["segment"]]),
        indexes=tuple(by_kind["index"]),
        cleaned=tuple(by_kind["cleaned"]),
        swaps=tuple(by_kind["swap"]),
        retired=tuple(by_kind["retired"]),
        foreign=tuple(by_kind["foreign"]),
        temporary=tuple(by_kind["temporary"]),
    )


def is_of_a_log(name: str) -> bool:
    """Return whether this is the name of a log's file, or similar to one."""
    return file_place("log", name).kind in _OF_A_LOG


def is_retired(name: str) -> bool:
    """Return whether a broker removes this file when it loads the log. It keeps snapshots of the
    KRaft metadata log.
    """
    return file_place("log", name).kind == "retired"


def offset_in(name: str) -> int:
    """Return the number before the first dot; -1 if there is none
    (LogFileUtils.offsetFromFileName).
    """
    match = _NUMBER.match(name)
    return int(match[1]) if match else -1


def _without_stage(name: str) -> str:
    return name.removesuffix(SWAP).removesuffix(CLEANED)


def _is_live(name: str) -> bool:
    """Return whether this is a segment's or snapshot's file as Kafka writes it."""
    return file_place("log", name).kind in _LIVE
