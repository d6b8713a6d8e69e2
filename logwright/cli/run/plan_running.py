"""`plan` next to a running broker: what it says of it, and the pictures that forecasts read."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from logwright.cli.output import Output
from logwright.cli.run.running import broker_of
from logwright.errors import LogwrightError
from logwright.place.model import Place
from logwright.running.broker import broker_process
from logwright.running.place import RunningPlace, bounds_of, exactly

if TYPE_CHECKING:
    from collections.abc import Sequence

    from logwright.format.names import TopicPartition


def exact_place(place: Place, partitions: Sequence[TopicPartition]) -> Place:
    """Return the log directory as forecasts of these logs read it: at one more moment,
    with bounds that are good for latest states. Effects: looks at the logs; may wait some seconds,
    once for all of them.
    """
    exact = exactly(place)
    if isinstance(exact, RunningPlace):
        with suppress(LogwrightError):  # of one log: said when that is planned
            exact.session.prepare(each.directory_name for each in partitions)
    return exact


def show_broker(output: Output, place: RunningPlace) -> None:
    """Show that a broker runs, and what that means for the plan. Effects: asks for its lock;
    stdout, text only.
    """
    output.text(
        f"{broker_of(place)}: its own cleaner may act first, and nothing of this plan can be"
        " committed while it runs"
    )


def broker_object(place: Place) -> dict[str, object]:
    """Return the fields of JSON about the broker: null if none runs. Effects: asks for its lock."""
    if not isinstance(place, RunningPlace):
        return {"broker": None}
    recorded = (bound.recorded_ms for bound in bounds_of(place).values())
    return {
        "broker": {
            "process": broker_process(place.session.log_dir),
            "highWatermarkRecordedMs": min(recorded, default=None),
        }
    }
