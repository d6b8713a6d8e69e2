"""Dagster's web page and daemon in the foreground, until Ctrl-C.

Dagster's parent process passes SIGINT on and stops its children; killing it would leave the web
server and the daemon alive. So it gets a session of its own, where the terminal's Ctrl-C does not
reach it twice, and one SIGINT from us. It must not inherit an ignored SIGINT, which a shell sets
for what it starts in the background: our own handler, set before it starts, becomes the default in
the child.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final

from logwright.demo.home import DemoHome
from logwright.demo.sensors import start_schedules, start_sensors
from logwright.errors import PreconditionError, StepFailed

HOST: Final = "127.0.0.1"
START_SECONDS: Final = 180
"""Limit on the time to the first page; about 30 s on two busy cores."""
STOP_SECONDS: Final = 40
POLL_SECONDS: Final = 0.3
SHOWN_LOG_BYTES: Final = 3000


class PortTaken(PreconditionError):
    """Something listens on the port of the web page."""


class Stopped(Exception):
    """A signal asked us to end."""


def check_port(port: int) -> None:
    """Raises if the port is taken. Effects: binds it for an instant.

    Raises:
        PortTaken: something listens on it.
    """
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise PortTaken(
                f"Port {port} of {HOST} is taken.", remedy="Name another one with --port."
            ) from error


def serve(home: DemoHome, *, port: int, ready: Callable[[str], None]) -> None:
    """Serves, with sensors and schedules on, until a signal says to stop. Effects: runs Dagster;
    changes the signal handlers.

    Args:
        home: the demo's directory.
        port: of the web page, on the loopback interface only.
        ready: called with the page's address once it answers.

    Raises:
        StepFailed: Dagster ended by itself, or its page does not answer.
    """
    log_path = home.root / "dagster-dev.log"
    command = [sys.executable, "-m", "dagster", "dev", "-w", str(home.workspace)]
    command += ["-h", HOST, "-p", str(port)]
    with suppress(Stopped), _signals_raise(), log_path.open("wb") as log:
        process = subprocess.Popen(
            command,
            cwd=home.root,
            env=dict(home.environment),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            address = f"http://{HOST}:{port}"
            _await_page(process, address)
            start_sensors(address)
            start_schedules(address)
            ready(address)
            process.wait()
        finally:
            _stop(process)
        said = log_path.read_text(errors="replace")[-SHOWN_LOG_BYTES:]
        raise StepFailed(f"Dagster ended by itself. Its last words:\n{said}", path=log_path)


def _await_page(process: subprocess.Popen[bytes], address: str) -> None:
    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"{address}/server_info", timeout=5):  # noqa: S310 -- http
                return
        except (urllib.error.URLError, TimeoutError, ConnectionError):
            time.sleep(POLL_SECONDS)
    if process.poll() is None:
        raise StepFailed(f"Dagster's page did not answer within {START_SECONDS} s.")


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Ends Dagster and its children. Effects: signals them; waits."""
    for number in (signal.SIGINT, signal.SIGTERM):
        if process.poll() is None:
            process.send_signal(number)
            try:
                process.wait(timeout=STOP_SECONDS)
            except subprocess.TimeoutExpired:
                continue
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return


@contextmanager
def _signals_raise() -> Iterator[None]:
    """SIGINT, SIGTERM, SIGHUP raise `Stopped`, once. Effects: changes the handlers for a while."""

    def stop(number: int, _frame: FrameType | None) -> None:
        for one in signals:
            signal.signal(one, signal.SIG_IGN)
        raise Stopped(signal.Signals(number).name)

    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    earlier = [signal.signal(one, stop) for one in signals]
    try:
        yield
    finally:
        for one, handler in zip(signals, earlier, strict=True):
            signal.signal(one, handler)
