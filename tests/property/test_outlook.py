"""The outlook: when a record is gone, against the engine along a simulated clock."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from logwright.config.topic import TopicConfig, parse_settings
from logwright.erasure.account import Account
from logwright.erasure.find.model import Finding
from logwright.erasure.find.result import Settings
from logwright.erasure.keys import KeySet
from logwright.erasure.outlook.cleanings import SWEEP
from logwright.erasure.outlook.countdown import LogCountdown, count_down
from logwright.erasure.outlook.upkeep import SWEEP_AGAIN_MS, SweepTimes, Upkeep, sweep_times
from logwright.erasure.request import Request
from tests.found import SECRET, find, settings
from tests.log_builder import START_MS
from tests.maintained import SECOND_MS, Maintained, draw_log, draw_settings

LOGS = {False: 8, True: 2}
"""By whether the sensor sweeps."""
NIGHTLY_LOGS = {False: 400, True: 100}
SEEDS = 1_000
NOW_MS = START_MS + 8 * SECOND_MS + 500
PERSONS = (b"planted-alice", b"planted-bob", b"planted-carol")
LONG_MS = 90 * SECOND_MS


def requests(deadlines: list[int]) -> KeySet:
    """Requests for the keys, as a store has them."""
    return KeySet.of(
        SECRET,
        requests=[
            Request(
                id=f"r{number}",
                topics="regex:.*",
                hmac=SECRET.hmac(key),
                filter=SECRET.filter(key),
                received_at_ms=0,
                deadline_ms=deadlines[number],
            )
            for number, key in enumerate(PERSONS)
        ],
    )


@dataclass(frozen=True, kw_only=True)
class World:
    """A log, its requests and settings."""

    log_dir: Path
    keys: KeySet
    config: TopicConfig
    settings: Settings
    margin_ms: int

    def findings(self, now_ms: int) -> list[Finding]:
        """All records of the requests, as they are said at this time."""
        return find(self.log_dir, self.keys, replace(self.settings, now_ms=now_ms)).findings

    def look(self, now_ms: int) -> tuple[LogCountdown, frozenset[SweepTimes]] | None:
        """What the sensor sees at this time."""
        records = {"d": self.findings(now_ms)}
        account = Account()
        made = count_down(self.keys.requests, records, ["t"], now_ms=now_ms, account=account)
        if not made.logs:
            return None
        (row,) = made.logs
        deadlines = (row.deadline_ms, *row.later_deadlines_ms)
        return row, frozenset(self.times(each) for each in deadlines)

    def times(self, deadline_ms: int) -> SweepTimes:
        """When the log is swept for a deadline."""
        return sweep_times(deadline_ms, self.config, margin_ms=self.margin_ms)


def is_exact(config: TopicConfig, rows: list[Finding]) -> bool:
    """Whether nothing is estimated: the ratio decides nothing, or not both clean and retain."""
    ratio = config.min_cleanable_dirty_ratio in (0, 1)
    return bool(rows) and (not config.compact or (ratio and not config.delete))


def judge(tmp_path: Path, seed: int, *, sweeps: bool) -> Counter[str]:
    """Ask when the records of a random log are gone, maintain it, and compare."""
    draw = random.Random(seed)
    log = draw_log(tmp_path / "logs", draw)
    policy = (
        "compact" if sweeps else draw.choice(("compact", "compact", "delete", "compact,delete"))
    )
    pairs = draw_settings(draw, policy)
    parsed = parse_settings(pairs)
    margin_ms = draw.choice((2, 20)) * SECOND_MS if sweeps else None
    deadlines = [NOW_MS + draw.choice((20, 45, 70)) * SECOND_MS - 500 for _ in PERSONS]
    if draw.random() < 0.5:
        deadlines = deadlines[:1] * len(PERSONS)
    keys = requests(deadlines)
    upkeep = Upkeep(margin_ms=margin_ms)
    world = World(
        log_dir=log.log_dir,
        keys=keys,
        config=parsed[0],
        settings=settings(pairs, now_ms=NOW_MS, upkeep=upkeep),
        margin_ms=margin_ms or 0,
    )
    rows = world.findings(NOW_MS)
    log_of = Maintained(
        log_dir=log.log_dir,
        partition=log.partition,
        settings=parsed,
        look=world.look if sweeps else None,
    )
    log_of.until_gone(times(rows, parsed[0], sweeps=sweeps))
    exact, tally = is_exact(parsed[0], rows), Counter[str]()
    several = len({deadlines[row.request] for row in rows}) > 1
    for row in rows:
        first_ms, second_ms = world.times(deadlines[row.request])
        gone_ms = log_of.gone.get(row.offset)
        case = (seed, row.offset, row.kind, row.rule, row.gone_by_ms, gone_ms, pairs)
        if row.gone_by_ms is None:
            assert gone_ms is None or not exact or sweeps, case
            tally[f"{row.kind} stays"] += 1
            continue
        assert gone_ms is not None, case
        assert gone_ms <= row.gone_by_ms, case
        swept_later = sweeps and (several or not NOW_MS < first_ms)
        swept_later |= row.gone_by_ms > second_ms + parsed[0].file_delete_delay_ms
        if exact and not (sweeps and swept_later):
            assert row.gone_by_ms == gone_ms, case
            tally[f"{row.kind} exact{' by a sweep' if row.rule == SWEEP else ''}"] += 1
        else:
            tally[f"{row.kind} by{' a sweep' if row.rule == SWEEP else ''}"] += 1
            tally["of several deadlines"] += several and row.rule == SWEEP
    return tally


def times(rows: list[Finding], config: TopicConfig, *, sweeps: bool) -> list[int]:
    """When something can be due: each second and 1 ms later, and what was said."""
    first = START_MS + 9 * SECOND_MS
    known = {NOW_MS, *(first + at + more for at in range(0, LONG_MS, SECOND_MS) for more in (0, 1))}
    for row in rows:
        if row.gone_by_ms is not None:
            known |= {row.gone_by_ms, row.gone_by_ms - 1}
            known |= {row.gone_by_ms - config.file_delete_delay_ms}
    if sweeps:
        known |= {first + at + SWEEP_AGAIN_MS for at in range(0, LONG_MS, 4 * SECOND_MS)}
    return sorted(time for time in known if time >= NOW_MS)


def judge_many(tmp_path: Path, seed: int, logs: int, *, sweeps: bool) -> Counter[str]:
    """Judge this number of random logs; how many records were of which kind."""
    tally = Counter[str]()
    for number in range(seed * SEEDS, seed * SEEDS + logs):
        place = tmp_path / str(number)
        place.mkdir()
        tally += judge(place, number, sweeps=sweeps)
        shutil.rmtree(place)
    return tally


SWEEPS = pytest.mark.parametrize("sweeps", [False, True], ids=["runs", "sweeps"])


@SWEEPS
def test_a_record_is_gone_when_it_is_said(tmp_path: Path, seed: int, *, sweeps: bool) -> None:
    """By the engine's own runs: not before and not later, where nothing is estimated; else never
    later. With the sensor's sweeps also the tombstones of a quiet topic.

    """
    assert judge_many(tmp_path, seed, LOGS[sweeps], sweeps=sweeps).total() > 0


@pytest.mark.parametrize(
    "log",
    [
        pytest.param(161762008, id="retention removes what the log would be due for"),
        pytest.param(7000206, id="what is due by a retention waits for the next run"),
        pytest.param(7916011, id="a tombstone whose horizon an earlier cleaning would not reach"),
        pytest.param(9000139, id="an earlier cleaning that goes further than the one before it"),
        pytest.param(51692006, id="after a cleaning retention has less to remove"),
    ],
)
def test_a_log_that_was_gone_later_than_it_was_said(tmp_path: Path, log: int) -> None:
    """Each by one rule of what is counted on."""
    assert judge(tmp_path, log, sweeps=False).total() > 0


def test_a_tombstone_that_waits_for_no_time_is_swept_next(tmp_path: Path) -> None:
    """With a delete.retention.ms of 0 its horizon is reached when a cleaning sets it; the next
    sweep removes it, and not the one after that.
    """
    assert judge(tmp_path, 4242074, sweeps=True).total() > 0


def test_a_sweep_that_came_earlier_leaves_a_record_to_a_run(tmp_path: Path) -> None:
    """The sweep that is expected is not requested then: the run is in time for the deadline."""
    assert judge(tmp_path, 59410001, sweeps=True).total() > 0


@SWEEPS
@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_records_of_many_logs(tmp_path: Path, seed: int, *, sweeps: bool) -> None:
    """The same of many, with records of each kind."""
    tally = judge_many(tmp_path, seed, NIGHTLY_LOGS[sweeps], sweeps=sweeps)
    expected = {"superseded exact", "tombstone exact"}
    if sweeps:
        by_sweep = {"superseded exact by a sweep", "tombstone by a sweep", "of several deadlines"}
        expected = by_sweep | {"superseded exact"}
    assert expected <= {what for what, count in tally.items() if count}
