"""Settings of the Spark session."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from py4j.protocol import Py4JNetworkError

from logwright.spark.session import (
    TASKS_PER_CORE,
    SparkDied,
    prepare_environment,
    session_settings,
    spark_at_work,
)


def test_local_session_listens_on_loopback_only() -> None:
    """Nobody else on the network has anything to say to it."""
    settings = session_settings(master="local[2]")
    assert "127.0.0.1" == settings["spark.driver.bindAddress"]
    assert "false" == settings["spark.ui.enabled"]
    assert "spark.driver.bindAddress" not in session_settings(master="spark://host:7077")


def test_executors_start_fast_with_any_collector() -> None:
    """A JVM with two collectors would not start; on this machine there are no executors."""
    options = session_settings(master="spark://host:7077")["spark.executor.defaultJavaOptions"]
    assert "-XX:TieredStopAtLevel=1" == options
    assert "spark.executor.defaultJavaOptions" not in session_settings(master="local[2]")


def test_connect_server_is_told_only_what_a_client_may_set() -> None:
    """Anything else would be a warning for every run."""
    settings = session_settings(remote="sc://spark:15002", event_log_directory=Path("/events"))
    assert "sc://spark:15002" == settings.pop("spark.remote")
    assert all(name.startswith("spark.sql.") for name in settings)


@pytest.mark.parametrize("cores", [1, 2, 64])
def test_jobs_have_a_few_tasks_for_each_core(cores: int) -> None:
    """`sweep` reads the number of its tasks here."""
    settings = session_settings(cores=cores)
    assert str(cores * TASKS_PER_CORE) == settings["spark.sql.shuffle.partitions"]
    assert "false" == settings["spark.sql.adaptive.enabled"]


def test_event_log_is_written_where_it_is_asked_for(tmp_path: Path) -> None:
    """As an address, so that Spark does not take it for one of a cluster's file system."""
    settings = session_settings(event_log_directory=tmp_path)
    assert tmp_path.as_uri() == settings["spark.eventLog.dir"]
    assert "spark.eventLog.enabled" not in session_settings()


def test_environment_of_the_operator_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever sets PYSPARK_PYTHON or JAVA_HOME means it, but for workers of this process alone."""
    monkeypatch.setenv("PYSPARK_PYTHON", "/opt/python")
    # What it sets is undone with this.
    monkeypatch.setenv("JAVA_HOME", "")
    monkeypatch.delenv("JAVA_HOME")
    prepare_environment()
    assert "/opt/python" == os.environ["PYSPARK_PYTHON"]
    prepare_environment(is_local=True)
    assert sys.executable == os.environ["PYSPARK_PYTHON"]


@pytest.mark.parametrize("error", [Py4JNetworkError("k=v"), ConnectionRefusedError("k=v")])
def test_death_of_spark_is_named(error: Exception) -> None:
    """What has lost its JVM says so; of the exception only the name."""
    with pytest.raises(SparkDied, match=type(error).__name__) as caught, spark_at_work():
        raise error
    assert 7 == caught.value.exit_status
    assert "k=v" not in str(caught.value)
