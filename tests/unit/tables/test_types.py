"""Columns that a format does not have are refused by name, before anything is written."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from logwright.config.decoding import JsonSpec, ScalarSpec
from logwright.config.json_fields import JsonField
from logwright.errors import PreconditionError
from logwright.tables.topic import open_store
from logwright.tables.types import unusable
from tests.log_builder import LogBuilder
from tests.table_rows import FORMATS
from tests.table_world import place, update

TIMES = pa.struct([pa.field("at", pa.duration("us"))])
CASES = pa.struct([pa.field("id", pa.int64()), pa.field("ID", pa.int64())])


@pytest.mark.parametrize(
    ("form", "kind", "path", "why"),
    [
        ("delta", pa.duration("us"), "c", "duration[us]"),
        ("delta", pa.list_(TIMES), "c.element.at", "duration[us]"),
        ("delta", pa.map_(pa.string(), TIMES), "c.value.at", "duration[us]"),
        ("delta", CASES, "c", "differ by case only: id"),
        ("delta", pa.time64("us"), "c", "time64[us]"),
        ("delta", pa.decimal256(50, 2), "c", "decimal256(50, 2)"),
        ("iceberg", pa.struct([pa.field("n", pa.null())]), "c.n", "null"),
        ("iceberg", pa.list_(TIMES), "c.element.at", "duration[us]"),
        ("iceberg", pa.decimal256(50, 2), "c", "decimal256(50, 2)"),
        ("parquet", pa.struct([pa.field("none", pa.struct([]))]), "c.none", "struct<>"),
    ],
)
def test_the_innermost_field_is_named(
    tmp_path: Path, form: str, kind: pa.DataType, path: str, why: str
) -> None:
    if pa.types.is_list(kind):
        kind = pa.list_(pa.field("element", kind.value_type))
    refused = unusable(open_store(place(form, tmp_path / "t")), pa.field("c", kind), "c")
    assert refused is not None
    assert path == refused.path
    assert refused.why.endswith(why)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize(
    "kind",
    [
        pa.decimal128(38, 10),
        pa.timestamp("us", "UTC"),
        pa.timestamp("us"),
        pa.date32(),
        pa.map_(pa.int32(), pa.list_(pa.string())),
        pa.struct([pa.field("a.b c", pa.binary(), nullable=False)]),
    ],
)
def test_what_decoders_make_can_be(tmp_path: Path, form: str, kind: pa.DataType) -> None:
    assert unusable(open_store(place(form, tmp_path / "t")), pa.field("c", kind), "c") is None


def test_nothing_is_written(tmp_path: Path) -> None:
    """The error has a way out, and the other formats take the same topic."""
    log = LogBuilder(tmp_path / "logs", "t-0")
    log.segment(0).batch(0, [("k", '{"person": {"id": 1, "ID": 2}}')])
    log.write()
    numbers = (JsonField(name="id", type="long"), JsonField(name="ID", type="long"))
    value = JsonSpec(fields=(JsonField(name="person", type="struct", fields=numbers),))
    specs = {"key": ScalarSpec(format="string"), "value": value}
    delta = place("delta", tmp_path / "delta", **specs)
    with pytest.raises(PreconditionError, match="the column person has fields") as error:
        update(delta, tmp_path / "logs")
    assert "another format" in str(error.value.remedy)
    assert [] == [path for path in (tmp_path / "delta").rglob("*") if path.suffix == ".parquet"]
    for form in ("parquet", "iceberg"):
        done = update(place(form, tmp_path / form, **specs), tmp_path / "logs")
        assert done.result.snapshot is not None
        assert 1 == done.result.snapshot.rows
