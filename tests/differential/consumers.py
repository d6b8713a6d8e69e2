"""What real consumers read: logs are put under a real broker, in one start of it, and read there by
KafkaConsumer with both isolation levels.

A broker takes all that is in a stopped log for committed: it is its only replica, and leader. So
what it serves is what `observe` sees with ``high_watermark="end"``.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from logwright.format.names import TopicPartition
from tests.e2e.command import free_port
from tests.oracle_runner import run_oracle

LEVELS = ("read_uncommitted", "read_committed")
NEVER_DELETE = ("cleanup.policy=compact", "segment.ms=9000000000000000")

Headers = tuple[tuple[str, bytes | None], ...]


class Row(NamedTuple):
    """One record as a consumer gets it; `timestamp_type`: 0 CreateTime, 1 LogAppendTime."""

    offset: int
    timestamp_ms: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: Headers


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A partition's log that consumers are to read.

    Attributes:
        name: of the log, among others.
        times: for which offsets are asked, in milliseconds.
    """

    name: str
    log_dir: Path
    partition: TopicPartition
    times: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumed:
    """What real consumers got of one log.

    Attributes:
        rows: by isolation level, in the order in which they came.
        start, ends: first offset, and by isolation level the offset that a consumer stops at.
        offsets: what `offsetsForTimes` answered for each time: None if no record is as late.
    """

    rows: dict[str, list[Row]]
    start: int
    ends: dict[str, int]
    offsets: dict[int, int | None] = field(default_factory=dict)


def consume(work: Path, places: Sequence[Place]) -> dict[str, Consumed]:
    """Read the logs by real consumers, under one broker. Effects: files below `work`, a process.

    The logs are copied: the broker changes none of them.
    """
    names = {f"check{number}-0": place.name for number, place in enumerate(places)}
    outs = {place.name: work / f"read-{number}" for number, place in enumerate(places)}
    jobs = [
        {
            "logDir": str(place.log_dir),
            "topicPartition": str(place.partition),
            "as": topic,
            "out": str(outs[place.name]),
            "times": list(place.times),
        }
        for topic, place in zip(names, places, strict=True)
    ]
    (work / "jobs.jsonl").write_text("".join(f"{json.dumps(job)}\n" for job in jobs))
    options = ("--port", str(free_port()), "--work", work / "broker", "--config", *NEVER_DELETE)
    lines = run_oracle("broker-check", "--jobs", work / "jobs.jsonl", *options)
    answers = {names[line["as"]]: line for line in lines}
    return {place.name: _consumed(answers[place.name], outs[place.name]) for place in places}


def _consumed(answer: Mapping[str, Any], out: Path) -> Consumed:
    times = answer.get("offsetsForTimes", {})
    return Consumed(
        rows={level: _read(Path(f"{out}.{level}.jsonl")) for level in LEVELS},
        start=answer["read_committed"]["beginningOffset"],
        ends={level: answer[level]["endOffset"] for level in LEVELS},
        offsets={int(time): offset for time, offset in times.items()},
    )


def _read(path: Path) -> list[Row]:
    with path.open() as lines:
        return [_row(json.loads(line)) for line in lines]


def _row(record: Mapping[str, Any]) -> Row:
    return Row(
        offset=record["offset"],
        timestamp_ms=record["timestamp"],
        timestamp_type=record["timestampType"],
        key=_bytes(record["key"]),
        value=_bytes(record["value"]),
        headers=tuple((one["key"], _bytes(one["value"])) for one in record.get("headers", ())),
    )


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def newest(rows: Iterable[Row], *, tombstones: bool = False) -> list[Row]:
    """The newest row of each key, by offset, as a dictionary keeps it; rows without a key never.

    Args:
        rows: in the order of offsets.
        tombstones: whether keys whose newest row has no value are there, with that row.
    """
    newest_rows: dict[bytes, Row] = {}
    for row in rows:
        if row.key is not None:
            newest_rows[row.key] = row
    return sorted(row for row in newest_rows.values() if tombstones or row.value is not None)
