"""Deliberate faults in what stops a swap, and in what the sensors ask for."""

from __future__ import annotations

from tests.mutation.fault import Fault

_SUITE = ("tests/unit/assets/segments/test_suite.py",)
_SENSORS = ("tests/unit/pipelines/segments/test_sensors.py",)

_SEQUENCES = ("tests/platform_sequences/test_platform_sequences.py",)

_DUE = ("tests/unit/checks/test_due.py",)

_RULES = {
    "as many records as were written": (
        '        equal("records", "expected_records",'
        ' "as many records are read back as were written"),\n'
    ),
    "as many bytes as were written": (
        '        equal("log_bytes", "expected_bytes",'
        ' "as many bytes are read back as were written"),\n'
    ),
    "no more records than the source": (
        '        at_most("records", "source_records", "no more records than the source has"),\n'
    ),
    "codecs": '        within("max_codec", 0, _MAX_CODEC, "codecs are known"),\n',
}

PLATFORM = (
    *(
        Fault(
            family=f"profile: {name}: the rule is gone",
            file="assets/segments/expectations.py",
            right=rule,
            wrong="",
            tests=_SUITE,
        )
        for name, rule in _RULES.items()
    ),
    Fault(
        family="profile: the growth limit is ten times the policy's",
        file="assets/segments/expectations.py",
        right='profiles["source_bytes"] * policy.max_growth_share)',
        wrong='profiles["source_bytes"] * policy.max_growth_share * 10)',
        tests=_SUITE,
    ),
    Fault(
        family="profile: the growth is not limited",
        file="assets/segments/expectations.py",
        right='"log_bytes", "allowed_bytes",',
        wrong='"log_bytes", "log_bytes",',
        tests=_SUITE,
    ),
    Fault(
        family="profile: the largest batch is not limited",
        file="assets/segments/expectations.py",
        right='            "allowed_batch_bytes",\n',
        wrong='            "largest_batch_bytes",\n',
        tests=_SUITE,
    ),
    Fault(
        family="profile: the larger limit of a batch does not hold",
        file="assets/segments/expectations.py",
        right="largest.clip(lower=policy.max_largest_batch_bytes)",
        wrong="largest.clip(upper=policy.max_largest_batch_bytes)",
        tests=_SUITE,
    ),
    Fault(
        family="profile: the largest segment is not limited",
        file="assets/segments/expectations.py",
        right="            policy.max_segment_log_bytes,\n",
        wrong="            None,\n",
        tests=_SUITE,
    ),
    Fault(
        family="profile: tombstones are not limited",
        file="assets/segments/expectations.py",
        right="            policy.max_tombstone_share,\n",
        wrong="            None,\n",
        tests=_SUITE,
    ),
    Fault(
        family="profile: an output of which nothing is read back passes",
        file="assets/segments/judgement.py",
        right="        violations=int(expected > 0),\n",
        wrong="        violations=0,\n",
        tests=_SUITE,
    ),
    Fault(
        family="sensor: the sweep does not clean what becomes due before the next window",
        file="pipelines/segments/sensors.py",
        right="ahead_ms=choice.ahead_ms, ",
        wrong="",
        tests=_SENSORS,
    ),
    Fault(
        family="sensor: the policies' high watermark is ignored",
        file="sweep/prepare.py",
        right="high_watermark=policies.high_watermark,",
        wrong='high_watermark="end",',
        tests=_SENSORS,
    ),
    Fault(
        family="policies: what counts as committed by default",
        file="config/policies.py",
        right='high_watermark=high_watermark or "checkpoint",',
        wrong='high_watermark=high_watermark or "end",',
        tests=_SENSORS,
    ),
    Fault(
        family="nothing checked: has passed",
        file="assets/lib/evaluations.py",
        right="        if not verdicts:\n            continue\n",
        wrong="",
        tests=("tests/unit/assets/lib/test_evaluations.py",),
    ),
    Fault(
        family="nothing checked: an output without values meets its contract",
        file="assets/segments/values.py",
        right="if isinstance(facts, LogwrightError) or facts.checked:",
        wrong="if True:",
        tests=("tests/unit/assets/lib/test_evaluations.py",),
    ),
    Fault(
        family="nothing checked: a sample without records",
        file="assets/segments/values.py",
        right="            self.add(*self.nearest[1:])\n",
        wrong="            pass\n",
        tests=("tests/unit/assets/lib/test_evaluations.py",),
    ),
    Fault(
        family="nothing checked: free space that is not known is enough",
        file="assets/fleet/inventory.py",
        right="passed=bool(spaces) and not problems",
        wrong="passed=not low",
        tests=("tests/unit/assets/fleet/test_inventory.py",),
    ),
    Fault(
        family="nothing checked: a directory that was not listed is not named",
        file="resources/log_dirs.py",
        right="        if not self.unreadable:\n            return sentence\n",
        wrong="        if True:\n            return sentence\n",
        tests=_SENSORS,
    ),
    Fault(
        family="due: a deletion that no rule asks for passes",
        file="checks/due.py",
        right="        if not (self._by_offset(segment)",
        wrong="        if not (True or self._by_offset(segment)",
        tests=_DUE,
    ),
    Fault(
        family="due: records that are not committed may go",
        file="checks/due.py",
        right="        if not self._committed(segment):\n            yield",
        wrong="        if not self._committed(segment) and False:\n            yield",
        tests=_DUE,
    ),
    Fault(
        family="due: an age that was not read counts as old",
        file="checks/due.py",
        right="        if newest_ms is None or not",
        wrong="        if newest_ms is None:\n            return True\n        if not",
        tests=_DUE,
    ),
    Fault(
        family="due: a file is purged a millisecond early",
        file="checks/due.py",
        right="            if waited_ms < delay_ms:",
        wrong="            if waited_ms < delay_ms - 1:",
        tests=_DUE,
    ),
    Fault(
        family="due: a purge forgets the delay that a file was retired with",
        file="purge/plan.py",
        right="        return by_now_ms if force else max(by_now_ms, line.not_before_ms)",
        wrong="        return by_now_ms",
        tests=("tests/unit/purge/test_purge.py",),
    ),
    Fault(
        family="due: nothing looked at has passed",
        file="checks/due.py",
        right="    return tuple(result for result in results if result.looked_at)",
        wrong="    return results",
        tests=_DUE,
    ),
    Fault(
        family="roll: the step of a run rolls nothing",
        file="sweep/stages.py",
        right="    if not due:\n        return state\n",
        wrong="    if due:\n        return state\n",
        tests=("tests/unit/sweep/test_roll_all.py",),
    ),
    Fault(
        family="lag: the delay is measured at the pick",
        file="sweep/commit.py",
        right="    return plan.compaction.compaction_delay_ms + passed_ms\n",
        wrong="    return plan.compaction.compaction_delay_ms\n",
        tests=("tests/unit/sweep/test_commit.py",),
    ),
    Fault(
        family="sequence: a log is requested while a run has it",
        file="pipelines/segments/due.py",
        right="        elif key in in_flight:\n",
        wrong="        elif key in in_flight and not in_flight:\n",
        tests=_SEQUENCES,
    ),
    Fault(
        family="sequence: a log that becomes due by time is not looked at again",
        file="pipelines/segments/due.py",
        right="    return min(coming, default=NEVER_MS)\n",
        wrong="    return NEVER_MS\n",
        tests=_SEQUENCES,
    ),
    Fault(
        family="sequence: a paused log is requested",
        file="pipelines/segments/due.py",
        right="        if key in held:\n",
        wrong="        if key in held and not reading.due:\n",
        tests=_SEQUENCES,
    ),
    Fault(
        family="sequence: a log that is as it was is requested at each tick",
        file="pipelines/segments/sensors.py",
        right="    readings = with_requests(readings, requested, now_ms=now_ms)\n",
        wrong="",
        tests=_SEQUENCES,
    ),
    Fault(
        family="sequence: a log that is gone stops the others",
        file="resources/log_dirs.py",
        right="        there = [key for key in keys if key not in missing]\n",
        wrong="        there = list(keys)\n",
        tests=_SEQUENCES,
    ),
    Fault(
        family="sequence: a materialization says where the dirty part ends",
        file="assets/segments/report.py",
        right='"first dirty offset": plan.compaction.first_dirty_offset',
        wrong='"first dirty offset": plan.compaction.first_uncleanable_offset',
        tests=_SEQUENCES,
    ),
    Fault(
        family="sequence: a quarantine is as long each time",
        file="state/model.py",
        right="min(FIRST_RETRY_MS << doublings, LAST_RETRY_MS)",
        wrong="min(FIRST_RETRY_MS << min(doublings, 0), LAST_RETRY_MS)",
        tests=_SEQUENCES,
    ),
    Fault(
        family="roll: ends a quarantine",
        file="sweep/commit.py",
        right="    if plan.clean or not plan.config.compact:",
        wrong="    if plan.clean or plan.roll.due:",
        tests=("tests/unit/sweep/test_roll_all.py",),
    ),
)
