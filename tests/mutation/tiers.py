"""Deliberate faults of what is read of a tier."""

from __future__ import annotations

from typing import Final

from tests.mutation.fault import Fault

_SEQUENCES: Final = ("tests/tier_sequences",)

TIERS: Final = (
    Fault(
        family="tier: remote segments are not cut where the next one begins",
        file="tier/lineage.py",
        right="        bound = min(following, chosen.end + 1)\n",
        wrong="        bound = chosen.end + 1\n",
        tests=_SEQUENCES,
    ),
    Fault(
        family="tier: offsets between two segments are missing in silence",
        file="tier/lineage.py",
        right="        if bound < following < INT64_MAX:\n",
        wrong="        if bound > following:\n",
        tests=_SEQUENCES,
    ),
    Fault(
        family="tier: a segment that is cut ends before its damaged batch in silence",
        file="tier/parts.py",
        right="    if not end.reached:\n",
        wrong="    if end.size < 0:\n",
        tests=("tests/unit/tier", *_SEQUENCES),
    ),
    Fault(
        family="tier: a search does not miss what the events have and the tier lacks",
        file="tier/remote.py",
        right="        if missing:\n",
        wrong="        if missing < 0:\n",
        tests=_SEQUENCES,
    ),
    Fault(
        family="tier: offsets that no remote segment has count as searched",
        file="erasure/find/elsewhere.py",
        right="gaps = list(tier.gaps(place, directory, partition, (start, base)))\n",
        wrong="gaps = []\n",
        tests=_SEQUENCES,
    ),
)
