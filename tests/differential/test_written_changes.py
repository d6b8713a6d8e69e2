"""The file of events that Debezium's connectors wrote is made by them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.change_events import kept, written
from tests.unit.decode.records import Result
from tests.unit.decode.test_change_events import FORMS, decoded

pytestmark = pytest.mark.oracle


def test_what_is_kept_is_what_the_connectors_write(tmp_path: Path) -> None:
    """They write the same rows again, at other times."""
    made, again = kept(), written()
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
