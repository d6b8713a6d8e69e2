"""Search the files of a table: Parquet, Delta and Iceberg, its old versions too.

Each file below the table's directory is searched, whichever version refers to it, and the keys
that a table of a whole topic keeps next to it: its path, its rows, and what its metadata says.
Files elsewhere that the metadata refers to are named, and so is a file of another format, a column
of a type and a text that cannot be searched.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final
from urllib.parse import unquote

import numpy as np

from logwright.erasure.find.columns import POSITIONS, parquet_values, scan_parquet
from logwright.erasure.find.model import Finding, Looked
from logwright.erasure.find.result import SearchResult, Unsearched
from logwright.erasure.find.table_files import (
    Of,
    Texts,
    add_texts,
    beginning,
    no_texts,
    references,
    table_texts,
)
from logwright.erasure.find.table_paths import Paths
from logwright.erasure.find.table_place import Listed, TablePlace, table_place
from logwright.erasure.find.texts import RowHit, scan_parts, scan_texts
from logwright.erasure.keys import KeySet
from logwright.errors import StalePlan, unreadable
from logwright.format.names import TopicPartition
from logwright.place.model import Place

_PARTITION: Final = re.compile(r"(?:^|/)partition=(\d{1,10})/")
_METADATA: Final = re.compile(r"(?:^|/)(?:_delta_log|metadata)/")
_FOREIGN: Final = re.compile(r"(?:^|/)\.hoodie/")
"""Of Hudi, whose metadata can have rows in forms that are not known."""
_ACTIONS: Final = frozenset(
    (
        "add",
        "cdc",
        "checkpointMetadata",
        "commitInfo",
        "domainMetadata",
        "metaData",
        "protocol",
        "remove",
        "sidecar",
        "txn",
    )
)
"""The columns of a checkpoint of Delta's log; one that has others, too, may have rows besides."""
_PARQUET: Final = b"PAR1"
_NO_FORMAT: Final = "it is of no format that a table has"
_NOT_PARQUET: Final = "it is not a Parquet file that can be read"
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
    with table_place(root) as place, Paths(keys, patterns).in_errors():
        for _ in range(ATTEMPTS):
            table = _Table(place, keys, patterns, topic)
            below = place.listing()
            table.there = frozenset(file.path.name for file in below if file.problem is None)
            for file in below:
                table.add(file)
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
        self._paths = Paths(keys, patterns)
        self.there: frozenset[str] = frozenset()
        self._elsewhere: set[str] = set()
        self.found = SearchResult(directory=place.place, unformed=set(keys.unformed))

    def add(self, file: Listed) -> None:
        """Search one file, or the name of an empty directory."""
        path, problem = file.path, file.problem
        relative = os.path.relpath(path, self._root) if path != self._root else path.name
        place = _PARTITION.search(relative)
        partition = TopicPartition(self._topic, int(place[1]) if place else -1)
        where = self._paths.shown(relative), partition
        self._found(self._paths.hits(relative), where)
        if where[0] != relative:
            self.found.shown[relative] = where[0]
        if file.is_empty:
            return
        problems = [] if problem is None else [problem]
        if problem is None:
            looked: Looked = "searched"
            try:
                with self._place.opened(path) as opened:
                    looked, problems = self._search(opened, relative, where)
            except OSError as error:
                problems = [unreadable(error, path).problem]
            self.found.files += 1
            self.found.looked[relative] = "not searched" if problems else looked
        for reason in dict.fromkeys(problems):
            self._unsearched(*where, reason)

    def _search(
        self, path: Path, relative: str, where: tuple[str, TopicPartition]
    ) -> tuple[Looked, list[str]]:
        """Search a file by its content; return how it was looked at, and why it is not searched."""
        size, head = path.stat().st_size, _head(path)
        self.found.bytes += size
        if not any(head) and _is_zero(path):
            return "no records", []
        if _FOREIGN.search(relative):
            return "not searched", [_NO_FORMAT]
        of = Of(there=self.there, numbers=not _METADATA.search(relative))
        if head == _PARQUET:
            return "searched", self._search_parquet(path, where, of)
        texts = table_texts(path, of)
        if texts is None:
            return "not searched", [_NO_FORMAT]
        return ("searched" if any(texts) else "no records"), self._texts(texts, where)

    def _search_parquet(self, path: Path, where: tuple[str, TopicPartition], of: Of) -> list[str]:
        """Search the rows of a Parquet file and its footer; return why not all could be."""
        rows = scan_parquet(path, self._keys, self._patterns)
        if rows is None:
            return [_NOT_PARQUET]
        texts, problems = no_texts(), list(rows.problems)
        is_log = not of.numbers and not _ACTIONS.isdisjoint(rows.names)
        has_rows = not (is_log and _ACTIONS.issuperset(rows.names))
        hits = rows.hits if has_rows else []
        self._found(hits, where)
        self.found.add_others(self._keys, self._topic, rows.others)
        of = Of(there=self.there)
        try:
            add_texts(rows.says, texts, of)
            bounds = Texts(texts.whole, [], [])  # of what is cut its rows have the whole
            bounds_of = replace(of, numbers=True, statistics=True)
            add_texts(rows.statistics if has_rows else [], bounds, bounds_of)
            if is_log or rows.names == POSITIONS:
                for row in parquet_values(path):
                    add_texts(row, texts, of)
        except (ValueError, RecursionError):
            return [*problems, _NOT_PARQUET]
        problems += self._texts(texts, where, but={hit[:2] for hit in hits})
        return (
            problems
            if rows.has_keys or is_log or rows.names == POSITIONS
            else [*problems, _NO_KEYS]
        )

    def _texts(
        self,
        texts: Texts,
        where: tuple[str, TopicPartition],
        *,
        but: Collection[tuple[int, int]] = (),
    ) -> list[str]:
        """Compare the texts of a file; return why not all could be.

        Args:
            but: requests and patterns that its rows have: they are found once, and no pattern
                where a request is.
        """
        scanned = scan_texts(texts.whole, self._keys, self._patterns)
        requests, problem = scan_parts(texts.in_parts, self._keys)
        hits = {(int(hit["request"]), int(hit["pattern"]), -1, False) for hit in scanned.hits}
        hits |= {(request, -1, -1, False) for request in requests}
        has_request = any(request >= 0 for request, _ in but)
        more = [hit for hit in hits if hit[:2] not in but and (hit[0] >= 0 or not has_request)]
        self._found(sorted(more), where)
        self.found.add_others(self._keys, self._topic, scanned.others)
        self._references(texts.whole)
        problems = [] if problem is None else [problem]
        is_cut = self._keys.may_begin([beginning(cut) for cut in texts.cut])
        return [*problems, _CUT] if is_cut else problems

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
            shown = self._paths.shown(directory)
            problem = f"the table refers to files in {shown}, which was not searched"
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
