"""Prove by its content that a file holds no record: what its name promises must be what it is.

=====================================  ==========================================================
file                                   what proves it
=====================================  ==========================================================
any                                    it is empty, or all of its bytes are 0
``*.index``, ``*.timeindex``           whole entries that ascend; zeros after them (preallocated)
``*.txnindex``                         whole entries of version 0 whose offsets ascend
``*.snapshot``                         its CRC-32C
checkpoints                            each line is an entry; names of topics are legal
``partition.metadata``                 version and topic id, nothing else
``meta.properties``                    names that Kafka writes
JSON and JSON lines of Kafka or ours   it parses, each line with its CRC
``recovered``                          version and digest, nothing else
``ingest.batches.*``                   whole entries with offsets that ascend
``format.json`` of a bucket             it parses
a version of a bucket's state          its SHA-256; it parses
``.logwright-damaged-CHECKPOINT-*``    it is text, and zeros: a malformed checkpoint as it was
=====================================  ==========================================================

Texts that such a file may hold, those of JSON and of properties, are returned: the caller compares
them with the keys. A file without a proof is searched as a segment.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from logwright.errors import LogwrightError
from logwright.format.checkpoints import parse_leader_epochs, parse_offset_checkpoint
from logwright.format.index import (
    OFFSET_ENTRY_BYTES,
    TIME_ENTRY_BYTES,
    TXN_ENTRY_BYTES,
    before_space,
    check_txn_index,
)
from logwright.format.lines import parse_lines
from logwright.format.snapshot import parse_snapshot

MOST_BYTES: Final = 64 * 1024 * 1024
"""Of a file that is parsed; no index or ledger is larger, and a larger file is not proved."""
_STAGES: Final = re.compile(r"(?:\.[0-9]+)?(?:\.(?:cleaned|swap|deleted|tmp))?")
_SEGMENT_PARTS: Final = r"[0-9]{20,}|[0-9]+_[A-Za-z0-9_-]{22}"
"""The names of indexes: of a segment, and of a remote one in the cache (RemoteIndexCache)."""
_CHECKPOINTS: Final = (
    "(?:recovery-point-offset|log-start-offset|replication-offset|cleaner-offset)-checkpoint"
)
_SET_ASIDE: Final = (
    rf"\.logwright-damaged-(?:{_CHECKPOINTS}|meta\.properties"
    r"|.+-[0-9]+-(?:leader-epoch-checkpoint|partition\.metadata))-[0-9]+"
)
"""What `recover` and `rescue` keep of small texts. Of any other file that a rescue sets aside, such
as one that no broker writes, nothing is known."""
_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_TOPIC_ID: Final = re.compile(rb"version: 0\ntopic_id: [A-Za-z0-9_-]{22}\n?")
_RECOVERED: Final = re.compile(rb"1 [0-9a-f]{64}\n")
_PROPERTIES: Final = frozenset(
    ("version", "cluster.id", "node.id", "broker.id", "directory.id", "process.roles")
)
_OFFSET_ENTRY: Final = np.dtype([("offset", ">i4"), ("position", ">i4")])
_TIME_ENTRY: Final = np.dtype([("timestamp", ">i8"), ("offset", ">i4")])
_BATCH_ENTRY: Final = np.dtype([("base_offset", ">i8"), ("crc", ">u4")])
_LARGEST_TIME: Final = 1 << 61
"""Timestamps in ns of our days are below it; eight characters of a text are above."""
_LARGEST_ALONE: Final = 1 << 30
"""Positions and offsets of an index whose segment is not there are below it; four letters are
above."""

_DIGEST_LINE: Final = 65
_STATE_HEAD: Final = {"format", "version", "operation"}
MOST_SMALL: Final = 4096
"""Bytes of a file that is compared with the keys as a whole."""
_WIDE: Final = ("utf-16-le", "utf-16-be")
_BLANK: Final = b"\0 \t\r\n"
_PLAIN: Final = bytes((*range(32, 127), *_BLANK))

Texts = tuple[bytes, ...]
Prover = Callable[[bytes, int | None], Texts | None]


def known_texts(
    name: str, content: NDArray[np.uint8], log_bytes: int | None = None
) -> Texts | None:
    """Return the texts of a file that holds no record, None if nothing proves it.

    Args:
        name: of the file, which says what it must be.
        content: uint8[n], all of it.
        log_bytes: size of the segment of an index, None: unknown.
    """
    if not content.any():
        return ()
    prover = next((one for pattern, one in _PROVERS if pattern.fullmatch(name)), None)
    if prover is None or len(content) > MOST_BYTES:
        return None
    try:
        return prover(content.tobytes(), log_bytes)
    except (LogwrightError, ValueError, RecursionError):
        return None


def small_texts(content: NDArray[np.uint8]) -> Texts:
    """Return what a small file is as a text: numbers of an index can be letters, too."""
    if not 0 < len(content) <= MOST_SMALL:
        return ()
    text = content.tobytes()
    wide = (text.decode(one, errors="replace").encode(errors="replace") for one in _WIDE)
    return tuple({one.strip(_BLANK) for one in (text, *wide)})


def json_texts(value: object) -> Iterator[bytes]:
    """Yield all texts of a JSON value, names of fields too."""
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, str):
            yield part.encode(errors="surrogatepass")
        elif isinstance(part, dict):
            waiting += [*part, *part.values()]
        elif isinstance(part, list):
            waiting += part


def _offset_index(content: bytes, log_bytes: int | None) -> Texts | None:
    if len(content) % OFFSET_ENTRY_BYTES:
        return None
    entries = np.frombuffer(before_space(content, OFFSET_ENTRY_BYTES), dtype=_OFFSET_ENTRY)
    offsets, positions = entries["offset"].astype(np.int64), entries["position"].astype(np.int64)
    if not _ascend(offsets, 0) or not _ascend(positions, 1):
        return None
    if log_bytes is None and len(offsets) and offsets[-1] >= _LARGEST_ALONE:
        return None
    end = _LARGEST_ALONE if log_bytes is None else log_bytes
    return () if not len(positions) or positions[-1] < end else None


def _time_index(content: bytes, _: int | None) -> Texts | None:
    if len(content) % TIME_ENTRY_BYTES:
        return None
    entries = np.frombuffer(before_space(content, TIME_ENTRY_BYTES), dtype=_TIME_ENTRY)
    times, offsets = entries["timestamp"].astype(np.int64), entries["offset"].astype(np.int64)
    sane = (times >= -1).all() and (times < _LARGEST_TIME).all() and (offsets >= 0).all()
    sane = sane and (np.diff(times) > 0).all() and (np.diff(offsets) >= 0).all()
    return () if sane else None


def _ascend(values: NDArray[np.int64], least: int) -> bool:
    return bool((values >= least).all() and (np.diff(values) > 0).all())


def _txn_index(content: bytes, _: int | None) -> Texts | None:
    if len(content) % TXN_ENTRY_BYTES:
        return None
    check_txn_index(content, base_offset=0, path=_NOWHERE)
    return ()


def _snapshot(content: bytes, _: int | None) -> Texts | None:
    parse_snapshot(content, _NOWHERE)
    return ()


def _offsets(content: bytes, _: int | None) -> Texts | None:
    entries = parse_offset_checkpoint(content, _NOWHERE)
    return () if all(_TOPIC.fullmatch(one.topic) for one in entries) else None


def _epochs(content: bytes, _: int | None) -> Texts | None:
    parse_leader_epochs(content, _NOWHERE)
    return ()


def _topic_id(content: bytes, _: int | None) -> Texts | None:
    return () if _TOPIC_ID.fullmatch(content) else None


def _properties(content: bytes, _: int | None) -> Texts | None:
    texts = []
    for line in content.decode().splitlines():
        name, _equals, value = line.strip().partition("=")
        if line.strip().startswith("#"):
            value = line.strip()[1:]
        elif line.strip() and name.strip() not in _PROPERTIES:
            return None
        texts.append(value.strip().encode())
    return tuple(texts)


def _json(content: bytes, _: int | None) -> Texts | None:
    return tuple(json_texts(json.loads(content, parse_constant=_refuse)))


def _lines(content: bytes, _: int | None) -> Texts | None:
    entries = list(parse_lines(content))
    whole = sum(bool(line) for line in content.split(b"\n"))
    return tuple(json_texts(entries)) if len(entries) == whole else None


def _batches(content: bytes, _: int | None) -> Texts | None:
    if len(content) % _BATCH_ENTRY.itemsize:
        return None
    entries = np.frombuffer(content, dtype=_BATCH_ENTRY)
    bases = entries["base_offset"].astype(np.int64)
    return () if _ascend(bases, 0) and (bases < _LARGEST_TIME).all() else None


def _recovered(content: bytes, _: int | None) -> Texts | None:
    return () if _RECOVERED.fullmatch(content) else None


def _stored_state(content: bytes, _: int | None) -> Texts | None:
    """Return the texts of a version of the state of a log directory in a bucket: three lines."""
    body, digest = content[:-_DIGEST_LINE], content[-_DIGEST_LINE:]
    head, _newline, state = body.partition(b"\n")
    fields = json.loads(head)
    if hashlib.sha256(body).hexdigest().encode() + b"\n" != digest or set(fields) != _STATE_HEAD:
        return None
    return tuple(json_texts([fields, json.loads(state, parse_constant=_refuse)]))


def _damaged(content: bytes, _: int | None) -> Texts | None:
    """Return lines and words, also of a text in UTF-16."""
    if content.translate(None, _PLAIN):
        return None
    texts = [content.replace(b"\0", by) for by in (b"", b" ")]
    return tuple({one for text in texts for one in (*text.splitlines(), *text.split())})


def _refuse(text: str) -> object:
    raise ValueError(text)


_NOWHERE: Final = Path()
"""In the place of a path in errors that nobody sees."""
_PROVERS: Final[tuple[tuple[re.Pattern[str], Prover], ...]] = tuple(
    (re.compile(f"(?:{pattern}){_STAGES.pattern}"), prover)
    for pattern, prover in (
        (rf"(?:{_SEGMENT_PARTS})\.index", _offset_index),
        (rf"(?:{_SEGMENT_PARTS})\.timeindex", _time_index),
        (rf"(?:{_SEGMENT_PARTS})\.txnindex", _txn_index),
        (r"[0-9]{20,}\.snapshot", _snapshot),
        (_CHECKPOINTS, _offsets),
        ("leader-epoch-checkpoint", _epochs),
        (r"partition\.metadata", _topic_id),
        (r"meta\.properties", _properties),
        (r"\.kafka_cleanshutdown|\.logwright-cleanshutdown.*|quorum-state", _json),
        (r"\.logwright-(?:topics|ingests|state|rescue)\.json|manifest\.json", _json),
        (r"\.logwright-deleted-logs\.jsonl|deletions\.jsonl", _lines),
        (r"ingest\.json|erased\.json", _lines),
        (r"format\.json", _json),
        (r"[0-9]{20}", _stored_state),
        (_SET_ASIDE, _damaged),
        ("recovered", _recovered),
        (r"ingest\.batches(?:\.[0-9a-f]{0,32})?", _batches),
    )
)
"""The names of files without records, and what proves it. Locks are empty."""
