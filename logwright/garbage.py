"""How often Python's garbage collector looks at everything."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_MANY_OBJECTS: Final = 1_000_000


@contextmanager
def rare_collections() -> Iterator[None]:
    """For what makes many small objects that all stay, such as the plans of a fleet: the collector
    finds nothing in them, and takes a third of the time.

    Effects: its threshold, until it is left; then all objects count as old ones (`gc.freeze` takes
    them out of its generations unseen, `gc.unfreeze` puts them into the oldest), so that it does
    not look at all of them at once.
    """
    before = gc.get_threshold()
    gc.set_threshold(_MANY_OBJECTS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.freeze()
        gc.unfreeze()
