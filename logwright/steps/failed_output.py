"""The output of a cleaning that failed its checks, kept for inspection until it expires.

It is the plan's staging directory under another name,
``<partition>/.logwright/failed/<expires at, ms>.<plan id>``. One rename puts it there: before it a
crash leaves the staging directory of a dead plan, which a purge removes, after it a kept output. No
broker and no other operation reads either (docs/adr/0024).
"""

from __future__ import annotations

import logging
import os
import re
from typing import TYPE_CHECKING, Final, NamedTuple

from logwright.errors import LogwrightError
from logwright.format.names import FAILED, FAILED_OUTPUT, STAGING, WORK_DIRECTORY
from logwright.log.tree import bytes_below
from logwright.place.files import is_directory, names_in
from logwright.steps.work import move_private, remove_private
from logwright.units import TimestampMs

if TYPE_CHECKING:
    from pathlib import Path

    from logwright.place.model import Place

LEAST_FREE_SHARE: Final = 0.1
"""Share of the file system that must be free for users other than root, the output still on it."""

_NAME: Final = re.compile(FAILED_OUTPUT)
_LOG: Final = logging.getLogger(__name__)


class FailedOutput(NamedTuple):
    """The name of a kept output.

    Attributes:
        due_at_ms: when it expires.
        plan_id: of the cleaning.
    """

    due_at_ms: TimestampMs
    plan_id: str

    @property
    def name(self) -> str:
        """The name of its directory."""
        return f"{self.due_at_ms}.{self.plan_id}"


def parse_failed_output(name: str) -> FailedOutput | None:
    """Return what a name in the directory of kept outputs says; None if it is another name."""
    if _NAME.fullmatch(name) is None:
        return None
    due_at_ms, _, plan_id = name.partition(".")
    return FailedOutput(TimestampMs(int(due_at_ms)), plan_id)


def keep_failed_output(partition: Path, output: FailedOutput) -> bool:
    """Keep what a plan has staged, instead of an output that was kept before. Effects: renames the
    staging directory; removes the other output. Nothing is kept if the disk has little space.

    Returns:
        whether it is kept. If not, it is still staged.
    """
    try:
        if not _has_room(partition):
            _LOG.warning(
                "the failed output is not kept, the disk has little space: partition=%s", partition
            )
            return False
        forget_failed_output(partition)
        source = (WORK_DIRECTORY, STAGING, output.plan_id)
        move_private(partition, source, (WORK_DIRECTORY, FAILED, output.name))
    except (OSError, LogwrightError) as error:
        _LOG.warning("the failed output is not kept: partition=%s %s", partition, error)
        return False
    return True


def forget_failed_output(partition: Path) -> None:
    """Remove the kept outputs of a partition. What cannot be removed stays, with a warning: it
    expires, and no operation reads it. Effects: unlinks files.
    """
    parent = partition / WORK_DIRECTORY / FAILED
    try:
        names = names_in(parent) if os.path.lexists(parent) else []
        for name in names:
            remove_private(partition, WORK_DIRECTORY, FAILED, name)
    except (OSError, LogwrightError) as error:
        _LOG.warning("kept failed output stays: partition=%s %s", partition, error)


def failed_outputs(work: Place) -> dict[FailedOutput, int]:
    """Return the kept outputs of a partition → bytes of the files, the first to expire first.
    Effects: reads the directories.

    Args:
        work: the partition's work directory.
    """
    parent = work / FAILED
    if not is_directory(parent):
        return {}
    outputs = filter(None, map(parse_failed_output, names_in(parent)))
    return {output: bytes_below(parent / output.name) for output in sorted(outputs)}


def _has_room(partition: Path) -> bool:
    """Return whether the file system has enough free space. Effects: asks it."""
    status = os.statvfs(partition)
    return status.f_bavail >= status.f_blocks * LEAST_FREE_SHARE
