"""Steps that operations which free space leave out when the disk is full."""

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
    """Continue if the disk is too full for this: the operation frees space.

    Args:
        what: what is left out, for the warning. Leaving it out must be safe; the caller says why.
    """
    try:
        yield
    except DiskFull as error:
        _LOG.warning("disk full: left out %s: %s", what, error)
