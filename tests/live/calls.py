"""The commands that give no rows, or give them as text: what they claim of logs is judged, too."""

from __future__ import annotations

import base64
import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from logwright.config.policies import Policies
from logwright.config.sources import DirectorySettings
from logwright.errors import (
    DataLoss,
    LogDirLocked,
    NotALogDir,
    StalePlan,
    UncleanLogDir,
    Unsettled,
)
from logwright.fleet.observe import observe_fleet
from logwright.format.names import CLEAN_SHUTDOWN_MARKER
from logwright.running.broker import broker_process
from logwright.units import TimestampMs
from tests.e2e.command import Answer, call
from tests.live.commands import Attempt, Refused
from tests.live.plain import topic_id
from tests.live.rows import LEVELS, Call, Claim, Isolation, Reading, general, row_of, rows_of

NAMED = (NotALogDir, UncleanLogDir, Unsettled, LogDirLocked, DataLoss, StalePlan)
"""The errors of a log that is being made or deleted, of a broker that was killed, of a log that
keeps changing, of a broker that starts while a stopped one's directory is read, of records that
retention deletes after they were planned, and of files that change while they are hashed.
"""
_NAMES = tuple(error.__name__ for error in NAMED)
NOT_STOPPED = "the broker was not stopped cleanly"
"""Of a broker that was killed and has not started again."""
ENDED = "the broker ended meanwhile"
"""Of one that was killed or stopped while its directory was read."""
ONE_REPLICA = "no partition has two replicas in the given directories"
"""Of a topic that is being made or deleted, when only one broker has it."""
FAULTS = "faults"
"""What an audit counts."""
FAULTY = 3
"""Its exit status then."""

Line = dict[str, Any]
Options = Callable[[Path, str], Sequence[str | Path]]
"""The words of a call after the command, for a log directory and a log."""


def is_open_or_whole(log_dir: Path) -> bool:
    """Whether a broker has it open, or has stopped cleanly."""
    return broker_process(log_dir) is not None or (log_dir / CLEAN_SHUTDOWN_MARKER).exists()


def lines_of(answer: Answer) -> list[Line]:
    """The objects that a command printed."""
    return [json.loads(line) for line in answer.out.splitlines() if line.startswith("{")]


def require_named(lines: Iterable[Line]) -> None:
    """Require that a command did not refuse.

    Raises:
        Refused: it did, by name.
    """
    for line in lines:
        if line.get("error") in _NAMES or ONE_REPLICA in str(line.get("problem")):
            raise Refused(f"{line['error']}: {general(str(line.get('problem')))}")


class Caller:
    """Calls a command, and looks for faults that it claims."""

    def __init__(self, command: str, options: Options, *, expected: Sequence[int] = (0,)) -> None:
        """`expected`: the exit statuses of a call without a fault."""
        self._command, self._options, self._expected = command, options, expected

    def call(self, log_dir: Path, log: str, _: Isolation) -> Call:
        """Call it for one log. Effects: those of the command.

        Raises:
            Refused: it refused; or it claims a fault of a directory whose broker was killed.
        """
        ids, began = {log: topic_id(log_dir, log)}, time.monotonic()
        lines = self.asked(log_dir, log)
        ended = time.monotonic()
        extents = _extents(self._command, log_dir, lines, ids, (began, ended))
        return Call(
            reader=self._command,
            log=log,
            seconds=ended - began,
            wrong=dict(self.wrong),
            extents=tuple(extents),
            settings=_settings(lines),
            topic_ids=tuple({*ids.values(), topic_id(log_dir, log)}),
            claims=tuple(_claims(lines)),
        )

    def asked(self, log_dir: Path, log: str) -> list[Line]:
        """What it prints; `wrong` is then what it claims to be wrong. Effects and errors: as
        `call`.
        """
        was_there = is_open_or_whole(log_dir)
        answer = call(self._command, *self._options(log_dir, log))
        lines = lines_of(answer)
        require_named(lines)
        self.wrong = _claimed(lines)
        if self.wrong and not (was_there and is_open_or_whole(log_dir)):
            raise Refused(f"broker away: {' '.join(sorted(self.wrong))}")
        if answer.status not in self._expected and not self.wrong:
            self.wrong[f"status {answer.status}: {general(answer.out + answer.err)}"] += 1
        return lines


def _ending(line: Line) -> str | None:
    """What a line says of a broker that is away, None if nothing."""
    problem = str(line.get("problem"))
    return next((text for text in (NOT_STOPPED, ENDED) if text in problem), None)


def _claimed(lines: Iterable[Line]) -> Counter[str]:
    """What lines claim to be wrong.

    Raises:
        Refused: that the broker was killed.
    """
    wrong: Counter[str] = Counter()
    for line in lines:
        wrong.update(line.get(FAULTS) or {})
        if "error" in line:
            wrong[f"{line['error']}: {general(str(line.get('problem')))}"] += 1
        elif (ending := _ending(line)) is not None:
            raise Refused(ending)
        elif isinstance(line.get("problem"), str):
            wrong[f"{general(line['problem'])}"] += 1
    return wrong


def _claims(lines: Iterable[Line]) -> Iterator[Claim]:
    """The faults that ``audit`` shows."""
    for line in lines:
        for each in line["findings"] if FAULTS in line else ():
            yield Claim(kind=each["kind"], offset=each["offset"], other=each["otherOffset"])


def _settings(lines: Iterable[Line]) -> dict[str, str]:
    """What ``config`` says of a topic."""
    return {
        name: entry["value"] for line in lines for name, entry in line.get("configs", {}).items()
    }


def _extents(
    reader: str,
    log_dir: Path,
    lines: Iterable[Line],
    ids: Mapping[str, str],
    times: tuple[float, float],
) -> Iterator[Reading]:
    """Where lines say that logs start and end."""
    for line in lines:
        log = str(line.get("topicPartition"))
        if log not in ids:
            continue
        for each in line.get("replicas", [line]):
            if "highWatermark" not in each:
                continue
            for level, name in zip(LEVELS, ("highWatermark", "lastStableOffset"), strict=True):
                yield Reading(
                    reader=reader,
                    log=log,
                    topic_ids=tuple({ids[log], topic_id(log_dir, log)}),
                    isolation=level,
                    is_state=False,
                    start=each["logStartOffset"],
                    bound=each[name],
                    rows=None,
                    began=times[0],
                    ended=times[1],
                )


class Dump(Caller):
    """Reads records from what ``dump`` prints: all batches, or with ``--records`` what a consumer
    with read_committed gets.
    """

    def __init__(self) -> None:
        super().__init__("dump", self._words)
        self._more: tuple[str, ...] = ()

    def _words(self, log_dir: Path, log: str) -> Sequence[str | Path]:
        return (log_dir, log, "--output", "json", *self._more)

    def read(self, log_dir: Path, log: str, isolation: Isolation) -> Reading | Call:
        """Read all of a log; a call that claims faults is one.

        Raises:
            Refused: it refused, or the log has no record that is shown.
        """
        attempt = Attempt(reader="dump", log_dir=log_dir, log=log, isolation=isolation)
        self._more = ("--records",) if isolation == "read_committed" else ()
        was_there = is_open_or_whole(log_dir)
        lines = self.asked(log_dir, log)
        if not (was_there and is_open_or_whole(log_dir)):
            raise Refused("broker away: what is committed is not known")
        if self.wrong:
            return Call(reader="dump", log=log, seconds=0.0, wrong=dict(self.wrong))
        batches = [line for line in lines if line.get("type") == "batch"]
        records = [line for line in lines if "type" not in line]
        for batch in batches:
            records += () if batch["control"] else batch["records"]
        rows = [
            row_of(each["offset"], _bytes(each["key"]), _bytes(each["value"]), each["timestamp"])
            for each in records
        ]
        firsts = [batch["baseOffset"] for batch in batches] + [row[0] for row in rows]
        lasts = [batch["lastOffset"] for batch in batches] + [row[0] for row in rows]
        if not firsts:
            raise Refused("there is nothing to read")
        start, bound = min(firsts), max(lasts) + 1
        return attempt.ended(rows_of(rows), start, bound, is_state=False)


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


class Audit(Caller):
    """Compares the replicas of a log. Of one directory it compares two looks at it, which have to
    be as two replicas are. Effects: a symbolic link in a directory of its own.
    """

    def __init__(self, log_dirs: Sequence[Path], scratch: Path) -> None:
        super().__init__("audit", self._words, expected=(0, FAULTY))
        self._log_dirs, self._second = log_dirs, scratch / "second"

    def _words(self, log_dir: Path, log: str) -> Sequence[str | Path]:
        options = ("--topic", log.rpartition("-")[0], "--output", "json")
        if len(self._log_dirs) > 1:
            return (*self._log_dirs, *options)
        if not self._second.is_symlink():
            self._second.symlink_to(log_dir.parent)
        return (log_dir, self._second / log_dir.name, *options)


def fleet(log_dir: Path, log: str, _: Isolation) -> Call:
    """All logs, as the inventory, the page and the metrics of the platform look at them.

    Raises:
        Refused: this log is not there; or the broker is away.
    """
    began, was_there = time.monotonic(), is_open_or_whole(log_dir)
    names = [path.name for path in log_dir.glob("*-[0-9]")]
    ids = {name: topic_id(log_dir, name) for name in names}
    now_ms = TimestampMs(time.time_ns() // 1_000_000)
    seen = observe_fleet({"d": log_dir}, DirectorySettings(Policies()), now_ms=now_ms)
    ended = time.monotonic()
    wrong: Counter[str] = Counter(space.problem for space in seen.spaces if space.problem)
    for work in seen.works:
        failure = work.failure
        if failure is not None and not isinstance(failure, NAMED):
            wrong[f"{type(failure).__name__}: {general(failure.problem)}"] += 1
        elif failure is not None and str(work.partition) == log:
            raise Refused(f"{type(failure).__name__}: {general(failure.problem)}")
    if wrong and not (was_there and is_open_or_whole(log_dir)):
        raise Refused(f"broker away: {' '.join(sorted(wrong))}")
    lines = [
        {
            "topicPartition": str(plan.log.partition),
            "logStartOffset": plan.log.log_start_offset,
            "highWatermark": plan.log.high_watermark,
            "lastStableOffset": plan.log.last_stable_offset,
        }
        for _, plan in seen.plans
    ]
    return Call(
        reader="fleet",
        log=log,
        seconds=ended - began,
        wrong=dict(wrong),
        extents=tuple(_extents("fleet", log_dir, lines, ids, (began, ended))),
    )
