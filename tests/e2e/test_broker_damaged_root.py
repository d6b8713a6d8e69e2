"""A real broker starts on what `recover` marks as clean, and not on what it refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.broker_life import broker
from tests.e2e.command import call
from tests.oracle_runner import run_oracle
from tests.property.accidents import rewrite

pytestmark = [pytest.mark.e2e, pytest.mark.oracle]

STOP_SECONDS = 60
RECORDS = 50
ZEROS = bytes(40)
CHECKPOINTS = (
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "replication-offset-checkpoint",
    "cleaner-offset-checkpoint",
)


def lived(work: Path, name: str, log_dir: Path, *, first: bool = False) -> int:
    """Start a broker, write or read its records, and stop it; how many were read."""
    words = ("--create", "t") if first else ()
    with broker(work, name, *words) as (process, bootstrap):
        if first:
            lines = [{"key": "aw==", "value": "dg=="} for _ in range(RECORDS)]
            (work / "in.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
            given = ("--topic", "t", "--in", work / "in.jsonl")
            run_oracle("produce", "--bootstrap", bootstrap, *given)
        else:
            given = ("--topic-partition", "t-0", "--out", work / "out.jsonl")
            run_oracle("consume", "--bootstrap", bootstrap, *given)
        (work / f"{name}.stop").touch()
        process.wait(STOP_SECONDS)
    assert (log_dir / ".kafka_cleanshutdown").exists()
    return 0 if first else len((work / "out.jsonl").read_text().splitlines())


def does_not_start(work: Path, name: str) -> bool:
    try:
        with broker(work, name):
            return False
    except json.JSONDecodeError:
        return True


def zeros_in_checkpoints(log_dir: Path) -> None:
    for name in CHECKPOINTS:
        rewrite(log_dir / name, ZEROS)


def zeros_in_leader_epochs(log_dir: Path) -> None:
    rewrite(log_dir / "t-0/leader-epoch-checkpoint", ZEROS)


def no_topic_id(log_dir: Path) -> None:
    rewrite(log_dir / "t-0/partition.metadata", b"")


@pytest.mark.rotates(6)
@pytest.mark.parametrize("damage", [zeros_in_checkpoints, zeros_in_leader_epochs, no_topic_id])
def test_a_broker_starts_after_a_recovery(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    """Before it, it does not; after it, all records are served from the same directory."""
    log_dir = tmp_path / "broker" / "logs"
    lived(tmp_path, "first", log_dir, first=True)
    damage(log_dir)
    assert does_not_start(tmp_path, "second")
    answer = call("recover", log_dir, "--yes", "--metadata", metadata(tmp_path))
    assert 0 == answer.status, answer.err
    assert RECORDS == lived(tmp_path, "third", log_dir)
    assert (log_dir / "t-0").is_dir()


@pytest.mark.rotates(6)
def test_a_broker_starts_when_lost_and_found_is_gone(tmp_path: Path) -> None:
    """`recover` names the directory and writes no marker; without it both go well."""
    log_dir = tmp_path / "broker" / "logs"
    lived(tmp_path, "first", log_dir, first=True)
    (log_dir / "lost+found").mkdir()
    assert does_not_start(tmp_path, "second")
    refused = call("recover", log_dir, "--yes")
    assert (5, True) == (refused.status, "rmdir" in refused.err)
    assert not (log_dir / ".kafka_cleanshutdown").exists()
    (log_dir / "lost+found").rmdir()
    assert 0 == call("recover", log_dir, "--yes").status
    assert RECORDS == lived(tmp_path, "third", log_dir)


def metadata(work: Path) -> Path:
    return work / "broker" / "metadata" / "__cluster_metadata-0"
