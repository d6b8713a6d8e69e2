"""The sample of keys that the map pass leaves for the checks."""

from __future__ import annotations

from logwright.compaction import digest


def add(sample: digest.KeySample, *, ordinal: int) -> None:
    """One record with the only key there is."""
    notes = digest.new_notes(1)
    digest.make_room(notes, 1)
    hash1, hash2, ordinals, tombstones = notes.sample
    hash1[0], hash2[0], ordinals[0], tombstones[0] = 64, 7, ordinal, False
    notes.sampled[0] = 1
    sample.add(notes, probed=False)


def test_a_batch_that_is_read_twice_counts_once() -> None:
    """As when the map is full in the midst of it, and its hashes are halved."""
    once, twice = digest.KeySample(), digest.KeySample()
    for sample, ordinals in ((once, (3, 5)), (twice, (3, 5, 5))):
        for ordinal in ordinals:
            add(sample, ordinal=ordinal)
    assert once.expected(digest.NOTHING_LEAVES) == twice.expected(digest.NOTHING_LEAVES) != 0
