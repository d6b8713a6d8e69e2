"""Regular expressions of policies and of erasure requests, by RE2.

They are matched with texts of others: values of records, names of topics. RE2 takes time that is
linear in the text, whatever the pattern; what cannot be matched so, such as a reference back, is
refused. Its classes of digits, letters and blanks are of ASCII.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final

import re2

NOT_LINEAR: Final = "is not a regular expression of RE2, which are those that match in linear time"
_MOST_COMPILED: Final = 1024
_MOST_BYTES: Final = 1 << 20
"""Memory of one compiled pattern."""


def is_pattern(pattern: str) -> bool:
    """Return whether a text is a regular expression of RE2."""
    try:
        _compiled(pattern)
    except (re2.error, UnicodeEncodeError):
        return False
    return True


def matches(pattern: str, text: str) -> bool:
    """Return whether a regular expression, which `is_pattern`, matches a whole text."""
    return _compiled(pattern)(text) is not None


def compiling(pattern: str) -> str:
    """Return a pattern of the policies.

    Raises:
        ValueError: it is not a regular expression of RE2.
    """
    if not is_pattern(pattern):
        raise ValueError(NOT_LINEAR)
    return pattern


@lru_cache(maxsize=_MOST_COMPILED)
def _compiled(pattern: str) -> Callable[[str], object]:
    """Return what matches a whole text: a match, or None."""
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MOST_BYTES
    matcher: Callable[[str], object] = re2.compile(pattern, options).fullmatch
    return matcher
