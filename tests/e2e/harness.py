"""A small platform around copies of Kafka's own logs: real directories, Spark and Dagster."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import dagster as dg
import pytest
from dagster import AssetCheckEvaluation
from dagster_shared.record import replace as record_replace

from logwright.assets.lib.evaluations import NOTHING_STAGED
from logwright.assets.lib.partitions import LOGS_NAME, SEGMENT_SET
from logwright.assets.lib.verdict import CHECKS, VALUE_CONTRACT
from logwright.assets.segments.segment_set import segment_set
from logwright.pipelines.segments.sweep import sweep, sweep_run_config
from logwright.resources.catalogue import platform_resources
from logwright.resources.clock import Clock
from logwright.resources.policies import PolicyDirectory
from logwright.resources.spark import Spark
from logwright.spark.session import TASKS_PER_CORE
from tests.fixtures import copy_before, description

MARKS = [
    pytest.mark.e2e,
    pytest.mark.spark,
    pytest.mark.usefixtures("observed"),
    # Dagster, PySpark and their neighbours warn about themselves; ours stay errors.
    *(
        pytest.mark.filterwarnings(f"ignore:::{module}")
        for module in ("dagster.*", "dagster_.*", "pyspark.*", "great_expectations.*", "pandera.*")
    ),
]

NO_TELEMETRY = {"telemetry": {"enabled": False}}
QUIET = {"loggers": {"console": {"config": {"log_level": "ERROR"}}}}
"""Hundreds of events for each run hide what failed; the instance has them all."""
TASKS = 2 * TASKS_PER_CORE

POLICY = """\
version: 1
high_watermark: end
defaults:
  cleanup.policy: compact
  min.cleanable.dirty.ratio: 0.5
  index.interval.bytes: 1024
  segment.index.bytes: 4096
  segment.ms: 9000000000000
"""


def shared_spark() -> Spark:
    """The session that all tests share: with its number of tasks, as settings reach it."""
    return Spark(master="local[2]", settings={"spark.sql.shuffle.partitions": str(TASKS)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """One log directory, its policies and an instance.

    Attributes:
        more: further log directories, as a code location takes them.
    """

    log_dir: Path
    policies: Path
    home: Path
    instance: dg.DagsterInstance
    now_ms: int
    spark: Spark = field(default_factory=shared_spark)
    more: tuple[str, ...] = ()

    def resources(self) -> dict[str, Any]:
        """As a code location has them, but for the fixed clock."""
        return platform_resources(
            directories=[str(self.log_dir), *self.more],
            policies=PolicyDirectory(directory=str(self.policies)),
            clock=Clock(fixed_now_ms=self.now_ms),
            spark=self.spark,
        )

    def at(self, now_ms: int) -> Platform:
        """The same platform at another time."""
        return replace(self, now_ms=now_ms)

    def partition(self, key: str) -> Path:
        """The directory of a log."""
        return self.log_dir / key

    def materialize(
        self, keys: Sequence[str], asset: dg.AssetsDefinition = segment_set
    ) -> dg.ExecuteInProcessResult:
        """Run the asset for one key, or for the range from the first to the last."""
        tags = (
            {}
            if len(keys) == 1
            else {
                "dagster/asset_partition_range_start": keys[0],
                "dagster/asset_partition_range_end": keys[-1],
            }
        )
        return dg.materialize(
            [asset],
            instance=self.instance,
            resources=self.resources(),
            partition_key=keys[0] if len(keys) == 1 else None,
            tags=tags,
            raise_on_error=False,
        )

    def sweep(
        self, keys: Sequence[str], job: dg.JobDefinition = sweep
    ) -> dg.ExecuteInProcessResult:
        """Run the sweep for these keys; none: for all."""
        return job.execute_in_process(
            run_config=sweep_run_config(list(keys)) | QUIET,
            instance=self.instance,
            resources=self.resources(),
            raise_on_error=False,
        )

    def materialized(self) -> set[str]:
        """Keys of the logs with a materialization."""
        return set(self.instance.get_materialized_partitions(SEGMENT_SET))


def make_platform(tmp_path: Path, logs: Mapping[str, str], policy: str = POLICY) -> Platform:
    """A platform whose directory holds copies of fixtures' logs under other names.

    Args:
        logs: the fixture of each partition, by ``topic-N``.
    """
    log_dir = tmp_path / "kafka-logs"
    log_dir.mkdir()
    (log_dir / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":-1}')
    for name, case in logs.items():
        copied = copy_before(case, tmp_path / "copies" / name)
        shutil.copytree(copied / "t-0", log_dir / name, copy_function=shutil.copy2)
    policies = tmp_path / "policies"
    policies.mkdir()
    (policies / "policies.yml").write_text(policy)
    home = tmp_path / "dagster"
    instance = new_instance(home)
    instance.add_dynamic_partitions(LOGS_NAME, sorted(logs))
    return Platform(
        log_dir=log_dir,
        policies=policies,
        home=home,
        instance=instance,
        now_ms=max(description(case)["now"] for case in logs.values()),
    )


def new_instance(home: Path) -> dg.DagsterInstance:
    """An instance of its own. Its empty databases are copied: making them takes half a second."""
    shutil.copytree(_empty_instance().name, home)
    return dg.DagsterInstance.local_temp(str(home), overrides=NO_TELEMETRY)


@cache
def _empty_instance() -> TemporaryDirectory[str]:
    made = TemporaryDirectory(prefix="dagster-")
    dg.DagsterInstance.local_temp(made.name, overrides=NO_TELEMETRY).dispose()
    return made


def tree(directory: Path) -> dict[str, str]:
    """Digest of every file below a directory, but for our own working files and the empty file of
    the lock that keeps brokers out, which a broker would make too.
    """
    lock = directory / ".lock"
    return {
        str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
        and ".logwright" not in str(path.relative_to(directory))
        and not (path == lock and path.stat().st_size == 0)
    }


def staged_files(directory: Path) -> list[Path]:
    """Everything below the staging directories of a log directory."""
    return [path for path in directory.rglob("*") if "staging" in path.parts and path.is_file()]


def steps_run(run: dg.ExecuteInProcessResult) -> list[str]:
    """Names of the steps that started, in their order."""
    return [
        str(event.step_key).rpartition(".")[2]
        for event in run.all_events
        if event.event_type is dg.DagsterEventType.STEP_START
    ]


def evaluations(run: dg.ExecuteInProcessResult, key: str) -> dict[str, AssetCheckEvaluation]:
    """What each check of a run said of one log: by itself, or in the list of those that passed."""
    by_check = {}
    for event in run.all_events:
        if event.event_type is dg.DagsterEventType.ASSET_CHECK_EVALUATION:
            evaluation = event.asset_check_evaluation_data
            if evaluation.asset_key != SEGMENT_SET:
                continue  # a sweep checks retention too
            name = evaluation.check_name
            if evaluation.partition == key:
                by_check[name] = evaluation
            elif evaluation.partition is None and (result := _results(evaluation).get(key)):
                passes = result in ("passed", NOTHING_STAGED)
                assert not passes or name not in by_check
                by_check.setdefault(name, record_replace(evaluation, passed=passes))
    return by_check


def _results(evaluation: AssetCheckEvaluation) -> dict[str, str]:
    """The table of an evaluation of several logs: key → result."""
    rows = evaluation.metadata["logs"]
    assert isinstance(rows, dg.TableMetadataValue)
    return {str(row.data["log"]): str(row.data["result"]) for row in rows.records}


def failed_checks(run: dg.ExecuteInProcessResult, key: str) -> set[str]:
    """Names of the checks that one log failed; all of them must have spoken, but the contract of
    values, which not every topic has. A failure has an evaluation with the log's partition.
    """
    by_check = evaluations(run, key)
    assert by_check.keys() | {VALUE_CONTRACT} == CHECKS.keys()
    failed = {name for name, evaluation in by_check.items() if not evaluation.passed}
    assert all(by_check[name].partition == key for name in failed)
    return failed
