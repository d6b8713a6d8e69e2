"""`logwright demo` as a newcomer starts it, and what its Dagster answers."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import Any, TypeVar

from tests.e2e.command import free_port
from tests.e2e.test_daemon import WORKSPACE
from tests.tidy.trees import ROOT

LOGWRIGHT = Path(sys.executable).with_name("logwright")
START_SECONDS = 400
STOP_SECONDS = 60
POLL_SECONDS = 0.3
READY = "Press Ctrl-C to stop"

_Found = TypeVar("_Found")

REPOSITORY = {"repositoryLocationName": "logwright", "repositoryName": "__repository__"}


@dataclass(frozen=True, slots=True)
class Server:
    """A running demo.

    Attributes:
        said: where its stdout goes.
    """

    home: Path
    address: str
    process: subprocess.Popen[bytes]
    said: Path

    def ask(self, query: str, **variables: object) -> dict[str, Any]:
        """One GraphQL query or mutation; errors fail the test."""
        body = json.dumps({"query": query, "variables": variables}).encode()
        request = urllib.request.Request(  # noqa: S310 - our own server
            f"{self.address}/graphql", body, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=60) as response:  # noqa: S310
            answer = json.load(response)
        assert "errors" not in answer, answer["errors"]
        data: dict[str, Any] = answer["data"]
        return data

    def interrupt(self) -> int:
        """Ctrl-C; the exit status."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(timeout=STOP_SECONDS)


def until(what: str, seconds: float, look: Callable[[], _Found | None]) -> _Found:
    """What `look` finds once it finds something."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        result = look()
        if result:
            return result
        time.sleep(POLL_SECONDS)
    raise AssertionError(f"waited {seconds} s for {what}")


@contextmanager
def demo(home: Path, scratch: Path, environment: Mapping[str, str]) -> Iterator[Server]:
    """`logwright demo` with a bucket and its page, from unpacking until it says it is ready."""
    port = free_port()
    text_file = scratch / "said"
    with text_file.open("wb") as output:
        process = subprocess.Popen(
            [
                *(LOGWRIGHT, "demo", "--home", home, "--port", str(port)),
                *("--bucket", f"file://{scratch}/bucket"),
            ],
            cwd=scratch,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )

    def ready() -> bool:
        assert process.poll() is None, text_file.read_text()
        return READY in text_file.read_text()

    try:
        until(READY, START_SECONDS, ready)
        yield Server(home, f"http://127.0.0.1:{port}", process, text_file)
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(timeout=STOP_SECONDS)


@contextmanager
def dagster_dev(home: Path, environment: Mapping[str, str]) -> Iterator[Server]:
    """Dagster's web server and daemon for the code location, as `dagster dev` starts both, on an
    instance with the configuration that a deployment has.

    Args:
        home: the instance's directory, made here.
    """
    home.mkdir()
    shutil.copyfile(ROOT / "pipelines" / "dagster.yaml", home / "dagster.yaml")
    (home / "workspace.yaml").write_text(WORKSPACE)
    port, text_file = free_port(), home / "said"
    words = ["dev", "-w", str(home / "workspace.yaml"), "-h", "127.0.0.1", "-p", str(port)]
    with text_file.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "dagster", *words],
            cwd=home,
            env={**os.environ, "DAGSTER_HOME": str(home), **environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    server = Server(home, f"http://127.0.0.1:{port}", process, text_file)
    try:
        until("the web server", START_SECONDS, partial(_responds, server))
        yield server
    finally:
        if process.poll() is None:
            server.interrupt()


def _responds(server: Server) -> bool:
    assert server.process.poll() is None, server.said.read_text()
    with suppress(OSError, HTTPException):
        server.ask("query { version }")
        return True
    return False


def processes_of(directory: Path) -> list[int]:
    """Processes whose command line names the directory."""
    processes = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            try:
                command = (entry / "cmdline").read_bytes()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if str(directory).encode() in command:
                processes.append(int(entry.name))
    return processes
