"""Sweep states between the steps of a run: in memory, and planned again in another process."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import dagster as dg
from pydantic import PrivateAttr

from logwright.compaction.model import CleaningOptions
from logwright.errors import LogwrightError
from logwright.resources.clock import Clock
from logwright.resources.log_dirs import LogDirs
from logwright.resources.policies import PolicyDirectory
from logwright.sweep.holds import hold
from logwright.sweep.model import LogWork, SweepState
from logwright.sweep.recover import recover
from logwright.sweep.stages import plan

DIRECTORY: Final = "sweep_states"
"""Below ``logwright`` in the instance's storage: one JSON file for each run."""

KEPT: Final = 1_000
"""Maximum number of these files; the oldest are removed."""


class SweepStates(dg.ConfigurableIOManager):
    """Hands states from step to step of a run.

    A state is valid in the process that made it: its plans are alive there, and so are the staged
    files. What outlives the process is which logs the run is about and with which options. When a
    run is executed again from a failure, its first step gets these logs recovered and planned
    again, so that no stale plan is used; later steps build and check again (docs/adr/0022).

    Attributes:
        log_dirs, policies, clock: as the steps have them.
    """

    log_dirs: dg.ResourceDependency[LogDirs]
    policies: dg.ResourceDependency[PolicyDirectory]
    clock: dg.ResourceDependency[Clock]
    _states: dict[tuple[str, ...], SweepState] = PrivateAttr(default_factory=dict)
    _directory: Path | None = PrivateAttr(default=None)

    def setup_for_execution(self, context: dg.InitResourceContext) -> None:
        """Remember the instance's storage directory."""
        if context.instance is not None:
            storage = Path(context.instance.storage_directory())
            self._directory = storage / "logwright" / DIRECTORY

    def teardown_after_execution(self, context: dg.InitResourceContext) -> None:  # noqa: ARG002 - Dagster's signature
        """Forget the states of the run."""
        self._states.clear()

    def handle_output(self, context: dg.OutputContext, obj: SweepState) -> None:
        """Keep a state. Effects: with the first of a run, writes the run's file."""
        self._states[tuple(context.get_identifier())] = obj
        if self._directory is not None:
            path = self._directory / f"{context.run_id}.json"
            if not path.exists():
                write_request(path, obj)

    def load_input(self, context: dg.InputContext) -> SweepState:
        """Return the state of an earlier step. Effects: if another process made it, as a recovery
        and a plan.

        Raises:
            Failure: the earlier run has no file, or its logs or the policies cannot be read.
        """
        found = self._states.get(tuple(context.get_identifier()))
        if found is not None:
            return found
        upstream = context.upstream_output
        run_id = upstream.run_id if upstream is not None else ""
        try:
            state = self._planned_again(run_id)
        except (LogwrightError, OSError, ValueError, KeyError) as error:
            raise dg.Failure(
                description=f"The sweep of run {run_id} cannot be resumed: {error}. Execute all"
                " steps again.",
                allow_retries=False,
            ) from error
        context.log.info("%s logs of run %s were planned again.", len(state.works), run_id)
        return state

    def _planned_again(self, run_id: str) -> SweepState:
        if self._directory is None:
            raise ValueError("the instance has no storage directory")
        asked = json.loads((self._directory / f"{run_id}.json").read_text(encoding="utf-8"))
        settings = self.policies.settings()
        logs = self.log_dirs.listing().find_all(asked["logs"])
        works = (LogWork(key=log.key, log_dir=log.log_dir, partition=log.partition) for log in logs)
        state = SweepState(works=tuple(works), now_ms=self.clock.now_ms())
        options = options_of(asked)
        policies = settings.policies
        return plan(
            recover(hold(state, settings, force=options.force), settings),
            settings,
            options=replace(options, checks=policies.checks),
            high_watermark=policies.high_watermark,
        )


def options_of(asked: Mapping[str, Any]) -> CleaningOptions:
    """Return the options of a run's file."""
    return CleaningOptions(force=asked["force"] is True, like_kafka=asked["like_kafka"] is True)


def request_of(state: SweepState) -> dict[str, Any]:
    """Return what a run's file says: its logs by key, and the options of its plans."""
    options = next((work.plan.options for work in state.works if work.plan), CleaningOptions())
    return {
        "logs": [work.key for work in state.works],
        "force": options.force,
        "like_kafka": options.like_kafka,
    }


def write_request(path: Path, state: SweepState) -> None:
    """Write a run's file. Effects: replaces it; removes the oldest others beyond `KEPT`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    others = sorted(path.parent.glob("*.json"), key=lambda one: one.stat().st_mtime_ns)
    for old in others[: max(0, len(others) - KEPT + 1)]:
        old.unlink(missing_ok=True)
    written = path.with_suffix(".new")
    written.write_text(json.dumps(request_of(state)), encoding="utf-8")
    written.replace(path)
