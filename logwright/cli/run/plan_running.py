"""`plan` next to a running broker: what it says of it, and the pictures that forecasts read."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from logwright.cli.output import Output
from logwright.errors import LogwrightError
from logwright.format.names import HIGH_WATERMARK_CHECKPOINT
from logwright.place.model import Place
from logwright.running.broker import broker_process
from logwright.running.place import RunningPlace, bounds_of, exactly
from logwright.times import duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from logwright.compaction.model import ReadablePlan

_NS_PER_MS: Final = 1_000_000


def exact_place(place: Place, plans: Sequence[ReadablePlan]) -> Place:
    """Return the log directory as forecasts of these plans read it: their logs at one more moment,
    with bounds that are good for latest states. Effects: looks at the logs; may wait some seconds,
    once for all of them.
    """
    exact = exactly(place)
    if isinstance(exact, RunningPlace):
        with suppress(LogwrightError):  # of one log: said when that is planned
            exact.session.prepare(plan.log.partition.directory_name for plan in plans)
    return exact


def show_broker(output: Output, place: Place) -> None:
    """Show that a broker runs, and up to where its logs are planned. Effects: asks for its lock;
    stdout, text only.
    """
    if not isinstance(place, RunningPlace):
        return
    process = broker_process(place.session.log_dir)
    named = f" (process {process})" if process else ""
    output.text(
        f"A broker{named} runs here: its own cleaner may act first, and nothing of this plan can be"
        " committed while it runs."
    )
    recorded_ms = _recorded_ms(place)
    if recorded_ms is not None:
        age = duration(max(time.time_ns() // _NS_PER_MS - recorded_ms, 0))
        output.text(
            f"Planned up to the high watermarks of {HIGH_WATERMARK_CHECKPOINT}, which it recorded"
            f" {age} ago."
        )


def broker_object(place: Place) -> dict[str, object]:
    """Return the fields of JSON about the broker. Effects: asks for its lock."""
    if not isinstance(place, RunningPlace):
        return {"broker": None}
    process = broker_process(place.session.log_dir)
    recorded_ms = _recorded_ms(place)
    return {"broker": {"process": process, "highWatermarkRecordedMs": recorded_ms}}


def _recorded_ms(place: Place) -> int | None:
    """Return when the oldest high watermark that bounds a plan was recorded, ms since the epoch;
    None if no log was looked at.
    """
    return min((bound.recorded_ms for bound in bounds_of(place).values()), default=None)
