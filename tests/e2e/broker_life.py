"""The lives of one real broker, its log directory ours to work on between them, and what is asked
of the records that its clients read.
"""

from __future__ import annotations

import base64
import json
import re
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.e2e.command import call, free_port
from tests.oracle_runner import oracle_jvm

LEVELS = ("read_uncommitted", "read_committed")
STOP_SECONDS = 60
TELL = (
    "-Dorg.slf4j.simpleLogger.log.kafka.log.LogManager=info",
    "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.storage.internals.log=info",
)
"""The broker says how it loads each log, and what it repairs."""
SETTINGS = {
    "cleanup.policy": "compact",
    "internal.segment.bytes": "2048",
    "index.interval.bytes": "512",
    "segment.index.bytes": "4096",
    "delete.retention.ms": "1000",
}
"""What the partitions of the broker's topics have, and a short life for tombstones."""

Read = dict[str, Any]
"""A record as the oracle's ``consume`` writes it."""


@contextmanager
def broker(
    work: Path, name: str, *words: str, port: int | None = None
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A real broker on `work`/broker; its process, and where it listens. Effects: a process.

    It runs until the file `name`.stop appears in `work`; `name`.txt has what it logs. Without
    `port` it listens on a free one.
    """
    jvm = (*oracle_jvm(*TELL), "oracle.Main", "broker")
    place = ("--dir", str(work / "broker"), "--port", str(port or free_port()))
    until = ("--until-file", str(work / f"{name}.stop"))
    with (
        (work / f"{name}.txt").open("w") as output,
        subprocess.Popen(
            [*jvm, *place, *until, *words],
            stdout=subprocess.PIPE,
            stderr=output,
            text=True,
        ) as process,
    ):
        try:
            assert process.stdout is not None
            yield process, json.loads(process.stdout.readline())["bootstrap"]
        except BaseException:
            process.kill()
            raise


class BrokerLives:
    """One JVM in which a broker is started, works and is stopped, again and again.

    It waits for `go_on` between two lives. Effects: a process, which ends with the context.
    """

    def __init__(self, work: Path, *, seed: int, guests: Sequence[Mapping[str, str]]) -> None:
        self.work = work
        self.guests = tuple(guests)
        lines = work / "guests.jsonl"
        lines.write_text("".join(f"{json.dumps(guest)}\n" for guest in guests))
        jvm = (*oracle_jvm(*TELL), "oracle.Main", "broker-life")
        with (work / "said.txt").open("w") as output:
            self._process = subprocess.Popen(
                [
                    *(*jvm, "--dir", str(work / "broker")),
                    *("--out", str(work / "read"), "--guests", str(lines)),
                    *("--seed", str(seed), "--port", str(free_port())),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                text=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._process:
            if kind is not None:
                self._process.kill()
        assert kind is not None or self._process.returncode == 0, self.said()

    def life(self) -> dict[str, Any]:
        """What the broker reported in the life that ends now."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._process.wait(STOP_SECONDS)
            raise AssertionError(f"the broker did not live through it: {self.said()[-4000:]}")
        told: dict[str, Any] = json.loads(line)
        return told

    def go_on(self) -> None:
        """Let the next life begin."""
        assert self._process.stdin is not None
        self._process.stdin.write("continue\n")
        self._process.stdin.flush()

    def said(self) -> str:
        """All that the broker logged."""
        return (self.work / "said.txt").read_text()

    def said_in(self, life: int) -> list[str]:
        """What the broker logged in one life of its users' logs; the first life is 1."""
        after = self.said().split(f"==== start {life}\n")[-1].split("==== start")[0]
        return [line for line in after.splitlines() if "__cluster_metadata" not in line]

    def records(self, life: str, partition: str, isolation: str) -> list[Read]:
        """What a consumer read of a partition."""
        path = self.work / "read" / f"{life}.{partition}.{isolation}.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaned:
    """What all the cleanings did.

    Attributes:
        bounds: by partition, the first uncleanable offset of each cleaning that was done.
        rolled: the partitions that got a new active segment.
        before, after: how many records of each kind a topic had.
    """

    bounds: dict[str, list[int]]
    rolled: set[str]
    before: dict[str, Counter[str]]
    after: dict[str, Counter[str]]

    def removed(self, topic: str) -> Counter[str]:
        """How many of each kind are gone."""
        return self.before[topic] - self.after[topic]


def clean_and_purge(log_dir: Path, partitions: Sequence[str], mid_ms: int) -> Cleaned:
    """Clean three times, by clocks of which each is past the horizons that the one before set; then
    purge.

    1. At the time in the middle of the broker's life, what was older then.
    2. A minute later, all that is not in an active segment.
    3. An hour later the active segments are due, and are cleaned too.
    """
    before = census(log_dir, partitions)
    minute, hour = mid_ms + 60_000, mid_ms + 3_600_000
    cleanings = [
        clean(log_dir, partitions, mid_ms, {"min.compaction.lag.ms": "1"}),
        clean(log_dir, partitions, minute),
        clean(log_dir, partitions, hour, {"segment.ms": "60000"}),
    ]
    purged = call("purge", log_dir, *partitions, "--now", hour + 60_000, "--yes")
    assert 0 == purged.status, purged.err
    passes = {
        name: [one for cleaning in cleanings for one in cleaning[name]["passes"] if one["cleaned"]]
        for name in partitions
    }
    return Cleaned(
        bounds={
            name: [one["firstUncleanableOffset"] for one in done] for name, done in passes.items()
        },
        rolled={name for cleaning in cleanings for name in partitions if cleaning[name]["rolled"]},
        before=before,
        after=census(log_dir, partitions),
    )


def clean(
    log_dir: Path, partitions: Sequence[str], now_ms: int, more: Mapping[str, str] | None = None
) -> dict[str, dict[str, Any]]:
    """Clean all of these, whatever the ratio; what was reported for each."""
    pairs = SETTINGS | dict(more or {})
    config = [word for pair in pairs.items() for word in ("--config", "=".join(pair))]
    options = ("--now", now_ms, "--force", "--yes", "--output", "json")
    answer = call("clean", log_dir, *partitions, *options, *config)
    assert 0 == answer.status, answer.err
    return {line["topicPartition"]: line for line in answer.lines}


def census(log_dir: Path, partitions: Sequence[str]) -> dict[str, Counter[str]]:
    """How many records of each kind the topics have."""
    census_of: dict[str, Counter[str]] = {}
    for name in partitions:
        answer = call("dump", log_dir, name)
        assert 0 == answer.status, answer.err
        counts = census_of.setdefault(name.rpartition("-")[0], Counter())
        for batch in answer.lines:
            if batch["type"] == "batch":
                counts.update(_kind(batch, record) for record in batch["records"])
    return census_of


def _kind(batch: Mapping[str, Any], record: Read) -> str:
    if batch["control"]:
        return "markers"
    if record["value"] is None:
        return "tombstones"
    return "aborted" if is_aborted(record) else "records"


def is_aborted(record: Read) -> bool:
    """A record of the users that its producer wrote in a transaction to be aborted."""
    return record["value"] is not None and base64.b64decode(record["value"]).startswith(b"abort")


def live(committed: Iterable[Read], read: Iterable[Read], bounds: Sequence[int]) -> list[Read]:
    """What must be left to read, computed from what was read before the cleanings.

    Below the last bound it is the last committed record of each key, but for a tombstone that an
    earlier cleaning saw; from there on it is all that there was.

    Args:
        committed: read before by a consumer of committed records.
        read: read before by a consumer of the isolation level in question.
        bounds: the first uncleanable offset of each cleaning, one after the other.
    """
    end = bounds[-1]
    horizon = bounds[-2] if len(bounds) > 1 else 0
    last = {record["key"]: record for record in committed if record["offset"] < end}
    cleaned = [
        record
        for record in last.values()
        if record["value"] is not None or record["offset"] >= horizon
    ]
    rest = [record for record in read if record["offset"] >= end]
    return sorted([*cleaned, *rest], key=lambda record: int(record["offset"]))


def latest(records: Iterable[Read]) -> dict[str, str]:
    """The state of the records: the last value of each key that is not deleted."""
    state = {record["key"]: record["value"] for record in records}
    return {key: value for key, value in state.items() if value is not None}


MENDED = re.compile(
    r"Recovering|without a clean|[Cc]orrupt|orphan|[Tt]runcat|Delet|stray|rebuilding index|Found "
)
"""What a broker says when it does not find a log as it should be (LogLoader, LogManager 4.3.0)."""
SNAPSHOT = re.compile(r"partition=(\S+)\] Loading producer state from snapshot .*\(offset=(\d+),")


def mended(lines: Iterable[str]) -> list[str]:
    """The lines about something that the broker had to put right."""
    return [line for line in lines if MENDED.search(line)]


def snapshots(lines: Iterable[str]) -> dict[str, int]:
    """The offset of the snapshot from which the broker learned each log's producers; what follows
    it in the log, it had to read again.
    """
    return {matched[1]: int(matched[2]) for line in lines if (matched := SNAPSHOT.search(line))}
