"""Find log directories without a clean-shutdown marker, which covers all logs of a directory."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from logwright.format.names import CLEAN_SHUTDOWN_MARKER
from logwright.resources.log_dirs import MaintainedLog
from logwright.steps.marker import marker_is_taken


@dataclass(frozen=True, slots=True, kw_only=True)
class Markers:
    """Log directories without a clean-shutdown marker.

    Attributes:
        taken: another logwright process has renamed it: an append or a recovery is running.
        missing: the directory was not shut down cleanly, or a broker is running on it.
    """

    taken: frozenset[Path]
    missing: frozenset[Path]

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


def read_markers(log_dirs: Iterable[Path]) -> Markers:
    """Check each directory. Effects: reads."""
    without = {one for one in set(log_dirs) if not (one / CLEAN_SHUTDOWN_MARKER).exists()}
    taken = frozenset(one for one in without if marker_is_taken(one))
    return Markers(taken=taken, missing=frozenset(without - taken))
