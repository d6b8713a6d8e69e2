"""What Debezium's own connectors write of a real PostgreSQL, and what that has.
``python -m tests.change_events`` makes it again.

Each run is of one set of the connector's settings. Its records are kept in three forms: JSON with
schemas, JSON without, and Avro with ids as in Confluent's format, by AvroData (Apicurio's copy of
Confluent's, which is in no public index). Next to them is what the source says of its rows.
"""

from __future__ import annotations

import base64
import json
import lzma
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from tests import mysql_events
from tests.connect_events import PROJECT
from tests.e2e.servers import DATABASE_USER, postgres
from tests.oracle_runner import JVM_OPTIONS, classpath_of, java

FILE: Final = Path(__file__).with_name("data") / "change-events.json.xz"
LARGE: Final = 3000
"""Characters of a value that PostgreSQL stores outside of its row."""


class Source(NamedTuple):
    """A column of the source.

    Attributes:
        type: of PostgreSQL.
        usual: the value of the first row, in SQL.
        others: values of further rows, one each.
    """

    type: str
    usual: str
    others: tuple[str, ...] = ()


INFINITE: Final = ("infinity", "-infinity")
COLUMNS: Final[Mapping[str, Source]] = MappingProxyType(
    {
        "i2": Source("smallint", "-32768"),
        "i4": Source("int", "2147483647"),
        "i8": Source("bigint", "-9223372036854775808"),
        "f4": Source("real", "0.1", ("NaN", "Infinity", "3.4028235e38")),
        "f8": Source("double precision", "0.1", ("NaN", "-Infinity", "1e-300")),
        "n": Source("numeric", "123456789012345678901234567890.123", ("NaN", "0", "1e40")),
        "n102": Source("numeric(10,2)", "-12345678.90", ("NaN", "0.01")),
        "n400": Source("numeric(40,0)", "7", ("1234567890123456789012345678901234567890",)),
        "mo": Source("money", "-1234.56", ("92233720368547758.07",)),
        "bo": Source("boolean", "true", ("false",)),
        "b1": Source("bit", "1"),
        "b5": Source("bit(5)", "10011"),
        "b12": Source("bit varying(12)", "101000000001", ("1",)),
        "ch": Source("char(4)", "ab"),
        "vc": Source("varchar(20)", "größe€"),
        "tx": Source("text", "a 'quoted' \" text\u2028", ("", "__debezium")),
        "by": Source("bytea", "\\x00ff10", ("\\x",)),
        "da": Source(
            "date", "2026-01-02", (*INFINITE, "0001-01-01", "9999-12-31", "0044-03-15 BC")
        ),
        "ti": Source("time", "01:02:03.000004", ("24:00:00",)),
        "ti3": Source("time(3)", "01:02:03.004"),
        "tz": Source("timetz", "01:02:03.000004+02"),
        "ts": Source(
            "timestamp",
            "2026-01-02 03:04:05.000006",
            (*INFINITE, "1969-12-31 23:59:59.999999", "0001-01-01", "10000-01-01"),
        ),
        "ts3": Source("timestamp(3)", "2026-01-02 03:04:05.006", INFINITE),
        "tstz": Source(
            "timestamptz", "2026-01-02 03:04:05.000006+02", (*INFINITE, "0001-01-01 00:00:00+00")
        ),
        "iv": Source("interval", "1 day 02:03:04.000005", ("1 year 2 mons", "-00:00:00.000001")),
        "js": Source("json", '{"a": [1, 2.50, null]}'),
        "jsb": Source("jsonb", '{"a": [1, 2.50, null]}', ("null",)),
        "xm": Source("xml", "<a>ß</a>"),
        "uu": Source("uuid", "123e4567-e89b-12d3-a456-426614174000"),
        "pt": Source("point", "(1.5,-2)"),
        "ip": Source("inet", "192.168.0.1/24"),
        "cidr": Source("cidr", "10.0.0.0/8"),
        "mac": Source("macaddr", "08:00:2b:01:02:03"),
        "r4": Source("int4range", "[1,5)", ("empty",)),
        "rn": Source("numrange", "[1.5,)"),
        "rts": Source("tsrange", '["2026-01-02 03:04:05",infinity)'),
        "rtz": Source("tstzrange", '["2026-01-02 03:04:05+00","2026-01-03 00:00:00+00")'),
        "rd": Source("daterange", "[2026-01-02,2026-01-05)"),
        "hs": Source("hstore", '"a"=>"1", "b"=>NULL', ("", '"x y"=>"\\"q\\""')),
        "lt": Source("ltree", "top.middle.low"),
        "ci": Source("citext", "Ab"),
        "mood": Source("mood", "b c"),
        "ai4": Source("int[]", "{1,NULL,-2}", ("{}",)),
        "ai8": Source("bigint[]", "{9223372036854775807}"),
        "at": Source("text[]", '{"a b",NULL,""}', ("{}",)),
        "an": Source("numeric(10,2)[]", "{1.50,NULL}"),
        "ad": Source("date[]", "{2026-01-02,NULL}"),
        "ats": Source("timestamp[]", '{"2026-01-02 03:04:05.000006"}'),
        "ab": Source("boolean[]", "{t,f,NULL}"),
        "auu": Source("uuid[]", "{123e4567-e89b-12d3-a456-426614174000}"),
        "amood": Source("mood[]", "{a}"),
        "tsv": Source("tsvector", "'a':1 'b':2"),
        "dom": Source("positive", "7"),
    }
)
"""Columns of the table of types."""

NONE: Final = "NULL"
SETTINGS: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {
        "default": {},
        "texts": {
            "decimal.handling.mode": "string",
            "time.precision.mode": "connect",
            "hstore.handling.mode": "map",
            "interval.handling.mode": "string",
            "binary.handling.mode": "base64",
        },
        "numbers": {
            "decimal.handling.mode": "double",
            "time.precision.mode": "isostring",
            "binary.handling.mode": "hex",
        },
        "microseconds": {"time.precision.mode": "adaptive_time_microseconds"},
        "nanoseconds": {"time.precision.mode": "nanoseconds"},
    }
)
"""Sets of settings of the connector: how decimals, times, bytes and maps are written."""

PREPARED: Final = (
    *(f"CREATE EXTENSION IF NOT EXISTS {name}" for name in ("hstore", "ltree", "citext")),
    "DROP TABLE IF EXISTS types",
    "DROP DOMAIN IF EXISTS positive",
    "DROP TYPE IF EXISTS mood",
    "CREATE TYPE mood AS ENUM ('a', 'b c', 'ß')",
    "CREATE DOMAIN positive AS int CHECK (VALUE > 0)",
    "SET TIME ZONE 'UTC'",
    "SET extra_float_digits = 3",
)


def typed(name: str) -> dict[str, Any]:
    """What is asked for the table of types, with settings of this name. Rows with odd numbers are
    read by the snapshot, those with even numbers are then put in, of the same values.
    """
    rows = [{name: source.usual for name, source in COLUMNS.items()}, {}]
    rows += [{name: other} for name, source in COLUMNS.items() for other in source.others]
    columns = ", ".join(f"{name} {source.type}" for name, source in COLUMNS.items())
    table = f"CREATE TABLE types (id int PRIMARY KEY, {columns})"
    first = [inserted(2 * at + 1, row) for at, row in enumerate(rows)]
    second = [inserted(2 * at + 2, row) for at, row in enumerate(rows)]
    shown = ", ".join(f"{name}::text AS {name}" for name in COLUMNS)
    return {
        "settings": {**SETTINGS[name], "table.include.list": "public.types"},
        "before": [*PREPARED, table, *first],
        "snapshot": len(rows),
        "after": second,
        "rows": f"SELECT id::text AS id, {shown} FROM types ORDER BY types.id",
    }


def inserted(number: int, row: Mapping[str, str]) -> str:
    """A statement that puts a row in."""
    names = "".join(f", {name}" for name in row)
    values = "".join(", '" + value.replace("'", "''") + "'" for value in row.values())
    return f"INSERT INTO types (id{names}) VALUES ({number}{values})"


def changed() -> dict[str, Any]:
    """What is asked for the table of changes: all operations, values that an update leaves as they
    are, and changes of the table itself.
    """
    large = [f"repeat('{letter}', {LARGE})" for letter in "ab"]
    lists = (
        "ARRAY[{0}, 'x']",
        f"ARRAY(SELECT generate_series(1, {LARGE})::bigint)",
        f"ARRAY(SELECT md5(g::text)::uuid FROM generate_series(1, {LARGE // 10}) g)",
        "hstore('k', {0})",
    )
    columns = "doc text, raw bytea, tags text[], numbers bigint[], ids uuid[], pairs hstore"
    stored = [
        f"ALTER TABLE changes ALTER COLUMN {name} SET STORAGE EXTERNAL"
        for name in ("doc", "raw", "tags", "numbers", "ids", "pairs")
    ]
    row = [
        ", ".join([text, f"{text}::bytea", *(each.format(text) for each in lists)])
        for text in large
    ]
    return {
        "settings": {"hstore.handling.mode": "map", "table.include.list": "public.changes"},
        "before": [
            *PREPARED[:3],
            "DROP TABLE IF EXISTS changes",
            f"CREATE TABLE changes (id int PRIMARY KEY, n int NOT NULL DEFAULT 5, {columns})",
            *stored,
            f"INSERT INTO changes VALUES (1, 1, {row[0]})",
        ],
        "snapshot": 1,
        "after": [
            f"INSERT INTO changes VALUES (2, 2, {row[1]})",
            "UPDATE changes SET n = n + 10",
            f"UPDATE changes SET doc = {large[1]} WHERE id = 1",
            "UPDATE changes SET id = 3, doc = doc WHERE id = 2",
            "DELETE FROM changes WHERE id = 1",
            "SELECT pg_logical_emit_message(true, 'p', 'said')",
            "ALTER TABLE changes ADD COLUMN more text DEFAULT 'm'",
            "INSERT INTO changes (id, more) VALUES (4, 'x')",
            "ALTER TABLE changes ALTER COLUMN n TYPE bigint",
            "UPDATE changes SET n = 4000000000 WHERE id = 4",
            "ALTER TABLE changes DROP COLUMN tags",
            "INSERT INTO changes (id, n) VALUES (5, 50)",
            "ALTER TABLE changes ALTER COLUMN id TYPE bigint",
            "INSERT INTO changes (id) VALUES (5000000000)",
            "UPDATE changes SET more = NULL WHERE id = 5",
        ],
        "rows": "SELECT id::text, n::text, doc, more FROM changes ORDER BY changes.id",
    }


def truncated() -> dict[str, Any]:
    """What is asked for a table that is truncated, and then has one row."""
    return {
        "settings": {"table.include.list": "public.emptied"},
        "before": [
            "DROP TABLE IF EXISTS emptied",
            "CREATE TABLE emptied (id int PRIMARY KEY)",
            "INSERT INTO emptied VALUES (1), (2)",
        ],
        "snapshot": 2,
        "after": ["TRUNCATE emptied", "INSERT INTO emptied VALUES (3)"],
        "rows": "SELECT id::text FROM emptied",
    }


def written() -> dict[str, Any]:
    """Ask the connector again. Effects: builds the project, runs PostgreSQL and the connector."""
    asked = {name: typed(name) for name in SETTINGS} | {
        "changes": changed(),
        "truncation": truncated(),
    }
    of_mysql = {name: mysql_events.asked(name) for name in mysql_events.SETTINGS}
    with (
        tempfile.TemporaryDirectory() as place,
        postgres(Path(place) / "postgres", wal_level="logical") as port,
    ):
        answers = answered("Postgres", asked, str(port), DATABASE_USER)
    return answers | answered("MySql", of_mysql)


def answered(name: str, asked: Mapping[str, Any], *arguments: str) -> dict[str, Any]:
    """What a class of the project answers. Effects: builds the project, a process."""
    level = "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"
    command = [java(), *JVM_OPTIONS, level, "-cp", classpath_of(PROJECT), f"connect.{name}"]
    done = subprocess.run(
        [*command, *arguments],
        input="\n".join(map(json.dumps, asked.values())).encode(),
        stdout=subprocess.PIPE,
        check=True,
        timeout=400,
    )
    answers = map(json.loads, done.stdout.splitlines())
    return dict(zip(asked, answers, strict=True))


def kept() -> dict[str, Any]:
    """What is in the file."""
    made: dict[str, Any] = json.loads(lzma.decompress(FILE.read_bytes()))
    return made


def in_bytes(pair: list[str | None]) -> tuple[bytes | None, bytes | None]:
    """A key and a value that are kept in base64."""
    key, value = (None if part is None else base64.b64decode(part) for part in pair)
    return key, value


def put_schemas(run: Mapping[str, Any], place: Path) -> None:
    """Put the schemas of a run's Avro into a directory, by their ids. Effects: makes it."""
    place.mkdir(exist_ok=True)
    for number, schema in enumerate(run["schemas"], 1):
        (place / f"{number}.avsc").write_text(schema)


def main() -> None:
    """Write the file."""
    FILE.write_bytes(lzma.compress(json.dumps(written()).encode(), preset=9))


if __name__ == "__main__":
    main()
