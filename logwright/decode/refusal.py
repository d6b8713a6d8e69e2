"""Why a key or value is not decoded."""

from __future__ import annotations


class Refused(Exception):
    """A key or value cannot be decoded; `reason` has none of its bytes."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)
