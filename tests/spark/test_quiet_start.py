"""What a command that starts Spark prints to stderr."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark

SCRIPT = """
from logwright.spark.session import {session}
for number in range(2):
    with {session}() as session:
        system = getattr(session, "_jvm").java.lang.System
        system.err.println(f"later {{number}}")
        print(system.getProperty("user.dir") != "")
"""


def stderr_of(session: str, **environment: str) -> tuple[int, str]:
    """Start it twice in a process; exit status and stderr."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(session=session)],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stderr


@pytest.mark.rotates(2)
@pytest.mark.parametrize("session", ["local_session", "local_context"])
def test_a_start_prints_nothing(session: str) -> None:
    """The first and the second; what the JVM prints later is not lost."""
    assert (0, "later 0\nlater 1\n") == stderr_of(session)


def test_a_start_that_fails_says_why(tmp_path: Path) -> None:
    """In the words of what failed."""
    (tmp_path / "spark-env.sh").write_text("echo this machine starts no Spark >&2\nexit 3\n")
    status, err = stderr_of("local_context", SPARK_CONF_DIR=str(tmp_path))
    assert 0 != status
    assert "this machine starts no Spark" in err
