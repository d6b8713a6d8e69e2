"""Cleans one log by Kafka's own cleaner and by ours, and compares what both leave.

Kafka's cleaner runs in one JVM that stays (judge/CleanLoop.java): a case takes milliseconds.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Literal, Self

from logwright.compaction.model import CleaningOptions, CleanPlan, StagedCleaning
from logwright.config.kafka_version import BY_NAME
from logwright.config.topic import effective
from logwright.format.batch import RecordBatch, parse_batch, walk_batches
from logwright.format.record import Record, read_records
from logwright.purge.commit import purge_partition
from logwright.sweep.build import build, examine
from logwright.sweep.commit import commit
from logwright.sweep.plan import plan_cleaning
from logwright.units import TimestampMs
from tests.comparison import (
    compare_checkpoints,
    compare_partition,
    modified_ms,
    read_checkpoint,
)
from tests.log_builder import START_MS, LogBuilder
from tests.oracle_runner import kafka, oracle_jvm_with

SOURCE = Path(__file__).parent / "judge" / "CleanLoop.java"
NOW_MS = START_MS + 1_000_000
SETTINGS = {
    "cleanup.policy": "compact",
    "delete.retention.ms": "5000",
    "segment.ms": str(1 << 60),
}
PURGE_DELAY_MS = 60_000

Batches = list[tuple[RecordBatch, tuple[Record, ...]]]


class KafkaCleaner:
    """Kafka's cleaner, for as long as a `with` statement lasts."""

    def __init__(self) -> None:
        # both are closed in __exit__
        self._stderr: IO[str] = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self._process = subprocess.Popen(
            [*oracle_jvm_with([SOURCE]), "oracle.CleanLoop"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
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
        """Ends the JVM."""
        self._process.communicate(timeout=60)
        self._stderr.close()

    def clean(self, *arguments: str) -> dict[str, Any]:
        """What the oracle's `clean` says (tests/oracle/README.md)."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\t".join(arguments) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        while line and not line.startswith("{"):
            line = self._process.stdout.readline()
        self._stderr.seek(0)
        assert line, self._stderr.read()[-4000:]
        answer: dict[str, Any] = json.loads(line)
        assert "error" not in answer, f"{answer} {self._stderr.read()[-4000:]}"
        return answer


@dataclass(slots=True, kw_only=True)
class Round:
    """How a log is cleaned: the settings in addition to SETTINGS, the clock, and Kafka to ask.

    Attributes:
        buffer: ``log.cleaner.dedupe.buffer.size``.
        passes: cleanings at one clock; each begins where the one before ended.
    """

    kafka: KafkaCleaner
    settings: dict[str, str] = field(default_factory=dict)
    now_ms: int = NOW_MS
    buffer: int = 1 << 20
    passes: int = 1
    high_watermark: Literal["end", "checkpoint"] = "end"

    def plan(self, builder: LogBuilder) -> CleanPlan:
        """Our plan for the next cleaning of a log."""
        config, cleaner = effective({**SETTINGS, **self.settings}, BY_NAME[kafka()])
        return plan_cleaning(
            builder.log_dir,
            builder.partition,
            (config, cleaner.model_copy(update={"dedupe_buffer_bytes": self.buffer})),
            now_ms=TimestampMs(self.now_ms),
            options=CleaningOptions(force=True, like_kafka=True),
            high_watermark=self.high_watermark,
        )

    def clean(self, builder: LogBuilder) -> list[StagedCleaning]:
        """Clean a log by both; what ours staged in each pass. Effects: changes the log.

        Raises:
            AssertionError: they differ, or ours failed a check.
        """
        copy = builder.log_dir.with_name(f"kafka-{len(list(builder.log_dir.parent.iterdir()))}")
        shutil.copytree(builder.log_dir, copy, copy_function=shutil.copy2)
        answer = self.kafka.clean(*self.arguments(copy, builder.partition.directory_name))
        staged = self.clean_ours(builder)
        differences = self._differences(answer, copy, builder, staged)
        assert not differences, differences
        return staged

    def clean_ours(self, builder: LogBuilder) -> list[StagedCleaning]:
        """Clean a log by ours alone, where Kafka is known to do otherwise. Effects: changes it."""
        done = []
        for _ in range(self.passes):
            plan = self.plan(builder)
            staged = build(plan) if plan.clean else None
            if staged is not None:
                broken = examine(plan, staged).failed
                assert not broken, broken
                done.append(staged)
            commit(plan, staged)
        config, _ = effective({**SETTINGS, **self.settings}, BY_NAME[kafka()])
        later = TimestampMs(self.now_ms + PURGE_DELAY_MS)
        purge_partition(
            builder.log_dir,
            builder.partition,
            now_ms=later,
            file_delete_delay_ms=config.file_delete_delay_ms,
        )
        return done

    def arguments(self, log_dir: Path, partition: str) -> list[str]:
        """What makes the oracle's `clean` do this round."""
        pairs = {**SETTINGS, **self.settings}
        expiration = pairs.pop("producer.id.expiration.ms", "86400000")
        return [
            *("--log-dir", str(log_dir), "--topic-partition", partition),
            *("--now", str(self.now_ms), "--high-watermark", self.high_watermark),
            *("--dedupe-buffer", str(self.buffer), "--passes", str(self.passes)),
            *("--producer-id-expiration-ms", expiration),
            *("--config", *(f"{key}={value}" for key, value in pairs.items())),
        ]

    def _differences(
        self, answer: dict[str, Any], copy: Path, builder: LogBuilder, staged: list[StagedCleaning]
    ) -> list[str]:
        ours = builder.log_dir
        partition = builder.partition.directory_name
        differing = compare_partition(copy, ours, partition)
        differing += [
            f"time: {path.name}"
            for path in sorted((copy / partition).glob("*.log"))
            if modified_ms(path) != modified_ms(ours / partition / path.name)
        ]
        # Kafka writes these when it closes a log; they are none of a cleaning's.
        by_cleaning = ("checkpoint: cleaner-offset",)
        differing += [one for one in compare_checkpoints(copy, ours) if one.startswith(by_cleaning)]
        cleaned = [one for one in answer["passes"] if one["cleaned"]]
        ends = [one["newFirstDirtyOffset"] for one in cleaned]
        if ends != [one.end_offset for one in staged]:
            differing.append(
                f"plan: passes end at {ends}, ours at {[s.end_offset for s in staged]}"
            )
        return differing


def batches(builder: LogBuilder, base_offset: int | None = None) -> Batches:
    """All batches of a log as it is on disk, or of one of its segments."""
    listed: Batches = []
    for path in sorted(builder.directory.glob("*.log")):
        if base_offset is not None and int(path.stem) != base_offset:
            continue
        content = path.read_bytes()
        for span in walk_batches(content):
            whole = content[span.position : span.position + span.bytes]
            batch = parse_batch(whole)
            listed.append((batch, read_records(batch, whole)))
    return listed


def records(builder: LogBuilder) -> list[Record]:
    """All records of a log as it is on disk, control records too."""
    return [record for _, of_batch in batches(builder) for record in of_batch]


def offsets(builder: LogBuilder) -> list[int]:
    """Of all records."""
    return [record.offset for record in records(builder)]


def first_dirty_offset(builder: LogBuilder) -> int:
    """As recorded."""
    recorded = read_checkpoint(builder.log_dir / "cleaner-offset-checkpoint")
    return recorded[builder.partition.directory_name]
