"""Random topics as a Debezium connector writes them, with Kafka Connect's own JsonConverter and with
AvroData, are decoded and compared with what was put in.
``python -m tests.connect_events --count N --seed S``.

Each topic has a random table with any of the types, one or two schemas of it, settings of the
converter, and is in Debezium's envelope or not. A value is put in as text of the calendar;
Debezium's own classes make it a number. In Avro each of the schemas is a topic of its own.
"""

from __future__ import annotations

import argparse
import base64
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from logwright.config.decoding import DebeziumSpec, Decoding, JsonSpec, RegistrySpec
from logwright.config.json_fields import JsonField
from logwright.decode.make import make_decoder
from tests.connect_columns import Column, column, is_time
from tests.connect_values import Made
from tests.oracle_runner import JVM_OPTIONS, classpath_of, java
from tests.unit.decode.records import Result, batch, decode

PROJECT = Path(__file__).with_name("connect_json")
ROWS = 6
SHOWN = 20
WRONG = {"date", "timestamp", "boolean", "long", "int", "binary", "double"}
"""Types that a column is configured with although its schema says another."""

TEXT_KEYS = {"string", "Uuid"}
"""Types of keys with which a map is one in Avro, too."""

Schema = dict[str, Any]
Ask = Any


class Answer(NamedTuple):
    """What a converter wrote.

    Attributes:
        values: of each row.
        schemas: of Avro, in the order of their ids.
    """

    values: list[bytes]
    schemas: list[str]


@dataclass(slots=True)
class Figures:
    """What was compared.

    Attributes:
        topics: that were decoded.
        values: that were compared, by type.
        times: timestamps among them.
        refused: topics with a column that contradicts the schema, all of whose rows were refused.
        in_avro: values of Avro that were compared, by type.
        unwritten: schemas that AvroData cannot write: of two maps without texts as keys, of a default NaN.
        differences: descriptions, with the seed.
    """

    topics: int = 0
    values: Counter[str] = field(default_factory=Counter)
    times: int = 0
    refused: int = 0
    in_avro: Counter[str] = field(default_factory=Counter)
    unwritten: int = 0
    differences: list[str] = field(default_factory=list)


@contextmanager
def converter() -> Iterator[Ask]:
    """A process that serializes; the function asks it. Effects: builds the project, a process."""
    command = [java(), *JVM_OPTIONS, "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
    with subprocess.Popen(
        [*command, "-cp", classpath_of(PROJECT), "connect.Main"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        lines, answers = process.stdin, process.stdout

        def ask(request: dict[str, Any]) -> Answer:
            lines.write(json.dumps(request) + "\n")
            lines.flush()
            answer = answers.readline()
            assert answer, "the converter stopped"
            made = json.loads(answer)
            values = [base64.b64decode(value) for value in made["values"]]
            return Answer(values, made["schemas"])

        try:
            yield ask
        finally:
            lines.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic: its records and what they are to be decoded to.

    Attributes:
        columns: of the table, as decoded.
        records: what the converter wrote.
        rows: expected, by column.
        in_avro: of each schema what AvroData wrote, and the rows expected.
        is_event: in Debezium's envelope.
    """

    columns: list[Column]
    records: list[bytes]
    rows: list[dict[str, Any]]
    in_avro: list[tuple[Answer, list[Column], list[dict[str, Any]]]]
    is_event: bool


def write(ask: Ask, draw: Random) -> Topic:
    """A topic of one or two schemas of the same table."""
    columns = [column(draw, f"c{number}", depth=0) for number in range(draw.randint(1, 9))]
    versions = [columns]
    if draw.random() < 0.5:
        versions.append(later(draw, columns))
    is_event = draw.random() < 0.6
    settings = {
        "schemas.enable": True,
        "decimal.format": draw.choice(["BASE64", "NUMERIC"]),
        "replace.null.with.default": draw.random() < 0.5,
    }
    records: list[bytes] = []
    rows: list[dict[str, Any]] = []
    in_avro: list[tuple[Answer, list[Column], list[dict[str, Any]]]] = []
    for version in versions:
        made = [[one.value(draw) for one in version] for _ in range(ROWS)]
        request = {
            "type": {"type": "struct", "name": "shop.Value", "fields": [c.schema for c in version]},
            "rows": [[one.given for one in row] for row in made],
            "converter": settings,
            "event": is_event,
        }
        if is_event:
            request["type"]["optional"] = True
        records += ask(request).values
        rows += [expected(version, row, settings) for row in made]
        with_defaults = {"replace.null.with.default": True}
        avro_rows = [expected(version, row, with_defaults) for row in made]
        in_avro.append((ask(request | {"avro": True}), version, avro_rows))
    return Topic(columns=columns, records=records, rows=rows, in_avro=in_avro, is_event=is_event)


def later(draw: Random, columns: list[Column]) -> list[Column]:
    """Another schema of the table: in another order, with other units, without some columns."""
    kept = [one for one in columns if draw.random() < 0.8] or columns[:1]
    changed = [one.in_another_unit(draw) for one in kept]
    draw.shuffle(changed)
    return changed


def expected(columns: list[Column], row: list[Made], settings: dict[str, Any]) -> dict[str, Any]:
    """What a row is decoded to."""
    values = {}
    for described, made in zip(columns, row, strict=True):
        value = made.expected
        if (
            made.given is None
            and described.default is not None
            and settings["replace.null.with.default"]
        ):
            value = described.default.expected
        values[described.name] = value
    return values


def decoded(topic: Topic, fields: tuple[JsonField, ...] | None) -> Result:
    """What is made of a topic, with columns that are given or inferred."""
    inner = JsonSpec(fields=fields)
    decoding = Decoding(value=DebeziumSpec(of=inner) if topic.is_event else inner)
    records = batch((b"k", one) for one in topic.records)
    decoder = make_decoder(decoding, base=Path("/"), sample=[records])
    again = Decoding.model_validate_json(decoder.decoding.model_dump_json())
    return decode(make_decoder(again, base=Path("/")), records)


def compare(ask: Ask, seed: int, figures: Figures) -> None:
    """One topic: inferred, configured, as texts, and with a column that contradicts."""
    draw = Random(seed)
    topic = write(ask, draw)
    figures.topics += 1
    configured = tuple(one.field for one in topic.columns)
    for how, fields in (("inferred", None), ("configured", configured)):
        result = decoded(topic, fields)
        if result.refused:
            figures.differences.append(f"seed {seed} {how}: refused {result.refused[:3]}")
            continue
        for number, (row, want) in enumerate(zip(result.rows, topic.rows, strict=True)):
            for described in topic.columns:
                got, value = row[described.name], want.get(described.name)
                figures.values[described.kind] += 1
                figures.times += value is not None and is_time(described)
                if not same(got, value):
                    figures.differences.append(
                        f"seed {seed} {how} row {number} {described.schema}: {got!r}, not {value!r}"
                    )
    contradict(topic, draw, seed, figures)
    for answer, columns, rows in topic.in_avro:
        compare_avro(answer, columns, rows, is_event=topic.is_event, seed=seed, figures=figures)


def compare_avro(  # noqa: PLR0913 - what is compared, and where that is noted
    answer: Answer,
    columns: list[Column],
    rows: list[dict[str, Any]],
    *,
    is_event: bool,
    seed: int,
    figures: Figures,
) -> None:
    """One schema's records in Avro, if they can be written."""
    if not answer.schemas:
        figures.unwritten += 1
        return
    with TemporaryDirectory() as place:
        for number, schema in enumerate(answer.schemas, 1):
            (Path(place) / f"{number}.avsc").write_text(schema)
        inner = RegistrySpec(schemas=place)
        decoding = Decoding(value=DebeziumSpec(of=inner) if is_event else inner)
        records = batch((b"k", value) for value in answer.values)
        result = decode(make_decoder(decoding, base=Path("/"), sample=[records]), records)
    if result.refused:
        figures.differences.append(f"seed {seed} Avro: refused {result.refused[:3]}")
        return
    for number, (row, want) in enumerate(zip(result.rows, rows, strict=True)):
        for described in columns:
            got, value = row[described.name], want.get(described.name)
            figures.in_avro[described.kind] += 1
            if not same(ordered(got), ordered(in_avro(described.schema, value))):
                figures.differences.append(
                    f"seed {seed} Avro row {number} {described.schema}: {got!r}, not {value!r}"
                )


def in_avro(schema: Schema, value: Any) -> Any:
    """A value of a column as Avro has it: a map with keys other than texts is a list of records."""
    if value is None:
        return None
    match schema["type"]:
        case "array":
            return [in_avro(schema["items"], each) for each in value]
        case "struct":
            return {each["name"]: in_avro(each, value[each["name"]]) for each in schema["fields"]}
        case "map":
            pairs = [(key, in_avro(schema["values"], each)) for key, each in value]
            if schema["keys"]["type"] in TEXT_KEYS:
                return pairs
            return [{"key": key, "value": each} for key, each in pairs]
    return value


def ordered(value: Any) -> Any:
    """A value with its maps in the order of keys: AvroData has another one than was put in."""
    if isinstance(value, dict):
        return {name: ordered(each) for name, each in value.items()}
    if not isinstance(value, list):
        return value
    pairs = [isinstance(each, tuple) for each in value]
    if not any(pairs):
        return [ordered(each) for each in value]
    return sorted(((key, ordered(each)) for key, each in value), key=lambda pair: str(pair[0]))


def same(got: object, want: object) -> bool:
    """Equal, of the same type; not-a-number is equal to itself."""
    if isinstance(want, list | tuple) and isinstance(got, list | tuple):
        return len(got) == len(want) and all(map(same, got, want))
    if isinstance(want, dict) and isinstance(got, dict):
        return got.keys() == want.keys() and all(same(got[name], want[name]) for name in want)
    return (type(got) is type(want) and got == want) or repr(got) == repr(want) == "nan"


def contradict(topic: Topic, draw: Random, seed: int, figures: Figures) -> None:
    """A column configured with another type than its schema says is refused, with both named."""
    chosen = draw.choice(topic.columns)
    wrong = sorted(WRONG - chosen.may_be)
    kind = draw.choice(wrong)
    field = JsonField(name=chosen.name, type=kind)
    result = decoded(topic, tuple(field if c is chosen else c.field for c in topic.columns))
    where = f"field {'after.' if topic.is_event else ''}{chosen.name}"
    for number, want in enumerate(topic.rows):
        if chosen.name not in want:
            continue
        reasons = [reason for row, _, reason in result.refused if row == number]
        if not reasons or not reasons[0].startswith(f"{where} is ") or kind not in reasons[0]:
            figures.differences.append(f"seed {seed}: {chosen.schema} as {kind}: {reasons}")
            return
    figures.refused += 1


def run(count: int, seed: int) -> Figures:
    """Compare a number of topics."""
    figures = Figures()
    with converter() as ask:
        for number in range(count):
            compare(ask, seed + number, figures)
    return figures


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    figures = run(given.count, given.seed)
    summary = (
        f"{figures.topics} topics, {figures.values.total()} values of {len(figures.values)} types,"
        f" {figures.in_avro.total()} of them in Avro, {figures.times} timestamps, {figures.refused} contradictions refused,"
        f" {len(figures.differences)} differences"
    )
    sys.stdout.write("\n".join([*figures.differences[:SHOWN], summary, ""]))
    sys.exit(bool(figures.differences))


if __name__ == "__main__":
    main()
