"""Topic settings that `archive` and `ingest` save in a log directory without cluster metadata:
``<log dir>/.logwright-topics.json`` (`logwright.format.kept_topics`).

If the cluster's metadata has the topic, only the metadata is used. A broker ignores the file. An
invalid file is refused as a whole: ignoring a part of it could mean to delete data that must be
kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from logwright.config.values import problems
from logwright.errors import UnreadableFile
from logwright.format.kept_topics import KEPT_FILE, KeptTopic, serialize_kept
from logwright.locks import lock_checkpoints
from logwright.place.files import open_log_dir
from logwright.place.model import Place
from logwright.steps.filesystem import FileSystem, RealFileSystem
from logwright.steps.interpreter import execute
from logwright.steps.replace import replace_file

LARGEST_KEPT_BYTES: Final = 1 << 26


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


def read_kept(log_dir: Place) -> dict[str, KeptTopic]:
    """Return topic name → saved settings. Effects: reads the file, if it exists.

    Raises:
        NotALogDir: the directory does not exist.
        UnreadableFile: the file cannot be read, or is not of the form above.
    """
    with open_log_dir(log_dir) as directory:
        if not directory.exists(KEPT_FILE):
            return {}
        content = directory.read_part(KEPT_FILE, 0, LARGEST_KEPT_BYTES + 1)
    return parse_kept(content, log_dir / KEPT_FILE)


def parse_kept(content: bytes, path: Place) -> dict[str, KeptTopic]:
    """Parse a file.

    Raises:
        UnreadableFile: it is not of the form above.
    """
    if len(content) > LARGEST_KEPT_BYTES:
        raise _refused(f"larger than {LARGEST_KEPT_BYTES} bytes", path)
    try:
        file = _File.model_validate_json(content)
    except ValidationError as error:
        raise _refused(problems(error), path) from error
    return {
        name: KeptTopic(topic_id=topic.id, configs=topic.configs)
        for name, topic in file.topics.items()
    }


def keep_topics(log_dir: Path, topics: Mapping[str, KeptTopic]) -> None:
    """Save these topics' settings in place of earlier ones. Effects: takes the checkpoint files'
    lock; replaces the file, if that changes it.

    Raises:
        NotALogDir, UnreadableFile: as `read_kept`.
        LogDirLocked: the lock was not free in time.
        DiskFull, StepFailed: the file could not be written and is unchanged.
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
    """Remove a topic's saved settings. Effects: replaces the file if it has the topic; the caller
    holds the checkpoint files' lock.

    Raises:
        NotALogDir, UnreadableFile: as `read_kept`.
        DiskFull, StepFailed: the file could not be written; the old one stays.
    """
    kept = read_kept(log_dir)
    if kept.pop(topic, None) is not None:
        path = log_dir / KEPT_FILE
        execute(replace_file(path, serialize_kept(kept), like=path), files)


def _refused(what: str, path: Place) -> UnreadableFile:
    return UnreadableFile(
        f"not a file of topic settings: {what}.",
        path=path,
        remedy="Nothing was changed, because the retention of its topics is unknown. Restore or"
        " remove the file.",
    )
