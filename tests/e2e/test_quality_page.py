"""The examples of docs/quality.md are policies that load and run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from logwright.config.policies import load_policies
from logwright.config.topic_tests import (
    EXPECTATIONS,
    PROFILE_COLUMNS,
    Expectation,
    ValueColumn,
    ValueContract,
)
from tests.e2e.harness import MARKS, POLICY, evaluations, failed_checks, make_platform

pytestmark = MARKS

PAGE = (Path(__file__).parents[2] / "docs/quality.md").read_text()
EXAMPLES = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
ENTRIES = [entry for text in EXAMPLES for entry in yaml.safe_load(text).get("topics", [])]


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_is_a_policy(number: int, tmp_path: Path) -> None:
    """Each can be copied as a file of its own."""
    (tmp_path / "policies.yml").write_text(EXAMPLES[number])
    assert load_policies(tmp_path)


@pytest.mark.rotates(4)
def test_the_examples_do_what_the_page_says(tmp_path: Path) -> None:
    """In one sweep, on topics that the entries are about: the expectations pass, and values that
    are not JSON break the contract.
    """
    topics = yaml.safe_dump({"topics": ENTRIES})
    logs = dict.fromkeys(("customers-0", "orders-0"), "basic-none")
    platform = make_platform(tmp_path, logs, POLICY + topics)
    expectations = [
        test
        for entry in load_policies(platform.policies).topics
        for test in entry.tests
        if isinstance(test, Expectation)
    ]
    assert {"WARN", None} == {test.severity for test in expectations}

    swept = platform.sweep(["orders-0"])
    other = platform.sweep(["customers-0"])

    assert swept.success
    assert set() == failed_checks(swept, "orders-0")
    profile: dict[str, Any] = dict(evaluations(swept, "orders-0")["log_profile"].metadata)
    for test in expectations:
        assert profile[test.title].value.startswith("passed: observed ")
    assert not other.success
    assert {"value_contract"} == failed_checks(other, "customers-0")
    values: dict[str, Any] = dict(evaluations(other, "customers-0")["value_contract"].metadata)
    assert "value is json" == values["broken rules"].value


def test_the_page_names_all_that_can_be_used() -> None:
    """Every column with its meaning, every test, every argument."""
    for column, meaning in PROFILE_COLUMNS.items():
        assert f"| `{column}` | {meaning} |\n" in PAGE
    for kind, model in EXPECTATIONS.items():
        line = re.search(rf"^\| `{kind}` \|.*$", PAGE, re.MULTILINE)
        assert line is not None
        for argument in model.model_fields.keys() - {"severity"}:
            assert f"`{argument}`" in line[0]
    for option in (*ValueColumn.model_fields, *ValueContract.model_fields):
        assert f"`{option}`" in PAGE
