"""Settings of the cleaner that are accepted and change nothing here."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from types import MappingProxyType
from typing import Final

_LOG = logging.getLogger(__name__)

WITHOUT_EFFECT: Final = MappingProxyType(
    {
        "log.cleaner.backoff.ms": "a sensor's interval says when to look again",
        "log.cleaner.io.buffer.size": "input is mapped, output is written in pieces of 1 to 2 MB",
    }
)
"""Settings of the cleaner that are accepted and change nothing: why."""


def warn_of_no_effect(names: Iterable[str], place: str = "") -> None:
    """Say of each setting that changes nothing that it does not. Effects: a warning in the log.

    `place`: where it was set.
    """
    for name in sorted(WITHOUT_EFFECT.keys() & set(names)):
        _LOG.warning("%s%s has no effect: %s", place, name, WITHOUT_EFFECT[name])
