"""Work that several processes do, where threads would wait for Python's lock more than for the
disk.

Each process is forked from this one, and has its share of the items from the beginning: nothing is
sent to it. It sends back one value for each.

1. A process of ours that is told to stop begins nothing more, and ends what it is in the middle of.
   So does a forked one when its parent stops, for whatever reason.
2. When the parent is killed, the forked ones end at once: who runs the command again finds no lock
   held, and what a crash leaves.
3. A forked process has of its parent's threads only the one that forked. It does nothing that needs
   another one, and ends without cleaning up after its parent.
"""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe
from threading import Event, Thread
from typing import Final, Generic, TypeVar

from logwright.errors import StepFailed

_Item = TypeVar("_Item")
_Value = TypeVar("_Value")

_STOP: Final = b"s"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Child(Generic[_Value]):
    process: int
    results: Connection


@dataclass(frozen=True, slots=True)
class _Failed:
    """What a forked process sends when it cannot go on."""

    error: BaseException


def forked_map(
    function: Callable[[Sequence[_Item], Event], Iterator[_Value]],
    items: Sequence[_Item],
    *,
    processes: int,
) -> Iterator[_Value]:
    """Values for all items, in their order. Effects: those of the function, in other processes.

    Args:
        function: gives the values for a share of the items, in their order. When the event is set
            it begins nothing more.
        items: every so many-th is one process's.

    Raises:
        StepFailed: a process was killed, or none can be started.
        Whatever the function raises; the other processes then begin nothing more.
    """
    life = os.pipe()
    children: list[_Child[_Value]] = []
    try:
        children.extend(
            _fork(function, items[number::processes], life) for number in range(processes)
        )
        for number in range(len(items)):
            yield _receive(children[number % processes])
    finally:
        os.write(life[1], _STOP * len(children))
        for child in children:
            _end(child)
        for descriptor in life:
            os.close(descriptor)


def _receive(child: _Child[_Value]) -> _Value:
    try:
        value = child.results.recv()
    except EOFError as error:
        raise StepFailed(
            f"process {child.process}, which did a part of the work, was killed.",
            remedy="`logwright recover` mends what it was in the middle of; then run it again.",
        ) from error
    if isinstance(value, _Failed):
        raise value.error
    found: _Value = value
    return found


def _end(child: _Child[_Value]) -> None:
    """Take what it still sends, until it has ended."""
    with suppress(EOFError):
        while True:
            child.results.recv_bytes()
    child.results.close()
    os.waitpid(child.process, 0)


def _fork(
    function: Callable[[Sequence[_Item], Event], Iterator[_Value]],
    items: Sequence[_Item],
    life: tuple[int, int],
) -> _Child[_Value]:
    receiving, sending = Pipe(duplex=False)
    try:
        process = os.fork()
    except OSError as error:
        raise StepFailed(
            f"no process can be started: {error.strerror}.",
            remedy="Free memory or raise the limit of processes, then run it again.",
        ) from error
    if process:
        sending.close()
        return _Child(process=process, results=receiving)
    try:
        receiving.close()
        os.close(life[1])
        _work(function, items, life[0], sending)
    finally:
        os._exit(0)


def _work(
    function: Callable[[Sequence[_Item], Event], Iterator[_Value]],
    items: Sequence[_Item],
    life: int,
    results: Connection,
) -> None:
    """In the forked process: the terminal's interrupt is the parent's matter."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    gc.disable()  # it would touch, and so copy, all that the parent has in memory
    stop = Event()
    Thread(target=_watch, args=(life, stop), daemon=True).start()
    try:
        for value in function(items, stop):
            results.send(value)
    except BaseException as error:  # noqa: BLE001 -- the parent raises it
        results.send(_Failed(error))


def _watch(life: int, stop: Event) -> None:
    if not os.read(life, 1):
        os._exit(1)  # the parent is dead
    stop.set()
