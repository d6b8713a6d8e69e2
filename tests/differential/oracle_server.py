"""The oracle as a server: one JVM that stays, and so is warm, answers many requests.

A request and its answer are one JSON object on a line each; tests/oracle/README.md lists them. A
request may be sent before the answer to the one before it was read: then Kafka works on the next
log while we work on this one.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Generator, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from tests.oracle_runner import java, oracle_classpath

QUIT_SECONDS = 30
AHEAD = 2
"""Requests that may be under way: the one whose answer is awaited, and the next."""

JVM_OPTIONS = ("-Xmx1g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
"""The quick compiler: the work is short-lived and the machine's cores are few."""

Answer = dict[str, Any]


class OracleStopped(RuntimeError):
    """The server said an error of its own, or ended; the message has its last words."""


class OracleServer:
    """A running `oracle.Main serve`. Use it in a `with` statement.

    Args:
        classpath: of a build other than that of tests/oracle.
        properties: system properties, ``name=value``.
    """

    def __init__(self, classpath: str | None = None, properties: Sequence[str] = ()) -> None:
        defined = [f"-D{one}" for one in properties]
        command = [java(), *JVM_OPTIONS, *defined, "-cp", classpath or oracle_classpath()]
        # both are closed in __exit__
        self._stderr: IO[str] = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self._process = subprocess.Popen(
            [*command, "oracle.Main", "serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Let it quit. Effects: ends the JVM."""
        try:
            self.send({"request": "quit"})
            self._process.communicate(timeout=QUIT_SECONDS)
        except (OracleStopped, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.communicate()
        self._stderr.close()

    def send(self, request: dict[str, Any]) -> None:
        """Put a request; its answer is to be read by `receive`, in turn.

        Raises:
            OracleStopped: the JVM is gone.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError as gone:
            raise self._stopped() from gone

    def receive(self) -> Answer:
        """The answer to the earliest request that has none yet.

        Raises:
            OracleStopped: the JVM is gone, or the request made it fail.
        """
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise self._stopped()
        answer: Answer = json.loads(line)
        if "error" in answer:
            raise OracleStopped(answer["error"])
        return answer

    def ask(self, request: dict[str, Any]) -> Answer:
        """Send a request and wait for its answer."""
        self.send(request)
        return self.receive()

    def boot(self, log_dir: Path, now_ms: int) -> Answer:
        """What Kafka's start and stop on a log directory say."""
        request = {"request": "boot", "logDirs": [str(log_dir)], "identity": True, "now": now_ms}
        return self.ask(request)

    def ask_ahead(self, requests: Iterable[dict[str, Any]]) -> Generator[Answer, None, None]:
        """The answers in turn, one request ahead: the server works while the caller does.

        What was sent when the caller stops is answered, and the answer dropped.
        """
        unanswered = 0
        try:
            for request in requests:
                self.send(request)
                unanswered += 1
                if unanswered == AHEAD:
                    unanswered -= 1
                    yield self.receive()
            while unanswered:
                unanswered -= 1
                yield self.receive()
        finally:
            for _ in range(unanswered):
                self.receive()

    def _stopped(self) -> OracleStopped:
        self._stderr.seek(0)
        return OracleStopped(f"the server ended\n{self._stderr.read()[-4000:]}")
