"""Whether two replicas differ as an audit claims, by their bytes.

After an unclean election they can: the old leader's cleaner has removed records because of newer
ones, and then the old leader was truncated below these. Its log lacks the keys, which the new
leader has; nobody repairs that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from logwright.format.record import Record
from tests.live.plain import batches_of

KINDS = frozenset({"resurrected key", "lost record"})
"""What a truncation after a cleaning leaves."""


def differ(log: str, line: Mapping[str, Any]) -> bool:
    """Whether all faults that an audit shows of a log are in the bytes as it says: a key with a
    record in one replica, and with no record as late in the other, which serves later offsets.
    Effects: reads both logs as they are now.
    """
    findings = line["findings"]
    ends = {each["logDir"]: each["highWatermark"] for each in line["replicas"]}
    if {finding["kind"] for finding in findings} - KINDS:
        return False
    return all(_differs(log, finding, ends) for finding in findings)


def _differs(log: str, finding: Mapping[str, Any], ends: Mapping[str, int]) -> bool:
    has, lacks = finding["logDir"], finding["otherLogDir"]
    at, other = finding["offset"], finding["otherOffset"]
    if finding["kind"] == "lost record":
        has, lacks = lacks, has
    elif other >= 0:  # a tombstone that the first one lacks
        has, lacks, at = lacks, has, other
    keys = [record.key for record in _records(Path(has) / log) if record.offset == at]
    others = _records(Path(lacks) / log)
    as_late = [each for each in others if each.key in keys and at <= each.offset < ends[lacks]]
    return len(keys) == 1 and at < ends[lacks] and not as_late


def _records(directory: Path) -> Iterable[Record]:
    return (record for _, records in batches_of(directory) for record in records)
