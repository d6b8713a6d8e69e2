"""Rows of every format can be written to Parquet and are read back."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.property.encoded_values import FORMATS, encoded
from tests.unit.decode.records import batch


@pytest.mark.parametrize("name", FORMATS)
def test_parquet(name: str, tmp_path: Path) -> None:
    """With tombstones, and without rows."""
    sample = encoded(name, tmp_path)
    records = batch(
        [(sample.key, sample.value), (sample.key, None), (sample.key, sample.value)], sample.topic
    )
    for part in (records, records.slice(0, 0)):
        rows = pa.Table.from_batches([sample.decoder.decode(part).rows])
        pq.write_table(rows, tmp_path / "rows.parquet")
        assert rows.equals(pq.read_table(tmp_path / "rows.parquet"))
