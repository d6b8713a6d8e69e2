"""A format is one file and one registration: policies, ``--decode`` and tables have it by that."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import ValidationError

from logwright.config.decoding import Decoding, decoding_of, spec_of
from logwright.config.policies import check_policies
from logwright.config.spec import FORMATS
from logwright.config.table import tables_of
from logwright.decode.make import make_decoder
from tests.planted_format import ReversedSpec, planted
from tests.unit.decode.records import columns, decode, values

POLICIES = """
version: 1
topics:
  - name: t
    table: {{format: parquet, path: /t, {part}: {{format: reversed, most: {most}}}}}
"""


@pytest.fixture
def registered() -> Iterator[type[ReversedSpec]]:
    """The new format."""
    with planted() as spec:
        yield spec


def checked(directory: Path, part: str, most: str = "5") -> tuple[Decoding | None, list[str]]:
    """The decoding of the topic in policies, and their problems."""
    path = directory / "p.yml"
    path.write_text(POLICIES.format(part=part, most=most))
    checker = check_policies(directory)
    problems = [str(problem).removeprefix(f"{path}:5:") for problem in checker.problems]
    if checker.policies is None:
        return None, problems
    return tables_of(checker.policies)["t"].decoding, problems


def test_policies_and_decoder(registered: type[ReversedSpec], tmp_path: Path) -> None:
    """The policies read its options, and the decoder is made from them, also from stored JSON."""
    decoding, problems = checked(tmp_path, "value")
    assert [] == problems
    assert Decoding(value=registered(most=5)) == decoding
    again = Decoding.model_validate_json(decoding.model_dump_json())
    assert decoding == again
    result = decode(make_decoder(again, base=tmp_path), values(b"abc", b"abcdef"))
    assert ["cba"] == columns(result)
    assert [(1, "value", "is too long")] == result.refused


@pytest.mark.usefixtures("registered")
def test_problems_have_their_place(tmp_path: Path) -> None:
    """Its own rules are checked, and which part of a record it is for."""
    _, problems = checked(tmp_path, "value", "many")
    assert ["72: topics[t].table.value.most: must be a valid integer"] == [
        problem.partition(",")[0] for problem in problems
    ]
    assert (None, ["45: topics[t].table.key: the format reversed is for values"]) == checked(
        tmp_path, "key"
    )


def test_command_line(registered: type[ReversedSpec], tmp_path: Path) -> None:
    """``--decode`` takes it, and ``logwright latest``."""
    assert Decoding(value=registered(most=2)) == decoding_of(
        "{format: reversed, most: 2}", tmp_path
    )
    assert registered(most=2) == spec_of("{format: reversed, most: 2}", tmp_path, option="--value")


def test_it_is_not_there_by_itself(tmp_path: Path) -> None:
    """Without its registration it is refused everywhere."""
    _, (problem,) = checked(tmp_path, "value")
    assert "must be one of avro" in problem
    with pytest.raises(ValidationError, match="must have a format: one of avro"):
        Decoding.model_validate_json('{"value": {"format": "reversed"}}')


@pytest.mark.parametrize("form", sorted(FORMATS))
def test_every_format_can_be_made(form: str) -> None:
    """The module of each spec makes its decoder."""
    assert callable(importlib.import_module(FORMATS[form].made_by).make)
