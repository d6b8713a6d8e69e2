"""The asset checks of retention and purge: they pass after a right run, and find planted faults."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster import AssetCheckEvaluation

import logwright.purge.plan as purge_plan
import logwright.retention.plan as retention_plan
from logwright.assets.lib.partitions import LOGS_NAME, PURGE_ASSET, RETENTION_ASSET
from logwright.assets.lib.verdict import PURGE_CHECKS, RETENTION_CHECKS
from logwright.checks.due import FILES_LEFT, FILES_PURGED, SEGMENTS_DELETED, SEGMENTS_LEFT
from logwright.pipelines.definitions import defs
from logwright.pipelines.retention.purge import purge, purge_asset
from logwright.pipelines.retention.retain import retention_asset
from logwright.times import duration
from tests.e2e.harness import MARKS, Platform, make_platform
from tests.e2e.test_retention import LOGS, POLICY, run
from tests.fixtures import description

pytestmark = [pytest.mark.e2e, *(mark for mark in MARKS if mark.name == "filterwarnings")]

DELAY_MS = 30_000
"""log.segment.delete.delay.ms of the policy."""


@pytest.fixture
def platform(tmp_path: Path) -> Platform:
    """Two logs with segments past their retention, and one with none."""
    return make_platform(tmp_path, LOGS, POLICY).at(description("delete-time")["now"])


def evaluations(
    done: dg.ExecuteInProcessResult, asset: dg.AssetKey
) -> dict[tuple[str, str | None], AssetCheckEvaluation]:
    """The evaluations of the asset's checks, by name and partition."""
    events = [
        event.asset_check_evaluation_data
        for event in done.all_events
        if event.event_type is dg.DagsterEventType.ASSET_CHECK_EVALUATION
    ]
    return {(one.check_name, one.partition): one for one in events if one.asset_key == asset}


def passed(done: dg.ExecuteInProcessResult, asset: dg.AssetKey) -> dict[Any, bool]:
    """Whether each passed."""
    return {key: one.passed for key, one in evaluations(done, asset).items()}


def retire(platform: Platform, *, asset: bool = False) -> dg.ExecuteInProcessResult:
    """Run the retention of all logs, as job or as asset."""
    if not asset:
        return run(platform)
    keys = list(platform.instance.get_dynamic_partitions(LOGS_NAME))
    return platform.materialize(keys, retention_asset)


def test_the_checks_are_in_the_catalogue() -> None:
    """With what each means."""
    graph = defs.resolve_asset_graph()
    for asset, checks in ((RETENTION_ASSET, RETENTION_CHECKS), (PURGE_ASSET, PURGE_CHECKS)):
        specs = {
            key.name: graph.get_check_spec(key).description
            for key in graph.get_check_keys_for_assets({asset})
        }
        assert checks == specs


@pytest.mark.rotates(2)
@pytest.mark.parametrize("asset", [False, True], ids=["job", "asset"])
def test_a_right_retention_and_purge_pass(platform: Platform, *, asset: bool) -> None:
    """With the number of segments and files that were looked at; nothing looked at has no
    result.
    """
    done = retire(platform, asset=asset)
    assert done.success
    assert {(SEGMENTS_DELETED, None): True, (SEGMENTS_LEFT, None): True} == passed(
        done, RETENTION_ASSET
    )
    deleted = evaluations(done, RETENTION_ASSET)[SEGMENTS_DELETED, None]
    gone = len(list(platform.log_dir.rglob("*.log.deleted")))
    assert (2, gone) == tuple(
        deleted.metadata[name].value for name in ("logs checked", "looked at")
    )
    left = evaluations(done, RETENTION_ASSET)[SEGMENTS_LEFT, None]
    assert len(list(platform.log_dir.rglob("*.log"))) == left.metadata["looked at"].value
    again = retire(platform, asset=asset)
    assert {(SEGMENTS_LEFT, None): True} == passed(again, RETENTION_ASSET)
    waiting = run(platform, purge)
    assert {(FILES_LEFT, None): True} == passed(waiting, PURGE_ASSET)
    later = platform.at(platform.now_ms + DELAY_MS)
    files = len(list(platform.log_dir.rglob("*.deleted")))
    if asset:
        purged = later.materialize(["size-0"], purge_asset)
        assert {(FILES_PURGED, "size-0"): True} == passed(purged, PURGE_ASSET)
        assert not list(platform.partition("size-0").glob("*.deleted"))
    else:
        purged = run(later, purge)
        assert {(FILES_PURGED, None): True} == passed(purged, PURGE_ASSET)
        looked_at = evaluations(purged, PURGE_ASSET)[FILES_PURGED, None].metadata["looked at"]
        assert files == looked_at.value
    assert purged.success


Change = Callable[[int], int]


def plant(monkeypatch: pytest.MonkeyPatch, rule: str, number: int, change: Change) -> None:
    """One of the plan's rules takes another limit: its argument of this number."""
    right = getattr(retention_plan, rule)

    def wrong(*arguments: Any) -> object:  # noqa: ANN401 - of any rule
        changed = list(arguments)
        changed[number] = change(changed[number])
        return right(*changed)

    monkeypatch.setattr(retention_plan, rule, wrong)


@pytest.mark.rotates(3)
@pytest.mark.parametrize(
    ("fault", "log", "check"),
    [
        (("_by_size", 1, lambda limit: limit // 2), "size-0", SEGMENTS_DELETED),
        (("_by_size", 1, lambda limit: limit * 2), "size-0", SEGMENTS_LEFT),
        (("_by_time", 0, lambda limit: limit // 8), "time-0", SEGMENTS_DELETED),
        (("_by_time", 0, lambda limit: limit * 8), "time-0", SEGMENTS_LEFT),
        (("_by_start_offset", 0, lambda start: start + 10**6), "compacted-0", SEGMENTS_DELETED),
    ],
    ids=["more by size", "less by size", "more by time", "less by time", "more by offset"],
)
def test_a_fault_in_the_plan_of_retention_is_found(
    platform: Platform,
    monkeypatch: pytest.MonkeyPatch,
    fault: tuple[str, int, Change],
    log: str,
    check: str,
) -> None:
    """Too much or too little by each rule: the check of that log fails, and says which segment."""
    plant(monkeypatch, *fault)
    for other in set(LOGS) - {log}:
        (platform.log_dir / other).rename(platform.log_dir.parent / other)
    done = run(platform)
    failed = evaluations(done, RETENTION_ASSET)[check, log]
    assert not failed.passed
    assert dg.AssetCheckSeverity.ERROR is failed.severity
    bases = [int(path.name.split(".")[0]) for path in platform.partition(log).glob("0*.log*")]
    assert failed.metadata["first offending offset"].value in bases
    words = {SEGMENTS_DELETED: "is deleted: it ends at", SEGMENTS_LEFT: "is left: it ends at"}
    assert words[check] in str(failed.metadata["broken rules"].value)
    assert f"{check}: " in str(failed.description)


@pytest.mark.parametrize(
    ("factor", "waited_ms", "check"),
    [(0, DELAY_MS // 4, FILES_PURGED), (3, DELAY_MS, FILES_LEFT)],
    ids=["more", "less"],
)
def test_a_fault_in_the_plan_of_a_purge_is_found(
    platform: Platform,
    monkeypatch: pytest.MonkeyPatch,
    factor: int,
    waited_ms: int,
    check: str,
) -> None:
    """Files that go too early, and files that stay too long; of each log that has one."""
    right = purge_plan.retired_files

    def wrong(listing: Any, *, file_delete_delay_ms: int, force: bool) -> object:  # noqa: ANN401 - passed on
        assert not force
        return right(listing, file_delete_delay_ms=file_delete_delay_ms * factor, force=True)

    assert retire(platform).success
    monkeypatch.setattr(purge_plan, "retired_files", wrong)
    done = run(platform.at(platform.now_ms + waited_ms), purge)
    assert {(check, "size-0"): False, (check, "time-0"): False, (check, None): False} == passed(
        done, PURGE_ASSET
    )
    rules = str(evaluations(done, PURGE_ASSET)[check, "size-0"].metadata["broken rules"].value)
    assert f".log.deleted was retired {duration(waited_ms)} ago" in rules
    assert f"file.delete.delay.ms is {duration(DELAY_MS)}" in rules
