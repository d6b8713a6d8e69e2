"""What a session on this machine shows of its settings, and leaves when it is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from logwright.maintenance.scratch import left_behind

pytestmark = pytest.mark.spark

PLANTED = {
    name: f"{name.lower()}-in-plain"
    for name in (
        "AZURE_STORAGE_ACCOUNT_KEY",
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "GOOGLE_SERVICE_ACCOUNT_KEY",
    )
}
OURS = """
import json, sys, time
from pathlib import Path
from pyspark import SparkContext
from logwright.resources.spark import Spark
planted, events = json.loads(sys.argv[1]), sys.argv[2]
settings = {f"spark.executorEnv.{name}": value for name, value in planted.items()} | {
    "spark.eventLog.enabled": "true", "spark.eventLog.dir": events,
    "spark.eventLog.compress": "false"}
session = Spark(master="local[1]", settings=settings).session
settled = session.sparkContext.getConf()
given = {name: settled.get(f"spark.executorEnv.{name}") for name in planted}
rows = session.range(500).selectExpr("concat('ann-', id) AS key").repartition(2, "key")
kept = rows._jdf.rdd()
kept.count()
session.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
command = Path(f"/proc/{SparkContext._gateway.proc.pid}/cmdline").read_text()
print(json.dumps({"given": given, "command": command}), flush=True)
time.sleep(600)
"""
OTHER = """
import json, sys
from logwright.spark.session import prepare_environment
prepare_environment(is_local=True)
from pyspark.sql import SparkSession
planted, events = json.loads(sys.argv[1]), sys.argv[2]
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
builder = builder.config("spark.eventLog.enabled", "true").config("spark.eventLog.dir", events)
builder = builder.config("spark.eventLog.compress", "false")
for name, value in planted.items():
    builder = builder.config(f"spark.executorEnv.{name}", value)
builder.getOrCreate().stop()
"""


@pytest.fixture(name="events")
def _events(tmp_path: Path) -> Path:
    """Where event logs are."""
    directory = tmp_path / "events"
    directory.mkdir()
    return directory


def words(script: str, events: Path) -> list[str]:
    """What runs a script."""
    return [sys.executable, "-c", script, json.dumps(PLANTED), events.as_uri()]


def shown_in(events: Path) -> list[str]:
    """The planted values that event logs have; there is one with their names."""
    text = "".join(path.read_text() for path in events.rglob("*") if path.is_file())
    assert all(name in text for name in PLANTED)
    return [name for name, value in PLANTED.items() if value in text]


def test_credentials_are_given_and_not_shown(
    tmp_path: Path, events: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither in the event log nor in the list of processes. Of the rows that the session shuffled
    before it and its JVM were killed, nothing is left by the next search.
    """
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", None)
    process = subprocess.Popen(
        words(OURS, events), stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    try:
        answer = json.loads(process.stdout.readline())
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    assert PLANTED == answer["given"]
    assert "org.apache.spark.deploy.SparkSubmit" in answer["command"]
    assert [] == [name for name, value in PLANTED.items() if value in answer["command"]]
    assert [] == shown_in(events)
    assert [*tmp_path.glob("logwright-*/logwright-copy-*/**/shuffle_*.data")]
    assert {} == left_behind()
    assert [] == [*tmp_path.rglob("shuffle_*")]


def test_a_session_of_another_builder_redacts_them(events: Path) -> None:
    """If `prepare_environment` was called before."""
    subprocess.run(words(OTHER, events), check=True, capture_output=True)
    assert [] == shown_in(events)
