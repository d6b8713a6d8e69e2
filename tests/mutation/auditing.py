"""Deliberate faults in the audit of replicas, and in what a coordinated cleaning removes."""

from __future__ import annotations

from tests.mutation.fault import Fault

_RULES = ("tests/unit/audit/test_rules.py",)
_SCENARIOS = ("tests/unit/audit/test_scenarios.py",)
_BOUNDS = ("tests/unit/compaction/test_coordination.py",)

AUDITING = (
    Fault(
        family="audit: a resurrected key whose tombstone is left is not seen",
        file="audit/rules.py",
        right="    later = np.flatnonzero(differs & deleted)\n",
        wrong="    later = np.flatnonzero(differs & ~deleted & deleted)\n",
        tests=_RULES,
    ),
    Fault(
        family="audit: lag counts as a resurrected key",
        file="audit/rules.py",
        right="                superseded = self.latest[number].offset[keys] >= end\n",
        wrong="                superseded = self.latest[number].offset[keys] > end\n",
        tests=_RULES,
    ),
    Fault(
        family="audit: retention counts as removal",
        file="audit/rules.py",
        right="    differs &= here.offset >= keys.spans[second].start\n",
        wrong="",
        tests=_RULES,
    ),
    Fault(
        family="audit: a key without a tombstone is not seen to be back",
        file="audit/rules.py",
        right="        if older == NONE:\n",
        wrong="        if older == NONE and key < 0:\n",
        tests=_RULES,
    ),
    Fault(
        family="audit: aborted data that is shown is a lost record",
        file="audit/rules.py",
        right="        elif here.flags[key] & TRANSACTED:\n",
        wrong="        elif here.flags[key] & HIDDEN:\n",
        tests=_RULES,
    ),
    Fault(
        family="audit: an undecided record is shown",
        file="audit/rules.py",
        right='    shown = (rows["flags"] & HIDDEN) == 0\n',
        wrong='    shown = (rows["flags"] & HIDDEN) <= HIDDEN\n',
        tests=_RULES,
    ),
    Fault(
        family="audit: what a leader had superseded counts as lost",
        file="audit/rules.py",
        right="                missing &= ~(superseded | passed)\n",
        wrong="                missing &= ~passed\n",
        tests=_RULES,
    ),
    Fault(
        family="audit: what a leader had removed counts as lost",
        file="audit/rules.py",
        right="                missing &= ~(superseded | passed)\n",
        wrong="                missing &= ~superseded\n",
        tests=_RULES,
    ),
    Fault(
        family="audit: keys of diverged logs are compared",
        file="audit/rules.py",
        right="    differs &= (here.offset < limit) & (there.offset < limit)\n",
        wrong="",
        tests=_RULES,
    ),
    Fault(
        family="audit: a lost marker is not seen",
        file="audit/rules.py",
        right="(theirs.offset < own.offset) & (theirs.offset < spans[0].end)",
        wrong="(theirs.offset > own.offset) & (theirs.offset < spans[0].end)",
        tests=_RULES,
    ),
    Fault(
        family="audit: a marker that is not reached is lost",
        file="audit/rules.py",
        right="(theirs.offset < own.offset) & (theirs.offset < spans[0].end)",
        wrong="(theirs.offset < own.offset)",
        tests=_RULES,
    ),
    Fault(
        family="audit: hidden and shown are taken for each other",
        file="audit/rules.py",
        right="            shown = theirs.kind[row] == ABORT\n",
        wrong="            shown = theirs.kind[row] != ABORT\n",
        tests=_RULES,
    ),
    Fault(
        family="audit: a transaction that never ends is not seen",
        file="audit/rules.py",
        right="        if marker == NOWHERE and passed and removed:\n",
        wrong="        if marker == NOWHERE and passed and not removed:\n",
        tests=_RULES,
    ),
    Fault(
        family="audit: diverged records are not seen",
        file="audit/rules.py",
        right="    differs = (offsets[1:] == offsets[:-1]) & (sums[1:] != sums[:-1])\n",
        wrong="    differs = (offsets[1:] != offsets[:-1]) & (sums[1:] != sums[:-1])\n",
        tests=_RULES,
    ),
    Fault(
        family="audit: the leader epoch does not count",
        file="batches/invariant_sum.py",
        right="    word = np.uint64(read_int32(data, batch.position + _EPOCH_AT))\n",
        wrong="    word = np.uint64(0)\n",
        tests=("tests/unit/audit/test_scenarios.py", "tests/unit/audit/test_records.py"),
    ),
    Fault(
        family="audit: the codec counts as a difference",
        file="batches/invariant_sum.py",
        right="np.uint64(np.int64(batch.attributes) & _ATTRIBUTES)",
        wrong="np.uint64(np.int64(batch.attributes))",
        tests=("tests/unit/audit/test_records.py",),
    ),
    Fault(
        family="coordination: tombstones go above the bound",
        file="cleaner_rules.py",
        right="    return reached and batch.last_offset < removable_end\n",
        wrong="    return reached\n",
        tests=_BOUNDS,
    ),
    Fault(
        family="coordination: the first offset of a batch counts",
        file="cleaner_rules.py",
        right="    return reached and batch.last_offset < removable_end\n",
        wrong="    return reached and batch.base_offset < removable_end\n",
        tests=_BOUNDS,
    ),
    Fault(
        family="coordination: a marker goes that another replica needs",
        file="compaction/transactions.py",
        right="            keep_held(batches, held)\n",
        wrong="",
        tests=_BOUNDS,
    ),
    Fault(
        family="coordination: the least clean replica does not count",
        file="compaction/coordination.py",
        right="    return min(clean_offset(log) for log in replicas)\n",
        wrong="    return max(clean_offset(log) for log in replicas)\n",
        tests=_BOUNDS,
    ),
    Fault(
        family="coordination: a replica with an open transaction is clean above it",
        file="compaction/coordination.py",
        right="    return min(first_dirty, log.last_stable_offset, log.log_end_offset)\n",
        wrong="    return min(first_dirty, log.log_end_offset)\n",
        tests=_BOUNDS,
    ),
    Fault(
        family="coordination: diverged replicas are cleaned",
        file="sweep/replicas.py",
        right="        if difference is not None:\n",
        wrong="        if difference is not None and difference < 0:\n",
        tests=_SCENARIOS,
    ),
)
