"""A record batch that unpacks to more than the limit is not corrupt: it was not read, so far."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from logwright.format.codec import GZIP, ZSTD
from logwright.format.limits import ENVIRONMENT
from tests.differential.oracle_server import shared
from tests.e2e.command import Answer, call
from tests.log_builder import START_MS, LogBuilder
from tests.old_formats import Message, wrapper

NOW_MS = START_MS + 1_000_000_000
RECORDS = 70
VALUE = bytes(1_000_000)
ENOUGH = str(80 << 20)
COMPACT = ("--config", "cleanup.policy=compact", "--config", "min.cleanable.dirty.ratio=0")
META = b"version=1\nnode.id=1\ncluster.id=Y2x1c3RlcmNsdXN0ZXJjbA\n"


@pytest.fixture(autouse=True)
def _no_limit_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ENVIRONMENT, raising=False)


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """A batch of 70 MB, which is a few KB on disk, before a small one, and a second segment."""
    log = LogBuilder(tmp_path / "logs")
    log.segment(0).batch(0, [("ann", VALUE)] * RECORDS, codec=ZSTD).batch(RECORDS, [("bob", "1")])
    log.segment(RECORDS + 1).batch(RECORDS + 1, [("carl", "1")])
    log.write(producers=True, high_watermark=RECORDS + 2)
    (log.log_dir / "meta.properties").write_bytes(META)
    (tmp_path / "keys").write_text("ann\n")
    return log.log_dir


def commands(logs: Path) -> dict[str, tuple[object, ...]]:
    keys, to = logs.parent / "keys", logs.parent / "latest"
    return {
        "verify": ("verify", logs),
        "find": ("find", logs, "--keys", keys),
        "latest": ("latest", logs, "t", "--to", to, "--columns", "key,offset"),
        "clean": ("clean", logs, "t-0", "--yes", "--now", NOW_MS, *COMPACT),
    }


def content(logs: Path) -> dict[str, bytes]:
    return {one.name: one.read_bytes() for one in (logs / "t-0").iterdir() if one.is_file()}


def text(answer: Answer) -> str:
    return answer.out + answer.err


@pytest.mark.parametrize(
    ("name", "status"), [("verify", 5), ("find", 9), ("latest", 5), ("clean", 5)]
)
def test_the_limit_is_named_as_a_limit(logs: Path, name: str, status: int) -> None:
    """Nothing is called corrupt, restored or set aside; no row is left out in silence."""
    before = content(logs)
    answer = call(*commands(logs)[name])
    assert status == answer.status
    assert "the record batch at offset 0 unpacks to more than 67108864 bytes" in text(answer)
    assert f"{ENVIRONMENT} raises that limit" in text(answer)
    assert "estore" not in text(answer)
    assert "orrupt" not in text(answer)
    assert before == content(logs)
    assert "Nothing is in quarantine" in call("quarantine", logs).out
    assert [] == list(logs.parent.glob("latest/**/*.parquet"))


def test_who_has_the_memory_reads_it(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By all commands: as any other batch."""
    monkeypatch.setenv(ENVIRONMENT, ENOUGH)
    words = commands(logs)
    assert 0 == call(*words["verify"]).status
    assert 8 == call(*words["find"]).status
    assert 0 == call(*words["latest"]).status
    rows = [row for one in logs.parent.glob("latest/**/*.parquet") for row in _rows(one)]
    assert {b"ann": RECORDS - 1, b"bob": RECORDS, b"carl": RECORDS + 1} == {
        row["key"]: row["offset"] for row in rows
    }
    assert 0 == call(*words["clean"]).status
    assert 0 == call(*words["verify"]).status


def _rows(path: Path) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = pq.read_table(path).to_pylist()
    return rows


@pytest.mark.oracle
def test_kafkas_cleaner_reads_it(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no limit. What it leaves of the log are the same records."""
    monkeypatch.setenv(ENVIRONMENT, ENOUGH)
    by_kafka = logs.parent / "kafka"
    shutil.copytree(logs, by_kafka)
    request = {"request": "clean", "logDir": str(by_kafka), "topicPartition": "t-0"}
    settings = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}
    answer = shared().ask(
        {**request, "config": settings, "now": NOW_MS, "producerIdExpirationMs": 86_400_000}
    )
    assert "failed" not in answer
    assert 0 == call(*commands(logs)["clean"]).status
    log = f"{0:020}.log"
    assert (by_kafka / "t-0" / log).stat().st_size < (1 << 16)
    assert _records(by_kafka) == _records(logs) != []


def _records(logs: Path) -> list[tuple[int, str]]:
    lines = call("dump", logs, "t-0").lines
    batches = [line for line in lines if line["type"] == "batch"]
    return [(one["offset"], one["key"]) for batch in batches for one in batch["records"]]


@pytest.mark.parametrize("given", ["64MiB", "-1"])
def test_a_limit_is_a_number(logs: Path, monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    """Anything else is an error of the settings."""
    monkeypatch.setenv(ENVIRONMENT, given)
    answer = call(*commands(logs)["verify"])
    assert 2 == answer.status
    assert ENVIRONMENT in answer.err


def test_batches_that_are_too_large_together(tmp_path: Path) -> None:
    """The limit is for one batch: what is read at once is no more than that."""
    log = LogBuilder(tmp_path / "logs")
    segment = log.segment(0)
    for base in range(0, 150, 50):
        segment.batch(base, [(f"ann{base}", VALUE)] * 50, codec=ZSTD)
    log.segment(150).batch(150, [("bob", "1")])
    log.write(producers=True)
    assert 0 == call("verify", log.log_dir).status
    limit = ("--config", "max.decompressed.message.bytes=2000000")
    assert 0 == call(*commands(log.log_dir)["clean"], *limit).status


def test_a_wrapper_of_an_old_format(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has the same limit."""
    log = LogBuilder(tmp_path / "logs")
    messages = [Message(b"ann", VALUE, START_MS)] * RECORDS
    log.segment(0).old(wrapper(1, tuple(range(RECORDS)), messages, GZIP), START_MS)
    log.write(producers=True)
    (tmp_path / "keys").write_text("ann\n")
    words = commands(log.log_dir)
    for name, status in (("verify", 5), ("find", 9), ("latest", 5)):
        answer = call(*words[name])
        assert status == answer.status
        assert f"at offset {RECORDS - 1} unpacks to more than 67108864 bytes" in text(answer)
    monkeypatch.setenv(ENVIRONMENT, ENOUGH)
    assert 0 == call(*words["verify"]).status
    assert 8 == call(*words["find"]).status
