"""Fields of new JSON objects that a table has no column for, because its columns were inferred from
the first records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final

import pyarrow as pa

from logwright.config.decoding import DebeziumSpec, Decoding, JsonSpec
from logwright.config.spec import Spec
from logwright.decode.debezium import AFTER
from logwright.decode.infer import infer_fields
from logwright.decode.json_fields import UnusableSchema
from logwright.errors import LogwrightError
from logwright.records.model import ReadRequest
from logwright.records.plan import plan_records
from logwright.records.read import read_range
from logwright.tables.columns import READ_COLUMNS
from logwright.tables.logs import TopicLog, sample

_LOOKED_AT: Final = 1000
"""New records of each partition that are looked at: inferring takes longer than decoding."""
_NEWEST: Final = 2048
"""Newest offsets of each partition that a table is inferred from when it is made again."""
_PARTS: Final = ("key", "value")


def inferred_parts(decoding: Decoding) -> tuple[str, ...]:
    """Return which of key and value have inferred fields."""
    specs = (decoding.key, decoding.value)
    return tuple(
        part
        for part, spec in zip(_PARTS, specs, strict=True)
        if (inner := _json(spec)) is not None and inner.fields is None
    )


def unknown_fields(
    current: Decoding,
    parts: Sequence[str],
    logs: Iterable[TopicLog],
    starts: Mapping[int, int | None],
) -> tuple[str, ...]:
    """Return the names of fields, of key or value, that new records have and the columns do not.
    Effects: reads the first new records of each partition.

    Args:
        current: the decoding of the table, with the fields that were inferred.
        parts: those that have inferred fields.
        starts: partition → the first new offset; of others nothing is looked at.
    """
    batches = list(_read(logs, starts, _LOOKED_AT)) if parts else []
    names: dict[str, None] = {}
    for part in parts:
        spec = current.key if part == "key" else current.value
        known = {field.name for field in (_json(spec) or JsonSpec()).fields or ()}
        is_event = isinstance(spec, DebeziumSpec)
        with suppress(UnusableSchema):
            fields = infer_fields(
                [batch[part].cast(pa.binary()) for batch in batches],
                is_event=is_event,
                inside=AFTER if is_event else None,
            )
            names |= dict.fromkeys(field.name for field in fields if field.name not in known)
    return tuple(names)


def newest_and_first(logs: Sequence[TopicLog]) -> Iterator[pa.RecordBatch]:
    """Yield some of the newest records of some logs, then some of the first ones, columns
    `READ_COLUMNS`. Effects: reads.
    """
    starts: dict[int, int | None] = {
        each.partition: max(each.log.log_start_offset, each.log.last_stable_offset - _NEWEST)
        for each in logs
    }
    yield from _read(logs, starts, _NEWEST)
    yield from sample(logs)


def _json(spec: Spec) -> JsonSpec | None:
    inner = spec.of if isinstance(spec, DebeziumSpec) else spec
    return inner if isinstance(inner, JsonSpec) else None


def _read(
    logs: Iterable[TopicLog], starts: Mapping[int, int | None], rows: int
) -> Iterator[pa.RecordBatch]:
    """Yield the first rows from some offsets on; of a log that cannot be read those before that."""
    for each in logs:
        if each.partition not in starts:
            continue
        request = ReadRequest(start_offset=starts[each.partition])
        with suppress(LogwrightError):  # the update reports it
            yield from _rows(each, request, rows)


def _rows(topic_log: TopicLog, request: ReadRequest, rows: int) -> Iterator[pa.RecordBatch]:
    """Yield the first rows that are asked for."""
    for part in plan_records(topic_log.log, request):
        for batch in read_range(part, columns=READ_COLUMNS, batch_rows=rows):
            yield batch.slice(0, rows)
            rows -= min(rows, len(batch))
            if not rows:
                return
