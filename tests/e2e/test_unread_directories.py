"""A run of all logs in which a log directory could not be listed fails, and does the others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from logwright.pipelines.retention.purge import purge
from logwright.pipelines.retention.retain import retention
from logwright.pipelines.segments.sweep import sweep
from logwright.resources.log_dirs import LogDirs
from logwright.resources.policies import PolicyDirectory
from tests.e2e.harness import MARKS, POLICY, Platform, make_platform, tree
from tests.e2e.test_retention import failure_of

pytestmark = MARKS


class TwoDirectories(Platform):
    """A platform of two log directories, one of which is not mounted."""

    def resources(self) -> dict[str, Any]:
        """With a second directory that does not exist."""
        policies = PolicyDirectory(directory=str(self.policies))
        directories = [str(self.log_dir), str(self.log_dir.parent / "gone")]
        return super().resources() | {
            "log_dirs": LogDirs(directories=directories, policies=policies)
        }


@pytest.mark.rotates(3)
@pytest.mark.parametrize("job", [sweep, retention, purge], ids=lambda job: job.name)
def test_all_logs_are_not_those_that_could_be_listed(tmp_path: Path, job: dg.JobDefinition) -> None:
    """The run says which directory is missing; a run of named logs does not need it."""
    made = make_platform(tmp_path, {"orders-0": "basic-none"}, POLICY)
    before = tree(made.log_dir)
    fields = {name: getattr(made, name) for name in Platform.__dataclass_fields__}
    both = TwoDirectories(**fields)
    for platform, good in ((both, False), (made, True)):
        done = job.execute_in_process(
            instance=platform.instance, resources=platform.resources(), raise_on_error=False
        )
        assert good is done.success
        if not good:
            assert str(made.log_dir.parent / "gone") in failure_of(done)
            assert (job is sweep) is (before != tree(made.log_dir))
    named = both.sweep(["orders-0"])
    assert named.success
