"""Search keys and patterns in columns of Arrow: the Parquet files of a table, and the rows that a
write by Spark has spooled. Effects: reads the files. Needs pyarrow.

A key is compared with whole values of all columns, nested ones too, in the forms in which it could
have been written (`logwright.erasure.find.value_forms`); a pattern is searched in their texts. A
deleted row of a table is in its file until that is removed, so it counts; so does a value of a
dictionary that no row has.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from logwright.erasure.find.leaves import UnknownType, leaves
from logwright.erasure.find.scan import UNDECODED, Scanned, Unread, nothing_found
from logwright.erasure.find.texts import RowHit, hits_of_rows
from logwright.erasure.find.value_forms import (
    as_bytes,
    forms_of_values,
    is_searchable,
    keys_of_bytes,
    texts_of,
)
from logwright.erasure.keys import Answers, KeySet
from logwright.extras import require

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

RAW_KEYS: Final = ("_key", "key")
"""The column of the key as it is in the log: the first that a file has
(`logwright.tables.columns`)."""
POSITIONS: Final = ("file_path", "pos")
"""The columns of Iceberg's position deletes."""
OWN_NUMBERS: Final = {
    "partition": "int32",
    "bucket": "int32",
    "offset": "int64",
    "timestamp": "timestamp[us, tz=UTC]",
}
"""Columns of our tables that say where a record is from (`logwright.tables.columns`)."""
_BATCH_ROWS: Final = 64 * 1024
_VALUES: Final = ("value", "headers")
_ARROW_SCHEMA: Final = b"ARROW:schema"
_FIELD_ID: Final = b"PARQUET:field_id"
_VARIANT: Final = "(Variant"
"""How a schema of Parquet shows a group of this type, whose values have texts inside."""


class Rows(NamedTuple):
    """What a Parquet file has.

    Attributes:
        hits: rows, each once for a request and once for a pattern.
        says: names and metadata of its footer, as values of JSON.
        statistics: the bounds of its columns.
        has_keys: whether it has the column of keys as they are in the log.
        names: of its columns.
        problems: why not all of its columns were searched.
        others: see `logwright.erasure.find.scan.Scanned`.
    """

    hits: list[RowHit]
    says: list[object]
    statistics: list[object]
    has_keys: bool
    names: tuple[str, ...]
    problems: tuple[str, ...]
    others: set[tuple[int, str]]


def scan_spool(data: NDArray[np.uint8], keys: KeySet, patterns: tuple[bytes, ...]) -> Scanned:
    """Scan the rows of a file in Arrow's IPC format (`logwright.spark.kafka_log_spool`). They have
    no offsets yet: that of a hit is the row's number.

    Args:
        data: uint8[n], all of it.

    Raises:
        MissingExtra: pyarrow is not installed.
    """
    require("tables", by="searching spooled rows")
    import pyarrow as pa  # noqa: PLC0415 -- an extra

    from logwright.ingest.schema import SCHEMA  # noqa: PLC0415 -- it needs pyarrow

    hits: list[RowHit] = []
    answers = Answers([], set(), set())
    row = 0
    try:
        with pa.ipc.open_file(pa.py_buffer(data)) as file:
            if not file.schema.equals(SCHEMA, check_metadata=True):
                problem = "it has other columns than the rows of a write"
                return nothing_found(Unread(position=0, bytes=-1, problem=problem))
            for number in range(file.num_record_batches):
                batch = file.get_batch(number)
                requests, more = keys.search(keys_of_bytes(as_bytes(batch["key"])))
                answers.others.update(more.others)
                answers.undecoded.update(more.undecoded)
                for at in np.flatnonzero(requests >= 0).tolist():
                    dead = not batch["value"][at].is_valid
                    hits.append((int(requests[at]), -1, row + at, dead))
                for at, pattern in _patterns_in(batch, patterns):
                    if requests[at] < 0:
                        hits.append((-1, pattern, row + at, False))
                row += batch.num_rows
    except (pa.ArrowException, OSError, KeyError):
        return nothing_found(Unread(position=0, bytes=-1, problem="it is not a whole Arrow file"))
    scanned = hits_of_rows(hits)
    scanned.others, scanned.undecoded = answers.others, answers.undecoded
    return scanned


def _patterns_in(batch: pa.RecordBatch, patterns: tuple[bytes, ...]) -> Iterator[tuple[int, int]]:
    """Yield row and pattern of the rows whose key, value or headers have one."""
    for at in range(batch.num_rows if patterns else 0):
        row = {name: batch[name][at].as_py() for name in ("key", *_VALUES)}
        parts = [row["key"], row["value"]]
        for header in row["headers"] or ():
            parts += [header["key"], header["value"]]
        for number, pattern in enumerate(patterns):
            if any(part is not None and pattern in part for part in parts):
                yield at, number
                break


def scan_parquet(path: Path, keys: KeySet, patterns: Sequence[bytes]) -> Rows | None:
    """Search all columns of a Parquet file; None if it cannot be read.

    Raises:
        MissingExtra: pyarrow is not installed.
    """
    require("tables", by="searching a table")
    import pyarrow as pa  # noqa: PLC0415 -- an extra
    import pyarrow.parquet as pq  # noqa: PLC0415

    hits: list[RowHit] = []
    problems: dict[str, None] = {}
    others: set[tuple[int, str]] = set()
    start = 0
    try:
        with pq.ParquetFile(path) as file:
            schema, words = file.schema_arrow, _with_dictionaries(file)
            if _VARIANT in str(file.schema):
                problems["it has a column of the type variant, which is not searched"] = None
            says = [_footer(file.metadata.metadata or {}), file.metadata.created_by]
            says += _names(schema)
            statistics = list(_statistics(file, _own_columns(schema)))
        with pq.ParquetFile(path, read_dictionary=words) as file:
            for batch in file.iter_batches(batch_size=_BATCH_ROWS):
                more, unknown, forms = hits_in(batch, start, keys, patterns)
                hits += more
                others |= forms
                problems |= dict.fromkeys(unknown)
                start += batch.num_rows
    except (pa.ArrowException, OSError, ValueError, KeyError):
        return None
    has_keys = any(field.name in RAW_KEYS and is_searchable(field.type) for field in schema)
    return Rows(hits, says, statistics, has_keys, tuple(schema.names), tuple(problems), others)


def parquet_values(path: Path) -> Iterator[object]:
    """Yield the rows of a Parquet file as values of JSON. Effects: reads it.

    Raises:
        ValueError: it cannot be read.
    """
    import pyarrow as pa  # noqa: PLC0415 -- an extra
    import pyarrow.parquet as pq  # noqa: PLC0415

    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=_BATCH_ROWS):
                yield from batch.to_pylist(maps_as_pydicts="strict")
    except (pa.ArrowException, OSError, KeyError) as error:
        raise ValueError("not a Parquet file that can be read") from error


def hits_in(
    batch: pa.RecordBatch, start: int, keys: KeySet, patterns: Sequence[bytes]
) -> tuple[list[RowHit], list[str], set[tuple[int, str]]]:
    """Return the hits of a batch of rows, why a column of it was not searched, and the other forms
    of requested keys.

    Args:
        start: number of the first row.
    """
    hits: set[tuple[int, int, int]] = set()
    problems = []
    answers = Answers([], set(), set())
    own = _own_columns(batch.schema)
    for number, (name, column) in enumerate(zip(batch.schema.names, batch.columns, strict=True)):
        if name in own:
            continue
        try:
            for leaf, rows in leaves(column):
                hits |= _hits_of_leaf(leaf, rows + start, keys, patterns, answers)
        except UnknownType as error:
            problems.append(
                f"its column {number + 1} has values of the type {error}, which is not searched"
            )
        if name in RAW_KEYS and answers.undecoded:
            problems.append(f"{len(answers.undecoded)} {UNDECODED}, in its column {number + 1}")
        answers.undecoded.clear()
    requested = {row for request, _, row in hits if request >= 0}
    return (
        [
            (request, pattern, row, False)
            for request, pattern, row in sorted(hits)
            if request >= 0 or row not in requested
        ],
        problems,
        answers.others,
    )


def _hits_of_leaf(
    leaf: pa.Array,
    rows: NDArray[np.int64],
    keys: KeySet,
    patterns: Sequence[bytes],
    answers: Answers,
) -> set[tuple[int, int, int]]:
    """Return request, pattern and row of the hits in an array of simple values; add the other forms
    of requested keys, and what cannot be decoded.
    """
    import pyarrow.compute as pc  # noqa: PLC0415 -- an extra

    hits: set[tuple[int, int, int]] = set()
    for form in forms_of_values(leaf):
        matched, more = keys.search(form)
        answers.others.update(more.others)
        answers.undecoded.update(more.undecoded)
        for at in np.flatnonzero(matched >= 0).tolist():
            hits.add((int(matched[at]), -1, int(rows[at])))
    for texts in texts_of(leaf) if patterns else ():
        for number, pattern in enumerate(patterns):
            has = pc.fill_null(pc.match_substring(texts, pattern), fill_value=False)
            for at in np.flatnonzero(has.to_numpy(zero_copy_only=False)).tolist():
                hits.add((-1, number, int(rows[at])))
    return hits


def _own_columns(schema: pa.Schema) -> frozenset[str]:
    """Return the columns of numbers that a file of our tables has; no person is in them."""
    types = {field.name: str(field.type) for field in schema}
    own = {name for name, kind in OWN_NUMBERS.items() if types.get(name) == kind}
    has_key = any(field.name in RAW_KEYS and is_searchable(field.type) for field in schema)
    return frozenset(own if has_key and {"offset", "timestamp"} <= own else ())


def _with_dictionaries(file: pq.ParquetFile) -> list[str]:
    """Return the columns of bytes and text with a dictionary, in which a value can be that no row
    has.
    """
    groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
    return [
        file.schema.column(number).path
        for number in range(len(file.schema))
        if file.schema.column(number).physical_type == "BYTE_ARRAY"
        and file.schema.column(number).logical_type.type in {"NONE", "STRING"}
        and any(group.column(number).has_dictionary_page for group in groups)
    ]


def _footer(metadata: Mapping[bytes, bytes]) -> object:
    """Return the metadata of a footer. Arrow's schema in it says how the columns are read.

    Raises:
        ValueError: it has a schema that is none.
    """
    import pyarrow as pa  # noqa: PLC0415 -- an extra

    says: dict[str, object] = {}
    for name, value in metadata.items():
        if name != _ARROW_SCHEMA:
            says[name.decode(errors="replace")] = value.decode(errors="replace")
            continue
        try:
            schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(value)))
        except binascii.Error as error:
            raise ValueError("its schema is not base64") from error
        says[_ARROW_SCHEMA.decode()] = list(_names(schema))
    return says


def _names(schema: pa.Schema) -> Iterator[object]:
    """Yield the names and the metadata of all fields of a schema."""
    waiting: list[pa.Field] = list(schema)
    yield _metadata(schema.metadata)
    while waiting:
        field = waiting.pop()
        yield field.name
        yield _metadata(field.metadata)
        kind = field.type
        yield from [] if not hasattr(kind, "extension_name") else [kind.extension_name]
        kind = getattr(kind, "storage_type", kind)
        kind = kind.value_type if _is_encoded(kind) else kind
        waiting += [kind.field(number) for number in range(kind.num_fields)]


def _is_encoded(kind: pa.DataType) -> bool:
    import pyarrow as pa  # noqa: PLC0415 -- an extra

    return bool(pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind))


def _metadata(metadata: Mapping[bytes, bytes] | None) -> object:
    return {
        name.decode(errors="replace"): value.decode(errors="replace")
        for name, value in (metadata or {}).items()
        if name not in (_FIELD_ID, _ARROW_SCHEMA)
    }


def _statistics(file: pq.ParquetFile, own: Iterable[str]) -> Iterator[object]:
    """Yield the smallest and largest values of the columns, which a strange writer may have of
    rows that the file has not.
    """
    for group in range(file.metadata.num_row_groups):
        for number in range(file.metadata.num_columns):
            column = file.metadata.row_group(group).column(number)
            values = column.statistics
            if values is None or not values.has_min_max or column.path_in_schema in own:
                continue
            bounds = (values.min, values.max)
            yield [None if isinstance(bound, bool) else _as_text(bound) for bound in bounds]


def _as_text(value: object) -> object:
    return value if isinstance(value, bytes | str | int | float) else str(value)
