"""Logs as the brokers of busy topics leave them: timestamps in any order, unknown or in the future,
append times, every codec, long keys and values, batches of many records, producers with sequences
and epochs, of which some are forgotten.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any, Final

from tests.log_builder import START_MS, LogBuilder, SegmentBuilder
from tests.sequences.content import Content, Row

KEYS: Final = ("a", "b", "c", "d", "e", "f", "k" * 70, "ключ")
CODECS: Final = (0, 0, 1, 2, 3, 4)
"""None twice, gzip, snappy, lz4, zstd."""
DAY_MS: Final = 86_400_000
FORGOTTEN_MS: Final = START_MS - 3 * DAY_MS
"""A producer that wrote last at this time is forgotten (``producer.id.expiration.ms``)."""
MOST_MODIFIED_MS: Final = 4_000
"""The times of files are at most this later than the others."""
FIRST_PRODUCER: Final = 100
FIRST_FORGOTTEN: Final = 200


@dataclass
class _Producers:
    """Epoch and next sequence number of each."""

    known: dict[int, tuple[int, int]] = field(default_factory=dict)

    def append(self, rnd: random.Random, producer_id: int, count: int) -> dict[str, int]:
        """What the header of a producer's next batch says; some are of a new epoch."""
        epoch, sequence = self.known.get(producer_id, (0, 0))
        if sequence and rnd.random() < 0.25:
            epoch, sequence = epoch + 1, 0
        self.known[producer_id] = (epoch, sequence + count)
        return {"producer_id": producer_id, "producer_epoch": epoch, "sequence": sequence}

    def last(self) -> tuple[tuple[int, int], ...]:
        """The last sequence number of each that a broker does not forget."""
        return tuple(
            (producer, following - 1)
            for producer, (_, following) in sorted(self.known.items())
            if producer < FIRST_FORGOTTEN
        )


def write_rich(builder: LogBuilder, rnd: random.Random) -> Content:
    """Make a log of some segments."""
    rows: list[Row] = []
    producers = _Producers()
    offset = 0
    for _ in range(rnd.randint(2, 5)):
        modified_ms = START_MS + rnd.randrange(MOST_MODIFIED_MS)
        segment = builder.segment(offset, modified_ms=modified_ms)
        for _ in range(rnd.randint(1, 3)):
            batch = _batch(segment, rnd, offset, producers)
            rows += batch
            offset = batch[-1].offset + 1
    return Content(rows=tuple(rows), end=offset, producers=producers.last())


def _batch(
    segment: SegmentBuilder, rnd: random.Random, offset: int, producers: _Producers
) -> list[Row]:
    """Append a batch; its rows."""
    count = rnd.choice((1, 2, 3, 6, 12))
    pairs = [(_key(rnd), _value(rnd, offset + at)) for at in range(count)]
    times = _times(rnd, offset, count)
    options: dict[str, Any] = {}
    append_time = START_MS + offset + 9 if rnd.random() < 0.2 else None
    if rnd.random() < 0.4:
        producer_id = rnd.choice((FIRST_PRODUCER, FIRST_PRODUCER + 1, FIRST_FORGOTTEN))
        is_forgotten = producer_id >= FIRST_FORGOTTEN
        times = [(FORGOTTEN_MS if is_forgotten else START_MS) + offset + at for at in range(count)]
        append_time = None
        options |= producers.append(rnd, producer_id, count)
    segment.batch(
        offset,
        pairs,
        timestamps=times,
        append_time_ms=append_time,
        codec=rnd.choice(CODECS),
        **options,
    )
    return [
        Row(
            offset=offset + at,
            key=None if key is None else key.encode(),
            value=None if value is None else value.encode(),
            timestamp_ms=times[at] if append_time is None else append_time,
        )
        for at, (key, value) in enumerate(pairs)
    ]


def _key(rnd: random.Random) -> str | None:
    return None if rnd.random() < 0.03 else rnd.choice(KEYS)


def _value(rnd: random.Random, offset: int) -> str | None:
    choice = rnd.random()
    return None if choice < 0.2 else f"v{offset}" * (1 if choice < 0.7 else 60)


def _times(rnd: random.Random, offset: int, count: int) -> list[int]:
    """Timestamps of records: unknown, in the future, or near the start, in order or not."""
    how = rnd.choice(("unknown", "future", "shuffled", "shuffled", "ascending"))
    if how == "unknown":
        return [-1] * count
    times = [START_MS + offset + at for at in range(count)]
    if how == "future":
        times[rnd.randrange(count)] += 2 * DAY_MS
    if how == "shuffled":
        rnd.shuffle(times)
    return times
