"""A log that is cleaned group by group: as in one piece in the end, and right at every moment."""

from __future__ import annotations

import errno
import random
import shutil
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any, Final

import pytest

from logwright.compaction.groups import GroupCleaning, Weighed, in_turn, with_margin
from logwright.compaction.model import CleanPlan
from logwright.config.topic import parse_settings
from logwright.errors import CannotUndo, DiskFull, LogwrightError
from logwright.format.names import TopicPartition
from logwright.recovery.model import RecoveryOptions
from logwright.rescue import free_run
from logwright.rescue.free_groups import compact, compaction_plan
from logwright.rescue.free_run import alone
from logwright.steps.filesystem import FileSystem, RealFileSystem
from logwright.sweep.build import build
from logwright.sweep.commit import commit
from logwright.sweep.plan import Settings
from logwright.sweep.recover import recover_directory
from logwright.undo.commit import undo_partition
from logwright.undo.observe import plan_undo_of
from logwright.units import TimestampMs
from tests import fixtures
from tests.bucket_maintenance.random_logs import a_log
from tests.comparison import compare_checkpoints, live_files
from tests.crash.filesystems import Crash, CrashingFileSystem, FailingFileSystem
from tests.crash.operations import Opened
from tests.latest_rows import replayed
from tests.log_builder import START_MS, LogBuilder
from tests.plans import forced_plan
from tests.sequences.content import Content
from tests.sequences.reading import read_content

pytestmark = [pytest.mark.crash]

T0: Final = TopicPartition("t", 0)
PAIRS: Final = {"cleanup.policy": "compact", "segment.ms": str(1 << 60)}
NOW_MS: Final = START_MS + 90_000_000
CASES: Final = [
    (name, partition.name)
    for name in (*fixtures.CASES, *fixtures.CASES_OF_4_4)
    if fixtures.description(name)["ops"][0] == "clean"
    for partition in fixtures.partitions(name)
]


def planned(
    log_dir: Path,
    settings: Settings,
    *,
    now_ms: int = NOW_MS,
    partition: TopicPartition = T0,
    high_watermark: Any = "end",  # noqa: ANN401
) -> CleanPlan | None:
    return compaction_plan(
        log_dir, partition, settings, now_ms=TimestampMs(now_ms), high_watermark=high_watermark
    )


def cleaned(
    plan: CleanPlan, files: FileSystem, goes: Callable[[int], bool], room: int = 1 << 40
) -> int | None:
    return compact(plan, files, room=room, goes=goes, at_worst=lambda: None)


def in_groups(plan: CleanPlan, make: Callable[[RealFileSystem], Any] = lambda real: real) -> None:
    """Clean it, with all the room that there is, in this file system."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(free_run, "RealFileSystem", Opened(make))
        with alone(plan.log.log_dir) as files:
            assert cleaned(plan, files, lambda _: True) is None


def require_same(log_dir: Path, settings: Settings, **more: Any) -> bool:  # noqa: ANN401
    """Clean a copy in one piece, and the log in groups: the same bytes, the same checkpoints;
    whether it was cleaned.
    """
    other = log_dir.with_name(f"{log_dir.name}-whole")
    shutil.copytree(log_dir, other, copy_function=shutil.copy2, symlinks=True)
    plan, whole = planned(log_dir, settings, **more), planned(other, settings, **more)
    if plan is None or whole is None:
        assert plan is whole
        return False
    try:
        staged = build(whole)
    except LogwrightError as error:
        with pytest.raises(type(error)):
            in_groups(plan)
        return False
    commit(whole, staged)
    in_groups(plan)
    directories = (log_dir / str(plan.log.partition), other / str(plan.log.partition))
    ours, theirs = map(live_files, directories)
    assert {name: path.read_bytes() for name, path in theirs.items()} == {
        name: path.read_bytes() for name, path in ours.items()
    }
    assert [] == compare_checkpoints(other, log_dir)
    assert [] == [path for path in directories[0].iterdir() if path.name.endswith(".deleted")]
    assert not (directories[0] / ".logwright").exists()
    return True


@pytest.mark.rotates(6)
@pytest.mark.parametrize(("name", "partition"), CASES)
def test_cases(name: str, partition: str, tmp_path: Path) -> None:
    """With the case's settings, and with every segment alone in its group."""
    case = fixtures.description(name)
    pairs = dict(fixtures.partition_of(name, partition).config)
    pairs["producer.id.expiration.ms"] = str(case["producerIdExpirationMs"])
    config, cleaner = parse_settings(pairs)
    for segment_bytes in (config.segment_bytes, 14):
        log_dir = fixtures.copy_before(name, tmp_path / str(segment_bytes))
        require_same(
            log_dir,
            (config.model_copy(update={"segment_bytes": segment_bytes}), cleaner),
            now_ms=case["now"],
            partition=TopicPartition.parse(partition),
            high_watermark=case["highWatermark"],
        )


def drawn(tmp_path: Path, draw: random.Random) -> Settings:
    """A random log in `tmp_path`/logs, and settings."""
    a_log(tmp_path / "logs", draw)
    config, cleaner = parse_settings(
        {
            **PAIRS,
            "segment.bytes": str(draw.choice((14, 300, 1 << 30))),
            "delete.retention.ms": str(draw.choice((50, 86_400_000))),
        }
    )
    buffer_bytes = draw.choice((32, 200, 1 << 27))
    return config, cleaner.model_copy(update={"dedupe_buffer_bytes": buffer_bytes})


@pytest.mark.rotates(4)
@pytest.mark.parametrize("number", range(40))
def test_random_logs(number: int, seed: int, tmp_path: Path) -> None:
    """Any number of groups, of keys in the memory."""
    draw = random.Random(f"{seed} {number}")
    require_same(tmp_path / "logs", drawn(tmp_path, draw))


def known(log_dir: Path) -> tuple[Content, Any]:
    """What the log has, and what its consumer knows in the end."""
    content = read_content(log_dir, "t-0")
    return content, replayed(content)


def recovered(log_dir: Path, settings: Settings) -> None:
    """As the next command does it."""
    recover_directory(
        log_dir, [T0], lambda _: settings[0], now_ms=NOW_MS, options=RecoveryOptions()
    )


def interrupted(
    log_dir: Path, settings: Settings, interrupt: Callable[[RealFileSystem], Any]
) -> Iterator[str]:
    """Clean with this file system, recover, and clean again; yields after each."""
    plan = planned(log_dir, settings)
    assert plan is not None
    try:
        in_groups(plan, interrupt)
    except (Crash, DiskFull):
        recovered(log_dir, settings)
        yield "interrupted"
        again = planned(log_dir, settings)
        if again is not None:
            in_groups(again)
        yield "again"
    else:
        yield "done"


@pytest.mark.rotates(5)
@pytest.mark.parametrize("kind", ["death", "no room"])
@pytest.mark.parametrize("number", range(10))
def test_interrupted_at_a_step(kind: str, number: int, seed: int, tmp_path: Path) -> None:
    """Between groups and inside a swap: the consumer knows the same in the end, no record is there
    that was not, and the run after that cleans to the end.
    """
    draw = random.Random(f"{seed} {kind} {number}")
    settings = drawn(tmp_path, draw)
    before, expected = known(tmp_path / "logs")
    offsets = {row.offset for row in before.rows}
    for at in count(draw.randint(1, 3), 3):
        log_dir = tmp_path / f"at-{at}"
        shutil.copytree(tmp_path / "logs", log_dir, copy_function=shutil.copy2)
        if planned(log_dir, settings) is None:
            return

        def interrupt(real: RealFileSystem, at: int = at) -> Any:  # noqa: ANN401
            if kind == "death":
                return CrashingFileSystem(real, crash_at=at)
            return FailingFileSystem(real, fail_at=at, code=errno.ENOSPC)

        ends = []
        for end in interrupted(log_dir, settings, interrupt):
            ends.append(end)
            content, state = known(log_dir)
            assert expected == state, (at, end)
            assert {row.offset for row in content.rows} <= offsets
        shutil.rmtree(log_dir)
        if ends == ["done"]:
            break


def test_a_tombstone_waits_for_what_it_deletes(tmp_path: Path) -> None:
    """The group of an expired tombstone is empty in the end and needs least; it goes last."""
    log = LogBuilder(tmp_path / "logs")
    log.segment(0).batch(0, [("gone", "v" * 900), ("a", "1"), ("a", "2")])
    log.segment(3).batch(3, [("gone", None)], horizon_ms=START_MS)
    log.segment(4).batch(4, [("b", "1"), ("b", "2" * 2000)])
    log.segment(6).batch(6, [("z", "new")])
    log.write()
    plan = planned(log.log_dir, parse_settings({**PAIRS, "segment.bytes": "14"}))
    assert plan is not None
    cleaning = GroupCleaning(plan=plan)
    cleaning.read()
    assert [False, True, False] == [each.waits for each in cleaning.groups]
    needs = [each.need for each in cleaning.groups]
    assert needs[1] < needs[0] < needs[2]
    assert [0, 1, 2] == [each.number for each in in_turn(cleaning.groups)]
    with alone(log.log_dir) as files:
        wanted = iter((True, True, False))
        cleaned(plan, files, lambda _: next(wanted))
    assert [2, 3, 4, 5, 6] == [row.offset for row in read_content(log.log_dir, "t-0").rows]


def test_an_undo_of_before_is_over(tmp_path: Path) -> None:
    """It could bring back a value whose tombstone goes now: so it is over before the first group
    is done.
    """
    log = LogBuilder(tmp_path / "logs")
    log.segment(0).batch(0, [("a", "1"), ("a", "2")])
    log.segment(2).batch(2, [("b", "1"), ("b", "2")])
    log.segment(4).batch(4, [("a", "3")])
    log.segment(5)
    log.write()
    first = forced_plan(log.log_dir, log.partition, {**PAIRS, "min.compaction.lag.ms": "1"})
    commit(first, build(first))
    assert [path for path in log.directory.iterdir() if path.name.endswith(".deleted")]
    (log.log_dir / "cleaner-offset-checkpoint").unlink()
    plan = planned(log.log_dir, parse_settings(PAIRS))
    assert plan is not None
    with alone(log.log_dir) as files:
        assert cleaned(plan, files, lambda _: False) is not None
    with pytest.raises(CannotUndo):
        undo_partition(plan_undo_of(log.log_dir, log.partition), now_ms=TimestampMs(NOW_MS))


def weighed(*needs: int, waiting: tuple[int, ...] = ()) -> list[Weighed]:
    return [Weighed(number=n, need=need, waits=n in waiting) for n, need in enumerate(needs)]


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        ([], []),
        (weighed(5, 3, 4), [1, 2, 0]),
        (weighed(5, 3, 4, waiting=(1,)), [2, 0, 1]),
        (weighed(5, 1, 4, 2, waiting=(1, 3)), [2, 0, 1, 3]),
        (weighed(5, 1, waiting=(0, 1)), [0, 1]),
    ],
)
def test_order(groups: list[Weighed], expected: list[int]) -> None:
    """Smallest need first; what waits comes after all before it."""
    assert expected == [each.number for each in in_turn(groups)]


def test_a_log_without_room_for_one_more_group(tmp_path: Path) -> None:
    """It stops there, keeps what it did, and does not record that it is clean."""
    log = LogBuilder(tmp_path / "logs")
    for base in (0, 10, 20):
        log.segment(base).batch(base, [(f"k{n}", "v" * 20) for n in range(5)])
    log.segment(30)
    log.write()
    settings = parse_settings({**PAIRS, "segment.bytes": "14"})
    plan = planned(log.log_dir, settings)
    assert plan is not None
    answers = iter((True, True, True, False))  # room at all, the group that stays, one more
    with alone(log.log_dir) as files:
        need = cleaned(plan, files, lambda _: next(answers))
    assert need is not None
    assert need > 0
    content = read_content(log.log_dir, "t-0")
    assert 10 == len(content.rows)
    again = planned(log.log_dir, settings)
    assert again is not None
    in_groups(again)
    assert 5 == len(read_content(log.log_dir, "t-0").rows)
    assert planned(log.log_dir, settings) is None


def test_groups_are_as_large_as_the_room(tmp_path: Path) -> None:
    """By their settings the three segments are one group; there is room for two of them."""
    log = LogBuilder(tmp_path / "logs")
    for base in (0, 10, 20):
        log.segment(base).batch(base, [(f"k{base}{n}", "v" * 50_000) for n in range(2)])
        log.segments[-1].batch(base + 2, [(f"k{base}0", "w" * 50_000)])
    log.segment(30)
    log.write()
    size = (log.directory / f"{0:020}.log").stat().st_size
    needs: list[int] = []

    def goes(need: int) -> bool:
        needs.append(need)
        return True

    plan = planned(log.log_dir, parse_settings(PAIRS))
    assert plan is not None
    room = with_margin(2 * size) + 100
    with alone(log.log_dir) as files:
        assert cleaned(plan, files, goes, room) is None
    assert [0, 20, 30] == sorted(int(path.stem) for path in log.directory.glob("*.log"))
    assert 3 == len(needs)
    assert max(needs) <= room
    assert 6 == len(read_content(log.log_dir, "t-0").rows)


def test_death_after_each_group_of_a_tombstone(tmp_path: Path) -> None:
    """Whatever was done last: what the tombstone deleted, and what was aborted, stays so."""
    for at in count(1):
        log = LogBuilder(tmp_path / str(at))
        log.segment(0).batch(0, [("gone", "v" * 900), ("a", "1"), ("a", "2")])
        log.segment(3).batch(3, [("gone", None)], horizon_ms=START_MS)
        log.segment(4).batch(4, [("b", "1"), ("b", "2" * 2000)])
        log.segment(6).batch(6, [("z", "new")])
        log.write()
        ends = []
        settings = parse_settings({**PAIRS, "segment.bytes": "14"})
        for end in interrupted(
            log.log_dir, settings, lambda real, at=at: CrashingFileSystem(real, crash_at=at)
        ):
            ends.append(end)
            keys = {row[0] for row in known(log.log_dir)[1]}
            assert {b"a", b"b", b"z"} == keys, (at, end)
        if ends == ["done"]:
            break
