"""The first record of each schema id, of keys or values in the wire format of a schema registry."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from logwright.decode.ids_in_headers import with_ids
from logwright.decode.newest import header_ids
from logwright.errors import LogwrightError
from logwright.records.model import ReadRequest
from logwright.records.plan import plan_records
from logwright.records.read import read_range
from logwright.tables.columns import READ_COLUMNS
from logwright.tables.logs import TopicLog

_MOST: Final = 1000
"""Ids of a part that are looked at: others are of broken records."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Example:
    """The first record with a schema id.

    Attributes:
        record: one row, columns `READ_COLUMNS`.
        part: ``key`` or ``value``.
    """

    partition: int
    offset: int
    record: pa.RecordBatch
    part: str

    @property
    def value(self) -> bytes:
        """The key or value, with what a record's header has before it."""
        return bytes(with_ids(self.record, self.part)[0].as_py())

    @property
    def place(self) -> str:
        """Where it is, for messages."""
        return f"offset {self.offset} of partition {self.partition}"


Examples = dict[str, dict[int, Example]]
"""Part → schema id → its first record."""


def examples_of(
    logs: Iterable[TopicLog], starts: Mapping[int, int | None], parts: Collection[str]
) -> Examples:
    """Return the first record of each schema id, by partition and offset. Effects: reads; of a log
    that cannot be read what is before that, since the update reports it.

    Args:
        starts: partition → the first offset, None: the log start; others are not read.
        parts: of which ids are looked for.
    """
    examples: Examples = {part: {} for part in parts}
    for topic_log in sorted(logs, key=lambda each: each.partition) if parts else ():
        if topic_log.partition not in starts:
            continue
        with suppress(LogwrightError):
            for batch in _records(topic_log, starts[topic_log.partition]):
                for part, known in examples.items():
                    _note(known, part, topic_log.partition, batch)
    return examples


def _records(topic_log: TopicLog, start: int | None) -> Iterator[pa.RecordBatch]:
    for part in plan_records(topic_log.log, ReadRequest(start_offset=start)):
        yield from read_range(part, columns=READ_COLUMNS)


def _note(known: dict[int, Example], part: str, partition: int, batch: pa.RecordBatch) -> None:
    content = with_ids(batch, part)
    ids, rows = np.unique(header_ids(content), return_index=True)
    for row, schema_id in sorted(zip(rows.tolist(), ids.tolist(), strict=True)):
        if schema_id >= 0 and schema_id not in known and len(known) < _MOST:
            record = batch.take(pa.array([row]))  # a slice would keep the batch
            offset = int(record["offset"][0].as_py())
            known[schema_id] = Example(partition=partition, offset=offset, record=record, part=part)
