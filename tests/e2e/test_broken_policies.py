"""Broken policies: the code location loads and says so; every tick and run that needs them fails
with the same text, and changes nothing.
"""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pytest

from logwright.assets.fleet.inventory import fleet_inventory
from logwright.assets.ingest import ingested
from logwright.errors import PolicyError
from logwright.pipelines.ingest import landing
from logwright.pipelines.retention.purge import purge, purge_due
from logwright.pipelines.retention.retain import retention, retention_check
from logwright.pipelines.segments.pauses import pauses
from logwright.pipelines.segments.sensors import due_logs
from logwright.pipelines.segments.sweep import sweep
from tests.e2e.harness import MARKS, POLICY, QUIET, Platform, make_platform, tree

pytestmark = MARKS

ROOT = Path(__file__).parents[2]
BROKEN = "version: 1\ntopics:\n  - name: orders\n    segment.ms: 1d\n    retention.mss: 5\n"

HINT = "did you mean 'retention.ms'?"


@pytest.fixture
def platform(tmp_path: Path) -> Platform:
    """A directory with a log that is due, and policies with two problems."""
    made = make_platform(tmp_path, {"orders-0": "basic-none"})
    (made.policies / "topics.yml").write_text(BROKEN)
    return made


def lines(policies: Path) -> list[str]:
    """What every part says."""
    place = policies / "topics.yml"
    return [
        f"{place}:4:17: topics[orders].segment.ms: not a whole number (got '1d')",
        f"{place}:5:5: topics[orders].retention.mss: unknown key (got '5'); {HINT}",
    ]


def causes(event: dg.DagsterEvent) -> str:
    """The messages of a failed step's error and of what caused it."""
    assert event.step_failure_data.error is not None
    error, causes_of = event.step_failure_data.error, []
    while error is not None:
        causes_of.append(error.message)
        error = error.cause
    return "".join(causes_of)


def policy_error(error: BaseException | None) -> str:
    """The message of the PolicyError that an error is or comes from."""
    while error is not None and not isinstance(error, PolicyError):
        error = error.__cause__
    return str(error)


@pytest.mark.parametrize(
    "sensor", [due_logs, purge_due, pauses, landing], ids=lambda sensor: sensor.name
)
def test_every_tick_fails(platform: Platform, sensor: dg.SensorDefinition) -> None:
    """The tick's error, which Dagster shows, has all problems."""
    context = dg.build_sensor_context(instance=platform.instance, resources=platform.resources())
    with context, pytest.raises((PolicyError, dg.DagsterError)) as caught:
        sensor.evaluate_tick(context)
    assert lines(platform.policies) == policy_error(caught.value).split("\n")


def test_the_schedule_fails(platform: Platform) -> None:
    """No retention is requested."""
    context = dg.build_schedule_context(
        instance=platform.instance,
        resources=platform.resources(),
        scheduled_execution_time=datetime.now(UTC),
    )
    with context, pytest.raises(dg.DagsterError) as caught:
        retention_check.evaluate_tick(context)
    assert lines(platform.policies) == policy_error(caught.value).split("\n")


@pytest.mark.rotates(3)
@pytest.mark.parametrize("job", [sweep, retention, purge], ids=lambda job: job.name)
def test_every_run_fails(platform: Platform, job: dg.JobDefinition) -> None:
    """Its first step, before anything is changed."""
    before = tree(platform.log_dir)
    run = job.execute_in_process(
        run_config=QUIET,
        instance=platform.instance,
        resources=platform.resources(),
        raise_on_error=False,
    )
    (failed,) = [event for event in run.all_events if event.is_step_failure]
    for line in lines(platform.policies):
        assert line in causes(failed)
    assert before == tree(platform.log_dir)


@pytest.mark.parametrize("asset", [fleet_inventory, ingested], ids=lambda asset: asset.key.path[-1])
def test_every_asset_fails(platform: Platform, asset: dg.AssetsDefinition) -> None:
    """The inventory as well: it would show plans that nobody wants."""
    run = dg.materialize(
        [asset],
        instance=platform.instance,
        resources=platform.resources(),
        raise_on_error=False,
    )
    (failed,) = [event for event in run.all_events if event.is_step_failure]
    for line in lines(platform.policies):
        assert line in causes(failed)


def test_a_correction_needs_no_reload(platform: Platform) -> None:
    """The next tick works."""
    (platform.policies / "topics.yml").write_text(POLICY.splitlines()[0])
    context = dg.build_sensor_context(instance=platform.instance, resources=platform.resources())
    with context:
        assert due_logs.evaluate_tick(context).run_requests


@pytest.mark.rotates(6)
@pytest.mark.parametrize("broken", [True, False])
def test_the_code_location_loads_and_says_so(platform: Platform, broken: bool) -> None:
    """As `dagster dev` loads it: the lines are in the code server's log."""
    if not broken:
        (platform.policies / "topics.yml").unlink()
    done = subprocess.run(
        [sys.executable, "-m", "dagster", "definitions", "validate", "-w", "workspace.yaml"],
        cwd=ROOT,
        env=os.environ | {"LOGWRIGHT_POLICIES": str(platform.policies)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert 0 == done.returncode, done.stderr
    printed = done.stderr.splitlines()
    assert [broken] * 2 == [line in printed for line in lines(platform.policies)]
    assert broken == ("policies are invalid" in done.stderr)
