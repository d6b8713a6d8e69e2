"""A log in a bucket that is cleaned by many tasks has the state of one that is cleaned by one."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from logwright.bucket.manifest import LogState
from logwright.bucket.store import Bucket
from logwright.bucket.stored import StoredFile
from logwright.compaction.model import CleaningOptions, StagedCleaning
from logwright.config.topic import parse_settings
from logwright.errors import LogwrightError, QualityError, StalePlan
from logwright.keys import exchange
from logwright.maintenance.maintain import Maintained, new_job
from logwright.maintenance.scrub import scrub
from logwright.maintenance.split import run as steps
from logwright.maintenance.split import tasks
from logwright.maintenance.split.run import SplitSweep, is_split
from logwright.maintenance.sweep import BucketSweep, Swept
from logwright.sweep.executor import LocalExecutor
from logwright.units import TimestampMs
from tests import fixtures
from tests.bucket_maintenance.__main__ import play
from tests.bucket_maintenance.copies import T0, put, version
from tests.bucket_maintenance.random_logs import a_log
from tests.log_builder import START_MS, LogBuilder

COMPACT = {"cleanup.policy": "compact", "delete.retention.ms": "0"}


class Killed(BaseException):
    """A process ended."""


class Elsewhere(LocalExecutor):
    """Calls as another process would: arguments and results are sent.

    Attributes:
        called: the names of the functions, in order.
        twice: each is called a second time, whose result is taken.
        before: is called before a function, with its name and how often it was called.
    """

    def __init__(
        self, *, twice: bool = False, before: Callable[[str, int], None] | None = None
    ) -> None:
        super().__init__(threads=1)
        self.called: list[str] = []
        self.twice = twice
        self.before = before

    def call_sized(
        self,
        function: Callable[..., Any],
        arguments: Sequence[tuple[Any, ...]],
        sizes: Sequence[int],
        *,
        bytes_per_second: float,
    ) -> Iterator[Any]:
        """See `LocalExecutor.call_sized`."""
        for each, size in zip(arguments, sizes, strict=True):
            for _ in range(2 if self.twice else 1):
                name = function.__name__
                if self.before is not None:
                    self.before(name, self.called.count(name))
                self.called.append(name)
                sent = pickle.loads(pickle.dumps(each))  # noqa: S301, TID251 -- as Spark does
                (result,) = super().call_sized(
                    function, [sent], [size], bytes_per_second=bytes_per_second
                )
            yield pickle.loads(pickle.dumps(result))  # noqa: S301, TID251 -- as Spark does


def a_sweep(bucket: Bucket, scratch: Path, configs: dict[str, str], **more: Any) -> BucketSweep:  # noqa: ANN401 -- of BucketSweep
    config, cleaner = parse_settings({**COMPACT, **configs})
    wanted = {
        "url": bucket.url,
        "partition": T0,
        "id": new_job("clean"),
        "scratch": scratch,
        "now_ms": TimestampMs(START_MS + 1_000),
        "config": config,
        "cleaner": cleaner,
        "options": CleaningOptions(force=True),
        "high_watermark": "checkpoint",
    }
    return BucketSweep(**(wanted | more))


def by_many(
    sweep: BucketSweep, caller: Elsewhere | None = None, shards: int | None = 3
) -> Maintained[Swept]:
    """Clean by many tasks."""
    ended = SplitSweep(sweep=sweep, shards=shards).run(caller or Elsewhere())
    assert ended is not None
    return ended


def by_one(sweep: BucketSweep) -> Maintained[Swept]:
    """Clean in one working copy."""
    ended = sweep.run(LocalExecutor(threads=1))
    assert ended is not None
    return ended


def keyless(state: LogState) -> LogState:
    """A state without the names of objects."""

    def of(file: StoredFile) -> StoredFile:
        return replace(file, key="")

    return replace(
        state,
        segments=tuple(
            replace(
                each,
                log=of(each.log),
                index=of(each.index),
                timeindex=of(each.timeindex),
                txnindex=None if each.txnindex is None else of(each.txnindex),
            )
            for each in state.segments
        ),
        snapshots=tuple(replace(each, file=of(each.file)) for each in state.snapshots),
    )


def figures(ended: Maintained[Swept]) -> dict[str, object]:
    """What is shown of a cleaning, without times."""
    assert ended.result is not None
    (work, *_) = ended.result.passes
    stats = {} if work.staged is None else work.staged.stats._asdict()
    counted = {name: stats[name] for name in stats if "seconds" not in name}
    for name in ("map_reads", "map_bytes"):
        counted.pop(name, None)
    result = work.result
    shown = None if result is None else replace(result, compaction_delay_ms=0)
    return {**counted, "result": shown}


def require_same(
    log_dir: Path,
    root: Path,
    agreement: bytes,
    *,
    shards: int = 3,
    **more: Any,  # noqa: ANN401 -- of `a_sweep`
) -> None:
    """Clean a log in two buckets, and compare."""
    ends, states = [], []
    for name, clean in (("one", by_one), ("many", lambda each: by_many(each, shards=shards))):
        bucket = Bucket.of(f"file://{root}/{name}")
        put(log_dir, bucket, agreement)
        try:
            ended = clean(a_sweep(bucket, root / "scratch", **more))
        except LogwrightError as error:
            ends.append({"error": type(error).__name__})
        else:
            ends.append(figures(ended))
        states.append(version(bucket, more.get("partition", T0)))
        assert [] == list(scrub(bucket.below(str(more.get("partition", T0)))).wrong)
    whole, parts = states
    assert keyless(whole.state) == keyless(parts.state)
    assert whole.version == parts.version
    assert ends[0] == ends[1]
    assert [] == [each.name for each in (root / "scratch").iterdir()]


CASES = [
    name
    for name in (*fixtures.CASES, *fixtures.CASES_OF_4_4)
    if fixtures.description(name)["ops"] == ["clean"]
    and "partitions" not in fixtures.description(name)
]


@pytest.mark.rotates(6)
@pytest.mark.parametrize("name", CASES)
def test_cases(name: str, tmp_path: Path, agreement: bytes) -> None:
    """Every segment alone in its group."""
    case = fixtures.description(name)
    partition = fixtures.partition_of(name)
    pairs = {**partition.config, "segment.bytes": "14"}
    pairs["producer.id.expiration.ms"] = str(case["producerIdExpirationMs"])
    config, cleaner = parse_settings(pairs)
    require_same(
        fixtures.copy_before(name, tmp_path),
        tmp_path,
        agreement,
        configs={},
        config=config,
        cleaner=cleaner,
        now_ms=TimestampMs(case["now"]),
    )


@pytest.mark.rotates(3)
@pytest.mark.parametrize("number", range(12))
def test_random_logs(
    number: int, seed: int, tmp_path: Path, agreement: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With rolls, transactions, tombstones, codecs, gaps; any number of shards and groups."""
    draw = random.Random(f"{seed} {number}")
    monkeypatch.setattr(exchange, "BUFFERED_ROWS", draw.choice((1, 7, 1 << 21)))
    a_log(tmp_path / "logs", draw)
    require_same(
        tmp_path / "logs",
        tmp_path,
        agreement,
        shards=draw.choice((1, 2, 5)),
        configs={
            "segment.bytes": str(draw.choice((14, 300, 1 << 30))),
            "delete.retention.ms": str(draw.choice((0, 50, 86_400_000))),
        },
        options=CleaningOptions(force=True, roll=draw.choice((False, True))),
        now_ms=TimestampMs(START_MS + draw.choice((0, 1_000, 90_000_000))),
    )


@pytest.mark.parametrize("number", range(3))
def test_random_commands(
    number: int, seed: int, tmp_path: Path, agreement: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cleaned in parts by the command line, between other commands: as in a log directory."""
    monkeypatch.setattr(steps, "SHARD_BYTES", 200)
    faults, _ = play(seed + number, tmp_path, agreement, split=True)
    assert [] == faults


@pytest.fixture(name="log_dir")
def _log_dir(tmp_path: Path, bucket: Bucket, agreement: bytes) -> Path:
    """A log of five groups, which is in the bucket, too."""
    builder = LogBuilder(tmp_path / "logs")
    for base in range(0, 50, 10):
        segment = builder.segment(base)
        for offset in range(base, base + 10, 2):
            segment.batch(offset, [(f"k{offset % 3}", "v" * 50), (f"k{offset % 7}", None)])
    builder.write(index_interval=1, producers=True, high_watermark=builder.end_offset)
    put(builder.log_dir, bucket, agreement)
    return builder.log_dir


@pytest.fixture(name="configs")
def _configs(log_dir: Path) -> dict[str, str]:
    """Settings by which no two of its segments become one, and none is rolled."""
    largest = max(path.stat().st_size for path in (log_dir / str(T0)).glob("*.log"))
    return {"segment.bytes": str(largest + 1)}


@pytest.fixture(name="sweep")
def _sweep(bucket: Bucket, tmp_path: Path, configs: dict[str, str]) -> BucketSweep:
    """A cleaning of it."""
    return a_sweep(bucket, tmp_path / "scratch", configs)


@pytest.fixture(name="expected")
def _expected(log_dir: Path, tmp_path: Path, agreement: bytes, configs: dict[str, str]) -> LogState:
    """What one task makes of it."""
    bucket = Bucket.of(f"file://{tmp_path}/expected")
    put(log_dir, bucket, agreement)
    by_one(a_sweep(bucket, tmp_path / "scratch", configs))
    return keyless(version(bucket).state)


def test_no_task_has_the_whole_log(sweep: BucketSweep, bucket: Bucket, expected: LogState) -> None:
    """One for each group and shard; a job that is run again finds its change."""
    caller = Elsewhere()
    ended = by_many(sweep, caller)
    assert expected == keyless(version(bucket).state)
    assert {"read_keys": 4, "find_superseded": 3, "rewrite_group": 4, "finish": 1} == {
        name: caller.called.count(name) for name in caller.called
    }
    again = by_many(sweep)
    assert (None, ended.version) == (again.result, again.version)
    assert 1 == version(bucket).version


def test_tasks_that_run_twice(sweep: BucketSweep, bucket: Bucket, expected: LogState) -> None:
    """The change is made once, and all that it names is there."""
    by_many(sweep, Elsewhere(twice=True))
    assert 1 == version(bucket).version
    assert expected == keyless(version(bucket).state)
    assert [] == list(scrub(bucket.below(str(T0))).wrong)


@pytest.mark.parametrize("step", ["read_keys", "find_superseded", "rewrite_group", "finish"])
def test_a_job_that_is_killed(
    step: str, sweep: BucketSweep, bucket: Bucket, expected: LogState
) -> None:
    """Nothing was changed; the same job is made by another process."""

    def kill(name: str, calls: int) -> None:
        if name == step and calls == (0 if step == "finish" else 1):
            raise Killed

    before = version(bucket)
    with pytest.raises(Killed):
        by_many(sweep, Elsewhere(before=kill))
    assert before == version(bucket)
    by_many(sweep)
    assert expected == keyless(version(bucket).state)


def test_another_operation_comes_first(
    sweep: BucketSweep, bucket: Bucket, tmp_path: Path, configs: dict[str, str]
) -> None:
    """It is begun again from what that left, which is clean."""

    def clean_before(name: str, calls: int) -> None:
        if name == "finish" and not calls:
            by_one(a_sweep(bucket, tmp_path / "scratch", configs))

    caller = Elsewhere(before=clean_before)
    ended = by_many(sweep, caller)
    assert 2 == caller.called.count("finish")
    assert None is ended.version
    assert 1 == version(bucket).version


def test_records_that_are_added_meanwhile_stay(
    sweep: BucketSweep, bucket: Bucket, log_dir: Path
) -> None:
    """What was planned is committed, with the new segments after it."""

    def add(name: str, calls: int) -> None:
        if name == "finish" and not calls:
            builder = LogBuilder(log_dir.with_name("longer"))
            for base in range(0, 50, 10):
                segment = builder.segment(base)
                for offset in range(base, base + 10, 2):
                    segment.batch(offset, [(f"k{offset % 3}", "v" * 50), (f"k{offset % 7}", None)])
            builder.segment(50).batch(50, [("k0", "new")])
            builder.write(index_interval=1, producers=True, high_watermark=builder.end_offset)
            put(builder.log_dir, bucket)

    caller = Elsewhere(before=add)
    by_many(sweep, caller)
    assert 1 == caller.called.count("finish")
    state = version(bucket).state
    assert 51 == state.log_end_offset
    assert 50 == state.segments[-1].base_offset
    assert [] == list(scrub(bucket.below(str(T0))).wrong)


def test_an_output_that_fails_a_check(
    sweep: BucketSweep, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is sent of that group, and nothing changed."""
    rewrite = tasks.rewrite

    def damaged(*given: Any) -> StagedCleaning:  # noqa: ANN401 -- of `rewrite`
        staged = rewrite(*given)
        for segment in staged.segments:
            path = staged.directory / f"{segment.base_offset:020d}.log"
            content = bytearray(path.read_bytes())
            if content and segment.base_offset == 30:
                content[-1] ^= 1
                path.write_bytes(content)
        return staged

    monkeypatch.setattr(tasks, "rewrite", damaged)
    before = version(bucket)
    with pytest.raises(QualityError, match="crc_valid"):
        by_many(sweep)
    assert before == version(bucket)


def test_a_table_that_fails_its_check(
    sweep: BucketSweep, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is rewritten, and nothing changed."""
    monkeypatch.setattr(exchange, "_insert", lambda *_: True)
    before, caller = version(bucket), Elsewhere()
    with pytest.raises(QualityError, match="latest_value_per_key"):
        by_many(sweep, caller)
    assert "rewrite_group" not in caller.called
    assert before == version(bucket)


def test_an_object_of_the_job_that_is_gone(sweep: BucketSweep, bucket: Bucket) -> None:
    """Each attempt begins again; the log stays as it was."""

    def remove(name: str, calls: int) -> None:
        if name == "find_superseded" and not calls % 3:
            for path in jobs_objects(bucket):
                path.unlink()

    before = version(bucket)
    with pytest.raises(StalePlan, match="gone"):
        by_many(sweep, Elsewhere(before=remove))
    assert before == version(bucket)


def test_objects_of_the_job(sweep: BucketSweep, bucket: Bucket) -> None:
    """They hold no value and are removed; what a call that was repeated has left no version names,
    and a purge removes it when it is old.
    """
    seen: dict[str, bytes] = {}

    def look(name: str, calls: int) -> None:
        if name == "finish" and not calls:
            seen.update((path.name, path.read_bytes()) for path in jobs_objects(bucket))

    by_many(sweep, Elsewhere(before=look, twice=True))
    assert seen
    assert [] == [name for name, content in seen.items() if b"vvvv" in content]
    left = {f"data/{path.name}" for path in jobs_objects(bucket)}
    assert left
    assert len(left) < len(seen)
    assert left <= set(scrub(bucket.below(str(T0))).unnamed)


def test_nothing_is_left(sweep: BucketSweep, bucket: Bucket, tmp_path: Path) -> None:
    """If every call was made once: no object that no version names, and no file here."""
    by_many(sweep)
    assert [] == jobs_objects(bucket)
    assert [] == list(scrub(bucket.below(str(T0))).unnamed)
    assert [] == list((tmp_path / "scratch").iterdir())


def jobs_objects(bucket: Bucket) -> list[Path]:
    """The objects that tasks have left for later ones."""
    return list(Path(bucket.url.removeprefix("file://")).rglob("*.job"))


def test_a_roll_alone_downloads_nothing_else(log_dir: Path, bucket: Bucket, tmp_path: Path) -> None:
    """No group is read: the change is that of a working copy."""
    sweep = a_sweep(
        bucket,
        tmp_path / "scratch",
        {"cleanup.policy": "delete"},
        options=CleaningOptions(),
        now_ms=TimestampMs(START_MS + (1 << 40)),
    )
    caller = Elsewhere()
    by_many(sweep, caller)
    assert ["finish"] == caller.called
    assert log_dir.is_dir()
    assert 50 == version(bucket).state.segments[-1].base_offset


def test_which_logs_are_split(log_dir: Path, bucket: Bucket, tmp_path: Path) -> None:
    """Larger ones than the option says, if nothing needs a working copy."""
    del log_dir
    sweep = a_sweep(bucket, tmp_path / "scratch", {})
    ended = by_one(sweep).result
    assert ended is not None
    plan = ended.passes[0].plan
    assert plan is not None
    assert is_split(plan, 0, retains=False)
    assert is_split(plan, 0, retains=True)
    assert not is_split(plan, 1 << 30, retains=False)
    both = plan.config.model_copy(update={"cleanup_policy": ("compact", "delete")})
    assert not is_split(plan._replace(config=both), 0, retains=True)
    thorough = plan._replace(options=CleaningOptions(checks="thorough"))
    assert not is_split(thorough, 0, retains=False)
