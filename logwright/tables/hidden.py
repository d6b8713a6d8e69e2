"""The hidden heads of a table of a whole topic (`logwright.tables.heads`): a file next to it.

::

    .customers.logwright-keys/<name>.parquet

Each update that changes something writes a new file, with a row group for each bucket, and the
table's commit names it, so that the two always fit: also after a crash, and after a rollback. A
reader of the table must not see it; so it is not in the table's directory.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import IO, Final, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from logwright.tables.columns import BUCKET, KEY
from logwright.tables.files import Listed, TableFiles
from logwright.tables.heads import HEADS, RAW, SEEN, forgettable, raw_keys

_IDENTITY: Final = "identity"
_STORED: Final = pa.schema(
    [
        pa.field(BUCKET, pa.int32()),
        *(field for field in HEADS if field.name != RAW),
        pa.field(_IDENTITY, pa.binary()),
    ]
)
"""The column `KEY` has keys as they are in the log, where searches for erasures find them,
`identity` what they are compared by, null if that is the same.
"""
_SUFFIX: Final = ".parquet"
_FIRST: Final = b"logwright.first"


class HiddenHeads:
    """A file of hidden heads, open for reading; or none.

    Args:
        folder: see `logwright.tables.files.hidden_in`.
        name: of the file; None: there are no hidden heads.

    Raises:
        FileNotFoundError: it is gone.
    """

    def __init__(self, folder: TableFiles, name: str | None) -> None:
        opened = None if name is None else folder.source(f"{name}{_SUFFIX}")
        self._opened = opened
        self._file = None if opened is None else pq.ParquetFile(opened)
        self._groups: dict[int, int] = {}
        self._first = ""
        if self._file is not None:
            metadata = self._file.metadata
            for group in range(metadata.num_row_groups):
                self._groups[int(metadata.row_group(group).column(0).statistics.min)] = group
            self._first = (metadata.metadata or {}).get(_FIRST, b"").decode()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()
            if self._opened is not None:
                self._opened.close()

    @property
    def first_ms(self) -> int | None:
        """When the first of the tombstones was seen that can be forgotten; None: none can."""
        return int(self._first) if self._first else None

    def read(self, bucket: int) -> pa.Table:
        """Return those of a bucket. Effects: reads."""
        if self._file is None or bucket not in self._groups:
            return HEADS.empty_table()
        return _loaded(self._file.read_row_group(self._groups[bucket], columns=_STORED.names))


class HiddenWriter:
    """Writes a file of hidden heads, bucket by bucket.

    Attributes:
        name: of the file; None: it has no heads, and does not stay.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self.name: str | None = None
        self._writer = pq.ParquetWriter(
            file, _STORED, compression="zstd", write_statistics=[BUCKET]
        )
        self._firsts: list[int] = []
        self.has_heads = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        first = min(self._firsts, default=None)
        if first is not None:
            self._writer.add_key_value_metadata({_FIRST: str(first)})
        self._writer.close()

    def write(self, bucket: int, heads: pa.Table) -> None:
        """Take the heads of a bucket. Effects: writes a row group, if there are some."""
        if not len(heads):
            return
        self._writer.write_table(_stored(bucket, heads), row_group_size=len(heads))
        self._firsts += forgettable(heads)[SEEN].to_pylist()
        self.has_heads = True


def _stored(bucket: int, heads: pa.Table) -> pa.Table:
    """Return heads as they are stored."""
    none = pa.scalar(None, pa.binary())
    columns = {name: heads[name] for name in HEADS.names} | {
        BUCKET: pa.array([bucket] * len(heads), pa.int32()),
        KEY: raw_keys(heads),
        _IDENTITY: pc.if_else(heads[RAW].is_valid(), heads[KEY], none),
    }
    return pa.table([columns[name] for name in _STORED.names], schema=_STORED)


def _loaded(stored: pa.Table) -> pa.Table:
    """Return heads from what is stored; earlier versions have no identity."""
    columns = {name: stored[name] for name in stored.column_names}
    columns[RAW] = pa.nulls(len(stored), pa.binary())
    if _IDENTITY in columns:
        known, key = columns[_IDENTITY], columns[KEY]
        columns[RAW] = pc.if_else(known.is_valid(), key, pa.scalar(None, pa.binary()))
        columns[KEY] = pc.coalesce(known, key)
    return pa.table([columns[name] for name in HEADS.names], schema=HEADS)


@contextmanager
def written(folder: TableFiles) -> Iterator[HiddenWriter]:
    """Yield a new file of hidden heads; it is durable when the block has ended. Effects: makes it,
    and removes it if it has none.
    """
    name = secrets.token_hex(8)
    path = f"{name}{_SUFFIX}"
    with folder.output(path) as file, HiddenWriter(file) as writer:
        yield writer
    if writer.has_heads:
        writer.name = name
    else:
        folder.remove(path)


def remove_old(
    folder: TableFiles, kept: str | None, keep_ms: int, passed: Iterable[Listed] = ()
) -> None:
    """Remove the files that only earlier versions of the table have named.

    Args:
        folder: see `logwright.tables.files.hidden_in`.
        kept: name of the file that stays; None: none does.
        keep_ms: files that are younger stay, too: a version that is restored may name them.
        passed: files that were there before a commit of this process: who was to name one in the
            same version, or in an earlier each, cannot any more. Others may be of a slow writer.
    """
    stays = f"{kept}{_SUFFIX}"
    files = [
        each for each in folder.listing() if each.path.endswith(_SUFFIX) and each.path != stays
    ]
    known = {each.path for each in passed}
    if files:
        now_ms = folder.now_ms()
        for each in files:
            age_ms = now_ms - each.modified_ms
            if age_ms >= (keep_ms if each.path in known else max(keep_ms, folder.orphan_ms)):
                folder.remove(each.path)
    folder.tidy()
