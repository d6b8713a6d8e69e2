"""The exit statuses of all commands, each with one meaning."""

from __future__ import annotations

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
        STOPPED: "stopped by the operator: interrupted, or a question was answered with no",
    }
)
"""Exit status → meaning. `LogwrightError.exit_status` has those of errors; docs/runbook.md has the
same table and what to do."""
