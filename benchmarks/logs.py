"""The logs to measure with: written by Kafka through the oracle, once, and copied afresh for each
run.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from logwright.compaction.model import CleaningOptions, CleanPlan
from logwright.config.topic import CleanerConfig, parse_settings
from logwright.format.names import CLEANER_OFFSET_CHECKPOINT, WORK_DIRECTORY, TopicPartition
from logwright.sweep.build import build
from logwright.sweep.commit import commit
from logwright.sweep.plan import plan_cleaning
from logwright.units import TimestampMs
from tests.oracle_runner import PROJECT, run_oracle

CASES: Final = (
    *("u100", "u1k", "gzip", "snappy", "lz4", "zstd"),
    *("unique", "roomy", "txn", "again"),
)
ROOMY: Final = ("roomy", "unique")
"""A case that is another one with more memory for the keys."""
ROOMY_BYTES: Final = 160 * 1024 * 1024
AGAIN: Final = ("again", "roomy")
"""A case that is another one after its cleaning, taken for dirty again."""
DEDUPE_BUFFER_BYTES: Final = CleanerConfig().dedupe_buffer_bytes
SEED: Final = 1
_GENERATOR: Final = PROJECT / "src/main/java/oracle/BigLogs.java"


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchLog:
    """One log directory with one partition that was never cleaned.

    Attributes:
        name: of the case, as the oracle's ``generate`` knows it.
        settings: of the topic.
        log_bytes: ``.log`` bytes of the partition.
        dedupe_buffer_bytes: ``log.cleaner.dedupe.buffer.size``, for either cleaner.
    """

    name: str
    directory: Path
    partition: TopicPartition
    settings: dict[str, str]
    now_ms: int
    log_bytes: int
    records: int
    dedupe_buffer_bytes: int = DEDUPE_BUFFER_BYTES

    @property
    def partition_directory(self) -> Path:
        """Where the segments are."""
        return self.directory / str(self.partition)


def prepare(
    name: str, *, scale: float, work: Path, partitions: int = 1, segment_bytes: int | None = None
) -> BenchLog:
    """The log of a case, 1 GB of records at scale 1. Effects: writes it below `work`, unless an
    earlier call did.

    Args:
        partitions: among which the records are divided; one unless it is a topic to read.
        segment_bytes: of its segments; 128 MiB if not given.
    """
    if name == AGAIN[0]:
        return _prepare_again(prepare(AGAIN[1], scale=scale, work=work), work)
    if name == ROOMY[0]:
        return _prepare_roomy(prepare(ROOMY[1], scale=scale, work=work), work)
    version = hashlib.sha256(_GENERATOR.read_bytes()).hexdigest()[:8]
    shape = f"x{partitions}" * (partitions > 1) + f"-{segment_bytes}" * (segment_bytes is not None)
    directory = work / f"{name}-{scale:g}{shape}-{version}"
    if not directory.exists():
        unfinished = directory.with_suffix(".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        options = ["--case", name, "--out", unfinished, "--scale", str(scale / partitions)]
        options += ["--seed", str(SEED), "--partitions", str(partitions)]
        if segment_bytes is not None:
            options += ["--segment-bytes", str(segment_bytes)]
        run_oracle("generate", *options)
        unfinished.rename(directory)
    return read(directory)


def _prepare_roomy(before: BenchLog, work: Path) -> BenchLog:
    """The same log with a larger map, by links. Effects: as `prepare`."""
    directory = work / before.directory.name.replace(before.name, ROOMY[0], 1)
    if not directory.exists():
        unfinished = directory.with_suffix(".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        shutil.copytree(before.directory, unfinished, copy_function=os.link)
        _describe(unfinished, {"name": ROOMY[0], "dedupeBuffer": ROOMY_BYTES})
        unfinished.rename(directory)
    return read(directory)


def _describe(directory: Path, changes: dict[str, object]) -> None:
    """Replace ``case.json``, which may be a link."""
    path = directory / "case.json"
    case = json.loads(path.read_text()) | changes
    path.unlink()
    path.write_text(json.dumps(case))


def _prepare_again(before: BenchLog, work: Path) -> BenchLog:
    """The same log, cleaned by logwright. Effects: as `prepare`."""
    directory = work / before.directory.name.replace(before.name, AGAIN[0], 1)
    if not directory.exists():
        unfinished = directory.with_suffix(".unfinished")
        fresh_copy(before, unfinished)
        planned = plan(before, unfinished)
        commit(planned, build(planned))
        for path in unfinished.rglob("*.deleted"):
            path.unlink()
        shutil.rmtree(unfinished / str(before.partition) / WORK_DIRECTORY)
        (unfinished / CLEANER_OFFSET_CHECKPOINT).unlink()
        logs = list((unfinished / str(before.partition)).glob("*.log"))
        log_bytes = sum(path.stat().st_size for path in logs)
        _describe(unfinished, {"name": AGAIN[0], "logBytes": log_bytes})
        unfinished.rename(directory)
    return read(directory)


def read(directory: Path) -> BenchLog:
    """The log that a directory's ``case.json`` describes. Effects: reads it."""
    case = json.loads((directory / "case.json").read_text())
    return BenchLog(
        name=case["name"],
        directory=directory,
        partition=TopicPartition(case["topic"], 0),
        settings=case["topicConfig"],
        now_ms=case["now"],
        log_bytes=case["logBytes"],
        records=case["records"],
        dedupe_buffer_bytes=case.get("dedupeBuffer", DEDUPE_BUFFER_BYTES),
    )


def fresh_copy(log: BenchLog, target: Path) -> Path:
    """A copy to clean, flushed, so that a later flush has only the output to write. Effects:
    replaces `target`.
    """
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(log.directory, target)
    for path in target.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())
    return target


def plan(log: BenchLog, log_dir: Path) -> CleanPlan:
    """What `logwright clean` would plan for a copy of the log. Effects: reads it."""
    config, cleaner = parse_settings(log.settings)
    buffer = {"dedupe_buffer_bytes": log.dedupe_buffer_bytes}
    return plan_cleaning(
        log_dir,
        log.partition,
        (config, cleaner.model_copy(update=buffer)),
        now_ms=TimestampMs(log.now_ms),
        options=CleaningOptions(),
        high_watermark="end",
    )
