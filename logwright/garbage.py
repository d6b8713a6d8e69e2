"""Fewer garbage collections while many long-lived objects are created."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_MANY_OBJECTS: Final = 1_000_000


@contextmanager
def rare_collections() -> Iterator[None]:
    """Reduce garbage collection for code that creates many objects that stay alive, such as the
    plans of a fleet, where the collector takes a third of the time and frees nothing.

    Effects: raises the collector's threshold inside the block. Afterwards all objects are moved to
    the oldest generation (`gc.freeze`, then `gc.unfreeze`), so that no single collection has to
    traverse all of them.
    """
    before = gc.get_threshold()
    gc.set_threshold(_MANY_OBJECTS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.freeze()
        gc.unfreeze()
