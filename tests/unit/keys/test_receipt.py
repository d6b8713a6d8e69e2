"""The sample of keys that the map pass leaves for the checks."""

from __future__ import annotations

import random

from logwright.keys import receipt as digest


def add(sample: digest.KeySample, *, ordinal: int, key: int = 64) -> None:
    """One record of a key."""
    receipt = digest.with_room(digest.new_receipt(1), 1)
    hashes, ordinals, tombstones = receipt.sample
    hashes[0], ordinals[0], tombstones[0] = key, ordinal, False
    receipt.sampled[0] = 1
    sample.add(receipt, probed=False)


def test_a_batch_that_is_read_twice_counts_once() -> None:
    """As when the map is full in the middle of it, and its hashes are halved."""
    once, twice = digest.KeySample(), digest.KeySample()
    for sample, ordinals in ((once, (3, 5)), (twice, (3, 5, 5))):
        for ordinal in ordinals:
            add(sample, ordinal=ordinal)
    assert once.expected(digest.NOTHING_LEAVES) == twice.expected(digest.NOTHING_LEAVES) != 0


def test_the_latest_of_each_key_count() -> None:
    """In whatever order several threads add them."""
    draw = random.Random(1)
    for keys in (1, 3, 50):
        records = [(draw.randrange(keys), ordinal) for ordinal in range(100)]
        latest, all_of_them = digest.KeySample(), digest.KeySample()
        for key, ordinal in dict(records).items():
            add(latest, ordinal=ordinal, key=key)
        draw.shuffle(records)
        for key, ordinal in records:
            add(all_of_them, ordinal=ordinal, key=key)
        total = all_of_them.expected(digest.NOTHING_LEAVES)
        assert latest.expected(digest.NOTHING_LEAVES) == total != 0
