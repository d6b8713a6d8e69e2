"""``python -m tests.prepare`` makes what all tests share, once, before workers would each make it:
Kafka's cases unpacked, Kafka's code built, the kernels of a cleaning compiled, and archives of the
classes that JVMs load. With ``--unit`` only what tests without Java need.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from logwright.kernel import cache_directory
from logwright.kernel_compiler import kernels_ahead
from tests import fixtures, oracle_runner
from tests.connect_events import PROJECT as CONNECT
from tests.e2e.command import free_port
from tests.e2e.rest_catalog import PROJECT as REST_CATALOG

RUN_SECONDS = 300


def use_spark() -> None:
    """Start the session of the tests once, so that what its driver loads is kept. Effects: waits
    until the driver has ended, which writes the archive if there is none.
    """
    from tests.spark_session import observed_session  # noqa: PLC0415 -- in its own process

    with tempfile.TemporaryDirectory() as events, observed_session(Path(events)) as observed:
        observed.spark.range(100).selectExpr("id % 10 as k").groupBy("k").count().collect()
        gateway = observed.spark.sparkContext._gateway
    gateway.proc.stdin.close()
    gateway.proc.wait(RUN_SECONDS)


def compile_kernels() -> None:
    """Compile the kernels of a cleaning. Effects: the cache of kernels, which is made."""
    cache_directory().mkdir(mode=0o700, parents=True, exist_ok=True)
    for group in range(len(kernels_ahead())):
        _python(f"from logwright.kernel_compiler import compile_ahead; compile_ahead({group})")


def compile_tests() -> None:
    """Have pytest rewrite the assertions of all files. Effects: writes what it keeps of them."""
    if not any(Path(__file__).parent.glob("__pycache__/*-pytest-*.pyc")):
        _run("-m", "pytest", "--collect-only", "-q", "tests")


def _python(program: str) -> None:
    _run("-c", program)


def _run(*words: str) -> None:
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stdout + done.stderr)


def make_java() -> None:
    """Build all that is Java. Effects: the targets of the projects; archives."""
    oracle_runner.build_all(free_port)
    for project in (CONNECT, REST_CATALOG):
        oracle_runner.classpath_of(project)
    if not any((fixtures.CACHE / "spark").glob("*.jsa")):
        _python("from tests.prepare import use_spark; use_spark()")


def main(words: list[str]) -> None:
    """Make them, the slow ones side by side."""
    slow = [compile_kernels, compile_tests]
    slow += [] if words == ["--unit"] else [make_java]
    with ThreadPoolExecutor() as pool:
        running = [pool.submit(each) for each in slow]
        fixtures.unpacked()
        for each in running:
            each.result()


if __name__ == "__main__":
    main(sys.argv[1:])
