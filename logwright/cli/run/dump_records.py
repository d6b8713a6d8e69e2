"""Records of ``logwright dump``, one in each line: those that a consumer sees, from an offset or a
time on, with a key. What is before is not read, where the indexes lead. Needs the extra tables.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from logwright.cli.options.dump import Given
from logwright.cli.request import Request
from logwright.cli.run.replicas import say_not_committed
from logwright.format.names import TopicPartition
from logwright.log.load import observe
from logwright.log.watermark import require_high_watermark
from logwright.records.model import ReadRequest
from logwright.records.plan import plan_records
from logwright.records.read import read_range

if TYPE_CHECKING:
    from logwright.log.model import ReadableLog

Line = dict[str, Any]
_COLUMNS: Final = ("offset", "timestamp", "key", "value", "headers")
_ROWS: Final = 1000
"""Records that are decoded together."""


def look(request: Request, partition: TopicPartition) -> ReadableLog:
    """Observe a log whose records are wanted. Effects: reads it; output.

    Raises:
        LogwrightError: as `observe`; its high watermark is asked for and not on record.
    """
    log = observe(request.place, partition, high_watermark=request.high_watermark)
    if request.high_watermark == "checkpoint":
        require_high_watermark(log)
    say_not_committed(request, log)
    return log


def record_lines(log: ReadableLog, given: Given) -> Iterator[list[Line]]:
    """Yield the wanted records, some at a time, with the fields of those of `dump_partition`; keys
    and values are in base64. Effects: reads the log, with brokers kept out.

    Raises:
        LogwrightError: the log cannot be read, or a broker began to run.
    """
    wanted = ReadRequest(start_offset=given["offset"], start_timestamp_ms=given["time_ms"])
    key = None if given["key"] is None else given["key"].encode()
    left = given["count"]
    if left == 0:
        return
    for part in plan_records(log, wanted):
        rows = _ROWS if left is None or key is not None else min(left, _ROWS)
        for batch in read_range(part, columns=_COLUMNS, batch_rows=rows):
            records = _records(batch, key)[:left]
            if records:
                yield records
            if left is not None:
                left -= len(records)
                if not left:
                    return


def _records(batch: pa.RecordBatch, key: bytes | None) -> list[Line]:
    """Return the lines of the records with a key; None: of all."""
    columns = [batch.column(name) for name in ("offset", "key", "value", "headers")]
    times = batch.column("timestamp").cast("int64")
    lines = []
    for row, content in enumerate(columns[1]):
        if key is not None and content.as_py() != key:
            continue
        offset, _, value, headers = (column[row].as_py() for column in columns)
        line = {
            "offset": offset,
            "timestamp": times[row].as_py() // 1000,
            "key": _base64(content.as_py()),
            "value": _base64(value),
        }
        if headers:
            line["headers"] = [
                {"key": header["key"], "value": _base64(header["value"])} for header in headers
            ]
        lines.append(line)
    return lines


def _base64(content: bytes | None) -> str | None:
    return None if content is None else base64.b64encode(content).decode("ascii")
