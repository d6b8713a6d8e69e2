"""Deliberate faults in what is known of the other replicas, and of the cluster."""

from __future__ import annotations

from typing import Final

from tests.mutation.fault import Fault

_ALONE: Final = ("tests/unit/rescue/test_alone.py", "tests/unit/cli/test_doctor.py")
_OLDER: Final = ("tests/unit/cli/test_older_state.py",)
_MISSING: Final = ("tests/unit/cli/test_missing_inputs.py",)
_ROLLING: Final = (
    "tests/unit/rolling/test_plan.py",
    "tests/unit/config/test_cluster.py::test_what_is_wrong_and_where",
)
_TOMBSTONES: Final = ("tests/unit/rolling/test_tombstones.py",)
_COUNTED: Final = ("tests/e2e/test_rolling_erasure.py::test_a_cleaning_counts_what_is_on_record",)
_INTERRUPTED: Final = (
    "tests/e2e/test_rolling_erasure.py::test_what_an_interrupted_run_counted_is_not_known",
)
_COMMITTED: Final = ("tests/unit/cli/test_high_watermark.py",)
_LIKE_KAFKA: Final = ("tests/property/test_damaged_logs.py",)
_OUTLOOK: Final = ("tests/property/test_outlook.py",)
_STARTS: Final = ("tests/unit/cli/test_recover.py",)
_MARKED: Final = ("tests/unit/cli/test_marked_logs.py",)

REPLICAS: Final[tuple[Fault, ...]] = tuple(
    Fault(family=f"replica: {family}", file=file, right=right, wrong=wrong, tests=tests)
    for family, file, right, wrong, tests in (
        (
            "all of a log counts as committed by default",
            "cli/request.py",
            '    return "recorded", BY_DEFAULT\n',
            '    return "end", BY_DEFAULT\n',
            _COMMITTED,
        ),
        (
            "a log without a high watermark is not named",
            "cli/run/replicas.py",
            "    unknown = [str(each) for each in partitions if each not in recorded]\n",
            "    unknown: list[str] = []\n",
            _COMMITTED,
        ),
        (
            "what is beyond the high watermark is left out without a word",
            "cli/run/replicas.py",
            "    if first < end and is_local(request.place):\n",
            "    if first > end and is_local(request.place):\n",
            _COMMITTED,
        ),
        (
            "eligible leader replicas do not count",
            "rescue/alone.py",
            "    if metadata.features.get(ELIGIBLE_LEADERS, 0):\n",
            "    if metadata.features.get(ELIGIBLE_LEADERS, 0) > 1:\n",
            _ALONE,
        ),
        (
            "an only replica is taken for one of several",
            "rescue/alone.py",
            "len(known.replicas) > 1 and",
            "len(known.replicas) > 0 and",
            _ALONE,
        ),
        (
            "who leads whatever it lacks is not said by the doctor",
            "rescue/start.py",
            "        findings += _alone(plan, cluster.metadata)\n",
            "        pass\n",
            _ALONE,
        ),
        (
            "who leads whatever it lacks is not said after a recovery",
            "cli/recovering.py",
            "    say_if_they_lead(plan.log_dir, plan.lacking, say, metadata=metadata)\n",
            "    say_if_they_lead(plan.log_dir, (), say, metadata=metadata)\n",
            _ALONE,
        ),
        (
            "who leads whatever it lacks is not said of a download",
            "cli/run/download.py",
            "        say_if_they_lead(destination, partitions,",
            "        say_if_they_lead(destination, (),",
            _OLDER,
        ),
        (
            "who leads whatever it lacks is not said of a log that a rescue's undo brings back",
            "cli/run/rescue.py",
            'for step in steps if step.kind == "moved out"))',
            'for step in steps if step.kind == "set aside"))',
            _OLDER,
        ),
        (
            "who leads whatever it lacks is not said of a log whose deletion is undone",
            "cli/run/undo.py",
            "        request.log_dir, [partition], request.output.message,",
            "        request.log_dir, [], request.output.message,",
            _OLDER,
        ),
        (
            "who leads whatever it lacks is not said of a log that is moved from another stop",
            "move/commit.py",
            "    return is_stopped and not have_same_epoch(places.source, places.destination)\n",
            "    return not is_stopped\n",
            _OLDER,
        ),
        (
            "a missing log that is accepted leaves the epoch in the marker",
            "rescue/repair_commit.py",
            "if any(step.kind == _EPOCH or _is_log(",
            "if any(_is_log(",
            _MISSING,
        ),
        (
            "who leads whatever it lacks is not said of a missing log",
            "cli/run/rescue.py",
            'if each.about == "absent log"]',
            'if each.about == "twin"]',
            _MISSING,
        ),
        (
            "a run of the platform whose erasures are not complete succeeds",
            "pipelines/rolling/maintenance.py",
            '    if step == "verify" and _INCOMPLETE in passed:\n',
            "    if _INCOMPLETE in before and _INCOMPLETE not in passed:\n",
            ("tests/e2e/test_rolling_job.py::test_tombstones_of_an_erasure",),
        ),
        (
            "voters are not counted before a stop",
            "rolling/plan.py",
            "    minority = now.quorum.without(broker)\n    if minority is not None:\n",
            "    minority = None\n    if minority is not None:\n",
            _ROLLING,
        ),
        (
            "half of the voters is a majority",
            "rolling/model.py",
            "2 * len(left) > len(self.voters):\n",
            "2 * len(left) >= len(self.voters):\n",
            _ROLLING,
        ),
        (
            "a broker of the file without replicas may be away",
            "rolling/plan.py",
            "    away = sorted((assigned | set(known)) - now.brokers)\n",
            "    away = sorted(assigned - now.brokers)\n",
            _ROLLING,
        ),
        (
            "a rolling erasure appends to one replica",
            "config/cluster.py",
            '    return words[0] == "erase" and AT_ONCE not in words\n',
            '    return words[0] == "erase" and not words\n',
            ("tests/unit/config/test_cluster.py",),
        ),
        (
            "the first record of a key decides whether it is alive",
            "rolling/tombstones.py",
            "        by_key.pop(record.key, None)\n",
            "        record = by_key.pop(record.key, record)\n",
            _TOMBSTONES,
        ),
        (
            "a topic that is not compacted gets tombstones",
            "rolling/tombstones.py",
            "    compacted = [each for each in own if each.delete_retention_ms is not None]\n",
            "    compacted = list(own)\n",
            _TOMBSTONES,
        ),
        (
            "what an open transaction hides counts as looked at",
            "rolling/tombstones.py",
            "        if each.undecided is not None:\n",
            "        if each.undecided == 0:\n",
            _TOMBSTONES,
        ),
        (
            "tombstones that a follower does not know to be committed count as cleaned",
            "rolling/plan.py",
            "(known is None or known < wanted):",
            "known is not None and known > wanted:",
            _TOMBSTONES,
        ),
        (
            "a log that was not listed counts as cleaned up to its end",
            "rolling/plan.py",
            "(known is None or known < wanted):",
            "known is not None and known < wanted:",
            _TOMBSTONES,
        ),
        (
            "only the tombstones of this run have to count",
            "rolling/erasing.py",
            "            if records:\n",
            "            if records and lacking.keys:\n",
            _COUNTED,
        ),
        (
            "what an interrupted run has maintained has counted all",
            "rolling/run.py",
            "        counts = False\n",
            "        counts = True\n",
            _INTERRUPTED,
        ),
        (
            "the last batch is found by its last offset only",
            "recovery/lookup.py",
            "    if like_kafka:\n        is_found",
            "    if not like_kafka:\n        is_found",
            _LIKE_KAFKA,
        ),
        (
            "a horizon that is reached at once is forgotten",
            "erasure/outlook/cleanings.py",
            "        if gives_horizons and is_further:",
            "        if gives_horizons and is_further and config.delete_retention_ms:",
            _OUTLOOK,
        ),
        (
            "a log start in remote storage is forgotten",
            "recovery/commit.py",
            "recorded is not None and recorded < plan.first_base_offset",
            "recorded is not None and recorded > plan.first_base_offset",
            _STARTS,
        ),
        (
            "a future log has the entries of the current one",
            "erasure/erase/directories.py",
            "        own = has_entries(log_dir, marked.partition, marked.name)\n",
            '        own = marked.mark == "future"\n',
            _MARKED,
        ),
    )
)
