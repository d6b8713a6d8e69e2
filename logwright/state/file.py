"""The state file, ``<log dir>/.logwright-state.json``: bytes and values.

::

    {"version":1,"partitions":{"t-0":{
      "pauses":[{"owner":"ops","reason":"...","sinceMs":1,"expiresAtMs":null}],
      "quarantine":{"cause":"CorruptBatch","problem":"...","file":"...log","position":61,
                    "sinceMs":1,"retryAtMs":2,"failures":1,"topicId":"<22 of base64>"},
      "move":{"id":"<32 hex>","destination":"/...","sinceMs":1}}}}

It is in the root, not in the partitions: a sensor's tick reads one file for all of them, and a
partition keeps its pause while its directory has another name (`logwright.move`). A broker ignores
a plain file there.

The content is not trusted. A file that does not have this form is refused as a whole: ignoring an
entry could mean cleaning a paused partition.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from logwright.config.values import problems
from logwright.errors import UnreadableFile
from logwright.format.names import TopicPartition
from logwright.state.model import NOTHING, LogDirState, PartitionState, Pause, Quarantine

STATE_FILE: Final = ".logwright-state.json"
VERSION: Final = 1
LARGEST_STATE_BYTES: Final = 1 << 26


class _File(BaseModel):
    model_config = ConfigDict(strict=True, defer_build=True)  # most log directories have no file
    version: Literal[1]
    partitions: Mapping[str, PartitionState]


@cache
def _adapter(of: type) -> TypeAdapter[Any]:
    return TypeAdapter(of)


def serialize_state(state: LogDirState) -> bytes:
    """Return the file of these states; partitions without any state are left out."""
    partitions = {str(partition): one for partition, one in sorted(state.items()) if one != NOTHING}
    file = _File.model_construct(version=VERSION, partitions=partitions)
    return file.model_dump_json(by_alias=True, indent=1).encode() + b"\n"


def parse_state(content: bytes, path: object) -> dict[TopicPartition, PartitionState]:
    """Return the states in a file.

    Raises:
        UnreadableFile: it is not of the form above.
    """
    try:
        file = _File.model_validate_json(content)
    except ValidationError as error:
        raise _refused(problems(error), path) from error
    states: dict[TopicPartition, PartitionState] = {}
    for name, entry in file.partitions.items():
        partition = TopicPartition.parse(name)
        if partition is None or str(partition) != name:
            raise _refused("a name under partitions is not one of a partition", path)
        state = PartitionState(quarantine=entry.quarantine, move=entry.move)
        for pause in entry.pauses:
            state = state.with_pause(pause)
        states[partition] = state
    return states


def pause_object(pause: Pause) -> dict[str, object]:
    """Return a pause as the command line writes it."""
    written: dict[str, object] = _adapter(Pause).dump_python(pause, by_alias=True)
    return written


def quarantine_object(quarantine: Quarantine) -> dict[str, object]:
    """Return a quarantine as the command line writes it, without a topic id that is not known."""
    written: dict[str, object] = _adapter(Quarantine).dump_python(quarantine, by_alias=True)
    if quarantine.topic_id is None:
        del written["topicId"]
    return written


def _refused(what: str, path: object) -> UnreadableFile:
    return UnreadableFile(
        f"it is not a state file: {what}.",
        path=path,
        remedy="What is paused is not known, so nothing is done. Restore or remove the file.",
    )
