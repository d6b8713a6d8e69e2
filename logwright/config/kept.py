"""The settings of topics that `archive` and `ingest` keep in a log directory without metadata of a
cluster: ``<log dir>/.logwright-topics.json``.

::

    {"version":1,"topics":{"t":{"id":"<22 characters>","configs":{"cleanup.policy":"compact"}}}}

Where the cluster's metadata knows a topic, it alone counts. A broker ignores a plain file there.
What is read is not trusted: a file that is not of this form is refused as a whole. To pass over a
line could mean to delete what is to be kept.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from logwright.config.values import problems
from logwright.errors import UnreadableFile
from logwright.locks import lock_checkpoints
from logwright.log.files import exists, open_log_dir, read_part
from logwright.steps.filesystem import FileSystem, RealFileSystem
from logwright.steps.interpreter import execute
from logwright.steps.replace import replace_file

KEPT_FILE: Final = ".logwright-topics.json"
LARGEST_KEPT_BYTES: Final = 1 << 26


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptTopic:
    """What is kept of one topic.

    Attributes:
        topic_id: url-safe base64 without padding; None if it is not known.
        configs: Kafka's names and values; what is not here was not said.
    """

    topic_id: str | None = None
    configs: Mapping[str, str] = field(default_factory=dict)


class _Topic(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    id: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{22}$")] | None
    configs: dict[
        Annotated[str, Field(pattern=r"^[a-z][a-z0-9.]{0,99}$")],
        Annotated[str, Field(max_length=100_000)],
    ]


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    version: Literal[1]
    topics: dict[Annotated[str, Field(pattern=r"^[a-zA-Z0-9._-]{1,249}$")], _Topic]


def read_kept(log_dir: Path) -> dict[str, KeptTopic]:
    """What is kept of topics, by name. Effects: reads the file, if there is one.

    Raises:
        NotALogDir: there is no such directory.
        UnreadableFile: the file cannot be read, or is not of the form above.
    """
    with open_log_dir(log_dir) as directory:
        if not exists(directory, KEPT_FILE):
            return {}
        content = read_part(directory, KEPT_FILE, 0, LARGEST_KEPT_BYTES + 1)
    return parse_kept(content, log_dir / KEPT_FILE)


def parse_kept(content: bytes, path: Path) -> dict[str, KeptTopic]:
    """The topics in a file.

    Raises:
        UnreadableFile: it is not of the form above.
    """
    if len(content) > LARGEST_KEPT_BYTES:
        raise _refused(f"it has more than {LARGEST_KEPT_BYTES} bytes", path)
    try:
        found = _File.model_validate_json(content)
    except ValidationError as error:
        raise _refused(problems(error), path) from error
    return {
        name: KeptTopic(topic_id=one.id, configs=one.configs) for name, one in found.topics.items()
    }


def serialize_kept(topics: Mapping[str, KeptTopic]) -> bytes:
    """The file of these topics."""
    written = {
        name: {"id": one.topic_id, "configs": dict(sorted(one.configs.items()))}
        for name, one in sorted(topics.items())
    }
    return json.dumps({"version": 1, "topics": written}, indent=1).encode() + b"\n"


def keep_topics(log_dir: Path, topics: Mapping[str, KeptTopic]) -> None:
    """Keep this of topics, in place of what was kept of them. Effects: takes the checkpoint files'
    lock; replaces the file, if that changes it.

    Raises:
        NotALogDir, UnreadableFile: as `read_kept`.
        LogDirLocked: the lock was not free for too long.
        DiskFull, StepFailed: the file could not be written; the old one stands.
    """
    path = log_dir / KEPT_FILE
    with lock_checkpoints(log_dir):
        before = read_kept(log_dir)
        after = before | dict(topics)
        if after == before:
            return
        with RealFileSystem(log_dir) as files:
            like = path if before else log_dir
            execute(replace_file(path, serialize_kept(after), like=like), files)


def forget_topic_locked(log_dir: Path, topic: str, files: FileSystem) -> None:
    """Nothing is kept of a topic any more. Effects: replaces the file, if there was something;
    under the checkpoint files' lock, which the caller holds.

    Raises:
        NotALogDir, UnreadableFile: as `read_kept`.
        DiskFull, StepFailed: the file could not be written; the old one stands.
    """
    kept = read_kept(log_dir)
    if kept.pop(topic, None) is not None:
        path = log_dir / KEPT_FILE
        execute(replace_file(path, serialize_kept(kept), like=path), files)


def _refused(what: str, path: Path) -> UnreadableFile:
    return UnreadableFile(
        f"it is no file of topics' settings: {what}.",
        path=path,
        remedy="What is to be kept of its topics is not known, so nothing is done. Restore or"
        " remove the file.",
    )
