"""The evaluations of the checks: one for each that was made, and none for one that was not."""

from __future__ import annotations

from pathlib import Path

import pytest

from logwright.assets.lib.evaluations import NOTHING_STAGED
from logwright.assets.lib.verdict import CHECKS, VALUE_CONTRACT
from logwright.assets.segments.judgement import Judgement
from logwright.assets.segments.quality import check_evaluations, examine_and_judge
from logwright.config.policies import Policies, load_policies
from logwright.sweep.build import build
from logwright.sweep.executor import LocalExecutor
from logwright.sweep.model import LogWork, SweepState
from logwright.units import TimestampMs
from tests.log_builder import START_MS, LogBuilder
from tests.plans import forced_plan
from tests.shown import values

pytestmark = pytest.mark.filterwarnings("ignore:::great_expectations.*")

CONTRACT = """\
version: 1
topics:
  - name: asked
    tests:
      - values: {format: string, max_records: 1, columns: {value: {type: string, regex: '[0-9]*'}}}
"""


def judged(
    tmp_path: Path, topics: list[str], policies: Policies, *, value: str | None = "2"
) -> tuple[SweepState, Judgement]:
    """Logs with these topics, cleaned to the point of the swap; nothing is staged for `idle`."""
    works = []
    for topic in topics:
        log = LogBuilder(tmp_path / "logs", f"{topic}-0")
        log.segment(0).batch(0, [("a", "1"), ("b", value)])
        log.segment(2).batch(2, [("a", value)])
        log.segment(3)
        log.write()
        plan = forced_plan(log.log_dir, log.partition, {"cleanup.policy": "compact"})
        staged = None if topic == "idle" else build(plan)
        works.append(
            LogWork(
                key=topic, log_dir=log.log_dir, partition=log.partition, plan=plan, staged=staged
            )
        )
    state = SweepState(works=tuple(works), now_ms=TimestampMs(START_MS))
    return examine_and_judge(state, policies, LocalExecutor(), storage=tmp_path, run_name="r")


def said(state: SweepState, judgement: Judgement) -> dict[str, tuple[str | None, bool, str | None]]:
    """Check → (partition, passed, description)."""
    return {
        evaluation.check_name: (evaluation.partition, evaluation.passed, evaluation.description)
        for evaluation in check_evaluations(state, judgement)
    }


def test_where_nothing_was_staged_no_check_has_passed(tmp_path: Path) -> None:
    """One log or several: there is no evaluation, whatever the last run's said."""
    for topics in (["idle"], []):
        assert {} == said(*judged(tmp_path / str(len(topics)), topics, Policies()))


def test_a_log_without_a_contract_has_not_passed_one(tmp_path: Path) -> None:
    """The other checks have."""
    by_check = said(*judged(tmp_path, ["free"], Policies()))
    assert CHECKS.keys() - {VALUE_CONTRACT} == by_check.keys()
    assert {("free", True)} == {one[:2] for one in by_check.values()}


def test_a_contract_that_found_no_value_has_not_passed(tmp_path: Path) -> None:
    """All that survives are tombstones."""
    (tmp_path / "p.yml").write_text(CONTRACT)
    by_check = said(*judged(tmp_path, ["asked"], load_policies(tmp_path), value=None))
    assert VALUE_CONTRACT not in by_check


def test_several_logs_share_the_evaluation_of_those_that_were_checked(tmp_path: Path) -> None:
    """It counts only them, and names those without output."""
    (tmp_path / "p.yml").write_text(CONTRACT)
    state, judgement = judged(tmp_path, ["asked", "free", "idle"], load_policies(tmp_path))
    by_check = said(state, judgement)
    assert (None, True, "The log that was checked passed.") == by_check.pop(VALUE_CONTRACT)
    assert {(None, True, "All 2 logs that were checked passed; 1 had no output.")} == set(
        by_check.values()
    )
    for evaluation in check_evaluations(state, judgement):
        assert f"| idle | {NOTHING_STAGED} |" in values(evaluation.metadata)["logs"]


def test_a_sample_has_a_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However small it is to be: an output with values is not swapped unread."""
    monkeypatch.setattr("logwright.assets.segments.values._HASHES", 0)
    (tmp_path / "p.yml").write_text(CONTRACT)
    state, judgement = judged(tmp_path, ["asked"], load_policies(tmp_path), value="two")
    (verdict,) = [one for one in judgement.verdicts["asked"] if one.check == VALUE_CONTRACT]
    assert (1, ("value: regex",)) == (verdict.violations, verdict.broken)
    assert {"records checked": 1, "records with a value": 2} == {
        name: value for name, value in verdict.details.items() if name.startswith("records")
    }
    assert {"asked"} == judgement.applied_to(state).failures.keys()
