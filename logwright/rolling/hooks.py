"""Commands that a run starts: hooks, and logwright on a broker's log directories.

1. No shell runs them. They get no input, and a process group of their own, so that a terminal's
   Ctrl-C does not reach them: the run decides what ends.
2. Each has a time limit. After it, when the run is stopped, or when what watches it says so, its
   whole group is ended: asked to, and killed if that takes longer than `_GRACE_SECONDS`.
3. What they write is kept in a file, not a pipe: a start hook can leave a broker that
   continues to write. It is logged without the values of secrets (`masked`). Where no file can be
   made, as on a full disk, they run all the same: a broker must be started.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

_LOG = logging.getLogger(__name__)

_GRACE_SECONDS: Final = 30.0
_POLL_SECONDS: Final = 0.05
_WATCH_SECONDS: Final = 3.0
_MOST_BYTES: Final = 65_536
"""Of what a command writes, its last bytes that are logged."""
_SECRET_NAME: Final = re.compile(
    r"passw|secret|token|credential|private|sasl\.jaas|api.?key", re.IGNORECASE
)
_SHORTEST_SECRET: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a command ended.

    Attributes:
        status: its exit status, negative the signal that ended it; None if it took too long.
        output: the last of what it wrote to stdout, and to stderr if that is not shown as it is.
        seconds: how long it ran.
        cause: why it was stopped before its time was over; empty if it was not.
    """

    status: int | None
    output: str
    seconds: float
    cause: str = ""

    @property
    def in_words(self) -> str:
        """How it ended, as the end of a sentence."""
        if self.cause:
            return f"was stopped after {self.seconds:.0f} s: {self.cause}"
        if self.status is None:
            return f"did not end within {self.seconds:.0f} s and was stopped"
        if self.status < 0:
            return f"was ended by signal {-self.status}"
        return f"ended with status {self.status}"


def run_command(
    words: Sequence[str],
    *,
    limit_ms: int,
    directory: Path,
    show_errors: bool = False,
    watch: Callable[[], str | None] = lambda: None,
) -> Ended:
    """Run a command and wait for it. Effects: those of the command; ends it in any case.

    Args:
        words: the program and its arguments.
        limit_ms: how long it may take.
        directory: in which it runs.
        show_errors: its stderr is this process's.
        watch: is asked every few seconds why the command should stop; None: it should not.

    Raises:
        OSError: it cannot be started.
    """
    began = looked = time.monotonic()
    cause = None
    with _file_of_output() as output:
        process: subprocess.Popen[bytes] | None = None
        try:
            with interrupted_after():  # not between its start and the next line
                process = subprocess.Popen(
                    words,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL if output is None else output,
                    stderr=None if show_errors else subprocess.STDOUT,
                    cwd=directory,
                    start_new_session=True,
                )
            while process.poll() is None:
                if time.monotonic() - began > limit_ms / 1000:
                    break
                if time.monotonic() - looked > _WATCH_SECONDS:
                    cause, looked = watch(), time.monotonic()
                if cause is not None:
                    break
                time.sleep(_POLL_SECONDS)
            status = process.returncode
        finally:
            if process is not None:
                _end(process)
        written = "" if output is None else _last(output)
        return Ended(
            status=status,
            output=written,
            seconds=time.monotonic() - began,
            cause="" if cause is None else cause,
        )


@contextmanager
def interrupted_after() -> Iterator[None]:
    """Keep the signals that stop a program until the block has ended, then let them do what they
    would have done. A handler, not SIG_IGN: a command would inherit that. Effects: handlers of
    signals, in the main thread.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: dict[int, None] = {}
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, lambda got, _: came.setdefault(got)) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
    for each in came:
        signal.raise_signal(each)


def log_output(name: str, ended: Ended, secrets: Sequence[str]) -> None:
    """Log what a hook wrote: as warnings if it failed. Effects: as said.

    Args:
        name: of the hook.
        secrets: values that are not shown.
    """
    for line in masked(ended.output, secrets).splitlines():
        if line.strip():
            _LOG.log(logging.INFO if ended.status == 0 else logging.WARNING, "%s: %s", name, line)


def masked(text: str, secrets: Sequence[str]) -> str:
    """Return a text with every secret replaced by ``***``. Pure."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, "***")
    return text


def secrets_of(pairs: Mapping[str, str]) -> tuple[str, ...]:
    """Return the values of settings, or of variables of the environment, whose names say that they
    are secret. Pure.
    """
    return tuple(
        value
        for name, value in pairs.items()
        if _SECRET_NAME.search(name) and len(value) >= _SHORTEST_SECRET
    )


@contextmanager
def _file_of_output() -> Iterator[IO[bytes] | None]:
    """Yield a file for what a command writes; None, with a warning, if none can be made."""
    with ExitStack() as stack:
        output: IO[bytes] | None = None
        try:
            output = stack.enter_context(tempfile.TemporaryFile())
        except OSError as error:
            _LOG.warning("what the command writes is not kept: %s", error.strerror)
        yield output


def _end(process: subprocess.Popen[bytes]) -> None:
    """End what still runs of a command that has not ended by itself. Effects: signals; waits."""
    if process.poll() is not None:
        return
    for number in (signal.SIGTERM, signal.SIGKILL):  # the second one for children that stay
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_SECONDS)


def _last(output: IO[bytes]) -> str:
    size = output.seek(0, os.SEEK_END)
    output.seek(max(size - _MOST_BYTES, 0))
    return output.read().decode(errors="replace")
