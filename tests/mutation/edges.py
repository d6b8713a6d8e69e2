"""Deliberate faults where a rule ends: a value just at a limit, an entry that may be left out."""

from __future__ import annotations

from typing import Final

from tests.mutation.fault import Fault

_QUORUM: Final = ("tests/unit/quorum/test_quorum.py",)
_LACKING: Final = (
    "tests/unit/quorum/test_quorum.py",
    "tests/unit/quorum/test_replicas.py",
    "tests/e2e/test_quorum_replicas.py",
)
_RUNNING: Final = ("tests/unit/running/test_place.py",)
_TIER: Final = ("tests/unit/tier/test_place.py",)
_OFFSETS: Final = ("tests/unit/offsets/test_offsets.py",)
_CERTIFICATE: Final = ("tests/unit/erasure/certificate/test_make.py",)
_CERTIFICATE_RUNNING: Final = ("tests/unit/cli/test_certificate_running.py",)
_LANDING: Final = ("tests/unit/erasure/test_landing.py",)
_ERASURE: Final = ("tests/unit/erasure/erase/test_check.py",)
_DELTA: Final = ("tests/unit/tables/test_versions.py",)
_RESCUE: Final = ("tests/unit/cli/test_rescue.py",)
_FREE: Final = ("tests/unit/retention/test_plan.py",)
_BUCKET: Final = ("tests/unit/bucket/test_store.py",)
_UPLOAD: Final = ("tests/unit/upload/test_upload.py",)
_UNCHANGED: Final = ("tests/unit/rewrite/test_unchanged.py",)
_KEPT_ENDS: Final = ("tests/unit/rewrite/test_kept_ends.py",)
_OUTCOMES: Final = ("tests/unit/batches/test_outcomes.py",)
_REPLICAS: Final = ("tests/unit/sweep/test_replicas.py",)

EDGES: Final = (
    Fault(
        family="edge: quorum: the longer log is the newer one",
        file="quorum/plan.py",
        right="key=lambda one: (one[1].epoch, one[1].end_offset), default",
        wrong="key=lambda one: (one[1].end_offset, one[1].epoch), default",
        tests=_QUORUM,
    ),
    Fault(
        family="edge: quorum: half of the voters is a quorum",
        file="quorum/model.py",
        right="        return 2 * len(self.whole) > len(self.voters) > 0\n",
        wrong="        return 2 * len(self.whole) >= len(self.voters) > 0\n",
        tests=_QUORUM,
    ),
    Fault(
        family="edge: quorum: directory ids of voters are not compared",
        file="quorum/plan.py",
        right="and (not directories or (each.ids.node_id, each.ids.directory_id) in directories)",
        wrong="and (not directories or bool(directories))",
        tests=_QUORUM,
    ),
    Fault(
        family="edge: quorum: a batch may say more records than it has",
        file="quorum/batches.py",
        right="        if not 0 < header.records_count == header.last_offset_delta + 1 <= MOST",
        wrong="        if not 0 < header.records_count <= header.last_offset_delta + 1 <= MOST",
        tests=_QUORUM,
    ),
    Fault(
        family="edge: quorum: producer ids are given again",
        file="quorum/counters.py",
        right="        value=producer_ids(next_id + PRODUCER_IDS),\n",
        wrong="        value=producer_ids(next_id),\n",
        tests=_QUORUM,
    ),
    Fault(
        family="edge: quorum: a broker continues from its own metadata log",
        file="quorum/write.py",
        right="{new.epoch:010d}.checkpoint",
        wrong="{state.epoch:010d}.checkpoint",
        tests=_LACKING,
    ),
    Fault(
        family="edge: quorum: a replica that lacks records is in sync",
        file="quorum/write.py",
        right="_changes(demoted, state)",
        wrong="_changes((), state)",
        tests=_LACKING,
    ),
    Fault(
        family="edge: quorum: the longer replica has more, whatever its epoch",
        file="quorum/replicas.py",
        right="own, key=lambda broker: own[broker], default=None)",
        wrong="own, key=lambda broker: own[broker].offset, default=None)",
        tests=("tests/unit/quorum/test_replicas.py",),
    ),
    Fault(
        family="edge: quorum: leader epochs go back",
        file="quorum/counters.py",
        right="        yield _raised(record) if key == _PARTITION else record\n",
        wrong="        yield record\n",
        tests=_QUORUM,
    ),
    Fault(
        family="edge: running: a high watermark of before the broker's start counts",
        file="running/picture.py",
        right="facts.marks.written_ns < max(_youngest(snapshot, epochs), facts.started_ns):",
        wrong="facts.marks.written_ns < _youngest(snapshot, epochs):",
        tests=_RUNNING,
    ),
    Fault(
        family="edge: running: the directory may have been renamed meanwhile",
        file="running/snapshot.py",
        right="    if not is_named(directory.fd, parent, name):\n",
        wrong="    if not name:\n",
        tests=_RUNNING,
    ),
    Fault(
        family="edge: tier: the log start of a running broker's checkpoint counts",
        file="tier/tier.py",
        right="        start = None if is_running(holder) else _log_start(holder, directory)\n",
        wrong="        start = _log_start(holder, directory)\n",
        tests=_TIER,
    ),
    Fault(
        family="edge: offsets: a transaction hangs as soon as it is over its timeout",
        file="offsets/judge.py",
        right="    if over_ms <= limits.late_ms:\n",
        wrong="    if over_ms <= 0:\n",
        tests=_OFFSETS,
    ),
    Fault(
        family="edge: offsets: a segment is sealed before its newest record",
        file="offsets/judge.py",
        right="            times.append(max(TimestampMs(sealed_ms), segment.largest_timestamp_ms))",
        wrong="            times.append(TimestampMs(sealed_ms))",
        tests=_OFFSETS,
    ),
    Fault(
        family="edge: certificate: what cannot be read for another reason is not said",
        file="erasure/certificate/changes.py",
        right="if known.get(path) != why},",
        wrong="if path not in known},",
        tests=_CERTIFICATE,
    ),
    Fault(
        family="edge: certificate: one found request ends the search of a running log",
        file="erasure/certificate/running.py",
        right="    if not passing or len(numbers) == concern.requests:\n",
        wrong="    if not passing or numbers:\n",
        tests=_CERTIFICATE_RUNNING,
    ),
    Fault(
        family="edge: requests: a deadline at the receipt is refused",
        file="erasure/landing.py",
        right="        if int(self.deadline) < int(self.received_at):\n",
        wrong="        if int(self.deadline) <= int(self.received_at):\n",
        tests=_LANDING,
    ),
    Fault(
        family="edge: erase: all batches of a producer count as of its open transaction",
        file="erasure/erase/check.py",
        right='        & (batches["last_offset"] >= start_offset)\n',
        wrong='        & (batches["last_offset"] >= 0)\n',
        tests=_ERASURE,
    ),
    Fault(
        family="edge: Delta: a vector that no version knows goes at once",
        file="tables/delta.py",
        right="(keep_ms if each.path in earlier else orphan_ms)",
        wrong="keep_ms",
        tests=_DELTA,
    ),
    Fault(
        family="edge: rescue: one of several free directory ids is taken",
        file="rescue/repair.py",
        right="        return free.pop() if len(free) == 1 else None\n",
        wrong="        return free.pop() if free else None\n",
        tests=_RESCUE,
    ),
    Fault(
        family="edge: rescue: root's inodes count for any user",
        file="rescue/space.py",
        right="(status.f_ffree if is_root else status.f_favail) > 0",
        wrong="status.f_ffree > 0",
        tests=_RESCUE,
    ),
    Fault(
        family="edge: rescue: a start inside the first kept segment is forgotten",
        file="rescue/free.py",
        right="        checkpointed_start=start if start > first else None,\n",
        wrong="        checkpointed_start=None,\n",
        tests=_FREE,
    ),
    Fault(
        family="edge: bucket: the age need not exceed the deadline by a request",
        file="bucket/agreement.py",
        right="agreement.ageMs <= agreement.deadlineMs + LONGEST_REQUEST_MS\n",
        wrong="agreement.ageMs <= agreement.deadlineMs\n",
        tests=_BUCKET,
    ),
    Fault(
        family="edge: bucket: a removal passes over a manifest that vanishes",
        file="bucket/commit.py",
        right="                return Collected(data=(), versions=())\n",
        wrong="                continue\n",
        tests=("tests/unit/bucket/test_commit.py",),
    ),
    Fault(
        family="edge: upload: the high watermark goes back",
        file="upload/plan.py",
        right="        high_watermark=max(before.high_watermark, state.high_watermark),\n",
        wrong="",
        tests=_UPLOAD,
    ),
    Fault(
        family="edge: rewrite: the active segment stays as it is",
        file="rewrite/unchanged.py",
        right="    if segment.base_offset == log.active.base_offset:\n",
        wrong="    if segment.base_offset < 0:\n",
        tests=_UNCHANGED,
    ),
    Fault(
        family="edge: rewrite: a producer without a batch has one",
        file="rewrite/kept_ends.py",
        right="~control & (last[at] >= 0) &",
        wrong="~control &",
        tests=_KEPT_ENDS,
    ),
    Fault(
        family="edge: transactions: an index entry may begin at the marker before",
        file="batches/outcomes.py",
        right="    if entry.first_offset <= marker.previous:\n",
        wrong="    if entry.first_offset < marker.previous:\n",
        tests=_OUTCOMES,
    ),
    Fault(
        family="edge: replicas: a batch at the high watermark is compared",
        file="sweep/replicas.py",
        right='        batches = batches[shown & (batches["last_offset"] < log.high_watermark)]\n',
        wrong='        batches = batches[shown & (batches["last_offset"] <= log.high_watermark)]\n',
        tests=_REPLICAS,
    ),
    Fault(
        family="edge: marker: a log that ends early keeps the broker's epoch",
        file="recovery/model.py",
        right="        return self.cuts or self.created is not None or bool(self.missing)",
        wrong="        return self.cuts or self.created is not None",
        tests=("tests/unit/cli/test_marker.py", "tests/unit/cli/test_missing.py"),
    ),
    *(
        Fault(
            family=f"edge: missing: {what}",
            file=file,
            right=right,
            wrong=wrong,
            tests=("tests/unit/log/test_absence.py", "tests/unit/cli/test_missing.py"),
        )
        for what, file, right, wrong in (
            (
                "what was not committed counts after a crash",
                "log/absence.py",
                "    if is_uncommitted and not traces.clean:\n",
                "    if False:\n",
            ),
            (
                "an index below the end of the segment before it",
                "log/absence.py",
                " or traces.segments[before] > base:",
                ":",
            ),
            (
                "the oldest of all proofs of an end",
                "log/absence.py",
                "        proofs.sort(key=lambda proof: -proof.end_offset)\n",
                "        proofs.sort(key=lambda proof: proof.end_offset)\n",
            ),
            (
                "all of it counts as committed",
                "log/absence.py",
                "    below = min(absence.end_offset, high_watermark) - absence.first_offset\n",
                "    below = absence.end_offset - absence.first_offset\n",
            ),
            (
                "a recovery does not ask",
                "recovery/plan.py",
                "    if plan.gone:\n",
                "    if False:\n",
            ),
            (
                "the proof is not kept",
                "recovery/steps.py",
                "(plan.cuts or bool(plan.missing))",
                "plan.cuts",
            ),
            (
                "a search does not look",
                "erasure/find/search.py",
                "        self._missing(inventory)\n",
                "",
            ),
            (
                "a purge removes the proof",
                "purge/plan.py",
                "        if name not in listing.proofs or offset_in(name) in retired:\n",
                "        if True:\n",
            ),
            (
                "who observes the log is not refused",
                "log/load.py",
                "        _refuse_missing(shared, partition, end, snapshots)\n",
                "        pass\n",
            ),
        )
    ),
    Fault(
        family="edge: marker: a log of another stop keeps the broker's epoch",
        file="move/commit.py",
        right="        if not have_same_epoch(places.source, places.destination):\n",
        wrong="        if places.source == places.destination:\n",
        tests=("tests/unit/cli/test_marker.py",),
    ),
)
