"""``logwright erase --now-and-for-good``: plan, ask, and erase log by log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from logwright.cli.leaving import leave_held
from logwright.cli.recover import recover_first, show_recovery_first, topic_ids
from logwright.compaction.runtime import Runtime, Throttle, available_cores
from logwright.erasure.erase.commit import (
    build_and_check,
    commit_erasure,
    needs_purge,
    plan_erasure_of,
)
from logwright.erasure.erase.directories import (
    MarkedErasure,
    MarkedPartition,
    chosen_marked,
    plan_marked,
    recover_marked,
    remove_deleted,
)
from logwright.errors import LogwrightError, PreconditionError
from logwright.locks import broker_kept_out, lock_log_dir

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from logwright.cli.output import Progress
    from logwright.cli.planning import FailureLog
    from logwright.cli.request import Request
    from logwright.config.topic import CleanerConfig
    from logwright.erasure.erase.model import Erased, ErasePlan, Matcher
    from logwright.erasure.keys import KeySet
    from logwright.format.names import TopicPartition


def erase_at_once(
    request: Request,
    chosen: KeySet,
    partitions: Sequence[TopicPartition],
    failures: FailureLog,
    options: tuple[bool, int | None],
) -> bool:
    """Erase the records of the keys from all logs; return whether there was something to erase.
    Effects: changes the log directory, unless it is a dry run; output.

    Args:
        partitions: the live logs that keys apply to.
        options: whether unreadable files go, and the threads for each log.
    """
    free = leave_held(request, partitions, force=True)
    task = _Task(request, chosen, failures, options)
    if request.dry_run:
        ready = show_recovery_first(request, failures, like_kafka=False, partitions=free)
        with broker_kept_out(request.log_dir):
            for partition in ready:
                task.show(partition)
            for marked in task.plan_marked():
                task.say_marked(marked, None, done=False)
        return task.has_matches
    with lock_log_dir(request.log_dir):
        recover_first(request, failures, like_kafka=False, partitions=free)
        failed = {partition for partition, _ in failures.failures}
        going = [one for one in free if one not in failed]
        request.confirm(
            f"Erase {len(chosen)} keys from {len(going)} logs in {request.log_dir}, at once"
            " and beyond undo?"
        )
        for partition in going:
            task.erase(partition)
        task.erase_marked()
    return task.has_matches


class _Task:
    """One call of the command."""

    def __init__(
        self,
        request: Request,
        chosen: KeySet,
        failures: FailureLog,
        options: tuple[bool, int | None],
    ) -> None:
        self._request = request
        self._chosen = chosen
        self._failures = failures
        self._purge_unreadable, threads = options
        self._threads = threads or available_cores()
        self.has_matches = False
        """A log has, or had, records of the keys."""

    def show(self, partition: TopicPartition) -> None:
        """Show what would be erased of a live log. Effects: reads it; output."""
        keys = self._chosen.for_topic(partition.topic)
        try:
            plan = self._plan(partition, keys, _silent)
        except LogwrightError as error:
            self._failures.add(partition, error)
            return
        self._say(str(partition), plan, None)

    def erase(self, partition: TopicPartition) -> None:
        """Erase a live log. Effects: changes it; output."""
        keys = self._chosen.for_topic(partition.topic)
        try:
            with self._request.output.progress(str(partition)) as progress:
                plan = self._plan(partition, keys, progress)
                done = self._commit(plan, keys, progress)
        except LogwrightError as error:
            self._failures.add(partition, error)
            return
        self._say(str(partition), plan, done)

    def plan_marked(self) -> list[MarkedErasure]:
        """Plan the deleted, stray and future logs. Effects: reads them; output."""
        request, plans = self._request, []
        for marked, keys in chosen_marked(request.log_dir, self._chosen, request.is_wanted):
            try:
                plan = plan_marked(
                    request.log_dir,
                    marked,
                    request.settings(marked.partition.topic),
                    keys,
                    now_ms=request.now_ms,
                    progress=_silent,
                    purge_unreadable=self._purge_unreadable,
                )
            except LogwrightError as error:
                self._failures.add_directory(marked.name, error)
            else:
                plans.append(plan)
        return plans

    def _recover_marked(self) -> None:
        """Recover stray and future logs that an interruption has left. Effects: changes them."""
        request = self._request
        found = chosen_marked(request.log_dir, self._chosen, request.is_wanted)
        names = [marked.name for marked, _ in found if marked.mark != "delete"]
        recover_marked(
            request.log_dir,
            names,
            request.settings,
            now_ms=request.now_ms,
            topic_ids=topic_ids(request),
        )

    def erase_marked(self) -> None:
        """Erase the deleted, stray and future logs. Effects: changes them; output."""
        self._recover_marked()
        plans = self.plan_marked()
        stay = remove_deleted(self._request.log_dir, [one.name for one in plans if one.removed])
        for one in plans:
            try:
                done = None
                if one.plan is not None:
                    done = self._commit(one.plan, one.keys, _silent)
                elif one.name in stay:
                    raise PreconditionError(
                        f"it stays: {stay[one.name]}.",
                        path=self._request.log_dir / one.name,
                        remedy="Remove what does not belong there, then run it again.",
                    )
            except LogwrightError as error:
                self._failures.add_directory(one.name, error)
            else:
                self.say_marked(one, done, done=True)

    def _plan(self, partition: TopicPartition, keys: Matcher, progress: Progress) -> ErasePlan:
        request = self._request
        settings = request.settings(partition.topic)
        return plan_erasure_of(
            request.log_dir,
            partition,
            settings,
            keys,
            now_ms=request.now_ms,
            progress=progress,
            runtime=self._runtime(settings[1]),
            purge_unreadable=self._purge_unreadable,
        )

    def _runtime(self, cleaner: CleanerConfig) -> Runtime:
        return Runtime(threads=self._threads, throttle=Throttle(cleaner.io_max_bytes_per_second))

    def _commit(self, plan: ErasePlan, keys: Matcher, progress: Progress) -> Erased | None:
        """Erase one log if there is something to erase; return None otherwise."""
        if not plan.rebuilds and not needs_purge(plan, keys) and not plan.copies:
            return None
        runtime = self._runtime(plan.clean.cleaner)
        staged = build_and_check(plan, keys, progress=progress, runtime=runtime)
        return commit_erasure(staged, keys)

    def say_marked(self, one: MarkedErasure, erased: Erased | None, *, done: bool) -> None:
        """Report about a marked directory. Effects: output."""
        if one.plan is not None:
            self._say(one.name, one.plan, erased)
            return
        self.has_matches |= one.removed
        output = self._request.output
        output.json_object(
            {
                "directory": one.name,
                "now": self._request.now_ms,
                "erased": done,
                "removed": one.removed,
                "unreadable": list(one.unreadable),
            }
        )
        if one.removed:
            output.text(f"{one.name}: {'removed' if done else 'would be removed'}")
        _say_unreadable(output.message, one.name, one.unreadable)

    def _say(self, name: str, plan: ErasePlan, done: Erased | None) -> None:
        output, scan = self._request.output, plan.scan
        unreadable = [copy.path for copy in plan.copies if copy.matches is None]
        purged = [copy.path for copy in plan.copies if copy.matches]
        if done is not None:
            unreadable, purged = list(done.unreadable), list(done.purged)
        elif self._purge_unreadable:
            unreadable, purged = [], [*purged, *unreadable]
        self.has_matches |= bool(scan.records or purged)
        log = plan.clean.log
        is_marked = isinstance(log.partition, MarkedPartition)
        output.json_object(
            {
                "directory" if is_marked else "topicPartition": name,
                "now": self._request.now_ms,
                "erased": not self._request.dry_run,
                "records": scan.records,
                "segments": [segment.base_offset for segment in scan.segments],
                "rolled": plan.clean.roll.due,
                "bytesBefore": log.log_bytes,
                "bytesAfter": log.log_bytes if done is None else done.bytes_after,
                "purged": purged,
                "unreadable": unreadable,
            }
        )
        output.text(
            f"{name}: {scan.records} records in {len(scan.segments)} of {len(log.segments)}"
            f" segments, {len(purged)} other files"
        )
        _say_unreadable(output.message, name, unreadable)


def _say_unreadable(say: Callable[[str], None], name: str, files: Sequence[str]) -> None:
    for file in files:
        say(
            f"{name}: {file} stays: it cannot be read to its end, so it may hold these keys."
            " --purge-unreadable removes it."
        )


def _silent(phase: str, done: int, total: int) -> None:
    del phase, done, total
