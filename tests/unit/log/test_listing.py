"""What the names of a log's files say."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product

from logwright.log.listing import look_for_damage
from logwright.place.model import FileStamp
from logwright.units import ByteCount

OFFSETS = (f"{7:020d}", f"{2**63 - 1:020d}", f"{2**63:020d}", "00", f"{0:019d}٣", f"{0:019d}a")
SUFFIXES = (".index", ".log", ".snapshot", ".timeindex", ".txnindex")
FIRST = tuple(f"{3:020d}{suffix}" for suffix in SUFFIXES)
OTHERS = (
    "leader-epoch-checkpoint",
    "partition.metadata",
    f"{3:020d}.log.deleted",
    f"{3:020d}.log.swap",
    f"{3:020d}.log.cleaned",
    "0.log",
    "partition.metadata\n",
)


def listings() -> Iterator[list[str]]:
    """A whole segment, with a transaction index or without, or none; any files of another one; and
    one more file or none.
    """
    groups = [some for size in range(6) for some in combinations(SUFFIXES, size)]
    first = ((), FIRST, FIRST[:-1])
    for offset, group, before, other in product(OFFSETS, groups, first, ((), *zip(OTHERS))):
        yield sorted([*(offset + suffix for suffix in group), *before, *other])


def stamps(names: list[str]) -> dict[str, FileStamp]:
    return {name: FileStamp(name, ByteCount(0), 0, 0) for name in names}


def test_a_file_that_is_no_logs_changes_nothing() -> None:
    """Names are looked at all at once if they are those of a whole log and no others, else one by
    one: both say the same.
    """
    whole = 0
    for names in listings():
        damage = look_for_damage(stamps(names))
        whole += not damage.findings
        assert damage == look_for_damage(stamps([*names, "zzz"])), names
    assert whole > 100
