"""How the command line reads log directories that brokers have open, or that have a tier, and what
it says of them.
"""

from __future__ import annotations

import time
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, Final

import click

from logwright.cli.wording import counted
from logwright.place.model import Place
from logwright.running.broker import broker_process
from logwright.running.place import RunningPlace, as_it_runs
from logwright.tier.place import TieredPlace, with_key, with_tier, without_local
from logwright.tier.remote import remote_segments, whole_tier
from logwright.tier.tier import TierOptions
from logwright.times import duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from logwright.cli.options.parameters import Running
    from logwright.cli.output import Output
    from logwright.running.picture import Bound

LOG_DIRS: Final = ("log_dir", "log_dirs", "more_dirs")
"""Names of the arguments that are log directories of a broker."""
_NS_PER_MS: Final = 1_000_000
_MOST_NAMED: Final = 10
"""Logs that a message names."""


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


def with_their_tier(given: Mapping[str, Any], running: Running) -> dict[str, Any]:
    """Return the arguments of a call with its log directories as they are read together with their
    tier. A search reads all remote segments besides: its `tier` is what to read. Pure.

    Args:
        given: the values of its arguments and options; ``tier`` and ``tier_key`` are used up.

    Raises:
        click.UsageError: they contradict the log directories, or each other.
    """
    if "tier" not in given:
        return dict(given)
    own = {name: value for name, value in given.items() if name not in {"tier", "tier_key"}}
    text, key = given["tier"], given["tier_key"]
    dirs = (own["log_dir"], *own.get("more_dirs", ()))
    alone = [place for place in dirs if isinstance(place, TieredPlace)]
    if text is not None and alone:
        raise click.UsageError(f"--tier and {alone[0]} contradict each other")
    if text is None and key is not None and not alone:
        raise click.UsageError("--tier-key needs --tier")
    if alone:
        dirs = tuple(_alone(place, key, running) for place in dirs)
    elif text is not None and running != "whole":
        dirs = with_tier(dirs, TierOptions.of(text, key))
    own["log_dir"] = dirs[0]
    if "more_dirs" in own:
        own["more_dirs"] = dirs[1:]
    if running == "whole":
        own["tier"] = None if text is None else remote_segments(dirs, TierOptions.of(text, key))
    return own


def _alone(place: Place, key: Path | None, running: Running) -> Place:
    """Return a tier without a log directory as a command reads it; any other place as it is."""
    if running == "whole":
        return whole_tier(place, key)
    return with_key(place, key) if isinstance(place, TieredPlace) else place


def report_tier(output: Output, place: object) -> None:
    """Say of which logs only remote segments were shown. Effects: stderr."""
    logs = without_local(place) if isinstance(place, TieredPlace) else []
    if logs:
        more = f" and {len(logs) - _MOST_NAMED} more" if len(logs) > _MOST_NAMED else ""
        output.message(
            f"Only remote segments are here of {', '.join(logs[:_MOST_NAMED])}{more}: newer records"
            " are on the brokers that have the log."
        )


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
