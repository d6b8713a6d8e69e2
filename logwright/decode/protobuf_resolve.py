"""What a message loses when it is parsed by another type than it was written with.

Protobuf knows a field by its number. Google's parser reads a message by any type: a field of a type
that the bytes cannot be is ignored, a number is cut to the bits of its type, of several values
for a single field or for the fields of a oneof the last one counts. All that is found here by
parsing the message by both types and comparing the fields whose types differ. Fields that the type
of the columns does not have are ignored, as Protobuf has it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from google.protobuf import message_factory
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message

from logwright.decode.refusal import Refused

_MESSAGE: Final = FieldDescriptor.CPPTYPE_MESSAGE

Check = Callable[[Any, Any], str | None]
"""(message as written, as parsed for the columns) → the first field that is not the same."""


def same_of(written: Any, columns: Any) -> Callable[[bytes, Any], None] | None:
    """Return what requires that a message has lost nothing; None if none can lose anything.

    Args:
        written: descriptor of the type that messages were written with.
        columns: descriptor of the type of the columns.

    Returns:
        a function of the content of a message, and of the message as it was parsed by the type of
        the columns; it raises Refused.
    """
    check = _Pairs().message(written, columns, ())
    if check is None:
        return None
    parse = message_factory.GetMessageClass(written).FromString

    def require_same(content: bytes, parsed: Any) -> None:
        try:
            path = check(parse(content), parsed)
        except DecodeError:
            raise Refused(f"is not a message {written.full_name}") from None
        if path is not None:
            raise Refused(f"has a value in field {path} that does not fit the columns")

    return require_same


class _Pairs:
    """Compares types; each pair once."""

    def __init__(self) -> None:
        self._same: set[tuple[str, str]] = set()

    def message(self, written: Any, columns: Any, inside: tuple[Any, ...]) -> Check | None:
        """Return the check of two message types, None if there is nothing to check. `inside`: the
        pairs that they are in.
        """
        pair = (written.full_name, columns.full_name)
        if pair in self._same or pair in inside:
            return None
        checks: list[tuple[str, Check]] = []
        known = {field.number: field for field in columns.fields}
        for field in written.fields:
            other = known.get(field.number)
            check = None if other is None else self._field(field, other, (*inside, pair))
            if other is not None and check is not None:
                checks.append((other.name, check))
        if not checks:
            self._same.add(pair)
            return None
        return _all_of(checks)

    def _field(self, written: Any, columns: Any, inside: tuple[Any, ...]) -> Check | None:
        """Return the check of two fields of the same number, None if there is nothing to check."""
        compare = self._values(written, columns, inside)
        are_messages = written.cpp_type == columns.cpp_type == _MESSAGE
        is_unordered = are_messages and _is_map(written) != _is_map(columns)
        if compare is None and _form(written) == _form(columns) and not is_unordered:
            return None
        inner = compare or _equal
        is_implicit = not is_repeated(written) and not written.has_presence

        def check(message: Any, parsed: Any) -> str | None:
            values = _values(message, written)
            if not values or (is_implicit and not values[0]):  # then it is not in the bytes
                return None
            others = _values(parsed, columns)
            if len(values) != len(others):
                return ""
            if is_unordered:  # messages that are read as entries of a map, or the reverse
                values, others = _by_key(values, written), _by_key(others, columns)
            pairs = zip(values, others, strict=True)
            return next((path for one in pairs if (path := inner(*one)) is not None), None)

        return check

    def _values(self, written: Any, columns: Any, inside: tuple[Any, ...]) -> Check | None:
        """Return the check of two values."""
        if _is_map(written) != _is_map(columns) and _form(written) != _form(columns):
            return _never
        if written.cpp_type == columns.cpp_type == _MESSAGE:
            return self.message(written.message_type, columns.message_type, inside)
        if written.type != columns.type:
            return _equal
        is_closed = written.enum_type is not None and columns.enum_type.is_closed
        return _equal if is_closed and _numbers(written) - _numbers(columns) else None


def is_repeated(field: Any) -> bool:
    """Return whether a field has several values. Older versions of the library have its label."""
    known = getattr(field, "is_repeated", None)
    return bool(field.label == FieldDescriptor.LABEL_REPEATED if known is None else known)


def _is_map(field: Any) -> bool:
    entry = field.message_type
    return bool(entry is not None and entry.GetOptions().map_entry)


def _never(_written: Any, _parsed: Any) -> str:
    """Return that two values differ: a message is not an entry of a map."""
    return ""


def _numbers(field: Any) -> set[int]:
    return {value.number for value in field.enum_type.values}


def _form(field: Any) -> tuple[bool, frozenset[int]]:
    """Return whether a field has several values, and which fields cannot be set with it."""
    oneof = field.containing_oneof
    others = frozenset() if oneof is None else frozenset(each.number for each in oneof.fields)
    return is_repeated(field), others


def _all_of(checks: list[tuple[str, Check]]) -> Check:
    def check(message: Any, parsed: Any) -> str | None:
        for name, compare in checks:
            inner = compare(message, parsed)
            if inner is not None:
                return f"{name}.{inner}" if inner else name
        return None

    return check


class _Entry(NamedTuple):
    """An entry of a map, as the message that it is in the bytes."""

    key: Any
    value: Any

    def HasField(self, _name: str) -> bool:  # noqa: N802 - as a message has it
        return True


def _values(message: Any, field: Any) -> list[Any]:
    """Return the values of a field; without presence also its default."""
    value = getattr(message, field.name)
    if not is_repeated(field):
        return [value] if not field.has_presence or message.HasField(field.name) else []
    if _is_map(field):
        return [_Entry(key, value[key]) for key in sorted(value)]
    return list(value)


def _by_key(entries: list[Any], field: Any) -> list[Any]:
    """Return entries of a map, or what is read as such, in the order of their keys."""
    key = field.message_type.fields_by_number.get(1)
    if key is None or is_repeated(key) or key.message_type is not None:
        return entries
    return sorted(entries, key=lambda each: getattr(each, key.name))


def _equal(written: Any, parsed: Any) -> str | None:
    """Return where two values differ: nowhere, or here."""
    if isinstance(written, Message | _Entry) and isinstance(parsed, Message | _Entry):
        return None  # their fields are the same, or have checks
    if isinstance(written, Message) or isinstance(parsed, Message):
        return None if isinstance(written, bytes) or isinstance(parsed, bytes) else ""
    if isinstance(written, str) != isinstance(parsed, str):
        written = written.encode() if isinstance(written, str) else written
        parsed = parsed.encode() if isinstance(parsed, str) else parsed
    return None if written == parsed else ""
