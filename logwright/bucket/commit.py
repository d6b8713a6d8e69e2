"""How several writers change one partition in a bucket, and no change is lost or made twice.

The state of a partition is its newest manifest (`logwright.bucket.manifest`). All is written here
as generators that yield requests and are sent answers: who drives them decides what a request is
made of (`logwright.bucket.store`; in the tests a store in memory, with faults).

1. Data first, each object under a name that no other writing has, ever (`data_key`): it may be
   written again at will, and be deleted again at will.
2. To commit is to create the manifest of the next version. Any answer but yes settles nothing: it
   may be in, come later, or be another's. So the manifest is read: it is of this operation, and all
   is done; or of another, and the change is made again from the newest; or absent, and the same
   bytes are sent again. Never is a version left before it is settled: then a late copy of a request
   does no harm.
3. An operation has the id of its job, not of the attempt: one that is started again finds itself
   among the last operations of the newest manifest. It is refused if it is older than those.
4. A change names what it replaces by keys, and is refused (`Conflict`) if one is gone.
5. After an unclear end nothing is deleted, not even what this writer wrote.
6. A writer has `Limits.deadline_ms` from its first request on; then a new attempt begins. What is
   not named is removed only after `Limits.age_ms`, which is more than that and the longest life of
   a request in a network together.
7. What is removed: data is listed before the manifests; the newest manifests are kept, and all that
   were replaced by another one less than the age ago; the other manifests go, the oldest first;
   then data that no kept one names, and that is older than the age. So a version that is there has
   all of its objects.
8. Ages are of the server's clock (`Clock`), deadlines of the writer's own (`Elapsed`).
9. Who reads takes the newest manifest, then its objects; one that is gone says that the manifest is
   not the newest any more.
10. The newest manifest is found by listing their names; the names of data are not listed to read.
11. Erasures are counted (`logwright.bucket.manifest.Erased`). A change that was planned before the
   newest one is refused (`ErasedSince`): what it writes may be what was erased. An erasure that
   finds nothing is counted, too, where objects lie that no version names: a writer may be about to
   name them. If there is no version, it makes one, of an empty log.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, Generic, TypeAlias, TypeVar

from logwright.bucket.manifest import (
    MANIFESTS,
    MOST_OPERATIONS,
    Erased,
    LogState,
    Manifest,
    erased_in,
    following,
    manifest_key,
    parse_manifest,
    serialize_manifest,
    version_of,
)
from logwright.bucket.stored import DATA
from logwright.errors import PreconditionError, Unsettled, invariant
from logwright.units import DurationMs

_T = TypeVar("_T")
_MOST_TRIES: Final = 30
"""What may be done again is given up after this number of tries without an answer."""


@dataclass(frozen=True, slots=True)
class List:
    """All objects below a prefix, by name and with the server's time of their last change; of an
    `after` those whose key is larger. The answer is a tuple of `Listed`.
    """

    prefix: str
    after: str | None = None


@dataclass(frozen=True, slots=True)
class Get:
    """The content of an object."""

    key: str


@dataclass(frozen=True, slots=True)
class Put:
    """An object under a name of its own."""

    key: str
    content: bytes


@dataclass(frozen=True, slots=True)
class Create:
    """An object, unless there is one of this name."""

    key: str
    content: bytes


@dataclass(frozen=True, slots=True)
class Delete:
    """An object is removed, if there is one."""

    key: str


@dataclass(frozen=True, slots=True)
class Clock:
    """What the server's clock shows, or showed a moment ago, ms since the epoch."""


@dataclass(frozen=True, slots=True)
class Elapsed:
    """What a clock of this process shows that only runs forward, ms."""


Request: TypeAlias = List | Get | Put | Create | Delete | Clock | Elapsed


@dataclass(frozen=True, slots=True)
class Listed:
    """An object; `modified_ms`: ms since the epoch, by the server's clock."""

    key: str
    modified_ms: int


@dataclass(frozen=True, slots=True)
class Yes(Generic[_T]):
    """It is done; with what was asked for."""

    value: _T


@dataclass(frozen=True, slots=True)
class Absent:
    """There is no such object."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """Anything else: no answer, an error, a refusal. It may be done, or be done later."""


Answer: TypeAlias = Yes[object] | Absent | Unknown
Requests: TypeAlias = Generator[Request, Answer, _T]


class Conflict(PreconditionError):
    """What a change was planned on was changed by another operation."""


class ErasedSince(Conflict):
    """Records were erased from the log after a change of it was planned."""


class TooLate(PreconditionError):
    """An attempt has taken too long; a new attempt of the same operation may follow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What all writers of a log directory agree on.

    Attributes:
        deadline_ms: an attempt is given up after this time.
        age_ms: what no kept manifest names is removed after this time.
        kept_versions: how many of the newest manifests are kept, whatever their age.
    """

    deadline_ms: DurationMs
    age_ms: DurationMs
    kept_versions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One attempt of a job.

    Attributes:
        id: of the job, the same in each attempt.
        attempt: another number in each.
        planned_version: the newest version when the job was planned; -1: there was none.
        written_ms: for the manifest.
        erasures: how many the version had on which the job was planned; rule 11.
    """

    id: str
    attempt: int
    planned_version: int
    written_ms: int
    erasures: int = 0


Change: TypeAlias = Callable[[Manifest | None], Requests[LogState]]
"""Makes the new state from the newest manifest, and the objects that it names; raises `Conflict`.
It is called again when another operation was first."""


def data_key(operation: Operation, number: int, suffix: str) -> str:
    """Return a name that no other object has, of any attempt of any operation."""
    return f"{DATA}{operation.id}-{operation.attempt}-{number}{suffix}"


def sure(request: Request) -> Requests[Yes[object] | Absent]:
    """Ask until there is an answer: for what may be done twice.

    Raises:
        Unsettled: there is none.
    """
    for _ in range(_MOST_TRIES):
        answer = yield request
        if not isinstance(answer, Unknown):
            return answer
    raise Unsettled("the bucket does not answer.", remedy="Run it again when it does.")


def listed(prefix: str, after: str | None = None) -> Requests[tuple[Listed, ...]]:
    """Return the objects below a prefix; see `sure`."""
    answer = yield from sure(List(prefix, after))
    invariant(isinstance(answer, Yes) and isinstance(answer.value, tuple), "a list is a tuple")
    return answer.value  # type: ignore[union-attr, return-value]  # as the invariant says


def read_manifest(version: int) -> Requests[Manifest | None]:
    """Return a version, None if there is none.

    Raises:
        Unsettled: see `sure`. CorruptLogError, UnsupportedFormatError: see `parse_manifest`.
    """
    key = manifest_key(version)
    answer = yield from sure(Get(key))
    if isinstance(answer, Absent):
        return None
    invariant(isinstance(answer.value, bytes), "an object is bytes")
    return parse_manifest(answer.value, key)  # type: ignore[arg-type]  # as the invariant says


def newest(after: int = -1) -> Requests[Manifest | None]:
    """Return the newest version, None if there is none. Errors: see `read_manifest`.

    Args:
        after: a version before the newest one, if one is known: the list is shorter.
    """
    return (yield from newest_of(MANIFESTS, read_manifest, after))


def newest_of(
    prefix: str, read: Callable[[int], Requests[_T | None]], after: int = -1
) -> Requests[_T | None]:
    """Return the newest of some numbered objects, None if there is none. Errors: as `read`.

    Args:
        prefix: of their keys.
        read: reads one of them by its number.
        after: see `newest`.
    """
    key = f"{prefix}{after:020d}" if after >= 0 else None
    while True:
        entries = yield from listed(prefix, key)
        versions = [version_of(entry.key) for entry in entries]
        known = [version for version in versions if version is not None]
        if not known and key is None:
            return None
        if known:
            latest = yield from read(max(known))
            if latest is not None:
                return latest
        key = None


def created(
    request: Create,
    read: Callable[[], Requests[_T | None]],
    require_time: Callable[[], Requests[None]],
) -> Requests[_T | None]:
    """Create a numbered object, by rule 2; return None if it is in by this request, else what has
    its place, of whichever operation.

    Args:
        request: sent again, the same, until it is settled.
        read: reads what has its place, None if nothing has.
        require_time: ends an attempt that has taken too long.
    """
    while True:
        yield from require_time()
        answer = yield request
        if isinstance(answer, Yes):
            return None
        winner = yield from read()
        if winner is not None:
            return winner


def elapsed() -> Requests[int]:
    """Return what a clock of this process shows, ms."""
    return (yield from _number(Elapsed()))


def within(limits: Limits, started_ms: int) -> Requests[None]:
    """Give up once the deadline of an attempt has passed.

    Raises:
        TooLate: it has.
    """
    if (yield from elapsed()) - started_ms > limits.deadline_ms:
        raise TooLate(
            f"the attempt has taken longer than {limits.deadline_ms} ms.",
            remedy="Run it again: it finds out whether it is in.",
        )


class Commit:
    """One attempt to change a partition; `run` is all of it."""

    def __init__(
        self,
        operation: Operation,
        change: Change,
        limits: Limits,
        *,
        started_ms: int | None = None,
        erased: Callable[[Manifest | None], Erased] = erased_in,
    ) -> None:
        """Prepare an attempt.

        Args:
            operation, change, limits: see the classes.
            erased: makes what was erased in the new version from the newest one.
            started_ms: the answer to `Elapsed` when the first data was written, if that is done
                before and not by the change.
        """
        self.operation = operation
        self.change = change
        self.limits = limits
        self.erased = erased
        self._started_ms = started_ms

    def run(self) -> Requests[int]:
        """Return the version that has the change; if an earlier attempt has made it, that one.

        Raises:
            Conflict: the change is not possible any more. Nothing was changed by this attempt.
            TooLate: it has taken too long. Whether it is in is not known: begin a new attempt.
            Unsettled: the bucket does not answer. As `TooLate`.
        """
        if self._started_ms is None:
            self._started_ms = yield from elapsed()
        base = yield from newest()
        while True:
            done = self.made(base)
            if done is not None:
                return done
            manifest = yield from self.prepared(base)
            winner = yield from self.settled(manifest)
            if winner.operation == self.operation.id:
                return winner.version
            base = yield from newest(manifest.version - 1)

    def made(self, base: Manifest | None) -> int | None:
        """Return the version that this operation made before.

        Raises:
            Conflict: too many operations followed: this is not known any more.
        """
        planned = self.operation.planned_version
        if base is None:
            return None
        version = base.version_of(self.operation.id)
        if version is None and base.version - planned >= MOST_OPERATIONS:
            raise Conflict(
                f"the operation was planned on version {planned}, and {base.version} is the newest:"
                " whether it is in is not known any more.",
                remedy="Plan it again.",
            )
        return version

    def prepared(self, base: Manifest | None) -> Requests[Manifest]:
        """Return the manifest that is to follow; its objects are written.

        Raises:
            ErasedSince: rule 11. Conflict: as the change.
        """
        operation = self.operation
        if erased_in(base).number != operation.erasures:
            raise ErasedSince(
                "records were erased from the log since this was planned.",
                remedy="Nothing was changed. Run it again.",
            )
        state = yield from self.change(base)
        return following(
            base,
            state,
            operation=operation.id,
            attempt=operation.attempt,
            written_ms=operation.written_ms,
            erased=self.erased(base),
        )

    def settled(self, manifest: Manifest) -> Requests[Manifest]:
        """Create a version; return the manifest that has its place, of whichever operation."""
        winner = yield from created(
            Create(manifest_key(manifest.version), serialize_manifest(manifest)),
            lambda: read_manifest(manifest.version),
            self.require_time,
        )
        return manifest if winner is None else winner

    def require_time(self) -> Requests[None]:
        """Give up once the deadline has passed."""
        yield from within(self.limits, self._started_ms or 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """What was removed, or would be now.

    Attributes:
        data: keys of data that no kept manifest names.
        versions: manifests.
        waiting: data that the newest version does not name and that stays for now: key → when it is
            due, ms since the epoch by the server's clock. Later, if another version names it then.
    """

    data: tuple[str, ...]
    versions: tuple[int, ...]
    waiting: Mapping[str, int] = field(default_factory=dict)


class Collect:
    """One removal of what no version needs any more; `run` is all of it."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits

    def run(self) -> Requests[Collected]:
        """Return what was removed; nothing if another removal is at work.

        Raises:
            Unsettled: the bucket does not answer. What is removed was to be.
            CorruptLogError, UnsupportedFormatError: a manifest cannot be read; nothing is removed.
        """
        looked = yield from self.look()
        for version in looked.versions:
            yield from sure(Delete(manifest_key(version)))
        for key in looked.data:
            yield from sure(Delete(key))
        return looked

    def look(self) -> Requests[Collected]:
        """Return what is to be removed; nothing if a removal is at work. Errors: as `run`."""
        now = yield from server_ms()
        data = yield from listed(DATA)
        entries = yield from listed(MANIFESTS)
        kept, old = self.versions(entries, now)
        replaced = _replaced_ms(entries)
        named: dict[str, int | None] = {}
        """Key → when the last version that names it was replaced; None: it is the newest."""
        for version in kept:
            manifest = yield from read_manifest(version)
            if manifest is None:
                return Collected(data=(), versions=())
            named |= dict.fromkeys(manifest.state.keys(), replaced.get(version))
        gone = tuple(
            entry.key for entry in data if entry.key not in named and self.is_old(entry, now)
        )
        waiting = {
            entry.key: max(entry.modified_ms, named.get(entry.key) or 0) + self.limits.age_ms
            for entry in data
            if entry.key not in gone and named.get(entry.key, 0) is not None
        }
        return Collected(data=gone, versions=old, waiting=waiting)

    def versions(
        self, entries: tuple[Listed, ...], now: int
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the versions that are kept, and those that are not, ascending."""
        replaced = _replaced_ms(entries)
        every = sorted(v for entry in entries if (v := version_of(entry.key)) is not None)
        newest_ones = set(every[-self.limits.kept_versions :])
        old = tuple(
            version
            for version in every
            if version not in newest_ones and now - replaced[version] > self.limits.age_ms
        )
        return tuple(sorted(set(every) - set(old))), old

    def is_old(self, entry: Listed, now: int) -> bool:
        """Return whether no writer can be about to name it, or to read it."""
        return now - entry.modified_ms > self.limits.age_ms


def _replaced_ms(entries: tuple[Listed, ...]) -> dict[int, int]:
    """Return when each version was replaced by the next one, of those that were."""
    made = sorted(
        (version, entry.modified_ms)
        for entry in entries
        if (version := version_of(entry.key)) is not None
    )
    return {version: later for (version, _), (_, later) in pairwise(made)}


def unnamed_data() -> Requests[bool]:
    """Return whether there is data that no version names: a writer may be about to name it.

    Raises:
        Unsettled, CorruptLogError, UnsupportedFormatError: see `read_manifest`.
    """
    data = {entry.key for entry in (yield from listed(DATA))}
    for entry in (yield from listed(MANIFESTS)) if data else ():
        version = version_of(entry.key)
        manifest = None if version is None else (yield from read_manifest(version))
        data -= set() if manifest is None else manifest.state.keys()
    return bool(data)


def server_ms() -> Requests[int]:
    """Return what the server's clock shows, ms since the epoch."""
    return (yield from _number(Clock()))


def _number(request: Clock | Elapsed) -> Requests[int]:
    answer = yield from sure(request)
    invariant(isinstance(answer, Yes) and isinstance(answer.value, int), "a time is a number")
    return answer.value  # type: ignore[union-attr, return-value]  # as the invariant says
