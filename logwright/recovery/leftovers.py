"""Find what interrupted operations left in a partition's directory (LogLoader, passes 1 to 3;
pure).

1. ``.deleted`` and ``.cleaned`` files go. A ``.swap`` at or above the smallest ``.cleaned`` was not
   committed, or is half of a split: it goes too.
2. Every file, but a ``.swap``, whose number is in the range of the valid ``.log.swap`` files was
   replaced by them. Kafka takes one range from the smallest to the largest. Without --like-kafka
   each swap has its own, so that no live segment between two is taken for replaced.
3. The valid ``.swap`` files get their final names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from logwright.format.names import DELETED, LOG, SWAP
from logwright.log.kinds import file_kinds, offset_in
from logwright.recovery.model import Leftovers


def find_leftovers(
    names: Iterable[str], next_offsets: Mapping[str, int], *, like_kafka: bool
) -> Leftovers:
    """Decide what becomes of each leftover.

    Args:
        names: of the partition's plain files.
        next_offsets: of each committed swap that is a log: the offset after its last batch, its
            base offset if it has none.
        like_kafka: one range for all swaps.
    """
    present = sorted(names)
    kinds = file_kinds(present)
    swaps, cleaned, deleted = kinds.committed_swaps, kinds.cleaned, kinds.retired
    rolled_back = tuple(name for name in kinds.swaps if name not in swaps)
    ranges = [(offset_in(name), next_offsets[name]) for name in swaps if name.endswith(LOG + SWAP)]
    if like_kafka and ranges:
        ranges = [(min(low for low, _ in ranges), max(high for _, high in ranges))]
    gone = {*swaps, *cleaned, *rolled_back, *deleted}
    covered = tuple(
        name
        for name in present
        if name not in gone
        and any(low <= offset_in(name) < high for low, high in ranges)
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
