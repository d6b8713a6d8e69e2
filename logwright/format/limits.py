"""How much memory the records of one batch may need once they are decompressed.

Kafka's cleaner has no such limit. A batch above it is not corrupt: it is refused as one that was
not read, and who has the memory gives more with ``LOGWRIGHT_MAX_BATCH_BYTES``.
"""

from __future__ import annotations

import os
from typing import Final

from logwright.errors import BatchAboveLimit, PolicyError

ENVIRONMENT: Final = "LOGWRIGHT_MAX_BATCH_BYTES"
"""The variable with a higher limit, in bytes."""
SMALLEST_LIMIT_BYTES: Final = 64 * 1024 * 1024
LIMIT_FACTOR: Final = 16


class CodecError(ValueError):
    """A payload cannot be decompressed; the caller adds the batch to the message."""


class AboveLimit(CodecError):
    """A payload holds more than it may. It need not be corrupt."""


def given_limit() -> int:
    """Return the limit in bytes that is given, 0 without one. Effects: reads the environment.

    Raises:
        PolicyError: it is not a number of bytes.
    """
    text = os.environ.get(ENVIRONMENT, "")
    if text and not (text.isascii() and text.isdecimal()):
        raise PolicyError(f"{ENVIRONMENT} is not a number of bytes, such as 1073741824.")
    return int(text or 0)


def decompression_limit(batch_bytes: int) -> int:
    """Return the decompressed size limit of a batch: 16 times its size, at least 64 MiB and what is
    given. Effects and errors: see `given_limit`.
    """
    return max(SMALLEST_LIMIT_BYTES, LIMIT_FACTOR * batch_bytes, given_limit())


def above_limit(
    offset: int,
    limit: int | None,
    *,
    path: object | None = None,
    position: int | None = None,
) -> BatchAboveLimit:
    """Return the error of the batch at an offset that unpacks to more than the limit; to more than
    is left after the batches read with it if that is None.
    """
    size = ", with those before it, to more than there is room for"
    size = size if limit is None else f" to more than {limit} bytes"
    return BatchAboveLimit(
        f"the record batch at offset {offset} unpacks{size}; {ENVIRONMENT} raises that limit.",
        path=path,
        position=position,
        remedy="Nothing was changed. Set it to a number of bytes for which there is memory.",
    )
