"""The receipt of the first pass: sums over the records that survive, so that the checks need not
read the source again.

A record is represented by its key's hash and its ordinal, mixed into 64 bits; a set of records by
the sum of these, modulo 2**64. Sums need no order: passes, shards and segments add up.

1. While reading, the first pass sums the records of each batch (`BATCH`'s `keys_digest`), before
   they enter the map.
2. For each shard the offset map's entries are summed: the latest record of each key (`sum_map`).
   Those of the clean section that the map does not supersede are added (`sum_probed`).
3. The output must hold what was summed in 2, which does not use the dead bitmap. What it holds of
   unchanged batches is taken from 1; of rebuilt ones it is summed when they are rebuilt
   (`logwright.rewrite.batch_receipt`), and the checks see that the output has just these
   (`logwright.checks.quick`).
4. The map itself is checked by a sample of the keys, drawn by their hashes, which is sorted
   (`KeySample`). A log of few records is its own sample.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from logwright.cleaner_rules import EXPIRED, NULL_KEY, TOMBSTONE
from logwright.format.batch import DELETE_HORIZON, LOG_APPEND_TIME
from logwright.format.legacy import LEGACY_EXPIRED
from logwright.kernel import inline_kernel, kernel
from logwright.keys.offset_map import find_slot, has_bit, ordinal_at

TOTALS: Final = np.dtype([("digest", np.uint64), ("records", np.uint64), ("sampled", np.uint64)])
"""Records that must survive: their sum, their number, the sum of those in the sample."""
KEY_SUMS: Final = np.dtype([("digest", np.uint64), ("records", np.uint64)])
"""Records with a key in one batch: their sum and their number."""

SAMPLE_RECORDS: Final = 4096
"""About how many records are sampled."""
_COMPACT_AT: Final = 16 * SAMPLE_RECORDS

Leaving = tuple[NDArray[np.int64], NDArray[np.bool_]]
"""All batches, ascending: int64[n] first ordinals, bool[n] whether the delete horizon is
reached."""
NOTHING_LEAVES: Final[Leaving] = (np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.bool_))


class Sample(NamedTuple):
    """Records of the sample.

    Attributes:
        hash1: uint64[n], first halves of hashes. ordinals: int64[n]. tombstones: bool[n].
    """

    hash1: NDArray[np.uint64]
    ordinals: NDArray[np.int64]
    tombstones: NDArray[np.bool_]


_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_ODD = np.uint64(0xD1B54A32D192ED03)


@inline_kernel
def mix(hash1: Any, ordinal: int) -> Any:
    """Return 64 bits for a key, by the first half of its hash, at an ordinal."""
    word = hash1 ^ (np.uint64(ordinal) * _GOLDEN)
    word = (word ^ (word >> np.uint64(32))) * (hash1 << np.uint64(1) | np.uint64(1))
    return word ^ (word >> np.uint64(29))


@inline_kernel
def mix_batch(batch: Any) -> Any:
    """Return 64 bits for a batch: its offsets and its record count."""
    return mix(mix(np.uint64(batch.base_offset) * _ODD, batch.last_offset), batch.count)


@inline_kernel
def keeps_most(kept: int, batch: Any, last_mapped: int) -> Any:
    """Decide whether the sum of a batch that keeps `kept` of its records is that of the first pass
    less what it loses: fewer keys are hashed then. Records above the map's end have no sum.
    """
    return 0 < batch.count <= 2 * kept and batch.last_offset <= last_mapped


@inline_kernel
def horizon_reached(batch: Any, now_ms: int, removable_end: int) -> Any:
    """Decide whether the tombstones of a batch may go (KIP-534, docs/adr/0030). The checks have
    this rule separately: they would not notice a fault in a rule that they share with the passes.
    """
    reached = batch.attributes & DELETE_HORIZON != 0 and batch.base_timestamp <= now_ms
    return (reached or batch.legacy == LEGACY_EXPIRED) and batch.last_offset < removable_end


@kernel
def _mark_reached(batches: Any, now_ms: int, removable_end: int, reached: Any) -> None:
    for row in range(len(batches)):
        reached[row] = horizon_reached(batches[row], now_ms, removable_end)


def leaving(segments: list[NDArray[np.void]], now_ms: int, removable_end: int) -> Leaving:
    """Return which batches, BATCH[n] of each segment, have tombstones that may go: none in a batch
    that ends at or above `removable_end`.

    Data that is removed as aborted must not be in the map. It is not subtracted here: if it is in
    the map, the sums do not agree.
    """
    reached = [np.empty(len(batches), dtype=np.bool_) for batches in segments]
    for batches, marks in zip(segments, reached, strict=True):
        _mark_reached(batches, now_ms, removable_end, marks)
    if not any(bool(marks.any()) for marks in reached):
        return NOTHING_LEAVES
    firsts = np.concatenate([batches["first_ordinal"] for batches in segments])
    return firsts, np.concatenate(reached)


class KeyFacts(NamedTuple):
    """The facts about the keys that the first pass reports to the checks. Sums of
    records are modulo 2**64.

    Attributes:
        hash_key: of the keys' hash.
        digest, records: sum and number of the mapped keys that the output must hold.
        sample_digest, expected_sample_digest: of the sampled keys, by the map and by sorting.
    """

    hash_key: tuple[int, int]
    digest: int
    records: int
    sample_digest: int
    expected_sample_digest: int


class KeyReceipt(NamedTuple):
    """What one thread of the first pass sums and samples for the checks; the kernels change it.

    Attributes:
        totals: TOTALS[1].
        mask: a key is sampled if these bits of its hash are 0.
        sample: room for the sampled records of a step.
        sampled: int64[1], how many of them are used.
    """

    totals: NDArray[np.void]
    mask: np.uint64
    sample: Sample
    sampled: NDArray[np.int64]


def new_receipt(records: int) -> KeyReceipt:
    """Return an empty receipt for a log of this number of records."""
    bits = max((records // SAMPLE_RECORDS).bit_length(), 0)
    return KeyReceipt(
        totals=np.zeros(1, dtype=TOTALS),
        mask=np.uint64((1 << bits) - 1),
        sample=_sample_buffers(0),
        sampled=np.zeros(1, dtype=np.int64),
    )


def with_room(receipt: KeyReceipt, records: int) -> KeyReceipt:
    """Return the receipt with an empty sample that has room for this number of records."""
    receipt.sampled[0] = 0
    if len(receipt.sample.hash1) >= records:
        return receipt
    return receipt._replace(sample=_sample_buffers(records))


def _sample_buffers(size: int) -> Sample:
    return Sample(
        np.empty(size, dtype=np.uint64),
        np.empty(size, dtype=np.int64),
        np.empty(size, dtype=np.bool_),
    )


@inline_kernel
def sample_key(receipt: Any, hash1: Any, ordinal: int, tombstone: bool) -> None:
    """Put a record into the sample of a `KeyReceipt` if its key is drawn."""
    sample, at = receipt.sample, receipt.sampled[0]
    if hash1 & receipt.mask == np.uint64(0) and at < len(sample.hash1):
        sample.hash1[at], sample.ordinals[at] = hash1, ordinal
        sample.tombstones[at] = tombstone
        receipt.sampled[0] = at + 1


@inline_kernel
def note_batch(batch: Any, tombstones: int, first_delta: int) -> None:
    """Set what the records of a batch showed: tombstones, smallest timestamp delta in ms."""
    batch.tombstones, batch.has_tombstone = tombstones, tombstones > 0
    batch.min_timestamp = batch.base_timestamp + first_delta
    if batch.attributes & LOG_APPEND_TIME != 0:
        batch.min_timestamp = batch.max_timestamp


@kernel
def keep_sums(batches: Any, sums: Any) -> None:
    """Add a window's sums, KEY_SUMS[rows], to its batches, BATCH[rows]."""
    for row in range(len(batches)):
        batches[row].keys_digest += sums[row].digest
        batches[row].mapped += np.int32(sums[row].records)


@kernel
def sum_found(records: Any, starts: Any, taken: int, sums: Any, receipt: Any) -> None:
    """Sum and sample the first `taken` records that were read of a window.

    Args:
        records: `FoundRecords`. starts: int64[rows + 1], where each batch's records begin in it.
        sums: KEY_SUMS[rows], set. receipt: `KeyReceipt`, to whose sample they are added.
    """
    hash1, ordinals, kinds = records.hash1, records.ordinals, records.kinds
    mask = receipt.mask
    for row in range(len(sums)):
        total, keys = np.uint64(0), np.uint64(0)
        for index in range(starts[row], min(starts[row + 1], taken)):
            has_key = np.uint64(kinds[index] != NULL_KEY)
            total += mix(hash1[index], ordinals[index]) * has_key
            keys += has_key
        sums[row].digest, sums[row].records = total, keys
    for index in range(taken):
        if hash1[index] & mask == np.uint64(0) and kinds[index] != NULL_KEY:
            is_tombstone = kinds[index] == TOMBSTONE or kinds[index] == EXPIRED
            sample_key(receipt, hash1[index], ordinals[index], is_tombstone)


@kernel
def sum_probed(
    table: Any, batches: Any, records: Any, taken: int, scope: Any, receipt: Any
) -> None:
    """Add to the totals the records of a probed window that no entry of the map supersedes, except
    the tombstones that may go.

    scope: `MapScope`: the clock and the shard are taken from it.
    """
    hash1, hash2, ordinals, kinds = records.hash1, records.hash2, records.ordinals, records.kinds
    shard_start, shard_end = np.uint64(scope.shard_start), np.uint64(scope.shard_end)
    mask, totals = receipt.mask, receipt.totals[0]
    row = 0
    for index in range(taken):
        ordinal = ordinals[index]
        part = hash1[index] >> np.uint64(32)
        if kinds[index] == NULL_KEY or part < shard_start or part >= shard_end:
            continue
        if ordinal_at(table, find_slot(table, hash1[index], hash2[index])) > ordinal:
            continue
        while row + 1 < len(batches) and batches[row + 1].first_ordinal <= ordinal:
            row += 1
        if kinds[index] == EXPIRED and horizon_reached(
            batches[row], scope.now_ms, scope.removable_end
        ):
            continue
        word = mix(hash1[index], ordinal)
        totals.digest += word
        totals.records += np.uint64(1)
        if hash1[index] & mask == np.uint64(0):
            totals.sampled += word


@kernel
def sum_map(table: Any, expired: Any, leaving: Any, mask: Any, totals: Any) -> None:
    """Add the entries of the offset map, except the tombstones that may go.

    Args:
        expired: bitmap by ordinal: tombstones past their horizon.
        leaving: see `Leaving`. mask, totals: of a `KeyReceipt`.
    """
    entries = table.entries
    total, records, sampled = np.uint64(0), np.uint64(0), np.uint64(0)
    for at in range(0, len(entries), 2):
        ordinal = ordinal_at(table, at)
        counts = np.uint64(ordinal >= 0)  # no branch: the CPU could not predict it
        if len(leaving[0]) > 0 and ordinal >= 0 and _leaves(ordinal, expired, leaving):
            counts = np.uint64(0)
        word = mix(entries[at], ordinal) * counts
        total += word
        records += counts
        sampled += word * np.uint64(entries[at] & mask == np.uint64(0))
    totals[0].digest += total
    totals[0].records += records
    totals[0].sampled += sampled


@kernel
def _leaves(ordinal: Any, expired: Any, leaving: Any) -> Any:
    firsts, reached = leaving
    row = np.searchsorted(firsts, ordinal, side="right") - 1
    return has_bit(expired, ordinal) and reached[row]


@kernel
def sum_chosen(hash1: Any, ordinals: Any, chosen: Any) -> Any:
    """Sum of the chosen records."""
    total = np.uint64(0)
    for index in range(len(hash1)):
        if chosen[index]:
            total += mix(hash1[index], ordinals[index])
    return total


class KeySample:
    """The sampled records of the map pass, and which of them are the latest: by sorting."""

    def __init__(self) -> None:
        self._dirty: list[Sample] = []
        self._clean: list[Sample] = []
        self._waiting = 0

    def add(self, receipt: KeyReceipt, *, probed: bool) -> None:
        """Take over the sample of a step."""
        count = int(receipt.sampled[0])
        receipt.sampled[0] = 0
        if count == 0:
            return
        hash1, ordinals, tombstones = receipt.sample
        part = Sample(hash1[:count].copy(), ordinals[:count].copy(), tombstones[:count].copy())
        (self._clean if probed else self._dirty).append(part)
        self._waiting += 0 if probed else count
        if self._waiting > _COMPACT_AT:
            self._dirty, self._waiting = [_latest(_joined(self._dirty))], 0

    def expected(self, leaving: Leaving) -> int:
        """Sum of the sampled records that must survive."""
        hash1, ordinals, _ = latest = _latest(_joined(self._dirty))
        total = int(sum_chosen(hash1, ordinals, _staying(latest, leaving)))
        if not self._clean:
            return total
        clean1, clean_ordinals, _ = clean = _joined(self._clean)
        stays = _staying(clean, leaving)
        if len(hash1):
            at = np.minimum(np.searchsorted(hash1, clean1), len(hash1) - 1)
            stays &= (hash1[at] != clean1) | (ordinals[at] <= clean_ordinals)
        return (total + int(sum_chosen(clean1, clean_ordinals, stays))) % (1 << 64)


def _joined(parts: list[Sample]) -> Sample:
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return _sample_buffers(0)
    return Sample(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _latest(records: Sample) -> Sample:
    """Return the record of the largest ordinal of each hash, ascending by hash."""
    hash1, ordinals, tombstones = records
    if not len(hash1):
        return records
    rows = np.argsort(hash1)
    rows = rows[: int(_keep_latest(hash1, ordinals, rows))]
    return Sample(hash1[rows], ordinals[rows], tombstones[rows])


@kernel
def _keep_latest(hash1: Any, ordinals: Any, rows: Any) -> int:
    """Keep the row with the largest ordinal of each hash, of rows sorted by hash; return the
    number of rows kept. A record may have been read twice.
    """
    kept = 0
    for row in rows:
        if kept > 0 and hash1[row] == hash1[rows[kept - 1]]:
            if ordinals[row] > ordinals[rows[kept - 1]]:
                rows[kept - 1] = row
        else:
            rows[kept] = row
            kept += 1
    return kept


def _staying(records: Sample, leaving: Leaving) -> NDArray[np.bool_]:
    """Return which records are not tombstones that may go, bool[n]."""
    _, ordinals, tombstones = records
    firsts, reached = leaving
    if not len(firsts):
        return np.ones(len(ordinals), dtype=np.bool_)
    rows = np.searchsorted(firsts, ordinals, side="right") - 1
    stays: NDArray[np.bool_] = ~(tombstones & reached[rows])
    return stays
