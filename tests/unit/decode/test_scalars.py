"""Keys and values without fields."""

from __future__ import annotations

import math
import struct
import uuid
from pathlib import Path

import pyarrow as pa
import pytest

from logwright.config.decoding import Decoding, ScalarSpec
from logwright.decode import rows
from logwright.decode.make import make_decoder
from logwright.decode.model import REFUSED
from logwright.decode.scalars import ScalarDecoder
from tests.unit.decode.records import batch, by_value, columns, decode, reasons, values

ID = uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")


@pytest.mark.parametrize(
    ("form", "content", "expected"),
    [
        ("binary", b"\xff\x00", b"\xff\x00"),
        ("binary", b"", b""),
        ("string", b"", ""),
        ("string", "größe €😀".encode(), "größe €😀"),
        ("string", b"a\x00b", "a\x00b"),
        ("int", struct.pack(">i", -(2**31)), -(2**31)),
        ("int", struct.pack(">i", 2**31 - 1), 2**31 - 1),
        ("long", struct.pack(">q", -(2**63)), -(2**63)),
        ("long", struct.pack(">q", 258), 258),
        ("double", struct.pack(">d", -0.5), -0.5),
        ("double", struct.pack(">d", math.inf), math.inf),
        ("uuid", ID.bytes, str(ID)),
        ("uuid", str(ID).encode(), str(ID)),
        ("uuid", str(ID).upper().encode(), str(ID)),
        ("uuid", b"\x00" * 16, str(uuid.UUID(int=0))),
        ("uuid", b"\xff" * 16, str(uuid.UUID(int=2**128 - 1))),
    ],
)
def test_value(form: str, content: bytes, expected: object) -> None:
    """What Kafka's serializer of this name writes is read back; a tombstone is null."""
    result = by_value(ScalarSpec(format=form), content, None, content)
    assert [expected, None, expected] == columns(result)
    assert [1] == result.deleted
    assert [] == result.refused


@pytest.mark.parametrize(
    ("form", "content", "reason"),
    [
        ("string", b"\xff", "is not UTF-8"),
        ("string", b"ab\xc3", "is not UTF-8"),
        ("string", b"\xed\xa0\x80", "is not UTF-8"),
        ("string", b"\xc0\x80", "is not UTF-8"),
        ("int", b"", "is not an int: not 4 bytes"),
        ("int", b"12345", "is not an int: not 4 bytes"),
        ("long", b"1234567", "is not a long: not 8 bytes"),
        ("double", b"123456789", "is not a double: not 8 bytes"),
        ("uuid", b"", "is not a UUID"),
        ("uuid", str(ID).replace("-", "").encode(), "is not a UUID"),
        ("uuid", str(ID).replace("-", "_").encode(), "is not a UUID"),
        ("uuid", str(ID).replace("f", "g").encode(), "is not a UUID"),
        ("uuid", b"\xff" * 36, "is not a UUID"),
        ("uuid", str(ID).encode() + b"\n", "is not a UUID"),
        ("uuid", str(ID).encode()[:-1] + b"\n", "is not a UUID"),
    ],
)
def test_refused(form: str, content: bytes, reason: str) -> None:
    """Anything else is refused, and the others are decoded."""
    good = {"uuid": ID.bytes, "string": b"x"}.get(form, bytes({"int": 4}.get(form, 8)))
    result = by_value(ScalarSpec(format=form), good, content, good)
    assert [(1, "value", reason)] == result.refused
    assert 2 == len(result.rows)


@pytest.mark.parametrize("form", ["binary", "string", "int", "long", "double", "uuid"])
def test_no_records(form: str) -> None:
    """A batch may be empty."""
    result = by_value(ScalarSpec(format=form))
    assert ([], [], []) == (result.rows, result.refused, result.deleted)


@pytest.mark.parametrize("form", ["int", "long", "double", "uuid", "string", "binary"])
def test_part_of_a_column(form: str) -> None:
    """A slice of an array is decoded as the array that it stands for."""
    width = {"int": 4, "uuid": 16}.get(form, 8)
    content = [bytes([65 + number]) * width for number in range(5)]
    whole = ScalarDecoder(form).decode(pa.array(content, pa.binary())).values
    part = ScalarDecoder(form).decode(pa.array(content, pa.binary()).slice(2, 2)).values
    assert whole.slice(2, 2).to_pylist() == part.to_pylist()


def test_both_parts_can_be_refused() -> None:
    """There is a row of the quarantine for each; it has where the record is, and no bytes."""
    decoding = Decoding(key=ScalarSpec(format="long"), value=ScalarSpec(format="string"))
    decoder = make_decoder(decoding, base=Path("/"))
    records = batch([(b"12345678", b"v"), (b"k", b"\xff"), (None, b"w"), (b"", None)])
    result = decode(decoder, records)
    assert [(1, "key"), (1, "value"), (3, "key")] == [one[:2] for one in result.refused]
    assert [0x3132333435363738, None] == columns(result, "key")
    refused = decoder.decode(records).refused
    assert REFUSED == refused.schema
    assert {"t"} == set(refused.column("topic").to_pylist())
    assert {3} == set(refused.column("partition").to_pylist())


def test_chunks_are_put_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """However a batch is cut, rows and refusals are the same and have their own offsets."""
    content = [b"\xff" if number % 7 == 0 else b"x" * (number % 5) for number in range(50)]
    whole = by_value(ScalarSpec(format="string"), *content)
    monkeypatch.setattr(rows, "_CHUNK_ROWS", 3)
    monkeypatch.setattr(rows, "_CHUNK_BYTES", 4)
    assert whole == by_value(ScalarSpec(format="string"), *content)
    assert [number for number in range(50) if number % 7 == 0] == [
        number for number, _, _ in whole.refused
    ]
    assert 8 == len(reasons(whole))


def test_wide_columns_are_accepted() -> None:
    """Columns of type large_binary, as DuckDB has them, are decoded too."""
    records = values(b"a", None)
    wide = records.set_column(1, "value", records.column("value").cast(pa.large_binary()))
    decoder = make_decoder(Decoding(value=ScalarSpec(format="string")), base=Path("/"))
    assert ["a", None] == columns(decode(decoder, wide))
