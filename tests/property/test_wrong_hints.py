"""A file that only hints at what the log holds is never trusted with data.

Each hint of several logs is made wrong in each of its entries, alone and in pairs, and every
command is run. What consumers see afterwards must be what they see with sound hints; or the command
refuses, and they see what they saw.

Of three kinds of files more cannot be asked, since nothing in the log says what they should hold.
There no record may be lost that is not superseded: every key has its last committed value, nothing
is shown that was not, and nothing is committed that was aborted.

- *What an operator or the broker has decided*: the log start offset (below it nothing is shown,
  whatever else is true), the high watermark, and what was compacted so far.
- *What the log has forgotten*: the producers' state, which has a CRC; a transaction that a snapshot
  takes for open keeps from being cleaned what lies after it.
- *What was done before*: a line of the ledger whose CRC is wrong is ignored, so an undo may
  bring back less. The time index may keep a segment longer, never shorter. The journal of ingests
  has a CRC too; without the file an input is appended again.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from random import Random
from typing import Final

import pytest

from logwright.errors import LogwrightError
from tests.ingested import append
from tests.property.hinted_logs import (
    INGEST,
    LOGS,
    NOW_MS,
    RETENTION_MS,
    START_MS,
    Seen,
    clean,
    run,
    see,
)
from tests.property.wrong_hints import Wrong, all_wrong

RUNS: Final = 200
NIGHTLY_RUNS: Final = 45_000
BOUNDED: Final = frozenset(
    {
        "producer snapshot",
        "log start offset",
        "high watermark",
        "cleaner checkpoint",
        "ledger",
        "ingest journal",
    }
)
"""The kinds of which less is asked."""
HELD: Final = frozenset({"state file"})
"""What it says to be paused is ignored, without a complaint."""


def _ingest(log_dir: Path, ingest_id: str) -> int:
    rows = [(b"%d" % (n % 3), b"more", [], START_MS + n) for n in range(5)]
    try:
        append(log_dir, rows, INGEST, now_ms=NOW_MS, ingest_id=ingest_id)
    except LogwrightError as error:
        return error.exit_status
    return 0


COMMANDS: Final[Mapping[str, Callable[[Path], int]]] = {
    "clean": clean,
    "clean thoroughly": lambda log_dir: clean(log_dir, "--checks", "thorough"),
    "clean like Kafka": lambda log_dir: clean(log_dir, "--like-kafka"),
    "roll": lambda log_dir: run("roll", log_dir, "--force", "--yes"),
    "retain": lambda log_dir: run("retain", log_dir, "--yes", retention_ms=str(RETENTION_MS)),
    "purge": lambda log_dir: run("purge", log_dir, "--yes", now_ms=NOW_MS + 1_000_000),
    "undo": lambda log_dir: run("undo", log_dir, "--yes"),
    "recover": lambda log_dir: run("recover", log_dir, "--yes"),
    "verify": lambda log_dir: run("verify", log_dir),
    "dump": lambda log_dir: run("dump", log_dir),
    "ingest": lambda log_dir: _ingest(log_dir, "three"),
    "ingest again": lambda log_dir: _ingest(log_dir, "one 1"),
    "delete": lambda log_dir: run("delete", log_dir, "--yes"),
}


@dataclass(kw_only=True)
class Tally:
    """What was tried.

    Attributes:
        same, refused, bounded: by kind, what came of it: what is with sound hints; nothing was
            changed; nothing was lost.
        failures: in words.
    """

    same: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    bounded: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def lines(self) -> Iterator[str]:
        """The figures, by kind."""
        kinds = sorted({*self.same, *self.refused, *self.bounded})
        for kind in kinds:
            yield (
                f"{kind}: same {self.same[kind]}, refused {self.refused[kind]},"
                f" nothing lost {self.bounded[kind]}"
            )
        total = sum(map(Counter.total, (self.same, self.refused, self.bounded)))
        yield f"{total} runs, {len(self.failures)} failures"


@dataclass(frozen=True, kw_only=True)
class Log:
    """One log, sound, and what its commands leave of it."""

    name: str
    log_dir: Path
    wrong: Sequence[Wrong]
    expected: Mapping[str, Seen]


@contextmanager
def _logs() -> Iterator[list[Log]]:
    memory = Path("/dev/shm")  # noqa: S108 -- a private directory below it
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as scratch:
        root, logs = Path(scratch), []
        for name, make in LOGS.items():
            log_dir = root / name
            make(log_dir)
            expected = {}
            for command, execute in COMMANDS.items():
                copy = Path(shutil.copytree(log_dir, root / "copy"))
                execute(copy)
                expected[command] = see(copy)
                shutil.rmtree(copy)
            logs.append(
                Log(name=name, log_dir=log_dir, wrong=all_wrong(log_dir), expected=expected)
            )
        yield logs


def _try(log: Log, wrong: Sequence[Wrong], command: str, tally: Tally) -> None:
    """Effects: works in a copy, which it removes."""
    copy = Path(shutil.copytree(log.log_dir, log.log_dir.with_name("copy")))
    kinds = {one.kind for one in wrong}
    kind = "pairs" if len(wrong) > 1 else wrong[0].kind
    label = f"{log.name}: {command} with {'; '.join(map(str, wrong))}"
    try:
        for hint in wrong:
            hint.plant(copy)
        before = see(copy)
        status = COMMANDS[command](copy)
        after, expected = see(copy), log.expected[command]
        if after == expected:
            tally.same[kind] += 1
        elif after == before and (status != 0 or kinds & HELD):
            tally.refused[kind] += 1
        elif not _may_differ(kinds, command):
            tally.failures.append(f"{label}: status {status}, {_difference(after, expected)}")
        elif problem := _lost(before, after, expected, moved="log start offset" in kinds):
            difference = _difference(after, expected)
            tally.failures.append(f"{label}: status {status}, {problem}, {difference}")
        else:
            tally.bounded[kind] += 1
    except Exception as fault:  # noqa: BLE001 -- whatever it is, the command it comes from is wrong
        tally.failures.append(f"{label}: {type(fault).__name__}: {fault}")
    finally:
        shutil.rmtree(copy)


def _may_differ(kinds: set[str], command: str) -> bool:
    return bool(kinds & BOUNDED) or (command == "retain" and "time index" in kinds)


def _lost(before: Seen, after: Seen, expected: Seen, *, moved: bool) -> str | None:
    """What must not be; `moved`: the log start offset is what was made wrong."""
    if after.gone != expected.gone:
        return "the log is gone"
    known = before.records | expected.records
    if any(known.get(offset) != record for offset, record in after.records.items()):
        return "a record is another"
    if not after.committed <= before.committed | expected.committed:
        return "aborted data is committed"
    if not moved and after.start > expected.start and after.start != before.start:
        return "the log starts later"
    start = max(after.start, expected.start)
    first, other = (_latest_from(seen, start) for seen in (after, expected))
    if any(other.get(key, found) != found for key, found in first.items()) or other.keys() - first:
        return "a last value is another"
    return None


def _latest_from(seen: Seen, start: int) -> dict[bytes | None, tuple[int, bytes | None]]:
    return {key: one for key, one in seen.latest.items() if one[0] >= start}


def _difference(after: Seen, expected: Seen) -> str:
    if after.gone or expected.gone:
        return f"gone: {after.gone}, not {expected.gone}"
    missing = sorted(expected.records.keys() - after.records.keys())
    added = sorted(after.records.keys() - expected.records.keys())
    return (
        f"starts at {after.start}, not {expected.start}; records missing {missing}, added {added};"
        f" committed differ {sorted(after.committed ^ expected.committed)};"
        f" producers {dict(after.producers)}, not {dict(expected.producers)}"
    )


def _alone(logs: Sequence[Log]) -> list[tuple[Log, tuple[Wrong, ...], str]]:
    return [(log, (one,), command) for log in logs for one in log.wrong for command in COMMANDS]


def _pairs(logs: Sequence[Log], random: Random) -> Iterator[tuple[Log, tuple[Wrong, ...], str]]:
    while True:
        log = random.choice(logs)
        first, other = random.choice(log.wrong), random.choice(log.wrong)
        if first.name != other.name:
            yield log, (first, other), random.choice(list(COMMANDS))


def _by_kind(
    tries: Sequence[tuple[Log, tuple[Wrong, ...], str]], random: Random
) -> Iterator[tuple[Log, tuple[Wrong, ...], str]]:
    """In turn of each kind and command, at random within them."""
    of: dict[tuple[str, str], list[tuple[Log, tuple[Wrong, ...], str]]] = {}
    for attempt in random.sample(tries, len(tries)):
        of.setdefault((attempt[1][0].kind, attempt[2]), []).append(attempt)
    while any(of.values()):
        for waiting in of.values():
            if waiting:
                yield waiting.pop()


def _try_many(seed: int, runs: int) -> Tally:
    random, tally = Random(seed), Tally()
    with _logs() as logs:
        for log, wrong, command in islice(_by_kind(_alone(logs), random), runs):
            _try(log, wrong, command, tally)
        for log, wrong, command in islice(_pairs(logs, random), runs // 4):
            _try(log, wrong, command, tally)
    return tally


def test_wrong_hints_cost_no_data(seed: int) -> None:
    """Some of each kind and each command, and some pairs."""
    tally = _try_many(seed, RUNS)
    assert [] == tally.failures
    assert tally.same.total() > RUNS // 4
    assert tally.refused.total() > RUNS // 20


@pytest.mark.nightly
def test_many_wrong_hints_cost_no_data(seed: int, capsys: pytest.CaptureFixture[str]) -> None:
    """A larger share of all of them, with the figures."""
    tally = _try_many(seed, NIGHTLY_RUNS)
    with capsys.disabled():
        sys.stdout.write("\n" + "\n".join(tally.lines()) + "\n")
    assert [] == tally.failures
