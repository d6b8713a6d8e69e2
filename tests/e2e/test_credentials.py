"""No credential in what a run of Dagster on Spark leaves, and in no list of processes."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.e2e.command import REPOSITORY
from tests.erasure_platform import everything

pytestmark = pytest.mark.e2e

SECRETS = ("planted-s3a-7c1f", "planted-azure-7c1f", "planted-url-7c1f", "planted-env-7c1f")
RUN_SECONDS = 300
WRITTEN_SECONDS = 30
PROGRAM = """
import sys
import time
from pathlib import Path

from dataclasses import replace
from logwright.resources.spark import Spark
from tests.e2e.harness import make_platform

settings = {
    "spark.hadoop.fs.s3a.secret.key": "planted-s3a-7c1f",
    "spark.hadoop.fs.azure.account.key.store.dfs.core.windows.net": "planted-azure-7c1f",
    "spark.executorEnv.PROXY": "http://somebody:planted-url-7c1f@proxy",
    "spark.executorEnv.AWS_SECRET_ACCESS_KEY": "planted-env-7c1f",
}
platform = make_platform(Path(sys.argv[1]), {"t-0": "basic-none"})
platform = replace(platform, spark=Spark(master="local[1]", settings=settings))
done = platform.sweep(())
commands = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline")]
is_java = any(b"org.apache.spark" in command for command in commands)
print(done.success, is_java, any(b"planted-" in command for command in commands))
"""


def test_a_run_on_spark(tmp_path: Path) -> None:
    """Events of Spark, Dagster's storage, what is printed, and the command line of the JVM."""
    done = subprocess.run(
        [sys.executable, "-", str(tmp_path)],
        input=PROGRAM,
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )
    assert 0 == done.returncode, done.stderr[-2000:]
    assert "True True False" == done.stdout.splitlines()[-1]
    deadline = time.monotonic() + WRITTEN_SECONDS  # the JVM writes its events after the process
    has_settings = False
    while not has_settings and time.monotonic() < deadline:
        time.sleep(0.2)
        contents = list(everything(tmp_path / "dagster"))
        events = [content for path, content in contents if "spark_events" in str(path)]
        has_settings = any(b"fs.s3a.secret.key" in content for content in events)
    assert has_settings, "they have the settings"
    texts = [*(content for _, content in contents), done.stdout.encode(), done.stderr.encode()]
    assert [] == [word for word in SECRETS for text in texts if word.encode() in text]
