"""The one place where the engine's errors become Dagster's."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import dagster as dg

from logwright.assets.holds import quarantine_failed
from logwright.errors import LogwrightError, NotALogDir, PreconditionError, StalePlan
from logwright.sweep.model import SweepState
from logwright.sweep.stages import discard_failed

RETRIES: Final = 2
RETRY_AFTER_SECONDS: Final = 10
SHOWN_FAILURES: Final = 50
"""Failures that are listed in one run's metadata; the count is always exact."""


def dagster_failure(
    failures: Mapping[str, LogwrightError],
    *,
    logs: int,
    retry_number: int,
) -> dg.Failure | dg.RetryRequested:
    """What to raise for logs that failed.

    A run's only log, if it just waits for the world (a lock, room on the disk), is tried again. A
    stale plan is not: only a new plan helps, which the sensor's next tick makes. Corrupt bytes and
    wrong policies do not get better.

    Args:
        failures: at least one, by partition key.
        logs: how many logs the run has.
        retry_number: how often the step was retried already.
    """
    first = next(iter(failures.values()))
    waits = isinstance(first, PreconditionError) and not isinstance(first, StalePlan | NotALogDir)
    if logs == 1 and waits and retry_number < RETRIES:
        return dg.RetryRequested(max_retries=RETRIES, seconds_to_wait=RETRY_AFTER_SECONDS)
    many = f"{len(failures)} logs failed; the first: " if len(failures) > 1 else ""
    key = next(iter(failures))
    return dg.Failure(
        description=f"{many}{key}: {type(first).__name__}: {first}",
        metadata={"failed": len(failures), "failures": failure_table(failures)},
        allow_retries=False,
    )


def checked(state: SweepState, context: dg.OpExecutionContext) -> SweepState:
    """The state, if a log is left in it.

    Raises:
        Failure: all logs failed. Those that failed for good are in quarantine.
        RetryRequested: its only log did, and may do better in a while.
    """
    if state.failures and not state.going_on:
        quarantine_failed(state)
        raise dagster_failure(
            state.failures, logs=len(state.works), retry_number=context.retry_number
        ) from next(iter(state.failures.values()))
    return state


def after_failed_swap(
    state: SweepState, context: dg.OpExecutionContext
) -> dg.Failure | dg.RetryRequested:
    """What to raise when logs are left that were not swapped.

    Effects: those that failed for good get into quarantine. Removes their staged files unless they
    are needed: for a retry, or because a file step failed in the midst and recovery should find
    things as they are.
    """
    quarantine_failed(state)
    raised = dagster_failure(
        state.failures, logs=len(state.works), retry_number=context.retry_number
    )
    if not isinstance(raised, dg.RetryRequested):
        discard_failed(state)
    return raised


@contextmanager
def boundary(what: str) -> Iterator[None]:
    """Turn an error that concerns the run as a whole, as a wrong policy does, into Dagster's
    failure.

    Args:
        what: the step's work, for the message.

    Raises:
        Failure: for any LogwrightError.
    """
    try:
        yield
    except LogwrightError as error:
        raise dagster_failure({what: error}, logs=0, retry_number=RETRIES) from error


def failure_table(failures: Mapping[str, LogwrightError]) -> dg.MarkdownMetadataValue:
    """Failures as a table."""
    rows = [
        f"| {key} | {type(error).__name__} | {_cell(str(error))} |"
        for key, error in list(failures.items())[:SHOWN_FAILURES]
    ]
    return dg.MetadataValue.md("\n".join(["| log | error | what |", "|---|---|---|", *rows]))


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
