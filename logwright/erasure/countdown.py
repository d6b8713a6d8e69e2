"""How long requests have until their deadlines, by topic and by log. Pure, but for the file.

A search of all log directories makes it; sensors and pages read it until the next search. It has
counts and times, no keys and no HMACs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Final, Literal, get_args

from pydantic import TypeAdapter, ValidationError

from logwright import durable
from logwright.erasure.account import Account
from logwright.erasure.certificate.deadlines import (
    CLOSED,
    Verdict,
    next_deadline_ms,
    verdict,
)
from logwright.erasure.certificate.files import read_small
from logwright.erasure.concerned import Concerned
from logwright.erasure.find.model import Finding
from logwright.erasure.request import Request
from logwright.errors import UnreadableFile

NEVER: Final = -1
MOST_BYTES: Final = 64 * 1024 * 1024
UNMATCHED: Final = ""
"""In the place of a topic: requests whose topics match no log, and records of unknown topics."""
NOTHING_SEARCHED: Final = Account(unsearched=("",))
"""The account of a search that has given none."""
Worst = Literal["missed", "will be late", "not proved", "in time", "not found", "gone"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCountdown:
    """What remains in one log, and until when it may.

    Attributes:
        directory: name of the log directory.
        live, superseded, tombstones, aborted, values: records by kind.
        deadline_ms: the first deadline of the requests that have a record in it.
        gone_by_ms: when the last record is gone by itself, `NEVER` if never.
        missed, late: records whose deadline has passed, or will before they are gone.
    """

    directory: str
    topic: str
    partition: int
    live: int
    superseded: int
    tombstones: int
    aborted: int
    values: int
    deadline_ms: int
    gone_by_ms: int
    missed: int
    late: int

    @property
    def records(self) -> int:
        """All records that remain."""
        return self.live + self.superseded + self.tombstones + self.aborted + self.values


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicCountdown:
    """What the requests of one topic are waiting for.

    Attributes:
        requests: that name the topic or match it.
        open: of these, those of which something remains in it, or may.
        records: that remain.
        next_deadline_ms: to come, of open requests; `NEVER` if there is none.
        gone_by_ms: when the last record is gone by itself, `NEVER` if never or if none is left.
        missed, late: requests whose deadline has passed, or will before all is gone.
        not_proved: requests of which something may remain where was not searched; past_not_proved:
            those whose deadline has passed.
        state: the worst of all requests.
    """

    topic: str
    requests: int
    open: int
    records: int
    next_deadline_ms: int
    gone_by_ms: int
    missed: int
    late: int
    state: Worst
    not_proved: int = 0
    past_not_proved: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Countdown:
    """The result of one search.

    Attributes:
        looked_ms: when it was made.
        requests: in the store; gone: those that are, everywhere; not_found: those of which nothing
            is on record.
        records: that remain.
        not_read: places that were not searched.
        topics: sorted by the next deadline; logs: those with records, by their deadline.
    """

    looked_ms: int
    requests: int = 0
    gone: int = 0
    not_found: int = 0
    records: int = 0
    not_read: int = 0
    topics: tuple[TopicCountdown, ...] = ()
    logs: tuple[LogCountdown, ...] = ()

    @property
    def missed(self) -> tuple[TopicCountdown, ...]:
        """Topics with a deadline that has passed while something remains, or may."""
        return tuple(one for one in self.topics if one.missed or one.past_not_proved)

    @property
    def late(self) -> tuple[TopicCountdown, ...]:
        """Topics with a deadline to come that is not met by itself, or that may not be."""
        return tuple(one for one in self.topics if one.late or one.not_proved)


@dataclass(slots=True)
class _Counts:
    """Sums of one log's records."""

    kinds: dict[str, int] = field(default_factory=dict)
    deadlines: list[int] = field(default_factory=list)
    gone_by: list[int | None] = field(default_factory=list)
    missed: int = 0
    late: int = 0


def count_down(
    requests: Sequence[Request],
    found: Mapping[str, Sequence[Finding]],
    topics: Iterable[str],
    *,
    now_ms: int,
    account: Account = NOTHING_SEARCHED,
) -> Countdown:
    """Return the countdown.

    Args:
        requests: in the order in which findings number them.
        found: name of log directory → findings.
        topics: all topics of the log directories.
        now_ms: the clock.
        account: of the search; without one nothing counts as searched.
    """
    account = replace(account, topics=account.topics.union(topics))
    records = [(name, one) for name, rows in found.items() for one in rows if one.request >= 0]
    concerned = Concerned([(one.hmac, one.topics) for one in requests])
    left: dict[int, list[int | None]] = {}
    by_topic: dict[tuple[str, int], list[int | None]] = {}
    for _, one in records:
        for number in concerned.by(one.request, one.topic):
            left.setdefault(number, []).append(one.gone_by_ms)
            by_topic.setdefault((one.topic, number), []).append(one.gone_by_ms)
    states = [
        verdict(
            left.get(number, []),
            one.deadline_ms,
            now_ms=now_ms,
            look=account.look(one.topics, one.hmac.hex()),
        ).state
        for number, one in enumerate(requests)
    ]
    return Countdown(
        looked_ms=now_ms,
        requests=len(requests),
        gone=states.count("gone"),
        not_found=states.count("not found"),
        records=len(records),
        not_read=len(account.unsearched),
        topics=tuple(sorted(_rows(requests, by_topic, account, now_ms), key=_urgency)),
        logs=_logs(requests, concerned, records, now_ms),
    )


def _rows(
    requests: Sequence[Request],
    found: Mapping[tuple[str, int], Sequence[int | None]],
    account: Account,
    now_ms: int,
) -> Iterator[TopicCountdown]:
    """Yield what each topic's requests are waiting for; those that match no topic, and records of
    unknown topics, are of `UNMATCHED`.
    """
    for topic in sorted({UNMATCHED, *account.topics, *(topic for topic, _ in found)}):
        verdicts = []
        for number, one in enumerate(requests):
            here = found.get((topic, number), ())
            if topic != UNMATCHED:
                look = account.of_topic(topic, one.hmac.hex())
                concerns = bool(here) or one.applies_to(topic)
                here = (*here, *found.get((UNMATCHED, number), ()))
            else:
                look = account.look(one.topics, one.hmac.hex())
                concerns = bool(here) or not look.topics
            if concerns:
                became = verdict(here, one.deadline_ms, now_ms=now_ms, look=look)
                verdicts.append((became, one.deadline_ms))
        if verdicts:
            yield _topic(topic, verdicts, now_ms)


def write_countdown(path: Path, countdown: Countdown) -> None:
    """Write a countdown. Effects: replaces the file; makes its directory.

    Raises:
        OSError: it cannot be written.
    """
    durable.make_directory(path.parent)
    durable.replace(path, json.dumps(asdict(countdown)).encode())


def read_countdown(path: Path) -> Countdown | None:
    """Return the countdown of a file; None if there is none. Effects: reads it.

    Raises:
        UnreadableFile: it cannot be read, or is not a countdown.
    """
    if not path.exists():
        return None
    content, _ = read_small(path, most=MOST_BYTES)
    try:
        return _COUNTDOWN.validate_json(content)
    except ValidationError as error:
        raise UnreadableFile(
            "is not a countdown of deadlines.", path=path, remedy="Remove it: it is made again."
        ) from error


_COUNTDOWN: Final = TypeAdapter(Countdown)


def _topic(topic: str, verdicts: Sequence[tuple[Verdict, int]], now_ms: int) -> TopicCountdown:
    states = [one.state for one, _ in verdicts]
    open_ = [one for one, _ in verdicts if one.state not in CLOSED]
    left = [one for one in open_ if one.found]
    last = [one.gone_by_ms for one in left]
    past = [one.state for one, deadline in verdicts if now_ms >= deadline]
    coming = next_deadline_ms(((one.state, deadline) for one, deadline in verdicts), now_ms)
    return TopicCountdown(
        topic=topic,
        requests=len(verdicts),
        open=len(open_),
        records=sum(one.found for one in left),
        next_deadline_ms=NEVER if coming is None else coming,
        gone_by_ms=_last(last),
        missed=states.count("missed"),
        late=states.count("will be late"),
        state=next(one for one in get_args(Worst) if one in states),
        not_proved=states.count("not proved"),
        past_not_proved=past.count("not proved"),
    )


def _logs(
    requests: Sequence[Request],
    concerned: Concerned,
    records: Iterable[tuple[str, Finding]],
    now_ms: int,
) -> tuple[LogCountdown, ...]:
    logs: dict[tuple[str, str, int], _Counts] = {}
    for name, one in records:
        counts = logs.setdefault((name, one.topic, one.partition), _Counts())
        deadline = min(
            requests[number].deadline_ms for number in concerned.by(one.request, one.topic)
        )
        counts.kinds[one.kind] = counts.kinds.get(one.kind, 0) + 1
        counts.deadlines.append(deadline)
        counts.gone_by.append(one.gone_by_ms)
        counts.missed += now_ms >= deadline
        counts.late += now_ms < deadline and (one.gone_by_ms is None or one.gone_by_ms > deadline)
    rows = [
        LogCountdown(
            directory=name,
            topic=topic,
            partition=partition,
            live=counts.kinds.get("live", 0),
            superseded=counts.kinds.get("superseded", 0),
            tombstones=counts.kinds.get("tombstone", 0),
            aborted=counts.kinds.get("aborted", 0),
            values=counts.kinds.get("value", 0),
            deadline_ms=min(counts.deadlines),
            gone_by_ms=_last(counts.gone_by),
            missed=counts.missed,
            late=counts.late,
        )
        for (name, topic, partition), counts in logs.items()
    ]
    return tuple(sorted(rows, key=lambda row: (row.deadline_ms, row.topic, row.partition)))


def _last(gone_by: Sequence[int | None]) -> int:
    """Return when the last is gone; `NEVER` if one never is, or if there are none."""
    if not gone_by or None in gone_by:
        return NEVER
    return max(one for one in gone_by if one is not None)


def _urgency(row: TopicCountdown) -> tuple[bool, bool, int, str]:
    last = row.next_deadline_ms == NEVER
    return not row.missed, last, row.next_deadline_ms, row.topic
