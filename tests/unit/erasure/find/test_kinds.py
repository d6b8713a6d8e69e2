"""What a cleaner sees in a record: against the first pass, for all logs that Kafka wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

from logwright.batches.runtime import Runtime, silent
from logwright.compaction.model import CleanPlan
from logwright.compaction.survivors import find_survivors
from logwright.erasure.find.kinds import KINDS, judge
from logwright.erasure.outlook.cleanings import cleanings
from logwright.erasure.outlook.removals import Records, purged_by, removals
from logwright.erasure.outlook.upkeep import Upkeep
from logwright.errors import LogwrightError
from logwright.format.names import TopicPartition
from tests.fixtures import CASES, copy_before, description, partitions
from tests.found import find
from tests.log_builder import LogBuilder
from tests.plain_consumer import plain_batches
from tests.plans import forced_plan


def plan_of(name: str, log_dir: Path) -> tuple[CleanPlan, dict[str, str]] | None:
    """A cleaning of a case's log, None if it must be recovered first or is not compacted."""
    case = partitions(name)[0]
    config = {**case.config, "cleanup.policy": "compact"}
    partition = TopicPartition.parse(case.name)
    assert partition is not None
    try:
        plan = forced_plan(log_dir, partition, config, now_ms=description(name)["now"])
    except LogwrightError:
        return None
    return (plan, config) if plan.clean else None


def dead_offsets(plan: CleanPlan) -> set[int]:
    """The offsets of the records with a key that the first pass removes."""
    dead = find_survivors(plan, progress=silent, runtime=Runtime(), rebuilds=False).dead
    offsets, ordinal = set(), 0
    for batch in plain_batches(plan.log.directory):
        if batch.header.base_offset >= plan.compaction.first_uncleanable_offset:
            break
        for record in batch.records:
            is_dead = dead[ordinal >> 3] >> (ordinal & 7) & 1
            if is_dead and record.key is not None and not batch.header.is_control:
                offsets.add(int(record.offset))
            ordinal += 1
    return offsets


COMPACTED = [
    name
    for name in CASES
    if not name.startswith(("bad-", "crash-", "torn-", "missing-", "orphan-", "wrong-"))
]


@pytest.mark.parametrize("name", COMPACTED)
def test_the_forecast_of_a_cleaning_is_the_first_pass(name: str, tmp_path: Path) -> None:
    """All keys are requested: what is to be removed by the cleaning at this time is what its first
    pass marks as dead, record by record.
    """
    log_dir = copy_before(name, tmp_path)
    planned = plan_of(name, log_dir)
    if planned is None:
        assert not name.startswith(("basic", "txn", "tombstones", "odd"))
        return
    plan, config = planned
    keys = {
        record.key
        for batch in plain_batches(plan.log.directory)
        for record in batch.records
        if record.key is not None
    }
    result = find(log_dir, sorted(keys), config)
    live = result.live[plan.log.partition]
    judged = judge(
        live.hits, live.batches, live.markers, log_start_offset=live.log.log_start_offset
    )
    topic, upkeep = plan.config, Upkeep(forced=True, retains=False)
    gone = removals(
        Records.of(live, judged),
        live.log,
        topic,
        now_ms=plan.now_ms,
        upkeep=upkeep,
    )
    first, *_ = cleanings(live.log, topic, now_ms=plan.now_ms, upkeep=upkeep)
    assert (first.at_ms, first.end_offset) == (
        plan.now_ms,
        plan.compaction.first_uncleanable_offset,
    )
    now = gone.times == purged_by(plan.now_ms, topic, upkeep)
    assert dead_offsets(plan) == set(live.hits["offset"][now].tolist())


def kinds(builder: LogBuilder, *keys: bytes) -> dict[int, str]:
    result = find(builder.log_dir, keys)
    return {finding.offset: finding.kind for finding in result.findings}


def test_kinds_of_transactions(tmp_path: Path) -> None:
    """The next marker of the producer decides; data of open transactions is not counted."""
    builder = LogBuilder(tmp_path / "logs")
    segment = builder.segment(0)
    segment.batch(0, [("k", "0")])
    segment.batch(1, [("k", "1")], producer_id=1, transactional=True)
    segment.batch(2, [("k", "2")], producer_id=2, transactional=True)
    segment.marker(3, 1, "abort")
    segment.marker(4, 2, "commit")
    segment.batch(5, [("k", "5"), ("z", None)], producer_id=1, transactional=True)
    builder.write(producers=True)
    expected = {0: "superseded", 1: "aborted", 2: "live", 5: "live", 6: "tombstone"}
    assert expected == kinds(builder, b"k", b"z")


def test_a_superseded_tombstone_is_superseded(tmp_path: Path) -> None:
    """The first rule that removes it counts."""
    builder = LogBuilder(tmp_path / "logs")
    builder.segment(0).batch(0, [("k", "0"), ("k", None), ("k", None), ("j", "x")])
    builder.write()
    assert {0: "superseded", 1: "superseded", 2: "tombstone"} == kinds(builder, b"k")


def test_the_names_are_those_of_findings() -> None:
    """Each number has its name."""
    assert ("live", "superseded", "tombstone", "aborted", "value") == KINDS
