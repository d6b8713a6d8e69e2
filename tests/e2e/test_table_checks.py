"""The checks of the assets `latest_state/<topic>` say nothing of what they have not looked at."""

from __future__ import annotations

import shutil
from pathlib import Path

import dagster as dg
import pytest

from logwright.pipelines.platform import platform_definitions
from logwright.resources.catalogue import platform_resources
from logwright.resources.clock import Clock
from logwright.resources.policies import PolicyDirectory
from tests.e2e.harness import MARKS
from tests.e2e.tables import KEY, metadata_of, platform_with_table, results, update
from tests.e2e.test_latest_state import CHECKS, with_log
from tests.log_builder import LogBuilder
from tests.table_rows import FORMATS, table_rows

pytestmark = MARKS


def test_a_check_that_looked_at_nothing_has_no_result(tmp_path: Path) -> None:
    """Neither of the records of an empty topic, nor of a contract that there is not. A check alone
    can be asked for.
    """
    platform, _ = platform_with_table(tmp_path, "parquet", {"t-0": "basic-none"})
    empty = with_log(platform, [[]])
    expected = {**CHECKS}
    del expected["records_decoded"]
    assert expected == results(update(empty))
    resources = platform_resources(
        directories=[f"logs={empty.log_dir}"],
        policies=PolicyDirectory(directory=str(empty.policies)),
        clock=Clock(fixed_now_ms=empty.now_ms),
    )
    definitions = platform_definitions(resources)
    selection = dg.AssetSelection.checks(dg.AssetCheckKey(KEY, "held_below_last_stable_offset"))
    job = dg.define_asset_job("held", selection)
    done = (
        dg.Definitions.merge(definitions, dg.Definitions(jobs=[job]))
        .resolve_job_def("held")
        .execute_in_process(instance=empty.instance)
    )
    assert {"held_below_last_stable_offset": True} == results(done)


def grow(log_dir: Path) -> None:
    """The topic has one more partition, where keys of the other one have newer records."""
    shutil.rmtree(log_dir)
    old = LogBuilder(log_dir)
    old.segment(0).batch(0, [("moved", "old"), ("deleted", "old"), ("stayed", "old")])
    old.write()
    new = LogBuilder(log_dir, "t-1")
    new.segment(0).batch(3, [("moved", "secret-1"), ("deleted", None), ("added", "new")])
    new.write()


@pytest.mark.rotates(3)
def test_keys_in_several_partitions_are_counted(tmp_path: Path) -> None:
    """A warning has their number, and nothing of them."""
    platform, path = platform_with_table(tmp_path, "parquet", {"t-0": "basic-none"})
    grow(platform.log_dir)
    done = update(platform)
    assert {**CHECKS, "keys_in_one_partition": False} == results(done)
    (check,) = [
        event.asset_check_evaluation_data
        for event in done.all_events
        if event.event_type is dg.DagsterEventType.ASSET_CHECK_EVALUATION
        and event.asset_check_evaluation_data.check_name == "keys_in_one_partition"
    ]
    counts = {name: value.value for name, value in check.metadata.items()}
    assert {"keys": 4, "keys in several partitions": 2, "partitions read": 2} == counts
    assert dg.AssetCheckSeverity.WARN == check.severity
    assert "2 keys" in str(check.description)
    assert not any(key in str(check) for key in ("moved", "deleted", "secret-1"))
    assert 5 == len(table_rows("parquet", path))


@pytest.mark.rotates(3)
@pytest.mark.parametrize("form", FORMATS)
def test_one_row_of_a_key_in_the_whole_topic(tmp_path: Path, form: str) -> None:
    """With ``unique: topic``; the daily check finds the same, and no other one is needed."""
    more = ", unique: topic"
    platform, path = platform_with_table(tmp_path, form, {"t-0": "basic-none"}, more)
    grow(platform.log_dir)
    done = update(platform)
    expected = {**CHECKS}
    del expected["keys_in_one_partition"]
    assert expected == results(done)
    rows = [(0, 2, b"stayed", b"old"), (1, 3, b"moved", b"secret-1"), (1, 5, b"added", b"new")]
    assert rows == table_rows(form, path)
    assert 3 == metadata_of(done)["dagster/row_count"]
    assert not metadata_of(update(platform))["new version"]
    shutil.rmtree(platform.log_dir / "t-1")
    assert {**expected, "rows_equal_live_keys": False} == results(update(platform))


@pytest.mark.rotates(2)
def test_decoded_keys_with_several_rows_are_counted(tmp_path: Path) -> None:
    """A warning has their number; with ``unique_by: decoded`` there are none. The daily comparison
    with the log agrees in both cases.
    """
    specs = ", key: {format: json, schema: {id: long}}, value: string"
    log = [[('{"id":1}', "a"), ('{"id": 1}', "b"), ('{"id":2}', "c")], [('{"id":2}', "d")]]
    name = "one_row_per_decoded_key"
    for unique_by, expected in (("bytes", False), ("decoded", True)):
        base = tmp_path / unique_by
        base.mkdir()
        more = f"{specs}, unique_by: {unique_by}"
        platform, path = platform_with_table(base, "parquet", {"t-0": "basic-none"}, more)
        done = update(with_log(platform, log))
        assert {**CHECKS, name: expected} == results(done)
        (check,) = [
            event.asset_check_evaluation_data
            for event in done.all_events
            if event.event_type is dg.DagsterEventType.ASSET_CHECK_EVALUATION
            and event.asset_check_evaluation_data.check_name == name
        ]
        counts = {key: value.value for key, value in check.metadata.items()}
        rows = table_rows("parquet", path, ["value"])
        if expected:
            assert [(0, 1, "b"), (0, 3, "d")] == rows
            assert {"decoded keys": 2, "decoded keys in several rows": 0, "rows": 2} == counts
        else:
            assert [(0, 0, "a"), (0, 1, "b"), (0, 3, "d")] == rows
            assert 1 == counts["decoded keys in several rows"]
            assert "0: 1" == counts["partitions with such keys"]
            assert dg.AssetCheckSeverity.WARN == check.severity
