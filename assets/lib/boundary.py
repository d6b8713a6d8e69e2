"""Convert the engine's errors to Dagster's."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import dagster as dg

from logwright.assets.lib.check_outputs import RESULT
from logwright.assets.lib.events import show_as_failed
from logwright.assets.lib.holds import quarantine_failed
from logwright.assets.lib.report import table, unplotted
from logwright.errors import LogwrightError, NotALogDir, PreconditionError, StalePlan
from logwright.place.model import Place
from logwright.sweep.model import SweepState, local_part
from logwright.sweep.stages import discard_failed

RETRIES: Final = 2
RETRY_AFTER_SECONDS: Final = 10
SHOWN_FAILURES: Final = 50
"""Maximum failures listed in a run's metadata; the count is always complete."""


def dagster_failure(
    failures: Mapping[str, LogwrightError],
    *,
    logs: int,
    retry_number: int,
) -> dg.Failure | dg.RetryRequested:
    """Return what to raise for logs that failed.

    A run with a single log is retried if the cause is temporary (a lock, disk space). A stale plan
    is not retried: it needs a new plan, from the sensor's next tick. Corrupt data and invalid
    policies are permanent.

    Args:
        failures: partition key → error; at least one.
        logs: number of logs of the run.
        retry_number: number of retries so far.
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


def checked(state: SweepState[Place], context: dg.OpExecutionContext) -> SweepState[Place]:
    """Return the state, if any of its logs has not failed.

    Raises:
        Failure: all logs failed. Those that failed permanently are in quarantine.
        RetryRequested: its only log failed temporarily.
    """
    if state.failures and not state.going_on:
        quarantine_failed(state)
        raised = dagster_failure(
            state.failures, logs=len(state.works), retry_number=context.retry_number
        )
        if not isinstance(raised, dg.RetryRequested):
            show_as_failed(context, state.failures)
        raise raised from next(iter(state.failures.values()))
    return state


def after_failed_swap(
    state: SweepState[Place],
    context: dg.OpExecutionContext,
    more: Mapping[str, LogwrightError],
) -> dg.Failure | dg.RetryRequested:
    """Return what to raise for logs that were not swapped, and for others: `more`, key → error.

    Effects: quarantines those that failed permanently. Removes their staged files, unless a retry
    needs them.
    """
    quarantine_failed(state)
    failures = {**state.failures, **more}
    logs = len({work.key for work in state.works} | failures.keys())
    raised = dagster_failure(failures, logs=logs, retry_number=context.retry_number)
    if not isinstance(raised, dg.RetryRequested):
        discard_failed(local_part(state))
        show_as_failed(context, state.failures)
    return raised


def recorded(
    context: dg.AssetExecutionContext,
    asset_key: dg.AssetKey,
    metadata: Mapping[str, Mapping[str, Any]],
    failures: Mapping[str, LogwrightError],
) -> Iterator[dg.AssetMaterialization | dg.Output[None]]:
    """Yield the materializations of a run's partitions: the output `RESULT`.

    Args:
        context: of a step of the asset.
        asset_key: the asset.
        metadata: partition key → metadata, for the logs that did not fail.
        failures: partition key → error.

    Raises:
        Failure: a log failed. The others are recorded before.
    """
    if failures:
        for key, shown in metadata.items():
            yield dg.AssetMaterialization(
                asset_key=asset_key, partition=key, metadata=unplotted(shown)
            )
        logs = len(metadata) + len(failures)
        raise dagster_failure(
            failures, logs=logs, retry_number=context.op_execution_context.retry_number
        )
    for key, shown in metadata.items():
        context.add_asset_metadata(unplotted(shown), partition_key=key)
    yield dg.Output(None, RESULT)


@contextmanager
def boundary(what: str) -> Iterator[None]:
    """Turn an error of the whole run, such as an invalid policy, into Dagster's Failure.

    Args:
        what: what the step does, for the message.

    Raises:
        Failure: for any LogwrightError.
    """
    try:
        yield
    except LogwrightError as error:
        raise dagster_failure({what: error}, logs=0, retry_number=RETRIES) from error


def failure_table(failures: Mapping[str, LogwrightError]) -> dg.TableMetadataValue:
    """Return failures as a table."""
    rows = [(key, type(error).__name__, str(error)) for key, error in failures.items()]
    return table(("log", "error", "what"), rows, most=SHOWN_FAILURES)
