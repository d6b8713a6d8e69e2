"""A plain search of all bytes below a directory: what is there, and what cannot be known.

Nothing of the package is used. Each file is one of three:

- ``whole``: all of it is a known form, at a place where Kafka or logwright have such a file. A
  search of it has missed nothing.
- ``unread``: it may hold anything: a link, a damaged log, an unknown form.
- ``loose``: a plain search sees what it holds, and a search may just as well leave it unsearched if
  it says so.
"""

from __future__ import annotations

import base64
import gzip
import io
import json
import re
import stat
import struct
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from tests.worlds.plain_records import PlainRecord, has_zeros, old_bytes, read_all
from tests.worlds.requests import other_forms

State = Literal["whole", "unread", "loose"]

LONGEST_NAME: Final = 255
_LOG: Final = re.compile(r"(?:.*\.)?log(?:\..*)?")
_INDEX: Final = re.compile(
    r"[0-9]{20}(?:_[A-Za-z0-9_-]{22})?\.(index|timeindex|txnindex)(?:\.[0-9]+)?(?:\.(?:cleaned|swap|deleted))?"
)
_INDEX_BYTES: Final = {"index": 8, "timeindex": 12, "txnindex": 34}
_SNAPSHOT: Final = re.compile(r"[0-9]{20}\.snapshot(?:\.deleted)?")
_TEXT: Final = re.compile(
    r"(?:leader-epoch|recovery-point-offset|log-start-offset|replication-offset|cleaner-offset)"
    r"-checkpoint|partition\.metadata|meta\.properties|\.lock|\.kafka_cleanshutdown"
)
_OURS: Final = re.compile(
    r"lock|deletions\.jsonl|ingest\.json|manifest\.json|copy\.json|move\.json|erased\.json"
)
_APPENDED: Final = re.compile(r"ingest\.batches(?:\.[0-9a-f]*)?")
_APPENDED_BYTES: Final = 12
"""Offset and CRC of a batch that is being appended."""
_CUT: Final = 16
"""Characters of a text in Iceberg's statistics."""
_AGREEMENT: Final = "format.json"
_DEEP: Final = 3
"""Parts of the name of an object of a log in a bucket."""
_SPOOL: Final = ".logwright-write-"
_DELETED_LOGS: Final = ".logwright-deleted-logs.jsonl"
_LIVE: Final = re.compile(r"(.+)-([0-9]+)")
_MARKED: Final = re.compile(r"(.+)-([0-9]+)\.[0-9a-f]{32}-(?:delete|stray|future)")
_PRINTABLE: Final = frozenset((*range(32, 127), 9, 10, 13))


@dataclass(slots=True)
class PlainFile:
    """What a plain search sees of one file.

    Attributes:
        topic: whose log it is part of; None if unknown.
        stays: nothing but an erasure removes it.
        opened: bytes of it in other forms: decompressed, decoded.
        is_torn: zeros follow its last batch: no record, and not what Kafka takes for a log.
        shown: the path that a command shows, None if it is not known; else as `path`.
    """

    path: str
    topic: str | None
    state: State
    stays: bool = False
    records: list[PlainRecord] = field(default_factory=list)
    cells: set[bytes] = field(default_factory=set)
    opened: list[bytes] = field(default_factory=list)
    is_log: bool = False
    is_torn: bool = False
    shown: str | None = ""

    @property
    def name(self) -> str | None:
        """The path that a command shows, None if it is not known."""
        return self.path if self.shown == "" else self.shown

    def has_key(self, key: bytes) -> bool:
        """Whether the person is in it: a record's key, a cell of a table, or bytes in any form."""
        if any(one.key == key for one in self.records if not one.is_control):
            return True
        if key in self.cells:
            return True
        return any(form in text for text in self.opened for form in forms_of(key))

    def has_other_form(self, key: bytes) -> bool:
        """Whether a record or a cell has the person's key in other bytes."""
        forms = set(other_forms(key))
        return bool(forms & self.cells) or any(
            record.key in forms for record in self.records if not record.is_control
        )

    def has_pattern(self, pattern: bytes) -> bool:
        """Whether these bytes are in a key, a value, a header or a cell."""
        for record in self.records:
            texts = (record.key, record.value, *record.headers)
            if any(pattern in text for text in texts if text is not None):
                return True
        if any(pattern in cell for cell in self.cells):
            return True
        return any(form in text for text in self.opened for form in forms_of(pattern))


def forms_of(key: bytes) -> list[bytes]:
    """How bytes may be written: as they are, in hex, in base64 at any place of a longer text, and
    in UTF-16.
    """
    forms = [key, key.hex().encode(), key.hex().upper().encode(), b"\x00".join(_each(key))]
    for before in range(3):
        after = -(before + len(key)) % 3
        text = base64.b64encode(bytes(before) + key + bytes(after))
        forms.append(text[-(-before * 8 // 6) : len(text) - (-(-after * 8 // 6) if after else 0)])
    return forms


def _each(key: bytes) -> list[bytes]:
    return [key[n : n + 1] for n in range(len(key))]


def topic_of(name: str) -> str | None:
    """The topic of a directory in a log directory's root; None if its name does not say it."""
    marked = _MARKED.fullmatch(name)
    if marked:
        return None if len(name) >= LONGEST_NAME else marked[1]
    live = _LIVE.fullmatch(name)
    return live[1] if live and "." != live[1] else None


def is_live(name: str) -> bool:
    """Whether it is a live log's directory."""
    return bool(_LIVE.fullmatch(name)) and not _MARKED.fullmatch(name)


def deletions(root: Path) -> dict[str, str]:
    """By directory the topics of the deleted logs on record, which has names that a directory's
    cuts.
    """
    path = root / _DELETED_LOGS
    topics = {}
    for line in path.read_bytes().splitlines() if path.is_file() else ():
        with suppress(ValueError):  # a line that was not written to its end
            entry = json.loads(line)
            if "topic" in entry:
                topics[entry["directory"]] = entry["topic"]
    return topics


def search_logs(root: Path) -> list[PlainFile]:
    """All files of a log directory."""
    known = deletions(root)
    return [_of_log_dir(path, path.relative_to(root).parts, known) for path in below(root)]


def search_bucket(root: Path) -> list[PlainFile]:
    """All objects of a bucket. What the newest version of a log does not name may be of any."""
    return [_of_bucket(root, path) for path in below(root)]


def _of_bucket(root: Path, path: Path) -> PlainFile:
    parts = path.relative_to(root).parts
    if parts == (_AGREEMENT,):
        return PlainFile(_AGREEMENT, None, "whole")
    if len(parts) != _DEEP or not is_live(parts[0]) or parts[1] not in ("data", "manifest"):
        foreign = _of_log_dir(path, parts, {})
        foreign.shown = foreign.path.replace("/.logwright/", "/.logwright (object)/")
        return foreign
    versions = sorted((root / parts[0] / "manifest").glob("*"))
    newest = versions[-1].read_text() if versions else ""
    if parts[1] == "manifest":
        state: State = "whole" if path == versions[-1] else "loose"
        return PlainFile("/".join(parts), topic_of(parts[0]), state)
    if f"data/{parts[2]}" in newest:
        name = f"{'0' * 20}.{parts[2].rpartition('.')[2]}"
        named = _of_log_dir(path, (parts[0], name), {})
        named.path, named.shown = "/".join(parts), None
        return named
    content = path.read_bytes()
    state = "unread" if content else "loose"
    file = PlainFile("/".join(parts), topic_of(parts[0]), state)
    file.records, _ = read_all(content)
    return file


def begin_elsewhere(root: Path) -> set[str]:
    """The topics of logs whose first local segment is not where they begin."""
    path, partitions = root / "log-start-offset-checkpoint", set()
    lines = path.read_text().splitlines()[2:] if path.exists() else []
    for topic, partition, start in map(str.split, lines):
        logs = (root / f"{topic}-{partition}").glob("*.log")
        bases = [int(one.stem) for one in logs if one.stem.isdigit()]
        if bases and int(start) < min(bases):
            partitions.add(topic)
    return partitions


def search_table(root: Path) -> list[PlainFile]:
    """All files of a table."""
    return [_of_table(path, str(path.relative_to(root))) for path in below(root)]


def below(root: Path) -> Iterator[Path]:
    """All but directories, sorted; links are not followed."""
    for path in sorted(root.iterdir()):
        if stat.S_ISDIR(path.lstat().st_mode):
            yield from below(path)
        else:
            yield path


def _of_log_dir(path: Path, parts: tuple[str, ...], known: Mapping[str, str]) -> PlainFile:
    topic = topic_of(parts[0]) if len(parts) > 1 else None
    topic = known.get(parts[0], topic)
    file = PlainFile("/".join(parts), topic, "loose")
    file.stays = _stays(parts)
    if not stat.S_ISREG(path.lstat().st_mode):
        file.state = "unread"
        file.topic = topic_of(parts[0])  # a link of a log's name is that log to a broker
        return file
    content = path.read_bytes()
    file.records, whole = read_all(content)
    name = parts[-1]
    file.is_log = bool(_LOG.fullmatch(name))
    if len(parts) == 1 and name.startswith(_SPOOL):
        _of_spool(file, content)
    elif file.is_log:
        _of_log(file, content, is_whole=whole)
    elif whole and content:
        file.state = "loose"
    else:
        file.opened = [content, *unpacked(content)]
        file.state = _state(parts, content)
        if any(read_all(one)[0] for one in file.opened[1:]):
            file.records += [one for text in file.opened[1:] for one in read_all(text)[0]]
    return file


def _stays(parts: tuple[str, ...]) -> bool:
    """Whether no rule removes what lies there. All of a deleted log goes with it."""
    if len(parts) == 1 or parts[0].endswith("-delete"):
        return False
    if topic_of(parts[0]) is None or parts[0].endswith(("-stray", "-future")):
        return True
    return ".logwright" in parts[:-2] and "cut" in parts


def _of_log(file: PlainFile, content: bytes, *, is_whole: bool) -> None:
    """A file by a log's name: what is not a right batch may be anything."""
    if is_whole:
        file.state = "whole"
        file.is_torn = has_zeros(content)
        return
    packed = unpacked(content)
    file.opened = [content, *packed]
    for content_of in packed:
        file.records += read_all(content_of)[0]
    old = old_bytes(content)
    is_known = packed or (old > 0 and read_all(content[old:])[1])
    file.state = "loose" if is_known else "unread"


def _of_spool(file: PlainFile, content: bytes) -> None:
    try:
        table = pa.ipc.open_file(io.BytesIO(content)).read_all()
    except pa.ArrowInvalid:
        file.state, file.opened = "unread", [content]
        return
    file.state, file.cells = "whole", set(_cells(table))


def _state(parts: tuple[str, ...], content: bytes) -> State:
    """What a file is whose name is not that of a log, without a batch at its beginning."""
    name, is_text = parts[-1], not set(content) - _PRINTABLE
    index = _INDEX.fullmatch(name)
    if index and len(parts) > 1:
        return "whole" if _is_index(index[1], content) else "unread"
    if _SNAPSHOT.fullmatch(name) and len(parts) == 2:
        return "whole" if _is_snapshot(content) else "unread"
    if _APPENDED.fullmatch(name) and ".logwright" in parts[:-1]:
        return "unread" if len(content) % _APPENDED_BYTES else "whole"
    known = (
        _TEXT.fullmatch(name)
        or (".logwright" in parts[:-1] and _OURS.fullmatch(name))
        or (len(parts) == 1 and name.startswith(".logwright-"))
    )
    if is_text:
        return "whole" if known else "loose"
    return "unread"


def _is_index(kind: str, content: bytes) -> bool:
    size = _INDEX_BYTES[kind]
    if len(content) % size:
        return False
    where = {"index": 0, "timeindex": 8, "txnindex": 0}[kind]
    form = ">q" if kind == "txnindex" else ">i"
    numbers = [
        struct.unpack_from(form, content, n + where)[0] for n in range(0, len(content), size)
    ]
    return kind == "txnindex" or numbers == sorted(numbers)


def _is_snapshot(content: bytes) -> bool:
    return len(content) >= 10 and (len(content) - 10) % 46 == 0 and content[:2] == b"\x00\x01"


def unpacked(content: bytes) -> list[bytes]:
    """What is in a compressed file."""
    if content[:2] == b"\x1f\x8b":
        try:
            return [gzip.decompress(content)]
        except (OSError, EOFError, zlib.error):
            return []
    if content[:4] == b"\x28\xb5\x2f\xfd":
        try:
            return [zstandard.ZstdDecompressor().decompressobj().decompress(content)]
        except zstandard.ZstdError:
            return []
    return []


def _cells(table: pa.Table) -> Iterator[bytes]:
    """All texts and bytes of a table, with those of nested fields."""
    for column in table.columns:
        for value in column.to_pylist():
            yield from _texts(value)


def _texts(value: object) -> Iterator[bytes]:
    if isinstance(value, bytes):
        yield value
    elif isinstance(value, str):
        yield value.encode()
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner)


def _of_table(path: Path, relative: str) -> PlainFile:
    """A file of a table, which `logwright latest` has made, or another program."""
    file = PlainFile(relative, None, "whole", stays=True)
    if not stat.S_ISREG(path.lstat().st_mode):
        file.state = "unread"
        return file
    content = path.read_bytes()
    if path.suffix == ".parquet":
        try:
            file.cells = set(_cells(pq.ParquetFile(io.BytesIO(content)).read()))
        except (pa.ArrowInvalid, OSError):
            file.state, file.opened = "unread", [content]
    elif path.suffix == ".avro":
        try:
            rows = list(fastavro.reader(io.BytesIO(content)))
            file.opened = [content, *_texts(rows)]
            if any(len(one) == _CUT for one in _texts(rows)):
                file.state = "loose"  # who is only known by an HMAC may begin so
        except (ValueError, EOFError, StopIteration, KeyError):
            file.state, file.opened = "unread", [content]
    else:
        file.opened = [content, *unpacked(content)]
    return file
