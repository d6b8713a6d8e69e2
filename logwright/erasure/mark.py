"""The mark of an erasure: ``<partition>/.logwright/erased.json``.

A log from which records were erased holds no tombstones of them. Whoever has read the log before,
such as a table of the latest state, must read all of it again when the mark is another one. A move
carries it. A copy that is made in another way may be without it: see `logwright.tables.batches`.

It is written before the first segment is replaced and again after the last, so that nobody who
reads in between takes what he has read for the log after the erasure. It is a line with a CRC; one
that cannot be read counts as one of its own.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from logwright.format.lines import parse_lines, serialize_line
from logwright.format.names import ERASURE_MARK, WORK_DIRECTORY
from logwright.log.mapped import map_file
from logwright.steps.replace import replace_file

if TYPE_CHECKING:
    from pathlib import Path

    from logwright.steps.step import FileStep


def mark_steps(directory: Path, erasure_id: str, *, done: bool) -> tuple[FileStep, ...]:
    """Return the steps that mark a partition.

    Args:
        directory: the partition's; its work directory exists, since it is locked.
        erasure_id: of this erasure.
        done: all segments are replaced.
    """
    content = serialize_line({"id": erasure_id, "done": done})
    return replace_file(directory / WORK_DIRECTORY / ERASURE_MARK, content, like=None)


def read_mark(directory: Path) -> str | None:
    """Return what identifies the last erasure and its stage, None without one. Effects: reads.

    Raises:
        UnreadableFile: the mark is not a regular file.
    """
    path = directory / WORK_DIRECTORY / ERASURE_MARK
    if not path.exists():
        return None
    content = map_file(path).tobytes()
    for entry in parse_lines(content):
        return f"{entry.get('id')} {'done' if entry.get('done') is True else 'begun'}"
    return f"damaged {zlib.crc32(content)}"
