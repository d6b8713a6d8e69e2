"""What a topic went through, as plain data: its schemas, its records, its table's updates."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final, Literal, NamedTuple

Part = Literal["key", "value"]
MODES: Final = (
    "BACKWARD",
    "BACKWARD_TRANSITIVE",
    "FORWARD",
    "FORWARD_TRANSITIVE",
    "FULL",
    "FULL_TRANSITIVE",
    "NONE",
)
"""Of compatibility, as Confluent's schema registry names them."""


class Choice(NamedTuple):
    """A value of a union of Avro: which of its types, and a value of that."""

    index: int
    value: Any


@dataclass(frozen=True, slots=True)
class Version:
    """A schema of a subject.

    Attributes:
        number: its id in the registry.
        file: its name in the directory of schemas.
        text: of the file.
        changes: what it has that the version before it does not have, in words.
    """

    number: int
    file: str
    text: str
    changes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Sent:
    """A key or a value.

    Attributes:
        number: the id of its schema.
        content: its bytes, in the registry's wire format.
        datum: what they are of: for Avro with a `Choice` for each union.
    """

    number: int
    content: bytes
    datum: Any


@dataclass(frozen=True, slots=True)
class Entry:
    """A record. `key`: a text that is sent as it is, or one of a schema."""

    partition: int
    key: Sent | str
    value: Sent | None

    @property
    def raw_key(self) -> bytes:
        """The bytes of the key."""
        return self.key.encode() if isinstance(self.key, str) else self.key.content


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """Everything.

    Attributes:
        kind: of its schemas: AVRO, PROTOBUF or JSON.
        mode: the registry's, which the changes keep to.
        keys, values: versions of the schemas, in the order of their ids.
        more: other files of the directory of schemas, by name.
        entries: in the order in which they are sent.
        cuts: how many of the entries the log has at each update; the last one has all.
        form: the format of the table.
        schema_changes: which columns the table takes by itself, as its setting has it.
    """

    seed: int
    kind: str
    mode: str
    keys: tuple[Version, ...]
    values: tuple[Version, ...]
    entries: tuple[Entry, ...]
    cuts: tuple[int, ...]
    form: str = "parquet"
    schema_changes: str = "grow"
    more: Mapping[str, str] = field(default_factory=dict)

    def files(self) -> dict[str, str]:
        """The directory of schemas."""
        return dict(self.more) | {each.file: each.text for each in (*self.keys, *self.values)}

    def changes(self, first: int, second: int) -> tuple[str, ...]:
        """What differs between the versions of two ids, without repetitions."""
        (low, high) = sorted((first, second))
        names = [
            name
            for each in (*self.keys, *self.values)
            if low < each.number <= high
            for name in each.changes
        ]
        return tuple(dict.fromkeys(names))


@dataclass(frozen=True, slots=True)
class Expected:
    """What a part of a record may become.

    Attributes:
        values: all that it may be in the table: canonical columns, or one value.
        refusals: for what reasons it may be refused; none: it must not be.
    """

    values: tuple[Any, ...] = ()
    refusals: tuple[str, ...] = ()


class MustRefuse(Exception):
    """The official decoder raises, or the columns cannot have the value."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        super().__init__(kind)


def framed(number: int, datum: bytes, indexes: bytes = b"") -> bytes:
    """A datum in the registry's wire format."""
    return b"\0" + struct.pack(">i", number) + indexes + datum


def canonical(value: Any) -> Any:
    """A value that is equal to another one only if both are the same, down to the type and to the
    sign of zero.
    """
    if isinstance(value, float):
        return f"float {value!r}"
    if isinstance(value, bool):
        return f"boolean {value}"
    if isinstance(value, Decimal):
        return f"decimal {value}"
    if isinstance(value, dict):
        return {str(name): canonical(value[name]) for name in sorted(value, key=str)}
    if isinstance(value, list | tuple):
        return [canonical(each) for each in value]
    return value
