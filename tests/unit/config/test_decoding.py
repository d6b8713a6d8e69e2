"""Specs of decoders: what is accepted, and problems that name file, line and column."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from logwright.config.decoding import (
    AvroSpec,
    DebeziumSpec,
    Decoding,
    InternalSpec,
    JsonSpec,
    ProtobufSpec,
    RegistrySpec,
    ScalarSpec,
    decoding_of,
    read_decoding,
    spec_of,
)
from logwright.config.json_fields import JsonField
from logwright.config.marked import read_marked
from logwright.config.policy_checks import Checker
from logwright.config.spec import Spec, resolve
from logwright.errors import PolicyError


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A directory of policies with schemas."""
    (tmp_path / "schemas").mkdir()
    for name in ("v.avsc", "v.proto"):
        (tmp_path / "schemas" / name).write_text("")
    return tmp_path


def read(base: Path, text: str) -> tuple[Decoding | None, list[str]]:
    """The decoding of a file's key and value, and the problems without the directory."""
    path = base / "p.yml"
    path.write_text(text)
    document, problems = read_marked(path)
    checker = Checker()
    decoding = read_decoding(checker, document)
    sentences = [str(one).replace(f"{base}/", "") for one in [*problems, *checker.problems]]
    return decoding, sentences


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{}", Decoding()),
        ("key: string", Decoding(key=ScalarSpec(format="string"))),
        ("value: json", Decoding(value=JsonSpec())),
        (
            "{key: uuid, value: {format: long}}",
            Decoding(key=ScalarSpec(format="uuid"), value=ScalarSpec(format="long")),
        ),
        (
            "value: {format: avro, schema_file: schemas/v.avsc}",
            Decoding(value=AvroSpec(schema_file="schemas/v.avsc")),
        ),
        (
            "value: {format: protobuf, schema_file: schemas/v.proto, message: a.b.C}",
            Decoding(value=ProtobufSpec(schema_file="schemas/v.proto", message="a.b.C")),
        ),
        (
            "value: {format: registry, schemas: schemas, schema_id: 7, message: M}",
            Decoding(value=RegistrySpec(schemas="schemas", schema_id=7, message="M")),
        ),
        (
            "value: {format: registry, url: 'https://registry:8081/api/'}",
            Decoding(value=RegistrySpec(url="https://registry:8081/api")),
        ),
        ("value: debezium", Decoding(value=DebeziumSpec())),
        (
            "value: {format: debezium, of: {format: registry, schemas: schemas}}",
            Decoding(value=DebeziumSpec(of=RegistrySpec(schemas="schemas"))),
        ),
        (
            "{key: kafka-internal, value: kafka-internal}",
            Decoding(key=InternalSpec(), value=InternalSpec()),
        ),
    ],
)
def test_specs(text: str, expected: Decoding, base: Path) -> None:
    """A word, or a mapping with options; it survives as JSON."""
    assert (expected, []) == read(base, text)
    assert expected == Decoding.model_validate_json(expected.model_dump_json())


def test_fields_of_json(base: Path) -> None:
    """Types, objects by mappings and dots, lists, fields that must be there."""
    schema = "{id: LONG  not null, a.b: 'decimal(5, 2)', a: {c: date}, l: [[string]], e: {f: json}}"
    decoding, sentences = read(base, f"value: {{format: json, schema: {schema}}}")
    inner = JsonField(name="element", type="string")
    middle = JsonField(name="element", type="array", fields=(inner,))
    assert [] == sentences
    assert decoding is not None
    assert decoding.value == JsonSpec(
        fields=(
            JsonField(name="id", type="long", nullable=False),
            JsonField(
                name="a",
                type="struct",
                fields=(
                    JsonField(name="b", type="decimal(5,2)"),
                    JsonField(name="c", type="date"),
                ),
            ),
            JsonField(name="l", type="array", fields=(middle,)),
            JsonField(name="e", type="struct", fields=(JsonField(name="f", type="json"),)),
        )
    )


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("key: strin", ["p.yml:1:6: key: must be one of avro, binary, "]),
        ("value: [json]", ["p.yml:1:8: value: must be a mapping (got ['json'])"]),
        ("value: {schema: {a: int}}", ["p.yml:1:8: value.format: is required"]),
        (
            "value: {format: json, schem: {a: int}}",
            [
                "p.yml:1:23: value.schem: unknown key (got a mapping)",
            ],
        ),
        (
            "value: {format: json, schema: {a: lng}}",
            ["p.yml:1:35: value.schema.a: must be a type; did you mean 'long'? (got 'lng')"],
        ),
        (
            "value: {format: json, schema: {a: 'decimal(39,2)'}}",
            ["p.yml:1:35: value.schema.a: must be a type"],
        ),
        ("value: {format: json, schema: {}}", ["p.yml:1:31: value.schema: needs at least one"]),
        (
            "value: {format: json, schema: {a: {}}}",
            ["p.yml:1:35: value.schema.a: needs at least one field"],
        ),
        ("value: {format: json, schema: x}", ["p.yml:1:31: value.schema: must be a mapping"]),
        (
            "value: {format: json, schema: {a: [], b: [int, int]}}",
            [
                "p.yml:1:35: value.schema.a: must have the one type of its items",
                "p.yml:1:42: value.schema.b: must have the one type of its items",
            ],
        ),
        (
            "value: {format: json, schema: {a: int, a.b: int, c..d: int}}",
            [
                "p.yml:1:45: value.schema.a.b: is already defined with another type",
                "p.yml:1:56: value.schema.c..d: needs a name between the dots",
            ],
        ),
        (
            f"value: {{format: json, schema: {{{'a.' * 30}b: int}}}}",
            ["p.yml:1:31: value.schema: must be at most 2000 fields, 20 deep"],
        ),
        ("value: avro", ["p.yml:1:8: value.schema_file: is required"]),
        (
            "value: {format: avro, schema_file: no.avsc}",
            ["p.yml:1:36: value.schema_file: is not a file (got 'no.avsc')"],
        ),
        (
            "value: {format: avro, schema_file: schemas}",
            ["p.yml:1:36: value.schema_file: is not a file (got 'schemas')"],
        ),
        (
            "value: {format: avro, schema_file: ../v.avsc}",
            ["p.yml:1:36: value.schema_file: must stay inside the directory of the policies"],
        ),
        (
            "value: {format: avro, schema_file: /no/v.avsc}",
            ["p.yml:1:36: value.schema_file: is not a file (got '/no/v.avsc')"],
        ),
        (
            "value: {format: protobuf, schema_file: schemas/v.proto, message: 'a b'}",
            ["p.yml:1:66: value.message: not the name of a message (got 'a b')"],
        ),
        ("value: registry", ["p.yml:1:8: value: exactly one of schemas and url is required"]),
        (
            "value: {format: registry, schemas: schemas, url: 'http://h'}",
            ["p.yml:1:50: value.url: exactly one of schemas and url is required"],
        ),
        (
            "value: {format: registry, schemas: schemas/v.avsc}",
            ["p.yml:1:36: value.schemas: is not a directory"],
        ),
        (
            "value: {format: registry, url: 'ftp://h'}",
            ["p.yml:1:32: value.url: must be an http:// or https:// address (got a value)"],
        ),
        (
            "value: {format: registry, url: 'http://me:hunter2@h'}",
            ["p.yml:1:32: value.url: must have neither a password, which belongs in ~/.netrc"],
        ),
        (
            "value: {format: registry, url: 'http://h?token=hunter2'}",
            ["p.yml:1:32: value.url: must have neither a password"],
        ),
        (
            "value: {format: debezium, of: string}",
            ["p.yml:1:31: value.of: must be one of avro, json, registry (got 'string')"],
        ),
        (
            "value: {format: debezium, of: {format: json, schema: {a: x}}}",
            ["p.yml:1:58: value.of.schema.a: must be a type"],
        ),
        ("key: debezium", ["p.yml:1:6: key: the format debezium is for values"]),
        (
            "{key: kafka-internal, value: json}",
            ["p.yml:1:7: key: the format kafka-internal is for key and value together"],
        ),
    ],
)
def test_problems(text: str, problems: list[str], base: Path) -> None:
    """All of them at once, each at its place; an address is not shown."""
    decoding, sentences = read(base, text)
    assert decoding is None
    assert len(problems) == len(sentences), sentences
    for expected, sentence in zip(problems, sentences, strict=True):
        assert sentence.startswith(expected)
        assert "hunter2" not in sentence


def test_paths(base: Path) -> None:
    """Relative to the policies and inside their directory, also after links; or absolute."""
    inside, outside = base / "policies", base / "other"
    inside.mkdir()
    outside.mkdir()
    (inside / "link").symlink_to(outside)
    (inside / "own").symlink_to(inside)
    assert inside / "v.avsc" == resolve(inside, "v.avsc") == resolve(inside, "own/v.avsc")
    assert outside / "v.avsc" == resolve(inside, str(outside / "v.avsc"))
    with pytest.raises(ValueError, match="must stay inside"):
        resolve(inside, "link/v.avsc")


def test_models_check_themselves() -> None:
    """Specs made without a file keep the same rules."""
    for make in (
        lambda: Decoding(key=DebeziumSpec()),
        lambda: Decoding(value=InternalSpec()),
        RegistrySpec,
        lambda: RegistrySpec(schemas="a", url="http://h"),
        lambda: AvroSpec(schema_file="../x"),
        lambda: AvroSpec(schema_file="a\0b"),
        lambda: RegistrySpec(url="http://[x"),
    ):
        with pytest.raises(ValidationError):
            make()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("string", Decoding(key=ScalarSpec(format="string"), value=ScalarSpec(format="string"))),
        (
            "{format: string}",
            Decoding(key=ScalarSpec(format="string"), value=ScalarSpec(format="string")),
        ),
        ("json", Decoding(value=JsonSpec())),
        ("long", Decoding(value=ScalarSpec(format="long"))),
        ("{format: json, schema: {a: int}}", None),
        ("{key: long, value: json}", Decoding(key=ScalarSpec(format="long"), value=JsonSpec())),
        ("kafka-internal", Decoding(key=InternalSpec(), value=InternalSpec())),
    ],
)
def test_of_the_command_line(text: str, expected: Decoding | None, base: Path) -> None:
    """A value's spec, or a mapping of key and value; text is of both."""
    decoding = decoding_of(text, base)
    if expected is None:
        expected = Decoding(value=JsonSpec(fields=(JsonField(name="a", type="int"),)))
    assert expected == decoding


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", r"must be one of avro, .*\(got nothing\)"),
        ("{", "'{' is not closed"),
        ("/var/lib/kafka", "must be one of avro"),
        ("{key: string, valu: json}", "valu: unknown key .*did you mean 'value'"),
        ("{value: avro}", r"value\.schema_file: is required"),
    ],
)
def test_invalid_on_the_command_line(text: str, problem: str, base: Path) -> None:
    """The error names the option."""
    with pytest.raises(PolicyError, match=f"--decode is invalid: .*{problem}"):
        decoding_of(text, base)


def test_of_a_part(base: Path) -> None:
    """Keys or values alone have the same specs; paths are absolute."""
    (base / "v.avsc").write_text('"string"')
    (base / "ids").mkdir()
    expected: dict[str, Spec] = {
        "string": ScalarSpec(format="string"),
        "{format: json, schema: {a: int}}": JsonSpec(fields=(JsonField(name="a", type="int"),)),
        "{format: avro, schema_file: v.avsc}": AvroSpec(schema_file=str(base / "v.avsc")),
        "{format: debezium, of: {format: registry, schemas: ids}}": DebeziumSpec(
            of=RegistrySpec(schemas=str(base / "ids"))
        ),
    }
    assert expected == {text: spec_of(text, base, option="--value") for text in expected}
    with pytest.raises(PolicyError, match=r"--key is invalid: schema_file: is required"):
        spec_of("avro", base, option="--key")


def test_of_a_file(base: Path) -> None:
    """Its lines are the SPEC, and its paths are relative to it."""
    folder = base / "specs"
    folder.mkdir()
    (folder / "v.avsc").write_text('"string"')
    (folder / "value.yml").write_text("# of orders\nformat: avro\nschema_file: v.avsc\n")
    (folder / "both.yml").write_text("key: string\nvalue:\n  format: json\n  schema: {a: int}\n")
    value = AvroSpec(schema_file=str(folder / "v.avsc"))
    assert value == spec_of("@specs/value.yml", base, option="--value")
    assert Decoding(value=value) == decoding_of(f"@{folder}/value.yml", base)
    assert Decoding(
        key=ScalarSpec(format="string"),
        value=JsonSpec(fields=(JsonField(name="a", type="int"),)),
    ) == decoding_of("@specs/both.yml", base)
    for text in ("@specs", "@specs/absent.yml"):
        with pytest.raises(PolicyError, match="--value: the file cannot be read"):
            spec_of(text, base, option="--value")
