"""Find log directories without a clean-shutdown marker, which covers all logs of a directory, and
those that a broker has open.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from logwright.errors import LogwrightError
from logwright.format.names import CLEAN_SHUTDOWN_MARKER
from logwright.place.model import Place, is_local
from logwright.resources.log_dirs import MaintainedLog
from logwright.running.broker import broker_process
from logwright.steps.marker import marker_is_taken


@dataclass(frozen=True, slots=True, kw_only=True)
class Markers:
    """Log directories without a clean-shutdown marker.

    Attributes:
        taken: another logwright process has renamed it: an append or a recovery is running.
        missing: the directory was not shut down cleanly.
        running: a broker has it open, so that nothing of it can be maintained.
    """

    taken: frozenset[Place]
    missing: frozenset[Place]
    running: frozenset[Place] = frozenset()

    def together(self, keys: Iterable[str], logs: Mapping[str, MaintainedLog]) -> frozenset[str]:
        """Return these keys and, for directories without a marker, those of all their logs: such a
        directory is recovered as a whole, by one run.

        Args:
            keys: keys of logs; logs that no longer exist are allowed.
            logs: key → log, all logs.
        """
        requested = frozenset(keys)
        whole = {logs[key].log_dir for key in requested if key in logs} & self.missing
        return requested | {key for key, log in logs.items() if log.log_dir in whole}


def read_markers(log_dirs: Iterable[Place]) -> Markers:
    """Check each directory; one in a bucket has the marker always. Effects: reads; asks for the
    brokers' locks.
    """
    here = filter(is_local, set(log_dirs))
    without = {one for one in here if not (one / CLEAN_SHUTDOWN_MARKER).exists()}
    running = frozenset(filter(_is_running, without))
    taken = frozenset(one for one in without - running if marker_is_taken(one))
    return Markers(taken=taken, missing=frozenset(without - taken - running), running=running)


def _is_running(log_dir: Path) -> bool:
    """Return whether a broker has a log directory open; not of one that cannot be read: planning
    says why.
    """
    with suppress(LogwrightError):
        return broker_process(log_dir) is not None
    return False
