"""Settings of the cleaner that are accepted but have no effect."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from types import MappingProxyType
from typing import Final

_LOG = logging.getLogger(__name__)

WITHOUT_EFFECT: Final = MappingProxyType(
    {
        "log.cleaner.backoff.ms": "the sensor's interval applies instead",
        "log.cleaner.io.buffer.size": "input is memory-mapped, output is in chunks of 1 to 2 MB",
    }
)
"""Setting of the cleaner that is accepted but has no effect → why."""


def warn_of_no_effect(names: Iterable[str], place: str = "") -> None:
    """Warn about settings without effect. Effects: logs warnings.

    `place`: where they are set.
    """
    for name in sorted(WITHOUT_EFFECT.keys() & set(names)):
        _LOG.warning("%s%s has no effect: %s", place, name, WITHOUT_EFFECT[name])
