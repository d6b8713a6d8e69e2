"""Events that Debezium's connectors wrote (`tests.change_events`) are decoded to what the source has.

What a connector itself changes or loses is listed here, by column and value: it is no longer in its
events. What cannot be a value of its column is refused, and so is listed, too.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
from collections.abc import Callable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from logwright.config.decoding import DebeziumSpec, Decoding, JsonSpec, RegistrySpec
from logwright.decode.make import make_decoder
from tests import mysql_events
from tests.change_events import COLUMNS, INFINITE, SETTINGS, in_bytes, kept, put_schemas, written
from tests.unit.decode.records import Result, batch, decode

UTC = dt.UTC
EPOCH = dt.datetime(1970, 1, 1, tzinfo=UTC)
FORMS = ("json", "avro")
Made = dict[str, Any]


@pytest.fixture(scope="module")
def made() -> Made:
    """What was written."""
    return kept()


def records_of(run: Made, form: str) -> pa.RecordBatch:
    """The records of a run in a form."""
    return batch(map(in_bytes, run[form]))


def decoded(run: Made, form: str, place: Path) -> Result:
    """What is decoded of a run's events."""
    of: Any = JsonSpec()
    if form == "avro":
        put_schemas(run, place)
        of = RegistrySpec(schemas=str(place))
    records = records_of(run, form)
    decoding = Decoding(key=of, value=DebeziumSpec(of=of))
    return decode(make_decoder(decoding, base=Path("/"), sample=[records]), records)


def number(text: str) -> Decimal:
    """A number of a text of money or of digits."""
    return Decimal(text.replace("$", "").replace(",", ""))


def bits(text: str) -> bytes:
    """Bits as Debezium's bytes, the lowest first."""
    return int(text, 2).to_bytes((len(text) + 7) // 8, "little")


def instant(text: str) -> dt.datetime:
    """A time with a zone or in UTC."""
    time = dt.datetime.fromisoformat(text)
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time


def seconds(text: str) -> Decimal:
    """A time of day in seconds, in UTC if it has a zone."""
    clock, sign, zone = text.removesuffix("Z").partition("+")
    hours, minutes, rest = clock.split(":")
    count = int(hours) * 3600 + int(minutes) * 60 + Decimal(rest)
    of_day = count - int(zone) * 3600 if sign else count
    return of_day + 86_400 if of_day < 0 else of_day


def point(text: str) -> tuple[float, ...]:
    """The coordinates of a point."""
    return tuple(map(float, text.strip("()").split(",")))


EXACT: Mapping[str, Callable[[str], Any]] = {
    **dict.fromkeys(("i2", "i4", "i8", "dom"), int),
    "f4": lambda text: float(np.float32(text)),
    "f8": float,
    **dict.fromkeys(("n", "n102", "n400", "mo"), number),
    "bo": lambda text: text == "true",
    "b1": lambda text: text == "1",
    **dict.fromkeys(("b5", "b12"), bits),
    "by": lambda text: bytes.fromhex(text[2:]),
    "da": dt.date.fromisoformat,
    **dict.fromkeys(("ti", "ti3", "tz"), seconds),
    **dict.fromkeys(("ts", "ts3", "tstz"), instant),
    "pt": point,
}
"""Column → what a text of the source means; of all others it is the value."""

MEANT: Mapping[tuple[str, str], Any] = {
    ("iv", "1 day 02:03:04.000005"): ("PT93784.000005S", "P0Y0M1DT2H3M4.000005S"),
    ("iv", "1 year 2 mons"): ("PT36817200.000000S", "P1Y2M0DT0H0M0S"),
    ("iv", "-00:00:00.000001"): ("PT-0.000001S", "P0Y0M0DT0H0M-0.000001S"),
    ("hs", '"a"=>"1", "b"=>NULL'): {"a": "1", "b": None},
    ("hs", ""): {},
    ("hs", '"x y"=>"\\"q\\""'): {"x y": '"q"'},
    ("ai4", "{1,NULL,-2}"): [1, None, -2],
    ("ai4", "{}"): [],
    ("ai8", "{9223372036854775807}"): [2**63 - 1],
    ("at", '{"a b",NULL,""}'): ["a b", None, ""],
    ("at", "{}"): [],
    ("an", "{1.50,NULL}"): [Decimal("1.50"), None],
    ("ad", "{2026-01-02,NULL}"): [dt.date(2026, 1, 2), None],
    ("ats", '{"2026-01-02 03:04:05.000006"}'): [dt.datetime(2026, 1, 2, 3, 4, 5, 6, UTC)],
    ("ab", "{t,f,NULL}"): [True, False, None],
    ("auu", "{123e4567-e89b-12d3-a456-426614174000}"): ["123e4567-e89b-12d3-a456-426614174000"],
    ("amood", "{a}"): ["a"],
}
"""Values whose text in PostgreSQL is of its own making."""

TIMES = ("ts", "ts3")
REFUSED = frozenset(
    [
        *((column, end) for column in ("da", *TIMES, "tstz") for end in INFINITE),
        ("da", "0044-03-15 BC"),
        ("ts", "10000-01-01 00:00:00"),
    ]
)
"""What a date or a timestamp of the years 1 to 9999 cannot be. Each is refused."""

BY_SNAPSHOT = frozenset(
    [
        ("da", "0044-03-15 BC"),
        ("ts", "0001-01-01 00:00:00"),
        ("tstz", "0001-01-01 00:00:00+00"),
        ("mo", "$92,233,720,368,547,758.07"),
    ]
)
"""Values of the snapshot that the connector changes: a year before 1 loses its sign, times before
1582 are of the Julian calendar, and money is rounded by a double.
"""


def is_lost(name: str, column: str, text: str, *, by_snapshot: bool) -> bool:
    """Whether the connector does not write what the source has."""
    if by_snapshot and (column, text) in BY_SNAPSHOT:
        return True
    if text == "NaN" and column in {"n", "n102"}:
        return name not in {"texts", "numbers"}  # null, since a Decimal has no such value
    if column in TIMES and name == "nanoseconds":  # 64 bits overflow
        return text in INFINITE or text.startswith(("0001", "10000"))
    return name == "numbers" and (column, text) == ("ti", "24:00:00")  # midnight


def as_source(name: str, column: str, value: Any) -> Any:
    """A decoded value as the source has it, whatever the settings."""
    if column == "by" and isinstance(value, str):
        return bytes.fromhex(value) if name == "numbers" else base64.b64decode(value)
    if column in {"n", "n102", "n400", "mo"}:
        return float(value) if name == "numbers" else Decimal(value)
    if column in {"ti", "ti3", "tz"}:
        return seconds(value)
    if column == "pt":
        return value["x"], value["y"]
    if column == "hs":
        return json.loads(value) if isinstance(value, str) else dict(value)
    if column == "an":
        return [each if each is None else Decimal(str(each)) for each in value]
    return value.rstrip(" ") if column == "ch" else value


def meant(name: str, column: str, text: str) -> Any:
    """What the source has, as far as the settings keep it."""
    if column == "iv":
        return MEANT[column, text][name == "texts"]
    value = MEANT[column, text] if (column, text) in MEANT else EXACT.get(column, str)(text)
    if name == "numbers" and column in {"n", "n102", "n400", "mo"}:
        return float(value)
    if name == "texts" and column == "ti":
        return value - value % Decimal("0.001")
    if name == "texts" and column == "ts":
        return milliseconds(value)
    return [milliseconds(each) for each in value] if (name, column) == ("texts", "ats") else value


def milliseconds(time: dt.datetime) -> dt.datetime:
    """A time without what is smaller."""
    return time.replace(microsecond=time.microsecond // 1000 * 1000)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", SETTINGS)
def test_values_of_postgresql(made: Made, tmp_path: Path, name: str, form: str) -> None:
    """Of each type and each setting, read by a snapshot and from the log; others are refused by the
    name of their field.
    """
    run = made[name]
    result = decoded(run, form, tmp_path)
    rows = {row["id"]: row for row in result.rows}
    refused = {at: reason for at, _, reason in result.refused}
    order = [int(json.loads(base64.b64decode(key))["payload"]["id"]) for key, _ in run["json"]]
    reasons = {order[at]: reason for at, reason in refused.items()}
    compared = 0
    for source in run["rows"]:
        number_of = int(source["id"])
        for column in COLUMNS:
            text = source[column]
            if text is None:
                assert rows.get(number_of, {}).get(column) is None
                continue
            by_snapshot = number_of % 2 == 1
            if is_lost(name, column, text, by_snapshot=by_snapshot):
                continue
            if (column, text) in REFUSED:
                assert reasons[number_of].startswith(f"field after.{column} is not a ")
                continue
            got = as_source(name, column, rows[number_of][column])
            want = meant(name, column, text)
            assert want == got or {str(want), str(got)} <= {"nan", "NaN"}, (column, text)
            compared += 1
    ops = {row["id"]: row["_op"] for row in result.rows}
    assert {"r", "c"} == set(ops.values())
    assert all(op == ("r" if at % 2 else "c") for at, op in ops.items())
    assert compared > 2 * len(COLUMNS)


@pytest.mark.parametrize("name", [*SETTINGS, *mysql_events.SETTINGS, "changes"])
def test_avro_has_the_same_rows_as_json(made: Made, tmp_path: Path, name: str) -> None:
    """To the last value, and the same records are refused for the same reasons."""
    run = made[name]
    of_table = [at for at, topic in enumerate(run["topics"]) if topic.count(".") == 2]
    run = run | {form: [run[form][at] for at in of_table] for form in FORMS}
    (json_result, avro_result) = (decoded(run, form, tmp_path) for form in FORMS)
    assert repr(json_result.refused) == repr(avro_result.refused)
    assert json_result.deleted == avro_result.deleted
    assert shown(json_result) == shown(avro_result)


def shown(result: Result) -> list[dict[str, str]]:
    """Rows by column, without those that a later schema adds or drops. Of one that is added records
    before have the default in Avro, by the columns' schema, and null in JSON; one that is dropped
    is a column of JSON only.
    """
    changed = {"more", "tags"}
    return [
        {name: repr(value) for name, value in row.items() if name not in changed}
        for row in result.rows
    ]


def mysql_lost(name: str, column: str, value: mysql_events.Value) -> bool:
    """Whether the connector, or Connect, does not write what MySQL has."""
    if value.given is None:
        return column == "def"  # Connect writes the default in place of null
    if column == "bu":
        return name == "mysql" and value.meant >= 2**63  # taken for a number with a sign
    if column == "en":
        return value.meant == "b,c"  # its comma is escaped
    above_a_day = value.meant in ("25:00:00.000001", "-838:59:59", "838:59:59")
    return above_a_day and name != "mysql"  # null


def as_mysql(name: str, column: str, value: Any) -> Any:
    """A decoded value as MySQL has it, whatever the settings."""
    if column in {"tm", "t6"}:
        clock, _, fraction = value.removesuffix("Z").partition(".")
        return f"{clock}.{fraction}" if fraction.strip("0") else clock
    if column in {"dc", "dw"}:
        return Decimal(value)
    is_text = name == "mysql, texts" and column in {"bi", "vb", "bl"}
    return base64.b64decode(value) if is_text else value


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", mysql_events.SETTINGS)
def test_values_of_mysql(made: Made, tmp_path: Path, name: str, form: str) -> None:
    """Numbers without a sign in each mode, bits, enums, sets, years, zero dates, times above a day,
    decimals of 65 digits, geometry, vectors, texts of other encodings; and after a later schema.
    """
    result = decoded(made[name], form, tmp_path)
    assert [] == result.refused
    expected = [*mysql_events.rows(), mysql_events.rows()[0]]
    assert [*range(1, len(expected)), 100] == [row["id"] for row in result.rows]
    assert 5 == result.rows[-1]["more"]
    for row, values in zip(result.rows, expected, strict=True):
        for column, value in values.items():
            if mysql_lost(name, column, value):
                continue
            got, want = row[column], value.meant
            if want is not None:
                got = as_mysql(name, column, got)
            if column == "d6" and name == "mysql, precise" and want is not None:
                want = milliseconds(want)
            if column == "ts6" and isinstance(got, str):
                got = instant(got)
            assert want == got, (column, value)


@pytest.mark.oracle
def test_what_is_kept_is_what_the_connectors_write(made: Made, tmp_path: Path) -> None:
    """The file is made by the connectors: they write the same rows again, at other times."""
    again = written()
    assert made.keys() == again.keys()
    for name in made:
        assert made[name].get("rows") == again[name].get("rows")
        for form in FORMS:
            results = [decoded(each[name], form, tmp_path / name) for each in (made, again)]
            (before, after) = (without_times(result) for result in results)
            assert before == after


def without_times(result: Result) -> tuple[list[str], list[Any], list[int]]:
    """What is the same each time."""
    rows = [{name: row[name] for name in row if name != "_source_time"} for row in result.rows]
    return [repr(row) for row in rows], result.refused, result.deleted
