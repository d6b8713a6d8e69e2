"""Commands on logs in a bucket, by the protocols of Amazon, Microsoft and Google, against programs
that serve them: what is there is what the same commands make of a log directory.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from logwright.bucket.agreement import agree
from logwright.bucket.commit import Limits
from logwright.bucket.store import Bucket
from logwright.format.names import TopicPartition
from logwright.maintenance.scrub import scrub
from logwright.units import DurationMs
from tests.bucket.kinds import KINDS
from tests.bucket.proxy import proxied
from tests.bucket_maintenance.copies import called, differences, run, unlike
from tests.bucket_maintenance.random_logs import a_log
from tests.e2e.command import REPOSITORY
from tests.log_builder import START_MS, LogBuilder

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.nightly]

LOGS = tuple(TopicPartition("t", number) for number in range(4))
LARGE = TopicPartition("large", 0)
ALL = (*LOGS, LARGE)
NOW = ("--now", START_MS + 1_000)
CLEAN = ("--config", "cleanup.policy=compact", "--config", "segment.bytes=300", "--force", *NOW)
RETAIN = ("--config", "cleanup.policy=delete", "--config", "retention.bytes=0", *NOW)
LIMITS = Limits(deadline_ms=DurationMs(60_000), age_ms=DurationMs(90_000), kept_versions=1)
"""Short ones, so that a purge removes what this test left."""
SHOWN = ("topicPartition", "bytes", "logStartOffset", "logEndOffset", "segments", "problem")
FOUND, LEFT = 8, 9
READ = """
import sys
from pyspark.sql import SparkSession
from logwright.spark.session import prepare_environment, session_settings
prepare_environment()
builder = SparkSession.builder
for name, value in session_settings(master="local[2]", cores=2).items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
for path in sys.argv[1:]:
    log = spark.read.format("kafka-log").option("subscribePattern", ".*").load(path)
    columns = ("topic", "partition", "offset", "sha2(key, 256)", "sha2(value, 256)")
    print(sorted(map(tuple, log.selectExpr(*columns).collect())))
"""


@pytest.fixture(name="bucket", params=KINDS)
def _bucket(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bucket]:
    """A log directory in a bucket of a server, and the environment of its clients."""
    kind = KINDS[request.param]
    with (
        kind.server(tmp_path / "server") as port,
        proxied(port, rate=0, seed=0, translate=kind.translate) as proxy,
        pytest.MonkeyPatch.context() as patch,
    ):
        for name, value in kind.environment(proxy.port).items():
            patch.setenv(name, value)
        yield Bucket.of(f"{kind.root}/{tmp_path.name}/archive")


@pytest.fixture(name="log_dir")
def _log_dir(tmp_path: Path, seed: int) -> Path:
    """Random logs, and one whose objects are written in several requests."""
    log_dir = tmp_path / "logs"
    for partition in LOGS:
        a_log(tmp_path / "one", random.Random(f"{seed} {partition}"), str(partition))
        shutil.copytree(tmp_path / "one", log_dir, dirs_exist_ok=True)
        shutil.rmtree(tmp_path / "one")
    builder = LogBuilder(tmp_path / "one", str(LARGE))
    for base in (0, 20):
        segment = builder.segment(base)
        for offset in range(base, base + 20):
            segment.batch(offset, [(f"k{offset % 15}", f"{offset:7}" * 100_000)])
    builder.write(producers=True)
    shutil.copytree(tmp_path / "one" / str(LARGE), log_dir / str(LARGE))
    shutil.rmtree(tmp_path / "one")
    for path in log_dir.glob("*-checkpoint"):  # each log wrote its own
        path.unlink()
    (log_dir / ".kafka_cleanshutdown").touch()
    return log_dir


def wrong(
    log_dir: Path, bucket: Bucket, scratch: Path, partitions: tuple[TopicPartition, ...] = ALL
) -> list[str]:
    """What is not the same here and there, in files, times and offsets."""
    return [
        f"{partition}: {fault}"
        for partition in partitions
        for fault in differences(log_dir, bucket, scratch / "compared", partition)
    ]


def as_spark_reads(*places: str | Path) -> list[str]:
    """The rows of all topics of each place, by the format ``kafka-log``."""
    words = [sys.executable, "-c", READ, *map(str, places)]
    paths = os.pathsep.join(filter(None, (str(REPOSITORY), os.environ.get("PYTHONPATH"))))
    read = subprocess.run(
        words, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": paths}, check=False
    )
    assert 0 == read.returncode, read.stderr[-4000:]
    return read.stdout.splitlines()


def read_everywhere(log_dir: Path, bucket: Bucket, scratch: Path) -> None:
    """What commands and Spark read is the same here and there."""
    here, there = as_spark_reads(log_dir, bucket.url)
    assert len(here) > 1_000
    assert here == there
    answers = []
    for number, place in enumerate((log_dir, bucket.url)):
        for topic in ("t", "large"):
            run("latest", place, topic, "--to", scratch / f"{topic}-{number}", *NOW)
        _, *logs = map(json.loads, run("inspect", place, "--output", "json").splitlines())
        answers.append([{name: log[name] for name in SHOWN} for log in logs])
    assert answers[0] == answers[1]
    for topic in ("t", "large"):
        mine, other = (
            sorted(
                pq.read_table(scratch / f"{topic}-{number}").to_pylist(),
                key=lambda row: (row["partition"], row["offset"]),
            )
            for number in (0, 1)
        )
        assert mine == other != []


def test_logs_are_maintained_there_as_here(
    bucket: Bucket, log_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each command on a server, then on the log directory; both are the same after each."""
    monkeypatch.setattr("logwright.bucket.agreement.LONGEST_REQUEST_MS", 0)
    assert LIMITS == agree(bucket, LIMITS)
    scratch = ("--scratch", tmp_path / "scratch")
    keys = tmp_path / "keys"
    keys.write_text("k1\nk3\n")
    run("upload", log_dir, "--to", bucket.url, *NOW)
    assert [] == wrong(log_dir, bucket, tmp_path)
    read_everywhere(log_dir, bucket, tmp_path)
    run("verify", bucket.url)
    assert FOUND == called("find", bucket.url, "--keys", keys, *NOW).exit_code

    run("clean", bucket.url, *CLEAN, *scratch, "--yes")
    run("undo", bucket.url, str(LOGS[0]), "--yes")
    cleaned = tmp_path / "cleaned"
    shutil.copytree(log_dir, cleaned)
    run("clean", cleaned, *CLEAN, "--yes")
    assert [] == wrong(log_dir, bucket, tmp_path, LOGS[:1])
    assert [] == wrong(cleaned, bucket, tmp_path, ALL[1:])
    run("clean", bucket.url, str(LOGS[0]), *CLEAN, *scratch, "--yes")
    assert [] == wrong(cleaned, bucket, tmp_path)

    for place, more in ((cleaned, ()), (bucket.url, scratch)):
        run("retain", place, str(LOGS[1]), *RETAIN, *more, "--yes")
        words = ("erase", place, "--keys", keys, "--now-and-for-good", *NOW, *more, "--yes")
        assert called(*words).exit_code in {0, LEFT}
    assert [] == wrong(cleaned, bucket, tmp_path)
    assert LEFT == called("find", bucket.url, "--keys", keys, *NOW).exit_code

    assert any(scrub(bucket.below(str(each))).earlier for each in ALL)
    time.sleep(LIMITS.age_ms / 1000 + 2)
    run("purge", bucket.url, "--yes")
    for each in ALL:
        after = scrub(bucket.below(str(each)))
        assert ((), (), ()) == (after.earlier, after.unnamed, tuple(after.wrong))
    run("verify", bucket.url)
    assert 0 == called("find", bucket.url, "--keys", keys, *NOW).exit_code
    run("download", bucket.url, "--to", tmp_path / "restored")
    assert [] == [fault for each in ALL for fault in unlike(cleaned, tmp_path / "restored", each)]
