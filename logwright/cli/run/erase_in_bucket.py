"""``logwright erase URL --now-and-for-good``: see `logwright.erasure.in_bucket`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol, TypeAlias

from logwright.cli.request import Request
from logwright.cli.run.in_bucket import in_bucket
from logwright.cli.wording import counted
from logwright.erasure.in_bucket import (
    concerned_logs,
    count_erasure,
    erase_copy,
    erased_in_copy,
    seen_now,
)
from logwright.erasure.outcome import Failed, LogResult, Result
from logwright.erasure.run import Erasure, plan_logs
from logwright.format.names import TopicPartition
from logwright.locks import lock_log_dir
from logwright.maintenance.undo import ERASE
from logwright.place.model import Place

InCopy: TypeAlias = Callable[[Request], Erasure]


class Shows(Protocol):
    """What shows results."""

    def show(self, result: Result) -> None:
        """Show what became of a log."""


def erase_in_bucket(
    request: Request,
    erasure: Erasure[Place],
    logs: Sequence[TopicPartition],
    shown: Shows,
    *,
    in_copy: InCopy,
    scratch: Path | None,
) -> bool:
    """Erase from logs in a bucket; return whether they had records of the requests. Effects:
    changes them, unless it is a dry run; output.

    Args:
        in_copy: what is erased from a working copy, which its request is of.
        scratch: where working copies are made; None: where temporary files are.

    Raises:
        LogwrightError: the bucket cannot be searched.
    """
    erasure = seen_now(erasure)
    concerned = concerned_logs(erasure, logs)
    if concerned and not request.dry_run:
        request.confirm(
            f"Erase {len(erasure.keys)} keys from {counted(len(concerned), 'log')} in"
            f" {request.place}, at once and beyond undo? The objects of earlier versions keep them"
            " until a purge."
        )
    had_matches, not_erased = False, set(concerned)
    for partition in concerned:
        with request.failures.of(partition):
            results = _erase(request, in_copy, partition, scratch)
            for result in results:
                shown.show(result)
                had_matches |= result.has_matches
            if not any(isinstance(result, Failed) for result in results):
                not_erased.discard(partition)
    counted_logs = [] if request.dry_run else [each for each in logs if each not in not_erased]
    for failed in count_erasure(erasure, counted_logs):
        shown.show(failed)
    return had_matches


def _erase(
    request: Request, in_copy: InCopy, partition: TopicPartition, scratch: Path | None
) -> list[LogResult]:
    """Erase from one log; return what was done. Effects: changes it, unless it is a dry run.

    Raises:
        LogwrightError: as `in_bucket`.
    """
    ended: list[LogResult] = []

    def act(local: Request) -> list[LogResult] | None:
        if request.dry_run:
            with lock_log_dir(local.log_dir):
                ended[:] = plan_logs(in_copy(local), [partition])
            return None
        return ended if erase_copy(in_copy(local), partition, ended) else None

    in_bucket(request, partition, ERASE, act, scratch, erased=erased_in_copy)
    return ended
