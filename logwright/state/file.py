"""The state file, ``<log dir>/.logwright-state.json``: bytes and values.

::

    {"version":1,"partitions":{"t-0":{
      "pauses":[{"owner":"ops","reason":"...","sinceMs":1,"expiresAtMs":null}],
      "quarantine":{"cause":"CorruptBatch","problem":"...","file":"...log","position":61,
                    "sinceMs":1,"retryAtMs":2,"failures":1,"topicId":"<22 of base64>"},
      "move":{"id":"<32 hex>","destination":"/...","sinceMs":1}}}}

It lies in the root, not in the partitions: one read tells of all of them at each tick of a sensor,
and a partition keeps its pause while its directory has another name (`logwright.move`). A broker
ignores a plain file there.

What is read is not trusted. A file that is not of this form is refused as a whole: to pass over a
line could mean to clean what is paused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final, TypeVar

from logwright.errors import UnreadableFile
from logwright.format.names import TopicPartition
from logwright.state.model import (
    LARGEST_TEXT,
    NOTHING,
    LogDirState,
    OpenMove,
    PartitionState,
    Pause,
    Quarantine,
)
from logwright.units import INT64_MAX, TimestampMs

STATE_FILE: Final = ".logwright-state.json"
VERSION: Final = 1
LARGEST_STATE_BYTES: Final = 1 << 26
LARGEST_PATH: Final = 4_096

_MOVE_ID: Final = re.compile(r"[0-9a-f]{32}")
_V = TypeVar("_V", str, int)
Fields = Mapping[str, object]


class _MalformedError(Exception):
    """What is wrong, where."""


def serialize_state(state: LogDirState) -> bytes:
    """The file of these states; partitions of which nothing is remembered are left out."""
    partitions = {
        str(partition): _object(one) for partition, one in sorted(state.items()) if one != NOTHING
    }
    return json.dumps({"version": VERSION, "partitions": partitions}, indent=1).encode() + b"\n"


def parse_state(content: bytes, path: Path) -> dict[TopicPartition, PartitionState]:
    """The states in a file.

    Raises:
        UnreadableFile: it is not of the form above.
    """
    try:
        return _parse(content)
    except (ValueError, RecursionError, _MalformedError) as error:
        raise UnreadableFile(
            f"it is no state file: {error}.",
            path=path,
            remedy="What is paused is not known, so nothing is done. Restore or remove the file.",
        ) from error


def _parse(content: bytes) -> dict[TopicPartition, PartitionState]:
    root = _fields(json.loads(content), "the file")
    if root.get("version") != VERSION:
        raise _MalformedError(f"version {VERSION} is expected")
    found = {}
    for name, one in _fields(root.get("partitions"), "partitions").items():
        partition = TopicPartition.parse(name)
        if partition is None or str(partition) != name:
            raise _MalformedError("a name under partitions is none")
        found[partition] = _partition(_fields(one, name), name)
    return found


def _partition(fields: Fields, where: str) -> PartitionState:
    listed = fields.get("pauses", [])
    if not isinstance(listed, list):
        raise _MalformedError(f"pauses of {where} are no list")
    state = NOTHING
    for one in listed:
        state = state.with_pause(_pause(_fields(one, where), where))
    quarantine, move = fields.get("quarantine"), fields.get("move")
    return PartitionState(
        pauses=state.pauses,
        quarantine=None if quarantine is None else _quarantine(_fields(quarantine, where), where),
        move=None if move is None else _move(_fields(move, where), where),
    )


def _pause(fields: Fields, where: str) -> Pause:
    return Pause(
        owner=_text(fields, "owner", where),
        reason=_text(fields, "reason", where),
        since_ms=_time(fields, "sinceMs", where),
        expires_at_ms=None
        if fields.get("expiresAtMs") is None
        else _time(fields, "expiresAtMs", where),
    )


def _quarantine(fields: Fields, where: str) -> Quarantine:
    position = fields.get("position")
    return Quarantine(
        cause=_text(fields, "cause", where),
        problem=_text(fields, "problem", where),
        file=None if fields.get("file") is None else _text(fields, "file", where),
        position=None if position is None else _number(fields, "position", where),
        since_ms=_time(fields, "sinceMs", where),
        retry_at_ms=_time(fields, "retryAtMs", where),
        failures=_number(fields, "failures", where),
        topic_id=None if fields.get("topicId") is None else _text(fields, "topicId", where),
    )


def _move(fields: Fields, where: str) -> OpenMove:
    move_id = _text(fields, "id", where)
    destination = _text(fields, "destination", where, LARGEST_PATH)
    if _MOVE_ID.fullmatch(move_id) is None or not Path(destination).is_absolute():
        raise _MalformedError(f"the move of {where} has no id or no destination")
    return OpenMove(
        move_id=move_id, destination=destination, since_ms=_time(fields, "sinceMs", where)
    )


def _fields(value: object, where: str) -> Fields:
    if not isinstance(value, dict):
        raise _MalformedError(f"{where} is no object")
    return value


def _text(fields: Fields, name: str, where: str, largest: int = LARGEST_TEXT) -> str:
    value = _of_type(fields, name, where, str)
    if not value.isprintable() or len(value) > largest:
        raise _MalformedError(f"{name} of {where} is too long or not printable")
    return value


def _number(fields: Fields, name: str, where: str) -> int:
    value = _of_type(fields, name, where, int)
    if not 0 <= value <= INT64_MAX:
        raise _MalformedError(f"{name} of {where} is out of range")
    return value


def _time(fields: Fields, name: str, where: str) -> TimestampMs:
    return TimestampMs(_number(fields, name, where))


def _of_type(fields: Fields, name: str, where: str, wanted: type[_V]) -> _V:
    value = fields.get(name)
    if type(value) is not wanted:
        raise _MalformedError(f"{name} of {where} is missing or of another kind")
    return value


def _object(state: PartitionState) -> dict[str, object]:
    written: dict[str, object] = {}
    if state.pauses:
        written["pauses"] = [pause_object(one) for one in state.pauses]
    if state.quarantine is not None:
        written["quarantine"] = quarantine_object(state.quarantine)
    if state.move is not None:
        written["move"] = {
            "id": state.move.move_id,
            "destination": state.move.destination,
            "sinceMs": state.move.since_ms,
        }
    return written


def pause_object(pause: Pause) -> dict[str, object]:
    """As the file and the command line write it."""
    return {
        "owner": pause.owner,
        "reason": pause.reason,
        "sinceMs": pause.since_ms,
        "expiresAtMs": pause.expires_at_ms,
    }


def quarantine_object(quarantine: Quarantine) -> dict[str, object]:
    """As the file and the command line write it."""
    known = {} if quarantine.topic_id is None else {"topicId": quarantine.topic_id}
    return {
        "cause": quarantine.cause,
        "problem": quarantine.problem,
        "file": quarantine.file,
        "position": quarantine.position,
        "sinceMs": quarantine.since_ms,
        "retryAtMs": quarantine.retry_at_ms,
        "failures": quarantine.failures,
        **known,
    }
