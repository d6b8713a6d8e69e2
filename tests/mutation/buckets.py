"""Deliberate faults of what changes a log in a bucket."""

from __future__ import annotations

from typing import Final

from tests.mutation.fault import Fault

_SEQUENCES: Final = ("tests/unit/maintenance/test_sequences.py",)
_STATE: Final = (
    "tests/unit/bucket/test_states.py",
    "tests/unit/maintenance/test_state.py",
    "tests/unit/maintenance/test_sequences.py",
)
_RULES: Final = ("tests/unit/bucket", "tests/unit/maintenance/test_maintenance.py")

BUCKETS: Final = (
    Fault(
        family="bucket: segments that another operation changed are replaced",
        file="maintenance/change.py",
        right="    if newest.segments[: len(changed)] != changed or not follows",
        wrong="    if not follows",
        tests=_RULES,
    ),
    Fault(
        family="bucket: producer snapshots that were removed stay",
        file="maintenance/change.py",
        right="    kept = [each for each in newest.snapshots if each not in removed]\n",
        wrong="    kept = list(newest.snapshots)\n",
        tests=_RULES,
    ),
    Fault(
        family="bucket: a create without an answer is taken for done",
        file="bucket/commit.py",
        right="        if winner is not None:\n            return winner\n",
        wrong="        return None\n",
        tests=_SEQUENCES,
    ),
    Fault(
        family="bucket: a version of another operation is taken for its own",
        file="bucket/commit.py",
        right="            if winner.operation == self.operation.id:\n",
        wrong="            if winner.version >= 0:\n",
        tests=_RULES,
    ),
    Fault(
        family="bucket: a purge removes what is not named yet",
        file="bucket/commit.py",
        right="        return now - entry.modified_ms > self.limits.age_ms\n",
        wrong="        return True\n",
        tests=_RULES,
    ),
    Fault(
        family="bucket: an undo takes back the wrong operation",
        file="maintenance/undo.py",
        right='            again.add(int(done.id.split("-")[1]))\n',
        wrong="            pass\n",
        tests=_RULES,
    ),
    Fault(
        family="bucket: a pause after the plan does not stop a commit",
        file="maintenance/maintain.py",
        right="        self._refuse_held(base)\n",
        wrong="",
        tests=_STATE,
    ),
    Fault(
        family="bucket: a quarantine outlasts the cleaning that ends it",
        file="maintenance/sweep.py",
        right="        self.end_quarantine(done)\n",
        wrong="",
        tests=("tests/unit/maintenance/test_sweep.py",),
    ),
    Fault(
        family="bucket: a state of another operation is taken for its own",
        file="bucket/states.py",
        right="        if winner is None or winner.operation == operation:\n",
        wrong="        if winner is None or winner.version >= 0:\n",
        tests=_STATE,
    ),
)
