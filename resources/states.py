"""What the steps of a sweep pass on to each other."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import dagster as dg

from logwright.errors import PreconditionError
from logwright.format.names import TopicPartition
from logwright.sweep.model import LogWork, SweepState
from logwright.units import TimestampMs

DIRECTORY: Final = "sweep_states"
KEPT_SECONDS: Final = 30 * 24 * 3600
"""How long a run can be executed again from a failed step."""
_VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LostState(SweepState):
    """The state of a run that another process executes again: only its logs.

    Plans and staged output are not kept. A plan is stale once its run is over, and what a run has
    staged is removed when it fails.

    Attributes:
        force, like_kafka: the options of the run.
    """

    force: bool
    like_kafka: bool


class SweepStates(dg.IOManager):
    """Keeps states in memory, and their logs and options below the instance's storage."""

    def __init__(self) -> None:
        self._states: dict[tuple[str, ...], SweepState] = {}

    def handle_output(self, context: dg.OutputContext, obj: SweepState) -> None:
        """Keep a state. Effects: writes a file of the run, for which it removes old ones."""
        identifier = tuple(context.get_identifier())
        path = _path(context.step_context.instance, identifier)
        self._states[identifier] = obj
        path.parent.mkdir(exist_ok=True)
        _remove_old(path.parent)
        being_written = path.with_suffix(f".{os.getpid()}.tmp")
        being_written.write_text(json.dumps(_content(obj)))
        being_written.replace(path)

    def load_input(self, context: dg.InputContext) -> SweepState:
        """Return the state; a `LostState` if another process has made it.

        Raises:
            PreconditionError: its file is gone.
        """
        identifier = tuple(context.get_identifier())
        if identifier in self._states:
            return self._states[identifier]
        path = _path(context.instance, identifier)
        try:
            content = json.loads(path.read_text())
        except (OSError, ValueError) as error:
            raise PreconditionError(
                "the state of the run's earlier steps is not there any more.",
                path=path,
                remedy="Execute all steps of the run again.",
            ) from error
        return _lost(content)


def _path(instance: dg.DagsterInstance, identifier: tuple[str, ...]) -> Path:
    run_id, *rest = identifier
    name = "-".join([run_id, *rest]).replace("/", "_")
    return Path(instance.storage_directory()) / DIRECTORY / f"{name}.json"


def _content(state: SweepState) -> dict[str, object]:
    plans: Iterator[Any] = (work.plan for work in state.works if work.plan is not None)
    options = next((plan.options for plan in plans), None)
    return {
        "version": _VERSION,
        "nowMs": state.now_ms,
        "force": options is not None and options.force,
        "likeKafka": options is not None and options.like_kafka,
        "logs": [
            [work.key, str(work.log_dir), work.partition.topic, work.partition.partition]
            for work in state.works
        ],
    }


def _lost(content: dict[str, Any]) -> LostState:
    return LostState(
        works=tuple(
            LogWork(key=key, log_dir=Path(log_dir), partition=TopicPartition(topic, partition))
            for key, log_dir, topic, partition in content["logs"]
        ),
        now_ms=TimestampMs(content["nowMs"]),
        force=content["force"],
        like_kafka=content["likeKafka"],
    )


def _remove_old(directory: Path) -> None:
    oldest = time.time() - KEPT_SECONDS
    for path in directory.iterdir():
        if path.stat().st_mtime < oldest:
            path.unlink(missing_ok=True)


@dg.io_manager(description="Keeps the states of a sweep in memory, and their logs on disk.")
def sweep_states(_: dg.InitResourceContext) -> SweepStates:
    """Return a manager for one run."""
    return SweepStates()
