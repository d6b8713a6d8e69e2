"""Run Dagster's web server and daemon in the foreground, until Ctrl-C.

Dagster's parent process forwards SIGINT and stops its children; killing it would leave the web
server and the daemon running. So it runs in its own session, where the terminal's Ctrl-C does not
reach it a second time, and gets one SIGINT from this process. It must not inherit an ignored
SIGINT, which a shell sets for background jobs: a handler that is set before the child starts is
reset to the default in the child.
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
"""Timeout for the first page; it takes about 30 s on two busy cores."""
STOP_SECONDS: Final = 40
POLL_SECONDS: Final = 0.3
SHOWN_LOG_BYTES: Final = 3000


class PortTaken(PreconditionError):
    """The web server's port is in use."""


class Stopped(Exception):
    """A signal requested the end."""


def check_port(port: int) -> None:
    """Check that the port is free. Effects: binds it briefly.

    Raises:
        PortTaken: it is in use.
    """
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise PortTaken(
                f"Port {port} of {HOST} is in use.", remedy="Give another one with --port."
            ) from error


def serve(home: DemoHome, *, port: int, ready: Callable[[str], None]) -> None:
    """Serve, with sensors and schedules running, until a signal. Effects: runs Dagster; changes the
    signal handlers.

    Args:
        home: the demo's directory.
        port: port of the web server, on the loopback interface only.
        ready: called with the web server's URL once it responds.

    Raises:
        StepFailed: Dagster exited, or its web server does not respond.
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
            start_schedules(address, home.schedules)
            ready(address)
            process.wait()
        finally:
            _stop(process)
        shown = log_path.read_text(errors="replace")[-SHOWN_LOG_BYTES:]
        raise StepFailed(f"Dagster exited. The end of its output:\n{shown}", path=log_path)


def _await_page(process: subprocess.Popen[bytes], address: str) -> None:
    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"{address}/server_info", timeout=5):  # noqa: S310 -- http
                return
        except (urllib.error.URLError, TimeoutError, ConnectionError):
            time.sleep(POLL_SECONDS)
    if process.poll() is None:
        raise StepFailed(f"Dagster's web server did not respond within {START_SECONDS} s.")


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Stop Dagster and its children. Effects: signals them; waits."""
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
    """Let the first SIGINT, SIGTERM or SIGHUP raise `Stopped`. Effects: changes the handlers inside
    the block.
    """

    def stop(number: int, _frame: FrameType | None) -> None:
        for ignored in signals:
            signal.signal(ignored, signal.SIG_IGN)
        raise Stopped(signal.Signals(number).name)

    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    earlier = [signal.signal(one, stop) for one in signals]
    try:
        yield
    finally:
        for signal_number, handler in zip(signals, earlier, strict=True):
            signal.signal(signal_number, handler)
