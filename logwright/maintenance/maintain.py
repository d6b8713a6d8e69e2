"""Maintain a log in a bucket: in a working copy, by what maintains a log directory.

1. The newest version is read, and downloaded into a directory of this machine
   (`logwright.maintenance.copy`).
2. The operation plans, builds, checks and commits there, as on any log directory.
3. What is new or was replaced is written under names of its own and read back; files that nobody
   wrote since the download are neither read nor sent. Retired files, staged output and records for
   an undo stay here: in a bucket the earlier versions are the history.
4. The change is committed as the next version (`logwright.bucket.commit`), unless the log was
   paused since. If another operation was first and changed the same
   (`logwright.maintenance.change`), all begins again from its version; if it took too long, too.

Wherever it ends, the newest version is the old or the new one. The copy is removed, after a kill by
the next operation (`logwright.maintenance.scratch`).
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Generic, TypeVar

from logwright.batches.runtime import Throttle
from logwright.bucket.commit import (
    Commit,
    Conflict,
    Limits,
    Operation,
    Requests,
    TooLate,
    newest,
)
from logwright.bucket.driver import drive
from logwright.bucket.manifest import Erased, LogState, Manifest, erased_in
from logwright.bucket.store import Bucket
from logwright.bucket.stored import StoredFile
from logwright.errors import LogwrightError, NotALogDir, StalePlan, invariant
from logwright.format.names import TopicPartition
from logwright.log.load import observe
from logwright.maintenance.change import applied
from logwright.maintenance.copy import Copy, Needed, Seen, bytes_of, download, hollow_files
from logwright.maintenance.scratch import working_directory
from logwright.place.bucket import Session
from logwright.place.files import open_partition_dir
from logwright.place.model import OpenDir
from logwright.state.hold import refuse_held
from logwright.units import ByteCount, TimestampMs
from logwright.upload.upload import Files, state_of

_LOG = logging.getLogger(__name__)
_T = TypeVar("_T")
_ATTEMPTS: Final = 5
_AT_ONCE: Final = 4
"""Segments that are sent at once."""
_ATTEMPT_BITS: Final = 48
"""Of a random number: several processes may attempt one job, even at once."""
_COPIES: Final = 2
"""An operation that rewrites a log needs room for its files and for as many new ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Maintained(Generic[_T]):
    """What became of one log.

    Attributes:
        result: what the operation returned; None if an earlier process made the change.
        version: the version that has its change; None if it changed nothing.
        sent_bytes: what was written for it.
    """

    result: _T | None
    version: int | None
    sent_bytes: ByteCount


@dataclass(slots=True, kw_only=True)
class Maintenance:
    """One operation on one log; `run` is all of it.

    Attributes:
        bucket: the log directory in the bucket.
        partition: whose log.
        operation: its name, the first word of its id.
        scratch: where working copies are made.
        limits: as `logwright.bucket.agreement.agree` gives them.
        now_ms: for the manifest.
        id: of the job; None: a new one. One that is run again, by whichever process, finds the
            change that it made before.
        needed: which segments the operation reads; None: all.
        throttle: what is read of the copy.
        made: name → what is in the bucket already of the files that the operation leaves.
        configs: settings of the topic that are kept with the log from now on; None: as they are.
        past_quarantine: it changes a log in quarantine, too.
        past_pause: it changes a log that is held in any way, too: it only appends.
        erased: of an erasure: reads in the copy's directory of the log which keys it erased below
            which offsets; None: it is none.
    """

    bucket: Bucket
    partition: TopicPartition
    operation: str
    scratch: Path
    limits: Limits
    now_ms: int
    id: str | None = None
    needed: Needed | None = None
    throttle: Throttle = field(default_factory=Throttle)
    made: Mapping[str, StoredFile] = field(default_factory=dict)
    configs: Mapping[str, str] | None = None
    past_quarantine: bool = True
    past_pause: bool = False
    erased: Callable[[Path], Mapping[str, int]] | None = None
    _attempt: int = 0
    _job: str = ""
    _began: list[int] = field(default_factory=list)
    _sent: list[int] = field(default_factory=list)

    def run(self, act: Callable[[Path], _T | None]) -> Maintained[_T] | None:
        """Do the operation. Effects: as the module says.

        Args:
            act: does it in a log directory, which has this partition alone, and returns its result;
                None: nothing of it counts. It is called again after another's change.

        Returns:
            None if `act` does.

        Raises:
            Conflict: others were first, again and again. TooLate: each attempt took too long.
            StalePlan, Unsettled, UnreadableFile: an object is gone, or the bucket does not answer.
            DiskFull, CorruptLogError: see `logwright.maintenance.copy.download`.
            StepFailed: an object is not what was sent.
            Paused: the log was paused in the meantime. Nothing was changed.
            LogwrightError: as `act`.
        """
        self._job = self.id or new_job(self.operation)
        result: _T | None = None
        for attempt in range(_ATTEMPTS):
            self._attempt = secrets.randbits(_ATTEMPT_BITS)
            self._began, self._sent = [], []
            manifest = self._newest()
            version = manifest.version_of(self._job)
            try:
                if version is None:
                    with self._copied(manifest) as copy:
                        result = act(copy.log_dir)
                        version = None if result is None else self._commit(copy)
            except (Conflict, TooLate, StalePlan) as error:
                if attempt + 1 == _ATTEMPTS:
                    raise
                _LOG.warning("begun again topic_partition=%s: %s", self.partition, error)
                continue
            break
        return self._maintained(result, version)

    def run_on(
        self, base: Manifest, act: Callable[[Path], _T | None], *, began_ms_ago: int
    ) -> Maintained[_T] | None:
        """Do the operation on a version that was planned, once. Effects, returns and errors: as
        `run`.

        Args:
            base: that version. What was added after it stays.
            began_ms_ago: when the first object of `made` was sent.
        """
        self._job = self.id or new_job(self.operation)
        self._attempt = secrets.randbits(_ATTEMPT_BITS)
        self._began, self._sent = [_elapsed_ms() - began_ms_ago], []
        result: _T | None = None
        version = self._newest().version_of(self._job)
        if version is None:
            with self._copied(base) as copy:
                result = act(copy.log_dir)
                version = None if result is None else self._commit(copy)
        return self._maintained(result, version)

    def _maintained(self, result: _T | None, version: int | None) -> Maintained[_T] | None:
        if result is None and version is None:
            return None
        return Maintained(result=result, version=version, sent_bytes=ByteCount(sum(self._sent)))

    @property
    def directory(self) -> Bucket:
        """The partition's directory in the bucket."""
        return self.bucket.below(self.partition.directory_name)

    @property
    def job(self) -> Operation:
        """What the names of objects are made of."""
        return Operation(id=self._job, attempt=self._attempt, planned_version=-1, written_ms=0)

    def begin(self, key: str) -> None:
        """Note an object that is sent from now on."""
        del key
        self._began.append(_elapsed_ms())

    def sent(self, size: int) -> None:
        """Note an object that was sent."""
        self._sent.append(size)

    @contextmanager
    def _copied(self, manifest: Manifest) -> Iterator[Copy]:
        """Give a working copy; an error about a file in it names the log in the bucket. Effects:
        removes it on leaving.
        """
        hollow = hollow_files(manifest, self.needed)
        room = ByteCount(_COPIES * bytes_of(manifest, hollow))
        with working_directory(self.scratch, room) as directory:
            log_dir = directory / "logs"
            try:
                yield download(manifest, self.directory, log_dir, hollow)
            except LogwrightError as error:
                if error.path is not None and error.path.is_relative_to(log_dir):
                    error.path = Path(f"{self.bucket}/{error.path.relative_to(log_dir)}")
                raise

    def _newest(self) -> Manifest:
        manifest = drive(self.directory, newest())
        if manifest is None:
            raise NotALogDir(
                f"has no partition {self.partition}.",
                path=self.bucket,
                remedy="`logwright inspect` lists the partitions.",
            )
        return manifest

    def _commit(self, copy: Copy) -> int | None:
        """Send and commit what the operation changed; return the version that has it, None if that
        is nothing.
        """
        base = copy.manifest
        after = self._state(copy)
        if after == base.state:
            return None

        def change(manifest: Manifest | None) -> Requests[LogState]:
            yield from ()
            if manifest is None:
                raise Conflict("the log is gone.", path=self.partition)
            if self.erased is not None and manifest.version != base.version:
                raise Conflict("what was added was not erased from.", path=self.partition)
            return applied(base.state, after, manifest.state)

        operation = Operation(
            id=self._job,
            attempt=self._attempt,
            planned_version=base.version,
            written_ms=self.now_ms,
            erasures=base.erased.number,
        )
        if not self.past_pause:
            self._refuse_held(base)
        started_ms = min(self._began, default=_elapsed_ms())
        commit = Commit(
            operation, change, self.limits, started_ms=started_ms, erased=self._erased(copy)
        )
        return drive(self.directory, commit.run())

    def _erased(self, copy: Copy) -> Callable[[Manifest | None], Erased]:
        """Return what makes what was erased in the new version from the newest one."""
        if self.erased is None:
            return erased_in
        keys = self.erased(copy.log_dir / self.partition.directory_name)
        return lambda manifest: erased_in(manifest).after(keys)

    def _refuse_held(self, base: Manifest) -> None:
        """Refuse a log that was paused since it was planned. Effects: reads the directory's state.

        Raises:
            Paused: it is. LogwrightError: that is not known.
        """
        directory = self.partition.directory_name
        shown = Session(self.bucket, {directory: base.version}, frozenset((directory,)))
        now_ms = TimestampMs(self.now_ms)
        refuse_held(shown.place, self.partition, now_ms, force=self.past_quarantine)

    def _state(self, copy: Copy) -> LogState:
        """Return the state of the copy, after its files were sent."""
        log = observe(copy.log_dir, self.partition, high_watermark="checkpoint")
        ends = [*(each.base_offset for each in log.segments[1:]), log.log_end_offset]
        with (
            open_partition_dir(copy.log_dir, self.partition) as directory,
            ThreadPoolExecutor(_AT_ONCE) as pool,
        ):
            files = _Changed(self, directory, copy)
            try:
                snapshots = tuple(map(files.snapshot, log.snapshot_offsets))
                segments = tuple(pool.map(files.segment, log.segments, ends))
            finally:
                pool.shutdown(cancel_futures=True)
            configs = copy.manifest.state.configs if self.configs is None else self.configs
            return state_of(log, directory, segments, snapshots, configs=configs)


class _Changed(Files):
    """The files of a working copy, of which only those are sent that were written since."""

    def __init__(self, upload: Maintenance, directory: OpenDir, copy: Copy) -> None:
        super().__init__(upload, directory, copy.manifest.state.files)
        self._copy = copy
        self._made = upload.made

    def file(self, name: str) -> StoredFile:
        """See `Files.file`."""
        with self.directory.open(name) as opened:
            size, modified_ns, inode = opened.seen
            made = self._made.get(name)
            if made is not None and made.bytes == size:
                return made
            now = Seen(size, modified_ns, opened.entry().changed_ns, inode)
            if now == self._copy.seen.get(name):
                return self.known[name][0]
            invariant(name not in self._copy.hollow, "what has no content was not changed")
            return self.send(name, opened)


def new_job(operation: str) -> str:
    """Return an id that no other job has."""
    return f"{operation}-{secrets.token_hex(8)}"


def _elapsed_ms() -> int:
    return int(time.monotonic() * 1000)
