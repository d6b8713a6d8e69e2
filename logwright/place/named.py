"""Which place a text names, as it is given: on the command line, in the options of Spark.

This is the only way from a text to a `Place`. A new place is a module of this package and its line
in `ELSEWHERE`.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Final

from logwright.bucket.store import Bucket, is_in_bucket, local_path
from logwright.place.model import is_versioned

if TYPE_CHECKING:
    from collections.abc import Callable

    from logwright.place.model import Place, ReadOnlyPlace


def _late(module: str, name: str, *first: str) -> Callable[[str], ReadOnlyPlace]:
    """Return a function of a module that is imported when it is called: it is above this one, or
    of an extra and takes time. Its arguments are `first` and the text.
    """

    def make(text: str) -> ReadOnlyPlace:
        place: ReadOnlyPlace = getattr(importlib.import_module(module), name)(*first, text)
        return place

    return make


ELSEWHERE: Final[dict[str, Callable[[str], ReadOnlyPlace]]] = {
    "tier": _late("logwright.tier.place", "tier_alone"),
    **{
        scheme: _late("logwright.place.bucket", "in_bucket", scheme)
        for scheme in ("s3", "gs", "az", "file")
    },
}
"""Scheme → what makes the place of the text after ``SCHEME:``; it raises PolicyError for a text
that names none."""

_FILE: Final = "file://"


def place_of(text: str) -> Place:
    """Return the place of a text: ``SCHEME:...`` of another place, else a path of this machine.

    Raises:
        PolicyError: it begins with a scheme, and names no place of it; or it is another URL.
    """
    scheme, colon, rest = text.partition(":")
    if colon and scheme in ELSEWHERE:
        return ELSEWHERE[scheme](rest)
    return local_path(text)


def files_of(text: str) -> Place:
    """Return the place of a directory's files as they are, whatever they hold: below a URL of a
    bucket each object is one. A ``file://`` URL is a path of this machine.

    Raises:
        PolicyError: it begins as a URL of a bucket, and is none; or it is another URL.
        MissingExtra: the extra `bucket` is not installed.
    """
    if not is_in_bucket(text):
        return local_path(text)
    if text.startswith(_FILE):
        return Path(Bucket.of(text).url.removeprefix(_FILE))
    return _late("logwright.place.objects", "objects_of")(text)


def as_files(place: Place) -> Place:
    """Return the files of a log directory in a bucket as they are; any other place as it is.
    Pure.
    """
    return files_of(str(place)) if is_versioned(place) else place
