"""Settings that are accepted but have no effect."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from types import MappingProxyType
from typing import Final

from logwright.config.topic import (
    BROKER_NAMES,
    EFFECTIVE_BROKER_NAMES,
    INERT,
    SYNONYM_OF,
    TOPIC_NAMES,
)

_LOG = logging.getLogger(__name__)

WITHOUT_EFFECT: Final = MappingProxyType(
    {
        "log.cleaner.backoff.ms": "the sensor's interval applies instead",
        "log.cleaner.io.buffer.size": "input is memory-mapped, output is in chunks of 1 to 2 MB",
    }
)
"""Setting of the cleaner that is accepted but has no effect → why."""

_RETENTION_INTERVAL: Final = "log.retention.check.interval.ms"
"""The schedule of retention uses it."""

_TIERED: Final = ("local.", "log.local.", "remote.", "log.remote.")


def warn_of_no_effect(names: Iterable[str], place: str = "") -> None:
    """Warn about settings of the cleaner without effect. Effects: logs warnings.

    `place`: where they are set.
    """
    for name in sorted(WITHOUT_EFFECT.keys() & set(names)):
        _LOG.warning("%s%s has no effect: %s", place, name, WITHOUT_EFFECT[name])


def reason_of_no_effect(name: str) -> str | None:
    """Return why a valid config has no effect in policies, None if it has one."""
    if name in WITHOUT_EFFECT:
        return WITHOUT_EFFECT[name]
    if name in {"log.dir", "log.dirs"}:
        return "the section log_dirs lists the log directories"
    if SYNONYM_OF.get(name, name) in INERT:
        return "it is for tiered storage" if name.startswith(_TIERED) else _FOR_BROKERS
    unused = BROKER_NAMES - TOPIC_NAMES - EFFECTIVE_BROKER_NAMES - {_RETENTION_INTERVAL}
    return _FOR_BROKERS if name in unused else None


_FOR_BROKERS: Final = "only a running broker uses it"
