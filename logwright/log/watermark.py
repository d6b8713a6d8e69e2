"""The high watermark as a broker recorded it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from logwright.errors import PreconditionError
from logwright.format.names import HIGH_WATERMARK_CHECKPOINT

if TYPE_CHECKING:
    from logwright.log.model import ReadableLog


def is_without_high_watermark(log: ReadableLog) -> bool:
    """Return whether nothing of a log counts as committed because its high watermark, which is
    asked for, is not on record.
    """
    lost = (HIGH_WATERMARK_CHECKPOINT, None) in log.fingerprint.checkpoints
    return lost and log.high_watermark < log.log_end_offset


def require_high_watermark(log: ReadableLog) -> None:
    """Require that a log with records has a high watermark on record. Without one nothing of it
    would count as replicated, and what reads up to there would take the log for empty.

    Raises:
        PreconditionError: it has none.
    """
    recorded = dict(log.fingerprint.checkpoints)[HIGH_WATERMARK_CHECKPOINT]
    if recorded is None and log.log_end_offset > log.log_start_offset:
        raise PreconditionError(
            f"{log.partition} has records, and no high watermark in {HIGH_WATERMARK_CHECKPOINT}:"
            " it is not known what was replicated.",
            path=log.log_dir / HIGH_WATERMARK_CHECKPOINT,
            remedy="Restore that file, or read all of the log: --high-watermark end, or"
            " high_watermark: end in the policies.",
        )
