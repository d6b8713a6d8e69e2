"""Each rule of the Great Expectations suite is broken by an output that breaks no other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from logwright.assets.lib.verdict import LOG_PROFILE, Verdict
from logwright.assets.segments.expectations import (
    Suite,
    _expectations,
    profile_verdicts,
    with_limits,
)
from logwright.assets.segments.profile import log_profiles
from logwright.assets.segments.quality import examine_and_judge
from logwright.checks.model import OutputFacts, SegmentFacts
from logwright.compaction.model import StagedCleaning
from logwright.config.policies import Policies
from logwright.config.policy_models import Expectations
from logwright.format.batch import HEADER_BYTES, parse_batch, serialize_batch, walk_batches
from logwright.sweep.build import build
from logwright.sweep.executor import LocalExecutor
from logwright.sweep.model import LogWork, SweepState
from logwright.units import TimestampMs
from tests import faults
from tests.log_builder import START_MS, LogBuilder
from tests.plans import forced_plan

pytestmark = pytest.mark.filterwarnings("ignore:::great_expectations.*")

POLICY = Expectations(
    max_largest_batch_bytes=600,
    max_segment_log_bytes=1_500,
    max_tombstone_share=0.25,
    max_growth_share=0.5,
)
MAX_MESSAGE_BYTES = 500
"""Below the policy's limit, which holds then."""

GOOD = SegmentFacts(
    topic_partition="",
    base_offset=100,
    log_bytes=1_000,
    batches=2,
    records=4,
    tombstones=1,
    null_key_records=0,
    first_null_key_offset=-1,
    first_offset=100,
    last_offset=110,
    max_codec=4,
    min_timestamp_ms=5,
    max_timestamp_ms=6,
    largest_batch_bytes=600,
    index_entries=1,
    timeindex_entries=1,
    misplaced_index_entries=0,
)
"""At the limit of every rule."""


@dataclass(frozen=True, kw_only=True)
class Output:
    """What was read back, what the build says that it wrote, and what there was before."""

    segments: tuple[SegmentFacts, ...] = (GOOD,)
    written: tuple[int, int] | None = None
    source: tuple[int, int] | None = None

    def facts(self) -> OutputFacts:
        """As the checks return it. By default the build says the truth, and the source has exactly
        as many records, and bytes for the allowed growth.
        """
        read = (
            sum(one.records for one in self.segments),
            sum(one.log_bytes for one in self.segments),
        )
        written = self.written or read
        source = self.source or (read[0], 2 * read[1])
        return OutputFacts(
            topic_partition="",
            plan_id="",
            checks=(),
            segments=self.segments,
            source_records=source[0],
            source_bytes=source[1],
            expected_records=written[0],
            expected_bytes=written[1],
        )


def but(**changed: int) -> Output:
    """A good output but for this."""
    return Output(segments=(GOOD._replace(**changed),))


BREACHES = {
    "as many records are read back as were written": Output(written=(5, 1_000)),
    "as many bytes are read back as were written": Output(written=(4, 1_001)),
    "no more records than the source has": Output(source=(3, 2_000)),
    "not larger than the policy allows (max_growth_share)": Output(source=(4, 1_998)),
    "no batch above max.message.bytes and max_largest_batch_bytes": but(largest_batch_bytes=601),
    "no segment above max_segment_log_bytes": but(log_bytes=1_501),
    "share of tombstones within max_tombstone_share": but(tombstones=2),
    "codecs are known": but(max_codec=5),
}
WITHIN = {
    "at every limit": Output(),
    "two segments": Output(segments=(GOOD, GOOD._replace(base_offset=200))),
    "the largest segment": but(log_bytes=1_500),
    "an empty segment": but(log_bytes=0, batches=0, records=0, tombstones=0, max_codec=-1),
}


def verdicts(outputs: dict[str, Output], policy: Expectations, storage: Path) -> dict[str, Verdict]:
    """The verdicts of one run of the suite on all of them."""
    profiles = with_limits(
        log_profiles({key: one.facts() for key, one in outputs.items()}),
        policy=policy,
        max_message_bytes=dict.fromkeys(outputs, MAX_MESSAGE_BYTES),
    )
    suite = Suite(policy=policy, entries=(), severities=dict.fromkeys(outputs, "ERROR"))
    return dict(profile_verdicts(profiles, suite=suite, storage=storage, run_name="r").verdicts)


def test_every_rule_is_broken_by_an_output_that_breaks_no_other(tmp_path: Path) -> None:
    """By as little as possible; an output at the limits breaks none. There are no other rules."""
    assert BREACHES.keys() == {one.meta["rule"] for one in _expectations(POLICY)}
    judged = verdicts(BREACHES | WITHIN, POLICY, tmp_path)
    expected = {rule: (rule,) for rule in BREACHES} | dict.fromkeys(WITHIN, ())
    assert expected == {key: verdict.broken for key, verdict in judged.items()}
    assert set(BREACHES) == {key for key, verdict in judged.items() if verdict.stops}


def test_a_topic_with_larger_messages_may_have_larger_batches(tmp_path: Path) -> None:
    """The larger of `max.message.bytes` and the policy's limit holds."""
    policy = POLICY.model_copy(update={"max_largest_batch_bytes": MAX_MESSAGE_BYTES - 1})
    sizes = {"a": MAX_MESSAGE_BYTES, "b": MAX_MESSAGE_BYTES + 1}
    outputs = {key: but(largest_batch_bytes=size) for key, size in sizes.items()}
    judged = verdicts(outputs, policy, tmp_path)
    assert {"a": 0, "b": 1} == {key: verdict.violations for key, verdict in judged.items()}


def repeat_a_batch(staged: StagedCleaning) -> None:
    """The last batch stands there many times: more records than there ever were."""
    log = faults.staged_log(staged)
    content = log.read_bytes()
    last = list(walk_batches(content))[-1]
    log.write_bytes(content + content[last.position :] * 40)


def set_an_unknown_codec(staged: StagedCleaning) -> None:
    """The first batch says that it has codec 5, with a right CRC."""
    log = faults.staged_log(staged)
    content = log.read_bytes()
    first = next(iter(walk_batches(content)))
    header = parse_batch(content)
    payload = content[HEADER_BYTES : first.bytes]
    changed = serialize_batch(replace(header, attributes=header.attributes | 5), payload)
    log.write_bytes(changed + content[first.bytes :])


SPOILED: dict[str, tuple[Callable[[StagedCleaning], object], tuple[str, ...]]] = {
    "good": (lambda _: None, ()),
    "lost": (
        faults.lose_last_value,
        (
            "as many bytes are read back as were written",
            "as many records are read back as were written",
        ),
    ),
    "repeated": (
        repeat_a_batch,
        (
            "as many bytes are read back as were written",
            "as many records are read back as were written",
            "no more records than the source has",
            "not larger than the policy allows (max_growth_share)",
        ),
    ),
    "codec": (
        set_an_unknown_codec,
        ("as many records are read back as were written", "codecs are known"),
    ),
}


def test_the_rules_are_about_what_is_in_the_staged_files(tmp_path: Path) -> None:
    """Outputs of real cleanings, spoiled on disk between build and check."""
    works = []
    for topic, (spoil, _) in SPOILED.items():
        log = LogBuilder(tmp_path / "logs", f"{topic}-0")
        log.segment(0).batch(0, [("a", "1"), ("b", "1"), ("a", "2")])
        log.segment(3).batch(3, [("b", "2"), ("c", "2")])
        log.segment(5)
        log.write()
        plan = forced_plan(log.log_dir, log.partition, {"cleanup.policy": "compact"})
        staged = build(plan)
        spoil(staged)
        works.append(
            LogWork(
                key=topic, log_dir=log.log_dir, partition=log.partition, plan=plan, staged=staged
            )
        )
    state = SweepState(works=tuple(works), now_ms=TimestampMs(START_MS))
    _, judgement = examine_and_judge(
        state, Policies(), LocalExecutor(), storage=tmp_path, run_name="r"
    )
    profiles = {
        key: next(one.broken for one in each if one.check == LOG_PROFILE)
        for key, each in judgement.verdicts.items()
    }
    assert {key: rules for key, (_, rules) in SPOILED.items()} == profiles


@pytest.mark.parametrize(("records", "stops"), [(0, False), (1, True)])
def test_an_output_of_which_nothing_is_read_back_was_empty(
    tmp_path: Path, records: int, *, stops: bool
) -> None:
    """No segment, so no profile: right only if the build wrote nothing."""
    log = LogBuilder(tmp_path / "logs")
    log.segment(0).batch(0, [("a", "1"), ("a", "2")])
    log.segment(2)
    log.write()
    plan = forced_plan(log.log_dir, log.partition, {"cleanup.policy": "compact"})
    staged = build(plan)._replace(segments=())
    stats = staged.stats._replace(records_written=records, bytes_written=0)
    work = LogWork(key="t-0", log_dir=log.log_dir, partition=log.partition, plan=plan)
    state = SweepState(
        works=(replace(work, staged=staged._replace(stats=stats)),), now_ms=TimestampMs(START_MS)
    )
    _, judgement = examine_and_judge(
        state, Policies(), LocalExecutor(), storage=tmp_path, run_name="r"
    )
    (verdict,) = [one for one in judgement.verdicts["t-0"] if one.check == LOG_PROFILE]
    assert stops is verdict.stops
