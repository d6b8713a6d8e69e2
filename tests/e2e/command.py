"""The command line as a user calls it, and what a log directory looks like before and after."""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import socket
import stat
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from traceback import clear_frames
from typing import Any

from click import _compat
from click.testing import CliRunner

from logwright.cli.main import main
from logwright.state.file import STATE_FILE
from tests.rights import NOBODY

REPOSITORY = Path(__file__).parents[2]
PROGRAM = "from logwright.cli.main import main; main(prog_name='logwright')"
AS_NOBODY = f"""
import io, os, sys
from contextlib import redirect_stderr, redirect_stdout, suppress
from logwright.cli.main import main
if os.geteuid() == 0:
    words = [*sys.argv[1:], *(["--dry-run"] if "--yes" in sys.argv else [])]
    for _ in range(2):
        with suppress(SystemExit), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            main(words)
    os.setgroups([])
    os.setresgid(*[{NOBODY}] * 3)
    os.setresuid(*[{NOBODY}] * 3)
{PROGRAM}
"""
"""Runs the command as root before, up to the plan, so that all that it needs is loaded: nobody may
have no right to read the interpreter and the checkout. Twice: once kernels are loaded, a plan uses
others.
"""
RUN_SECONDS = 300
FIRST_PORT, PORTS = 10_000, 2_000
WORKER = os.environ.get("PYTEST_XDIST_WORKER", "gw9").removeprefix("gw")
_ports = count(os.getpid())


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a call left: exit status, stdout, stderr."""

    status: int
    out: str
    err: str

    @property
    def lines(self) -> list[dict[str, Any]]:
        """Stdout as JSON, one object a line."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def errors(self) -> list[dict[str, Any]]:
        """The objects that report an error."""
        return [line for line in self.lines if "error" in line]


def call(*words: str | Path | int) -> Answer:
    """``logwright`` in this process. A bug is raised as the exception that it is."""
    result = CliRunner().invoke(main, [str(word) for word in words])
    _forget_streams()
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    answer = Answer(status=result.exit_code, out=result.stdout, err=result.stderr)
    if result.exc_info is not None:
        # The frames of the exit refer to it, this one too: a cycle, with all that was written.
        clear_frames(result.exc_info[2])
    del result
    return answer


def _forget_streams() -> None:
    """Click keeps the output of helps, questions and wrong calls: its cache is weak, but a stream
    there refers to itself.
    """
    for stream in (_compat._default_text_stdout, _compat._default_text_stderr):
        inspect.getclosurevars(stream).nonlocals["cache"].clear()


def process(
    *words: str | Path | int,
    program: str = PROGRAM,
) -> Answer:
    """``logwright`` in a process of its own, without a terminal.

    Args:
        words: of the command line.
        program: the Python program that calls it.
    """
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, words)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
        cwd=REPOSITORY,
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
    )
    return Answer(status=done.returncode, out=done.stdout, err=done.stderr)


def free_port() -> int:
    """A port that nobody listens on, nor on the next one: a broker takes two.

    From a range of this process's worker, below the ports that the system gives to clients: what
    others start meanwhile gets none of them.
    """
    while True:
        port = FIRST_PORT + PORTS * int(WORKER) + 2 * (next(_ports) % (PORTS // 2))
        with socket.socket() as first, socket.socket() as second, suppress(OSError):
            first.bind(("127.0.0.1", port))
            second.bind(("127.0.0.1", port + 1))
            return port


def tree(directory: Path) -> dict[str, tuple[object, ...]]:
    """Every entry below a directory: kind, mode and, of a file, size, time and digest.

    Left out is what a refused command may leave: the lock file of the log directory, the state
    file, in which quarantine is noted, and work directories that hold nothing.
    """
    entries: dict[str, tuple[object, ...]] = {}
    for path in sorted(directory.rglob("*")):
        name = str(path.relative_to(directory))
        status = path.lstat()
        kind = (stat.S_IFMT(status.st_mode), stat.S_IMODE(status.st_mode))
        empty = path.name == ".logwright" and not any(path.iterdir())
        if empty or path.name in {".lock", STATE_FILE}:
            continue
        if stat.S_ISREG(status.st_mode):
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            entries[name] = (*kind, status.st_size, status.st_mtime_ns, digest)
        elif stat.S_ISLNK(status.st_mode):
            entries[name] = (*kind, str(path.readlink()))
        else:
            entries[name] = kind
    return entries
