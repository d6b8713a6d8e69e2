"""The job `erase`: the stages of an erasure (`logwright.erasure.run`) as ops, for all log
directories. Part of the platform if the policies have ``erasure:`` with a store.

What ops pass on has ids of requests, names of topics, counts: no key, and no plan. Each op looks at
the disk again, so that a run can be executed again from any of them (docs/adr/0038).
"""

from collections.abc import Iterator
from typing import Final

import dagster as dg
from pydantic import Field

from logwright.assets.erasure.deadlines import POOL as SEARCH_POOL
from logwright.assets.erasure.erase_report import (
    Checked,
    found_metadata,
    row_metadata,
    rows_metadata,
    sentence,
)
from logwright.assets.erasure.erase_work import EraseRun, ErasureWork, certify
from logwright.assets.lib.boundary import boundary
from logwright.assets.lib.partitions import SEGMENT_SET
from logwright.assets.segments.segment_set import POOL
from logwright.erasure.erase.left import Left, find_left
from logwright.erasure.run import silent
from logwright.erasure.topics import topics_of
from logwright.errors import PolicyError

ERASE: Final = "erase"
FIND_RECORDS: Final = "find_records"
_RESOURCES: Final = frozenset({"log_dirs", "policies", "clock"})


class EraseConfig(dg.Config):
    """What to erase, and how.

    Attributes:
        requests: ids of stored requests; empty: all of them. Never keys.
        now_and_for_good: rebuild every segment without the records and unlink the old files,
            instead of appending tombstones; no undo.
        purge_unreadable: with `now_and_for_good`: retired, staged and cut files go also if they
            cannot be read.
    """

    requests: list[str] = Field(default_factory=list)
    now_and_for_good: bool = False
    purge_unreadable: bool = False


@dg.op(pool=SEARCH_POOL, required_resource_keys={*_RESOURCES})
def find_records(context: dg.OpExecutionContext, config: EraseConfig) -> dg.Output[EraseRun]:
    """Choose the requests, and search what there is of them in the log directories."""
    run = EraseRun(
        requests=tuple(config.requests),
        topics=frozenset(),
        at_once=config.now_and_for_good,
        purge_unreadable=config.purge_unreadable,
    )
    with boundary(FIND_RECORDS):
        work = ErasureWork(context, run)
        if not len(work.keys):
            raise PolicyError("there are no requests.", remedy="Let some land, and store them.")
        lefts: dict[str, Left] = {}
        topics: set[str] = set()
        for name, erasure in work.readable():
            search = erasure.search()
            topics |= topics_of(erasure.log_dir, search.metadata)
            lefts[name] = find_left(erasure.log_dir, work.keys, search, silent)
    chosen = tuple(request.id for request in work.keys.requests)
    run = EraseRun(
        requests=chosen,
        topics=frozenset(topics),
        at_once=run.at_once,
        purge_unreadable=run.purge_unreadable,
    )
    return dg.Output(run, metadata=found_metadata(lefts, len(chosen)))


@dg.op(pool=POOL, required_resource_keys={*_RESOURCES})
def plan_erasure(context: dg.OpExecutionContext, run: EraseRun) -> dg.Output[EraseRun]:
    """Leave held logs, recover what needs it, and plan each log; fails only if none can be."""
    with boundary("plan_erasure"):
        work = ErasureWork(context, run)
        rows = work.noted(work.plan(work.recovered()))
    if all(row.error is not None for row in rows):
        work.raise_failures()
    return dg.Output(run, metadata=rows_metadata(rows))


@dg.op(out=dg.Out(EraseRun), pool=POOL, required_resource_keys={*_RESOURCES})
def erase_records(
    context: dg.OpExecutionContext, run: EraseRun
) -> Iterator[dg.AssetObservation | dg.Output[EraseRun]]:
    """Erase log by log, each checked before its commit; then fail if one was not erased."""
    with boundary("erase_records"):
        work = ErasureWork(context, run)
        rows = work.noted(work.erase(work.recovered()))
    for row in filter(lambda row: row.has_matches, rows):
        metadata = row_metadata(row, at_once=run.at_once)
        yield dg.AssetObservation(asset_key=SEGMENT_SET, partition=row.key, metadata=metadata)
    work.raise_failures()
    yield dg.Output(run, metadata=rows_metadata(rows))


@dg.op(pool=POOL, required_resource_keys={*_RESOURCES})
def purge_erased(context: dg.OpExecutionContext, run: EraseRun) -> dg.Output[EraseRun]:
    """Remove deleted logs: those with records at once, else those that are due; at once, erase from
    stray and future logs.
    """
    with boundary("purge_erased"):
        work = ErasureWork(context, run)
        rows = work.noted(work.purge())
    work.raise_failures()
    return dg.Output(run, metadata=rows_metadata(rows))


@dg.op(pool=SEARCH_POOL, required_resource_keys={*_RESOURCES})
def check_erased(context: dg.OpExecutionContext, run: EraseRun) -> dg.Output[Checked]:
    """Search the log directories and the tables for what is left. Nothing that the erasure reports
    is used.
    """
    with boundary("check_erased"):
        checked = ErasureWork(context, run).check()
    return dg.Output(checked, metadata=checked.metadata())


@dg.op(out=dg.Out(dg.Nothing), pool=SEARCH_POOL, required_resource_keys={*_RESOURCES})
def certify_erased(
    context: dg.OpExecutionContext, run: EraseRun, checked: Checked
) -> dg.Output[None]:
    """Sign what was found, if the policies say where; then fail unless nothing is left. Executed
    again by another run, it searches again.
    """
    with boundary("certify_erased"):
        work = ErasureWork(context, run)
        if checked.run_id != context.run_id:
            checked = work.check()
        status, certificate = certify(work, checked.status)
    ending = {"exit status": status, "outcome": sentence(status), **certificate}
    # First, since tables are long; and again, since the certificate may have raised the status.
    metadata = {**ending, **checked.metadata(), **ending}
    if status:
        raise dg.Failure(f"{status}: {sentence(status)}.", metadata=metadata, allow_retries=False)
    return dg.Output(None, metadata=metadata)


@dg.job(
    name=ERASE,
    executor_def=dg.in_process_executor,
    description="Erase the records of erasure requests: find, plan, erase, purge, check, certify."
    " Give ids of requests, never keys.",
)
def erase() -> None:
    """Erase, op by op; the run fails unless nothing of the requests is left."""
    run = purge_erased(erase_records(plan_erasure(find_records())))
    certify_erased(run, check_erased(run))
