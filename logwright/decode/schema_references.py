"""What a schema refers to, of files that have their names."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any, Final

import fastavro
from fastavro.schema import SchemaParseException, UnknownType

from logwright.decode.json_fields import UnusableSchema

_AVRO_NAME: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)


def avro_references(text: bytes, known: Mapping[str, bytes]) -> Iterator[tuple[str, str]]:
    """Yield the types that a schema refers to and does not have, and the files that they are in:
    ``shop.Address`` in ``shop.Address.avsc``, as fastavro's repository of schemas has it.

    Args:
        text: the schema. A malformed one has nothing: who parses it says what is wrong.
        known: name → schema, of types that it may refer to; read again after each type.
    """
    tried: set[str] = set()
    while True:
        named: dict[str, Any] = {}
        try:
            for other in known.values():
                fastavro.parse_schema(json.loads(other), named_schemas=named)
            fastavro.parse_schema(json.loads(text), named_schemas=named)
        except UnknownType as unknown:
            name = str(unknown.name)
            if name in tried or _AVRO_NAME.fullmatch(name) is None:
                return
            tried.add(name)
            yield name, f"{name}.avsc"
        except (SchemaParseException, KeyError, TypeError, ValueError, AttributeError):
            return
        except RecursionError:
            return
        else:
            return


def json_references(text: bytes, _: Mapping[str, bytes]) -> Iterator[tuple[str, str]]:
    """Yield the other documents that a JSON Schema refers to: the name in ``$ref``, and the file.
    An address of the web is not a file.

    Raises:
        UnusableSchema: a name leads out of the directory.
    """
    try:
        pending: list[Any] = [json.loads(text)]
    except (ValueError, RecursionError):
        return
    while pending:
        node = pending.pop()
        if isinstance(node, dict):
            reference = node.get("$ref")
            name = reference.partition("#")[0] if isinstance(reference, str) else ""
            if name and ":" not in name:
                if not stays_inside(name):
                    raise UnusableSchema("refers to a file outside of its directory")
                yield name, name
            pending.extend(node.values())
        elif isinstance(node, list):
            pending.extend(node)


def stays_inside(name: str) -> bool:
    """Return whether a relative path cannot lead out of its directory."""
    parts = PurePosixPath(name).parts
    return bool(parts) and ".." not in parts and parts[0] != "/" and "\0" not in name
