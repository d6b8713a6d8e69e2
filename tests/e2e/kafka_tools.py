"""Kafka's own system-test tools on a real broker: they are held between two of their steps, the
broker is stopped, we work on its log directory, it starts again, and they continue.
"""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as Assigned

from tests.e2e.broker_life import broker
from tests.e2e.command import call
from tests.oracle_runner import oracle_jvm

COMPACTION_TESTER = "org.apache.kafka.tools.LogCompactionTester"
COPIER = "org.apache.kafka.tools.TransactionalMessageCopier"
PERCENT_DELETES = 20
WAIT_SECONDS = 60.0
NOT_YET = (
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
)
SMALLEST_SEGMENT_BYTES = 1 << 20
"""Of the topics' segments: a broker takes no smaller ones."""
SERVER = (
    "log.cleaner.enable=false",
    f"log.segment.bytes={SMALLEST_SEGMENT_BYTES}",
    "log.retention.check.interval.ms=3600000",
    "offsets.topic.num.partitions=1",
    "transaction.state.log.num.partitions=1",
    "share.coordinator.state.topic.num.partitions=1",
    "share.coordinator.state.topic.replication.factor=1",
    "share.coordinator.state.topic.min.isr=1",
)
COMPACT = {
    "cleanup.policy": "compact",
    "segment.bytes": str(SMALLEST_SEGMENT_BYTES),
    "min.cleanable.dirty.ratio": "0.01",
    "min.compaction.lag.ms": "0",
    "delete.retention.ms": "1000",
}
TELL = "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.tools=debug"
"""The copier says for which error it aborts a transaction and tries again."""
FAILED = "Aborting transaction after catching exception"
"""What it says then."""
REMOVED = ("Superseded", "Tombstones", "NullKeys", "Aborted", "Markers")
"""Why `clean` removes records."""


class Tool:
    """One of Kafka's tools in a process of its own. Effects: a process, ended by the context."""

    def __init__(
        self, work: Path, name: str, main_class: str, arguments: Sequence[str], *, hold: str
    ) -> None:
        """`hold`: after the first line that has this text the tool waits for `go_on`."""
        self._hold = hold
        self._said = work / f"{name}.txt"
        self.lines: list[str] = []
        scratch = work / f"{name}.tmp"
        scratch.mkdir()
        jvm = oracle_jvm("-Xmx512m", TELL, f"-Djava.io.tmpdir={scratch}")
        call = ("--class", main_class, "--wait-after", hold, "--", *arguments)
        with self._said.open("w") as output:
            self._process = subprocess.Popen(
                [*jvm, "oracle.Main", "tool", *call],
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
            self._process.kill()

    def held(self) -> str:
        """The line after which the tool waits now."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.lines.append(line.rstrip("\n"))
            if self._hold in line:
                return self.lines[-1]
        raise AssertionError(f"the tool ended early: {self.lines[-5:]} {self.errors()[-4000:]}")

    def go_on(self) -> None:
        """Let the tool do the rest."""
        assert self._process.stdin is not None
        self._process.stdin.write("continue\n")
        self._process.stdin.flush()

    def finish(self) -> int:
        """Wait for its end; its exit status."""
        out, _ = self._process.communicate()
        self.lines += out.splitlines()
        return self._process.returncode

    def errors(self) -> str:
        """All that it logged."""
        return self._said.read_text()


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What Kafka's LogCompactionTester said.

    Attributes:
        status: its exit status; 0: every key has the last value that was produced.
        produced, consumed: rows.
        values: keys with a value that were compared.
        mismatches: of these, those that differ.
        missing: values that were produced are left over after the last that was consumed.
    """

    status: int
    produced: int
    consumed: int
    values: int
    mismatches: int
    missing: bool


class CompactionTester(Tool):
    """Kafka's LogCompactionTester, held between its producing and its consuming."""

    def __init__(self, work: Path, name: str, bootstrap: str, codec: str, messages: int) -> None:
        arguments = ("--bootstrap-server", bootstrap, "--messages", str(messages))
        kind = ("--compression-type", codec, "--percent-deletes", str(PERCENT_DELETES))
        hold = "Consuming messages..."
        super().__init__(work, name, COMPACTION_TESTER, (*arguments, *kind), hold=hold)

    def log(self) -> str:
        """The name of the log that it produces to."""
        return _found(r"messages\.\.to topics (\S+)", self.lines)[1] + "-0"

    def verdict(self) -> Verdict:
        """Wait for its end."""
        status = self.finish()
        rows = _found(r"(\d+) rows of data produced, (\d+) rows of data consumed", self.lines)
        compared = _found(r"Validated (\d+) values, (\d+) mismatches", self.lines)
        return Verdict(
            status=status,
            produced=int(rows[1]),
            consumed=int(rows[2]),
            values=int(compared[1]),
            mismatches=int(compared[2]),
            missing="Additional values produced not found in consumer log" in self.errors(),
        )


class Copier(Tool):
    """Kafka's TransactionalMessageCopier: `input` to `output`, as one group and one transactional
    id, some of its transactions aborted.
    """

    GROUP = "copier"
    SIZE = 50
    """Records of a transaction."""

    def __init__(self, work: Path, name: str, bootstrap: str, *, most: int, hold_at: int) -> None:
        """`hold_at`: it waits when this many records were copied, a multiple of `SIZE`."""
        arguments = (
            *("--broker-list", bootstrap, "--input-topic", "input", "--input-partition", "0"),
            *("--output-topic", "output", "--max-messages", str(most)),
            *("--consumer-group", self.GROUP, "--transactional-id", "copier-1"),
            *("--transaction-size", str(self.SIZE), "--enable-random-aborts"),
            "--use-group-metadata",
        )
        super().__init__(work, name, COPIER, arguments, hold=f'"totalProcessed":{hold_at},')

    def copied(self) -> int:
        """How many records it has copied, by its last line."""
        status: dict[str, Any] = json.loads(self.lines[-1])
        return int(status["totalProcessed"])


def _found(pattern: str, lines: Sequence[str]) -> re.Match[str]:
    for line in lines:
        matched = re.search(pattern, line)
        if matched:
            return matched
    raise AssertionError(f"no line has {pattern}: {lines}")


@contextmanager
def life(work: Path, name: str, port: int) -> Iterator[str]:
    """A life of the broker, which cleans nothing itself; where it listens. It stops cleanly."""
    settings = ("--server-config", *SERVER)
    with broker(work, name, *settings, port=port) as (running, bootstrap):
        yield bootstrap
        (work / f"{name}.stop").touch()
        assert 0 == running.wait(WAIT_SECONDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaned:
    """What our cleanings did to one log.

    Attributes:
        removed: records that are gone, by the reason.
        reclaimed: bytes.
        rewritten: segments that were replaced.
    """

    removed: Counter[str]
    reclaimed: int
    rewritten: int


def clean_twice(log_dir: Path, names: Sequence[str], now_ms: int) -> dict[str, Cleaned]:
    """Clean what is not in an active segment; an hour later, when active segments are due and
    tombstones and markers that the first cleaning saw may go, all that there is.
    """
    later = ("--config", "segment.ms=60000", "--now", now_ms + 3_600_000)
    cleanings = [clean(log_dir, names, "--now", now_ms), clean(log_dir, names, *later)]
    cleaned = {}
    for name in names:
        lines = [cleaning[name] for cleaning in cleanings]
        passes = [one for line in lines for one in line["passes"] if one["cleaned"]]
        removed = {kind: sum(one[f"removed{kind}"] for one in passes) for kind in REMOVED}
        cleaned[name] = Cleaned(
            removed=Counter(removed),
            reclaimed=sum(line["bytesBefore"] - line["bytesAfter"] for line in lines),
            rewritten=sum(one["segmentsBefore"] for one in passes),
        )
    return cleaned


def clean(log_dir: Path, names: Sequence[str], *words: str | int) -> dict[str, dict[str, Any]]:
    """One command line on compacted logs, as if the cleaner were on; what it said of each."""
    settings = COMPACT | {"log.cleaner.enable": "true"}
    config = [word for pair in settings.items() for word in ("--config", "=".join(pair))]
    answer = call("clean", log_dir, *names, *config, *words, "--yes", "--output", "json")
    assert 0 == answer.status, answer.err
    return {line["topicPartition"]: line for line in answer.lines}


def records(bootstrap: str, topic: str, *, at_least: int) -> list[tuple[int, bytes, bytes]]:
    """Offset, key and value of the committed records of a topic's only partition."""
    settings = {"group.id": "all", "enable.partition.eof": True}
    consumer = Consumer({"bootstrap.servers": bootstrap, **settings})
    consumer.assign([Assigned(topic, 0, 0)])
    consumed_records: list[tuple[int, bytes, bytes]] = []
    while True:
        message = polled(consumer)
        if message.error() is None:
            consumed_records.append((message.offset(), message.key(), message.value()))
        elif len(consumed_records) >= at_least:
            break
    consumer.close()
    return consumed_records


def polled(consumer: Consumer) -> Message:
    """The next record, or what says that there is none yet."""
    message = consumer.poll(WAIT_SECONDS)
    assert message is not None, f"nothing for {WAIT_SECONDS} seconds"
    error = message.error()
    assert error is None or error.name() == "_PARTITION_EOF", error
    return message


def committed(bootstrap: str, group: str) -> int:
    """The offset that a group has committed for the input.

    A broker that has just started may not know yet that it is the group's coordinator.
    """
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    until = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            (position,) = consumer.committed([Assigned("input", 0)], timeout=WAIT_SECONDS)
        except KafkaException as refused:
            if refused.args[0].code() not in NOT_YET or time.monotonic() > until:
                raise
            time.sleep(0.1)
        else:
            break
    consumer.close()
    offset: int = position.offset
    return offset
