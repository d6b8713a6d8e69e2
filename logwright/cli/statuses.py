"""The exit statuses of all commands, each with one meaning."""

from __future__ import annotations

from collections.abc import Iterable
from types import MappingProxyType
from typing import Final

STOPPED: Final = 130
"""Exit status: the operator stopped the command."""
EXIT_STATUSES: Final = MappingProxyType(
    {
        0: "success, or nothing to do",
        1: "a bug in logwright, with a traceback",
        2: "a setting or an option is invalid",
        3: "corrupt data, a fault that a check found, or a record that a broker would refuse",
        4: "an unsupported format: an unknown message format or codec, tiered storage",
        5: "a precondition is not met: a lock, disk space, the log changed, no clean shutdown",
        6: "something that was made or signed fails its check",
        7: "a file operation or a hook failed in the middle, or Spark died",
        8: "records of the keys were found",
        9: "not all that could hold records of the keys was searched",
        10: "records were found that are not gone by the deadline",
        11: "a broker starts, without records that were there",
        STOPPED: "stopped by the operator: interrupted, or a question was answered with no",
    }
)
"""Exit status → meaning. `LogwrightError.exit_status` has those of errors; docs/runbook.md has the
same table and what to do."""

WORST_FIRST: Final = (STOPPED, 1, 7, 6, 3, 5, 2, 4, 11, 9, 10, 8, 0)
"""Every exit status, by how much it asks of a person: the operator's own stop; a bug, after which
nothing else should run; a log in the middle of a change; output and then logs that are not what
they should be; what can be another time; what the settings decide; a log that is left to the
broker. Errors (1 to 7) come before what a search has found, in the order of docs/runbook.md."""


def worst(statuses: Iterable[int]) -> int:
    """Return the exit status of several commands that ran one after another: the first of
    `WORST_FIRST` that one of them had; 0 only if all had it, or without any.
    """
    return min(statuses, key=WORST_FIRST.index, default=0)
