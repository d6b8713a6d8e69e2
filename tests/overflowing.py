"""A log as brokers wrote it before KAFKA-6264: with offsets that no index entry can say."""

from __future__ import annotations

from pathlib import Path

from logwright.units import TimestampMs
from tests.log_builder import START_MS, LogBuilder

FAR = 1 << 31
"""So far from a base offset is the first offset that does not fit."""

NOW_MS = TimestampMs(START_MS + 10_000_000)


def overflowing_log(
    log_dir: Path, *, base: int = 0, first: int = 0, last_segment: bool = False
) -> LogBuilder:
    """A segment to be split, with an aborted transaction in its second part, cleanly stopped.

    Args:
        base: its base offset.
        first: offset of its first batch. If it is the base offset, there are three parts, else two:
            with an empty segment before them a split swaps as many.
        last_segment: there is none after it.
    """
    log = LogBuilder(log_dir)
    old = log.segment(base)
    old.batch(first, [("a", "1")], producer_id=7, sequence=0)
    old.batch(first + 10, [("b", "2")] * 3, codec=1)
    old.batch(first + FAR - 1, [("c", "3")])
    old.batch(first + FAR, [("a", "4")], producer_id=7, sequence=1)
    old.batch(first + FAR + 20, [("t", "x")], producer_id=9, transactional=True, sequence=0)
    old.marker(first + FAR + 22, 9, "abort")
    old.batch(first + FAR + 100, [("d", "5")] * 2)
    if first == base:
        old.batch(first + 2 * FAR + 300, [("e", "6")])
    if not last_segment:
        log.segment(first + 2 * FAR + 400).batch(first + 2 * FAR + 400, [("a", "7")])
    return log.write(producers=True)
