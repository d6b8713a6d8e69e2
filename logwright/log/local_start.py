"""Where the local part of a log begins (KIP-405)."""

from __future__ import annotations

from logwright.errors import PreconditionError
from logwright.format.names import LOG_START_OFFSET_CHECKPOINT
from logwright.log.model import ReadableLog


def require_local_start(log: ReadableLog, start_offset: int | None = None) -> None:
    """Require that the records of a log from an offset on are in its segments: those of a topic
    with remote storage begin later than the log.

    Args:
        start_offset: None: the log start offset.

    Raises:
        PreconditionError: some are elsewhere.
    """
    recorded = dict(log.fingerprint.checkpoints)[LOG_START_OFFSET_CHECKPOINT]
    first = log.segments[0].base_offset
    if recorded is None or max(recorded, start_offset or 0) >= first:
        return
    raise PreconditionError(
        f"{log.partition} begins at offset {recorded}, its first local segment at {first}: what is"
        " before is in remote storage, or lost.",
        path=log.directory,
        remedy=f"Read it from offset {first} on, or from the remote storage.",
    )
