"""A Dagster instance: ticks with their cursors, and runs, some of which are killed or canceled."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal

import dagster as dg
import pytest
from dagster._core.definitions.job_base import InMemoryJob
from dagster._core.execution.api import execute_run

from logwright.assets.lib.partitions import LOGS_NAME
from logwright.assets.lib.verdict import LOG_PROFILE, Verdict
from logwright.assets.segments.expectations import Published
from logwright.pipelines.definitions import defs
from logwright.resources.catalogue import platform_resources
from logwright.resources.log_dirs import LOG_DIRS_VARIABLE
from logwright.resources.policies import METADATA_VARIABLE, POLICIES_VARIABLE
from logwright.sweep.executor import LocalExecutor
from tests.e2e.harness import QUIET, new_instance
from tests.platform_sequences.world import World

EXECUTORS: Final = (
    "logwright.assets.segments.segment_set.SparkExecutor",
    "logwright.assets.segments.restored.SparkExecutor",
)
COUNTED: Final = ("fsync", "replace", "rename", "unlink", "link")
CHILD_SECONDS: Final = 300
SWEEPS: Final = ("sweep", "sweep_range")

Ending = Literal["kill", "cancel"]


class HereExecutor(LocalExecutor):
    """The executor of the command line in the place of Spark's, which starts a JVM."""

    def __init__(self, _: Callable[[], object]) -> None:
        super().__init__(threads=1)

    def call_planned(self, function: Any, arguments: Sequence[Any], plans: object) -> Any:  # noqa: ANN401 -- as of Spark's
        """Of logs in buckets, of which there are none."""
        del plans
        yield from self.call_each(function, arguments)


@dataclass(slots=True)
class Requested:
    """A run that was requested and has not ended.

    Attributes:
        logs: that it works on.
        dead: its process is gone, and nobody has noticed.
    """

    run_id: str
    job: str
    logs: tuple[str, ...]
    dead: bool = False


@dataclass(slots=True)
class Platform:
    """The instance.

    Attributes:
        cursors: by sensor.
        open: the runs that have not ended, oldest first.
        keys: run keys of all requests.
    """

    world: World
    instance: dg.DagsterInstance
    cursors: dict[str, str | None] = field(default_factory=dict)
    open: list[Requested] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)

    def tick(self, name: str) -> dg.SensorExecutionData:
        """A tick of a sensor, as the daemon makes it; the cursor and partitions are kept."""
        with dg.build_sensor_context(
            instance=self.instance,
            cursor=self.cursors.get(name),
            resources=platform_resources(),
        ) as context:
            data = defs.resolve_sensor_def(name).evaluate_tick(context)
        self.cursors[name] = data.cursor or self.cursors.get(name)
        for request in data.dynamic_partitions_requests or ():
            keys = list(request.partition_keys)
            if isinstance(request, dg.AddDynamicPartitionsRequest):
                self.instance.add_dynamic_partitions(LOGS_NAME, keys)
            else:
                for key in keys:
                    self.instance.delete_dynamic_partition(LOGS_NAME, key)
        return data

    def scheduled(self) -> dg.ScheduleExecutionData:
        """A tick of the schedule of retention, in this minute."""
        at = datetime.fromtimestamp(self.world.now // 60_000 * 60, tz=UTC)
        with dg.build_schedule_context(
            instance=self.instance, scheduled_execution_time=at, resources=platform_resources()
        ) as context:
            return defs.resolve_schedule_def("retention_check").evaluate_tick(context)

    def request(self, request: dg.RunRequest, job: str, logs: Sequence[str]) -> None:
        """A run of a request, as the daemon makes it, that waits for its turn."""
        assert request.run_key not in self.keys, "the daemon ignores a second request of this key"
        self.keys |= {request.run_key} if request.run_key else set()
        self.queue(job, logs, config=dict(request.run_config), tags=dict(request.tags))

    def queue(
        self,
        job: str,
        logs: Sequence[str],
        *,
        config: dict[str, Any] | None = None,
        tags: dict[str, str] | None = None,
    ) -> None:
        """Add a run that waits for its turn."""
        run = self.instance.create_run_for_job(
            defs.resolve_job_def(job), run_config=(config or {}) | QUIET, tags=tags or {}
        )
        self.open.append(Requested(run.run_id, job, tuple(logs)))

    def backfill(self, first: str, last: str) -> None:
        """A run of the asset over a range of partitions, in the order in which they were added."""
        known = list(self.instance.get_dynamic_partitions(LOGS_NAME))
        some = known[known.index(first) : known.index(last) + 1]
        ends = {"start": first, "end": last}
        tags = {f"dagster/asset_partition_range_{name}": key for name, key in ends.items()}
        if first == last:
            tags = {"dagster/partition": first}
        self.queue("sweep_range", some, tags=tags)

    def in_flight(self) -> set[str]:
        """The logs of sweeps that have not ended, as was requested."""
        return {log for one in self.open if one.job in SWEEPS for log in one.logs}

    def running(self, job: str) -> int:
        """How many runs of a job have not ended."""
        return sum(one.job == job for one in self.open)

    def status(self, run_id: str) -> dg.DagsterRunStatus:
        """Of a run."""
        run = self.instance.get_run_by_id(run_id)
        assert run is not None
        return run.status

    def execute(
        self, requested: Requested, ending: Ending | None, after: int
    ) -> dg.DagsterRunStatus:
        """Execute a run that waits. Effects: those of the run.

        Args:
            ending: how its process ends, None: by itself.
            after: how many effects it has before.
        """
        run = self.instance.get_run_by_id(requested.run_id)
        assert run is not None
        job = InMemoryJob(defs.resolve_job_def(requested.job))
        if ending is None:
            execute_run(job, run, self.instance)
        else:
            _in_a_process(lambda: _execute_and_end(self.instance, job, run, ending, after))
        status = self.status(requested.run_id)
        if status.value in ("SUCCESS", "FAILURE", "CANCELED"):
            self.open.remove(requested)
        else:
            requested.dead = True
        return status

    def withdraw(self, draw: random.Random) -> None:
        """An operator cancels a run that waits for its turn."""
        waiting = [requested for requested in self.open if not requested.dead]
        if waiting:
            requested = draw.choice(waiting)
            run = self.instance.get_run_by_id(requested.run_id)
            assert run is not None
            self.instance.report_run_canceled(run)
            self.open.remove(requested)

    def notice(self, requested: Requested) -> None:
        """The daemon notices that a run's process is gone."""
        run = self.instance.get_run_by_id(requested.run_id)
        assert run is not None
        if run.status is dg.DagsterRunStatus.CANCELING:
            self.instance.report_run_canceled(run)
        else:
            self.instance.report_run_failed(run)
        self.open.remove(requested)

    def again(self, requested: Requested, *, whole: bool) -> Requested:
        """A run that executes a failed sweep again, from its failure or whole; it has ended."""
        options = (
            dg.ReexecutionOptions(parent_run_id=requested.run_id)
            if whole
            else dg.ReexecutionOptions.from_failure(requested.run_id, self.instance)
        )
        done = dg.execute_job(
            dg.reconstructable(sweep_job), instance=self.instance, reexecution_options=options
        )
        return Requested(done.run_id, requested.job, requested.logs)


def all_pass(profiles: Any, **_: object) -> Published:  # noqa: ANN401 -- a frame
    """The verdicts of Great Expectations, whose import takes seconds, on outputs that are right."""
    verdicts = {str(key): Verdict(check=LOG_PROFILE) for key in profiles["topic_partition"]}
    return Published(verdicts=verdicts, page=None)


def sweep_job() -> dg.JobDefinition:
    """The job `sweep`, as it is loaded by another process."""
    return defs.resolve_job_def("sweep")


def _in_a_process(work: Callable[[], None]) -> None:
    """Do it in a process of its own, whatever becomes of it."""
    pid = os.fork()  # noqa: TID251 -- a run that dies has its own process; a new one costs 5 s
    if not pid:
        try:
            work()
        finally:
            os._exit(0)
    end = time.monotonic() + CHILD_SECONDS
    while os.waitpid(pid, os.WNOHANG) == (0, 0):
        if time.monotonic() > end:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise TimeoutError("a run does not end")
        time.sleep(0.01)


def _execute_and_end(
    instance: dg.DagsterInstance, job: InMemoryJob, run: dg.DagsterRun, ending: Ending, after: int
) -> None:
    """Execute a run in this process, which ends or is interrupted after some of its effects."""
    left = after

    def wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:  # noqa: ANN401 -- of any function
            nonlocal left
            left -= 1
            if left == 0 and ending == "kill":
                os._exit(0)
            if left == 0:
                instance.report_run_canceling(run)
                os.kill(os.getpid(), signal.SIGINT)
            return function(*given, **named)

        return call

    for name in COUNTED:
        setattr(os, name, wrapped(getattr(os, name)))
    # Of the class: an instance with an attribute of its own is not what Dagster takes.
    type(instance).handle_new_event = wrapped(type(instance).handle_new_event)  # type: ignore[method-assign]
    execute_run(job, run, instance)


@contextmanager
def platform_of(world: World, *, whole: bool) -> Iterator[Platform]:
    """The platform of a world. Effects: its instance; the environment while it lives.

    Args:
        whole: with the profiles of Great Expectations.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(LOG_DIRS_VARIABLE, str(world.log_dir))
        patch.setenv(POLICIES_VARIABLE, str(world.policies))
        patch.setenv(METADATA_VARIABLE, "none")
        patch.setattr("logwright.assets.lib.boundary.RETRY_AFTER_SECONDS", 0)
        for executor in EXECUTORS:
            patch.setattr(executor, HereExecutor)
        if not whole:
            patch.setattr("logwright.assets.segments.judgement.profile_verdicts", all_pass)
            patch.setattr("logwright.assets.segments.segment_set.import_in_background", int)
        instance = new_instance(Path(world.root) / "dagster")
        try:
            yield Platform(world=world, instance=instance)
        finally:
            instance.dispose()
