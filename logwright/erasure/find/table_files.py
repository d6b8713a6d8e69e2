"""The texts in the metadata of tables: Delta's log, Iceberg's metadata and manifests, catalogs.

Statistics can hold a key, or the beginning of one: Delta cuts texts after 32 characters, Iceberg
after 16, and the last character of an upper bound is another one. In metadata, outside of
statistics and values of partitions, numbers are not taken for keys: sizes and times are written as
texts, too.
"""

from __future__ import annotations

import json
import re
import sqlite3
import struct
import zlib
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote
from uuid import UUID

from logwright.erasure.find.avro_blocks import require_small_blocks
from logwright.erasure.find.bounds import forms_of_bound
from logwright.erasure.find.columns import OWN_NUMBERS, parquet_values
from logwright.erasure.find.sentences import decoded, forms_of, is_written_by_machines
from logwright.erasure.find.value_forms import UUID_BYTES
from logwright.extras import require

MOST_BYTES: Final = 256 * 1024 * 1024
ICEBERG_CUT: Final = 16
DELTA_CUT: Final = 32
"""How many characters are left of a text in statistics."""
_STATISTICS: Final = frozenset(("minValues", "maxValues", "lower_bounds", "upper_bounds"))
_BOUNDS: Final = frozenset(("lower_bounds", "upper_bounds"))
_PARTITIONS: Final = frozenset(("partition", "partitionValues", "partitionValues_parsed"))
_SUMMARY: Final = frozenset(("lower_bound", "upper_bound"))
"""Of the partitions of a manifest; of one that is there its entries say more."""
_HASHED: Final = re.compile(r"bucket|.*_bucket(?:_\d+)?")
"""Partitions by a hash."""
_NUMBER: Final = re.compile(r"-?[0-9]{1,20}")
_COUNTERS: Final = re.compile(
    r"(?i)num[_-]?[a-z_-]+|(?:[a-z]+[._-]?)*(?:version|size|bytes|rows|files|records|counts?|ms"
    r"|millis|micros|seconds|hours|days|times?|timestamp|duration|deletes|retries|level|limit|ratio"
    r"|length|interval|features|columns|number|max|min)|(?:[a-z]+-)*(?:schema|spec|snapshot|order)-id"
)
"""Names of numbers that are written as texts."""
_TIME: Final = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(\.\d+)?(?:Z|[+-]\d\d:?\d\d)?")
_MOST_DIGITS: Final = 400
"""Of a number that is written out."""
_SIZE: Final = re.compile(r"(?i)(?<=char)\(\d+\)")
_DEEPEST: Final = 32
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
        in_parts: of which each part is compared, too.
    """

    whole: list[bytes]
    cut: list[bytes]
    in_parts: list[bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Of:
    """What a value is of.

    Attributes:
        there: names of the table's files. What statistics of such a file have, its rows have.
        fields: id → type of the columns of an Iceberg table, but those of our numbers.
        statistics: the value is of statistics.
        numbers: a number may be a key, as it is in partitions, statistics and rows.
        name: of the field.
    """

    there: frozenset[str] = frozenset()
    fields: dict[int, str] = field(default_factory=dict)
    statistics: bool = False
    numbers: bool = False
    name: str = ""
    depth: int = 0


def no_texts() -> Texts:
    """Return texts to which others are added."""
    return Texts([], [], [])


def table_texts(path: Path, of: Of | None = None) -> Texts | None:
    """Return the texts of a file of metadata, None if it has no known format, or is not whole.
    Effects: reads it.

    Raises:
        MissingExtra: a library that reads it is not installed.
    """
    if path.stat().st_size > MOST_BYTES:
        return None
    content, of = path.read_bytes(), of or Of()
    texts = no_texts()
    try:
        if content.startswith(b"Obj\x01"):
            _of_avro(path, texts, of)
        elif content.startswith(b"SQLite format 3\0"):
            _of_sqlite(path, texts)
        elif content.startswith(b"PAR1"):
            for row in parquet_values(path):
                add_texts(row, texts, of)
        elif is_vectors(content) or is_checksum(path, content):
            return texts
        elif path.name == "version-hint.text":
            return texts if content.strip().isdigit() else None
        else:
            _of_json(content, texts, of)
    except (ValueError, RecursionError, sqlite3.Error, EOFError, struct.error):
        return None
    return texts


def add_texts(value: object, texts: Texts, of: Of) -> None:
    """Add the texts in a value of JSON, Avro, SQLite or Parquet: names, values, and those of JSON
    that a text is.

    Raises:
        ValueError: it is too deep.
    """
    if of.depth > _DEEPEST:
        raise ValueError("too deep")
    of = replace(of, depth=of.depth + 1)
    if isinstance(value, dict):
        _add_fields(value, texts, of)
    elif isinstance(value, list | tuple):
        for child in value:
            add_texts(child, texts, of)
    elif isinstance(value, str):
        _add_text(value, texts, of)
    elif isinstance(value, bytes):
        _add_bytes(value, texts, of)
    elif isinstance(value, int | float | Decimal):
        is_value = of.numbers and not isinstance(value, bool)
        texts.whole.extend(_forms_of_number(value) if is_value else ())
    elif value is not None:
        texts.whole.extend(_forms_of_value(value))


def _add_fields(value: dict[Any, Any], texts: Texts, of: Of) -> None:
    file = value.get("file_path", value.get("path"))
    known = isinstance(file, str) and _name_of(file) in of.there
    inner = Texts(texts.whole, [], texts.in_parts) if known else texts
    manifest = value.get("manifest_path")
    is_away = isinstance(manifest, str) and _name_of(manifest) not in of.there
    for name, child in value.items():
        add_texts(name, inner, replace(of, numbers=False, statistics=False, name=""))
        is_number = _NUMBER.fullmatch(str(child)) and not of.statistics
        if is_number and (name in OWN_NUMBERS or _HASHED.fullmatch(str(name))):
            continue
        if name in _BOUNDS and isinstance(child, list):
            _add_bounds(child, inner, of)
            continue
        is_statistics = of.statistics or name in _STATISTICS
        are_values = is_statistics or name in _PARTITIONS or (is_away and name == "partitions")
        numbers = (of.numbers or are_values) and not (is_statistics and name in OWN_NUMBERS)
        below = replace(of, statistics=is_statistics, numbers=numbers, name=str(name))
        add_texts(child, inner, below)


def _name_of(address: str) -> str:
    return unquote(address).rpartition("/")[2]


def _add_bounds(bounds: list[Any], texts: Texts, of: Of) -> None:
    """Add the bounds of columns in a manifest: pairs of a column's id and bytes."""
    for pair in bounds:
        number, bound = pair["key"], pair["value"]
        _add_bytes(bound, texts, replace(of, statistics=True, numbers=False))
        if number in of.fields or not of.fields:
            texts.whole.extend(forms_of_bound(bound, of.fields.get(number, "")))


def _add_bytes(value: bytes, texts: Texts, of: Of) -> None:
    texts.whole.append(value)
    if len(value) == UUID_BYTES:
        texts.whole.append(str(UUID(bytes=value)).encode())
    if of.statistics:
        _add_cut(value.decode(errors="replace"), value, texts)
        return
    if of.numbers and of.name in _SUMMARY:
        texts.whole.extend(forms_of_bound(value, ""))
    _add_in_parts(value, texts)


def _add_cut(text: str, value: bytes, texts: Texts) -> None:
    if len(text) == ICEBERG_CUT or len(text) >= DELTA_CUT:
        texts.cut.append(value)


def beginning(cut: bytes) -> bytes:
    """Return what a key begins with, if this is what was left of it."""
    text = cut.decode(errors="replace")
    end = (ICEBERG_CUT if len(text) == ICEBERG_CUT else DELTA_CUT) - 1
    return text[:end].encode(errors="replace")


def _is_counter(name: str, value: str) -> bool:
    """Whether a text is a size, a time or the like: most are those of metadata."""
    is_number = _NUMBER.fullmatch(value) is not None and _COUNTERS.fullmatch(name) is not None
    return is_number and is_written_by_machines(name)


def _forms_of_value(value: object) -> Iterator[bytes]:
    """Yield the texts of a date, a time or any other value of Avro."""
    if isinstance(value, datetime):
        text = value.replace(tzinfo=None).isoformat()
        yield from (text.encode(), text.replace("T", " ").encode())
    else:
        yield str(value).encode()


def _forms_of_number(value: float | Decimal) -> Iterator[bytes]:
    """Yield the texts of a number, with and without zeros at its end."""
    exact = value if isinstance(value, Decimal) else Decimal(str(value))
    size = exact.adjusted() if exact.is_finite() else _MOST_DIGITS
    text = f"{exact:f}" if abs(size) < _MOST_DIGITS else str(value)
    yield from (str(value).encode(), text.encode())
    if "." in text:
        yield text.rstrip("0").rstrip(".").encode()


def _forms_of_time(text: str) -> Iterator[bytes]:
    """Yield what a time is without its zone and the zeros of its fraction."""
    if (match := _TIME.fullmatch(text)) is not None:
        fraction = (match[3] or "").rstrip("0").rstrip(".")
        yield from (f"{match[1]}{sign}{match[2]}{fraction}".encode() for sign in ("T", " "))


def _add_text(value: str, texts: Texts, of: Of) -> None:
    if not (of.statistics or of.numbers) and _is_counter(of.name, value):
        return
    text = value.encode(errors="surrogatepass")
    texts.whole.append(text)
    texts.whole.extend(_forms_of_time(value))
    if of.statistics:
        texts.whole.extend(decoded(text))
        _add_cut(value, text, texts)
        return
    if value[:1] in ("{", "["):
        inside = _json(value)
        add_texts(inside, texts, replace(of, name=of.name))
        if inside is not None:
            return
    _add_in_parts(text, texts)


def _add_in_parts(text: bytes, texts: Texts) -> None:
    if is_written_by_machines(text.decode(errors="replace")):
        return
    forms = forms_of(text)
    texts.in_parts.extend(forms)
    for form in forms:
        texts.whole.append(form)
        texts.whole.extend(decoded(form))


def _json(value: str) -> object:
    """Return the JSON in a text, None if it has none."""
    try:
        return _parsed(value)
    except ValueError:
        return None


def _parsed(text: str) -> object:
    """Return what JSON says, its numbers with all of their digits."""
    return json.loads(text, object_pairs_hook=_pairs, parse_float=Decimal)


def _pairs(pairs: list[tuple[str, object]]) -> object:
    """Return an object of JSON; one with a name twice as what it has, so that nothing is lost."""
    fields = dict(pairs)
    return fields if len(fields) == len(pairs) else [{name: value} for name, value in pairs]


def _of_json(content: bytes, texts: Texts, of: Of) -> None:
    """Add the texts of JSON, or of lines of JSON."""
    text = content.decode()
    try:
        add_texts(_parsed(text), texts, of)
    except json.JSONDecodeError:
        for line in text.splitlines():
            if line.strip():
                add_texts(_parsed(line), texts, of)


def _of_avro(path: Path, texts: Texts, of: Of) -> None:
    """Add the texts of an Avro file: a manifest, or a list of them."""
    require("tables", by="searching a table")
    import fastavro  # noqa: PLC0415 -- an extra

    require_small_blocks(path.read_bytes())
    with path.open("rb") as file:
        try:
            reader = fastavro.reader(file)
            metadata, records = dict(reader.metadata), list(reader)
        except Exception as error:
            raise ValueError("not a whole Avro file") from error
    add_texts(metadata, texts, replace(of, numbers=False))
    of = replace(of, fields=_fields(_json(str(metadata.get("schema", "")))))
    for record in records:
        add_texts(record, texts, of)


def _fields(schema: object) -> dict[int, str]:
    """Return id → type of the columns of a manifest's schema, but those of our numbers."""
    fields: dict[int, str] = {}
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, list):
            waiting += part
        elif isinstance(part, dict):
            number, kind = part.get("id"), part.get("type")
            if isinstance(number, int) and part.get("name") not in OWN_NUMBERS:
                fields[number] = str(kind)
            waiting += [child for child in part.values() if isinstance(child, dict | list)]
            fields |= {
                part[f"{name}-id"]: str(part.get(name))
                for name in ("element", "key", "value")
                if isinstance(part.get(f"{name}-id"), int)
            }
    return fields


def _of_sqlite(path: Path, texts: Texts) -> None:
    """Add the texts of all rows of an SQLite file, such as the catalog of pyiceberg."""
    address = f"file:{quote(str(path.absolute()))}?mode=ro&immutable=1"
    with closing(sqlite3.connect(address, uri=True)) as connection:
        if connection.execute("PRAGMA quick_check").fetchone() != ("ok",):
            raise ValueError("not whole")
        schema = connection.execute(
            "SELECT type, name, tbl_name, sql FROM sqlite_master"
        ).fetchall()
        for kind, name, *more in schema:
            if kind == "index" and name.startswith("sqlite_autoindex"):
                continue
            add_texts([name, *(_SIZE.sub("", text or "") for text in more)], texts, Of())
            quoted = name.replace('"', '""')
            rows = f'SELECT * FROM "{quoted}"' if kind == "table" else "SELECT 1 WHERE 0"  # noqa: S608 -- a name that is quoted
            for row in connection.execute(rows):
                add_texts(row, texts, Of(numbers=True))


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
