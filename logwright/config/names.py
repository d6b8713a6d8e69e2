"""Names of configs that are not Kafka's: old ones, proposed ones, misspelled ones."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from types import MappingProxyType
from typing import Final

_READ_AND_WRITE: Final = "log.cleaner.io.max.bytes.per.second (reading and writing together)"

OLD_NAMES: Final = MappingProxyType(
    {
        "topic.cleanup.policy": "cleanup.policy",
        "log.cleaner.min.cleanable.dirty.ratio": "log.cleaner.min.cleanable.ratio",
        "min.cleanable.ratio": "min.cleanable.dirty.ratio",
        "cleaner.thread.pool.size": "log.cleaner.threads",
        "cleaner.buffer.size.bytes": "log.cleaner.dedupe.buffer.size (the sum over all threads)",
        "cleaner.max.read.throughput": _READ_AND_WRITE,
        "cleaner.max.write.throughput": _READ_AND_WRITE,
        "cleaner.backoff.ms": "log.cleaner.backoff.ms",
    }
)
"""Names from proposals and old releases → the name in Kafka 4.3."""

CLOSE: Final = 0.6
"""Least similarity, of `difflib`, of a name that is suggested for an unknown one."""

_BY_MAGIC: Final = "removed in Kafka 4.0; each batch is read by its own magic"
_NO_DOWNCONVERSION: Final = "without effect since Kafka 4.0"

REMOVED_NAMES: Final = MappingProxyType(
    {
        "message.format.version": _BY_MAGIC,
        "log.message.format.version": _BY_MAGIC,
        "message.timestamp.difference.max.ms": (
            "removed in Kafka 4.0, see message.timestamp.before.max.ms and ….after.max.ms"
        ),
        "log.message.timestamp.difference.max.ms": (
            "removed in Kafka 4.0, see log.message.timestamp.before.max.ms and ….after.max.ms"
        ),
        "message.downconversion.enable": _NO_DOWNCONVERSION,
        "log.message.downconversion.enable": _NO_DOWNCONVERSION,
    }
)
"""Names removed in Kafka 4.x → why."""


def unknown_name(name: str, valid: Iterable[str]) -> str:
    """Return the error for an unknown config name, with the nearest valid name if one is close."""
    known = former_name(name)
    if known is None:
        near = difflib.get_close_matches(name, sorted(valid), n=1, cutoff=CLOSE)
        known = f"did you mean {near[0]!r}?" if near else None
    return f"unknown config {name!r}" + (f": {known}" if known else "")


def former_name(name: str) -> str | None:
    """Return what Kafka 4.3 has in place of a name of an older release or a proposal, None if it is
    not known as one.
    """
    if name in OLD_NAMES:
        return f"in Kafka 4.3 it is {OLD_NAMES[name]}"
    return REMOVED_NAMES.get(name)
