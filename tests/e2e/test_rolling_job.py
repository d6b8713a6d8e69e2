"""The job `rolling_maintenance`: its steps as ops, by broker; executed again from any of them."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from logwright.locks import wait_for
from logwright.pipelines.lib.runs import PARTITION_TAG, ROLLING
from logwright.pipelines.platform import platform_definitions
from logwright.resources.catalogue import platform_resources
from logwright.resources.cluster import CLUSTER_VARIABLE
from logwright.rolling.model import Journal
from tests.e2e.brokers import Brokers
from tests.e2e.harness import QUIET, new_instance
from tests.e2e.rolling_cluster import CLEAN, IN_TIME, check, journal, whole, write_file
from tests.e2e.rolling_load import PARTITIONS, STATE, Load

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.oracle,
    pytest.mark.filterwarnings("ignore:::dagster.*"),
]

OPS = ["check_broker", "stop_broker", "maintain_broker", "start_broker", "verify_broker"]


@pytest.fixture
def instance(tmp_path: Path) -> dg.DagsterInstance:
    return new_instance(tmp_path / "dagster")


def job() -> dg.JobDefinition:
    """As a code location has it, by the environment."""
    return platform_definitions(platform_resources()).resolve_job_def(ROLLING)


def run(instance: dg.DagsterInstance, broker: int, *, after: str = "") -> dg.JobExecutionResult:
    """Run it for a broker; or execute a run again, from the step that failed."""
    again = dg.ReexecutionOptions.from_failure(after, instance) if after else None
    return dg.execute_job(
        dg.reconstructable(job),
        instance=instance,
        run_config=None if after else QUIET,
        reexecution_options=again,
        tags={PARTITION_TAG: str(broker)},
    )


def named(brokers: Brokers, monkeypatch: pytest.MonkeyPatch, **changes: Any) -> Path:  # noqa: ANN401
    """The cluster's file, which the environment names."""
    path = write_file(brokers, **changes)
    monkeypatch.setenv(CLUSTER_VARIABLE, str(path))
    return path


@pytest.mark.nightly
def test_a_round_by_partitions(
    brokers: Brokers, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run for each broker, with a step for each part, and nobody notices."""
    path = named(brokers, monkeypatch)
    with Load(brokers.bootstrap) as load:
        runs = [run(instance, broker) for broker in brokers.ids]
    assert [(True, OPS)] * 3 == [(each.success, begun(each)) for each in runs]
    check(load)
    assert whole(brokers)
    assert Journal() == journal(path)


@pytest.mark.nightly
def test_a_failed_run_is_executed_again(
    brokers: Brokers, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The maintenance fails: the broker is back; from that step on it is checked and stopped
    again.
    """
    path = named(brokers, monkeypatch, maintain=["clean --policies nowhere"])
    failed = run(instance, 1)
    assert (False, OPS[:3]) == (failed.success, begun(failed))
    assert {1, 2, 3} == brokers.alive()
    assert Journal() == journal(path)
    write_file(brokers)
    again = run(instance, 1, after=failed.run_id)
    assert (True, OPS[2:]) == (again.success, begun(again))
    assert whole(brokers)
    assert Journal() == journal(path)


@pytest.mark.nightly
def test_a_run_that_ends_between_steps(
    brokers: Brokers, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What has stopped a broker starts it, whatever ends the run."""
    path = named(brokers, monkeypatch)
    ended = job().execute_in_process(
        partition_key="2", instance=instance, run_config=QUIET, op_selection=["*stop_broker"]
    )
    assert ended.success
    assert {1, 2, 3} == brokers.alive()
    assert run(instance, 2).success
    assert whole(brokers)
    assert Journal() == journal(path)


@pytest.mark.nightly
def test_another_broker_waits_for_an_interrupted_one(
    brokers: Brokers, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that cannot start its broker keeps all others away, until it is executed again."""
    limits = {"stop": "60s", "lock": "10s", "start": "2s", "in_sync": "60s"}
    path = named(brokers, monkeypatch, start="true", limits=limits)
    failed = run(instance, 3)
    assert not failed.success
    assert wait_for(lambda: brokers.alive() == {1, 2} or None, IN_TIME), brokers.alive()
    other = run(instance, 1)
    assert (False, OPS[:1]) == (other.success, begun(other))
    write_file(brokers)
    assert run(instance, 3, after=failed.run_id).success
    assert whole(brokers)
    assert Journal() == journal(path)


@pytest.mark.nightly
def test_two_runs_at_once_without_a_pool(
    brokers: Brokers, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing but the engine keeps the second broker: its run fails before it touches it, at each
    moment at which it is tried.
    """
    path = named(brokers, monkeypatch)
    with Load(brokers.bootstrap) as load, ThreadPoolExecutor(1) as pool:
        first = pool.submit(run, instance, 1)
        assert wait_for(lambda: 1 not in brokers.alive() or None, IN_TIME)
        others = []
        while journal(path).broker == 1:
            others.append(run(instance, 2))
        assert first.result().success
    assert others
    for other in others[:-1]:  # the first one may have ended before the last one looked
        assert (False, OPS[:1]) == (other.success, begun(other))
        (failed,) = [each for each in other.all_events if each.is_step_failure]
        why = str(failed.step_failure_data)
        assert "another run maintains" in why or "a run was interrupted at broker 1" in why
    check(load)
    assert whole(brokers)


@pytest.mark.rotates(24)
def test_tombstones_of_an_erasure(
    brokers: Brokers, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same file works: a key that each partition has gets a tombstone in each, in the check of
    the first broker's run; the next one finds none lacking. Where not all was looked at the run
    fails when the broker is back, also if it is executed again; a new run looks again.
    """
    (brokers.work / "one-key").write_text("k7\n")
    path = named(brokers, monkeypatch, maintain=[f"erase --keys one-key --topic {STATE}", CLEAN])
    results = [run(instance, broker) for broker in (1, 2)]
    assert [(True, OPS)] * 2 == [(each.success, begun(each)) for each in results]
    texts = [progress(each, "check_broker") for each in results]
    for number in range(PARTITIONS):
        assert [True, False] == [f"tombstones: 1 in {STATE}-{number};" in each for each in texts]
    assert "3 produced and acknowledged" in texts[0]
    assert "0 produced and acknowledged" in texts[1]
    assert not any("k7" in each for each in texts)
    assert not any("tombstones" in checked(each) for each in results)
    named(brokers, monkeypatch, maintain=["erase --keys one-key --topic no-such-topic", CLEAN])
    failed = run(instance, 3)
    assert "not all" in str(checked(failed)["tombstones"].value)
    again = run(instance, 3, after=failed.run_id)
    assert [(False, OPS), (False, OPS[-1:])] == [
        (each.success, begun(each)) for each in (failed, again)
    ]
    for each in (failed, again):
        (event,) = [event for event in each.all_events if event.is_step_failure]
        why = str(event.step_failure_data)
        assert "Broker 3 is maintained and in sync" in why
        assert "the step check" in why
    assert whole(brokers)
    assert Journal() == journal(path)
    named(brokers, monkeypatch)
    assert run(instance, 3).success


def checked(result: dg.JobExecutionResult, op: str = OPS[0]) -> Mapping[str, dg.MetadataValue[Any]]:
    """The metadata of an op."""
    (event,) = [
        each
        for each in result.events_for_node(op)
        if each.event_type is dg.DagsterEventType.STEP_OUTPUT
    ]
    return event.step_output_data.metadata


def progress(result: dg.JobExecutionResult, op: str) -> str:
    """What an op has said."""
    return str(checked(result, op)["progress"].value)


def begun(result: dg.JobExecutionResult) -> list[str]:
    """The steps that started, in order."""
    return [
        str(event.step_key)
        for event in result.all_events
        if event.event_type is dg.DagsterEventType.STEP_START
    ]
