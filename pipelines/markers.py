"""Which log directories lack their clean-shutdown marker: it counts for all logs of a directory."""

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
        taken: another process of ours has taken it away and is at work: an append, or a recovery.
        missing: nobody has; the directory was not stopped cleanly, or a broker runs on it.
    """

    taken: frozenset[Path]
    missing: frozenset[Path]

    def together(self, keys: Iterable[str], logs: Mapping[str, MaintainedLog]) -> frozenset[str]:
        """These keys, and those of all logs in the same directories whose marker is missing: such a
        directory is recovered as a whole, by one run.

        Args:
            keys: some may be of logs that are gone.
            logs: all, by key.
        """
        asked = frozenset(keys)
        whole = {logs[key].log_dir for key in asked if key in logs} & self.missing
        return asked | {key for key, log in logs.items() if log.log_dir in whole}


def read_markers(log_dirs: Iterable[Path]) -> Markers:
    """Look into each directory. Effects: reads."""
    without = {one for one in set(log_dirs) if not (one / CLEAN_SHUTDOWN_MARKER).exists()}
    taken = frozenset(one for one in without if marker_is_taken(one))
    return Markers(taken=taken, missing=frozenset(without - taken))
