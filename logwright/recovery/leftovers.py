"""What interrupted operations left in a partition's directory (LogLoader, passes 1 to 3; pure).

1. ``.deleted`` and ``.cleaned`` files go. A ``.swap`` at or above the smallest ``.cleaned`` was not
   committed, or is half of a split: it goes too.
2. Every file, but a ``.swap``, whose number lies in the range of the valid ``.log.swap`` files was
   replaced by them. Kafka takes one range from the smallest to the largest; without its ways being
   asked for, each swap has its own, so that no live segment between two is taken for replaced.
3. The valid ``.swap`` files get their final names.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from logwright.format.names import (
    CLEANED,
    DELETED,
    INDEX,
    LOG,
    SEGMENT_SUFFIXES,
    SNAPSHOT,
    SWAP,
    TIMEINDEX,
    TXNINDEX,
    parse_segment_file_name,
    segment_file_name,
)
from logwright.recovery.model import Leftovers

_METADATA_SNAPSHOT: Final = ".checkpoint.deleted"
_NUMBER: Final = re.compile(r"([0-9]+)\.")
_LIVE: Final = (*SEGMENT_SUFFIXES, SNAPSHOT)


def is_deleted(name: str) -> bool:
    """Whether a file is retired: a broker removes it when it loads the log."""
    return name.endswith(DELETED) and not name.endswith(_METADATA_SNAPSHOT)


def strange_names(names: Iterable[str]) -> list[str]:
    """Names of a log's files as no broker writes them: its loading fails on them, or mistakes
    them.
    """
    return sorted(
        name
        for name in names
        if name.removesuffix(SWAP).removesuffix(CLEANED).endswith(_LIVE) and not _is_canonical(name)
    )


def _is_canonical(name: str) -> bool:
    parsed = parse_segment_file_name(name.removesuffix(SWAP).removesuffix(CLEANED))
    return parsed is not None and name.startswith(segment_file_name(*parsed))


def orphans_of(names: Collection[str]) -> tuple[str, ...]:
    """Indexes without a log."""
    return tuple(
        sorted(
            name
            for name in names
            if name.endswith((INDEX, TIMEINDEX, TXNINDEX))
            and name.partition(".")[0] + LOG not in names
        )
    )


def valid_swaps(names: Iterable[str]) -> tuple[str, ...]:
    """The ``.swap`` files of swaps that were committed."""
    names = tuple(names)
    guard = min((_number(name) for name in names if name.endswith(CLEANED)), default=None)
    return tuple(
        sorted(
            name
            for name in names
            if name.endswith(SWAP) and (guard is None or _number(name) < guard)
        )
    )


def find_leftovers(
    names: Iterable[str], next_offsets: Mapping[str, int], *, like_kafka: bool
) -> Leftovers:
    """What becomes of each leftover.

    Args:
        names: of the partition's plain files.
        next_offsets: of each of `valid_swaps` that is a log: the offset behind its last batch, its
            base offset if it has none.
        like_kafka: one range for all swaps.
    """
    present = sorted(names)
    swaps = valid_swaps(present)
    cleaned = tuple(name for name in present if name.endswith(CLEANED))
    rolled_back = tuple(name for name in present if name.endswith(SWAP) and name not in swaps)
    deleted = tuple(name for name in present if is_deleted(name))
    ranges = [(_number(name), next_offsets[name]) for name in swaps if name.endswith(LOG + SWAP)]
    if like_kafka and ranges:
        ranges = [(min(low for low, _ in ranges), max(high for _, high in ranges))]
    gone = {*swaps, *cleaned, *rolled_back, *deleted}
    covered = tuple(
        name
        for name in present
        if name not in gone
        and any(low <= _number(name) < high for low, high in ranges)
        and not name.endswith(DELETED)
    )
    files = {name: name for name in present if name not in gone and name not in covered}
    files |= {name.removesuffix(SWAP): name for name in swaps}
    return Leftovers(
        deleted=deleted,
        cleaned=cleaned,
        rolled_back=rolled_back,
        swaps=swaps,
        covered=covered,
        files=files,
    )


def _number(name: str) -> int:
    """The digits before the first dot; -1 if there are none (LogFileUtils.offsetFromFileName)."""
    match = _NUMBER.match(name)
    return int(match[1]) if match else -1
