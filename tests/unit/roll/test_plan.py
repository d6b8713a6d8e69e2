"""When the active segment is rolled, and when it will be."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from logwright.cli.main import main
from logwright.config.topic import parse_settings
from logwright.format.names import TopicPartition
from logwright.log.load import observe
from logwright.log.model import PartitionLog
from logwright.roll.plan import RollDecision, force_roll, plan_roll
from logwright.units import INT32_MAX, ByteCount, Offset, TimestampMs
from tests import fixtures
from tests.oracle_runner import run_oracle

T0 = TopicPartition("t", 0)
NOW_MS = TimestampMs(1_760_000_100_000)
ROOMY = {"segment.bytes": "2000000", "segment.index.bytes": "10000", "segment.ms": "9000000000000"}


@pytest.fixture
def log(tmp_path: Path) -> PartitionLog:
    return observe(fixtures.copy_before("basic-none", tmp_path), T0, high_watermark="end")


def decide(log: PartitionLog, now_ms: int = NOW_MS, **settings: str) -> RollDecision:
    pairs = ROOMY | {name.replace("_", "."): value for name, value in settings.items()}
    config, _ = parse_settings(pairs)
    return plan_roll(log, config, now_ms=TimestampMs(now_ms), like_kafka=False)


def with_active(log: PartitionLog, **changes: int) -> PartitionLog:
    active = log.active._replace(**{name: ByteCount(value) for name, value in changes.items()})
    return log.with_segments((*log.sealed, active))


def test_not_due_says_when(log: PartitionLog) -> None:
    """The first batch's age decides; what is missing is said."""
    first_ms = log.active.first_batch_max_timestamp_ms
    assert first_ms is not None
    decision = decide(log, first_ms + 1000, segment_ms="1000")
    assert (False, first_ms + 1001) == (decision.due, decision.due_at_ms)
    assert "its first batch is 1 s old, the limit is 1 s" in decision.reason
    assert "time" == decide(log, first_ms + 1001, segment_ms="1000").cause


def test_compaction_lag_is_a_deadline(log: PartitionLog) -> None:
    """An idle compacted log is rolled when its first record is older than the lag; another not."""
    first_ms = log.active.first_batch_max_timestamp_ms
    assert first_ms is not None
    lag = {"max_compaction_lag_ms": "5000"}
    assert "time" == decide(log, first_ms + 5001, cleanup_policy="compact", **lag).cause
    assert not decide(log, first_ms + 5001, cleanup_policy="delete", **lag).due


@pytest.mark.parametrize(
    ("bytes_", "cause"), [(2_000_000, "size"), (1_999_999, None), (2_000_001, "size")]
)
def test_size(log: PartitionLog, bytes_: int, cause: str | None) -> None:
    """A segment that holds segment.bytes takes no further batch."""
    assert cause == decide(with_active(log, log_bytes=bytes_)).cause


@pytest.mark.parametrize(
    ("index", "timeindex", "cause"),
    [
        (79, 0, None),
        (80, 0, "offset index"),
        (0, 51, None),
        (0, 52, "time index"),
    ],
)
def test_full_indexes(log: PartitionLog, index: int, timeindex: int, cause: str | None) -> None:
    """640 bytes: 80 entries of offsets; 53 of times, of which one is kept for the last."""
    full = with_active(log, index_bytes=index * 8, timeindex_bytes=timeindex * 12)
    assert cause == decide(full, segment_index_bytes="640").cause


def test_offset_range(log: PartitionLog) -> None:
    """An offset must fit in four bytes next to the base offset."""
    base = log.active.base_offset
    near = log._replace(log_end_offset=Offset(base + INT32_MAX))
    far = log._replace(log_end_offset=Offset(base + INT32_MAX + 1))
    assert (None, "offset range") == (decide(near).cause, decide(far).cause)


def test_empty_segment_is_never_rolled(log: PartitionLog) -> None:
    """Not even by force."""
    empty = with_active(log, log_bytes=0)
    assert not decide(empty, segment_ms="1").due
    assert not force_roll(empty, cause="forced").due
    assert "empty" in force_roll(empty, cause="forced").reason
    assert "forced" == force_roll(log, cause="forced").cause


def test_jitter_makes_a_roll_due_earlier(log: PartitionLog) -> None:
    """By less than segment.jitter.ms."""
    early = decide(log, segment_ms="100000", segment_jitter_ms="100000").due_at_ms
    late = decide(log, segment_ms="100000").due_at_ms
    assert early is not None
    assert late is not None
    assert 0 < late - early < 100_000


def roll(log_dir: Path, *more: str) -> dict[str, object]:
    arguments = ["roll", str(log_dir), "t-0", "--yes", "--output", "json", *more]
    result = CliRunner().invoke(main, arguments, catch_exceptions=False)
    assert 0 == result.exit_code, result.output
    told: dict[str, object] = json.loads(result.stdout)
    return told


@pytest.mark.oracle
@pytest.mark.parametrize("name", ["basic-none", "txn-ongoing", "idempotent-1-retained"])
def test_forced_roll_leaves_what_kafkas_leaves(name: str, tmp_path: Path) -> None:
    """The same files, the same bytes in all of them."""
    ours = fixtures.copy_before(name, tmp_path / "ours")
    kafkas = fixtures.copy_before(name, tmp_path / "kafkas")
    now = str(fixtures.description(name)["now"])
    told = roll(ours, "--force", "--now", now, *fixtures.settings(name))
    pairs = [f"{key}={value}" for key, value in fixtures.partition_of(name).config.items()]
    (answer,) = run_oracle(
        *("roll", "--log-dir", kafkas, "--topic-partition", "t-0", "--now", now, "--do"),
        *("--config", *pairs),
    )
    assert answer["newSegment"] == told["newSegment"]
    files = [
        {path.name: path.read_bytes() for path in (root / "t-0").iterdir() if path.is_file()}
        for root in (ours, kafkas)
    ]
    assert files[1] == files[0]
    again = roll(ours, "--force", "--now", now)
    assert (False, "not due: the active segment is empty") == (again["rolled"], again["reason"])


def test_command_says_why_not_and_when(tmp_path: Path) -> None:
    """Nothing is changed by a roll that is not due, nor by a dry run."""
    log_dir = fixtures.copy_before("basic-none", tmp_path)
    before = {path: path.read_bytes() for path in log_dir.rglob("*") if path.is_file()}
    settings = [word for pair in ROOMY.items() for word in ("--config", "=".join(pair))]
    told = roll(log_dir, "--now", str(NOW_MS), *settings)
    assert (False, False, None) == (told["rolled"], told["due"], told["cause"])
    assert told["dueAtMs"] is not None
    dry = roll(log_dir, "--now", str(NOW_MS), "--config", "segment.ms=1", "--dry-run")
    assert (False, True, "time") == (dry["rolled"], dry["due"], dry["cause"])
    assert before == {path: path.read_bytes() for path in log_dir.rglob("*") if path.is_file()}
