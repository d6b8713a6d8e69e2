"""The job `rescue`: free the disk of stopped brokers' log directories, as `rescue --free` does."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import dagster as dg
from pydantic import Field

from logwright.assets.lib.boundary import boundary, dagster_failure
from logwright.assets.lib.human import human_bytes
from logwright.assets.lib.partitions import FLEET_INVENTORY
from logwright.assets.lib.report import table
from logwright.assets.segments.segment_set import POOL
from logwright.config.sources import DirectorySettings
from logwright.errors import LogwrightError, PolicyError
from logwright.fleet.freeing import directory_to_free
from logwright.format.names import TopicPartition
from logwright.place.model import Place, is_local
from logwright.rescue.free import FreeStep, at_most
from logwright.rescue.free_disk import (
    Done,
    Freeing,
    Outlook,
    by_file_system,
    free_space,
    key_of,
    require_names,
)
from logwright.resources.clock import Clock
from logwright.resources.log_dirs import LogDirs
from logwright.resources.policies import PolicyDirectory
from logwright.sweep.model import LogWork, SweepState
from logwright.sweep.recover import recover

RESCUE: Final = "rescue"
FREE_DISK: Final = "free_disk"
SHOWN_STEPS: Final = 500
"""Maximum rows of a table in the run; the sums are always complete."""
_PLAN: Final = ("step", "path", "needed", "bytes at most", "files", "needs bytes", "what")
_DONE: Final = ("step", "path", "outcome", "bytes freed", "seconds")


class TighterRetention(dg.Config):
    """Another retention of a topic than its own; its oldest segments go, if they are needed.

    Attributes:
        retention_ms, retention_bytes: as Kafka's; None: the topic's own.
    """

    topic: str
    retention_ms: int | None = Field(default=None, ge=0)
    retention_bytes: int | None = Field(default=None, ge=0)


class RescueConfig(dg.Config):
    """What to free, and what may go for it.

    Attributes:
        log_dirs: names or paths of log directories, all of those on the file system.
        free_bytes: what shall be free on each of their file systems.
        dry_run: only show the plan.
        tighter_retention: topics that may lose more records than their settings say; none unless
            they are named here.
        strays: names of directories of stray logs that may go.
        reserve_bytes: what a compaction leaves free; None: a hundredth, at most 64 MiB.
    """

    log_dirs: list[str] = Field(min_length=1)
    free_bytes: int = Field(ge=1)
    dry_run: bool = False
    tighter_retention: list[TighterRetention] = Field(default_factory=list)
    strays: list[str] = Field(default_factory=list)
    reserve_bytes: int | None = Field(default=None, ge=0)


@dataclass(slots=True, kw_only=True)
class _Run:
    """Shows in the run what is done.

    Attributes:
        steps, chosen: of all plans so far, by what they are known by.
        failures: log or directory → error.
    """

    context: dg.OpExecutionContext
    settings: DirectorySettings
    freeing: Freeing
    dry_run: bool
    steps: dict[object, FreeStep] = field(default_factory=dict)
    chosen: set[object] = field(default_factory=set)
    all_done: list[Done] = field(default_factory=list)
    held: dict[str, str] = field(default_factory=dict)
    failures: dict[str, LogwrightError] = field(default_factory=dict)

    def planned(self, outlook: Outlook, chosen: Sequence[FreeStep]) -> bool:
        """Show a plan; it is done unless it is a dry run. Effects: the run's log."""
        self.steps |= {key_of(step): step for step in outlook.steps}
        self.chosen |= set(map(key_of, chosen))
        self.held |= {_path(key): str(error) for key, error in outlook.unclean.items()}
        self.held |= {_path(key): hold.sentence for key, hold in outlook.held.items()}
        self.failures |= {_path(key): error for key, error in outlook.failures.items()}
        log = self.context.log.info
        log("Planned: %s", plan_sentence(chosen, self.freeing))
        for step in chosen[:SHOWN_STEPS]:
            log("%s: %s: %s at most", step.kind, step.log_dir / step.name, human_bytes(step.bytes))
        return not self.dry_run

    def done(self, done: Done) -> None:
        """Show what became of a step. Effects: the run's log."""
        self.all_done.append(done)
        path = str(done.step.log_dir / done.step.name)
        if done.error is not None:
            self.failures[path] = done.error
        self.context.log.info("%s: %s: %s", done.step.kind, path, outcome_of(done))

    def recover(self) -> None:
        """Recover what was not shut down cleanly. Effects: as `recover`."""
        works = tuple(
            LogWork(key=_path((own.log_dir, each)), log_dir=own.log_dir, partition=each)
            for own in self.freeing.directories
            for each in own.partitions
        )
        state = recover(SweepState(works=works, now_ms=self.freeing.now_ms), self.settings)
        self.failures |= state.failures
        recovered = sum(work.recovered is not None for work in state.works)
        if recovered:
            self.context.log.info("%d logs were recovered first.", recovered)


def plan_sentence(chosen: Sequence[FreeStep], freeing: Freeing) -> str:
    """Return a plan in words. Effects: asks the file system."""
    free, worst = freeing.space.free, max((step.need for step in chosen), default=0)
    frees = human_bytes(at_most(chosen))
    return (
        f"{human_bytes(free)} are free, {human_bytes(freeing.goal)} were asked for;"
        f" {len(chosen)} steps free {frees} at most, and need {human_bytes(worst)} at the worst"
        " moment."
    )


def outcome_of(done: Done) -> str:
    """Return what became of a step, in words."""
    if done.error is not None:
        return f"not done: {done.error}"
    freed = f"freed {human_bytes(done.freed)}"
    if done.need is None:
        return freed
    need, free = human_bytes(done.need), human_bytes(done.free)
    return f"{freed}; its next group of segments needs {need}, {free} are free, and some are kept"


@dg.op(out=dg.Out(dg.Nothing), pool=POOL)
def free_disk(
    context: dg.OpExecutionContext,
    config: RescueConfig,
    log_dirs: LogDirs,
    policies: PolicyDirectory,
    clock: Clock,
) -> Iterator[dg.AssetObservation | dg.Output[None]]:
    """Free the file systems of log directories: what costs nothing first, then by the topics' own
    settings, and no more than is needed. Show the plan, and what each step freed.
    """
    with boundary(FREE_DISK):
        settings = policies.settings()
        places = [directory_named(name, log_dirs.named()) for name in config.log_dirs]
        directories = [directory_to_free(path, settings) for path in dict.fromkeys(places)]
        tighter = _limits(config.tighter_retention)
        require_names(directories, config.strays, tighter)
    failures: dict[str, LogwrightError] = {}
    totals = {"bytes freed": 0, "steps done": 0}
    for own in by_file_system(directories):
        freeing = Freeing(
            directories=own,
            goal=config.free_bytes,
            now_ms=clock.now_ms(),
            reserve=config.reserve_bytes,
            strays=frozenset(config.strays),
            tighter=tighter,
        )
        run = _Run(context=context, settings=settings, freeing=freeing, dry_run=config.dry_run)
        before = freeing.space.free
        try:
            free_space(freeing, run)
        except LogwrightError as error:
            run.failures[str(own[0].log_dir)] = error.as_value()
        yield from _observations(run, before)
        short = None if config.dry_run else freeing.short()
        failures |= run.failures
        if short is not None:
            failures.setdefault(str(own[0].log_dir), short)
        totals["bytes freed"] += sum(done.freed for done in run.all_done)
        totals["steps done"] += sum(
            done.error is None and done.need is None for done in run.all_done
        )
    if failures:
        raise dagster_failure(failures, logs=0, retry_number=context.retry_number)
    yield dg.Output(None, metadata=totals)


@dg.job(name=RESCUE, executor_def=dg.in_process_executor)
def rescue() -> None:
    """Free the disk of stopped brokers' log directories (`logwright rescue --free`): what costs
    nothing first, then by the topics' own settings, and no more than is needed. No undo.
    """
    free_disk()


def rescue_config(log_dirs: Sequence[str], free_bytes: int) -> dict[str, Any]:
    """Return the config of a run that tightens nothing."""
    config = {"log_dirs": list(log_dirs), "free_bytes": free_bytes}
    return {"ops": {FREE_DISK: {"config": config}}}


def directory_named(name: str, named: dict[str, Place]) -> Path:
    """Return the log directory of a name or a path.

    Raises:
        PolicyError: there is none, or it is not of this machine.
    """
    by_name = {str(place): place for place in named.values()} | named
    place = by_name.get(name)
    if place is None:
        raise PolicyError(
            f"{name!r} is not a log directory of the platform.",
            remedy=f"Use one of {', '.join(named)}.",
        )
    if not is_local(place):
        raise PolicyError(
            f"{name!r} is not on a disk of this machine.",
            remedy="Name only log directories on the file system that is full.",
        )
    return place


def _limits(tighter: Sequence[TighterRetention]) -> dict[str, dict[str, int]]:
    limits: dict[str, dict[str, int]] = {}
    for topic in tighter:
        own = {"retention.ms": topic.retention_ms, "retention.bytes": topic.retention_bytes}
        given = {name: value for name, value in own.items() if value is not None}
        if not given:
            raise PolicyError(
                f"tighter_retention of {topic.topic} is empty.",
                remedy="Give retention_ms or retention_bytes.",
            )
        limits.setdefault(topic.topic, {}).update(given)
    return limits


def _observations(run: _Run, before: int) -> Iterator[dg.AssetObservation]:
    """Yield the plan and what was done, for each log directory of a file system: also of a run that
    fails then. Effects: asks the file system.
    """
    freeing = run.freeing
    free = freeing.space.free
    chosen = [step for key, step in run.steps.items() if key in run.chosen]
    for directory in freeing.directories:
        own = [step for step in run.steps.values() if step.log_dir == directory.log_dir]
        done = [one for one in run.all_done if one.step.log_dir == directory.log_dir]
        yield dg.AssetObservation(
            asset_key=FLEET_INVENTORY,
            description=f"Rescue of {directory.log_dir}: {human_bytes(free)} are free,"
            f" {human_bytes(before)} were.",
            metadata={
                "log directory": dg.MetadataValue.path(str(directory.log_dir)),
                "bytes asked for": freeing.goal,
                "free bytes before": before,
                "free bytes": free,
                "lowest free bytes": freeing.lowest,
                "bytes needed at the worst moment": max((one.need for one in chosen), default=0),
                "plan": table(_PLAN, (_plan_row(step, run) for step in own), most=SHOWN_STEPS),
                "done": table(_DONE, map(_done_row, done), most=SHOWN_STEPS),
                "left out": table(("log", "why"), run.held.items(), most=SHOWN_STEPS),
            },
        )


def _plan_row(step: FreeStep, run: _Run) -> tuple[object, ...]:
    is_needed = "yes" if key_of(step) in run.chosen else "no"
    path = step.log_dir / step.name
    return (step.kind, path, is_needed, step.bytes, step.files, step.need, step.detail)


def _done_row(done: Done) -> tuple[object, ...]:
    path = done.step.log_dir / done.step.name
    return (done.step.kind, path, outcome_of(done), done.freed, round(done.seconds, 3))


def _path(log: tuple[Path, TopicPartition]) -> str:
    return str(log[0] / log[1].directory_name)
