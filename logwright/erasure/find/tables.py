"""Search the files of a table: Parquet, Delta and Iceberg, its old versions too.

Each file below the table's directory is searched, whichever version refers to it, and the keys
that a table of a whole topic keeps next to it. Files elsewhere that the metadata refers to are
named, and so is a file of another format.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from urllib.parse import unquote

import numpy as np

from logwright.erasure.find.columns import scan_parquet
from logwright.erasure.find.model import Finding, Looked
from logwright.erasure.find.result import SearchResult, Unsearched
from logwright.erasure.find.table_files import Texts, add_texts, beginning, references, table_texts
from logwright.erasure.find.table_place import TablePlace, table_place
from logwright.erasure.find.texts import RowHit, scan_texts
from logwright.erasure.keys import KeySet
from logwright.errors import StalePlan, unreadable
from logwright.format.names import TopicPartition
from logwright.place.model import Place

_PARTITION: Final = re.compile(r"(?:^|/)partition=(\d{1,10})/")
_METADATA: Final = re.compile(r"(?:^|/)(?:_delta_log|metadata)/")
_PARQUET: Final = b"PAR1"
_CUT: Final = "a value in its statistics is cut, and may be the beginning of a key"
_NO_KEYS: Final = "it has no column of keys as bytes or text"
_READ_BYTES: Final = 1 << 20
ATTEMPTS: Final = 3
"""How often a table is read whose files change meanwhile."""


def search_table_files(
    root: Place | str, keys: KeySet, *, patterns: tuple[bytes, ...] = (), topic: str = ""
) -> SearchResult:
    """Search a table's files, or one file. Effects: reads them.

    Args:
        root: a path, or a prefix in a bucket, or its URL.
        patterns: byte patterns that are searched in all columns of bytes and text, too.
        topic: of the table; empty: requests of all topics count.

    Raises:
        MissingExtra: a library that reads the files is not installed.
        UnreadableFile: there is no such file or directory, or the bucket does not answer.
        StalePlan: its files change all the time.
    """
    with table_place(root) as place:
        for _ in range(ATTEMPTS):
            table = _Table(place, keys, patterns, topic)
            below = place.listing()
            table.there = frozenset(path.name for path, problem, _ in below if problem is None)
            for path, problem, _ in below:
                table.add(path, problem)
            if place.listing() == below:
                table.found.findings.sort(key=lambda one: (one.path, one.request))
                return table.found
    raise StalePlan(
        "its files change while they are searched.",
        path=place.place,
        remedy="Stop the programs that change it, then search again.",
    )


class _Table:
    """The search of one table."""

    def __init__(
        self, place: TablePlace, keys: KeySet, patterns: tuple[bytes, ...], topic: str
    ) -> None:
        self._place, self._root = place, place.root
        self._keys = keys
        self._patterns = patterns
        self._topic = topic
        self.there: frozenset[str] = frozenset()
        self._elsewhere: set[str] = set()
        self.found = SearchResult(directory=place.place, unformed=set(keys.unformed))

    def add(self, path: Path, problem: str | None) -> None:
        """Search one file."""
        relative = os.path.relpath(path, self._root) if path != self._root else path.name
        place = _PARTITION.search(relative)
        partition = TopicPartition(self._topic, int(place[1]) if place else -1)
        looked: Looked = "searched"
        if problem is None:
            try:
                with self._place.opened(path) as opened:
                    looked, problem = self._search(opened, (relative, partition))
            except OSError as error:
                problem = unreadable(error, path).problem
            self.found.files += 1
            self.found.looked[relative] = "not searched" if problem else looked
        if problem is not None:
            self._unsearched(relative, partition, problem)

    def _search(self, path: Path, where: tuple[str, TopicPartition]) -> tuple[Looked, str | None]:
        """Search a file by its content; return how it was looked at, and why it is not searched."""
        size, head = path.stat().st_size, _head(path)
        self.found.bytes += size
        if not any(head) and _is_zero(path):
            return "no records", None
        if head != _PARQUET:
            texts = table_texts(path, self.there)
            if texts is None:
                return "not searched", "it is of no format that a table has"
            return ("searched" if any(texts) else "no records"), self._texts(texts, where)
        rows = scan_parquet(path, self._keys, self._patterns)
        if rows is None:
            return "not searched", "it is not a Parquet file that can be read"
        self._found(rows.hits, where)
        self.found.add_others(self._keys, self._topic, rows.others)
        footer = Texts([], [])
        for text in rows.texts:
            add_texts(text.decode(errors="replace"), footer, there=self.there)
        problem = self._texts(footer, where)
        has_rows = rows.has_keys or rows.are_positions or _METADATA.search(where[0])
        return "searched", problem if has_rows else _NO_KEYS

    def _texts(self, texts: Texts, where: tuple[str, TopicPartition]) -> str | None:
        """Compare the texts of a file; return why not all could be."""
        scanned = scan_texts(texts.whole, self._keys, self._patterns)
        self._found(
            [(int(one["request"]), int(one["pattern"]), -1, False) for one in scanned.hits], where
        )
        self.found.add_others(self._keys, self._topic, scanned.others)
        self._references(texts.whole)
        return _CUT if self._keys.may_begin([beginning(one) for one in texts.cut]) else None

    def _references(self, texts: Sequence[bytes]) -> None:
        """Name the files elsewhere that metadata refers to, each directory once."""
        root = os.path.abspath(self._root)  # noqa: PTH100 -- resolve() would follow symlinks
        for text in references(texts):
            scheme, colon, rest = text.partition(":")
            local = not text.startswith("/") and colon and scheme != "file"
            path = text if local else _path_of(unquote(rest if colon else text), root)
            directory = path.rpartition("/")[0]
            inside = f"{path}/".startswith(f"{root}/") or self._place.has(text)
            if inside or directory in self._elsewhere or not (local or os.path.lexists(path)):
                continue
            self._elsewhere.add(directory)
            problem = f"the table refers to files in {directory}, which was not searched"
            self._unsearched("", TopicPartition(self._topic, -1), problem)

    def _unsearched(self, path: str, partition: TopicPartition, problem: str) -> None:
        self.found.unsearched.append(
            Unsearched(partition=partition, path=path, position=0, bytes=-1, problem=problem)
        )

    def _found(self, hits: Sequence[RowHit], where: tuple[str, TopicPartition]) -> None:
        path, partition = where
        self.found.findings += [
            Finding(
                request=request if request >= 0 else pattern + len(self._keys),
                topic=partition.topic,
                partition=partition.partition,
                path=path,
                place="table",
                offset=-1,
                batch_position=-1,
                kind="live" if request >= 0 else "value",
                rule="",
                gone_by_ms=None,
            )
            for request, pattern, _, _ in hits
        ]


def _path_of(text: str, root: str) -> str:
    """Return the absolute path that a text names; one without a slash first is below the table."""
    return os.path.normpath(f"/{text.lstrip('/')}" if text.startswith("/") else f"{root}/{text}")


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(len(_PARQUET))


def _is_zero(path: Path) -> bool:
    with path.open("rb") as file:
        return not any(
            np.frombuffer(part, dtype=np.uint8).any()
            for part in iter(lambda: file.read(_READ_BYTES), b"")
        )
