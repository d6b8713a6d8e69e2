"""The tests of a topic's entry: what is accepted, and problems that say file:line:column."""

from __future__ import annotations

from pathlib import Path

import pytest

from logwright.config.policies import check_policies, load_policies
from logwright.config.topic_tests import EXPECTATIONS, PROFILE_COLUMNS, Expectation, ValueContract

ENTRY = "version: 1\ntopics:\n  - name: orders\n    tests:\n"


def problems(tmp_path: Path, *tests: str) -> list[str]:
    """What is said of these tests, from line 5 on, without the directory."""
    (tmp_path / "p.yml").write_text(ENTRY + "".join(f"      - {test}\n" for test in tests))
    reported = check_policies(tmp_path).problems
    return [str(problem).replace(f"{tmp_path}/", "") for problem in reported]


def loaded(tmp_path: Path, *tests: str) -> tuple[object, ...]:
    """The tests of an entry without problems."""
    assert [] == problems(tmp_path, *tests)
    (entry,) = load_policies(tmp_path).topics
    return entry.tests


def test_expectations_have_their_arguments_and_a_title(tmp_path: Path) -> None:
    """By the names of Great Expectations; the severity in any case."""
    between, in_set, pair = loaded(
        tmp_path,
        "expect_column_values_to_be_between: "
        "{column: tombstone_share, max_value: 0.2, strict_max: true, severity: warn}",
        "expect_column_values_to_be_in_set: {column: max_codec, value_set: [0, 4]}",
        "expect_column_pair_values_a_to_be_greater_than_b: "
        "{column_A: source_bytes, column_B: log_bytes, or_equal: true, severity: ERROR}",
    )
    assert isinstance(between, Expectation)
    assert isinstance(in_set, Expectation)
    assert isinstance(pair, Expectation)
    assert ["WARN", None, "ERROR"] == [between.severity, in_set.severity, pair.severity]
    assert between.arguments == {"column": "tombstone_share", "max_value": 0.2, "strict_max": True}
    assert in_set.title == "expect_column_values_to_be_in_set(column=max_codec, value_set=[0, 4])"
    assert ("source_bytes", "log_bytes") == pair.columns


def test_a_value_contract_has_columns(tmp_path: Path) -> None:
    """In their order, with what is asked of each."""
    (contract,) = loaded(
        tmp_path,
        "values: {format: json, severity: warn, max_records: 10, columns: "
        "{id: {type: long, nullable: false, min_value: 1}, a.b: {type: string, value_set: [x]}}}",
    )
    assert isinstance(contract, ValueContract)
    assert ("json", "WARN", 10) == (contract.format, contract.severity, contract.max_records)
    (first, identifier), (second, text) = contract.columns
    assert ("id", "a.b") == (first, second)
    assert (False, 1.0) == (identifier.nullable, identifier.min_value)
    assert (True, ("x",)) == (text.nullable, text.value_set)


@pytest.mark.parametrize(
    ("test", "problem"),
    [
        (
            "expect_column_values_to_be_betwen: {column: records}",
            (
                "p.yml:5:9: topics[orders].tests[0].expect_column_values_to_be_betwen: unknown "
                "test (got a mapping); did "
                "you mean 'expect_column_values_to_be_between'?"
            ),
        ),
        (
            "expect_column_values_to_be_between: {column: tombstone_sahre, max_value: 1}",
            (
                "p.yml:5:54: topics[orders].tests[0].expect_column_values_to_be_between.column: is "
                "not a column of the profile; did "
                "you mean 'tombstone_share'? (got 'tombstone_sahre')"
            ),
        ),
        (
            "expect_column_values_to_be_between: {column: records, max_valu: 1}",
            (
                "p.yml:5:63: topics[orders].tests[0].expect_column_values_to_be_between.max_valu: "
                "unknown key (got '1'); did you mean 'max_value'?"
            ),
        ),
        (
            "expect_column_values_to_be_between: {column: records}",
            (
                "p.yml:5:45: topics[orders].tests[0].expect_column_values_to_be_between: needs "
                "min_value or max_value"
            ),
        ),
        (
            "expect_column_values_to_be_between: {column: records, max_value: 1, severity: fatal}",
            (
                "p.yml:5:87: topics[orders].tests[0].expect_column_values_to_be_between.severity: "
                "must be 'WARN' or 'ERROR' (got 'fatal')"
            ),
        ),
        (
            "not a mapping",
            (
                "p.yml:5:9: topics[orders].tests[0]: must be a mapping of one test's name to its "
                "arguments (got 'not a mapping')"
            ),
        ),
        (
            "values: {format: json}",
            "p.yml:5:17: topics[orders].tests[0].values.columns: is required",
        ),
        (
            "values: {format: json, columns: {}}",
            "p.yml:5:41: topics[orders].tests[0].values.columns: needs at least one column",
        ),
        (
            "values: {format: long, columns: {id: {type: long}}}",
            (
                "p.yml:5:41: topics[orders].tests[0].values.columns: must have the one column "
                "'value': format is long"
            ),
        ),
        (
            "values: {format: json, columns: {id: {type: string, min_value: 1}}}",
            (
                "p.yml:5:72: topics[orders].tests[0].values.columns.id.min_value: is not for type "
                "string (got '1')"
            ),
        ),
        (
            "values: {format: json, columns: {id: {type: long, value_set: [one]}}}",
            (
                "p.yml:5:70: topics[orders].tests[0].values.columns.id.value_set: must be whole "
                "numbers (got ['one'])"
            ),
        ),
        (
            "values: {format: json, columns: {id: {type: string, regex: '['}}}",
            (
                "p.yml:5:68: topics[orders].tests[0].values.columns.id.regex: is not a "
                "regular expression of RE2, which are those that match in linear time (got '[')"
            ),
        ),
    ],
)
def test_a_problem_says_where_and_what_is_valid(tmp_path: Path, test: str, problem: str) -> None:
    """Position, path, rule, and the nearest valid name."""
    assert [problem] == problems(tmp_path, test)


def test_all_problems_of_all_tests_are_reported(tmp_path: Path) -> None:
    """A test that is there twice too."""
    same = "expect_column_values_to_be_in_set: {column: max_codec, value_set: [0]}"
    sentences = problems(tmp_path, same, "x: {}", same)
    assert 2 == len(sentences)
    assert sentences[0].startswith("p.yml:6:9: topics[orders].tests[1].x: unknown test")
    assert sentences[1] == (
        f"p.yml:7:9: topics[orders].tests[2]: is the same test as at {tmp_path}/p.yml:5:9"
    ).replace(f"{tmp_path}/", "")


def test_an_unknown_key_of_an_entry_may_be_meant_as_tests(tmp_path: Path) -> None:
    """The name is among those that are proposed."""
    (tmp_path / "p.yml").write_text("version: 1\ntopics:\n  - {name: a, test: []}\n")
    (problem,) = check_policies(tmp_path).problems
    assert "tests" == problem.nearest


def test_expectations_are_named_as_they_are_called() -> None:
    """The key under which a policy finds one is its kind."""
    assert {kind: model.kind for kind, model in EXPECTATIONS.items()} == {
        kind: kind for kind in EXPECTATIONS
    }
    assert all(PROFILE_COLUMNS.values())
