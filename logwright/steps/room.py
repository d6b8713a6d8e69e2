"""What is left out where a disk is full, by operations that are there to make room."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

from logwright.errors import DiskFull

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOG = logging.getLogger(__name__)


@contextmanager
def room_or_without(what: str) -> Iterator[None]:
    """Go on where a full disk has no room for this: what the operation frees is what is needed.

    Args:
        what: is left out, for the warning. Leaving it out must be safe; its user says why.
    """
    try:
        yield
    except DiskFull as error:
        _LOG.warning("no room for %s, gone on without: %s", what, error)
