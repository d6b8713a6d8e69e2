"""Read erasure requests from the files of a landing directory: CSV, JSON lines and Parquet.

A row has the columns ``id``, ``topics`` (or ``topic``), one of ``key`` (text), ``key_base64``,
``key_decoded`` (text or JSON: the key in all its forms) and ``hmac`` (hexadecimal),
``received_at`` and ``deadline`` (ISO 8601 with a time zone, or ms since the epoch). A row that is
not valid is refused by file and line. A refusal names columns and rules, and never has content of
the row: that may be the key.
"""

from __future__ import annotations

import base64
import csv
import io
import json
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StrictInt,
    StrictStr,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_core import ErrorDetails, PydanticCustomError

from logwright.erasure.form_of import Form, form_of, form_of_given
from logwright.erasure.key_text import doubts_about, from_base64, refused_key
from logwright.erasure.names import Names
from logwright.erasure.request import Request, topics_problem
from logwright.erasure.secret import HMAC_BYTES, Secret
from logwright.errors import PolicyError
from logwright.extras import require
from logwright.place.mapped import map_file
from logwright.times import time_ms

CSV: Final = ".csv"
JSON_LINES: Final = (".jsonl", ".ndjson", ".json")
PARQUET: Final = ".parquet"
LARGEST_ROW_BYTES: Final = 4 * 1024 * 1024
"""A key has at most a record's size, usually ``max.message.bytes``, 1 MiB."""
_MOST_NAMED: Final = 20
_ROWS: Final = 4096
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TIME: Final = "is not a time: ISO 8601 with a time zone, or ms since the epoch"
_Time = Annotated[StrictInt | StrictStr, Field(union_mode="left_to_right")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A row, or a whole file, that is not a request, or may not be the one that is meant.

    Attributes:
        file: name in the landing directory.
        line: of the row, from 1; in a Parquet file the row's number; 0 for the whole file.
        problem: what is wrong, without anything from the row.
    """

    file: str
    line: int
    problem: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{place}: {self.problem}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Landed:
    """The content of a landing directory.

    Attributes:
        requests: in the order of files and lines.
        refused: the rows that are not requests, in the same order.
        doubts: requests whose key may not be the one that is meant, and why.
    """

    requests: tuple[Request, ...]
    refused: tuple[Refusal, ...]
    doubts: tuple[Refusal, ...] = ()

    def require_all(self, directory: Path) -> tuple[Request, ...]:
        """Return the requests if no row was refused.

        Raises:
            PolicyError: a row was refused.
        """
        if self.refused:
            named = "; ".join(map(str, self.refused[:_MOST_NAMED]))
            more = len(self.refused) - _MOST_NAMED
            raise PolicyError(
                f"{len(self.refused)} rows are not erasure requests: {named}"
                + (f"; and {more} more." if more > 0 else "."),
                path=directory,
                remedy="Correct these rows.",
            )
        return self.requests


class RequestRow(BaseModel):
    """One row of a landing file, as it is written."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)
    id: StrictStr = Field(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9._:/@+-]+$")
    topics: StrictStr
    key: StrictStr | None = None
    key_base64: StrictStr | None = None
    key_decoded: StrictStr | None = None
    hmac: StrictStr | None = None
    received_at: _Time
    deadline: _Time

    @field_validator("topics")
    @classmethod
    def _are_topics(cls, topics: str) -> str:
        problem = topics_problem(topics)
        if problem is not None:
            raise PydanticCustomError("topic", problem)
        return topics

    @field_validator("key", "key_decoded")
    @classmethod
    def _is_a_key(cls, key: str | None) -> str | None:
        try:
            problem = None if key is None else refused_key(key.encode())
        except UnicodeEncodeError:
            problem = "is not text that UTF-8 has"
        if problem is not None:
            way_out = "; such a key is given as key_base64" if key else ""
            raise PydanticCustomError("key", "{problem}", {"problem": problem + way_out})
        return key

    @field_validator("key_base64")
    @classmethod
    def _is_some_key(cls, text: str | None) -> str | None:
        if text == "":
            raise PydanticCustomError("key", "is empty")
        return text

    @field_validator("received_at", "deadline")
    @classmethod
    def _is_a_time(cls, value: int | str) -> int:
        ms = time_ms(value)
        if ms is None:
            raise PydanticCustomError("time", _TIME)
        return ms

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        keys = (self.key, self.key_base64, self.key_decoded, self.hmac)
        if sum(one is not None for one in keys) != 1:
            raise PydanticCustomError(
                "key", "has not exactly one of key, key_base64, key_decoded and hmac"
            )
        if int(self.deadline) < int(self.received_at):
            raise PydanticCustomError("deadline", "has a deadline before it was received")
        text = self.key or self.key_decoded
        if text is not None and text in self.id:
            raise PydanticCustomError("id", "has the key in its id")
        return self

    def request(self, secret: Secret) -> Request:
        """Return the request, with the key's HMAC in place of the key.

        Raises:
            ValueError: the base64 or the HMAC is malformed, or the id has the key; the message has
            nothing from the row.
        """
        if self.key_decoded is not None:
            key, form = form_of_given(self.key_decoded.encode(), secret)
        elif self.hmac is None:
            key = from_base64(self.key_base64 or "") if self.key is None else self.key.encode()
            form = form_of(key, secret)
        else:
            key, form = None, Form((), ())
        digest = _from_hex(self.hmac or "") if key is None else secret.hmac(key)
        if Names.of(secret, [digest]).has_key(self.id):
            raise ValueError("id has the key in its id")
        return Request(
            id=self.id,
            topics=self.topics,
            hmac=digest,
            filter=None if key is None else secret.filter(key),
            received_at_ms=int(self.received_at),
            deadline_ms=int(self.deadline),
            decoded=self.key_decoded is not None,
            forms=form.hmacs,
            form_filters=form.filters,
        )

    @property
    def doubts(self) -> tuple[str, ...]:
        """What may not be meant in the key."""
        return () if self.key is None else doubts_about(self.key.encode())


def read_landing(directory: Path, secret: Secret) -> Landed:
    """Read all requests of a landing directory. Effects: reads its files, not those whose names
    begin with a dot or an underscore.

    Raises:
        PolicyError: the directory cannot be read.
        UnreadableFile: a file cannot be read.
        MissingExtra: Parquet needs pyarrow.
    """
    requests: list[Request] = []
    refused: list[Refusal] = []
    doubts: list[Refusal] = []
    try:
        paths = sorted(directory.iterdir())
    except OSError as error:
        raise PolicyError(
            f"the landing directory cannot be read: {error.strerror}.", path=directory
        ) from error
    for path in paths:
        if path.name.startswith((".", "_")):
            continue
        for line, row in _rows(path):
            checked = row if isinstance(row, str) else _checked(row, secret)
            if isinstance(checked, str):
                refused.append(Refusal(file=path.name, line=line, problem=checked))
                continue
            request, doubtful = checked
            requests.append(request)
            doubts += [Refusal(file=path.name, line=line, problem=f"key {one}") for one in doubtful]
    return Landed(requests=tuple(requests), refused=tuple(refused), doubts=tuple(doubts))


def _from_hex(text: str) -> bytes:
    if not re.fullmatch(rf"[0-9A-Fa-f]{{{2 * HMAC_BYTES}}}", text):
        raise ValueError(f"hmac does not have {2 * HMAC_BYTES} hexadecimal digits")
    return bytes.fromhex(text)


def _checked(row: Mapping[str, Any], secret: Secret) -> tuple[Request, tuple[str, ...]] | str:
    """Return the request of a row with the doubts about its key, or what is wrong with the row."""
    given = {name: value for name, value in row.items() if value is not None}
    if "topic" in given and "topics" not in given:
        given["topics"] = given.pop("topic")
    try:
        checked = RequestRow.model_validate(given)
        return checked.request(secret), checked.doubts
    except ValidationError as error:
        return "; ".join(sorted({_problem(one) for one in error.errors(include_input=False)}))
    except ValueError as error:  # of `request`, whose messages are fixed
        return str(error)


def _problem(error: ErrorDetails) -> str:
    """Return what is wrong with a row: the names of columns that are not known are left out, since
    a header may be missing.
    """
    kind, names = str(error["type"]), [str(one) for one in error["loc"]]
    if kind == "extra_forbidden":
        return "has a column that is not known"
    column = names[0] if names else "the row"
    if kind == "missing":
        return f"{column} is missing"
    if kind in {"topic", "time", "key", "deadline", "id"}:
        return f"{column} {error['msg']}"
    return f"{column} is not valid ({kind})"


def _rows(path: Path) -> Iterator[tuple[int, Mapping[str, Any] | str]]:
    """Yield line and row of a file, or what is wrong with the line. Effects: reads the file.

    Raises:
        UnreadableFile: it cannot be read. MissingExtra: Parquet needs pyarrow.
    """
    suffix = path.suffix.lower()
    if suffix not in (CSV, *JSON_LINES, PARQUET):
        yield 0, "is neither .csv, .jsonl nor .parquet"
        return
    if not stat.S_ISREG(path.lstat().st_mode):
        yield 0, "is not a regular file"
        return
    content = map_file(path).tobytes()
    if suffix == PARQUET:
        yield from _parquet_rows(content)
    elif suffix == CSV:
        yield from _csv_rows(content)
    else:
        yield from _json_rows(content)


def _json_rows(content: bytes) -> Iterator[tuple[int, Mapping[str, Any] | str]]:
    for number, line in enumerate(content.split(b"\n"), 1):
        if not line.strip():
            continue
        if len(line) > LARGEST_ROW_BYTES:
            yield number, "is too long"
            continue
        try:
            row = json.loads(line.decode("utf-8"), object_pairs_hook=_named_once)
        except _NamedTwice:
            yield number, "has a name twice"
            continue
        except (ValueError, RecursionError):
            yield number, "is not JSON in UTF-8"
            continue
        yield number, row if isinstance(row, dict) else "is not a JSON object"


class _NamedTwice(Exception):
    """A JSON object has a name twice: RFC 8259 does not say which of the values counts."""


def _named_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise _NamedTwice
    return fields


def _csv_rows(content: bytes) -> Iterator[tuple[int, Mapping[str, Any] | str]]:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        yield content.count(b"\n", 0, error.start) + 1, "is not UTF-8"
        return
    csv.field_size_limit(LARGEST_ROW_BYTES)
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    header: list[str] | None = None
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error:
            yield reader.line_num, "is not CSV (RFC 4180); what follows was not read"
            return
        if not row:
            continue
        if header is None:
            header = row
            if len(set(header)) < len(header):
                yield reader.line_num, "names a column twice"
                return
        elif len(row) != len(header):
            yield reader.line_num, f"has {len(row)} fields, not {len(header)} as the header"
        else:
            yield (
                reader.line_num,
                {name: value or None for name, value in zip(header, row, strict=True)},
            )


def _parquet_rows(content: bytes) -> Iterator[tuple[int, Mapping[str, Any] | str]]:
    require("tables", by="reading requests from Parquet")
    import pyarrow as pa  # noqa: PLC0415 -- an extra
    import pyarrow.parquet as pq  # noqa: PLC0415 -- an extra

    try:
        file = pq.ParquetFile(pa.BufferReader(content))
        number = 0
        for batch in file.iter_batches(batch_size=_ROWS):
            for row in batch.to_pylist():
                number += 1
                yield number, dict(_plain(name, value) for name, value in row.items())
    except (pa.ArrowException, OSError, ValueError):
        yield 0, "is not a Parquet file that can be read"


def _plain(name: str, value: object) -> tuple[str, object]:
    """Return name and value of a Parquet column as those of JSON: a key may be binary."""
    if isinstance(value, datetime):
        return name, value.isoformat()
    if isinstance(value, bytes) and name == "key":
        return "key_base64", base64.b64encode(value).decode()
    if isinstance(value, bytes) and name == "hmac":
        return name, value.hex()
    return name, value
