"""The texts in the metadata of tables: Delta's log, Iceberg's metadata and manifests, catalogs.

Statistics can hold a key, or the beginning of one: Delta cuts texts after 32 characters, Iceberg
after 16, and the last character of an upper bound is another one. Outside of statistics and values
of partitions numbers are not taken for keys: sizes and times are written as texts, too.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import sqlite3
import struct
import zlib
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote

from logwright.erasure.find.avro_blocks import require_small_blocks
from logwright.extras import require

MOST_BYTES: Final = 256 * 1024 * 1024
ICEBERG_CUT: Final = 16
DELTA_CUT: Final = 32
"""How many characters are left of a text in statistics."""
_STATISTICS: Final = frozenset(("minValues", "maxValues", "lower_bounds", "upper_bounds"))
_PARTITIONS: Final = frozenset(("partition", "partitionValues"))
_OWN_PARTITIONS: Final = frozenset(("partition", "bucket"))
"""The partition columns of our tables; they have numbers."""
_NUMBER: Final = re.compile(r"-?[0-9]{1,20}")
_QUOTED: Final = re.compile(r"'((?:[^']|'')*)'|\"([^\"]*)\"")
_DEEPEST: Final = 32
_BASE64: Final = re.compile(rb"(?:[A-Za-z0-9+/_-]{4})+={0,2}|[A-Za-z0-9+/_-]{2,}={0,2}")
_FILE: Final = re.compile(
    rb"(?:[a-z0-9]{2,}:/+|/|\.\./|[^\0\n:]*/\.\./)[^\0\n]*\.(?:parquet|avro|orc|bin|puffin|json)",
    re.DOTALL,
)
_VECTOR_MAGIC: Final = 1681511377
"""Of a deletion vector (Delta protocol, RoaringBitmapArray)."""


class Texts(NamedTuple):
    """The texts of a file of metadata.

    Attributes:
        whole: that are compared with keys.
        cut: that may be the beginning of a key.
    """

    whole: list[bytes]
    cut: list[bytes]


def table_texts(path: Path, there: frozenset[str] = frozenset()) -> Texts | None:
    """Return the texts of a file of metadata, None if it has no known format, or is not whole.
    Effects: reads it.

    Args:
        there: see `add_texts`.

    Raises:
        MissingExtra: a library that reads it is not installed.
    """
    if path.stat().st_size > MOST_BYTES:
        return None
    content = path.read_bytes()
    texts = Texts([], [])
    try:
        if content.startswith(b"Obj\x01"):
            _of_avro(path, texts, there)
        elif content.startswith(b"SQLite format 3\0"):
            _of_sqlite(path, texts)
        elif is_vectors(content) or is_checksum(path, content):
            return texts
        elif path.name == "version-hint.text":
            return texts if content.strip().isdigit() else None
        else:
            _of_json(content, texts, there)
    except (ValueError, RecursionError, sqlite3.Error, EOFError, struct.error):
        return None
    return texts


def add_texts(
    value: object,
    texts: Texts,
    *,
    there: frozenset[str] = frozenset(),
    statistics: bool = False,
    numbers: bool = False,
    depth: int = 0,
) -> None:
    """Add the texts in a value of JSON or Avro: of names and values, and of JSON in a text.

    Args:
        there: names of the table's files. What statistics of such a file have, its rows have.
        statistics: the value is of statistics.
        numbers: it is of a partition: a number may be a key.
    """
    if depth > _DEEPEST:
        raise ValueError("too deep")
    more: dict[str, Any] = {"there": there, "depth": depth + 1}
    if isinstance(value, dict):
        of = value.get("file_path", value.get("path"))
        known = isinstance(of, str) and unquote(of).rpartition("/")[2] in there
        inner = Texts(texts.whole, []) if known else texts
        for name, child in value.items():
            if name in _OWN_PARTITIONS and _NUMBER.fullmatch(str(child)):
                continue
            add_texts(name, inner, **more)
            for_child = {"numbers": numbers or name in _PARTITIONS, **more}
            add_texts(child, inner, statistics=statistics or name in _STATISTICS, **for_child)
    elif isinstance(value, list | tuple):
        for child in value:
            add_texts(child, texts, statistics=statistics, numbers=numbers, **more)
    elif isinstance(value, str) and (statistics or numbers or not _NUMBER.fullmatch(value)):
        _add_text(value, texts, there=there, statistics=statistics, depth=depth)
    elif isinstance(value, bytes):
        texts.whole.append(value)
        _add_cut(value.decode(errors="replace"), value, texts)
    elif numbers:
        texts.whole.append(str(value).encode())


def _add_cut(text: str, value: bytes, texts: Texts) -> None:
    if len(text) == ICEBERG_CUT or len(text) >= DELTA_CUT:
        texts.cut.append(value)


def beginning(cut: bytes) -> bytes:
    """Return what a key begins with, if this is what was left of it."""
    text = cut.decode(errors="replace")
    end = (ICEBERG_CUT if len(text) == ICEBERG_CUT else DELTA_CUT) - 1
    return text[:end].encode(errors="replace")


def _add_text(
    value: str, texts: Texts, *, there: frozenset[str], statistics: bool, depth: int
) -> None:
    text = value.encode(errors="surrogatepass")
    texts.whole.extend(_forms(text))
    if statistics:
        _add_cut(value, text, texts)
        return
    if value[:1] in ("{", "["):
        try:
            inside = json.loads(value)
        except ValueError:
            inside = None
        add_texts(inside, texts, there=there, depth=depth + 1)
    for quoted in _QUOTED.finditer(value):
        texts.whole.append(
            (quoted[1] or quoted[2] or "").replace("''", "'").encode(errors="replace")
        )
    for part in value.split("/"):
        name, equals, given = part.partition("=")
        if equals and name not in _OWN_PARTITIONS:
            texts.whole.append(unquote(given).encode(errors="replace"))


def _forms(text: bytes) -> Iterator[bytes]:
    """Yield a text, and what it is in base64 or hex."""
    yield text
    if _BASE64.fullmatch(text):
        padded = text.rstrip(b"=") + b"=" * (-len(text.rstrip(b"=")) % 4)
        for altchars in (None, b"-_"):
            try:
                yield base64.b64decode(padded, altchars, validate=True)
            except (ValueError, binascii.Error):
                continue
    try:
        yield bytes.fromhex(text.decode("ascii"))
    except ValueError:
        return


def _of_json(content: bytes, texts: Texts, there: frozenset[str]) -> None:
    """Add the texts of JSON, or of lines of JSON."""
    text = content.decode()
    try:
        add_texts(json.loads(text), texts, there=there)
    except json.JSONDecodeError:
        for line in text.splitlines():
            if line.strip():
                add_texts(json.loads(line), texts, there=there)


def _of_avro(path: Path, texts: Texts, there: frozenset[str]) -> None:
    """Add the texts of an Avro file: a manifest, or a list of them."""
    require("tables", by="searching a table")
    import fastavro  # noqa: PLC0415 -- an extra

    require_small_blocks(path.read_bytes())
    with path.open("rb") as file:
        try:
            reader = fastavro.reader(file)
            records = [dict(reader.metadata), *reader]
        except Exception as error:
            raise ValueError("not a whole Avro file") from error
    for record in records:
        add_texts(record, texts, there=there)


def _of_sqlite(path: Path, texts: Texts) -> None:
    """Add the texts of all rows of an SQLite file, such as the catalog of pyiceberg."""
    address = f"file:{quote(str(path.absolute()))}?mode=ro&immutable=1"
    with closing(sqlite3.connect(address, uri=True)) as connection:
        if connection.execute("PRAGMA quick_check").fetchone() != ("ok",):
            raise ValueError("not whole")
        names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        for (name,) in names:
            quoted = name.replace('"', '""')
            for row in connection.execute(f'SELECT * FROM "{quoted}"'):  # noqa: S608 -- a name that is quoted
                add_texts(row, texts)


def is_vectors(content: bytes) -> bool:
    """Return whether a file has nothing but Delta's deletion vectors, each with its CRC-32."""
    if not content or content[0] != 1:
        return False
    at = 1
    while at < len(content):
        if len(content) - at < 12:  # noqa: PLR2004 -- size, magic and CRC
            return False
        (size,) = struct.unpack_from(">i", content, at)
        data = content[at + 4 : at + 4 + size]
        end = at + 4 + size + 4
        if size < 4 or end > len(content):  # noqa: PLR2004 -- the magic
            return False
        (magic,) = struct.unpack_from("<i", data)
        (crc,) = struct.unpack_from(">I", content, end - 4)
        if magic != _VECTOR_MAGIC or crc != zlib.crc32(data):
            return False
        at = end
    return True


def is_checksum(path: Path, content: bytes) -> bool:
    """Return whether a file is Hadoop's checksums of the file next to it. Effects: reads that."""
    if not (content.startswith(b"crc\0") and path.name.startswith(".") and path.suffix == ".crc"):
        return False
    of = path.with_name(path.name[1 : -len(".crc")])
    (chunk,) = struct.unpack_from(">i", content, 4)
    if chunk <= 0 or not of.is_file() or of.is_symlink() or of.stat().st_size > MOST_BYTES:
        return False
    data = of.read_bytes()
    sums = [zlib.crc32(data[at : at + chunk]) for at in range(0, len(data), chunk)]
    return content[8:] == b"".join(struct.pack(">I", one) for one in sums)


def references(texts: Iterable[bytes]) -> Iterator[str]:
    """Yield the texts that name a file by an address, an absolute path, or one that leaves its
    directory.
    """
    for text in texts:
        if _FILE.fullmatch(text):
            yield text.decode(errors="surrogateescape")
