"""`log.cleaner.enable=false`, quarantine and retention of compacted logs, as a user meets them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from logwright.config.topic import parse_settings
from logwright.errors import CorruptBatch, Paused
from logwright.format.names import TopicPartition
from logwright.log.checkpoints import read_checkpoints
from logwright.retention.commit import plan_retention_of
from logwright.state.hold import quarantine_failure
from logwright.sweep.model import LogWork, SweepState
from logwright.sweep.plan import Settings
from logwright.sweep.retain import retain, retain_compacted
from logwright.units import TimestampMs
from tests.fixtures import copy_before
from tests.unit.cli.conftest import Answer, Call

NOW = TimestampMs(1_760_003_686_229)
LATER = TimestampMs(NOW + 1_000)
T0 = TopicPartition("t", 0)
OFF = ("--config", "log.cleaner.enable=false")
COMPACT = ("--config", "cleanup.policy=compact", "--now", NOW, "--output", "json")
BOTH = {"cleanup.policy": "compact,delete", "retention.ms": "1"}
RETAIN = (
    *(word for pair in BOTH.items() for word in ("--config", "=".join(pair))),
    "--now",
    LATER,
    "--output",
    "json",
)


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    return copy_before("basic-none", tmp_path)


def files(log_dir: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in log_dir.rglob("*") if path.is_file()}


def quarantine(log_dir: Path) -> None:
    quarantine_failure(log_dir, T0, CorruptBatch("its CRC is wrong."), NOW)


def line(answer: Answer, key: str) -> dict[str, object]:
    (fields,) = [one for one in map(json.loads, answer.out.splitlines()) if key in one]
    return dict(fields)


@pytest.mark.parametrize("off", ["log.cleaner.enable=false", "log.cleaner.threads=0"])
def test_without_a_cleaner_a_compacted_log_is_left_alone(
    call: Call, log_dir: Path, off: str
) -> None:
    """Neither compacted nor rolled, and plan gives the reason."""
    before = files(log_dir)
    settings = (*COMPACT, "--config", off, "--config", "segment.ms=1")
    planned = line(call("plan", log_dir, *settings), "topicPartition")
    assert (False, False) == (planned["eligible"], planned["clean"])
    assert off in str(planned["reasons"])
    assert planned["dueAtMs"] is None
    answer = call("clean", log_dir, *settings, "--yes")
    assert 0 == answer.status, answer.err
    done = line(answer, "topicPartition")
    assert (False, False) == (done["cleaned"], done["rolled"])
    assert before.items() <= files(log_dir).items()


def test_its_checkpoint_is_not_mended_either(call: Call, log_dir: Path) -> None:
    """An entry outside the log stays: nobody but a cleaner uses it."""
    (log_dir / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 999999\n")
    assert 0 == call("clean", log_dir, *COMPACT, *OFF, "--yes").status
    assert 999_999 == read_checkpoints(log_dir).cleaner_offset[T0]


def test_force_cleans_without_a_cleaner(call: Call, log_dir: Path) -> None:
    """It was asked for."""
    answer = call("clean", log_dir, *COMPACT, *OFF, "--yes", "--force")
    assert line(answer, "topicPartition")["cleaned"]


def test_a_log_that_is_not_compacted_needs_no_cleaner(call: Call, log_dir: Path) -> None:
    """It is rolled when it is due, and retention still applies."""
    delete = ("--config", "cleanup.policy=delete", *OFF, "--now", NOW, "--yes", "--output", "json")
    rolled = call("clean", log_dir, *delete, "--config", "segment.ms=1")
    assert line(rolled, "topicPartition")["rolled"]
    done = line(call("retain", log_dir, *delete, "--config", "retention.ms=1"), "retained")
    assert done["deletedSegments"]


@pytest.mark.parametrize("why", ["quarantined", "disabled"])
def test_retention_leaves_a_compacted_log_alone(call: Call, log_dir: Path, why: str) -> None:
    """In quarantine or without a cleaner no segment goes, but by --force."""
    more = OFF if why == "disabled" else ()
    if why == "quarantined":
        quarantine(log_dir)
    before = files(log_dir)
    answer = call("retain", log_dir, *RETAIN, *more, "--yes")
    assert 0 == answer.status, answer.err
    held = line(answer, "skipped")
    assert why == held["skipped"]
    assert str(held["why"]) in answer.err
    assert before == files(log_dir)
    forced = line(call("retain", log_dir, *RETAIN, *more, "--yes", "--force"), "retained")
    assert forced["deletedSegments"]


def test_retention_of_a_log_that_is_not_compacted_passes_a_quarantine(
    call: Call, log_dir: Path
) -> None:
    """Kafka's retention task does not ask its cleaner."""
    quarantine(log_dir)
    settings = ("--config", "cleanup.policy=delete", "--config", "retention.ms=1", "--now", LATER)
    done = line(call("retain", log_dir, *settings, "--yes", "--output", "json"), "retained")
    assert done["deletedSegments"]


def test_a_quarantine_after_the_plan_stops_a_retention(log_dir: Path) -> None:
    """What was planned before it is refused under the locks."""
    config, _ = parse_settings(BOTH)
    plan = plan_retention_of(log_dir, T0, config, now_ms=LATER, high_watermark="end")
    quarantine(log_dir)
    before = files(log_dir)
    with pytest.raises(Paused):
        retain(plan)
    assert before.items() <= files(log_dir).items()


def test_a_sweep_does_the_retention_of_compacted_logs(call: Call, log_dir: Path) -> None:
    """With --retain, after the compaction; without it nothing of the log's begin goes."""
    words = ("clean", log_dir, *RETAIN, "--config", "min.cleanable.dirty.ratio=0", "--yes")
    cleaned = call(*words)
    assert line(cleaned, "cleaned")["cleaned"]
    assert "retained" not in cleaned.out
    assert 0 == line(call("plan", log_dir, *RETAIN), "topicPartition")["logStartOffset"]
    shown = line(call(*words, "--retain", "--dry-run"), "retained")
    assert (False, True) == (shown["retained"], bool(shown["deletedSegments"]))
    done = line(call(*words, "--retain"), "retained")
    assert (True, shown["deletedSegments"]) == (done["retained"], done["deletedSegments"])
    assert done["logStartOffset"] == done["logEndOffset"]


def test_a_sweeps_retention_asks_first(
    call: Call, log_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when nothing is due to be cleaned; declined, nothing is changed."""
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda _: True)
    words = ("clean", log_dir, *RETAIN, "--config", "min.cleanable.dirty.ratio=1", "--retain")
    before = files(log_dir)
    declined = call(*words, typed="n\n")
    assert (130, True) == (declined.status, "by their retention? [y/N]" in declined.err)
    assert before.items() <= files(log_dir).items()
    assert line(call(*words, typed="y\n"), "retained")["deletedSegments"]


def test_a_sweeps_retention_is_of_compacted_logs_alone(log_dir: Path) -> None:
    """Others have Kafka's retention task; one in quarantine is skipped."""
    delete = parse_settings({"cleanup.policy": "delete", "retention.ms": "1"})
    both = parse_settings(BOTH)
    assert [] == retained(log_dir, delete)
    quarantine(log_dir)
    assert [] == retained(log_dir, both)
    (work,) = retained(log_dir, both, force=True)
    assert T0 == work.partition
    assert work.retained is not None
    assert work.retained.deleted


@dataclass(frozen=True)
class Fixed:
    """The same settings for every log; none is stray."""

    settings: Settings

    def of(self, _log_dir: Path, _topic: str) -> Settings:
        """Those given."""
        return self.settings

    def stray(self, _log_dir: Path, _partition: TopicPartition) -> str | None:
        """None."""
        return None


def retained(log_dir: Path, settings: Settings, *, force: bool = False) -> list[LogWork]:
    """What a sweep's retention looked at."""
    state = SweepState(works=(LogWork(key="t-0", log_dir=log_dir, partition=T0),), now_ms=LATER)
    return list(retain_compacted(state, Fixed(settings), high_watermark="end", force=force))
