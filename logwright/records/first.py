"""When the first record of a part of a log is from."""

from __future__ import annotations

import numpy as np

from logwright.log.model import ReadableLog
from logwright.records.model import ReadRequest
from logwright.records.plan import plan_records
from logwright.records.read import read_range


def first_time_ms(log: ReadableLog, offset: int) -> int | None:
    """Return the timestamp of the first record at or above an offset, None if there is none.
    Effects: reads.
    """
    request = ReadRequest(start_offset=offset, isolation="read_uncommitted")
    for part in plan_records(log, request):
        for batch in read_range(part, columns=("timestamp",), batch_rows=1):
            return int(np.int64(batch["timestamp"][0].value) // 1000)
    return None
