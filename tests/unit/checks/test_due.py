"""The checks of what retention and purge delete: each rule on values, and against the plans."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from logwright.checks.due import (
    FILES_LEFT,
    FILES_PURGED,
    SEGMENTS_DELETED,
    SEGMENTS_LEFT,
    DueResult,
    check_purge,
    check_retention,
)
from logwright.config.topic import parse_settings
from logwright.log.model import PartitionLog, Segment
from logwright.purge.account import AccountedFile, PurgeAccount
from logwright.retention.account import RetentionAccount
from logwright.retention.plan import plan_retention
from logwright.units import Offset, TimestampMs
from tests.unit.retention.test_plan import NOW_MS, log, segment

DELAY_MS = 60_000
OLD = f"{0:020d}"
NEXT = f"{10:020d}"


def retention_results(
    before: PartitionLog, deleted: Sequence[int], settings: dict[str, str]
) -> dict[str, DueResult]:
    """What the checks say if these segments went; the batches of all of them were read."""
    config, _ = parse_settings({"cleanup.policy": "delete", "retention.ms": "-1"} | settings)
    bases = {one.base_offset for one in before.segments}
    account = RetentionAccount(
        log=before,
        left=frozenset(bases - {Offset(base) for base in deleted}),
        newest_ms={
            segment.base_offset: segment.largest_timestamp_ms
            for segment in before.segments
            if segment.base_offset in deleted
        },
    )
    results = check_retention(account, config, TimestampMs(NOW_MS))
    return {result.name: result for result in results}


def wrong(results: dict[str, DueResult]) -> dict[str, list[int | None]]:
    """The base offsets that break each check."""
    return {
        name: [one.offset for one in result.wrong]
        for name, result in results.items()
        if result.wrong
    }


THREE = [segment(0, 100, 1_000), segment(10, 100, 2_000), segment(20, 100, 3_000)]


@pytest.mark.parametrize(
    ("settings", "start", "due"),
    [
        ({"retention.bytes": "200"}, 0, [0]),
        ({"retention.bytes": "199"}, 0, [0]),
        ({"retention.bytes": "201"}, 0, []),
        ({"retention.bytes": "0"}, 0, [0, 10, 20]),
        ({"retention.bytes": "200", "cleanup.policy": "compact"}, 0, []),
        ({"retention.ms": str(NOW_MS - 1_001)}, 0, [0]),
        ({"retention.ms": str(NOW_MS - 1_000)}, 0, []),
        ({"retention.ms": str(NOW_MS - 2_001)}, 0, [0, 10]),
        ({"retention.ms": "0", "cleanup.policy": "compact"}, 0, []),
        ({}, 10, [0]),
        ({}, 9, []),
        ({}, 30, [0, 10]),
        ({"cleanup.policy": "compact"}, 20, [0, 10]),
    ],
)
def test_what_is_due_goes_and_nothing_else(
    settings: dict[str, str], start: int, due: list[int]
) -> None:
    """By size, time and log start offset: neither a segment more nor one less passes."""
    before = log(THREE, 30, start=start)
    emptied = {SEGMENTS_LEFT: [30]} if len(due) == len(THREE) else {}
    assert emptied == wrong(retention_results(before, due, settings))
    if due:
        fewer = wrong(retention_results(before, due[:-1], settings))
        assert {SEGMENTS_LEFT: [due[-1]]} == fewer
    if len(due) < len(THREE):
        extra = THREE[len(due)].base_offset
        more = wrong(retention_results(before, [*due, extra], settings))
        assert [extra] == more[SEGMENTS_DELETED]


def test_a_segment_in_the_middle_is_not_deleted() -> None:
    """Although it is due: the older one keeps it."""
    results = retention_results(log(THREE, 30), [10], {"retention.ms": "7999"})
    assert {SEGMENTS_DELETED: [10], SEGMENTS_LEFT: [0]} == wrong(results)
    young_first = [segment(0, 100, NOW_MS), *THREE[1:]]
    results = retention_results(log(young_first, 30), [10], {"retention.ms": "7999"})
    assert {SEGMENTS_DELETED: [10]} == wrong(results)


def test_records_that_are_not_committed_stay() -> None:
    """However old they are."""
    before = log(THREE, 30, watermark=9)
    assert {} == wrong(retention_results(before, [], {"retention.ms": "0"}))
    assert {SEGMENTS_DELETED: [0]} == wrong(
        retention_results(before, [0], {"retention.ms": str(NOW_MS - 1_001)})
    )


def test_an_empty_active_segment_stays() -> None:
    """However old its file is, and also if no bytes may be left."""
    before = log([segment(0, 0, 1)], 0)
    for settings in ({"retention.ms": "0"}, {"retention.bytes": "0"}):
        assert {} == wrong(retention_results(before, [], settings))
        assert [0, 0] == [
            failure.offset
            for result in retention_results(before, [0], settings).values()
            for failure in result.wrong
        ]


def test_an_age_that_was_not_read_is_no_reason() -> None:
    """Only of an empty segment the file's time counts."""
    config, _ = parse_settings({"cleanup.policy": "delete", "retention.ms": "1"})
    before = log([segment(0, 100, 1), segment(10, 0, 1), segment(10, 100, NOW_MS)], 20)
    account = RetentionAccount(log=before, left=frozenset({Offset(10)}), newest_ms={})
    results = check_retention(account, config, TimestampMs(NOW_MS))
    (deleted, _) = results
    assert [0] == [one.offset for one in deleted.wrong]
    assert "its age is not known (retention.ms is 1 ms)" in deleted.wrong[0].sentence


DAY = 86_400_000


@pytest.mark.parametrize(
    ("limit_ms", "expected"),
    [
        (6 * DAY, "its age is 5 d 2 h (retention.ms is 6 d)"),
        (5 * DAY + 7_200_000, "its age is 5 d 2 h (retention.ms is 5 d 2 h)"),
        (5 * DAY + 7_200_001, "its age is 5 d 2 h (retention.ms is 5 d 2 h 1 ms)"),
        (-1, "its age is 5 d 2 h (retention.ms is unlimited)"),
    ],
)
def test_an_age_is_written_as_people_read_it(limit_ms: int, expected: str) -> None:
    """And never so that a difference cannot be seen."""
    config, _ = parse_settings({"cleanup.policy": "delete", "retention.ms": str(limit_ms)})
    now_ms = TimestampMs(THREE[0].largest_timestamp_ms + 5 * DAY + 7_200_000)
    account = RetentionAccount(
        log=log(THREE, 30),
        left=frozenset({Offset(10), Offset(20)}),
        newest_ms={Offset(0): TimestampMs(THREE[0].largest_timestamp_ms)},
    )
    (deleted, *_) = check_retention(account, config, now_ms)
    assert expected in deleted.wrong[0].sentence


def test_records_without_timestamps_have_the_age_of_their_file() -> None:
    """As Kafka has it."""
    config, _ = parse_settings({"cleanup.policy": "delete", "retention.ms": str(NOW_MS - 1_001)})
    account = RetentionAccount(
        log=log(THREE, 30),
        left=frozenset({Offset(10), Offset(20)}),
        newest_ms={Offset(0): TimestampMs(-1)},
    )
    assert [(), ()] == [
        result.wrong for result in check_retention(account, config, TimestampMs(NOW_MS))
    ]


def test_a_log_without_any_segment_is_wrong() -> None:
    """A retention that deletes all of them makes a new one first."""
    results = retention_results(log(THREE, 30), [0, 10, 20], {"retention.bytes": "0"})
    assert {SEGMENTS_LEFT: [30]} == wrong(results)


def test_what_was_not_looked_at_has_no_result() -> None:
    """Nothing was deleted: there is nothing to say of that."""
    results = retention_results(log(THREE, 30), [], {})
    assert {SEGMENTS_LEFT: 3} == {name: one.looked_at for name, one in results.items()}
    assert () == check_purge(PurgeAccount(()), TimestampMs(NOW_MS), DELAY_MS)


def random_log(random: Random) -> PartitionLog:
    """Up to six segments, some empty, some of the future, some not committed."""
    segments: list[Segment] = []
    end = random.randrange(20)
    for _ in range(random.randint(1, 6)):
        size = random.choice((0, 50, 100, 150))
        segments.append(segment(end, size, random.randrange(NOW_MS * 5 // 4), dated=size > 0))
        end += random.randint(1, 10)
    if random.random() < 0.3:
        segments[-1] = segments[-1]._replace(log_bytes=0)
    first = segments[0].base_offset
    return log(
        segments,
        end,
        start=random.randint(first, end),
        watermark=end if random.random() < 0.7 else random.randint(first, end),
    )


def test_the_plan_and_the_checks_agree(seed: int) -> None:
    """On random logs and settings: the plan's deletions pass, one more or one fewer do not."""
    random = Random(seed)
    looked_at = {SEGMENTS_DELETED: 0, SEGMENTS_LEFT: 0}
    for _ in range(3_000):
        settings = {
            "cleanup.policy": random.choice(("delete", "compact", "compact,delete")),
            "retention.bytes": str(random.choice((-1, 0, 99, 100, 101, 250))),
            "retention.ms": str(random.choice((-1, 0, 1_000, 5_000, 9_000))),
        }
        before = random_log(random)
        config, _ = parse_settings(settings)
        planned = plan_retention(before, config, now_ms=TimestampMs(NOW_MS))
        bases = [one.base_offset for one in before.segments]
        due = [one.base_offset for one in planned.deleted]
        fresh = {SEGMENTS_LEFT: [before.log_end_offset]} if planned.rolls else {}
        assert fresh == wrong(retention_results(before, due, settings))
        if due:
            fewer = wrong(retention_results(before, due[:-1], settings))
            assert {SEGMENTS_LEFT: [due[-1]]} == fewer
            looked_at[SEGMENTS_LEFT] += 1
        if len(due) < len(bases):
            more = wrong(retention_results(before, bases[: len(due) + 1], settings))
            assert set(more[SEGMENTS_DELETED]) == {bases[len(due)]}
            looked_at[SEGMENTS_DELETED] += 1
    assert min(looked_at.values()) > 500


def purge_results(files: dict[str, tuple[int, bool]]) -> dict[str, list[str]]:
    """The wrong files of each check. `files`: name → how long it has been retired, is it left."""
    account = PurgeAccount(
        tuple(
            AccountedFile(name=name, since_ms=NOW_MS - waited_ms, left=left)
            for name, (waited_ms, left) in files.items()
        )
    )
    return {
        result.name: [one.sentence.split()[0] for one in result.wrong]
        for result in check_purge(account, TimestampMs(NOW_MS), DELAY_MS)
    }


@pytest.mark.parametrize(
    ("waited_ms", "left", "expected"),
    [
        (DELAY_MS, False, {FILES_PURGED: []}),
        (DELAY_MS - 1, True, {FILES_LEFT: []}),
        (DELAY_MS, True, {FILES_LEFT: [f"{OLD}.log.deleted"]}),
        (DELAY_MS - 1, False, {FILES_PURGED: [f"{OLD}.log.deleted"]}),
    ],
)
def test_a_retired_file_goes_after_its_delay(
    waited_ms: int, left: bool, expected: dict[str, list[str]]
) -> None:
    """Neither before, nor later than the next purge."""
    live = {f"{NEXT}.log": (0, True), f"{NEXT}.index": (0, True)}
    assert expected == purge_results({f"{OLD}.log.deleted": (waited_ms, left)} | live)


@pytest.mark.parametrize("name", [f"{NEXT}.log", f"{NEXT}.index", "partition.metadata"])
def test_a_live_file_is_never_purged(name: str) -> None:
    """However old it is: it was not retired."""
    files = {f"{NEXT}.log": (0, True), name: (DELAY_MS * 9, False)}
    assert {FILES_PURGED: [name]} == purge_results(files)


@pytest.mark.parametrize(
    "name", [f"{OLD}.index", f"{OLD}.log.cleaned", f"{OLD}.timeindex.swap", f"{OLD}.snapshot.tmp"]
)
def test_leftovers_have_no_delay(name: str) -> None:
    """What an interrupted operation left is not looked at, whether it goes or not."""
    for left in (True, False):
        assert {} == purge_results({f"{NEXT}.log": (0, True), name: (0, left)})


def test_a_snapshot_of_the_metadata_is_not_a_retired_file() -> None:
    """A broker keeps it, and so does a purge."""
    name = f"{OLD}-0000000000.checkpoint.deleted"
    assert {} == purge_results({name: (DELAY_MS * 9, True)})
    assert {FILES_PURGED: [name]} == purge_results({name: (DELAY_MS * 9, False)})


def test_a_retired_file_waits_as_people_read_it() -> None:
    """How long it waited, and how long it had to."""
    file = AccountedFile(name=f"{OLD}.log.deleted", since_ms=NOW_MS - 59_999, left=False)
    (purged,) = check_purge(PurgeAccount((file,)), TimestampMs(NOW_MS), 3 * DAY)
    assert [
        f"{file.name} was retired 59 s 999 ms ago and is purged, file.delete.delay.ms is 3 d"
    ] == [one.sentence for one in purged.wrong]


@pytest.mark.parametrize("kept_ms", [DELAY_MS, 2 * DELAY_MS])
@pytest.mark.parametrize("left", [True, False])
def test_a_file_waits_for_the_delay_that_it_was_retired_with(kept_ms: int, left: bool) -> None:
    """If that is longer than the one of the settings now."""
    since_ms = NOW_MS - kept_ms
    file = AccountedFile(f"{OLD}.log.deleted", since_ms, left, since_ms + 2 * DELAY_MS)
    (result,) = check_purge(PurgeAccount((file,)), TimestampMs(NOW_MS), DELAY_MS)
    assert (left == (kept_ms == 2 * DELAY_MS)) == bool(result.wrong)
