"""Deliberate faults that the random models of quorums and of sequences must detect."""

from __future__ import annotations

from typing import Final

from tests.mutation.fault import Fault

_WORLDS: Final = ("tests/property/test_quorum_worlds.py",)
_QUORUM: Final = ("tests/unit/quorum/test_quorum.py",)
_CLUSTERS: Final = ("tests/clusters/test_clusters.py::test_histories",)
_RICH: Final = ("tests/sequences/test_sequences.py::test_cleaning_and_retention_of_rich_logs",)

MODELS: Final[tuple[Fault, ...]] = tuple(
    Fault(family=f"model: {family}", file=file, right=right, wrong=wrong, tests=tests)
    for family, file, right, wrong, tests in (
        (
            "quorum: the oldest state is the source",
            "quorum/plan.py",
            "    return max(states, key=",
            "    return min(states, key=",
            _WORLDS,
        ),
        (
            "quorum: directories of two clusters are taken together",
            "quorum/plan.py",
            "    if len(clusters) > 1:\n",
            "    if len(clusters) > 2:\n",
            _WORLDS,
        ),
        (
            "quorum: a shorter log that parts from the state is not left out",
            "quorum/plan.py",
            "        if is_beyond or state.epoch_at(last) not in (None, other.epoch):\n",
            "        if is_beyond:\n",
            _WORLDS,
        ),
        (
            "quorum: a record of an epoch proves itself",
            "quorum/builder.py",
            "            self._commit(self._epoch_end, f",
            "            self._commit(batch.end_offset, f",
            _WORLDS,
        ),
        (
            "quorum: the epoch that a leader begins is committed at once",
            "quorum/builder.py",
            "            self._epoch_end = batch.end_offset\n",
            '            self._commit(batch.end_offset, "")\n',
            _WORLDS,
        ),
        (
            "quorum: the new epoch is above the smallest one",
            "quorum/plan.py",
            "        last_epoch=max(epochs),\n",
            "        last_epoch=min(epochs),\n",
            _WORLDS,
        ),
        (
            "quorum: what a damage hides is counted from the longest log's end",
            "quorum/read.py",
            "    applied = Offset(0) if source is None else source[1].end_offset\n",
            "    applied = max(Offset(0), *(x.state.end_offset for x in alone if x.state))\n",
            _QUORUM,
        ),
        (
            "quorum: what a node noted does not bound the epoch at a damage",
            "quorum/survivor.py",
            "                _check_begun(batch, following, noted)\n",
            "                _check_begun(batch, following, None)\n",
            _QUORUM,
        ),
        (
            "quorum: producer ids continue from what is left",
            "quorum/counters.py",
            "        value=producer_ids(next_id + PRODUCER_IDS),\n",
            "        value=producer_ids(next_id),\n",
            _CLUSTERS,
        ),
        (
            "retention: a segment is as old as its file",
            "retention/plan.py",
            "        age_ms = now_ms - segment.largest_timestamp_ms\n",
            "        age_ms = now_ms - segment.modified_ns // 1_000_000\n",
            _RICH,
        ),
        (
            "retention: at its age a segment goes",
            "retention/plan.py",
            "        if age_ms <= limit:\n",
            "        if age_ms < limit:\n",
            _RICH,
        ),
        (
            "retention: by size one segment too many",
            "retention/plan.py",
            "        if without < limit:\n",
            "        if bytes_left < limit:\n",
            _RICH,
        ),
        (
            "retention: what is not committed goes",
            "retention/plan.py",
            "        if log.high_watermark < end:\n",
            "        if log.log_end_offset < end:\n",
            _RICH,
        ),
        (
            "cleaning: beyond the high watermark",
            "compaction/plan.py",
            '    offset, reason = log.last_stable_offset, "the last stable offset"\n',
            '    offset, reason = log.log_end_offset, "the last stable offset"\n',
            _RICH,
        ),
        (
            "cleaning: min.compaction.lag.ms is not asked of the first dirty segment",
            "compaction/plan.py",
            "        young = next((each for each in dirty if",
            "        young = next((each for each in dirty[1:] if",
            _RICH,
        ),
    )
)
