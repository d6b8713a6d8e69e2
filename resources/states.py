"""What the steps of a sweep pass on to each other."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import dagster as dg

from logwright import durable
from logwright.errors import PreconditionError
from logwright.format.names import TopicPartition
from logwright.place.model import Place
from logwright.place.named import place_of
from logwright.sweep.model import LogWork, SweepState, local_part
from logwright.sweep.stages import discard
from logwright.units import TimestampMs

DIRECTORY: Final = "sweep_states"
KEPT_RUNS: Final = 1_000
"""How many runs can be executed again from a failed step: the newest."""
_VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LostState(SweepState[Place]):
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
        self._states: dict[tuple[str, ...], SweepState[Place]] = {}
        self._latest: SweepState[Place] | None = None

    def handle_output(self, context: dg.OutputContext, obj: SweepState[Place]) -> None:
        """Keep a state. Effects: writes the file of the run, and removes those of old runs. If that
        fails, the run continues with a warning: it cannot be executed again from a step.
        """
        identifier = tuple(context.get_identifier())
        self._states[identifier] = self._latest = obj
        path = _path(context.step_context.instance, identifier)
        try:
            _write(path, json.dumps(_content(obj)))
        except OSError as error:
            context.log.warning(
                "the state of the run was not written, so it cannot be executed again from a"
                " failed step: %s",
                error,
            )

    def load_input(self, context: dg.InputContext) -> SweepState[Place]:
        """Return the state; a `LostState` if another process has made it.

        Raises:
            PreconditionError: its file is gone, or not readable.
        """
        identifier = tuple(context.get_identifier())
        if identifier in self._states:
            return self._states[identifier]
        path = _path(context.instance, identifier)
        try:
            return _lost(json.loads(path.read_text()))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise PreconditionError(
                "the state of the run's earlier steps is gone, or of another version.",
                path=path,
                remedy="Execute all steps of the run again.",
            ) from error

    def end(self) -> None:
        """Remove what is still staged, after a run that was canceled between two steps. Effects:
        unlinks staged files.
        """
        if self._latest is not None:
            discard(local_part(self._latest).works)


def _path(instance: dg.DagsterInstance, identifier: tuple[str, ...]) -> Path:
    """Return the run's file: the states of its steps have the same logs and options."""
    return Path(instance.storage_directory()) / DIRECTORY / f"{identifier[0]}.json"


def _content(state: SweepState[Place]) -> dict[str, object]:
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
    """Return the state of a file.

    Raises:
        ValueError, KeyError, TypeError: it has another form.
    """
    if content["version"] != _VERSION:
        raise ValueError(content["version"])
    return LostState(
        works=tuple(
            LogWork(key=key, log_dir=place_of(log_dir), partition=TopicPartition(topic, partition))
            for key, log_dir, topic, partition in content["logs"]
        ),
        now_ms=TimestampMs(content["nowMs"]),
        force=content["force"],
        like_kafka=content["likeKafka"],
    )


def _write(path: Path, content: str) -> None:
    """Write a file; only a new one removes old ones. Other processes do the same."""
    durable.make_directory(path.parent)
    is_new = not path.exists()
    durable.replace(path, content.encode())
    if is_new:
        _remove_old(path.parent)


def _remove_old(directory: Path) -> None:
    """Remove all but the newest files; those that killed processes left have names of their own
    and grow old too.
    """
    files: list[tuple[int, Path]] = []
    for path in directory.iterdir():
        with suppress(FileNotFoundError):  # another process has removed it
            files.append((path.stat().st_mtime_ns, path))
    for _, path in sorted(files)[:-KEPT_RUNS]:
        path.unlink(missing_ok=True)


@dg.io_manager(  # type: ignore[arg-type]  # a generator is a resource too
    description="Keeps the states of a sweep in memory, and their logs on disk."
)
def sweep_states(_: dg.InitResourceContext) -> Iterator[SweepStates]:
    """Yield a manager for one run."""
    states = SweepStates()
    try:
        yield states
    finally:
        states.end()
