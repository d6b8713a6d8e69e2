"""The log directory of a running broker as a place that can be read.

Each partition is looked at once in a session, all files of it at the same moment, and shown up to a
bound (`logwright.running.picture`). The offset checkpoints are read once, before the first of them.
Other files and directories are shown as they are. Whoever reads it takes it for a directory whose
broker was stopped.

For the latest state of a log (`exact`) the bound must be younger than the picture: a cleaner can
have removed a record because of a newer one that lies beyond an older bound, and the state would
show neither. That is so if the last stable offset has reached the active segment, which no cleaner
touches; else the high watermark must have been recorded twice since, for the first one may have
been taken before.
"""

from __future__ import annotations

import os
import time
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path, PurePosixPath
from threading import RLock
from typing import TYPE_CHECKING, ClassVar, Final

from logwright.batches.runtime import Throttle
from logwright.errors import (
    BatchAboveLimit,
    CorruptLogError,
    LogwrightError,
    NotALogDir,
    StalePlan,
    UnreadableFile,
    Unsettled,
    UnsupportedFormatError,
)
from logwright.format import names
from logwright.format.checkpoints import find_offset
from logwright.format.names import TopicPartition
from logwright.log.checkpoints import checkpoint_contents
from logwright.log.load import CLUSTER_METADATA_TOPIC, observe
from logwright.place.files import moved_out, open_log_dir
from logwright.place.local import entry_of, is_named
from logwright.place.model import Bytes, Entry, Place, ReadOnlyPlace, is_local
from logwright.running import watermark
from logwright.running.broker import broker_process
from logwright.running.bytes import HeldFile, MemoryBytes, RunningBytes, shown
from logwright.running.picture import (
    TRANSIENT,
    Again,
    Bound,
    Facts,
    Never,
    Picture,
    bounded,
    is_still_true,
    whole,
)
from logwright.running.root import Root, grows, is_there, passing, read_root
from logwright.running.snapshot import Snapshot, allow_descriptors, try_snapshot
from logwright.running.watermark import (
    Watermarks,
    no_next,
    read_watermarks,
    started_ns,
    wait_for_next,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

PATIENCE_SECONDS: Final = 40.0
"""How long a log may keep changing before it is refused."""
_RETRY_SECONDS: Final = 0.02
_SWAP_SECONDS: Final = 2.0
"""What is a ``.swap`` for longer than this is left over, and a file as others are where all are
shown.
"""
_SHOWS_CHANGES: Final = (CorruptLogError, UnsupportedFormatError, BatchAboveLimit, StalePlan)
"""Errors of what was read, which may come of a change meanwhile."""
_IN_A_LOG: Final = 2
"""Names below the log directory of a file of a log."""
_SHARE_OF_DESCRIPTORS: Final = 2
"""Pictures may hold this part of the descriptors that the process may have: one half."""


@dataclass(slots=True, kw_only=True)
class Session:
    """The running logs of one log directory, as one command, task or step sees them. For several
    threads.

    Attributes:
        log_dir: the directory.
        exact: the bounds are good for latest states.
        whole: all files are shown, with all whole batches (`logwright.running.picture.whole`).
        bytes_per_second: the most that is read from the disk.
    """

    log_dir: Path
    exact: bool = False
    whole: bool = False
    bytes_per_second: float = inf
    throttle: Throttle = field(init=False)
    _pictures: dict[str, Picture] = field(default_factory=dict)
    _unchecked: set[str] = field(default_factory=set)
    _readers: int = 0
    _checkpoints: dict[str, bytes] | None = None
    _root: Root | None = None
    _in_vain: tuple[int, int] | None = None
    _turn: RLock = field(default_factory=RLock)

    def __post_init__(self) -> None:
        self.throttle = Throttle(self.bytes_per_second)

    def __reduce__(self) -> tuple[Callable[..., Session], tuple[object, ...]]:
        """Another process looks for itself."""
        return _session, (self.log_dir, self.exact, self.whole, self.bytes_per_second)

    @property
    def place(self) -> RunningPlace:
        """The log directory."""
        return RunningPlace(PurePosixPath(self.log_dir), self)

    def another(self, *, exact: bool = False, whole: bool = False) -> Session:
        """Return a session that looks at the same logs again."""
        return _session(self.log_dir, exact, whole, self.bytes_per_second)

    @property
    def bounds(self) -> dict[str, Bound]:
        """The bound of each log that was looked at, by the name of its directory."""
        with self._turn:
            return {name: each.bound for name, each in self._pictures.items() if each.bound}

    def checkpoints(self) -> dict[str, bytes]:
        """Return the contents of the offset checkpoints, always the same. Effects: reads them,
        once.

        Raises:
            NotALogDir, UnreadableFile: see `checkpoint_contents`.
        """
        with self._turn:
            if self._checkpoints is None:
                self._checkpoints = checkpoint_contents(self.log_dir)
            return self._checkpoints

    def root(self) -> Root:
        """Return all that a whole log directory has, with the pictures of its directories made.
        Effects: looks at all of them, once.

        Raises:
            Unsettled: its directories keep changing; as `picture`.
        """
        with self._turn:
            if self._root is None:
                self._root = self._survey()
            return self._root

    def pictures(self) -> dict[str, Picture]:
        """Return the pictures of all directories, by name. Effects: as `root`."""
        with self._turn:
            self.root()
            return dict(self._pictures)

    def passing(self) -> list[str]:
        """Return the paths of the files that the broker was writing, or about to delete. Effects:
        as `root`.
        """
        return [
            f"{directory}/{name}"
            for directory, picture in self.pictures().items()
            for name in passing(directory, picture)
        ]

    def passing_still(self) -> list[str]:
        """Return those of `passing` that still are there. Effects: looks at them."""
        return [
            f"{directory}/{name}"
            for directory, picture in self.pictures().items()
            for name in passing(directory, picture)
            if is_there(picture, name)
        ]

    def picture(self, name: str) -> Picture:
        """Return the picture of a log by the name of its directory. Effects: makes it, once.

        Raises:
            NotALogDir: it does not exist.
            Unsettled: it keeps changing, or the broker records no usable high watermark.
            LogwrightError: a file cannot be read.
        """
        with self._turn:
            if name not in self._pictures:
                self.prepare([name])
            self._unchecked.add(name)
            return self._pictures[name]

    def prepare(self, directories: Iterable[str]) -> None:
        """Make the pictures of several logs, so that they wait together. Effects and errors: as
        `picture`.
        """
        with self._turn:
            self.checkpoints()
            missing = [name for name in directories if name not in self._pictures]
            for name in missing:
                self._make_room()
                self._pictures[name] = self._look(name)
            behind = [name for name in missing if self.exact and not self._is_exact(name)]
            if not behind:
                return
            try:
                self.renew(behind)
            except LogwrightError:
                for name in behind:
                    picture = self._pictures.pop(name, None)
                    if picture is not None:
                        picture.snapshot.close()
                raise

    def renew(self, directories: Iterable[str]) -> None:
        """Move the bounds of pictures to high watermarks that were recorded from now on. Effects:
        waits; errors: as `picture`.
        """
        with self._turn:
            for _ in range(2):  # the first one may have been taken before
                self._wait(read_watermarks(self.log_dir), "a younger one is needed")
            for name in directories:
                if name not in self._pictures:
                    continue
                again = self._bound(name, self._pictures[name].snapshot)
                if isinstance(again, Picture):
                    self._pictures[name] = again
                    self._require_reached(name)
                else:
                    del self._pictures[name]
                    self.prepare([name])

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Afterwards, require that what was read is still the logs' history. Effects: looks at the
        logs that were read.

        Raises:
            Unsettled: a log was truncated below its bound, or its files were cut.
        """
        with self._turn:
            self._readers += 1
        try:
            yield
            with self._turn:
                if self._readers == 1:
                    self._check(self._unchecked)
                    self._unchecked.clear()
        except BaseException as error:
            with self._turn:
                try:
                    if isinstance(error, _SHOWS_CHANGES):
                        self._check(set(self._unchecked))
                finally:
                    if self._readers == 1:
                        self._forget()
            raise
        finally:
            with self._turn:
                self._readers -= 1

    def _forget(self) -> None:
        """Look at all logs again the next time. The error that ended this reading refers to the
        session, and may live for long: it must not keep the files open.
        """
        self._root = None
        self._pictures.clear()
        self._unchecked.clear()

    def require_history(self, name: str) -> None:
        """Require now that what was read of a log is still its history, before it is written
        anywhere. Effects: looks at the log.

        Raises:
            Unsettled: as `reading`.
        """
        with self._turn:
            self._check({name} & self._unchecked)

    def _check(self, directories: set[str]) -> None:
        for name in sorted(directories):
            picture = self._pictures.get(name)
            if picture is not None and not is_still_true(picture):
                del self._pictures[name]
                raise Unsettled(
                    "the log was truncated while it was read.",
                    path=self.log_dir / name,
                    remedy="What was read is not its history any more. Run it again.",
                )

    def _survey(self) -> Root:
        deadline, gone = time.monotonic() + PATIENCE_SECONDS, set[str]()
        allow_descriptors()
        while True:
            root = read_root(self.log_dir)
            for name, inode in root.directories.items():
                known = self._pictures.get(name)
                if known is None or known.snapshot.entry.stamp.inode != inode:
                    self._pictures.pop(name, None)
                    try:
                        self.prepare([name])
                    except NotALogDir:
                        gone.add(name)
                    except UnreadableFile:
                        continue  # who lists it says why it cannot be read
            if read_root(self.log_dir).directories == root.directories:
                for name in self._pictures.keys() - root.directories.keys():
                    del self._pictures[name]
                return replace(root, gone=tuple(sorted(gone - root.directories.keys())))
            if time.monotonic() > deadline:
                raise Unsettled(
                    "its directories keep changing.", path=self.log_dir, remedy="Run it again."
                )

    def _look(self, name: str) -> Picture:
        """Return the picture of a log that holds still for a moment."""
        begun = time.monotonic()
        deadline = begun + PATIENCE_SECONDS
        while True:
            left = time.monotonic() > begun + _SWAP_SECONDS
            with open_log_dir(self.log_dir) as parent:
                snapshot = try_snapshot(
                    parent, name, self._is_wanted, swaps=self.whole and (left or not grows(name))
                )
            try:
                taken = snapshot if isinstance(snapshot, str) else self._bound(name, snapshot)
            except LogwrightError:
                if isinstance(snapshot, Snapshot):
                    snapshot.close()
                raise
            if isinstance(taken, Picture):
                return taken
            if time.monotonic() > deadline:
                raise Unsettled(
                    f"keeps changing: {taken}.", path=self.log_dir / name, remedy="Run it again."
                )
            time.sleep(_RETRY_SECONDS)

    def _is_wanted(self, name: str) -> bool:
        return self.whole or not name.endswith(TRANSIENT)

    def _bound(self, name: str, snapshot: Snapshot) -> Picture | Again:
        """Return the picture up to its bound. Effects: waits for a usable high watermark."""
        partition = TopicPartition.parse(name)
        if self.whole or partition is None or partition.topic == CLUSTER_METADATA_TOPIC:
            return whole(snapshot, self.throttle, grows=grows(name))
        start = find_offset(
            self.checkpoints().get(names.LOG_START_OFFSET_CHECKPOINT, b""), partition
        )
        deadline = time.monotonic() + watermark.PATIENCE_SECONDS
        while True:
            process = broker_process(self.log_dir)
            if process is None:
                raise Unsettled(
                    "the broker ended meanwhile.", path=self.log_dir, remedy="Run it again."
                )
            marks = read_watermarks(self.log_dir)
            facts = Facts(
                high_watermark=marks.offsets.get(partition),
                marks=marks,
                log_start_offset=start or 0,
                started_ns=started_ns(process),
            )
            taken = bounded(snapshot, facts, self.throttle)
            if isinstance(taken, Picture | Again):
                return taken
            if isinstance(taken, Never) or time.monotonic() > deadline:
                raise Unsettled(
                    f"the broker records no high watermark that can be its own: {taken}.",
                    path=self.log_dir / name,
                    remedy="Run it again when it serves the log, or after you stopped it.",
                )
            self._wait(marks, taken)
            with open_log_dir(self.log_dir) as parent:
                if not is_named(snapshot.directory.fd, parent, name):
                    return Again("the directory was renamed")

    def _wait(self, marks: Watermarks, why: str) -> None:
        """Wait for another checkpoint of the high watermarks than this; if it was waited for in
        vain before, not again: there may be thousands of logs. Effects and errors: as
        `wait_for_next`.
        """
        if marks.identity == self._in_vain:
            raise no_next(self.log_dir, why)
        try:
            wait_for_next(self.log_dir, marks.identity, why)
        except Unsettled:
            self._in_vain = marks.identity
            raise

    def _is_exact(self, name: str) -> bool:
        """Return whether no cleaner can have used what lies beyond the bound. Effects: reads the
        log's producers.
        """
        partition, picture = TopicPartition.parse(name), self._pictures[name]
        if partition is None or picture.bound is None:
            return True
        log = observe(self.place, partition, high_watermark="end")
        return log.last_stable_offset >= picture.active_base

    def _require_reached(self, name: str) -> None:
        """Require that the bound is not below what a cleaner used before the broker was killed: it
        begins again with the high watermark that it had recorded, and stays there while it lags or
        the partition has no leader. Effects: reads the log's producers.

        Raises:
            Unsettled: it is below.
        """
        partition = TopicPartition.parse(name)
        if partition is None or self._pictures[name].bound is None:
            return
        content = self.checkpoints().get(names.CLEANER_OFFSET_CHECKPOINT, b"")
        cleaned = find_offset(content, partition) or 0
        log = observe(self.place, partition, high_watermark="end")
        if log.last_stable_offset < cleaned:
            del self._pictures[name]
            raise Unsettled(
                f"was cleaned up to offset {cleaned}, and only {log.last_stable_offset} is known"
                " to be committed.",
                path=self.log_dir / name,
                remedy="Run it again when this replica is in sync, or read another one.",
            )

    def _make_room(self) -> None:
        """Forget the oldest pictures while they hold too many descriptors. They are checked."""
        most = allow_descriptors() // _SHARE_OF_DESCRIPTORS
        while sum(len(each.snapshot.files) + 1 for each in self._pictures.values()) > most:
            name = next(iter(self._pictures))
            self._check({name} & self._unchecked)
            self._unchecked.discard(name)
            del self._pictures[name]


def _session(log_dir: Path, exact: bool, whole: bool, rate: float) -> Session:  # noqa: FBT001 -- of pickle
    return Session(log_dir=log_dir, exact=exact, whole=whole, bytes_per_second=rate)


@dataclass(frozen=True, order=True)
class RunningPlace(ReadOnlyPlace):
    """A log directory that a broker has open, or something in it.

    Attributes:
        session: what was seen of it.
    """

    running: ClassVar[bool] = True
    session: Session = field(compare=False, repr=False)

    def not_shown(self) -> Iterable[tuple[str, str]]:
        """Yield what a rescue moved out of the directory. See `ReadOnlyPlace.not_shown`."""
        return moved_out(self.session.log_dir)

    def entry(self) -> Entry:
        """See `ReadOnlyPlace.entry`."""
        if self._is_in_root:
            entry = self.session.root().entries.get(self.name)
            if entry is None:
                raise FileNotFoundError(str(self))
            return entry
        checkpoint, picture = self._checkpoint(), self._picture_around()
        if checkpoint is not None:
            return shown(self._status(), self.name, len(checkpoint))
        if picture is not None:
            entry = picture.snapshot.others.get(self.name)
            if entry is not None:
                return entry
            if self.name in picture.empty:
                return shown(picture.empty[self.name], self.name, 0)
            return shown(self._held(picture).status, self.name, picture.sizes[self.name])
        return entry_of(self.name, self._status())

    def entries(self) -> list[Entry]:
        """See `ReadOnlyPlace.entries`."""
        parts = self._parts()
        if self.session.whole and not parts and self.pure == PurePosixPath(self.session.log_dir):
            return list(self.session.root().entries.values())
        if len(parts) == 1 and self._is_pictured(parts[0]):
            picture = self._picture(parts[0])
            files = picture.snapshot.files
            listed = [shown(files[name].status, name, size) for name, size in picture.sizes.items()]
            listed += [shown(status, name, 0) for name, status in picture.empty.items()]
            return [*listed, *picture.snapshot.others.values()]
        entries = []
        for name in os.listdir(self.pure):  # noqa: PTH208 -- names are enough
            try:
                entries.append(entry_of(name, os.lstat(self.pure / name)))
            except FileNotFoundError:
                continue
        return entries

    def open(self) -> Bytes:
        """See `ReadOnlyPlace.open`."""
        path, session = str(self), self.session
        if self._is_in_root and (kept := session.root().files.get(self.name)) is not None:
            return RunningBytes(kept, path, kept.status.st_size, session.throttle)
        checkpoint, picture = self._checkpoint(), self._picture_around()
        if checkpoint is not None:
            return MemoryBytes(checkpoint, path, self._status())
        if picture is not None and self.name in picture.empty:
            return MemoryBytes(b"", path, picture.empty[self.name])
        if picture is not None:
            held = self._held(picture)
            return RunningBytes(held, path, picture.sizes[self.name], self.session.throttle)
        held = HeldFile(path, None, path)
        return RunningBytes(held, path, held.status.st_size, self.session.throttle)

    def reading(self) -> AbstractContextManager[None]:
        """See `ReadOnlyPlace.reading`."""
        return self.session.reading()

    def _parts(self) -> tuple[str, ...]:
        """Return its names below the log directory; none for what is not below it."""
        root = PurePosixPath(self.session.log_dir)
        return self.pure.relative_to(root).parts if self.pure.is_relative_to(root) else ()

    @property
    def _is_in_root(self) -> bool:
        """Whether it is an entry of a root that is shown as it was at one moment."""
        return self.session.whole and len(self._parts()) == 1

    def _status(self) -> os.stat_result:
        return os.lstat(self.pure)

    def _checkpoint(self) -> bytes | None:
        """Return the content of an offset checkpoint, None if it is something else."""
        parts = self._parts()
        return self.session.checkpoints().get(parts[0]) if len(parts) == 1 else None

    def _picture_around(self) -> Picture | None:
        """Return the picture of the log whose directory this is in; None if it is in none."""
        names_below = self._parts()
        if len(names_below) != _IN_A_LOG or not self._is_pictured(names_below[0]):
            return None
        return self._picture(names_below[0])

    def _is_pictured(self, name: str) -> bool:
        """Return whether a directory is shown as a picture."""
        return self.session.whole or TopicPartition.parse(name) is not None

    def _picture(self, name: str) -> Picture:
        """Return the picture of a log.

        Raises:
            FileNotFoundError: it does not exist.
        """
        try:
            return self.session.picture(name)
        except NotALogDir as error:
            raise FileNotFoundError(str(self)) from error

    def _held(self, picture: Picture) -> HeldFile:
        """Return the file of this name.

        Raises:
            FileNotFoundError, IsADirectoryError: there is none that is shown.
        """
        if self.name in picture.snapshot.others:
            raise IsADirectoryError(str(self))
        if self.name not in picture.sizes:
            raise FileNotFoundError(str(self))
        return picture.snapshot.files[self.name]


def as_it_runs(
    place: Place, *, exact: bool = False, whole: bool = False, bytes_per_second: float = inf
) -> Place:
    """Return a log directory for reading: if a broker has it open, as a `RunningPlace`; any other
    as it is. Effects: asks for the broker's lock.

    Args:
        exact, whole, bytes_per_second: see `Session`.

    Raises:
        UnreadableFile: the broker's lock file may not be read.
    """
    if not is_local(place):
        return place
    try:
        process = broker_process(place)
    except NotALogDir:
        return place
    if process is None:
        return place
    log_dir = Path(os.path.abspath(place))  # noqa: PTH100 -- resolve() would follow symlinks
    return _session(log_dir, exact, whole, bytes_per_second).place


def look_at(place: Place, directories: Iterable[str]) -> None:
    """Look at several logs together, by the names of their directories, so that they wait together;
    nothing is done in a place that is not running. Effects and errors: as `Session.prepare`.
    """
    if isinstance(place, RunningPlace):
        place.session.prepare(directories)


def exactly(place: Place) -> Place:
    """Return a place so that its latest states can be read: of a running directory a new session
    that is `exact`; any other as it is. Pure.
    """
    if not isinstance(place, RunningPlace):
        return place
    session = place.session
    return _session(session.log_dir, True, session.whole, session.bytes_per_second).place  # noqa: FBT003 -- as of pickle


def watermarks_recorded_ms(place: Place) -> int:
    """Return when the broker of a running directory last recorded its high watermarks, ms since the
    epoch; -1 if it has not, or none runs. Effects: looks at the checkpoint.
    """
    if not isinstance(place, RunningPlace):
        return -1
    try:
        status = (place.session.log_dir / names.HIGH_WATERMARK_CHECKPOINT).lstat()
    except OSError:
        return -1
    return status.st_mtime_ns // 1_000_000


def bounds_of(place: Place) -> dict[str, Bound]:
    """Return the bound of each running log that was looked at, by the name of its directory; none
    of another place. Pure.
    """
    return place.session.bounds if isinstance(place, RunningPlace) else {}
