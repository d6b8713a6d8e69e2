"""Where the schemas of a registry are: a directory of files, or a registry's address."""

from __future__ import annotations

import json
import os
import re
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import quote

import requests
from requests.adapters import HTTPAdapter
from urllib3.util.retry import Retry

from logwright.decode.json_fields import UnusableSchema
from logwright.decode.model import SchemaUnavailable
from logwright.decode.protoc import marked
from logwright.decode.schema_references import avro_references, json_references, stays_inside

MAX_SCHEMA_BYTES: Final = 4 << 20
_MOST_REFERENCES: Final = 100
_TIMEOUTS: Final = (5.0, 30.0)
"""Seconds to connect, and between two parts of an answer."""

_RETRIES: Final = 3
_NOT_FOUND: Final = 404
_CHUNK: Final = 65_536
_ACCEPTED: Final = "application/vnd.schemaregistry.v1+json, application/json"
_FILE: Final = re.compile(r"(\d{1,10})\.(avsc|proto|json)", re.ASCII)
_TYPES: Final = MappingProxyType({"avsc": "AVRO", "proto": "PROTOBUF", "json": "JSON"})


class SchemaText(NamedTuple):
    """A schema with what it refers to.

    Attributes:
        kind: AVRO, PROTOBUF or JSON, as registries name them.
        text: of the schema.
        references: name → the schema that it is, those it needs first.
        directory: of imports; None if only the references are imported.
    """

    kind: str
    text: bytes
    references: Mapping[str, bytes]
    directory: Path | None = None


class SchemaSource(Protocol):
    """A source of schemas."""

    def get(self, schema_id: int) -> SchemaText | None:
        """Return a schema, None if there is none of this id.

        Raises:
            SchemaUnavailable: the source cannot be read.
            UnusableSchema: it is too large or malformed.
        """

    def get_guid(self, guid: str) -> SchemaText | None:
        """Return the schema of a GUID, as `get`."""


class SchemaDirectory:
    """A directory with a file for each id, such as ``7.avsc``, and files that these refer to:
    a type of Avro ``shop.Address`` is in ``shop.Address.avsc``, a document of JSON Schema and an
    import of Protobuf are files of the name that they are referred to by.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        try:
            names = sorted(path.name for path in directory.iterdir())
        except OSError as error:
            raise SchemaUnavailable(f"cannot be read: {error.strerror}.", path=directory) from error
        matches = [match for name in names if (match := _FILE.fullmatch(name))]
        self._files = {int(match[1]): match[0] for match in matches}

    def get(self, schema_id: int) -> SchemaText | None:
        """Return a schema. Effects: reads its file, and those that it refers to."""
        name = self._files.get(schema_id)
        if name is None:
            return None
        text = read_schema_file(self._directory / name)
        kind = _TYPES[name.rpartition(".")[2]]
        references: dict[str, bytes] = {}
        if kind != "PROTOBUF":  # protoc finds imports itself
            find = avro_references if kind == "AVRO" else json_references
            self._add_references(find, text, references, ())
        return SchemaText(kind, text, references, self._directory)

    def get_guid(self, guid: str) -> SchemaText | None:  # noqa: ARG002 - as a registry's
        """Return None: files have ids."""
        return None

    def _add_references(
        self,
        find: Callable[[bytes, Mapping[str, bytes]], Iterable[tuple[str, str]]],
        text: bytes,
        references: dict[str, bytes],
        path: tuple[str, ...],
    ) -> None:
        """Add what a schema refers to, the deepest first. `path`: the names that lead to it."""
        for name, file in find(text, references):
            if name in references or name in path:
                continue
            if len(references) + len(path) >= _MOST_REFERENCES:
                raise UnusableSchema(f"has more than {_MOST_REFERENCES} references")
            place = self._directory / file
            if not place.exists():
                raise UnusableSchema(f"refers to {file}, which its directory does not have")
            inner = read_schema_file(place)
            self._add_references(find, inner, references, (*path, name))
            references[name] = inner


def read_schema_file(path: Path) -> bytes:
    """Return a schema file's content. Effects: reads it.

    Raises:
        SchemaUnavailable: it cannot be read, is not a regular file, or is too large.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise SchemaUnavailable("is not a regular file.", path=path)
            content = file.read(MAX_SCHEMA_BYTES + 1)
    except OSError as error:
        raise SchemaUnavailable(f"cannot be read: {error.strerror}.", path=path) from error
    if len(content) > MAX_SCHEMA_BYTES:
        raise SchemaUnavailable(f"is larger than {MAX_SCHEMA_BYTES} bytes.", path=path)
    return content


class SchemaRegistry:
    """A registry with Confluent's REST interface. Credentials come from ``~/.netrc``."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._session = requests.Session()
        retries = Retry(
            total=_RETRIES,
            backoff_factor=0.2,
            status_forcelist=(429, 500, 502, 503, 504),
            raise_on_status=False,
            redirect=0,
        )
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, HTTPAdapter(max_retries=retries))

    def get(self, schema_id: int) -> SchemaText | None:
        """Return a schema. Effects: asks the registry."""
        return self._schema(f"/schemas/ids/{schema_id}")

    def get_guid(self, guid: str) -> SchemaText | None:
        """Return the schema of a GUID. Effects: asks the registry."""
        return self._schema(f"/schemas/guids/{guid}")

    def _schema(self, path: str) -> SchemaText | None:
        answer = self._ask(path)
        if answer is None:
            return None
        references: dict[str, bytes] = {}
        self._add_references(answer, references, {})
        kind = answer.get("schemaType", "AVRO")
        return SchemaText(str(kind), _text(answer), references)

    def _add_references(
        self,
        answer: Mapping[str, Any],
        schemas: dict[str, bytes],
        seen: dict[tuple[str, int], bytes | None],
    ) -> None:
        """Add what a schema refers to, the deepest first.

        Args:
            schemas: name → text, of those that were added.
            seen: subject and version → text; None: what it refers to is being added.
        """
        references = answer.get("references", [])
        if not isinstance(references, list):
            raise UnusableSchema("has malformed references")
        for reference in references:
            (name, subject, version) = _reference(reference)
            if (subject, version) not in seen:
                seen[subject, version] = None
                if len(seen) > _MOST_REFERENCES:
                    raise UnusableSchema(f"has more than {_MOST_REFERENCES} references")
                # A version that was deleted softly is still what other schemas refer to.
                place = f"/subjects/{quote(subject, safe='')}/versions/{version}"
                inner = self._ask(f"{place}?deleted=true")
                if inner is None:
                    raise UnusableSchema("refers to a schema that the registry does not have")
                self._add_references(inner, schemas, seen)
                seen[subject, version] = _text(inner)
            text = seen[subject, version]
            if text is None:
                raise UnusableSchema("refers to itself")
            if schemas.setdefault(name, text) != text:
                raise UnusableSchema("refers to two schemas by one name")

    def _ask(self, path: str) -> dict[str, Any] | None:
        """Return the registry's answer, None if it has nothing there."""
        try:
            with self._session.get(
                f"{self._url}{path}",
                headers={"Accept": _ACCEPTED},
                timeout=_TIMEOUTS,
                stream=True,
                allow_redirects=False,
            ) as response:
                if response.status_code == _NOT_FOUND:
                    return None
                if response.status_code != requests.codes.ok:
                    raise self._unavailable(f"answers with status {response.status_code}")
                content = bytearray()
                for chunk in response.iter_content(_CHUNK):
                    content += chunk
                    if len(content) > MAX_SCHEMA_BYTES:
                        raise self._unavailable(f"answers with more than {MAX_SCHEMA_BYTES} bytes")
            answer = json.loads(content)
        except requests.RequestException as error:
            raise self._unavailable(f"does not answer: {type(error).__name__}") from None
        except (ValueError, RecursionError):
            raise self._unavailable("does not answer with JSON") from None
        if not isinstance(answer, dict):
            raise self._unavailable("does not answer with a JSON object")
        return answer

    def _unavailable(self, problem: str) -> SchemaUnavailable:
        return SchemaUnavailable(
            f"The schema registry {self._url} {problem}.",
            remedy="Nothing was decoded. Repeat when it does.",
        )


def _text(answer: Mapping[str, Any]) -> bytes:
    schema = answer.get("schema")
    if not isinstance(schema, str):
        raise UnusableSchema("has no text")
    return schema.encode(errors="replace")


def _reference(reference: object) -> tuple[str, str, int]:
    if isinstance(reference, dict):
        name, subject, version = (
            reference.get("name"),
            reference.get("subject"),
            reference.get("version"),
        )
        if isinstance(name, str) and isinstance(subject, str) and type(version) is int:
            return name, subject, version
    raise UnusableSchema("has malformed references")


@contextmanager
def as_files(schema: SchemaText) -> Iterator[Path]:
    """Have a schema as a file next to what it refers to. Effects: writes to a temporary directory,
    which is removed after it.

    Raises:
        UnusableSchema: the name of a reference leads out of the directory.
    """
    with tempfile.TemporaryDirectory(prefix="logwright-schema-") as directory:
        top = Path(directory)
        for name, text in schema.references.items():
            if not stays_inside(name):
                raise UnusableSchema("refers to a file outside of its directory")
            (top / name).parent.mkdir(parents=True, exist_ok=True)
            (top / name).write_bytes(marked(text))
        path = top / "logwright-schema.proto"
        path.write_bytes(marked(schema.text))
        yield path
