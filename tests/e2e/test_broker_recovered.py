"""A broker that is killed, recovered by logwright and started again finds nothing to recover."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from tests.e2e.broker_life import broker
from tests.e2e.command import call
from tests.oracle_runner import run_oracle

pytestmark = [pytest.mark.e2e, pytest.mark.oracle]

STOP_SECONDS = 60
RECORDS = 300


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@pytest.mark.rotates(2)
def test_a_broker_finds_nothing_to_recover(tmp_path: Path) -> None:
    """After SIGKILL and a torn tail, `recover` leaves a directory that a broker takes for cleanly
    stopped, with every whole record in it.
    """
    log_dir = tmp_path / "broker" / "logs"
    lines = [{"key": encoded(f"k{n % 20}"), "value": encoded(f"v{n}")} for n in range(RECORDS)]
    (tmp_path / "in.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    with broker(tmp_path, "first", "--create", "t", "u") as (process, bootstrap):
        for topic in ("t", "u"):
            run_oracle(
                *("produce", "--bootstrap", bootstrap, "--topic", topic),
                *("--in", tmp_path / "in.jsonl", "--producer-config", "enable.idempotence=true"),
            )
        process.kill()
        process.wait(STOP_SECONDS)
    (log,) = sorted((log_dir / "t-0").glob("*.log"))
    whole = log.read_bytes()
    log.write_bytes(whole + whole[:50])
    answer = call("recover", log_dir, "--yes")
    assert 0 == answer.status, answer.err
    assert whole == log.read_bytes()
    assert 0 == call("verify", log_dir).status
    with broker(tmp_path, "second") as (process, bootstrap):
        read = tmp_path / "out.jsonl"
        consume = ("consume", "--bootstrap", bootstrap, "--topic-partition", "t-0")
        run_oracle(*consume, "--out", read)
        assert RECORDS == len(read.read_text().splitlines())
        (tmp_path / "second.stop").touch()
        process.wait(STOP_SECONDS)
    printed = (tmp_path / "second.txt").read_text().splitlines()
    assert any("Skipping recovery of 2 logs" in line for line in printed)
    # It goes through its own metadata log at every start.
    assert not [
        line for line in printed if "ecovering" in line and "__cluster_metadata" not in line
    ]
