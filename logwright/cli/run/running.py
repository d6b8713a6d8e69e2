"""How the command line reads log directories that brokers have open, and what it says of them."""

from __future__ import annotations

import time
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, Final

from logwright.cli.wording import counted
from logwright.place.model import Place
from logwright.running.broker import broker_process
from logwright.running.place import RunningPlace, as_it_runs
from logwright.times import duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from logwright.cli.options.parameters import Running
    from logwright.cli.output import Output
    from logwright.running.picture import Bound

LOG_DIRS: Final = ("log_dir", "log_dirs", "more_dirs")
"""Names of the arguments that are log directories of a broker."""
_NS_PER_MS: Final = 1_000_000


def as_they_run(
    given: Mapping[str, Any], running: Running
) -> tuple[dict[str, Any], tuple[Place, ...]]:
    """Return the arguments of a call with its log directories as they are read while brokers have
    them open, and these directories. Effects: asks for the brokers' locks.

    Args:
        given: the values of its arguments and options; ``throttle``, among them, is used up.
    """
    throttle = given.get("throttle")
    show = partial(
        as_it_runs,
        exact=running == "exact",
        whole=running == "whole",
        bytes_per_second=inf if throttle is None else throttle,
    )
    own = {name: value for name, value in given.items() if name != "throttle"}
    places: list[Place] = []
    for name in LOG_DIRS:
        if isinstance(given.get(name), tuple):
            own[name] = tuple(map(show, given[name]))
            places += own[name]
        elif name in given:
            own[name] = show(given[name])
            places.append(own[name])
    return own, tuple(places)


def report_bounds(output: Output, places: Iterable[Place]) -> None:
    """Say up to where the logs of running brokers were read. Effects: stderr."""
    now_ms = time.time_ns() // _NS_PER_MS
    for place in places:
        if isinstance(place, RunningPlace) and place.session.bounds:
            output.message(f"{place}: {bounds_sentence(place.session.bounds, now_ms)}.")


def bounds_sentence(bounds: Mapping[str, Bound], now_ms: int) -> str:
    """Return up to where some logs of a running broker are read. Pure."""
    oldest_ms = min(bound.recorded_ms for bound in bounds.values())
    logs = counted(len(bounds), "log")
    age = duration(max(now_ms - oldest_ms, 0))
    if len(bounds) == 1:
        ((name, bound),) = bounds.items()
        logs = f"{name} up to offset {bound.end_offset}"
    return f"a broker has it open: read {logs}, to the high watermarks that it recorded {age} ago"


def broker_of(place: RunningPlace) -> str:
    """Return what has a running log directory open. Effects: asks for the lock."""
    process = broker_process(place.session.log_dir)
    if process is None:
        return "a broker that ended meanwhile"
    return f"a broker (process {process}) has it open" if process else "a broker has it open"
