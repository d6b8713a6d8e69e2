"""What an erasure must leave of a log, read as plainly as possible, and a plain set of keys."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from logwright.erasure.keys import Keys, KeySet, Matched
from logwright.errors import LogwrightError
from logwright.format.batch import CONTROL, LOG_APPEND_TIME, MAGIC, parse_batch, walk_batches
from logwright.format.record import Record, read_records
from tests import fixtures
from tests.found import SECRET
from tests.sequences.reading import old_records


class PlainKeys:
    """Keys in clear, compared one by one: the twin of the compiled filter, which is not used."""

    needs_hmacs = True
    table = KeySet.of(SECRET).table

    def __init__(self, keys: Collection[bytes]) -> None:
        self.keys = list(keys)

    def match(self, keys: Keys) -> Matched:
        """See `Matcher.match`."""
        buffer, starts, lengths = keys
        requests = np.full(len(starts), -1, dtype=np.int32)
        for number, (start, length) in enumerate(
            zip(starts.tolist(), lengths.tolist(), strict=True)
        ):
            key = buffer[start : start + length].tobytes()
            if key in self.keys:
                requests[number] = self.keys.index(key)
        return Matched(requests, undecoded=False)

    def shorts(self, indexes: Iterable[int], *, forms: bool = True) -> tuple[str, ...]:
        """See `Matcher.shorts`."""
        return KeySet.of(SECRET, clear=self.keys).shorts(indexes, forms=forms)

    def asked(self, *, forms: bool = True) -> tuple[str, ...]:
        """See `Matcher.asked`."""
        return KeySet.of(SECRET, clear=self.keys).asked(forms=forms)


class PlainBatch(NamedTuple):
    """A batch: its header without length, CRC, count and timestamps, and its records."""

    header: tuple[Any, ...]
    max_timestamp: int
    records: tuple[Record, ...]
    raw: bytes


def batches_of(content: bytes) -> list[PlainBatch]:
    """All batches of a ``.log``."""
    batches = []
    for span in walk_batches(content):
        raw = content[span.position : span.position + span.bytes]
        batch = parse_batch(raw)
        header = (
            batch.base_offset,
            batch.last_offset,
            batch.attributes,
            batch.partition_leader_epoch,
            batch.producer_id,
            batch.producer_epoch,
            batch.base_sequence,
        )
        batches.append(PlainBatch(header, batch.max_timestamp, read_records(batch, raw), raw))
    return batches


def logs_of(directory: Path) -> dict[int, bytes]:
    """The live ``.log`` files by base offset."""
    return {
        int(path.stem): path.read_bytes()
        for path in sorted(directory.glob("*.log"))
        if path.stem.isdigit()
    }


def keys_in(logs: dict[int, bytes]) -> list[bytes]:
    """The distinct keys of the records, in their order; those of control batches are none."""
    seen: dict[bytes, None] = {}
    for content in logs.values():
        for batch in batches_of(content):
            if not batch.header[2] & CONTROL:
                seen.update((each.key, None) for each in batch.records if each.key is not None)
    return list(seen)


def require_erased(
    before: dict[int, bytes], after: dict[int, bytes], keys: Collection[bytes]
) -> None:
    """Assert what an erasure must leave, by the bytes of both sides."""
    assert set(before) <= set(after)
    for base, content in before.items():
        was, now = batches_of(content), batches_of(after[base])
        by_base = {batch.header[0]: batch for batch in now}
        assert len(by_base) == len(now)
        for batch in was:
            live = by_base.pop(batch.header[0], None)
            control = batch.header[2] & CONTROL
            kept = tuple(each for each in batch.records if control or each.key not in keys)
            if len(kept) == len(batch.records):
                assert live is not None
                assert batch.raw == live.raw
                continue
            if not kept:
                assert live is None or (live.records == () and live.header[3:] == batch.header[3:])
                continue
            assert live is not None
            assert batch.header == live.header
            assert [_plain(each) for each in kept] == [_plain(each) for each in live.records]
            if not batch.header[2] & LOG_APPEND_TIME:
                assert live.max_timestamp == max(each.timestamp_ms for each in kept)
        assert not by_base
    for base in set(after) - set(before):
        assert after[base] == b""


def _plain(record: Record) -> tuple[Any, ...]:
    return (record.offset, record.timestamp_ms, record.key, record.value, record.headers)


def require_nowhere(directory: Path, key: bytes) -> None:
    """Assert that no file of a partition has a record of a key: live, retired, staged, kept, cut.
    Torn pieces are read as far as they can be.
    """
    for path in sorted(directory.rglob("*")):
        if not path.is_file() or ".log" not in path.name:
            continue
        offsets = [offset for offset, one in _keys_of(path.read_bytes()) if one == key]
        assert [] == offsets, f"{path.relative_to(directory)} has the key"


def _keys_of(content: bytes) -> Iterator[tuple[int, bytes | None]]:
    """Offset and key of each record of any format, up to a torn batch."""
    with suppress(LogwrightError):
        for span in walk_batches(content):
            raw = content[span.position : span.position + span.bytes]
            if span.magic < MAGIC:
                yield from ((row.offset, row.key) for row in old_records(raw))
                continue
            batch = parse_batch(raw)
            if not batch.attributes & CONTROL:
                yield from ((one.offset, one.key) for one in read_records(batch, raw))


def bytes_anywhere(root: Path, key: bytes) -> list[str]:
    """The files below a directory that hold these bytes, by a search that knows no format."""
    return [
        str(path.relative_to(root))
        for path in sorted(root.rglob("*"))
        if path.is_file() and key in path.read_bytes()
    ]


def case_directories(name: str, log_dir: Path) -> list[Path]:
    """The partition directories of a copy of a case."""
    del name
    return [path for path in sorted(log_dir.iterdir()) if path.is_dir() and any(path.glob("*.log"))]


def settings_of_case(name: str) -> dict[str, str]:
    """The topic settings of a case."""
    settings: dict[str, str] = fixtures.description(name).get("topicConfig", {})
    return settings
