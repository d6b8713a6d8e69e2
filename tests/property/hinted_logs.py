"""Log directories with every kind of file next to the logs, and what the logs alone say of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from click.testing import CliRunner

from logwright.cli.main import main
from logwright.format.batch import RecordBatch, parse_batch, walk_batches
from logwright.format.checkpoints import (
    LeaderEpoch,
    parse_offset_checkpoint,
    serialize_leader_epochs,
    serialize_offset_checkpoint,
)
from logwright.format.control import parse_control_key
from logwright.format.record import Record, read_records
from logwright.units import Offset
from tests.ingested import append
from tests.log_builder import START_MS, LogBuilder, SegmentBuilder

NOW_MS: Final = START_MS + 1_000_000
RETENTION_MS: Final = 1_000_000 - 20
"""At this clock the records below offset 20 are older: a record's time is START_MS + offset."""
SETTINGS: Final = {
    "cleanup.policy": "compact,delete",
    "retention.ms": "-1",
    "segment.ms": str(1 << 60),
    "internal.segment.bytes": "900",
    "index.interval.bytes": "0",
    "delete.retention.ms": "10",
    "file.delete.delay.ms": "1000",
}


def configured(**changes: str) -> list[str]:
    """The settings as options of the command line; names with underscores for dots."""
    changed = {name.replace("_", "."): value for name, value in changes.items()}
    pairs = SETTINGS | changed
    return [part for name, value in pairs.items() for part in ("--config", f"{name}={value}")]


def run(command: str, log_dir: Path, *options: str, now_ms: int = NOW_MS, **changes: str) -> int:
    """Run a command on t-0 in this process; its exit status. Effects: what it does."""
    arguments = [command, str(log_dir), "t-0", *configured(**changes), "--now", str(now_ms)]
    done = CliRunner().invoke(main, [*arguments, *options], catch_exceptions=False)
    return done.exit_code


def clean(log_dir: Path, *options: str) -> int:
    """Effects: cleans t-0, if there is anything to clean."""
    return run("clean", log_dir, "--force", "--yes", "--engine", "local", *options)


def _segments(builder: LogBuilder, codec: int) -> None:
    """Transactions of two producers, committed and aborted, over segments; tombstones; a producer
    that is only idempotent.
    """

    def data(
        segment: SegmentBuilder, at: int, key: str, value: str | None, producer: int = -1
    ) -> None:
        numbers = {"producer_id": producer, "sequence": at} if producer >= 0 else {}
        segment.batch(
            at,
            [(key, value), (f"own {at}", "x")],
            codec=codec,
            transactional=producer in (7, 8),
            **numbers,  # type: ignore[arg-type]
        )

    segment_builder = builder.segment(0)
    data(segment_builder, 0, "a", "committed")
    data(segment_builder, 2, "b", "committed", 7)
    data(segment_builder, 4, "c", "committed", 8)
    segment_builder.marker(6, 7, "commit").marker(7, 8, "commit")
    data(segment_builder, 8, "a", "aborted", 7)
    two = builder.segment(10)
    data(two, 10, "b", "aborted", 8)
    two.marker(12, 7, "abort")
    data(two, 13, "c", None)
    data(two, 15, "d", "idempotent", 9)
    data(two, 17, "a", "aborted too", 7)
    three = builder.segment(19)
    three.marker(19, 8, "abort").marker(20, 7, "abort")
    data(three, 21, "b", "new", 7)
    data(three, 23, "e", "1")
    three.marker(25, 7, "commit")
    data(three, 26, "d", "aborted", 8)
    four = builder.segment(28)
    data(four, 28, "e", "2")
    four.marker(30, 8, "abort")
    data(four, 31, "f", "active", 9)


def _open_transaction(builder: LogBuilder, codec: int) -> None:
    """After the above: a transaction is open over two segments."""
    builder.segment(33).batch(33, [("f", "old")], codec=codec).batch(
        34, [("a", "open"), ("b", "open")], codec=codec, producer_id=7, transactional=True
    )
    builder.segment(36).batch(36, [("e", "3")], codec=codec).batch(
        37, [("c", "open")], codec=codec, producer_id=7, transactional=True
    )
    builder.segment(38).batch(38, [("e", "4")], codec=codec)


def _write(
    log_dir: Path, codec: int, *, dirty: int | None, start: int | None, is_open: bool = False
) -> None:
    """Two partitions with all that a broker keeps next to them."""
    entries: dict[str, dict[object, int]] = {}
    for name in ("t-0", "t-1"):
        builder = LogBuilder(log_dir, name)
        _segments(builder, codec)
        if is_open:
            _open_transaction(builder, codec)
        builder.write(producers=True, index_interval=0)
        epochs = [LeaderEpoch(epoch=0, start_offset=Offset(0))]
        epochs.append(LeaderEpoch(epoch=3, start_offset=Offset(13)))
        path = builder.directory / "leader-epoch-checkpoint"
        path.write_bytes(serialize_leader_epochs(epochs))
        for file, offset in (
            ("cleaner-offset-checkpoint", dirty),
            ("log-start-offset-checkpoint", start),
            ("replication-offset-checkpoint", builder.end_offset),
            ("recovery-point-offset-checkpoint", builder.end_offset),
        ):
            if offset is not None:
                entries.setdefault(file, {})[builder.partition] = offset
    for file in ("cleaner", "log-start", "replication", "recovery-point"):
        offsets = entries.get(f"{file}-offset-checkpoint", {})
        content = serialize_offset_checkpoint(offsets)  # type: ignore[arg-type]
        (log_dir / f"{file}-offset-checkpoint").write_bytes(content)


def plain(log_dir: Path) -> None:
    """Nothing was done yet; the first dirty offset lies inside a segment."""
    _write(log_dir, 0, dirty=2, start=None)


def packed(log_dir: Path) -> None:
    """Compressed, and after a log start offset inside a segment."""
    _write(log_dir, 4, dirty=None, start=3)


def undecided(log_dir: Path) -> None:
    """A transaction is open, and no cleaning may look after its begin."""
    _write(log_dir, 0, dirty=15, start=None, is_open=True)


def cleaned(log_dir: Path) -> None:
    """Cleaned: an undo is possible, and something more to be cleaned."""
    _write(log_dir, 1, dirty=None, start=None)
    assert 0 == clean(log_dir)
    (log_dir / "cleaner-offset-checkpoint").write_bytes(serialize_offset_checkpoint({}))


def retained(log_dir: Path) -> None:
    """Its oldest segment was deleted: an undo is possible."""
    _write(log_dir, 0, dirty=2, start=None)
    assert 0 == run("retain", log_dir, "--yes", retention_ms=str(1_000_000 - 12))
    assert not (log_dir / "t-0" / f"{0:020d}.log").exists()


def ingested(log_dir: Path) -> None:
    """Made by two ingests and rolled, with a pause that has run out."""
    log_dir.mkdir()
    for number in range(2):
        rows = [(b"%d" % (n % 5), b"v%d" % number, [], START_MS + n) for n in range(12)]
        append(log_dir, rows, INGEST, now_ms=NOW_MS, ingest_id=f"one {number}")
    (log_dir / "t-0" / ".logwright").chmod(0o700)
    state = '{"version":1,"partitions":{"t-0":{"pauses":[{"owner":"o","reason":"r","sinceMs":1'
    (log_dir / ".logwright-state.json").write_text(f'{state},"expiresAtMs":2}}]}}}}}}\n')


INGEST: Final = {"index.interval.bytes": "0", "internal.segment.bytes": "400"}
LOGS: Final[Mapping[str, Callable[[Path], None]]] = {
    "plain": plain,
    "packed": packed,
    "undecided": undecided,
    "cleaned": cleaned,
    "retained": retained,
    "ingested": ingested,
}


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What consumers get of t-0, by its logs and its log start offset alone.

    Attributes:
        gone: there is no such log any more.
        records: offset to key, value and time, of data records not below the log start offset.
        committed: offsets of those that consumers of committed records get, by the markers.
        producers: last epoch, sequence and offset of each producer, by the batches.
    """

    gone: bool
    start: int
    records: Mapping[int, tuple[bytes | None, bytes | None, int]]
    committed: frozenset[int]
    producers: Mapping[int, tuple[int, int, int]]

    @property
    def latest(self) -> dict[bytes | None, tuple[int, bytes | None]]:
        """Of each key the last committed offset and value; deleted keys have none."""
        newest = {}
        for offset in sorted(self.committed):
            key, value, _ = self.records[offset]
            newest[key] = (offset, value)
        return {key: one for key, one in newest.items() if one[1] is not None}


def see(log_dir: Path) -> Seen:
    """Read it plainly. Effects: reads."""
    directory = log_dir / "t-0"
    if not directory.is_dir():
        return Seen(gone=True, start=0, records={}, committed=frozenset(), producers={})
    batches = [batch for path in sorted(directory.glob("*.log")) for batch in _batches(path)]
    start = max(_log_start(log_dir), min(int(path.stem) for path in directory.glob("*.log")))
    committed: set[int] = set()
    is_open: dict[int, list[int]] = {}
    for header, records in batches:
        offsets = [record.offset for record in records if record.offset >= start]
        if header.is_control:
            waiting = is_open.pop(header.producer_id, []) if records else []
            if records and parse_control_key(records[0].key).name == "COMMIT":
                committed.update(waiting)
        elif header.is_transactional:
            is_open.setdefault(header.producer_id, []).extend(offsets)
        else:
            committed.update(offsets)
    return Seen(
        gone=False,
        start=start,
        records={
            record.offset: (record.key, record.value, record.timestamp_ms)
            for header, records in batches
            for record in records
            if not header.is_control and record.offset >= start
        },
        committed=frozenset(committed),
        producers={
            header.producer_id: (header.producer_epoch, header.last_sequence, header.last_offset)
            for header, _ in batches
            if header.has_producer_id and not header.is_control
        },
    )


def _batches(path: Path) -> list[tuple[RecordBatch, tuple[Record, ...]]]:
    content, batches = path.read_bytes(), []
    for span in walk_batches(content):
        header = parse_batch(content, span.position)
        whole = content[span.position : span.position + span.bytes]
        batches.append((header, read_records(header, whole)))
    return batches


def _log_start(log_dir: Path) -> int:
    """As Kafka does, an unreadable file counts as empty."""
    path = log_dir / "log-start-offset-checkpoint"
    try:
        offsets = parse_offset_checkpoint(path.read_bytes(), path)
    except Exception:  # noqa: BLE001 -- whatever is wrong with it
        return 0
    return next((offset for partition, offset in offsets.items() if str(partition) == "t-0"), 0)
