"""What a page of cases shows, as values. A key is in none of them; an HMAC is only with a
certificate, which has it too.

Times are ms since the epoch (UTC).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, get_args

from logwright.erasure.certificate.model import State
from logwright.erasure.outlook.removals import DELETE_RETENTION

if TYPE_CHECKING:
    from logwright.erasure.account import Deed
    from logwright.erasure.certificate.model import Certificate
    from logwright.erasure.find.model import Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A request and what became of it.

    Attributes:
        id: its name in the operator's system, or the line of a key that was given in clear.
        topics: a topic, or a pattern with ``regex:`` before it.
        received_at_ms, deadline_ms: None: not given.
        found: number of records that were found.
        gone_by_ms: when the last of them is gone; None: nothing was found, or never.
        why: what the state rests on, empty if on what was found.
        deeds: what is on record, the last one last.
        hmac: of the key, in hex; empty: not shown.
    """

    id: str
    topics: str
    received_at_ms: int | None
    deadline_ms: int | None
    state: State
    found: int
    gone_by_ms: int | None
    why: str
    deeds: tuple[Deed, ...] = ()
    hmac: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """Records that remain in a place: a log's files of one kind, or a table.

    Attributes:
        directory: number of the directory, from 0.
        log: topic and partition; empty: not known.
        place: what the files are, as `logwright.erasure.find.model.Finding` has it.
        kinds: number of records by what a cleaner sees in them.
        files: that have them. stays: an erasure at once leaves one of them.
        rules: what removes them; nothing is among them as an empty one.
        gone_by_ms: when the last one is gone, None: never, or not known.
    """

    directory: int
    log: str
    place: str
    kinds: Mapping[Kind, int]
    files: tuple[str, ...]
    stays: bool
    rules: tuple[str, ...]
    gone_by_ms: int | None

    @property
    def name(self) -> str:
        """The place, by what it is and of which log."""
        return place_name(self.place, self.log)

    @property
    def waits(self) -> bool:
        """Whether only tombstones remain whose cleaning is not foreseen."""
        return self.gone_by_ms is None and set(self.rules) == {DELETE_RETENTION}

    @property
    def records(self) -> int:
        """Number of records."""
        return sum(self.kinds.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Unread:
    """Something that can hold records of a case and was not searched.

    Attributes:
        where: path, table or brokers. topic: whose records can be there, empty: any.
    """

    where: str
    topic: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Directory:
    """A directory or table that was searched. `files`: None: they were not counted."""

    path: str
    files: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Signed:
    """The certificate of a page, and the file that has it."""

    certificate: Certificate
    file_name: str
    file_sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Certified:
    """The last certificate of a request: its file, and what it says.

    Attributes:
        topics: of the request then. issued_at_ms: when it was made.
    """

    path: str
    sha256: str
    topics: str
    state: State
    issued_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CasePage:
    """All of a page.

    Attributes:
        now_ms: the clock of the search.
        cases: at least one.
        left: in the order of the directories. patterns: records with a byte pattern, in others'.
        signed: None: no certificate was made of this search.
        last: without one, the last certificate of a single case.
    """

    now_ms: int
    version: str
    cases: tuple[Case, ...]
    directories: tuple[Directory, ...]
    left: tuple[Left, ...]
    unread: tuple[Unread, ...]
    patterns: int = 0
    signed: Signed | None = None
    last: Certified | None = None

    @property
    def is_certified(self) -> bool:
        """Whether a certificate says of the worst case what the page says."""
        return self.signed is not None or (
            self.last is not None
            and (self.last.state, self.last.topics) == (self.worst.state, self.worst.topics)
        )

    @property
    def worst(self) -> Case:
        """The case that needs attention first."""
        return min(self.cases, key=urgency)


def place_name(place: str, log: str) -> str:
    """Return the name of a place: what it is, and of which log; empty: not known."""
    return f"{place} of {log or 'no known log'}"


def urgency(case: Case) -> tuple[int, int, str]:
    """Return what cases are sorted by: the worst state, then the first deadline."""
    return get_args(State).index(case.state), case.deadline_ms or 0, case.id
