"""Write a log from a bucket into a log directory of a stopped broker, which can open it then.

The files are written where no broker looks, in the work directory of a directory with a future
log's name, ``LOG_DIR/TOPIC-N.ID-future/.logwright/download``, and become the log by one rename:

=====  ==============================  ==============================  ============================
state  what exists                     what a broker does              what a download does
=====  ==============================  ==============================  ============================
C      some of the files               the future directory becomes    write what is missing, or is
                                       ``-stray``                      not what the version has
D      all, durable; the checkpoints   the same; it drops the entries  the same
       have the log's entries
P      the log; the empty future       serves the log                  remove the future directory
       directory
=====  ==============================  ==============================  ============================

The same as in `logwright.move.steps`, with no source to be retired. The ID is that of the log in
the bucket: a download that was interrupted is found by it. A file counts as written if its bytes
have the checksum of the manifest, whoever wrote it; so does the log itself, in state P and when all
is done: one that is not this very version was made by something else, and is refused.

The mark of the log says what was erased from it in the bucket, so that it can be uploaded there
again.
"""

from __future__ import annotations

import errno
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Final

import google_crc32c

from logwright.bucket.commit import newest
from logwright.bucket.driver import drive
from logwright.config.kept import keep_topics
from logwright.errors import (
    CorruptLogError,
    DiskFull,
    NotALogDir,
    PreconditionError,
    unreadable,
)
from logwright.format import names
from logwright.format.kept_topics import KeptTopic
from logwright.locks import lock_log_dir
from logwright.log.load import META_PROPERTIES
from logwright.log.log_dir import list_log_dir
from logwright.maintenance.copy import pieces_of
from logwright.place.bucket import files_of, root_offsets
from logwright.place.files import names_in, open_log_dir
from logwright.place.model import RANGE_BYTES
from logwright.recovery.observe import marked_logs
from logwright.state.erasure_mark import absent_steps
from logwright.steps.filesystem import RealFileSystem
from logwright.steps.interpreter import execute
from logwright.steps.live import set_offsets
from logwright.steps.marker import APPEND_WAIT_SECONDS, UNKNOWN_EPOCH, doubt, lock_marker
from logwright.steps.replace import replace_file
from logwright.steps.step import (
    FsyncDir,
    FsyncFile,
    MakeDir,
    RemoveDir,
    RenameDir,
    SetMtime,
    Unlink,
    WriteFile,
)
from logwright.units import ByteCount, Offset

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from logwright.batches.runtime import Progress
    from logwright.bucket.manifest import LogState, Manifest
    from logwright.bucket.store import Bucket
    from logwright.bucket.stored import StoredFile
    from logwright.format.names import TopicPartition
    from logwright.place.bucket import Shown
    from logwright.steps.filesystem import FileSystem

DOWNLOAD: Final = "download"
_AT_ONCE: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Downloaded:
    """What a download did.

    Attributes:
        version: of the log in the bucket.
        files, bytes: of the log.
        read_bytes: what was read from the bucket now; the rest was there.
    """

    partition: TopicPartition
    version: int
    end_offset: Offset
    files: int
    bytes: ByteCount
    read_bytes: ByteCount


def download_log(
    bucket: Bucket,
    partition: TopicPartition,
    log_dir: Path,
    *,
    progress: Progress,
    wrap: Callable[[FileSystem], FileSystem] = lambda fs: fs,
) -> Downloaded:
    """Write the newest version of a log into a log directory. Effects: as the module says; the
    locks, all four checkpoints and the settings of topics of the directory; a directory without a
    log before gets the marker of a clean shutdown.

    Args:
        bucket: the log directory in the bucket.
        log_dir: of this machine; it exists.
        progress: called with "download", the bytes done, and the bytes in total.
        wrap: wraps the file system, for tests.

    Raises:
        NotALogDir: there is no such log in the bucket, or no such directory.
        LogDirLocked: a broker or another process works on the directory.
        PreconditionError: it has the partition already.
        DiskFull: there is not enough space; checked before the first byte, and met later.
        StalePlan: an object is gone. CorruptLogError: an object, or a manifest, is damaged.
        UnreadableFile, Unsettled: the bucket does not answer, or does not permit it.
        StepFailed: a step failed. The next run continues.
    """
    log_dir = log_dir.absolute()
    directory = bucket.below(partition.directory_name)
    manifest = drive(directory, newest())
    if manifest is None:
        raise NotALogDir(
            f"has no partition {partition}.",
            path=bucket,
            remedy="`logwright inspect` lists the partitions.",
        )
    if manifest.state.partition != partition:
        raise CorruptLogError(
            f"its manifest is of {manifest.state.partition}.",
            path=directory,
            remedy="Objects were moved by hand; move them back.",
        )
    with lock_log_dir(log_dir), RealFileSystem(log_dir) as disk:
        work = _Work(directory, manifest, log_dir, wrap(disk), progress)
        if not work.is_there:
            work.check()
            if _has_no_log(log_dir):
                _mark_clean(log_dir, work.fs)
            work.write()
            work.place()
        work.clear()
    return work.result


def _has_no_log(log_dir: Path) -> bool:
    """Return whether nothing is there that a broker would have to recover. Effects: lists it."""
    with open_log_dir(log_dir) as directory:
        is_empty = not list_log_dir(directory).partitions
    return is_empty and not marked_logs(log_dir)


def _mark_clean(log_dir: Path, fs: FileSystem) -> None:
    path = log_dir / names.CLEAN_SHUTDOWN_MARKER
    if not os.path.lexists(path):
        execute(replace_file(path, UNKNOWN_EPOCH, like=log_dir), fs)


class _Work:
    """One download, under the lock of the log directory."""

    def __init__(
        self,
        directory: Bucket,
        manifest: Manifest,
        log_dir: Path,
        fs: FileSystem,
        progress: Progress,
    ) -> None:
        self.manifest, self.log_dir, self.fs = manifest, log_dir, fs
        self.partition = manifest.state.partition
        self.files: Mapping[str, Shown] = files_of(manifest.state, directory)
        identity = blake2b(directory.url.encode(), digest_size=16).hexdigest()
        future = names.marked_directory_name(self.partition, identity, names.FUTURE_DIRECTORY)
        self.live, self.future = log_dir / self.partition.directory_name, log_dir / future
        self.work = self.future / names.WORK_DIRECTORY
        self.made = self.work / DOWNLOAD
        self._progress, self._done, self._turn = progress, 0, Lock()
        self._read = 0

    @property
    def is_there(self) -> bool:
        """Whether the log directory has this very version: an earlier run was done with it, or was
        interrupted after it had made the log. Effects: reads it.
        """
        if not self.live.is_dir() or os.path.lexists(self.made):
            return False
        there = set(names_in(self.live))
        logs = {name for name in there if name.endswith(names.LOG)}
        return there >= self.files.keys() >= logs and all(
            self._is(self.live / name, shown) for name, shown in self.files.items()
        )

    @property
    def bytes(self) -> ByteCount:
        """Of all files."""
        return ByteCount(sum(shown.entry.stamp.bytes for shown in self.files.values()))

    @property
    def result(self) -> Downloaded:
        """What was done."""
        return Downloaded(
            partition=self.partition,
            version=self.manifest.version,
            end_offset=Offset(self.manifest.state.log_end_offset),
            files=len(self.files),
            bytes=self.bytes,
            read_bytes=ByteCount(self._read),
        )

    def check(self) -> None:
        """Refuse before anything is created."""
        if os.path.lexists(self.live):
            raise PreconditionError(
                "the log directory already has this partition.",
                path=self.live,
                remedy="Nothing was changed. It is not the version in the bucket. Move it out of"
                " the log directory, or name another directory.",
            )
        there = self.made.iterdir() if self.made.is_dir() else ()
        needed = self.bytes - sum(path.stat().st_size for path in there if path.is_file())
        free = shutil.disk_usage(self.log_dir).free
        if needed > free:
            raise DiskFull(
                f"the log needs {needed} bytes, {free} are free.",
                path=self.log_dir,
                remedy="Nothing was written. Free some space there.",
            )

    def write(self) -> None:
        """Write all files, durably: states C and D."""
        for path in (self.future, self.work, self.made):
            if not os.path.lexists(path):
                execute((MakeDir(path, like=self.log_dir), FsyncDir(path.parent)), self.fs)
        execute((FsyncDir(self.made),), self.fs)  # refuses a link
        for name in set(names_in(self.made)) - self.files.keys() - {names.WORK_DIRECTORY}:
            execute((Unlink(self.made / name),), self.fs)
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            try:
                list(pool.map(self._write, self.files.items()))
            finally:
                pool.shutdown(cancel_futures=True)
        self._mark()
        execute(map(FsyncDir, (self.made, self.work, self.future, self.log_dir)), self.fs)
        state = self.manifest.state
        set_offsets(self.log_dir, self.partition, root_offsets(state), self.fs)
        if META_PROPERTIES not in names_in(self.log_dir):
            _keep_settings(self.log_dir, state)

    def _mark(self) -> None:
        """Note what was erased from the log, durably."""
        work = self.made / names.WORK_DIRECTORY
        if os.path.lexists(work / names.ERASURE_MARK):
            execute((Unlink(work / names.ERASURE_MARK),), self.fs)
        below = self.manifest.erased.below
        if below and not os.path.lexists(work):
            execute((MakeDir(work, like=self.log_dir),), self.fs)
        execute(absent_steps(self.made, below), self.fs)

    def place(self) -> None:
        """Make it the log: state P. The marker loses the broker epoch before: what the
        replica had acknowledged after the upload is not in it.
        """
        with lock_marker(self.log_dir, wait_seconds=APPEND_WAIT_SECONDS):
            execute(doubt(self.log_dir), self.fs)
        execute((RenameDir(self.made, self.live), FsyncDir(self.log_dir)), self.fs)

    def clear(self) -> None:
        """Remove what was around it."""
        removed = (RemoveDir(path, missing_ok=True) for path in (self.work, self.future))
        execute((*removed, FsyncDir(self.log_dir)), self.fs)

    def _write(self, named: tuple[str, Shown]) -> None:
        """Write one file, unless it is there."""
        name, shown = named
        path, size = self.made / name, shown.entry.stamp.bytes
        if shown.stored is None:
            execute(replace_file(path, shown.content, like=self.log_dir), self.fs)
            return
        if not self._is(path, shown):
            if os.path.lexists(path):
                execute((Unlink(path),), self.fs)
            execute((WriteFile(path, b"", like=self.log_dir),), self.fs)
            self._fill(path, *shown.stored)
            with self._turn:
                self._read += size
        execute((SetMtime(path, shown.entry.stamp.modified_ns), FsyncFile(path)), self.fs)

    def _fill(self, path: Path, directory: Bucket, stored: StoredFile) -> None:
        try:
            with path.open("r+b") as file:
                for piece in pieces_of(directory, stored):
                    file.write(piece)
                    self._advanced(len(piece))
        except OSError as error:
            if error.errno in {errno.ENOSPC, errno.EDQUOT}:
                raise DiskFull(
                    "there is no room for the log.",
                    path=path,
                    remedy="What was written stays; it is not a log yet. Free some space and run"
                    " it again, or remove the directory.",
                ) from error
            raise unreadable(error, f"{directory}/{stored.key}") from error

    def _is(self, path: Path, shown: Shown) -> bool:
        """Return whether a file has the bytes that it must have. Effects: reads it."""
        size = shown.entry.stamp.bytes
        if not path.is_file() or path.stat().st_size != size:
            return False
        if shown.stored is None:
            return path.read_bytes() == shown.content
        if _crc32c(path) != shown.stored[1].crc32c:
            return False
        self._advanced(size)
        return True

    def _advanced(self, size: int) -> None:
        with self._turn:
            self._done += size
            self._progress(DOWNLOAD, self._done, self.bytes)


def _crc32c(path: Path) -> int:
    crc32c = 0
    with path.open("rb") as file:
        while piece := file.read(RANGE_BYTES):
            crc32c = google_crc32c.extend(crc32c, piece)
    return crc32c


def _keep_settings(log_dir: Path, state: LogState) -> None:
    """Save the topic's id and settings: no broker's metadata has them here."""
    if state.topic_id is not None or state.configs:
        kept = KeptTopic(topic_id=state.topic_id, configs=state.configs)
        keep_topics(log_dir, {state.topic: kept})
