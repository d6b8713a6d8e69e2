"""How a name in a path is shown that has a key: as an HMAC. Pure."""

from __future__ import annotations

import re
from typing import Final

_SHOWN: Final = re.compile(r"hmac-sha256:[0-9a-f]{32}")
_BYTES: Final = 16


def shown_as(hmac: bytes) -> str:
    """Return what stands for a name.

    Args:
        hmac: HMAC-SHA-256 of the name under the operator's secret.
    """
    return f"hmac-sha256:{hmac[:_BYTES].hex()}"


def is_hidden(path: str) -> bool:
    """Whether a path has something that stands for a name."""
    return any(map(_SHOWN.fullmatch, path.split("/")))


def may_be(shown: str, path: str) -> bool:
    """Return whether a path may be the one that is shown so."""
    names, given = shown.split("/"), path.split("/")
    return len(names) == len(given) and all(
        name == other or _SHOWN.fullmatch(name) for name, other in zip(names, given, strict=True)
    )
