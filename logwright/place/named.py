"""Which place a text names, as it is given: on the command line, in the options of Spark.

This is the only way from a text to a `Place`. A new place is a module of this package and its line
in `ELSEWHERE`.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from logwright.place.model import Place, ReadOnlyPlace


def _in_bucket(scheme: str, rest: str) -> ReadOnlyPlace:
    from logwright.place.bucket import in_bucket  # noqa: PLC0415 -- of an extra, and takes time

    return in_bucket(scheme, rest)


ELSEWHERE: Final[dict[str, Callable[[str], ReadOnlyPlace]]] = {
    scheme: partial(_in_bucket, scheme) for scheme in ("s3", "gs", "az", "file")
}
"""Scheme → what makes the place of the text after ``SCHEME:``; it raises PolicyError for a text
that names none."""


def place_of(text: str) -> Place:
    """Return the place of a text: ``SCHEME:...`` of another place, else a path of this machine.

    Raises:
        PolicyError: it begins with a scheme, and names no place of it.
    """
    scheme, colon, rest = text.partition(":")
    if colon and scheme in ELSEWHERE:
        return ELSEWHERE[scheme](rest)
    return Path(text)
