"""A JVM of Spark that prints nothing while it starts, unless the start fails."""

from __future__ import annotations

import atexit
import os
import select
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, Final

from logwright.spark.redaction import at_launch

if TYPE_CHECKING:
    from pyspark import SparkConf

_LAST_LINES_SECONDS: Final = 1.0
"""How long the last lines are waited for."""

_READ_BYTES: Final = 65_536


class _Stderr:
    """The JVM's stderr: held, or passed on."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._held: bytes | None = b""
        self._lock = Lock()
        self._thread = Thread(target=self._read, daemon=True)
        self._thread.start()
        atexit.register(self._drain)

    def _read(self) -> None:
        content = b"."
        while content:
            select.select([self._descriptor], [], [])
            with self._lock:
                content = os.read(self._descriptor, _READ_BYTES)
                if self._held is None:
                    _pass_on(content)
                else:
                    self._held += content

    def _drain(self) -> None:
        """Wait until all that was written is read, but not for ever."""
        end = time.monotonic() + _LAST_LINES_SECONDS
        while (
            time.monotonic() < end
            and self._thread.is_alive()
            and select.select([self._descriptor], [], [], 0)[0]
        ):
            time.sleep(0.01)

    def hold(self) -> None:
        """Keep what comes from now on."""
        with self._lock:
            self._held = b""

    def drop(self) -> None:
        """Forget what was held, and pass on what comes from now on."""
        self._drain()
        with self._lock:
            self._held = None

    def show(self) -> None:
        """Pass on what was held, to the last line of a JVM that has ended."""
        self._thread.join(_LAST_LINES_SECONDS)
        with self._lock:
            _pass_on(self._held or b"")
            self._held = None


def _pass_on(content: bytes) -> None:
    sys.stderr.write(content.decode(errors="replace"))
    sys.stderr.flush()


_STDERR: Final[list[_Stderr]] = []
"""That of this process's JVM, if it was started here."""


@contextmanager
def quiet_start(conf: SparkConf) -> Iterator[Any]:
    """Start Spark's JVM, if this process has none; the caller starts a context in it.

    Spark's launcher, its logging and the JVM print some ten lines about themselves, before a level
    of logging is known. They are held, and printed if the start fails: then they say why. What the
    JVM prints later is passed on.

    The command line of the JVM has no secret setting: the caller gives them all to its context.

    Yields:
        the gateway for `SparkContext`.
    """
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415 -- settings need none of it
    from pyspark.java_gateway import launch_gateway  # noqa: PLC0415

    gateway = SparkContext._gateway  # noqa: SLF001 -- PySpark has no other way to ask
    writing = None
    if gateway is None:
        reading, writing = os.pipe()
        _STDERR[:] = [_Stderr(reading)]
    for stderr in _STDERR:
        stderr.hold()
    try:
        if writing is not None:
            try:
                public = SparkConf(loadDefaults=False).setAll(
                    [*at_launch(dict(conf.getAll())).items()]
                )
                gateway = launch_gateway(public, popen_kwargs={"stderr": writing})  # type: ignore[no-untyped-call]
            finally:
                os.close(writing)
        yield gateway
    except BaseException:
        for stderr in _STDERR:
            stderr.show()
        raise
    for stderr in _STDERR:
        stderr.drop()
