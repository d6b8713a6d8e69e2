"""One operation of a sequence about to be done."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tests.sequences.content import Content
from tests.sequences.world import World


@dataclass(slots=True)
class Step:
    """One operation about to be done.

    Attributes:
        name: the log that it changes.
        run: does it.
        done: what the log may be when it was done.
        halfway: what it may be next to that and what it was, when it was interrupted.
        again: it can be run again and then continues.
        unclean: it is about a directory that needs no recovery first.
    """

    name: str
    run: Callable[[], None]
    done: Callable[[], Iterable[Content | None]]
    halfway: Callable[[], Iterable[Content | None]] = tuple
    again: bool = False
    unclean: bool = False


def unchanged(world: World, name: str) -> Callable[[], Iterable[Content | None]]:
    """What a log may be when an operation changed nothing that consumers see."""
    return lambda: (world.logs[name].content,)


def pick(world: World, choice: int, names: tuple[str, ...]) -> str:
    """One of these that is there, if any is."""
    there = [name for name in names if world.logs[name].content is not None]
    return (there or names)[choice % len(there or names)]
