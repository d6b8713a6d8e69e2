"""Searches for requested keys: what to search for, and what plain code finds of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from logwright.config.topic import broker_settings, parse_settings
from logwright.erasure.find.model import Finding
from logwright.erasure.find.result import SearchResult, Settings
from logwright.erasure.find.search import search_log_dir
from logwright.erasure.keys import KeySet
from logwright.erasure.secret import Secret
from logwright.format.batch import parse_batch, walk_batches
from logwright.format.codec import decompress
from logwright.format.record import read_records
from tests.log_builder import START_MS

SECRET = Secret.of(b"s" * 32)
_LARGEST = 1 << 30


class PlainRecord(NamedTuple):
    """A record as plain code reads it."""

    key: bytes
    offset: int
    batch_position: int
    is_tombstone: bool


def plain_records(content: bytes) -> list[PlainRecord]:
    """All records with a key in whole batches of a file, but those of control batches."""
    records = []
    for span in walk_batches(content):
        whole = content[span.position : span.position + span.bytes]
        header = parse_batch(whole)
        for record in () if header.is_control else read_records(header, whole):
            if record.key is not None:
                position, dead = int(span.position), record.value is None
                records.append(PlainRecord(record.key, record.offset, position, dead))
    return records


def plain_bytes(content: bytes) -> bytes:
    """The bytes of a file, with all batches decompressed."""
    parts = [content]
    for span in walk_batches(content):
        whole = content[span.position : span.position + span.bytes]
        codec = parse_batch(whole).codec
        if codec:
            parts.append(decompress(codec, whole[61:], limit=_LARGEST))
    return b"|".join(parts)


def settings(config: Mapping[str, str], *, now_ms: int = START_MS, **more: Any) -> Settings:  # noqa: ANN401 -- those of `Settings`
    """Settings that are the same for all topics."""
    parsed = parse_settings(config)
    return Settings(
        of_topic=lambda _: parsed,
        broker=broker_settings({}),
        now_ms=now_ms,
        high_watermark="end",
        **more,
    )


def find(
    log_dir: Path,
    keys: Sequence[bytes] | KeySet,
    config: Mapping[str, str] | Settings | None = None,
    *,
    patterns: tuple[bytes, ...] = (),
) -> SearchResult:
    """Search a log directory for keys in clear; by default of compacted topics."""
    return search_log_dir(
        log_dir,
        keys if isinstance(keys, KeySet) else KeySet.of(SECRET, clear=keys),
        config
        if isinstance(config, Settings)
        else settings({"cleanup.policy": "compact"} if config is None else config),
        patterns=patterns,
        progress=lambda *_: None,
    )


def at(finding: Finding) -> tuple[str, int, str]:
    """Where a finding is, and its kind."""
    return finding.path, finding.offset, finding.kind
