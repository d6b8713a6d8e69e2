"""What matters of a log directory, by plain readers; the ends of two orders are compared by it."""

from __future__ import annotations

import json
import re
from pathlib import Path

from logwright.errors import LogwrightError
from logwright.format.checkpoints import parse_offset_checkpoint
from logwright.format.deleted_logs import parse_deletions
from logwright.format.index import parse_txn_index
from logwright.format.names import (
    CLEAN_SHUTDOWN_MARKER,
    DELETED_LOGS,
    INDEX,
    LOG,
    MARKER_ASIDE,
    TIMEINDEX,
    TopicPartition,
    live_file_name,
    parse_segment_file_name,
)
from logwright.log.checkpoints import CHECKPOINT_FILES
from logwright.purge.commit import purge_partition
from logwright.state.file import STATE_FILE
from logwright.undo.observe import plan_undo_of
from logwright.units import TimestampMs
from tests.crash.commands import Place
from tests.ingested import Batch, read_batches

End = dict[str, object]

_RANDOM = re.compile(r"[0-9a-f]{32}")
_STARTS = "log-start-offset-checkpoint"


def look(place: Place) -> End:
    """All that matters, by what it is; names without what is random in them."""
    end: End = {"state": _state(place)}
    for log_dir in (place.logs, place.other):
        entries = {name: _entries(log_dir / name) for name in CHECKPOINT_FILES}
        end |= {f"{log_dir.name} {name}": content for name, content in entries.items()}
        for name in (CLEAN_SHUTDOWN_MARKER, MARKER_ASIDE):
            end[f"{log_dir.name} {name}"] = (log_dir / name).exists()
        end[f"{log_dir.name} deletions"] = _deletions(log_dir)
        for path in sorted(log_dir.iterdir()):
            partition = TopicPartition.parse(path.name)
            if not path.is_dir():
                continue
            if partition is None:
                others = end.setdefault(f"{log_dir.name} others", [])
                assert isinstance(others, list)
                others.append((_RANDOM.sub("", path.name), _plain_names(path)))
                continue
            start = entries[_STARTS].get(str(partition), 0)
            log = _log(log_dir, path, start) | {"undo": _undo(log_dir, partition)}
            end |= {f"{log_dir.name} {path.name} {what}": value for what, value in log.items()}
    return end


def staging(place: Place) -> list[str]:
    """The staging directories that a purge of all partitions leaves, but in deleted logs."""
    for log_dir in (place.logs, place.other):
        (log_dir / STATE_FILE).unlink(missing_ok=True)  # nothing is paused
        for path in log_dir.iterdir():
            partition = TopicPartition.parse(path.name)
            if path.is_dir() and partition is not None:
                purge_partition(log_dir, partition, now_ms=TimestampMs(0), file_delete_delay_ms=1)
    paths = [str(path.relative_to(place.root)) for path in place.root.rglob("staging")]
    return [name for name in paths if "-delete" not in name]


def _log(log_dir: Path, directory: Path, start: int) -> End:
    batches = read_batches(log_dir, partition=directory.name)
    names = _plain_names(directory)
    logs = [name for name in names if name.endswith(LOG)]
    bare = [
        f"{name[:20]}{suffix}"
        for name in logs
        for suffix in (INDEX, TIMEINDEX)
        if f"{name[:20]}{suffix}" not in names
    ]
    retired = [live for name in names if (live := live_file_name(name)) is not None]
    strange = [
        name
        for name in names
        if parse_segment_file_name(name) is None
        and live_file_name(name) is None
        and name not in ("leader-epoch-checkpoint", "partition.metadata")
    ]
    begins = max(start, min((int(name[:20]) for name in logs), default=0))
    seen = {
        record: aborted for record, aborted in _records(directory, batches) if record[0] >= begins
    }
    return {
        "uncommitted": list(seen),
        "committed": [record for record, aborted in seen.items() if not aborted],
        "begins": begins,
        "logs": logs,
        "without index": bare,
        "retired": sorted(retired),
        "strange names": strange,
        "epochs": _text(directory / "leader-epoch-checkpoint"),
        "topic id": _text(directory / "partition.metadata"),
        "snapshots": [n for n in names if n.endswith(".snapshot") and int(n[:20]) > begins],
        "ingests": _ingests(directory),
    }


Row = tuple[int, object, object, int, tuple[tuple[bytes, bytes | None], ...]]


def _records(directory: Path, batches: list[Batch]) -> list[tuple[Row, bool]]:
    """Records with offset, key, value, time, headers; whether a reader of committed data passes
    over each, from the transaction indexes and the markers after it.
    """
    aborted = [
        entry
        for path in directory.glob("*.txnindex")
        for entry in parse_txn_index(path.read_bytes())
    ]
    open_from: dict[int, int] = {}
    for batch in batches:
        if batch.header.is_control:
            open_from.pop(batch.header.producer_id, None)
        elif batch.header.is_transactional:
            open_from.setdefault(batch.header.producer_id, batch.header.base_offset)
    stable = min(open_from.values(), default=1 << 62)
    rows: list[tuple[Row, bool]] = []
    for batch in batches:
        header = batch.header
        passed_over = header.base_offset >= stable or header.is_control
        if header.is_transactional and not header.is_control:
            passed_over |= any(
                transaction.producer_id == header.producer_id
                and transaction.first_offset <= header.base_offset <= transaction.last_offset
                for transaction in aborted
            )
        for record in batch.records:
            headers = tuple((one.key, one.value) for one in record.headers)
            row = (record.offset, record.key, record.value, record.timestamp_ms, headers)
            rows.append((row, passed_over))
    return rows


def _undo(log_dir: Path, partition: TopicPartition) -> object:
    """What an undo would bring back, or why it would not."""
    try:
        plan = plan_undo_of(log_dir, partition)
    except LogwrightError as error:
        return (type(error).__name__, error.problem)
    names = sorted(live for group in plan.groups for live in group.names)
    return (plan.operation, plan.bases, names, dict(plan.checkpoints), plan.epochs, plan.bytes)


def _ingests(directory: Path) -> object:
    path = directory / ".logwright" / "ingest.json"
    if not path.exists():
        return []
    content = json.loads(path.read_bytes())
    return [content["done"], content["pending"] is not None]


def _entries(path: Path) -> dict[str, int]:
    if not path.exists():
        return {}
    offsets = parse_offset_checkpoint(path.read_bytes(), path)
    return {str(partition): offset for partition, offset in offsets.items()}


def _state(place: Place) -> object:
    """What is remembered of each partition, whichever of the log directories it is in."""
    states: dict[str, dict[str, object]] = {}
    for log_dir in (place.logs, place.other):
        path = log_dir / STATE_FILE
        if path.exists():
            content = path.read_bytes().replace(str(place.root).encode(), b"")
            for partition, state in json.loads(content)["partitions"].items():
                states.setdefault(partition, {}).update(state)
    return states


def _deletions(log_dir: Path) -> object:
    path = log_dir / DELETED_LOGS
    if not path.exists():
        return []
    return [
        (
            str(deletion.partition),
            dict(deletion.checkpoints),
            deletion.purging,
            (log_dir / deletion.directory).exists(),
        )
        for deletion in parse_deletions(path.read_bytes()).values()
    ]


def _plain_names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir() if path.is_file())


def _text(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None
