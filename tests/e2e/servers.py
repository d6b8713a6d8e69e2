"""PostgreSQL, a standalone Spark cluster and a Spark Connect server, as processes of a test."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

from logwright.spark.session import prepare_environment
from tests.e2e.command import free_port

START_SECONDS = 90
DATABASE_USER = "dagster"

Running = subprocess.Popen[bytes]


def postgres_programs() -> Path | None:
    """The directory of PostgreSQL's programs; None if it is not installed."""
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if programs:
        return programs[-1].parent
    on_path = shutil.which("initdb")
    return Path(on_path).parent if on_path else None


@contextmanager
def postgres(directory: Path, **settings: str) -> Iterator[int]:
    """A server on the loopback, with an empty database; its port. It refuses to run as root.

    Args:
        directory: of its files; made.
        settings: of the server.
    """
    programs = postgres_programs()
    assert programs is not None, "PostgreSQL is not installed: apt-get install postgresql"
    directory.mkdir(parents=True)
    user: list[str] = []
    if os.geteuid() == 0:
        user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
        shutil.chown(directory, "postgres", "postgres")
        for parent in directory.parents:
            of_pytest = any(map(parent.is_relative_to, ("/tmp", "/dev/shm")))  # noqa: S108
            if parent.stat().st_uid == 0 and of_pytest:
                parent.chmod(parent.stat().st_mode | 0o011)
    data, port = directory / "data", free_port()
    subprocess.run(
        [*user, programs / "initdb", "-D", data, "-A", "trust", "-U", DATABASE_USER],
        check=True,
        capture_output=True,
        cwd=directory,
    )
    words = ["-D", data, "-p", str(port), "-k", directory, "-c", "listen_addresses=127.0.0.1"]
    words += [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
    with process([*user, programs / "postgres", *words], directory / "said", {}, port):
        yield port


@contextmanager
def cluster(
    directory: Path, workers: int = 2
) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """A standalone master with workers of one core each: its address and the workers' processes."""
    directory.mkdir(parents=True)
    port = free_port()
    master = f"spark://127.0.0.1:{port}"
    environment = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_WORKER_DIR": str(directory / "work")}
    with ExitStack() as stack:
        words = ["--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
        stack.enter_context(
            spark_process("deploy.master.Master", words, directory / "master", environment, port)
        )
        running = []
        for number in range(workers):
            mine = free_port()
            words = ["--cores", "1", "--memory", "1g", "--host", "127.0.0.1", "--port", str(mine)]
            words += ["--webui-port", "0", master]
            output = directory / f"worker-{number}"
            running.append(
                stack.enter_context(
                    spark_process("deploy.worker.Worker", words, output, environment, mine)
                )
            )
        until_said(directory / "master", "Registering worker", workers)
        yield master, running


@contextmanager
def connect_server(directory: Path) -> Iterator[str]:
    """A Spark Connect server on this machine's cores; its address."""
    directory.mkdir(parents=True)
    port = free_port()
    words = ["--master", "local[2]", "--conf", f"spark.connect.grpc.binding.port={port}"]
    words += ["--conf", "spark.python.daemon.module=logwright.spark.daemon"]
    words += ["--conf", "spark.ui.enabled=false", "--class"]
    words += ["org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
    with spark_process("deploy.SparkSubmit", words, directory / "said", {}, port):
        yield f"sc://127.0.0.1:{port}"


@contextmanager
def spark_process(
    name: str, words: list[str], output: Path, environment: Mapping[str, str], port: int
) -> Iterator[Running]:
    """A class of Spark's, from the installed PySpark."""
    prepare_environment()
    home = Path(pyspark.__file__).parent
    program = [home / "bin" / "spark-class", f"org.apache.spark.{name}", *words]
    # Daemons of other sessions on this machine must not be taken for these.
    own = {"SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable, **environment}
    with process(program, output, own, port) as running:
        yield running


@contextmanager
def process(
    words: list[str | Path], output_path: Path, environment: Mapping[str, str], port: int
) -> Iterator[Running]:
    """It runs until the block ends, and listens on the port before it begins."""
    with output_path.open("wb") as output:
        running = subprocess.Popen(
            words,
            stdout=output,
            stderr=output,
            env=os.environ | environment,
            cwd=output_path.parent,
        )
    try:
        deadline = time.monotonic() + START_SECONDS
        while not _listens(port):
            assert running.poll() is None, output_path.read_text()
            assert time.monotonic() < deadline, output_path.read_text()
            time.sleep(0.2)
        yield running
    finally:
        running.terminate()
        running.wait(timeout=60)


def until_said(path: Path, words: str, times: int) -> None:
    """Wait until a process has written these words so often."""
    deadline = time.monotonic() + START_SECONDS
    while path.read_text().count(words) < times:
        assert time.monotonic() < deadline, path.read_text()
        time.sleep(0.2)


def _listens(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0
