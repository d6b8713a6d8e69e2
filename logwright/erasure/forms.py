"""The forms of a key: other bytes that are the same key. Pure.

A person's key changes its bytes when its schema gets another id, when a program writes JSON with
other spaces or another order of fields, when Connect's JsonConverter writes it with quotes or with
its schema, and when Kafka Streams adds a window. A *reading* is what such bytes have in common:

================================================  =================================================
bytes                                             reading
================================================  =================================================
0, an id of 4 bytes, a payload (the wire format   that of the payload; if it is exactly a string of
of a schema registry)                             Avro, its text
a JSON object or list                             its JSON, names sorted, without spaces, numbers as
                                                  texts of the digits as they are written
a JSON string                                     its text
JSON with the schema of Kafka Connect             that of its payload
a key and a window of Kafka Streams: 8 bytes      that of the key, besides its own
(start), 12 (start, number) or 16 (end, start)
anything else                                     the bytes
================================================  =================================================

A key can have several readings; two keys with a reading in common are forms of one. What needs a
schema (Avro records, messages of Protobuf) is not read here: see
`logwright.erasure.decoded`.

Sources: Confluent's wire format; ``JsonConverter`` and ``JsonConverterConfig`` of Connect;
``TimeWindowedSerializer``, ``WindowKeySchema`` and ``SessionKeySchema`` of Kafka Streams (4.3.0).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final, NoReturn

FRAME_BYTES: Final = 5
"""The magic byte and the id."""
WINDOW_BYTES: Final = 8
STORE_WINDOW_BYTES: Final = 12
SESSION_BYTES: Final = 16
LATEST_TIME: Final = 1 << 43
"""Of a window, exclusive, in ms since the epoch: in the year 2248."""
_LONG_BYTES: Final = 8
_HIGHEST_ID: Final = 10_000_000
_JSON: Final = (b"{", b"[", b'"')
_BLANKS: Final = b" \t\r\n"
_ENVELOPE: Final = {"schema", "payload"}
_MOST_LENGTH_BYTES: Final = 5


def readings(key: bytes) -> frozenset[bytes]:
    """Return the readings of a key, at least one."""
    return frozenset(reading for base in _bases(key) for reading in _readings_of(base))


def json_reading(value: Any) -> bytes:  # noqa: ANN401 -- a parsed value has any type
    """Return the reading of a parsed JSON value whose numbers are texts."""
    if type(value) is dict and value.keys() == _ENVELOPE:
        value = value["payload"]
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    text = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return text.encode("utf-8", "surrogatepass")


def legible_readings(keys: Sequence[bytes]) -> list[bytes | None]:
    """Return a reading of each key that is a text, None of one that is none, as a number or a
    record: without its schema nobody can say whether it is a requested key.
    """
    return [next(filter(_is_text, readings(key)), None) for key in keys]


def _is_text(reading: bytes) -> bool:
    try:
        text = reading.decode()
    except UnicodeDecodeError:
        return False
    return text.isprintable()


def given_reading(text: bytes) -> bytes:
    """Return the reading of a decoded key as it is given: JSON, or text."""
    return _parsed(text)


def looks_like_json(content: bytes) -> bool:
    """Return whether JSON that is not a number, true, false or null may be in this."""
    return content.lstrip(_BLANKS).startswith(_JSON)


def is_framed(key: bytes) -> bool:
    """Return whether a key may be in the wire format of a schema registry. One of 8 bytes is taken
    for a number, unless a text of Avro or JSON follows the id.
    """
    if len(key) <= FRAME_BYTES or key[0] != 0:
        return False
    if not 0 < int.from_bytes(key[1:FRAME_BYTES], "big") < _HIGHEST_ID:
        return False
    payload = key[FRAME_BYTES:]
    return len(key) != _LONG_BYTES or _avro_text(payload) is not None or payload[:1] in _JSON


def _bases(key: bytes) -> Iterator[bytes]:
    """Yield a key, and what it is if its end is a window."""
    yield key
    if len(key) > WINDOW_BYTES and _is_time(key[-WINDOW_BYTES:]):
        yield key[:-WINDOW_BYTES]
        is_session = len(key) > SESSION_BYTES and _is_time(key[-SESSION_BYTES:-WINDOW_BYTES])
        if is_session:
            yield key[:-SESSION_BYTES]
    in_store = len(key) > STORE_WINDOW_BYTES and key[-4] == 0
    if in_store and _is_time(key[-STORE_WINDOW_BYTES:-4]):
        yield key[:-STORE_WINDOW_BYTES]


def _is_time(field: bytes) -> bool:
    return int.from_bytes(field, "big") < LATEST_TIME


def _readings_of(key: bytes) -> Iterator[bytes]:
    yield _parsed(key)
    if is_framed(key):
        payload = key[FRAME_BYTES:]
        text = _avro_text(payload)
        yield _parsed(payload) if text is None else text


def _avro_text(payload: bytes) -> bytes | None:
    """Return the text of a payload that is exactly a string of Avro, else None."""
    length, shift = 0, 0
    for at, byte in enumerate(payload[:_MOST_LENGTH_BYTES], 1):
        length |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:  # noqa: PLR2004 -- the last byte of a varint
            return payload[at:] if length == 2 * (len(payload) - at) else None
    return None


def _parsed(content: bytes) -> bytes:
    """Return the reading of JSON; anything else as it is."""
    if not looks_like_json(content):
        return content
    try:
        value = json.loads(content.decode(), parse_int=str, parse_float=str, parse_constant=_refuse)
        return json_reading(value)
    except (ValueError, RecursionError):
        return content


def _refuse(text: str) -> NoReturn:
    raise ValueError(f"a constant of {len(text)} characters is not JSON")
