"""The oracle as a server: one JVM that stays, and so is warm, answers many requests.

A request and its answer are one JSON object on a line each; tests/oracle/README.md lists them. A
request may be sent before the answer to the one before it was read: then Kafka works on the next
log while we work on this one.

A request leaves nothing in the server, so all tests of a process share one of each Kafka
(`shared`). One with further properties is started by who needs it.
"""

from __future__ import annotations

import atexit
import json
import subprocess
import tempfile
from collections.abc import Generator, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from tests.oracle_runner import kafka, oracle_jvm

QUIT_SECONDS = 30
AHEAD = 2
"""Requests that may be under way: the one whose answer is awaited, and the next."""

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
        command = oracle_jvm("-Xmx1g", *defined)
        if classpath is not None:
            command[-1] = classpath
        self._unanswered = 0
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

    @property
    def is_idle(self) -> bool:
        """Whether it runs, and has answered all that it was asked."""
        return self._process.poll() is None and not self._unanswered

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
        self._unanswered += 1

    def receive(self) -> Answer:
        """The answer to the earliest request that has none yet.

        Raises:
            OracleStopped: the JVM is gone, or the request made it fail.
        """
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise self._stopped()
        self._unanswered -= 1
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


_running: dict[str, OracleServer] = {}
_until_the_end = ExitStack()
atexit.register(_until_the_end.close)


def shared() -> OracleServer:
    """The server of the current Kafka that all tests of this process ask, each for as long as it
    runs. Effects: starts it at the first call, and where a test has left it dead or unanswered; it
    ends with the process.
    """
    version = kafka()
    if version not in _running or not _running[version].is_idle:
        _running[version] = _until_the_end.enter_context(OracleServer())
    return _running[version]
