"""`plan`: Kafka's numbers by Kafka's names, the order of picking, reasons and the forecast."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures import CASES, case_dir, copy_before, description, settings
from tests.unit.cli.conftest import Call
from tests.unit.cli.test_look import snapshot

PLANNED = [
    name
    for name in CASES
    if not name.startswith(("bad-", "crash-", "missing-", "orphan", "torn", "wrong", "txn", "real"))
]


def kafkas(name: str) -> dict[str, Any]:
    plan: dict[str, Any] = description(name)["plan"]
    return plan


@pytest.mark.parametrize("name", PLANNED)
def test_numbers_are_kafkas(call: Call, name: str) -> None:
    """Every number that Kafka's cleaner manager has of a log, by the same name, and its order."""
    case = description(name)
    words = ["--like-kafka", "--no-forecast", "--output", "json", "--now", case["now"]]
    words += ["--high-watermark", case["highWatermark"], *settings(name)]
    answer = call("plan", case_dir(name) / "before", *words)
    assert answer.status == 0
    *partitions, summary = answer.lines
    expected = kafkas(name)
    for ours, theirs in zip(partitions, expected["partitions"], strict=True):
        assert {key: ours[key] for key in theirs} == theirs
    for key in ("pickOrder", "maxCompactionDelayMs", "delayedPartitions", "cleanablePartitions"):
        assert summary[key] == expected[key], key


def test_reasons_and_forecast(call: Call, tmp_path: Path) -> None:
    """A plan says why, and about how much would be reclaimed; it changes nothing."""
    log_dir = copy_before("basic-none", tmp_path)
    before = snapshot(log_dir)
    words = ["--now", 1760003686229, "--like-kafka", *settings("basic-none")]
    answer = call("plan", log_dir, *words, "--output", "json")
    partition = answer.lines[0]
    assert "0.5" in " ".join(partition["reasons"])
    truth = 47291 - 9793
    assert partition["forecastReclaimedBytes"] == truth
    causes = partition["forecast"]["causes"]
    assert sum(cause["bytes"] for cause in causes.values()) == truth
    assert causes["superseded"]["records"] > 0
    text = call("plan", log_dir, *words).out
    assert "In order: t-0" in text
    assert "A cleaning would reclaim about 3" in text
    assert "  due: dirty ratio 1.00 > 0.50" in text
    verbose = call("plan", log_dir, *words, "--verbose").out
    assert all(reason in verbose for reason in partition["reasons"])
    assert before == snapshot(log_dir)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--config", "cleanup.policy="], "not due: cleanup.policy=(empty)"),
        ([], "cleanup.policy unknown"),
        (
            ["--config", "cleanup.policy=compact", "--config", "min.cleanable.dirty.ratio=1"],
            "not due: dirty ratio 1.00 of 1.00",
        ),
        (
            ["--config", "cleanup.policy=compact", "--config", "segment.ms=1000"],
            "due: dirty ratio 1.00 > 0.50; active segment rolls by time",
        ),
        (
            ["--config", "cleanup.policy=compact", "--config", "log.cleaner.enable=false"],
            "not due: log.cleaner.enable=false",
        ),
        (
            [
                *("--config", "cleanup.policy=compact", "--config", "min.cleanable.dirty.ratio=1"),
                *("--config", "max.compaction.lag.ms=86400000"),
            ],
            "not due: dirty ratio 1.00 of 1.00, by max.compaction.lag.ms from 2025-10-10 08:53",
        ),
        (
            [
                *("--config", "cleanup.policy=compact", "--config", "min.cleanable.dirty.ratio=1"),
                *("--config", "max.compaction.lag.ms=600000"),
            ],
            (
                "due: max.compaction.lag.ms exceeded by 51 min 24 s, dirty ratio 1.00 of 1.00;"
                " active segment rolls by time"
            ),
        ),
    ],
)
def test_one_short_reason_a_log(call: Call, words: list[str], expected: str) -> None:
    """The one number that decides, at the end of the log's line."""
    answer = call(
        "plan",
        case_dir("basic-none") / "before",
        *("--now", 1760003686229, "--no-forecast", *words),
    )
    (line,) = [line for line in answer.out.splitlines() if line.startswith("t-0 ")]
    assert expected == line.rpartition("  ")[2]


@pytest.mark.parametrize(
    ("words", "expected"),
    [([], None), (["--no-forecast"], None), (["--forecast"], int)],
)
def test_forecast_of_what_is_not_due(call: Call, words: list[str], expected: type | None) -> None:
    """Only what is due is read without being asked for."""
    arguments = ["--config", "min.cleanable.dirty.ratio=1", "--config", "cleanup.policy=compact"]
    log_dir = case_dir("basic-none") / "before"
    partition = call("plan", log_dir, *arguments, *words, "--output", "json").lines[0]
    assert not partition["eligible"]
    reclaimed = partition["forecastReclaimedBytes"]
    assert reclaimed is None if expected is None else isinstance(reclaimed, expected)


def test_forecast_shows_causes_and_the_deadline(call: Call) -> None:
    """Asked for, a table has what each cause frees, and when the log becomes due."""
    words = ["--config", "cleanup.policy=compact", "--config", "min.cleanable.dirty.ratio=1"]
    words += ["--config", "max.compaction.lag.ms=86400000", "--now", 1760003686229, "--forecast"]
    lines = call("plan", case_dir("basic-none") / "before", *words).out.splitlines()
    (header,) = [line for line in lines if "superseded" in line]
    causes = ["superseded", "tombstones", "aborted", "null", "keys", "retention"]
    assert header.split() == ["partition", *causes, "from", "due"]
    row = lines[lines.index(header) + 1]
    assert row.startswith("t-0 ")
    assert row.endswith("all keys  2025-10-10 08:53")


def test_pick_order(call: Call, tmp_path: Path) -> None:
    """Overdue first, then the filthiest; under --like-kafka the filthiest alone."""
    log_dir = copy_before("basic-none", tmp_path)
    for name in ("a-0", "b-0"):
        (log_dir / "t-0").rename(log_dir / name) if name == "b-0" else _copy(log_dir, name)
    checkpoint = log_dir / "cleaner-offset-checkpoint"
    checkpoint.write_text("0\n1\na 0 155\n")
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "p.yml").write_text(
        json.dumps(
            {
                "version": 1,
                "high_watermark": "end",
                "defaults": {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0.1},
                "topics": [{"name": "a", "max.compaction.lag.ms": 1}],
            }
        )
    )
    words = ["--policies", tmp_path / "policies", "--output", "json", "--now", 1760003686229]
    words += ["--no-forecast"]
    kafka = call("plan", log_dir, *words, "--like-kafka").lines[-1]
    ours = call("plan", log_dir, *words).lines[-1]
    assert kafka["pickOrder"] == ["b-0", "a-0"]
    assert ours["pickOrder"] == ["a-0", "b-0"]
    assert ours["delayedPartitions"] == 1


def _copy(log_dir: Path, name: str) -> None:
    shutil.copytree(log_dir / "t-0", log_dir / name, copy_function=shutil.copy2)


def test_roll_is_planned(call: Call) -> None:
    """An idle active segment is rolled when segment.ms says so; never under --like-kafka."""
    words = ["plan", case_dir("basic-none") / "before", "--output", "json", "--no-forecast"]
    words += ["--config", "segment.ms=1000", "--config", "cleanup.policy=compact"]
    roll = call(*words).lines[0]["roll"]
    assert (roll["due"], roll["cause"], roll["newBaseOffset"]) == (True, "time", 500)
    assert not call(*words, "--like-kafka").lines[0]["roll"]["due"]


def test_an_open_transaction_is_named(call: Call, tmp_path: Path) -> None:
    """Producer, first offset and last write: who has to end it."""
    log_dir = copy_before("txn-ongoing", tmp_path)
    words = ("--now", 1760003674586, *settings("txn-ongoing"))
    (line, _) = call("plan", log_dir, *words, "--output", "json").lines
    transaction = line["openTransaction"]
    assert line["lastStableOffset"] == transaction["firstOffset"]
    text = call("plan", log_dir, *words).out
    offset, producer = transaction["firstOffset"], transaction["producerId"]
    held = f"open transaction of producer {producer} since 08:53, last written 08:53: not cleaned"
    assert f"{held} from offset {offset} on" in text


def test_no_transaction_is_named_without_one(call: Call) -> None:
    """A log that is dirty enough or not."""
    words = ("--now", 1760003686229, *settings("basic-none"))
    answer = call("plan", case_dir("basic-none") / "before", *words, "--output", "json")
    assert answer.lines[0]["openTransaction"] is None


def test_a_plan_without_metadata_says_so(call: Call) -> None:
    """If it leaves a topic's policy unknown."""
    log_dir = case_dir("basic-none") / "before"
    assert "No cluster metadata of this node was found" in call("plan", log_dir).err
    known = call("plan", log_dir, *settings("basic-none"))
    assert "No cluster metadata" not in known.err


@pytest.mark.parametrize("lost", ["file", "entry"])
def test_a_lost_high_watermark_is_named(call: Call, tmp_path: Path, lost: str) -> None:
    """Nothing is cleaned and no segment goes, since nothing counts as committed; with all of the
    log it would be.
    """
    log_dir = copy_before("basic-none", tmp_path)
    checkpoint = log_dir / "replication-offset-checkpoint"
    if lost == "file":
        checkpoint.unlink(missing_ok=True)
    else:
        checkpoint.write_text("0\n1\nother 0 155\n")
    words = [log_dir, "--now", 1760003686229, *settings("basic-none")]
    committed = ("--high-watermark", "checkpoint")
    answer = call("plan", *words, *committed)
    assert "not due: no high watermark in replication-offset-checkpoint" in answer.out
    assert "Nothing to clean" in answer.out
    warning = "The high watermark of 1 of 1 partitions is not in replication-offset-checkpoint"
    assert warning in answer.err
    assert "--high-watermark end" in answer.err
    (line, _) = call("plan", *words, *committed, "--output", "json").lines
    expected = "not on record in replication-offset-checkpoint, so nothing is committed"
    assert expected in " ".join(line["reasons"])
    whole = call("plan", *words)
    assert "In order: t-0" in whole.out
    assert warning not in whole.err
    kept = call("retain", *words, *committed, "--config", "cleanup.policy=delete", "--dry-run")
    assert "the high watermark is not on record" in kept.out
