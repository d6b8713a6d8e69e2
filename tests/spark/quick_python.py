"""Python processes of Spark that begin at once: forked from a server that has imported all that
they need, where each would take two seconds of a core for it.

`served` gives a program that Spark takes for Python. What it is called with runs in a process of
its own, in a session of its own, and is killed as another one is.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pyspark.sql.streaming.datasource import ReadAllAvailable

from logwright.spark.daemon import ONE_THREAD
from logwright.spark.kafka_log_rows import SCHEMA
from logwright.spark.kafka_log_stream import StreamReader
from tests.spark.killed_runs import DEAD_SECONDS, command_of, members
from tests.tidy.trees import ROOT

_BEGIN_SECONDS: Final = 120
_PROGRAM: Final = """#!{python} -IS
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect({path!r})
    words = json.dumps([sys.argv[1:], dict(os.environ), os.getcwd()]).encode()
    socket.send_fds(server, [len(words).to_bytes(8, "big")], [0, 1, 2])
    server.sendall(words)
    server.recv(1)
"""


class Pythons:
    """The processes. `program`: what Spark calls."""

    def __init__(self, work: Path) -> None:
        self.program = work / "python"
        self._work = work

    def living(self) -> list[int]:
        """Of all that the program was called for, and what those have forked."""
        alive = []
        for entry in (self._work / "begun").iterdir():
            processes = members(int(entry.name))
            if not processes:
                entry.unlink()
            alive += processes
        return alive

    def wait_for_death(self) -> None:
        """None of them is left, without a helping hand."""
        end = time.monotonic() + DEAD_SECONDS
        while left := self.living():
            assert time.monotonic() < end, list(map(command_of, left))
            time.sleep(0.05)


@contextmanager
def served(work: Path, log_dir: Path) -> Iterator[Pythons]:
    """Processes in which what reads logs is loaded already. Effects: files below `work`, a process;
    reads the log directory, for that.
    """
    (work / "begun").mkdir(parents=True)
    path, pythons = work / "server", Pythons(work)
    pythons.program.write_text(_PROGRAM.format(python=sys.executable, path=str(path)))
    pythons.program.chmod(0o755)
    command = [sys.executable, "-m", "tests.spark.quick_python", str(work), str(log_dir)]
    with subprocess.Popen(command, cwd=ROOT, env=os.environ | ONE_THREAD) as process:
        try:
            end = time.monotonic() + _BEGIN_SECONDS
            while not path.exists():
                assert time.monotonic() < end
                assert process.poll() is None
                time.sleep(0.02)
            yield pythons
        finally:
            process.kill()


def main(work: Path, log_dir: str) -> None:
    """Serve. Effects: see the module."""
    importlib.import_module("pyspark.worker")
    importlib.import_module("pyspark.sql.worker.plan_data_source_read")
    reader = StreamReader({"path": log_dir, "subscribePattern": ".*"}, SCHEMA)
    start = reader.initialOffset()
    for task in reader.partitions(start, reader.latestOffset(start, ReadAllAvailable())):
        for _ in reader.read(task):
            pass
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(work / "new"))
        server.listen(64)
        (work / "new").rename(work / "server")
        while True:
            connection, _ = server.accept()
            with connection:
                if not os.fork():  # noqa: TID251 -- it has one thread
                    server.close()
                    _run(connection, work)


def _run(connection: socket.socket, work: Path) -> None:
    """Run what was asked for, in this process, which ends with it."""
    os.setsid()
    (work / "begun" / str(os.getpid())).touch()
    if os.fork():  # noqa: TID251 -- as above; Spark's daemon must not lead a session
        os._exit(0)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    size, files, _, _ = socket.recv_fds(connection, 8, 3)
    content = b""
    while len(content) < int.from_bytes(size, "big"):
        content += connection.recv(1 << 16)
    (_, module, *words), environment, directory = json.loads(content)
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(directory)
    sys.argv = [module, *words]
    status = 0
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else 1
    finally:
        sys.stdout.flush()
        os._exit(status)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
