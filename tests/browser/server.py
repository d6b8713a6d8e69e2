"""`logwright demo` as a newcomer starts it, and what its Dagster answers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from tests.e2e.command import free_port

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
    """`logwright demo` with its page, from unpacking until it says that it is ready."""
    port = free_port()
    text_file = scratch / "said"
    with text_file.open("wb") as output:
        process = subprocess.Popen(
            [LOGWRIGHT, "demo", "--home", home, "--port", str(port)],
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
