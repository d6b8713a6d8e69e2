"""Segments with batches of formats v0 and v1, as all else reads them: each such batch in format v2,
as Kafka's cleaner writes it (`logwright.format.legacy`).

So nothing after this knows the old formats but for the column `legacy` of a batch. Positions are
those of the converted bytes; what is wrong with an old batch is named by its position in the file,
and found before. What must stay readable is kept in an unnamed temporary file, mapped, so that
memory is bounded however large a log is.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from logwright.errors import BatchAboveLimit, CorruptBatch, LogwrightError
from logwright.format.batch import LOG_OVERHEAD_BYTES, MAGIC, MAGIC_AT, parse_batch
from logwright.format.legacy import (
    LEGACY,
    NOT_LEGACY,
    SMALLEST_BYTES,
    in_format_v2,
    is_whole,
    legacy_batch_at,
)
from logwright.format.scan import scan_piece, scan_segment, scan_whatever
from logwright.place.mapped import ConvertedFile, MappedFile, in_a_file
from logwright.units import INT64_MAX

RUN_BYTES: Final = 4 * 1024 * 1024
"""About how many bytes of old batches are converted at once."""
_REFUSED: Final = "The log was not changed. Restore the segment."


class Run(NamedTuple):
    """Old batches that follow each other, in format v2.

    Attributes:
        content: the batches. places: where each begins in the file.
        end: the position after the last one that it has.
        next_offset: the smallest that a batch after it can have.
        problem: what is wrong with the batch at the end; None if nothing is, or it is not old.
    """

    content: bytes
    places: list[int]
    end: int
    next_offset: int
    problem: LogwrightError | None


def is_legacy_at(data: NDArray[np.uint8], position: int) -> bool:
    """Return whether what is at a position says that it is a batch of an old format."""
    if len(data) - position <= MAGIC_AT or data[position + MAGIC_AT] >= MAGIC:
        return False
    length = int.from_bytes(data[position + 8 : position + 12].tobytes(), "big", signed=True)
    return length + LOG_OVERHEAD_BYTES >= min(SMALLEST_BYTES)


def convert_run(
    data: NDArray[np.uint8],
    path: object,
    span: tuple[int, int],
    *,
    offsets: tuple[int, int],
    most_bytes: int = RUN_BYTES,
) -> Run:
    """Convert the old batches from a position on, until one is not old, or something is wrong.

    Args:
        data: uint8[n], a ``.log`` or a part of it. path: for messages.
        span: (position of the first, position where the last one ends at the latest).
        offsets: (the smallest that the first may have, exclusive upper bound).
        most_bytes: about how many bytes of old batches are converted; at least one is.
    """
    content: memoryview = data.data
    parts: list[bytes] = []
    places: list[int] = []
    position, end = span
    next_offset, end_offset = offsets
    while position < end and position - span[0] < most_bytes and is_legacy_at(data, position):
        length = int.from_bytes(content[position + 8 : position + 12], "big", signed=True)
        after = position + LOG_OVERHEAD_BYTES + length
        try:
            batch = _converted(content[position : min(after, end)])
            header = parse_batch(batch)
            if header.base_offset < next_offset or header.last_offset >= end_offset:
                raise CorruptBatch(
                    "the record batch's offsets are not above those of the batch before it."
                )
        except (CorruptBatch, BatchAboveLimit) as error:
            remedy = error.remedy or _REFUSED
            problem = type(error)(error.problem, path=path, position=position, remedy=remedy)
            return Run(b"".join(parts), places, position, next_offset, problem)
        parts.append(batch)
        places.append(position)
        position, next_offset = after, header.last_offset + 1
    return Run(b"".join(parts), places, position, next_offset, None)


def _converted(content: memoryview) -> bytes:
    if not is_whole(content):
        length = int.from_bytes(content[8:12], "big", signed=True)
        if length + LOG_OVERHEAD_BYTES > len(content):
            raise CorruptBatch("the record batch is truncated: the file ends inside it.")
        raise CorruptBatch("the record batch's CRC is wrong.")
    return in_format_v2(legacy_batch_at(content))


def converted_rows(content: NDArray[np.uint8], path: object) -> NDArray[np.void]:
    """Return the batches of a run, BATCH[n], marked as converted."""
    batches = scan_whatever(content, path)
    batches["legacy"] = LEGACY
    return batches


def converted_log(
    log: MappedFile, *, base_offset: int, end_offset: int, first_ordinal: int
) -> tuple[ConvertedFile, NDArray[np.void]]:
    """Return a segment in which there are old batches, in format v2, and its BATCH rows. Effects:
    reads all of it; writes an unnamed temporary file.

    Args:
        base_offset: of the segment. end_offset: exclusive upper bound of all offsets.
        first_ordinal: number of the first record.

    Raises:
        CorruptBatch, UnsupportedFormatError: a batch is wrong; see `scan_segment`.
        DiskFull: the directory of temporary files has no room for it.
    """
    data, path = log.data, log.path
    was_old: list[NDArray[np.bool_]] = []

    def contents() -> Iterable[bytes]:
        position, next_offset = 0, base_offset
        while position < len(data):
            if is_legacy_at(data, position):
                bounds = (next_offset, end_offset)
                run = convert_run(data, path, (position, len(data)), offsets=bounds)
                content, problem, after = run.content, run.problem, run.end
                rows, next_offset = len(run.places), run.next_offset
            else:
                batches, after, problem = scan_piece(
                    data,
                    path,
                    span=(position, len(data)),
                    next_offset=next_offset,
                    end_offset=end_offset,
                    piece_bytes=RUN_BYTES,
                )
                content, rows = data[position:after].tobytes(), len(batches)
                next_offset = int(batches["last_offset"][-1]) + 1 if rows else next_offset
            if not rows and problem is not None:
                raise problem
            was_old.append(np.full(rows, is_legacy_at(data, position)))
            position = after
            yield content

    content = in_a_file(contents())
    batches = scan_segment(
        content, path, base_offset=base_offset, end_offset=end_offset, first_ordinal=first_ordinal
    )
    batches["legacy"][np.concatenate(was_old)] = LEGACY
    return log.with_content(content), batches


def converted_copy(
    log: MappedFile, batches: NDArray[np.void]
) -> tuple[ConvertedFile, NDArray[np.void]]:
    """Return a file of batches, whatever their offsets, in format v2, and its BATCH rows: fewer if
    an old batch has no records that can be read. Effects: reads it; writes an unnamed temporary
    file.

    Args:
        batches: BATCH[n], of `valid_batches`: those that it begins with.

    Raises:
        DiskFull: the directory of temporary files has no room for it.
    """
    data, ends = log.data, batches["position"] + batches["size"]

    def contents() -> Iterable[bytes]:
        row = 0
        while row < len(batches):
            position, end = int(batches["position"][row]), int(ends[row])
            if batches["legacy"][row] == NOT_LEGACY:
                yield data[position:end].tobytes()
                row += 1
                continue
            bounds = (-INT64_MAX, INT64_MAX)
            run = convert_run(data, log.path, (position, int(ends[-1])), offsets=bounds)
            if not run.places:
                return
            yield run.content
            row += len(run.places)

    content = in_a_file(contents())
    return log.with_content(content), scan_whatever(content, log.path)
