"""A table of MySQL's types: values as the binlog's reader has them, and what they mean."""

from __future__ import annotations

import base64
import datetime as dt
import struct
from collections.abc import Mapping
from decimal import Decimal
from types import MappingProxyType
from typing import Any, Final, NamedTuple

Given = dict[str, str] | None


class Value(NamedTuple):
    """A value.

    Attributes:
        given: its Java type and its text; None: null, which the reader also makes of zero dates.
        meant: what the source has.
    """

    given: Given
    meant: Any


def of_bytes(content: bytes, meant: Any = None, kind: str = "bytes") -> Value:
    """A value that the reader has as bytes."""
    text = base64.b64encode(content).decode()
    return Value({kind: text}, content if meant is None else meant)


def text(value: str, charset: str = "utf-8") -> Value:
    """A text: the reader has its bytes."""
    return of_bytes(value.encode(charset), value)


def plain(kind: str, value: Any) -> Value:
    """A value whose text is that of Python."""
    return Value({kind: str(value)}, value)


UTC: Final = dt.UTC
EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=UTC)
POINT: Final = struct.pack("<BIdd", 1, 1, 1.5, -2.0)
LINE: Final = struct.pack("<BIIdddd", 1, 2, 2, 0.0, 0.0, 1.0, 1.5)
WIDE: Final = "-" + "9" * 35 + "." + "1" * 30
TIME: Final = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
LONG_TIME: Final = "PT-838H-59M-59S"
COLUMNS: Final[Mapping[str, tuple[str, tuple[Value, ...]]]] = MappingProxyType(
    {
        "tu": ("TINYINT UNSIGNED", (Value({"int": "-1"}, 255), plain("int", 1))),
        "su": ("SMALLINT UNSIGNED", (Value({"int": "-1"}, 65535),)),
        "mu": ("MEDIUMINT UNSIGNED", (Value({"int": "-1"}, 16777215),)),
        "iu": ("INT UNSIGNED", (Value({"int": "-1"}, 4294967295),)),
        "bu": ("BIGINT UNSIGNED", (plain("long", 2**63 - 1), Value({"long": "-1"}, 2**64 - 1))),
        "bs": ("BIGINT", (plain("long", -(2**63)),)),
        "bo": ("BOOLEAN", (plain("int", 1), plain("int", 0))),
        "b1": ("BIT(1)", (of_bytes(b"\1", meant=True, kind="bits"),)),
        "b10": ("BIT(10)", (of_bytes(b"\1\2", kind="bits"),)),
        "en": ("ENUM('a','b,c','ß')", (Value({"int": "3"}, "ß"), Value({"int": "2"}, "b,c"))),
        "st": ("SET('a','b','c')", (Value({"long": "5"}, "a,c"), Value({"long": "0"}, ""))),
        "yr": ("YEAR", (Value({"year": "2026"}, 2026), Value({"year": "1901"}, 1901))),
        "da": (
            "DATE",
            (
                Value({"date": "2026-01-02"}, TIME.date()),
                Value({"date": "1000-01-01"}, dt.date(1000, 1, 1)),
            ),
        ),
        "dz": (
            "DATE NOT NULL DEFAULT '0000-00-00'",
            (Value({"date": "2026-01-02"}, TIME.date()), Value(None, EPOCH.date())),
        ),
        "dm": ("DATETIME", (Value({"datetime": "2026-01-02T03:04:05"}, TIME), Value(None, None))),
        "d6": (
            "DATETIME(6)",
            (Value({"datetime": "2026-01-02T03:04:05.000006"}, TIME.replace(microsecond=6)),),
        ),
        "dn": (
            "DATETIME NOT NULL DEFAULT '0000-00-00 00:00:00'",
            (
                Value(
                    {"datetime": "9999-12-31T23:59:59"},
                    dt.datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC),
                ),
                Value(None, EPOCH),
            ),
        ),
        "tm": (
            "TIME",
            (
                Value({"duration": "PT1H2M3S"}, "01:02:03"),
                Value({"duration": LONG_TIME}, "-838:59:59"),
                Value({"duration": "PT838H59M59S"}, "838:59:59"),
            ),
        ),
        "t6": ("TIME(6)", (Value({"duration": "PT25H0.000001S"}, "25:00:00.000001"),)),
        "ts": ("TIMESTAMP NULL", (Value({"zoned": "2026-01-02T03:04:05Z"}, TIME),)),
        "ts6": (
            "TIMESTAMP(6) NULL",
            (Value({"zoned": "2026-01-02T03:04:05.000006Z"}, TIME.replace(microsecond=6)),),
        ),
        "dc": ("DECIMAL(10,2)", (plain("decimal", Decimal("-12345678.90")),)),
        "dw": (
            "DECIMAL(65,30)",
            (plain("decimal", Decimal(f"0.{5:030}")), plain("decimal", Decimal(WIDE))),
        ),
        "fl": ("FLOAT", (Value({"float": "0.1"}, struct.unpack("<f", struct.pack("<f", 0.1))[0]),)),
        "db": ("DOUBLE", (plain("double", 0.1),)),
        "js": ("JSON", (Value({"text": '{"a": [1, null]}'}, '{"a": [1, null]}'),)),
        "pt": (
            "POINT",
            (
                of_bytes(
                    struct.pack("<I", 4326) + POINT,
                    {"x": 1.5, "y": -2.0, "wkb": POINT, "srid": 4326},
                ),
            ),
        ),
        "ge": ("GEOMETRY", (of_bytes(struct.pack("<I", 0) + LINE, {"wkb": LINE, "srid": None}),)),
        "ve": ("VECTOR(3)", (of_bytes(struct.pack("<3f", 1.0, -2.5, 0.0), [1.0, -2.5, 0.0]),)),
        "bi": ("BINARY(4)", (of_bytes(b"\0\xff", b"\0\xff\0\0"),)),
        "vb": ("VARBINARY(10)", (of_bytes(b"\xff\0"), of_bytes(b"", b""))),
        "bl": ("BLOB", (of_bytes(b"\x80\x81"),)),
        "tx": ("TEXT CHARACTER SET utf8mb4", (text("größe€ 😀"), text(""))),
        "vc": ("VARCHAR(10) CHARACTER SET latin1", (text("größe", "latin-1"),)),
        "def": ("INT DEFAULT 7", (plain("int", 1), Value(None, None))),
    }
)
"""Column → its type, and values: the first is that of the usual row."""

SETTINGS: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {
        "mysql": {
            "decimal": "PRECISE",
            "time": "ADAPTIVE_TIME_MICROSECONDS",
            "bigint": "LONG",
            "binary": "BYTES",
        },
        "mysql, precise": {
            "decimal": "PRECISE",
            "time": "CONNECT",
            "bigint": "PRECISE",
            "binary": "BYTES",
        },
        "mysql, texts": {
            "decimal": "STRING",
            "time": "ISOSTRING",
            "bigint": "PRECISE",
            "binary": "BASE64",
        },
    }
)


def rows() -> list[dict[str, Value]]:
    """The rows: the usual one; then one for each further value, with the usual ones where the
    column cannot be null, and null elsewhere.
    """
    usual = {name: values[0] for name, (_, values) in COLUMNS.items()}
    nothing = {
        name: value if "NOT NULL" in COLUMNS[name][0] else Value(None, None)
        for name, value in usual.items()
    }
    others = [
        nothing | {name: other} for name, (_, values) in COLUMNS.items() for other in values[1:]
    ]
    return [usual, *others]


def asked(name: str) -> dict[str, Any]:
    """What is asked of the converters, with settings of this name."""
    columns = ", ".join(f"{column} {kind}" for column, (kind, _) in COLUMNS.items())
    given = [
        [{"int": str(at)}, *(value.given for value in row.values())]
        for at, row in enumerate(rows(), 1)
    ]
    later = [{"int": "100"}, *(value.given for value in rows()[0].values()), {"int": "5"}]
    return {
        **SETTINGS[name],
        "versions": [
            {"ddl": f"CREATE TABLE t (id INT PRIMARY KEY, {columns});", "rows": given},
            {"ddl": "ALTER TABLE t ADD COLUMN more INT NOT NULL DEFAULT 9;", "rows": [later]},
        ],
    }
