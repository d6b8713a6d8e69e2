"""The ledger of ingested files: ``.logwright-ingests.json`` in a log directory's root.

A run and its files are recorded when its records are staged, before the first append, and marked as
done after the last. An unfinished run is completed with exactly its files before a new run starts.
A file is identified by path and SHA-256; size and modification time only avoid reading it again.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from logwright.errors import CorruptLogError, StalePlan, UnreadableFile
from logwright.locks import lock_checkpoints
from logwright.place.mapped import map_file
from logwright.steps.filesystem import RealFileSystem
from logwright.steps.interpreter import execute
from logwright.steps.replace import replace_file

if TYPE_CHECKING:
    from collections.abc import Sequence

LEDGER: Final = ".logwright-ingests.json"

_VERSION: Final = 1
_LEFT_OUT: Final = (".", "_")
_READ_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class InputFile:
    """One input file; `sha256` is empty until it has been read."""

    path: str
    bytes: int
    modified_ns: int
    sha256: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One ingest.

    Attributes:
        id: its id in the partitions' journals.
        partitions: partition count of the topic; 0 if rows name their topics.
        done: all partitions have their records.
    """

    id: str
    topic: str
    partitions: int
    files: tuple[InputFile, ...]
    done: bool = False


def list_input(source: Path) -> tuple[InputFile, ...]:
    """List the files of an input: itself or all below it, sorted by path. Effects: lists
    directories.

    Ignores names that start with a dot or an underscore, as Spark does.

    Raises:
        UnreadableFile: it does not exist, or one of its files is not a regular file.
    """
    if not source.exists():
        raise UnreadableFile("the input does not exist.", path=source, remedy="Fix the path.")
    if source.is_file() and source.name.startswith(_LEFT_OUT):
        raise UnreadableFile(
            "Spark ignores files with such a name.", path=source, remedy="Rename it."
        )
    paths = [source] if source.is_file() else sorted(_walk(source))
    files = []
    for path in paths:
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode):
            raise UnreadableFile("expected a regular file.", path=path, remedy="Remove it.")
        place = str(path.absolute())
        files.append(InputFile(path=place, bytes=status.st_size, modified_ns=status.st_mtime_ns))
    return tuple(files)


def new_files(runs: Sequence[Run], topic: str, files: Sequence[InputFile]) -> tuple[InputFile, ...]:
    """Return the files that no run of this topic has ingested, by path, size and modification time;
    reads no content.
    """
    known = {replace(one, sha256="") for run in runs if run.topic == topic for one in run.files}
    return tuple(one for one in files if one not in known)


def waiting_files(log_dir: Path, topic: str, source: Path) -> tuple[str, ...]:
    """Return the paths that a run would ingest now; first those of an interrupted run. Effects:
    lists files.
    """
    runs = read_ledger(log_dir)
    unfinished = [run for run in runs if run.topic == topic and not run.done]
    files = [one.path for run in unfinished for one in run.files]
    files += [one.path for one in new_files(runs, topic, list_input(source))]
    return tuple(dict.fromkeys(files))


def next_run(
    runs: Sequence[Run], topic: str, partitions: int, files: Sequence[InputFile]
) -> Run | None:
    """Return the next run: an interrupted one, else one of all new files, else None.

    Effects: reads the new files, for their hashes.

    Raises:
        StalePlan: a file of an interrupted run was removed or has changed.
        UnreadableFile: a file cannot be read.
    """
    # A run without files has an id of its own, and only its caller has its input.
    unfinished = [run for run in runs if run.topic == topic and not run.done and run.files]
    interrupted = next(iter(unfinished), None)
    if interrupted is not None:
        here = set(files)
        for file in interrupted.files:
            if replace(file, sha256="") not in here and not _is_as_it_was(file):
                raise StalePlan(
                    "an ingest of this file was interrupted, and it was removed or changed since.",
                    path=file.path,
                    remedy="Restore the file and retry.",
                )
        return interrupted
    known = {(one.path, one.sha256) for run in runs if run.topic == topic for one in run.files}
    hashed = [_hashed(file) for file in new_files(runs, topic, files)]
    fresh = tuple(file for file in hashed if (file.path, file.sha256) not in known)
    if not fresh:
        return None
    digest = hashlib.sha256(topic.encode())
    for file in fresh:
        digest.update(f"\0{file.path}\0{file.sha256}".encode())
    return Run(id=digest.hexdigest()[:32], topic=topic, partitions=partitions, files=fresh)


def read_ledger(log_dir: Path) -> tuple[Run, ...]:
    """Return the runs of a log directory, oldest first. Effects: reads the ledger.

    Raises:
        UnreadableFile: it is not a regular file. CorruptLogError: it is invalid.
    """
    path = log_dir / LEDGER
    if not os.path.lexists(path):
        return ()
    try:
        content = json.loads(map_file(path).tobytes())
        if content["version"] != _VERSION:
            raise ValueError("another version")
        return tuple(
            Run(**{**run, "files": tuple(InputFile(**file) for file in run["files"])})
            for run in content["runs"]
        )
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptLogError(
            "the ledger of ingests is malformed.",
            path=path,
            remedy="Nothing was changed. Restore it: without it every input is ingested again.",
        ) from error


def record_run(log_dir: Path, run: Run) -> None:
    """Record a run, replacing the one with the same id. Effects: replaces the ledger."""
    path = log_dir / LEDGER
    with lock_checkpoints(log_dir), RealFileSystem(log_dir) as files:
        runs = [one for one in read_ledger(log_dir) if one.id != run.id]
        content = {"version": _VERSION, "runs": [asdict(one) for one in (*runs, run)]}
        execute(replace_file(path, json.dumps(content).encode() + b"\n", like=log_dir), files)


def _walk(directory: Path) -> list[Path]:
    paths: list[Path] = []
    for parent, directories, names in os.walk(directory):
        directories[:] = [name for name in directories if not name.startswith(_LEFT_OUT)]
        paths += [Path(parent, name) for name in names if not name.startswith(_LEFT_OUT)]
    return paths


def _is_as_it_was(file: InputFile) -> bool:
    try:
        return _hashed(file).sha256 == file.sha256
    except UnreadableFile:
        return False


def _hashed(file: InputFile) -> InputFile:
    digest = hashlib.sha256()
    try:
        descriptor = os.open(file.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as opened:
            while part := opened.read(_READ_BYTES):
                digest.update(part)
    except OSError as error:
        raise UnreadableFile(
            f"cannot be read: {error.strerror}.", path=file.path, remedy="Fix the input."
        ) from error
    return replace(file, sha256=digest.hexdigest())
