"""The state of a log directory in a bucket: numbered objects ``state/<20 digits>``, next to its
partitions, of which the newest counts.

::

    {"format":1,"version":3,"operation":"…"}
    <the state file of a log directory, see `logwright.state.file`>
    <SHA-256 of all lines above, in hexadecimal digits>

They are written by the rules of `logwright.bucket.commit`: to change the state is to create the
next version, and any answer but yes is settled by reading what is there (2); who comes later makes
the change again from the newest (2); after an unclear end nothing is deleted (5); an attempt has a
deadline (6); a version goes once it was replaced as long ago as the age, the newest never (7).

An operation is one call, and not a job (3): one that is made again pauses, resumes or counts a
failure again, as in a log directory. It is untrusted input. One that is not of this form is refused
by name: to take an earlier version for it, or none, could mean to clean a paused log.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from logwright.bucket.commit import (
    Absent,
    Collect,
    Create,
    Delete,
    Get,
    Limits,
    Requests,
    created,
    elapsed,
    listed,
    newest_of,
    server_ms,
    sure,
    within,
)
from logwright.bucket.manifest import STATES
from logwright.bucket.stored import OffsetField
from logwright.errors import UnreadableFile, invariant

_DIGEST: Final = re.compile(rb"[0-9a-f]{64}\n")
_DIGEST_BYTES: Final = 65


class _Head(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
    format: Literal[1]
    version: OffsetField
    operation: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,100}$")]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredState:
    """One version of the state of a log directory.

    Attributes:
        version: counted from 0.
        operation: what made it.
        content: of a state file.
    """

    version: int
    operation: str
    content: bytes

    @property
    def key(self) -> str:
        """Its key, below the log directory."""
        return state_key(self.version)


Change = Callable[[StoredState | None], bytes]
"""Makes the next content from the newest version."""


def state_key(version: int) -> str:
    """Return the key of a version, below the log directory."""
    return f"{STATES}{version:020d}"


def serialize_stored(state: StoredState) -> bytes:
    """Return the object's content."""
    head = _Head(format=1, version=state.version, operation=state.operation)
    body = head.model_dump_json().encode() + b"\n" + state.content
    return body + hashlib.sha256(body).hexdigest().encode() + b"\n"


def parse_stored(content: bytes, version: int) -> StoredState:
    """Parse a version.

    Raises:
        UnreadableFile: it is not whole, not of the form above, or another version.
    """
    body, digest = content[:-_DIGEST_BYTES], content[-_DIGEST_BYTES:]
    whole = _DIGEST.fullmatch(digest) and hashlib.sha256(body).hexdigest().encode() == digest[:-1]
    if not whole:
        raise _refused("its checksum does not match", version)
    first, newline, state = body.partition(b"\n")
    try:
        head = _Head.model_validate_json(first)
    except ValidationError as error:
        raise _refused("its first line is malformed, or of another format", version) from error
    if not newline or head.version != version:
        raise _refused(f"it says that it is version {head.version}", version)
    return StoredState(version=version, operation=head.operation, content=state)


def read_stored(version: int) -> Requests[StoredState | None]:
    """Return a version, None if there is none.

    Raises:
        Unsettled: the bucket does not answer. UnreadableFile: see `parse_stored`.
    """
    answer = yield from sure(Get(state_key(version)))
    if isinstance(answer, Absent):
        return None
    invariant(isinstance(answer.value, bytes), "an object is bytes")
    return parse_stored(answer.value, version)  # type: ignore[arg-type]  # as the invariant says


def newest_stored(after: int = -1) -> Requests[StoredState | None]:
    """Return the newest version, None if there is none. Errors: see `read_stored`."""
    return (yield from newest_of(STATES, read_stored, after))


def change_stored(change: Change, limits: Limits, operation: str) -> Requests[StoredState]:
    """Change the state; return the version that has the change: a new one, even if it is like the
    one before. Else a request that was sent earlier, and arrives later, could take its place.

    Args:
        change: see there; it is called again when another operation was first.
        limits: of the log directory.
        operation: of this call alone.

    Raises:
        TooLate: it has taken too long. Whether it is in is not known.
        Unsettled: the bucket does not answer. As `TooLate`.
        UnreadableFile: the newest version is not one. Nothing was changed.
        LogwrightError: as `change`.
    """
    started_ms = yield from elapsed()
    base = yield from newest_stored()
    while True:
        version = 0 if base is None else base.version + 1
        state = StoredState(version=version, operation=operation, content=change(base))
        winner = yield from created(
            Create(state.key, serialize_stored(state)),
            lambda version=version: read_stored(version),  # type: ignore[misc]  # of this turn
            lambda: within(limits, started_ms),
        )
        if winner is None or winner.operation == operation:
            return state
        base = yield from newest_stored(version - 1)


def collect_stored(limits: Limits, *, removes: bool) -> Requests[tuple[int, ...]]:
    """Return the versions that are not needed any more, ascending: replaced as long ago as the age,
    by the server's clock. Removes them with `removes`.

    Raises:
        Unsettled: the bucket does not answer. What is removed was to be.
    """
    entries = yield from listed(STATES)
    if len(entries) <= limits.kept_versions:
        return ()
    _, old = Collect(limits).versions(entries, (yield from server_ms()))
    for version in old if removes else ():
        yield from sure(Delete(state_key(version)))
    return old


def _refused(what: str, version: int) -> UnreadableFile:
    return UnreadableFile(
        f"it is not a state of a log directory: {what}.",
        path=state_key(version),
        remedy="What is paused is not known, so nothing is done. Restore the object; or remove it:"
        " the state before it counts then.",
    )
