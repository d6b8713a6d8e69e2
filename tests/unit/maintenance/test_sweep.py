"""One log in a bucket is swept by one call, whichever process makes it, and however often."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

import pytest

from logwright.batches.runtime import Runtime, Throttle
from logwright.bucket.store import Bucket
from logwright.cli.run import clean_in_bucket
from logwright.compaction.model import CleaningOptions
from logwright.config.topic import CleanerConfig, TopicConfig
from logwright.errors import CorruptBatch, NotALogDir
from logwright.maintenance import maintain, sweep
from logwright.maintenance.maintain import new_job
from logwright.maintenance.sweep import BucketSweep, Swept, sweep_in_task
from logwright.place.named import place_of
from logwright.spark.session import SparkDied
from logwright.spark.sweep import SparkExecutor
from logwright.state.store import read_state
from logwright.sweep.executor import LocalExecutor
from logwright.sweep.model import LogWork
from logwright.units import TimestampMs
from tests.bucket_maintenance.copies import T0, called, differences, put, run, version
from tests.log_builder import START_MS, LogBuilder

COMPACT = {"cleanup.policy": "compact", "delete.retention.ms": "0"}


class Killed(BaseException):
    """The process ended."""


@pytest.fixture(name="log_dir")
def _log_dir(tmp_path: Path, bucket: Bucket, agreement: bytes) -> Path:
    """A log of five segments, which is in the bucket, too."""
    builder = LogBuilder(tmp_path / "logs")
    for base in range(0, 50, 10):
        segment = builder.segment(base)
        for offset in range(base, base + 10, 2):
            segment.batch(offset, [(f"k{offset % 3}", "v" * 50), (f"k{offset % 7}", None)])
    builder.write(index_interval=1, producers=True, high_watermark=builder.end_offset)
    put(builder.log_dir, bucket, agreement)
    return builder.log_dir


def job(bucket: Bucket, tmp_path: Path, configs: dict[str, str], **more: Any) -> BucketSweep:  # noqa: ANN401 -- of BucketSweep
    wanted = {
        "url": bucket.url,
        "partition": T0,
        "id": new_job("clean"),
        "scratch": tmp_path / "scratch",
        "now_ms": TimestampMs(START_MS + 1_000),
        "config": TopicConfig.model_validate(configs),
        "cleaner": CleanerConfig(),
        "options": CleaningOptions(force=True),
        "high_watermark": "checkpoint",
    }
    return BucketSweep(**(wanted | more))


def done(sweep_of: BucketSweep) -> Swept:
    """What a call did."""
    ended = sweep_of.run(LocalExecutor(threads=1))
    assert ended is not None
    assert ended.result is not None
    return ended.result


def test_it_is_swept_as_a_log_directory(log_dir: Path, bucket: Bucket, tmp_path: Path) -> None:
    """Cleaned twice, and retention after it: the same bytes as by the command here."""
    policy = {"cleanup.policy": "compact,delete", "delete.retention.ms": "0"}
    both = {**policy, "retention.bytes": "200"}
    words = [word for pair in both.items() for word in ("--config", "=".join(pair))]
    clock = ("--now", START_MS + 1_000, "--high-watermark", "checkpoint")
    run("clean", log_dir, "t-0", "--yes", "--force", "--passes", 3, "--retain", *words, *clock)
    swept = done(job(bucket, tmp_path, both, passes=3, retains=True))
    assert [] == differences(log_dir, bucket, tmp_path / "there", T0)
    assert 2 <= len(swept.passes) <= 3
    assert swept.retained is not None
    assert swept.retained.retained is not None
    assert swept.retained.retained.deleted


def test_what_is_not_due_changes_nothing(log_dir: Path, bucket: Bucket, tmp_path: Path) -> None:
    """And nothing is written for it."""
    before = version(bucket)
    ended = job(bucket, tmp_path, {"cleanup.policy": "delete"}, options=CleaningOptions()).run(
        LocalExecutor(threads=1)
    )
    assert ended is not None
    assert (None, 0) == (ended.version, ended.sent_bytes)
    assert before == version(bucket)
    assert log_dir.is_dir()


@pytest.mark.usefixtures("log_dir")
def test_a_quarantine_ends_with_the_cleaning(bucket: Bucket, tmp_path: Path) -> None:
    """As by the command; with nothing done it stays."""
    quarantine = ("quarantine", bucket.url, "t-0", "--set", "looks odd", "--yes")
    assert 0 == called(*quarantine).exit_code
    retained = {"cleanup.policy": "delete"}
    job(bucket, tmp_path, retained).run(LocalExecutor(threads=1))
    assert T0 in read_state(place_of(bucket.url))
    done(job(bucket, tmp_path, COMPACT))
    assert T0 not in read_state(place_of(bucket.url))


def test_a_job_that_is_run_again_finds_its_change(
    log_dir: Path, bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that dies before it says so has made it; another one makes it no second time."""
    first = job(bucket, tmp_path, COMPACT)

    def killed(*_: object, **__: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(maintain, "Maintained", killed)
        with pytest.raises(Killed):
            first.run(LocalExecutor(threads=1))
    after = version(bucket)
    assert first.id == after.operation
    again = pickle.loads(pickle.dumps(first)).run(LocalExecutor(threads=1))  # noqa: S301, TID251 -- as Spark does
    assert (None, after.version) == (again.result, again.version)
    assert after == version(bucket)
    assert log_dir.is_dir()


@pytest.mark.usefixtures("log_dir")
def test_an_answer_that_was_lost_is_said(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command knows the version, and does not claim that nothing was cleaned."""
    monkeypatch.setattr(clean_in_bucket, "new_job", lambda _: "clean-lost")
    clock = ("--now", START_MS + 1_000, "--scratch", tmp_path / "scratch")
    words = ("clean", bucket.url, "--yes", "--force", *clock, *_words(COMPACT))
    assert "Reclaimed" in run(*words)
    again = (*words, "--retain")  # so that it is called though nothing is due
    assert ["t-0: changed by a task whose answer was lost. What it removed is not known."] == (
        run(*again).splitlines()
    )
    (line,) = run(*again, "--output", "json").splitlines()
    assert {"cleaned": None, "version": 1}.items() <= json.loads(line).items()


@pytest.mark.usefixtures("log_dir")
def test_spark_that_dies_may_have_changed_logs(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its tasks change logs themselves."""
    monkeypatch.setattr(SparkExecutor, "call_planned", died)
    words = ("clean", bucket.url, "--engine", "spark", "--yes", "--force", *_words(COMPACT))
    done = called(*words)
    assert SparkDied.exit_status == done.exit_code
    assert "Logs may have been changed" in done.stderr
    assert "No live log was changed" not in done.stderr


def died(*_: object) -> None:
    raise SparkDied("died.", remedy="No live log was changed.")


def test_two_processes_make_a_job_once(
    log_dir: Path, bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with Spark's speculation: the second one begins before the first one has committed."""
    only = job(bucket, tmp_path, COMPACT)
    plan_all, inner = sweep.plan_all, []

    def with_another(*arguments: Any, **named: Any) -> Any:  # noqa: ANN401 -- of plan_all
        monkeypatch.setattr(sweep, "plan_all", plan_all)
        inner.append(only.run(LocalExecutor(threads=1)))
        return plan_all(*arguments, **named)

    monkeypatch.setattr(sweep, "plan_all", with_another)
    outer = only.run(LocalExecutor(threads=1))
    (first,) = inner
    assert outer is not None
    assert first is not None
    assert 1 == first.version == outer.version == version(bucket).version
    run("clean", log_dir, "t-0", "--yes", "--force", "--now", START_MS + 1_000, *_words(COMPACT))
    assert [] == differences(log_dir, bucket, tmp_path / "there", T0)


def test_a_log_that_fails_stays_as_it_is(bucket: Bucket, tmp_path: Path, agreement: bytes) -> None:
    """With the error that names file and offset."""
    builder = LogBuilder(tmp_path / "logs")
    builder.segment(0).batch(0, [("k", "v")]).batch(1, [("k", "w")])
    builder.segment(2).batch(2, [("k", "x")])
    builder.write(producers=True, high_watermark=3)
    path = builder.directory / f"{0:020d}.log"
    content = bytearray(path.read_bytes())
    content[70] ^= 1
    path.write_bytes(content)
    put(builder.log_dir, bucket, agreement)
    before = version(bucket)
    with pytest.raises(CorruptBatch, match=r"00000000000000000000\.log"):
        job(bucket, tmp_path, COMPACT).run(LocalExecutor(threads=1))
    assert before == version(bucket)
    assert [] == [each.name for each in (tmp_path / "scratch").iterdir()]


def test_a_task_keeps_to_its_share_of_the_rate(
    log_dir: Path, bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which all tasks of a job have together."""
    rates = []
    original = BucketSweep._sweep

    def seen(self: BucketSweep, *rest: Any) -> Any:  # noqa: ANN401 -- of _sweep
        rates.append(self.cleaner.io_max_bytes_per_second)
        return original(self, *rest)

    monkeypatch.setattr(BucketSweep, "_sweep", seen)
    sweep_in_task(job(bucket, tmp_path, COMPACT), runtime=Runtime(throttle=Throttle(1e9)))
    sweep_in_task(job(bucket, tmp_path, COMPACT), runtime=Runtime())
    assert [1e9, CleanerConfig().io_max_bytes_per_second] == rates
    assert rates[1] > 1e300 or rates[1] == inf
    assert log_dir.is_dir()


def test_a_directory_that_nobody_wrote(tmp_path: Path) -> None:
    """Nothing is made there."""
    empty = Bucket.of(f"file://{tmp_path}/empty")
    with pytest.raises(NotALogDir, match="nobody has written"):
        job(empty, tmp_path, COMPACT).run(LocalExecutor(threads=1))
    assert not (tmp_path / "empty").exists() or not list((tmp_path / "empty").iterdir())


def test_a_work_that_failed_is_an_error() -> None:
    """Whichever stage it failed in."""
    work = LogWork(key="t-0", log_dir=Path("logs"), partition=T0)
    error = NotALogDir("is none.", path="logs")
    with pytest.raises(NotALogDir):
        sweep.whole([work, replace(work, failure=error)])


def _words(configs: dict[str, str]) -> list[str]:
    return [word for pair in configs.items() for word in ("--config", "=".join(pair))]
