"""Whether two replicas differ as an audit claims, by their bytes.

After an unclean election they can: the old leader's cleaner has removed records because of newer
ones, and then the old leader was truncated below these. Its log lacks the keys, which the new
leader has; nobody repairs that.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from logwright.format.record import Record
from tests.live.plain import batches_of

KINDS = frozenset({"resurrected key", "lost record"})
"""What a truncation after a cleaning leaves."""


@contextmanager
def kept(log_dirs: Sequence[Path], log: str, below: Path) -> Iterator[dict[str, Path]]:
    """Give a directory with the segments that a log has now in each of these, by log directory: a
    cleaner can remove them meanwhile. Effects: hard links, removed on leaving.
    """
    copies = {str(each): below / str(number) for number, each in enumerate(log_dirs)}
    for log_dir, copy in copies.items():
        copy.mkdir(parents=True)
        for path in (Path(log_dir) / log).glob("*.log"):
            with suppress(FileNotFoundError):
                (copy / path.name).hardlink_to(path)
    try:
        yield copies
    finally:
        shutil.rmtree(below)


def denied(log: str, line: Mapping[str, Any], before: Mapping[str, Path]) -> Counter[str]:
    """Why the bytes deny faults that an audit shows of a log, with a number of each; none if all
    are there as it says: a key with a record in one replica, and with no record as late in the
    other, which serves later offsets. Effects: reads both logs as they are now.

    Args:
        before: where the segments of before the audit are, by log directory.
    """
    ends = {each["logDir"]: each["highWatermark"] for each in line["replicas"]}
    now = {log_dir: _records(Path(log_dir) / log) for log_dir in ends}
    ever = {log_dir: now[log_dir] + _records(before[log_dir]) for log_dir in ends}
    return Counter(filter(None, (_why_not(each, (ever, now), ends) for each in line["findings"])))


def _why_not(
    finding: Mapping[str, Any],
    records: tuple[Mapping[str, Sequence[Record]], Mapping[str, Sequence[Record]]],
    ends: Mapping[str, int],
) -> str | None:
    ever, now = records
    kind, at, other = finding["kind"], finding["offset"], finding["otherOffset"]
    has, lacks = finding["logDir"], finding["otherLogDir"]
    if kind not in KINDS:
        return str(kind)
    if kind == "lost record":
        has, lacks = lacks, has
    elif other >= 0:  # a tombstone that the first one lacks
        has, lacks, at = lacks, has, other
    keys = {record.key for record in ever[has] if record.offset == at}
    if len(keys) != 1:
        return f"{kind}: the record is not there"
    if at >= ends[lacks]:
        return f"{kind}: the other ends before"
    as_late = (each for each in now[lacks] if each.key in keys and at <= each.offset < ends[lacks])
    return f"{kind}: the other has one as late" if any(as_late) else None


def _records(directory: Path) -> list[Record]:
    return [record for _, records in batches_of(directory) for record in records]
