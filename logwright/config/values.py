"""Types that parse Kafka's config values as strictly as Kafka's ConfigDef does (4.3.0).

Pydantic's own types would also accept ``1_000``, ``4.0`` for an int or ``yes`` for a boolean.
"""

from __future__ import annotations

import math
import re
from typing import Annotated, Final, Literal, get_args

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from logwright.format.codec import Compressing
from logwright.units import INT32_MAX, INT64_MAX

_BLANKS: Final = "".join(map(chr, range(ord(" ") + 1)))
"""What Kafka strips around a value (String.trim)."""

_INTEGER: Final = re.compile(r"([+-]?)0*(\d{1,40})")
_DECIMAL: Final = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?")
_HEXADECIMAL: Final = re.compile(
    r"([+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?"
)
_SEPARATOR: Final = re.compile(r"[ \t\n\x0b\f\r]*,[ \t\n\x0b\f\r]*")
_LAST_CHARACTER: Final = "\uffff"
_REPLICA: Final = re.compile(r"(?:[0-9]+:[0-9]+)?")

_LONGEST_TOPIC_NAME: Final = 249
_TOPIC_NAME: Final = re.compile(rf"[a-zA-Z0-9._-]{{1,{_LONGEST_TOPIC_NAME}}}")

CONTRADICTION: Final = "contradiction"
"""Type of pydantic's errors of `contradiction`."""

_MESSAGES: Final = {
    "missing": "is required",
    "tuple_type": "must be a list",
    "string_type": "must be text",
    "mapping_type": "must be a mapping",
    "dict_type": "must be a mapping",
    "model_type": "must be a mapping",
    "model_attributes_type": "must be a mapping",
}
_SHOWN_LENGTH: Final = 100
_MOST_PROBLEMS: Final = 3
_LONGEST_PLACE: Final = 100

CleanupPolicy = Literal["compact", "delete"]


def _integer(value: object) -> object:
    """Parse a whole number as Integer.parseInt does: in digits of any script, but for those that
    Java has as two characters.
    """
    if isinstance(value, bool):
        # Pydantic collects only ValueErrors.
        raise ValueError("not a whole number")  # noqa: TRY004
    if isinstance(value, str):
        matched = _INTEGER.fullmatch(value.strip(_BLANKS))
        if matched is None or max(matched[2]) > _LAST_CHARACTER:
            raise ValueError("not a whole number")
        return int(matched[1] + matched[2])
    return value


def _decimal(value: object) -> object:
    """Parse a finite number as Double.parseDouble does."""
    if isinstance(value, str):
        text = value.strip(_BLANKS)
        if matched := _DECIMAL.fullmatch(text):
            return float(matched[1])
        if matched := _HEXADECIMAL.fullmatch(text):
            return _from_hexadecimal(matched[1])
        raise ValueError("not a number")
    return value


def _from_hexadecimal(text: str) -> float:
    try:
        return float.fromhex(text)
    except OverflowError:
        return math.copysign(math.inf, -1 if text.startswith("-") else 1)


def _boolean(value: object) -> object:
    """Parse ``true`` or ``false``, in any case."""
    if isinstance(value, str):
        word = value.strip(_BLANKS).casefold()
        if word not in {"true", "false"}:
            raise ValueError("not true or false")
        return word == "true"
    return value


def _stripped(value: object) -> object:
    return value.strip(_BLANKS) if isinstance(value, str) else value


def is_topic_name(name: str) -> bool:
    """Return whether a topic may have this name (Topic.validate)."""
    return _TOPIC_NAME.fullmatch(name) is not None and name not in {".", ".."}


def _topic_name(name: str) -> str:
    if not is_topic_name(name):
        raise ValueError(
            f"must be 1 to {_LONGEST_TOPIC_NAME} letters, digits, '.', '_' and '-', but not '.' or"
            " '..'"
        )
    return name


def _items(value: object) -> object:
    """Split a comma-separated list like Kafka: strip blanks around items; "" is the empty list."""
    if isinstance(value, str):
        text = value.strip(_BLANKS)
        return tuple(_SEPARATOR.split(text)) if text else ()
    return value


def _replicas(value: object) -> object:
    """Parse pairs of numbers, or ``*`` for all (ThrottledReplicaListValidator)."""
    items = _items(value)
    if isinstance(items, tuple):
        texts = [str(item).strip(_BLANKS) for item in items]
        if "".join(texts) != "*" and not all(map(_REPLICA.fullmatch, texts)):
            raise ValueError("must be *, or PARTITION:BROKER pairs separated by commas")
    return items


def _no_duplicates(items: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(items)) != len(items):
        raise ValueError("duplicate item")
    return items


def _known_policies(value: object) -> object:
    items = _items(value)
    if isinstance(items, (tuple, list)):
        for item in items:
            if item == "dedupe":
                raise ValueError("dedupe is an old name, Kafka 4.3 calls it compact")
            if item not in CLEANUP_POLICIES:
                raise ValueError("must be compact, delete, both separated by a comma, or empty")
        return tuple(dict.fromkeys(items))
    return items


CLEANUP_POLICIES: Final = get_args(CleanupPolicy)

Int32 = Annotated[int, BeforeValidator(_integer), Field(ge=-INT32_MAX - 1, le=INT32_MAX)]
"""Kafka's INT."""

Int64 = Annotated[int, BeforeValidator(_integer), Field(ge=-INT64_MAX - 1, le=INT64_MAX)]
"""Kafka's LONG."""

Double = Annotated[float, BeforeValidator(_decimal), Field(allow_inf_nan=False)]
"""Kafka's DOUBLE, finite."""

Boolean = Annotated[bool, BeforeValidator(_boolean)]
"""Kafka's BOOLEAN."""

CompressionType = Annotated[
    Literal["uncompressed", Compressing, "producer"], BeforeValidator(_stripped)
]
TimestampType = Annotated[Literal["CreateTime", "LogAppendTime"], BeforeValidator(_stripped)]

Text = Annotated[str, Field(max_length=65_536)]
"""Kafka's STRING."""

TextList = Annotated[tuple[str, ...], BeforeValidator(_items), AfterValidator(_no_duplicates)]
"""Kafka's LIST without duplicates (KIP-1161)."""

PolicyList = Annotated[tuple[CleanupPolicy, ...], BeforeValidator(_known_policies)]
"""Values of ``cleanup.policy`` (KIP-71; empty, and duplicates dropped: KIP-1161)."""

ReplicaList = Annotated[tuple[str, ...], BeforeValidator(_replicas)]
"""Values of ``leader.replication.throttled.replicas`` and the follower's (KIP-73)."""


TopicName = Annotated[str, AfterValidator(_topic_name)]
"""A name that Kafka accepts for a topic (Topic.validate)."""


def contradiction(rule: str, *names: str) -> PydanticCustomError:
    """Return the error of a rule that no single field has.

    Args:
        rule: what is wrong, with names and values.
        names: Kafka's names of the settings concerned, the first one to blame first.
    """
    return PydanticCustomError(CONTRADICTION, "{rule}", {"rule": rule, "names": names})


def findings(error: ValidationError) -> tuple[str, ...]:
    """Return one sentence for each of pydantic's errors, with the config's name and value."""
    sentences = []
    for details in error.errors(include_url=False):
        message = plain_message(details)
        if not details["loc"]:
            sentences.append(message)
            continue
        value = str(details["input"])
        shown = value if len(value) <= _SHOWN_LENGTH else f"{value[:_SHOWN_LENGTH]}…"
        sentences.append(f"{details['loc'][0]}={shown} is invalid: {message}")
    return tuple(sentences)


def plain_message(details: ErrorDetails) -> str:
    """Return the rule that one of pydantic's errors says is broken, without pydantic's terms."""
    known = _MESSAGES.get(details["type"])
    if known is not None:
        return known
    message = details["msg"].removeprefix("Value error, ")
    return re.sub("^(?:Input|Value|String) should ", "must ", message)


def problems(error: ValidationError) -> str:
    """Return where a file is not of its form, and why; none of its values."""
    errors = error.errors(include_url=False, include_input=False, include_context=False)
    return "; ".join(
        f"{_place(details['loc'])} {details['msg']}".strip() for details in errors[:_MOST_PROBLEMS]
    )


def _place(parts: tuple[int | str, ...]) -> str:
    place = ".".join(map(str, parts))[:_LONGEST_PLACE]
    return "".join(one if one.isprintable() else "?" for one in place)
