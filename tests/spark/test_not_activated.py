"""Spark's workers are the Python that has the package, though another one is first on the PATH."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from logwright.java import java_environment
from tests.fixtures import clean_arguments, compare_after, copy_before
from tests.oracle_runner import java

pytestmark = pytest.mark.spark

CASE = "basic-none"
READ = """
import sys
from pyspark.sql import SparkSession
from logwright.spark import register
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
register(spark)
print(spark.read.format("kafka-log").option("subscribe", "t").load(sys.argv[1]).count())
"""


@pytest.fixture
def elsewhere(tmp_path: Path) -> dict[str, str]:
    """An environment whose ``python3`` has nothing of this package, and nothing activated."""
    other = tmp_path / "bin" / "python3"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\nexit 1\n")
    other.chmod(0o755)
    home = java_environment().get("JAVA_HOME") or str(Path(java()).resolve().parents[1])
    kept = {name: os.environ[name] for name in ("HOME", "LANG") if name in os.environ}
    return {**kept, "PATH": f"{other.parent}:/usr/bin:/bin", "JAVA_HOME": home}


def run(*words: str | Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """A program by its absolute path."""
    return subprocess.run(
        [*map(str, words)], env=env, capture_output=True, text=True, timeout=500, check=False
    )


@pytest.mark.rotates(2)
@pytest.mark.parametrize("more", [{}, {"PYSPARK_PYTHON": "python3"}])
def test_a_command_by_its_path(
    tmp_path: Path, elsewhere: dict[str, str], more: dict[str, str]
) -> None:
    """Also if the environment names a Python for other sessions."""
    log_dir = copy_before(CASE, tmp_path)
    command = Path(sys.executable).with_name("logwright")
    words = (command, "clean", log_dir, "--engine", "spark", *clean_arguments(CASE))
    done = run(*words, env=elsewhere | more)
    assert 0 == done.returncode, done.stderr[-4000:]
    assert [] == compare_after(CASE, log_dir)


@pytest.mark.rotates(2)
def test_a_session_of_a_program(tmp_path: Path, elsewhere: dict[str, str]) -> None:
    """It has no PYSPARK_PYTHON, and was there before the package was imported."""
    log_dir = copy_before(CASE, tmp_path)
    done = run(sys.executable, "-c", READ, log_dir, env=elsewhere)
    assert 0 == done.returncode, done.stderr[-4000:]
    assert 0 < int(done.stdout.split()[-1])
