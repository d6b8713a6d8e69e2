"""Which files this process has open, whatever its other threads do."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path


def opened_below(directory: Path) -> list[Path]:
    """Of each descriptor that is open on a directory, or on what is in it, the path."""
    places = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # a thread has closed it
            places.append(descriptor.readlink())
    return [place for place in places if place.is_relative_to(directory)]
