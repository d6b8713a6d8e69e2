"""The maintenance of one broker of a running cluster, step by step.

check → stop → maintain → start → verify. Each step looks at the cluster and at the locks again; the
journal is only a hint of where an interrupted run was (`plan.resumed`). Once the stop hook is
called, whatever happens ends with the start hook (`BrokerMaintenance.brought_back`).
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from logwright.config.cluster import Cluster, ClusterBroker, Commands
from logwright.errors import LogwrightError, PolicyError, PreconditionError
from logwright.locks import is_held
from logwright.metadata.quorum import QuorumLeader
from logwright.metadata.read import read_directory_ids
from logwright.rolling.controller import noted_leader
from logwright.rolling.hooks import Ended, interrupted_after, log_output, masked, run_command
from logwright.rolling.journal import read_journal, write_journal
from logwright.rolling.model import (
    ClusterNow,
    ClusterUnavailable,
    HookFailed,
    Journal,
    MaintenanceFailed,
    NotInTime,
    PartitionNow,
    Standing,
    Step,
)
from logwright.rolling.plan import (
    danger_of,
    not_in_sync,
    not_on_record,
    obstacles_of,
    outside_of_windows,
    resumed,
    standing_of,
    to_elect,
)
from logwright.times import duration

if TYPE_CHECKING:
    import pyarrow as pa

    from logwright.rolling.records import Which

_POLL_SECONDS: Final = 0.5
_ELECTION_MS: Final = 60_000
"""How long the preferred leaders are waited for. Without them the cluster works as well."""
_ON_RECORD_MS: Final = 60_000
"""How long the high watermarks on record are waited for: written each five seconds by default."""
_JOURNAL: Final = "rolling.json"
_HERE: Final = (
    sys.executable,
    "-c",
    "from logwright.cli.main import main; main(prog_name='logwright')",
)
"""Runs the logwright of this installation."""
_READS: Final = frozenset({"verify"})
"""Commands that ask nothing."""
_CLEANS: Final = frozenset({"clean", "maintain"})
"""Commands that remove tombstones and markers."""
_STATUSES: Final = range(2, 11)
"""Exit statuses of logwright that are kept; any other one becomes a precondition's."""


class Admin(Protocol):
    """What is asked of a running cluster; see `logwright.rolling.cluster.RunningCluster`."""

    def look(self) -> ClusterNow:
        """Return the cluster as it is now."""

    def elect(self, partitions: Sequence[PartitionNow], /) -> None:
        """Ask for the preferred leaders of partitions."""


class Topics(Protocol):
    """What is asked of the topics of a running cluster; see
    `logwright.rolling.records.RunningTopics`.
    """

    def offsets(self, partitions: Sequence[PartitionNow], which: Which, /) -> dict[str, int]:
        """Return an offset of each partition, by its name."""

    def read(self, partition: PartitionNow, start: int, end: int, /) -> Iterator[pa.RecordBatch]:
        """Yield the committed records with offsets in [start, end)."""

    def delete(self, partition: PartitionNow, keys: Sequence[bytes], /) -> None:
        """Produce a tombstone of each key to a partition, and wait until all are acknowledged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What a run works with.

    Attributes:
        directory: of the cluster's file: relative paths are below it, and commands run in it.
        config: the file.
        admin: the running cluster. topics: its records.
        secrets: values that no message shows.
        say: called with each line of progress.
        now_ms: the clock, ms since the epoch.
    """

    directory: Path
    config: Cluster
    admin: Admin
    topics: Topics
    secrets: Sequence[str]
    say: Callable[[str], None]
    now_ms: Callable[[], int]

    @property
    def state(self) -> Path:
        """The directory of the journal and the lock."""
        return self.directory / self.config.state

    def journal(self) -> Journal:
        """Return what is written of the round. Effects: reads; raises as `read_journal`."""
        return read_journal(self.state / _JOURNAL)

    def note(self, journal: Journal) -> None:
        """Write where the round is. Effects: writes; raises as `write_journal`."""
        write_journal(self.state / _JOURNAL, journal)

    def broker(self, broker: int) -> ClusterBroker:
        """Return a broker of the file.

        Raises:
            PolicyError: it has no such broker.
        """
        for each in self.config.brokers:
            if each.id == broker:
                return each
        known = ", ".join(str(each.id) for each in self.config.brokers)
        raise PolicyError(f"there is not a broker {broker}.", remedy=f"The file has {known}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Maintained:
    """What one command did to one log directory.

    Attributes:
        command: such as ``clean``.
        log_dir: the directory.
        logs: how many logs it reported.
        freed_bytes: by how much they have become smaller.
        seconds: how long it took.
    """

    command: str
    log_dir: str
    logs: int
    freed_bytes: int
    seconds: float


class BrokerMaintenance:
    """One broker's maintenance: its steps, each of which can be called by itself."""

    def __init__(self, site: Site, broker: int) -> None:
        self.site = site
        self.id = broker
        self._broker: ClusterBroker = site.broker(broker)
        self._commands: Commands = site.config.commands_of(self._broker)
        self._limits = site.config.limits

    def first_step(self, expected: Collection[Step] = ()) -> Step:
        """Return where the maintenance begins, or continues if a run was interrupted. Effects:
        looks at the cluster; waits while the stop hook of a run that was killed may still be at
        work: the broker would be stopped after the check.

        Args:
            expected: where a run continues that does step by step; nothing is said of it.

        Raises:
            PreconditionError: an interrupted run has to be continued with another broker.
            LogwrightError: the cluster, the journal or a lock cannot be looked at.
        """
        journal = self.site.journal()
        if journal.broker is None:
            return "check"
        if journal.broker != self.id:
            raise PreconditionError(
                f"a run was interrupted at broker {journal.broker}, step {journal.step}.",
                remedy="Continue with that broker first.",
            )
        if journal.step == "stop":
            with suppress(NotInTime):
                self._wait(self._not_gone, self._limits.stop + self._limits.lock)
        step = resumed(journal.step, self.site.admin.look(), self.id, others=self._others)
        if step not in expected:
            was = f"an interrupted run was at its step {journal.step}"
            self._say(f"{was}; it continues with {step}")
        return step

    @property
    def maintained(self) -> bool:
        """The journal has it that the broker was maintained: its start is noted after that."""
        return self.site.journal().step in {"start", "verify"}

    def quorum_leader(self) -> QuorumLeader | None:
        """Return the active controller as the broker's node has noted it next to the metadata log,
        None if it has not. Effects: reads files; on another machine with ``logwright inspect``.

        Raises:
            LogwrightError: it cannot be read.
        """
        if not self._commands.run_with:
            return noted_leader(self._paths)
        for log_dir in self._broker.log_dirs:
            for answer in self._inspected(log_dir):
                if answer.get("quorumLeader"):
                    return QuorumLeader(**answer["quorumLeader"])
        return None

    def standing(self) -> Standing | None:
        """Return how the broker stands in its cluster, None if that does not respond. Effects:
        looks.
        """
        try:
            return standing_of(self.site.admin.look(), self.id)
        except ClusterUnavailable:
            return None

    def check(self) -> None:
        """See that the broker can be stopped; wait for what passes. Effects: looks.

        Raises:
            PolicyError: a log directory is another broker's.
            PreconditionError: it cannot be stopped now, or never.
            NotInTime: what was waited for lasts.
        """
        self._say("check")
        self._check_directories()
        config = self.site.config
        closed = outside_of_windows(config.windows, config.time_zone, self.site.now_ms())
        if closed is not None:
            raise PreconditionError(
                f"broker {self.id} is not stopped: {closed.sentence}.",
                remedy="Nothing was done to it. Run it again in a window.",
            )
        self._check_program()
        self._wait(self._obstacle, self._limits.in_sync, remedy="Nothing was done to it.")

    def has_on_record(self, reached: Mapping[str, int], *, wait_ms: int = _ON_RECORD_MS) -> bool:
        """Return whether the high watermarks that the broker has on record reach some offsets, of
        the partitions of which it should have a replica: a cleaning does not count what is beyond.
        A running broker writes them every few seconds
        (``replica.high.watermark.checkpoint.interval.ms``). Effects: looks at the cluster; runs
        ``logwright inspect`` for the broker's log directories; says what is not reached.

        Args:
            reached: offsets by the names of partitions.
            wait_ms: how long they are waited for, ms.
        """
        if not reached:
            return True
        try:
            self._wait(lambda: self._before(reached), wait_ms)
        except NotInTime as error:
            self._say(error.problem.removesuffix("."))
            return False
        return True

    def stop(self) -> None:
        """Call the stop hook; wait until the broker is gone: it leads nothing, is not in the
        cluster, and its locks are free. Effects: as said; the journal.

        Raises:
            HookFailed: the hook failed.
            NotInTime: the broker is not gone.
        """
        self._note("stop")
        self._say("stop")
        self._hook("stop", self._commands.stop or (), self._limits.stop)
        self._wait(self._not_gone, self._limits.lock)

    def maintain(self) -> list[Maintained]:
        """Run the commands of logwright on each log directory. Effects: theirs; the journal.

        Raises:
            NotInTime: a process holds the lock of a log directory.
            MaintenanceFailed: a command failed, or took too long.
        """
        self._note("maintain")
        self._wait(self._held, self._limits.lock)
        deadline = time.monotonic() + self._limits.maintain / 1000
        return [
            self._maintain(words, log_dir, deadline)
            for words in self._commands.on_directories
            for log_dir in self._broker.log_dirs
        ]

    def start(self) -> None:
        """Call the start hook, and wait until the broker is in the cluster; a signal to stop waits
        for that. Effects: as said; the journal.

        Raises:
            KeyboardInterrupt: such a signal came meanwhile.
            HookFailed: the hook failed.
            NotInTime: the broker does not come back.
        """
        self._note("start")
        self._start()

    def bring_back(self) -> None:
        """Start a broker that was stopped and perhaps not maintained: to the next run it is as if
        it had not been stopped. Effects and errors: as `start`. That it cannot be noted is only
        said: the next run looks for itself.
        """
        self._start()
        try:
            self.site.note(replace(self.site.journal(), broker=None, step="check"))
        except LogwrightError as error:
            self._say(f"it is started; that is not noted: {error.problem}")

    def _start(self) -> None:
        """Start the broker; see `start`."""
        self._say("start")
        with interrupted_after():
            with suppress(NotInTime):
                self._wait(self._neither_free_nor_back, self._limits.lock)
            self._hook("start", self._commands.start or (), self._limits.start)
            self._wait(self._away, self._limits.start, remedy="See the broker's own log.")

    def verify(self) -> None:
        """Wait until the broker is in all ISRs where it should be, and ask for its preferred
        leaderships. Effects: as said; the journal.

        Raises:
            NotInTime: an ISR does not fill.
        """
        self._note("verify")
        self._say("verify")
        remedy = "It runs. See its log, and run this again once it has caught up."
        self._wait(self._behind, self._limits.in_sync, remedy=remedy)
        try:
            self._wait(self._not_leading, _ELECTION_MS)
        except NotInTime as error:
            self._say(f"{error.problem} The cluster works without.")

    def finish(self, *, in_round: bool) -> None:
        """Note that the broker is back. Effects: the journal.

        Args:
            in_round: it is maintained, and a run over all brokers need not come back to it.
        """
        journal = self.site.journal()
        done = (*journal.done, self.id) if in_round else journal.done
        self.site.note(Journal(done=done))
        self._say("in all ISRs")

    @contextmanager
    def brought_back(self) -> Iterator[None]:
        """Whatever ends the block by an error, also Ctrl-C, ends with the broker started. Effects:
        as `start`.

        Raises:
            HookFailed: it could not be started either; the error says both.
        """
        try:
            yield
        except BaseException as error:
            problem = error.problem if isinstance(error, LogwrightError) else "interrupted."
            self._say(f"{problem} The broker is started again")
            try:
                self.bring_back()
            except LogwrightError as worse:
                raise HookFailed(
                    f"{masked(problem, self.site.secrets)} After that broker {self.id} could"
                    f" not be started: {worse.problem}",
                    remedy="Start it, then run this again.",
                ) from error
            raise

    def _check_directories(self) -> None:
        """Refuse log directories of another broker, as far as they are of this machine."""
        for log_dir in () if self._commands.run_with else self._paths:
            node_id = read_directory_ids(log_dir).node_id
            if node_id != self.id:
                raise PolicyError(
                    f"it is of broker {node_id}, not of broker {self.id}.",
                    path=log_dir,
                    remedy="Correct the file of the cluster. Nothing was done.",
                )

    def _check_program(self) -> None:
        """See that logwright can be run where the log directories are."""
        ended = self._run(
            [*self._program, "--version"], self._limits.lock, "logwright --version", show=False
        )
        if ended.status != 0:
            log_output("logwright", ended, self.site.secrets)
            raise PreconditionError(
                f"broker {self.id}: `logwright --version` {ended.in_words}.",
                remedy="See `run_with` and `logwright` in the file. Nothing was done.",
            )

    @property
    def _others(self) -> set[int]:
        return {each.id for each in self.site.config.brokers} - {self.id}

    @property
    def _paths(self) -> list[Path]:
        return [self.site.directory / log_dir for log_dir in self._broker.log_dirs]

    @property
    def _replicas(self) -> list[str]:
        """The log directories of the other brokers, which run."""
        return [
            str(self.site.directory / log_dir)
            for each in self.site.config.brokers
            if each.id != self.id
            for log_dir in each.log_dirs
        ]

    @property
    def _program(self) -> tuple[str, ...]:
        """The words that run logwright where the log directories are."""
        commands = self._commands
        own = commands.logwright or (("logwright",) if commands.run_with else _HERE)
        return (*(commands.run_with or ()), *own)

    def _hook(self, name: str, words: Sequence[str], limit_ms: int) -> None:
        ended = self._run(words, limit_ms, f"the {name} hook", show=False)
        log_output(f"broker {self.id}: {name}", ended, self.site.secrets)
        if ended.status != 0:
            raise HookFailed(
                f"the {name} hook of broker {self.id} {ended.in_words}.",
                remedy="What it wrote is in the log.",
            )

    def _maintain(self, words: Sequence[str], log_dir: str, deadline: float) -> Maintained:
        """Run one command on one log directory."""
        name, *options = words
        if not any(word.split("=")[0] == "--high-watermark" for word in options):
            options += ["--high-watermark", "checkpoint"]  # what is above may not be committed
        options += [] if name in _READS else ["--yes"]
        if name in _CLEANS and self.site.config.coordinate:
            options += [word for path in self._replicas for word in ("--coordinate-with", path)]
        path = log_dir if self._commands.run_with else str(self.site.directory / log_dir)
        command = f"logwright {name} {log_dir}"
        self._say(f"maintain: {command}")
        left_ms = max(int((deadline - time.monotonic()) * 1000), 1)
        line = [*self._program, name, path, *options, "--output", "json"]
        ended = self._run(line, left_ms, command, show=True, watch=self._danger)
        if ended.status != 0:
            known = ended.status is not None and ended.status in _STATUSES
            raise MaintenanceFailed(
                f"broker {self.id}: `{command}` {ended.in_words}{_why(ended.output)}.",
                status=ended.status if known and ended.status else PreconditionError.exit_status,
            )
        logs, freed = _reported(ended.output)
        return Maintained(
            command=name, log_dir=log_dir, logs=logs, freed_bytes=freed, seconds=ended.seconds
        )

    def _run(
        self,
        words: Sequence[str],
        limit_ms: int,
        name: str,
        *,
        show: bool,
        watch: Callable[[], str | None] = lambda: None,
    ) -> Ended:
        try:
            return run_command(
                words,
                limit_ms=limit_ms,
                directory=self.site.directory,
                show_errors=show,
                watch=watch,
            )
        except OSError as error:
            raise HookFailed(
                f"broker {self.id}: {name} cannot be run: {words[0]}: {error.strerror}."
            ) from error

    def _wait(
        self, reason: Callable[[], str | None], limit_ms: int, *, remedy: str | None = None
    ) -> None:
        """Wait until there is not a reason to wait any more. Effects: those of it; sleeps.

        Raises:
            NotInTime: there still is one.
        """
        deadline, shown = time.monotonic() + limit_ms / 1000, None
        while (why := reason()) is not None:
            if why != shown:
                self._say(f"waits: {why}")
                shown = why
            if time.monotonic() > deadline:
                raise NotInTime(f"{why}, after {duration(limit_ms)}.", remedy=remedy)
            time.sleep(_POLL_SECONDS)

    def _seen(self, reason: Callable[[ClusterNow], str | None]) -> str | None:
        """Return a reason of the cluster as it is now; that it does not respond is one."""
        try:
            return reason(self.site.admin.look())
        except ClusterUnavailable as error:
            return error.problem.rstrip(".")

    def _danger(self) -> str | None:
        """Return why the broker is wanted back at once; that the cluster does not respond is not
        known to be one.
        """
        try:
            return danger_of(self.site.admin.look(), self.id)
        except ClusterUnavailable:
            return None

    def _obstacle(self) -> str | None:
        """Return what passes and keeps the broker from being stopped; raise if it does not pass."""
        now = self.site.admin.look()
        obstacles = obstacles_of(
            now,
            self.id,
            away_ms=self._limits.away_ms,
            known=[each.id for each in self.site.config.brokers],
        )
        for each in obstacles:
            if not each.passes:
                raise PreconditionError(
                    f"broker {self.id} is not stopped: {each.sentence}.",
                    remedy="Nothing was done to it.",
                )
        return "; ".join(each.sentence for each in obstacles) or None

    def _not_gone(self) -> str | None:
        def reason(now: ClusterNow) -> str | None:
            if self.id in now.brokers:
                return f"broker {self.id} is still in the cluster"
            led = now.led_by(self.id)
            return f"broker {self.id} still leads {led} partitions" if led else None

        return self._held() or self._seen(reason)

    def _away(self) -> str | None:
        return self._seen(
            lambda now: (
                None if self.id in now.brokers else f"broker {self.id} is not back in the cluster"
            )
        )

    def _neither_free_nor_back(self) -> str | None:
        return self._held() and self._away()

    def _behind(self) -> str | None:
        return self._seen(lambda now: not_in_sync(now, self.id))

    def _not_leading(self) -> str | None:
        """Ask for the leaderships that the broker should have and has not."""

        def reason(now: ClusterNow) -> str | None:
            wanted = to_elect(now, self.id)
            if not wanted:
                return None
            self.site.admin.elect(wanted)
            return f"broker {self.id} does not lead {len(wanted)} partitions that prefer it"

        return self._seen(reason)

    def _held(self) -> str | None:
        log_dir = self._holding()
        return None if log_dir is None else f"a process holds the lock of {log_dir}"

    def _holding(self) -> str | None:
        """Return a log directory whose lock is held, None if all are free. Effects: looks; on
        another machine with ``logwright inspect``, which shows only a broker's.
        """
        if not self._commands.run_with:
            return next((str(path) for path in self._paths if is_held(path)), None)
        for log_dir in self._broker.log_dirs:
            answers = self._inspected(log_dir)
            if not answers or answers[0]["lockedBy"]:
                return log_dir
        return None

    def _inspected(self, log_dir: str) -> list[dict[str, Any]]:
        """Return what ``logwright inspect`` says of a log directory on another machine as a whole;
        nothing if it failed. Effects: runs it there.
        """
        return [each for each in self._inspect(log_dir) if "lockedBy" in each]

    def _inspect(self, log_dir: str) -> list[dict[str, Any]]:
        """Return all that ``logwright inspect`` says of a log directory. Effects: runs it."""
        line = [*self._program, "inspect", log_dir, "--output", "json"]
        return _objects(self._run(line, self._limits.lock, "logwright inspect", show=False).output)

    def _before(self, reached: Mapping[str, int]) -> str | None:
        """Return which high watermark on record is before an offset. Effects: as `_inspect`."""
        on_record: dict[str, int] = {}
        for log_dir in self._broker.log_dirs:
            path = log_dir if self._commands.run_with else str(self.site.directory / log_dir)
            for answer in self._inspect(path):
                known = answer.get("checkpoints", {}).get("highWatermark")
                if known is not None:
                    name = str(answer.get("topicPartition"))
                    on_record[name] = min(known, on_record.get(name, known))
        return self._seen(lambda now: not_on_record(now, self.id, on_record, reached))

    def _note(self, step: Step) -> None:
        self.site.note(replace(self.site.journal(), broker=self.id, step=step))

    def _say(self, text: str) -> None:
        self.site.say(f"broker {self.id}: {masked(text, self.site.secrets)}")


def _objects(output: str) -> list[dict[str, Any]]:
    """Return the objects among lines of output; what is none is ignored. Pure."""
    objects = []
    for line in output.splitlines():
        with suppress(ValueError):
            value = json.loads(line)
            objects += [value] if isinstance(value, dict) else []
    return objects


def _reported(output: str) -> tuple[int, int]:
    """Return how many logs a command reported, and by how many bytes they have become smaller."""
    logs = [each for each in _objects(output) if "topicPartition" in each]
    freed = [
        each["bytesBefore"] - each["bytesAfter"]
        for each in logs
        if isinstance(each.get("bytesBefore"), int) and isinstance(each.get("bytesAfter"), int)
    ]
    return len({each["topicPartition"] for each in logs}), sum(freed)


def _why(output: str) -> str:
    """Return the first error that a command reported, as the end of a sentence."""
    problems = [each["problem"] for each in _objects(output) if "problem" in each]
    return f": {str(problems[0]).rstrip('.')}" if problems else ""
