"""Whole partitions in Spark tasks: few tasks, the engine's own results, each log for itself."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from logwright.checks.model import OutputFacts
from logwright.compaction.model import CleanPlan, StagedCleaning
from logwright.errors import CorruptBatch, LogwrightError
from logwright.format.names import TopicPartition
from logwright.live_plans import plan_is_alive
from logwright.rewrite.staging import discard_staging
from logwright.spark import sweep
from logwright.spark.session import TASKS_PER_CORE
from logwright.spark.sweep import SparkExecutor
from logwright.sweep.build import build, build_and_examine, examine
from logwright.sweep.calls import WorkerFault
from logwright.sweep.commit import commit
from logwright.sweep.executor import call_builds
from tests.fixtures import copy_before, description, partition_of
from tests.log_builder import START_MS, LogBuilder
from tests.plans import forced_plan
from tests.spark import work
from tests.spark_session import Observed
from tests.unit.staging.test_live_plans import purged_by_another

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:::pyspark.*"),
]

TASKS = 2 * TASKS_PER_CORE


def each(function: object, numbers: int, observed: Observed) -> list[object]:
    arguments = [(number,) for number in range(numbers)]
    return list(sweep._each(function, arguments, [1] * numbers, observed.spark))  # type: ignore[arg-type]


def built(
    plans: list[CleanPlan], observed: Observed, function: Callable[..., object] = build
) -> list[object]:
    """The result of each plan."""
    groups = call_builds(SparkExecutor(lambda: observed.spark), function, plans)
    results = {plan.plan_id: result for group in groups for plan, result in group}
    return [results[plan.plan_id] for plan in plans]


def plan_of(name: str, tmp_path: Path) -> CleanPlan:
    """The plan of a fixture's own cleaning, of a copy."""
    log_name = partition_of(name)
    partition = TopicPartition.parse(log_name.name)
    assert partition is not None
    return forced_plan(
        copy_before(name, tmp_path),
        partition,
        log_name.config,
        now_ms=description(name)["now"],
        like_kafka=True,
    )


def contents(staged: StagedCleaning) -> dict[str, bytes]:
    return {
        path.name: path.read_bytes()
        for path in staged.directory.iterdir()
        if path.suffix in {".log", ".index", ".timeindex"}
    }


@pytest.mark.parametrize("numbers", [1, 3, 100])
def test_results_come_back_in_order_from_a_few_tasks(numbers: int, observed: Observed) -> None:
    """However many partitions there are, a job has a few tasks for each core, and none is empty."""
    jobs_before = len(observed.tasks())
    assert [2 * number for number in range(numbers)] == each(work.double, numbers, observed)
    jobs = observed.tasks()[jobs_before:]
    assert [min(numbers, TASKS)] == [tasks for tasks in jobs if tasks]


def test_nothing_to_do_starts_no_job(observed: Observed) -> None:
    """Not even a small one: it would cost a tenth of a second."""
    jobs_before = len(observed.tasks())
    assert [] == each(work.double, 0, observed)
    assert jobs_before == len(observed.tasks())


def planned(tmp_path: Path, number: int, **settings: str) -> CleanPlan:
    """A small log's cleaning, by these settings of the cleaner."""
    log = LogBuilder(tmp_path / str(number), "t-0")
    log.segment(0).batch(0, [("a", "1"), ("a", "2")])
    log.segment(2).batch(2, [("b", "3")])
    log.write()
    pairs = {f"log.cleaner.{name.replace('_', '.')}": text for name, text in settings.items()}
    return forced_plan(
        log.log_dir, log.partition, {"cleanup.policy": "compact"} | pairs, now_ms=START_MS
    )


@pytest.mark.parametrize("threads", [1, 3])
def test_no_more_logs_at_once_than_log_cleaner_threads(
    tmp_path: Path, observed: Observed, threads: int
) -> None:
    """There are as many tasks, each of which does its logs one after the other."""
    plans = [planned(tmp_path, number, threads=str(threads)) for number in range(6)]
    jobs_before = len(observed.tasks())
    results = built(plans, observed, build_and_examine)
    assert not any(isinstance(result, LogwrightError) for result in results)
    assert [threads] == [tasks for tasks in observed.tasks()[jobs_before:] if tasks]
    for plan in plans:
        discard_staging(plan)


def test_tasks_keep_the_lowest_rate_together(tmp_path: Path, observed: Observed) -> None:
    """Each has its share of the lowest log.cleaner.io.max.bytes.per.second."""
    plans = [
        planned(tmp_path, number, io_max_bytes_per_second=text)
        for number, text in enumerate(("7000", "3000"))
    ]
    arguments = [(plan,) for plan in plans]
    rates = list(sweep._each_log(work.rate, arguments, plans, observed.spark))
    assert [1500.0, 1500.0] == rates


def test_error_of_one_partition_is_its_own(observed: Observed) -> None:
    """The others continue, and the error arrives with its attributes."""
    results = each(work.double_but_for_odd, 20, observed)
    assert [2 * number for number in range(0, 20, 2)] == results[::2]
    errors = results[1::2]
    assert all(isinstance(error, CorruptBatch) for error in errors)
    first = errors[0]
    assert isinstance(first, CorruptBatch)
    assert (Path("/log/1"), 1, "Do not.") == (first.path, first.position, first.remedy)


def test_fault_of_ours_is_one_partitions_and_keeps_secrets(observed: Observed) -> None:
    """It says where in the code, but not what was in the data."""
    results = each(work.fail_with_a_secret, 3, observed)
    assert all(isinstance(result, WorkerFault) for result in results)
    assert "KeyError at" in str(results[0])
    assert "fail_with_a_secret" in str(results[0])
    assert "secret-key" not in str(results[0])


def test_workers_take_what_is_loaded_out_of_the_collectors_sight(observed: Observed) -> None:
    """After the first partition of a worker, once."""
    each(work.double, 100, observed)
    states = [state for state in each(work.worker_state, 100, observed) if isinstance(state, tuple)]
    assert 100 == len(states)
    assert len({process for process, _, _ in states}) <= 2
    assert all(frozen > 10_000 for _, frozen, _ in states)


@pytest.mark.parametrize("name", ["basic-none", "basic-zstd"])
def test_workers_come_with_the_kernels_loaded(
    name: str, tmp_path: Path, observed: Observed
) -> None:
    """None is left to load for a log in a worker of its own, which never had another."""
    plan = plan_of(name, tmp_path)
    (kernels,) = sweep._each_log(work.kernels_of_a_cleaning, [(plan,)], [plan], observed.spark)
    assert isinstance(kernels, tuple)
    before, further = kernels
    assert len(before) > 10
    assert set() == further


def test_workers_are_forked_from_a_process_of_one_thread(observed: Observed) -> None:
    """A lock that another thread held would be held for ever."""
    origins = each(work.origin, 20, observed)
    assert {1} == {one[1] for one in origins if isinstance(one, tuple)}


def test_session_without_a_context_gives_the_same_by_a_frame(
    observed: Observed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a Connect server's has none."""
    monkeypatch.setattr(sweep, "_context", lambda _spark: None)
    jobs_before = len(observed.tasks())
    assert [2 * number for number in range(100)] == each(work.double, 100, observed)
    assert TASKS == observed.tasks()[jobs_before:][-1]
    errors = each(work.double_but_for_odd, 2, observed)[1:]
    assert all(isinstance(error, CorruptBatch) for error in errors)


@pytest.mark.parametrize("name", ["basic-none", "basic-zstd", "tombstones-1-first"])
def test_spark_stages_the_same_bytes(name: str, tmp_path: Path, observed: Observed) -> None:
    """The engine in a worker and the engine in this process: one output."""
    plan = plan_of(name, tmp_path)
    here = build(plan)
    expected, judged = contents(here), examine(plan, here)
    discard_staging(plan)

    (result,) = built([plan], observed, build_and_examine)

    assert isinstance(result, tuple)
    staged, facts = result
    assert expected == contents(staged)
    assert isinstance(facts, OutputFacts)
    assert judged == facts
    assert not facts.failed


def test_unreadable_log_does_not_stop_the_others(tmp_path: Path, observed: Observed) -> None:
    """One of three logs has gone after it was planned."""
    plans = [plan_of("basic-none", tmp_path / str(number)) for number in range(3)]
    shutil.rmtree(plans[1].log.directory)
    results = built(plans, observed)
    assert isinstance(results[0], StagedCleaning)
    assert isinstance(results[1], LogwrightError)
    assert isinstance(results[2], StagedCleaning)
    alive = [plan_is_alive(plan.log.log_dir, plan.plan_id) for plan in plans]
    assert [True, False, True] == alive
    for plan in plans:
        discard_staging(plan)


def test_driver_holds_the_plans_that_workers_build(tmp_path: Path, observed: Observed) -> None:
    """A purge in another process leaves them alone, and the commit succeeds."""
    plan = plan_of("basic-none", tmp_path)
    (staged,) = built([plan], observed)
    assert isinstance(staged, StagedCleaning)
    assert purged_by_another(plan.log.log_dir) == 0
    assert len(staged.segments) == commit(plan, staged).segments_swapped
    assert not list(plan.log.log_dir.glob(".logwright-plans-*"))
