"""What ends a command before it is done."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def terminated_like_interrupted() -> Iterator[None]:
    """Let SIGTERM do what Ctrl-C does: a command puts in order what it is in the middle of, and
    says what it has done. As the first process of a container it would not notice the signal
    otherwise. Effects: a signal handler, which only a main thread can have.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
