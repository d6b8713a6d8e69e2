"""Whether two log directories are the same to Kafka: the contract between our output and Kafka's.

1. The same live files: segments, indexes, snapshots. What is renamed to `.deleted` does not count.
2. Uncompressed segments: the same bytes of `.log`, `.index`, `.timeindex`; also those compressed by
   zstd, if Kafka has the libzstd that we have. Other compressed ones, where our compressor may pack
   otherwise than Kafka's: every field of every batch and record but position, size and CRC, by
   Kafka's own reader on both sides.
3. The same bytes of `.txnindex`, `.snapshot`, `leader-epoch-checkpoint`, `partition.metadata`.
4. The same offsets in the checkpoint files; a missing file is an empty one.

A difference is a string that begins with its kind: `files`, `log`, `batch`, `index`, `timeindex`,
`txnindex`, `snapshot`, `epochs`, `metadata`, `checkpoint`, `time`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import zstandard

from tests.oracle_runner import kafka, run_oracle

CHECKPOINTS = (
    "cleaner-offset-checkpoint",
    "log-start-offset-checkpoint",
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
)
Reader = Callable[[Path, str, str], list[dict[str, Any]]]
"""Gives at least the batches of a segment; takes log directory, partition, name of the `.log`."""

LIBZSTD = {"4.3": (1, 5, 6), "4.4": (1, 5, 7)}
"""Of each Kafka, the version of zstd-jni's libzstd."""

PACKING_FIELDS = frozenset({"position", "sizeInBytes", "crc"})
KINDS = {
    ".log": "log",
    ".index": "index",
    ".timeindex": "timeindex",
    ".txnindex": "txnindex",
    ".snapshot": "snapshot",
    "leader-epoch-checkpoint": "epochs",
    "partition.metadata": "metadata",
}


def live_files(directory: Path) -> dict[str, Path]:
    """The plain files of a partition directory that a broker would use, by name."""
    return {
        path.name: path
        for path in sorted(directory.iterdir())
        if path.is_file() and not path.name.endswith(".deleted") and not path.name.startswith(".")
    }


def read_checkpoint(path: Path) -> dict[str, int]:
    """An offset checkpoint as `topic-N` to offset; missing or of no bytes is empty."""
    lines = path.read_text().splitlines() if path.exists() else []
    entries = (line.split(" ") for line in lines[2:])
    return {f"{topic}-{number}": int(offset) for topic, number, offset in entries}


def compare_checkpoints(expected: Path, actual: Path, partition: str | None = None) -> list[str]:
    """The differences of the offset checkpoint files, of one partition or of all."""
    differing = []
    for name in CHECKPOINTS:
        wanted, got = read_checkpoint(expected / name), read_checkpoint(actual / name)
        for key in sorted(wanted.keys() | got.keys()):
            if partition in (None, key) and wanted.get(key) != got.get(key):
                expectation = f"expected {wanted.get(key)}, got {got.get(key)}"
                differing.append(f"checkpoint: {name}: {key}: {expectation}")
    return differing


def compare_partition(
    expected: Path,
    actual: Path,
    partition: str,
    *,
    expected_dump: list[dict[str, Any]] | None = None,
    read: Reader | None = None,
) -> list[str]:
    """The differences of one partition's files.

    Args:
        expected: the log directory as Kafka left it.
        actual: the log directory as we left it.
        partition: directory name of the partition in both.
        expected_dump: Kafka's dump of the expected one, if it is at hand.
        read: what finds the batches of a segment; Kafka's own readers if it is not given.
    """
    read = read or read_by_kafka
    wanted, got = live_files(expected / partition), live_files(actual / partition)
    differing = [
        f"files: {partition}: missing {name}" for name in sorted(wanted.keys() - got.keys())
    ]
    differing += [f"files: {partition}: unexpected {n}" for n in sorted(got.keys() - wanted.keys())]
    repacked: set[str] = set()
    for name in sorted(wanted.keys() & got.keys(), key=lambda n: (not n.endswith(".log"), n)):
        difference = _first_difference(wanted[name].read_bytes(), got[name].read_bytes())
        if difference is None:
            continue
        kind = KINDS[Path(name).suffix if name[0].isdigit() else name]
        if kind == "log":
            lines = expected_dump or read(expected, partition, name)
            if packs_otherwise(lines, name):
                repacked.add(Path(name).stem)
                differing += compare_batches(lines, read(actual, partition, name), name)
                continue
        if kind in ("index", "timeindex") and Path(name).stem in repacked:
            continue
        differing.append(f"{kind}: {partition}/{name}: {difference}")
    return differing


def _first_difference(wanted: bytes, got: bytes) -> str | None:
    if wanted == got:
        return None
    paired = zip(wanted, got, strict=False)
    same = next((at for at, (a, b) in enumerate(paired) if a != b), min(len(wanted), len(got)))
    return f"differs from byte {same} (expected {len(wanted)} bytes, got {len(got)})"


def dump(log_dir: Path, partition: str) -> list[dict[str, Any]]:
    """What Kafka's own readers find in a partition."""
    return run_oracle(
        "dump", "--log-dir", log_dir, "--topic-partition", partition, "--indexes", "--snapshots"
    )


def read_by_kafka(log_dir: Path, partition: str, _log_name: str) -> list[dict[str, Any]]:
    """The batches of a segment, among those of its partition."""
    return dump(log_dir, partition)


def is_compressed(lines: list[dict[str, Any]], log_name: str) -> bool:
    """Whether any batch of a segment is compressed."""
    return any(batch["compression"] != "none" for batch in _batches(lines, log_name))


def packs_otherwise(lines: list[dict[str, Any]], log_name: str) -> bool:
    """Whether a segment has a batch that our library may compress to other bytes than Kafka's."""
    alike = {"none", "zstd"} if zstandard.ZSTD_VERSION == LIBZSTD[kafka()] else {"none"}
    return any(batch["compression"] not in alike for batch in _batches(lines, log_name))


def _batches(lines: list[dict[str, Any]], log_name: str) -> list[dict[str, Any]]:
    segment = int(Path(log_name).stem)
    return [line for line in lines if line["type"] == "batch" and line["segment"] == segment]


def compare_batches(
    expected_dump: list[dict[str, Any]], actual_dump: list[dict[str, Any]], log_name: str
) -> list[str]:
    """The differences of a segment's batches and records, packing apart.

    Names fields and offsets only: a difference is printed, and values may be long.
    """
    wanted, got = _batches(expected_dump, log_name), _batches(actual_dump, log_name)
    differing = []
    if len(wanted) != len(got):
        differing.append(f"batch: {log_name}: expected {len(wanted)} batches, got {len(got)}")
    for expected, other in zip(wanted, got, strict=False):
        where = f"batch: {log_name}: batch at offset {expected['baseOffset']}"
        for field in sorted((expected.keys() | other.keys()) - PACKING_FIELDS):
            a, b = expected.get(field), other.get(field)
            if a == b:
                continue
            if field == "records":
                differing.append(f"{where}: {_record_difference(a or [], b or [])}")
            else:
                differing.append(f"{where}: {field}: expected {a}, got {b}")
    return differing


def _record_difference(wanted: list[dict[str, Any]], got: list[dict[str, Any]]) -> str:
    offsets = [one["offset"] for one in wanted], [one["offset"] for one in got]
    if offsets[0] != offsets[1]:
        return f"records: expected offsets {offsets[0]}, got {offsets[1]}"
    for expected, other in zip(wanted, got, strict=True):
        fields = [
            key
            for key in sorted(expected.keys() | other.keys())
            if expected.get(key) != other.get(key)
        ]
        if fields:
            return f"record at offset {expected['offset']}: {', '.join(fields)} differ"
    return "records differ"


def modified_ms(path: Path) -> int:
    """Modification time in milliseconds, as Kafka reads it."""
    return path.stat().st_mtime_ns // 1_000_000


def compare_times(files: dict[str, dict[str, dict[str, int]]], actual: Path) -> list[str]:
    """The differences of the modification times that a cleaning hands on.

    What Kafka truncated or created has the time of the clock on the wall, which is not asked.

    Args:
        files: `before` and `after`, as case.json has them.
        actual: the partition directory as we left it.
    """
    kept = {facts.get("lastModified") for facts in files["before"].values()} - {None}
    differing = []
    for name, facts in files["after"].items():
        wanted, path = facts.get("lastModified"), actual / name
        if wanted in kept and path.exists() and modified_ms(path) != wanted:
            differing.append(f"time: {name}: expected {wanted}, got {modified_ms(path)}")
    return differing


def stray_snapshots(before: Path, *, log_start_offset: int = 0) -> tuple[str, ...]:
    """Ends of the differences that are about snapshots which a load removes: those that belong to
    no segment, and those not above the log start offset (ProducerStateManager.truncateAndReload).

    Args:
        before: the partition directory before the operation.
        log_start_offset: as it is checkpointed.
    """
    bases = {int(path.stem) for path in before.glob("*.log")}
    offsets = [int(path.stem) for path in before.glob("*.snapshot")]
    start = max(log_start_offset, min(bases))
    stray = [
        offset
        for offset in offsets
        if offset <= start or (offset not in bases and offset < max(bases))
    ]
    return tuple(f"unexpected {offset:020d}.snapshot" for offset in stray)
