"""The cases that Kafka wrote: what a log directory was, and what Kafka made of it.

data/README.md lists them. They are unpacked once into the pytest cache, with the modification times
that case.json gives, since some rules of the cleaner and of retention depend on them.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tarfile
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from tests.comparison import (
    compare_checkpoints,
    compare_partition,
    compare_times,
    stray_snapshots,
)
from tests.oracle_runner import using

DATA = Path(__file__).parent / "data"
ARCHIVES = (DATA / "kafka-cases.tar.xz", DATA / "kafka-cases-4.4.tar.xz")
CACHE = Path(__file__).parent.parent / ".pytest_cache" / "logwright"
NS_PER_MS = 1_000_000

Side = Literal["before", "after"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CasePartition:
    """One partition of a case.

    Attributes:
        name: its directory's name, ``topic-N``.
        config: its topic settings, by Kafka's names.
        results: what each operation of the case said of it.
    """

    name: str
    config: dict[str, str]
    results: list[dict[str, Any]]


@cache
def unpacked() -> Path:
    """Where the archives lie unpacked. Effects: unpacks them if they are not there yet.

    Never write below it: `copy_before` gives a copy to work on.
    """
    digest = hashlib.sha256(b"".join(archive.read_bytes() for archive in ARCHIVES))
    ready = CACHE / f"kafka-cases-{digest.hexdigest()[:16]}-committed"
    if ready.is_dir():
        return ready
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
        root = Path(scratch) / "cases"
        # Python before 3.11.4, Debian 12's among them, has no filters.
        filters = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        for archive in ARCHIVES:
            with tarfile.open(archive, "r:xz") as tar:
                tar.extractall(root, **filters)  # noqa: S202 -- our own, packed by data/pack.py
        for case in (root / "cases").iterdir():
            _set_times(case)
        for case in root.glob("*/*/case.json"):
            _commit(case)
        if not ready.is_dir():
            root.rename(ready)
    return ready


def _commit(case: Path) -> None:
    """Give the logs of a case, before the operation, the high watermarks with which Kafka did it:
    what wrote them was no broker, and recorded the offset at which it had opened each.
    """
    rows = {
        row["topicPartition"].rpartition("-")[::2]: row["highWatermark"]
        for row in json.loads(case.read_text())["plan"]["partitions"]
    }
    lines = [f"{topic} {number} {offset}" for (topic, number), offset in rows.items()]
    checkpoint = case.parent / "before" / "replication-offset-checkpoint"
    stat = checkpoint.stat()
    checkpoint.write_text("\n".join(["0", str(len(lines)), *lines, ""]))
    os.utime(checkpoint, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def _set_times(directory: Path) -> None:
    """Gives the files of both sides the modification times of case.json.

    `real-broker` states none: there a segment's time is its largest timestamp, which is when a
    running broker wrote its last batch, more or less.
    """
    case = json.loads((directory / "case.json").read_text())
    if "files" not in case:
        for partition in _partitions(case):
            for side in ("before", "after"):
                _set_times_from_dump(directory, side, partition.name)
        return
    name = f"{case['topic']}-{case['partition']}"
    for side, files in case["files"].items():
        for file, facts in files.items():
            if "lastModified" in facts:
                _set_time(directory / side / name / file, facts["lastModified"])


def _set_times_from_dump(directory: Path, side: str, partition: str) -> None:
    largest: dict[int, int] = {}
    for line in _read_lines(directory / f"{side}.{partition}.jsonl"):
        if line["type"] == "batch":
            segment = line["segment"]
            largest[segment] = max(largest.get(segment, 0), line["maxTimestamp"])
    for segment, timestamp_ms in largest.items():
        _set_time(directory / side / partition / f"{segment:020d}.log", timestamp_ms)


def _set_time(path: Path, time_ms: int) -> None:
    os.utime(path, ns=(time_ms * NS_PER_MS, time_ms * NS_PER_MS))


def _read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def _names(kafka: str) -> list[str]:
    listing = (DATA / "README.md").read_text().splitlines()
    rows = [line.split("|") for line in listing if line.startswith("| ")]
    return [cells[1].strip() for cells in rows if cells[2].strip() == kafka]


CASES: list[str] = _names("4.3.0")
"""Every case of Kafka 4.3, from the listing: collecting tests must not unpack the archive."""

CASES_OF_4_4: list[str] = _names("4.4.0")
"""The cases of Kafka 4.4, in which it differs from 4.3."""


def case_dir(name: str) -> Path:
    """The directory of a case: before/, after/, case.json and the dumps. Read only."""
    return unpacked() / "cases" / name


def swap_layouts() -> Path:
    """The directory of the hand-made swap layouts, each in the form of a case. Read only."""
    return unpacked() / "swap-layouts"


def description(name: str) -> dict[str, Any]:
    """What case.json says."""
    loaded: dict[str, Any] = json.loads((case_dir(name) / "case.json").read_text())
    return loaded


def partitions(name: str) -> list[CasePartition]:
    """The partitions of a case: one, but for `real-broker`."""
    return _partitions(description(name))


def _partitions(case: dict[str, Any]) -> list[CasePartition]:
    return [
        CasePartition(
            name=f"{part['topic']}-{part['partition']}",
            config=part["topicConfig"],
            results=part["results"],
        )
        for part in case.get("partitions", [case])
    ]


def partition_of(name: str, partition: str | None = None) -> CasePartition:
    """One partition of a case; without a name, its only one."""
    fitting = [one for one in partitions(name) if partition in (None, one.name)]
    if len(fitting) != 1:
        raise LookupError(f"{name} has the partitions {[one.name for one in partitions(name)]}")
    return fitting[0]


def settings(name: str, partition: str | None = None) -> list[str]:
    """The settings of a case as `--config KEY=VALUE` arguments, brokers' ones included."""
    case = description(name)
    pairs = dict(partition_of(name, partition).config)
    pairs["producer.id.expiration.ms"] = str(case["producerIdExpirationMs"])
    pairs["log.cleaner.io.buffer.load.factor"] = str(case["loadFactor"])
    return [word for pair in pairs.items() for word in ("--config", f"{pair[0]}={pair[1]}")]


def clean_arguments(name: str, partition: str | None = None) -> list[str]:
    """The options that make `clean` do what Kafka did in this case."""
    case = description(name)
    return [
        "--like-kafka",
        "--force",
        "--yes",
        "--now",
        str(case["now"]),
        "--high-watermark",
        case["highWatermark"],
        "--kafka-version",
        case["kafka"].rpartition(".")[0],
        "--dedupe-buffer",
        str(case["dedupeBuffer"]),
        "--passes",
        str(case["passes"]),
        *settings(name, partition),
    ]


def dump_lines(name: str, side: Side, partition: str | None = None) -> list[dict[str, Any]]:
    """Kafka's own dump of one side of a case."""
    case = description(name)
    fixture = partition_of(name, partition)
    suffix = f".{fixture.name}" if "partitions" in case else ""
    return _read_lines(case_dir(name) / f"{side}{suffix}.jsonl")


def copy_before(name: str, tmp_path: Path) -> Path:
    """A writable copy of a case's log directory before the operation, times and all.

    Returns:
        the copied log directory, below tmp_path.
    """
    copy = tmp_path / name
    shutil.copytree(case_dir(name) / "before", copy, copy_function=shutil.copy2)
    return copy


def compare_after(name: str, log_dir: Path, *, only: str | None = None) -> list[str]:
    """The differences between logwright's outcome of a case and Kafka's, by tests/comparison.py.

    Three things that Kafka's side did are not required of logwright's: when it loaded the log it
    removed snapshots that belong to no segment (those left by the case before in a chain); it set
    the modification time of what it truncated or created by the wall clock, and it wrote the high
    watermark when it closed the log, so the replication checkpoint may also be as it was before.

    Args:
        name: the case.
        log_dir: the copy that was worked on.
        only: directory name of the one partition to compare; else all.
    """
    case = description(name)
    after, before = case_dir(name) / "after", case_dir(name) / "before"
    differing = []
    for partition in partitions(name):
        if only in (None, partition.name):
            lines = dump_lines(name, "after", partition.name)
            with using(case["kafka"].rpartition(".")[0]):
                differences = compare_partition(after, log_dir, partition.name, expected_dump=lines)
            stray = stray_snapshots(before / partition.name)
            differing += [one for one in differences if not one.endswith(stray)]
            if "files" in case:
                differing += compare_times(case["files"], log_dir / partition.name)
    watermark = "checkpoint: replication-offset-checkpoint"
    unmoved = {one for one in compare_checkpoints(after, before, only) if one.startswith(watermark)}
    differing += [one for one in compare_checkpoints(after, log_dir, only) if one not in unmoved]
    if (after / ".kafka_cleanshutdown").exists() != (log_dir / ".kafka_cleanshutdown").exists():
        differing.append("files: .kafka_cleanshutdown is on one side only")
    return differing
