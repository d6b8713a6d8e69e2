"""Logs that Hypothesis makes up: batches of all kinds, as calls of tests/log_builder.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from logwright.compaction.model import CleanPlan
from logwright.config.kafka_version import NEWEST, VERSIONS, KafkaVersion
from logwright.config.topic import parse_settings
from logwright.format.index import AbortedTransaction, parse_offset_index, parse_txn_index
from logwright.format.names import segment_file_name
from logwright.format.record import RecordHeader
from logwright.log.producers import active_producers
from tests import twins
from tests.log_builder import START_MS, LogBuilder
from tests.plans import forced_plan

NOW_MS = START_MS + 1_000_000
DELETE_RETENTION_MS = 5_000

_KEYS = st.sampled_from(
    [None, "", "a", "b", "c", "a-key-of-eighteen!", "kk" * 40, b"\x00\x00\x00\x01"]
)
_VALUES = st.sampled_from([None, None, "", "v", "a value", "w" * 200])
_HORIZONS = st.sampled_from([None, None, None, NOW_MS, NOW_MS - 1, NOW_MS + 1])
_KINDS = st.sampled_from(["plain", "plain", "idempotent", "in txn", "in txn", "marker", "marker"])
IDEMPOTENT_IDS = (1, 2)
TRANSACTIONAL_IDS = (5, 6, 7)

Call = tuple[str, tuple[Any, ...], dict[str, Any]]
"""A method of SegmentBuilder with its arguments."""


@dataclass(frozen=True, kw_only=True)
class MadeUpLog:
    """A log before it is written.

    Attributes:
        segments: base offset and batches of each but the active one.
        first_dirty: the cleaner checkpoint.
        buffer: ``log.cleaner.dedupe.buffer.size``; None is the default.
        producer_expiration_ms: so that some producers, all or none are forgotten.
    """

    segments: tuple[tuple[int, tuple[Call, ...]], ...]
    active: int
    first_dirty: int | None
    log_start: int | None
    buffer: int | None
    like_kafka: bool
    segment_bytes: int
    index_interval: int | None
    producer_expiration_ms: int
    min_lag_ms: int = 0
    kafka: KafkaVersion = NEWEST


@st.composite
def _data(draw: st.DrawFn, base: int, kind: str) -> tuple[Call, int]:
    count = draw(st.integers(0, 6))
    gaps = draw(st.lists(st.integers(0, 2), min_size=count, max_size=count))
    offsets, at = [], base
    for gap in gaps:
        at += gap
        offsets.append(at)
        at += 1
    last = max(at - 1, base) + draw(st.integers(0, 2))
    more: dict[str, Any] = {
        "offsets": offsets,
        "last_offset": last,
        "timestamps": [START_MS + draw(st.integers(-300, 300_000)) for _ in offsets],
        "codec": draw(st.sampled_from([0, 0, 0, 0, 1, 2, 3, 4])) if count else 0,
        "horizon_ms": draw(_HORIZONS),
        "append_time_ms": draw(st.sampled_from([None, None, None, START_MS + 77])),
        "headers": draw(st.sampled_from([(), (), (RecordHeader(key=b"h", value=None),)])),
    }
    if kind != "plain":
        ids = IDEMPOTENT_IDS if kind == "idempotent" else TRANSACTIONAL_IDS
        more["producer_id"] = draw(st.sampled_from(ids))
        more["sequence"] = draw(st.sampled_from([0, 0, 9, 2**31 - 2]))
        more["transactional"] = kind == "in txn"
    pairs = [(draw(_KEYS), draw(_VALUES)) for _ in offsets]
    return ("batch", (base, pairs), more), last


@st.composite
def _marker(draw: st.DrawFn, base: int, begun: Sequence[int]) -> tuple[Call, int]:
    """More often of a transaction that has begun than of none."""
    producer = draw(st.sampled_from((*begun, *begun, *begun, *TRANSACTIONAL_IDS)))
    kind = draw(st.sampled_from(MARKERS))
    more = {
        "epoch": draw(st.sampled_from([0, 0, 1])),
        "empty": draw(st.sampled_from([False, False, False, True])),
        "horizon_ms": draw(_HORIZONS),
    }
    if more["empty"]:
        more["horizon_ms"] = None
    return ("marker", (base, producer, kind), more), base


MARKERS = ("abort", "commit")


@st.composite
def made_up_logs(draw: st.DrawFn, *, producers: bool = True) -> MadeUpLog:
    """Any log. Transactions that are open in the end are decided half of the time."""
    segments: list[tuple[int, tuple[Call, ...]]] = []
    begun: set[int] = set()
    base = draw(st.integers(0, 3))
    for _ in range(draw(st.integers(1, 4))):
        start, calls = base, []
        for _ in range(draw(st.integers(0, 5))):
            base += draw(st.integers(0, 1))
            kind = draw(_KINDS) if producers else "plain"
            if kind == "marker":
                call, last = draw(_marker(base, sorted(begun)))
                begun.discard(call[1][1])
            else:
                call, last = draw(_data(base, kind))
            if kind == "in txn":
                begun.add(call[2]["producer_id"])
            calls.append(call)
            base = last + 1
        segments.append((start, tuple(calls)))
        base += draw(st.integers(0, 2)) if calls else 1
    first = segments[0][0]
    if producers and draw(st.booleans()):
        ends: list[Call] = [
            ("marker", (base + n, producer, "abort"), {})
            for n, producer in enumerate(TRANSACTIONAL_IDS)
        ]
        segments.append((base, tuple(ends)))
        base += len(ends)
    return MadeUpLog(
        segments=tuple(segments),
        active=base,
        first_dirty=draw(st.one_of(st.none(), st.integers(first, max(first, base - 1)))),
        log_start=draw(st.sampled_from([None, None, None, first + 2])),
        buffer=draw(st.sampled_from([None, 72, 96, 120, 1 << 20])),
        like_kafka=draw(st.booleans()),
        segment_bytes=draw(st.sampled_from([600, 1 << 20])),
        index_interval=draw(st.sampled_from([None, 0, 150])),
        producer_expiration_ms=draw(st.sampled_from([1, 1_000_000 - 10, 86_400_000])),
        kafka=draw(st.sampled_from(VERSIONS)),
    )


def write(log: MadeUpLog, directory: Path) -> LogBuilder:
    """Write it below a directory. Effects: creates ``logs``."""
    builder = LogBuilder(directory / "logs")
    for base, calls in log.segments:
        segment = builder.segment(base)
        for method, arguments, more in calls:
            getattr(segment, method)(*arguments, **more)
    builder.segment(log.active).batch(log.active, [("a", "active")])
    return builder.write(
        cleaner_checkpoint=log.first_dirty,
        log_start=log.log_start,
        producers=True,
        index_interval=log.index_interval,
    )


def plan(log: MadeUpLog, builder: LogBuilder) -> CleanPlan:
    """Our plan for its next cleaning."""
    config, cleaner = parse_settings(
        {
            "cleanup.policy": "compact",
            "internal.segment.bytes": str(log.segment_bytes),
            "delete.retention.ms": str(DELETE_RETENTION_MS),
            "min.compaction.lag.ms": str(log.min_lag_ms),
            "producer.id.expiration.ms": str(log.producer_expiration_ms),
            "segment.ms": str(1 << 60),
        },
        log.kafka,
    )
    if log.buffer is not None:
        cleaner = cleaner.model_copy(update={"dedupe_buffer_bytes": log.buffer})
    return forced_plan(
        builder.log_dir,
        builder.partition,
        (config, cleaner),
        now_ms=NOW_MS,
        like_kafka=log.like_kafka,
    )


def read(builder: LogBuilder) -> list[twins.Segment]:
    """All segments as they are on disk."""
    rows = []
    for path in sorted(builder.directory.glob("*.log")):
        base = int(path.stem)
        segment = twins.read_segment(base, path.read_bytes())
        index = parse_offset_index(path.with_suffix(".index").read_bytes(), base)
        rows.append(
            twins.Segment(
                base_offset=base,
                batches=segment.batches,
                index=tuple((int(offset), int(position)) for offset, position in index),
                aborted=read_aborted(builder.directory, base),
            )
        )
    return rows


def read_aborted(directory: Path, base_offset: int) -> tuple[AbortedTransaction, ...]:
    """A segment's transaction index; a missing one has no entries."""
    path = directory / segment_file_name(base_offset, ".txnindex")
    return parse_txn_index(path.read_bytes()) if path.exists() else ()


def rules(
    log: MadeUpLog, plan: CleanPlan, segments: list[twins.Segment], groups: Sequence[Sequence[int]]
) -> twins.Rules:
    """What the plain rules are to go by."""
    capacity = None
    if log.like_kafka:
        capacity = int(plan.cleaner.dedupe_buffer_bytes // 24 * plan.cleaner.load_factor)
    return twins.Rules(
        first_dirty=plan.compaction.first_dirty_offset,
        bound=plan.compaction.first_uncleanable_offset,
        end_kept=plan.compaction.first_uncleanable_offset
        if log.kafka.name == "4.3"
        else plan.log.high_watermark,
        now_ms=NOW_MS,
        delete_retention_ms=DELETE_RETENTION_MS,
        capacity=capacity,
        log_start=plan.log.log_start_offset,
        all_segments=segments,
        groups=[list(group) for group in groups],
        producers=active_producers(
            plan.log.producers,
            now_ms=plan.now_ms,
            expiration_ms=plan.config.producer_id_expiration_ms,
        ),
    )


def committed_values(
    segments: list[twins.Segment], stable: int
) -> dict[bytes, tuple[int, bytes | None]]:
    """Offset and value of what a consumer of committed records below an offset knows last of each
    key.

    From the aborted transactions that the segments' indexes list.
    """
    aborted = [entry for segment in segments for entry in segment.aborted]
    values: dict[bytes, tuple[int, bytes | None]] = {}
    for segment in segments:
        for batch, _, records in segment.batches:
            dropped = batch.is_control or (
                batch.is_transactional
                and any(
                    transaction.producer_id == batch.producer_id
                    and transaction.first_offset <= batch.base_offset <= transaction.last_offset
                    for transaction in aborted
                )
            )
            for record in () if dropped else records:
                if record.key is not None and record.offset < stable:
                    values[record.key] = (record.offset, record.value)
    return values
