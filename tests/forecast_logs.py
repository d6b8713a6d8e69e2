"""Random logs of many keys for forecasts: transactions, codecs, tombstones, records without a key.

Logs of Hypothesis (`tests.property.made_up_logs`) have a few keys, too few for a sample.

"""

from __future__ import annotations

import random
from pathlib import Path

from logwright.compaction.model import CleanPlan
from tests.log_builder import START_MS, LogBuilder
from tests.plans import forced_plan

NOW_MS = START_MS + 200_000_000
CODECS = (0, 0, 1, 2, 3, 4)


def write_random_log(directory: Path, seed: int, *, keys: int, records: int) -> LogBuilder:
    """Write a log of about this many keys and records. Effects: creates the directory."""
    made = random.Random(seed)
    builder = LogBuilder(directory)
    codec, mixed = made.choice(CODECS), made.random() < 0.2
    largest = made.choice([1, 3, 20, 100, 400])
    skew = made.choice([1.0, 1.0, 2.0, 4.0])
    tombstones, null_keys = made.choice([0, 0.02, 0.2]), made.choice([0, 0, 0.02])
    expired, transactional = made.choice([0, 0.5]), made.choice([0, 0, 0.2])
    value_bytes = made.choice([0, 8, 60, 300])
    segments = made.randint(2, 6)
    at, at_records = 0, 0
    for number in range(segments):
        segment = builder.segment(at)
        while at_records < records * (number + 1) // segments:
            count = made.randint(max(largest // 2, 1), largest)
            pairs = []
            for _ in range(count):
                key = f"key-{int(keys * made.random() ** skew):08d}"
                value = None if made.random() < tombstones else _value(made, value_bytes)
                pairs.append((None if made.random() < null_keys else key, value))
            in_transaction = made.random() < transactional
            segment.batch(
                at,
                pairs,
                codec=made.choice(CODECS) if mixed else codec,
                timestamps=[START_MS + 7 * (at_records + n) for n in range(count)],
                horizon_ms=NOW_MS - 1 if made.random() < expired else None,
                producer_id=5 if in_transaction else -1,
                transactional=in_transaction,
            )
            at, at_records = at + count, at_records + count
            if in_transaction:
                segment.marker(at, 5, "abort" if made.random() < 0.5 else "commit")
                at += 1
    builder.segment(at).batch(at, [("a", "active")])
    checkpoint = made.choice([None, None, builder.segments[len(builder.segments) // 2].base_offset])
    return builder.write(cleaner_checkpoint=checkpoint, producers=True)


def _value(made: random.Random, length: int) -> bytes:
    """Half of it compresses."""
    half = made.randint(0, length)
    return made.randbytes(half // 2) + b"{'field': 'value'}" * (half // 36)


def plan_of(builder: LogBuilder) -> CleanPlan:
    """The plan of its next cleaning. Effects: reads it."""
    settings = {"cleanup.policy": "compact", "segment.ms": str(1 << 60)}
    return forced_plan(builder.log_dir, builder.partition, settings, now_ms=NOW_MS)
