"""The quorum's control records: voters, kraft.version, and the frame of a snapshot.

Source: VotersRecord, KRaftVersionRecord, SnapshotHeaderRecord and SnapshotFooterRecord, all of
version 0 and flexible (Kafka 4.4.0).
"""

from __future__ import annotations

import base64
import struct
from typing import Any, Final

from logwright.errors import CorruptBatch
from logwright.format.messages import Field, MalformedMessage, Message, read_message
from logwright.quorum.model import Endpoint, Voter
from logwright.units import TimestampMs

VERSION: Final = 0
"""Of all of these records."""
_NO_TAGS: Final = b"\x00"
_VERSION_FIELD: Final = Field("version", "int16")
_RANGE: Final = (Field("min", "int16"), Field("max", "int16"))
_VOTERS: Final = Message(
    (
        _VERSION_FIELD,
        Field(
            "voters",
            "[]struct",
            (
                Field("id", "int32"),
                Field("directory", "uuid"),
                Field(
                    "endpoints",
                    "[]struct",
                    (Field("name", "string"), Field("host", "string"), Field("port", "uint16")),
                ),
                Field("range", "struct", _RANGE),
            ),
        ),
    ),
    flexible_since=0,
)
_KRAFT_VERSION: Final = Message((_VERSION_FIELD, Field("kraftVersion", "int16")), flexible_since=0)


def parse_voters(value: bytes | None) -> tuple[Voter, ...]:
    """Parse the value of a KRAFT_VOTERS record.

    Raises:
        CorruptBatch: it is malformed.
    """
    return tuple(
        Voter(
            node_id=voter["id"],
            directory_id=voter["directory"],
            endpoints=tuple(
                Endpoint(each["name"], each["host"], each["port"]) for each in voter["endpoints"]
            ),
            min_version=voter["range"]["min"],
            max_version=voter["range"]["max"],
        )
        for voter in _read(_VOTERS, value)["voters"]
    )


def parse_kraft_version(value: bytes | None) -> int:
    """Parse the value of a KRAFT_VERSION record.

    Raises:
        CorruptBatch: it is malformed.
    """
    level: int = _read(_KRAFT_VERSION, value)["kraftVersion"]
    return level


def _read(message: Message, value: bytes | None) -> dict[str, Any]:
    try:
        return read_message(message, value or b"", 0, VERSION)
    except MalformedMessage as error:
        raise CorruptBatch(f"a control record {error.reason}.") from error


def serialize_voters(voters: tuple[Voter, ...]) -> bytes:
    """Return the value of a KRAFT_VOTERS record."""
    content = struct.pack(">h", VERSION) + varint(len(voters) + 1)
    for voter in voters:
        content += struct.pack(">i", voter.node_id)
        content += base64.urlsafe_b64decode(f"{voter.directory_id}==")
        content += varint(len(voter.endpoints) + 1)
        for endpoint in voter.endpoints:
            content += _string(endpoint.name) + _string(endpoint.host)
            content += struct.pack(">H", endpoint.port) + _NO_TAGS
        content += struct.pack(">hh", voter.min_version, voter.max_version) + _NO_TAGS
        content += _NO_TAGS
    return content + _NO_TAGS


def serialize_kraft_version(level: int) -> bytes:
    """Return the value of a KRAFT_VERSION record."""
    return struct.pack(">hh", VERSION, level) + _NO_TAGS


def serialize_header(timestamp_ms: TimestampMs) -> bytes:
    """Return the value of a SNAPSHOT_HEADER record.

    Args:
        timestamp_ms: of the last record of the log that the snapshot has the state of.
    """
    return struct.pack(">hq", VERSION, timestamp_ms) + _NO_TAGS


def serialize_footer() -> bytes:
    """Return the value of a SNAPSHOT_FOOTER record."""
    return struct.pack(">h", VERSION) + _NO_TAGS


def _string(text: str) -> bytes:
    content = text.encode()
    return varint(len(content) + 1) + content


def varint(value: int) -> bytes:
    """Return an unsigned varint."""
    encoded = bytearray()
    while value >= 0x80:  # noqa: PLR2004 -- seven bits a byte
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])
