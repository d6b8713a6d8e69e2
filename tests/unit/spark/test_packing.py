"""Packing partitions into Spark tasks."""

from __future__ import annotations

import random

import pytest

from logwright.spark.packing import PARTITION_COST_BYTES, pack, share_cores

MIB = 1024 * 1024


@pytest.mark.parametrize(
    ("sizes", "bins", "expected"),
    [
        ([], 8, ()),
        ([5], 8, ((0,),)),
        ([300 * MIB, 200 * MIB, 100 * MIB], 8, ((0,), (1,), (2,))),
        # Equal bytes: the pair costs one more opening, so it comes first.
        ([100 * MIB, 300 * MIB, 200 * MIB], 2, ((2, 0), (1,))),
        ([0, 0, 0, 0], 2, ((0, 2), (1, 3))),
        ([900 * MIB, 1, 1, 1], 2, ((0,), (1, 2, 3))),
    ],
)
def test_pack_table(sizes: list[int], bins: int, expected: tuple[tuple[int, ...], ...]) -> None:
    """Largest first, each to the least full bin; the fullest bin first; no bin empty."""
    assert expected == pack(sizes, bins)


@pytest.mark.parametrize("seed", range(20))
def test_every_partition_is_in_one_bin_and_none_is_much_fuller(seed: int) -> None:
    """Graham's bound of longest processing time first: 4/3 of the optimum."""
    random_ = random.Random(seed)
    sizes = [int(random_.paretovariate(1.2) * MIB) for _ in range(random_.randint(1, 500))]
    bins = random_.randint(1, 16)
    packed = pack(sizes, bins)
    assert sorted(range(len(sizes))) == sorted(item for content in packed for item in content)
    assert min(bins, len(sizes)) == len(packed)
    assert all(packed)
    loads = [sum(sizes[item] + PARTITION_COST_BYTES for item in content) for content in packed]
    assert sorted(loads, reverse=True) == loads
    floor = max(sum(loads) / len(packed), max(sizes) + PARTITION_COST_BYTES)
    assert max(loads) <= floor * 4 / 3 + PARTITION_COST_BYTES


def test_no_bins_is_an_error() -> None:
    """Asking for no task at all is a fault of the caller."""
    with pytest.raises(ValueError, match="0 bins"):
        pack([1], 0)


@pytest.mark.parametrize(
    ("sizes", "threads"),
    [
        ((MIB,), (4,)),
        ((MIB, MIB), (2, 2)),
        ((MIB, MIB, MIB, MIB), (1, 1, 1, 1)),
        ((MIB,) * 9, (1,) * 9),
        ((9 * MIB, MIB), (4, 1)),
        ((MIB, 0), (4, 1)),
        ((0, 0), (1, 1)),
    ],
)
def test_cores_are_shared_by_size(sizes: tuple[int, ...], threads: tuple[int, ...]) -> None:
    """Four cores: all for a log alone, one each for as many logs."""
    assert threads == share_cores(sizes, 4)
