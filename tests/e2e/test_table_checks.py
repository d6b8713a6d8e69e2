"""The checks of the assets `latest_state/<topic>` say nothing of what they have not looked at."""

from __future__ import annotations

from pathlib import Path

import dagster as dg

from logwright.pipelines.platform import platform_definitions
from logwright.resources.catalogue import platform_resources
from logwright.resources.clock import Clock
from logwright.resources.policies import PolicyDirectory
from tests.e2e.harness import MARKS
from tests.e2e.tables import KEY, platform_with_table, results, update
from tests.e2e.test_latest_state import CHECKS, with_log

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
