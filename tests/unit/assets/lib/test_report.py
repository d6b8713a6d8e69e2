"""What pages show of a partition, and of the checks of a run."""

from __future__ import annotations

import pytest

from logwright.assets.lib.evaluations import evaluations_of
from logwright.assets.lib.partitions import SEGMENT_SET
from logwright.assets.lib.report import table, unplotted
from logwright.assets.lib.verdict import (
    CHECKS,
    NEXT_STEPS,
    PURGE_CHECKS,
    RETENTION_CHECKS,
    VALUE_CONTRACT,
    Verdict,
)
from logwright.checks.model import CRC_VALID
from tests.shown import values


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("bytes before", 1_234_567, "1.2 MiB (1,234,567 B)"),
        ("bytes freed", 90, "90 B"),
        ("records after", 38_200, "38,200"),
        ("log end offset", 40_000, "40000"),
        ("map seconds", 0.125, "0.125 s"),
        ("retention size in percent", 85, "85 %"),
        ("reduction", 0.7205, "72.05%"),
        ("max-compaction-delay", 109_061_917, "1 d 6 h"),
        ("dirty ratio", 0.5, "0.5"),
        ("unmaintained", True, True),
        ("outcome", "cleaned", "cleaned"),
    ],
)
def test_a_number_of_a_partition_is_text_with_its_unit(
    name: str, value: object, text: object
) -> None:
    """Dagster would join it with another log's by a line."""
    assert {name: text} == unplotted({name: value})


def test_a_table_is_shown_in_place() -> None:
    """Dagster shows a table where it stands, and Markdown after a click; also one without rows."""
    shown = table(("log", "records"), [("a|b", 3)])
    assert [{"log": "a|b", "records": 3}] == [row.data for row in shown.records]
    assert ["log", "records"] == [
        column.name for column in table(("log", "records"), []).schema.columns
    ]


def test_failed_logs_come_first_with_the_next_step() -> None:
    """In the description and the metadata of each evaluation that failed."""
    wrong = Verdict(check=CRC_VALID, violations=2, first_offset=7)
    judged = {
        "good-0": (Verdict(check=CRC_VALID),),
        "bad-0": (wrong,),
        "good-1": (Verdict(check=CRC_VALID),),
    }
    alone, together = evaluations_of(SEGMENT_SET, CHECKS, judged)
    step = NEXT_STEPS[CRC_VALID]
    assert ("bad-0", f"{wrong.sentence}. {step}") == (alone.partition, alone.description)
    assert f"1 of 3 logs failed: bad-0. {step}" == together.description
    for evaluation in (alone, together):
        assert "next step" == next(iter(evaluation.metadata))
        assert step == evaluation.metadata["next step"].value
    lines = values(together.metadata)["logs"].splitlines()
    assert [f"| bad-0 | {wrong.sentence} |", "| good-0 | passed |", "| good-1 | passed |"] == lines


def test_what_passed_has_no_next_step() -> None:
    """There is nothing to do."""
    (evaluation,) = evaluations_of(SEGMENT_SET, CHECKS, {"a-0": (Verdict(check=VALUE_CONTRACT),)})
    assert "next step" not in evaluation.metadata
    assert CHECKS[VALUE_CONTRACT] == evaluation.description


def test_every_check_has_a_next_step() -> None:
    """Of a cleaning, a retention and a purge."""
    assert CHECKS.keys() | RETENTION_CHECKS.keys() | PURGE_CHECKS.keys() == NEXT_STEPS.keys()
