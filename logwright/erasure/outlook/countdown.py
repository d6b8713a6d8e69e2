"""How long requests have until their deadlines, by topic and by log. Pure, but for the file.

A search of all log directories makes it; sensors and pages read it until the next search. It has
counts and times, no keys and no HMACs.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from operator import or_
from pathlib import Path
from typing import Final, Literal, get_args

from pydantic import TypeAdapter, ValidationError

from logwright import durable
from logwright.erasure.account import Account
from logwright.erasure.case.make import left_by_erasure
from logwright.erasure.case.next_step import next_step
from logwright.erasure.certificate.files import read_small
from logwright.erasure.certificate.model import State
from logwright.erasure.concerned import Concerned
from logwright.erasure.find.model import Finding
from logwright.erasure.outlook.cleanings import SWEEP
from logwright.erasure.outlook.verdict import (
    CLOSED,
    Verdict,
    last_gone_ms,
    next_deadline_ms,
    verdict,
    verdict_of,
)
from logwright.erasure.request import Request
from logwright.errors import UnreadableFile

NEVER: Final = -1
MOST_BYTES: Final = 64 * 1024 * 1024
UNMATCHED: Final = ""
"""In the place of a topic: requests whose topics match no log, and records of unknown topics."""
NOTHING_SEARCHED: Final = Account(unsearched=("",))
"""The account of a search that has given none."""
_SWEPT: Final = frozenset(("superseded", "tombstone", "aborted"))
Worst = Literal[
    "missed", "will be late", "not proved", "gone as bytes", "in time", "not found", "gone"
]
_NOT_PROVED: Final = frozenset(("not proved", "gone as bytes"))


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCountdown:
    """What remains in one log, and until when it may.

    Attributes:
        directory: name of the log directory.
        live, superseded, tombstones, aborted, values: records by kind.
        deadline_ms: the first deadline of the requests that have a record in it.
        later_deadlines_ms: their other deadlines, ascending.
        gone_by_ms: when the last record is gone by itself, `NEVER` if never.
        missed, late: records whose deadline has passed, or will before they are gone.
        to_sweep: records that a cleaning can remove, and that are missed or late, or would be
            without a sweep.
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
    to_sweep: int = 0
    later_deadlines_ms: tuple[int, ...] = ()

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
        not_proved: requests of which something may remain where was not searched, or under another
            form of the key; past_not_proved: those whose deadline has passed.
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
class OpenCase:
    """A request of which something remains, or may.

    Attributes:
        id: its name in the operator's system; not its key.
        topics: a topic, or a pattern with ``regex:`` before it.
        deadline_ms: by when all must be gone.
        records: that remain.
        gone_by_ms: when the last record is gone by itself, `NEVER` if never or if none is left.
        next_step: a sentence.
    """

    id: str
    topics: str
    deadline_ms: int
    records: int
    gone_by_ms: int
    state: State
    next_step: str


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
        cases: the requests that are open, by their deadlines.
    """

    looked_ms: int
    requests: int = 0
    gone: int = 0
    not_found: int = 0
    records: int = 0
    not_read: int = 0
    topics: tuple[TopicCountdown, ...] = ()
    logs: tuple[LogCountdown, ...] = ()
    cases: tuple[OpenCase, ...] = ()

    @property
    def overdue(self) -> tuple[OpenCase, ...]:
        """The open requests whose deadline has passed, the longest overdue first."""
        return tuple(case for case in self.cases if self.looked_ms >= case.deadline_ms)

    @property
    def missed(self) -> tuple[TopicCountdown, ...]:
        """Topics with a deadline that has passed while something remains, or may."""
        return tuple(row for row in self.topics if row.missed or row.past_not_proved)

    @property
    def late(self) -> tuple[TopicCountdown, ...]:
        """Topics with a deadline to come that is not met by itself, or that may not be."""
        return tuple(row for row in self.topics if row.late or row.not_proved)


def count_down(
    requests: Sequence[Request],
    findings: Mapping[str, Sequence[Finding]],
    topics: Iterable[str],
    *,
    now_ms: int,
    account: Account = NOTHING_SEARCHED,
) -> Countdown:
    """Return the countdown.

    Args:
        requests: in the order in which findings number them.
        findings: by the name of the log directory.
        topics: all topics of the log directories.
        now_ms: the clock.
        account: of the search; without one nothing counts as searched.
    """
    account = replace(account, topics=account.topics.union(topics))
    records = [(name, row) for name, rows in findings.items() for row in rows if row.request >= 0]
    concerned = Concerned([(request.hmac, request.topics) for request in requests])
    left: dict[int, list[int | None]] = {}
    by_topic: dict[tuple[str, int], list[int | None]] = {}
    by_hand: dict[int, set[str]] = {}
    for _, record in records:
        stays = left_by_erasure(record)
        for number in concerned.by(record.request, record.topic):
            left.setdefault(number, []).append(record.gone_by_ms)
            by_topic.setdefault((record.topic, number), []).append(record.gone_by_ms)
            if stays is not None:
                by_hand.setdefault(number, set()).add(stays)
    became = [
        verdict_of(
            request.topics,
            request.hmac.hex(),
            left.get(number, []),
            request.deadline_ms,
            account=account,
            now_ms=now_ms,
        )
        for number, request in enumerate(requests)
    ]
    states = [one.state for one in became]
    return Countdown(
        looked_ms=now_ms,
        requests=len(requests),
        gone=states.count("gone"),
        not_found=states.count("not found"),
        records=len(records),
        not_read=len(account.unsearched),
        topics=tuple(sorted(_rows(requests, by_topic, account, now_ms), key=_urgency)),
        logs=_logs(requests, concerned, records, now_ms),
        cases=_cases(requests, became, account, by_hand),
    )


def _cases(
    requests: Sequence[Request],
    became: Sequence[Verdict],
    account: Account,
    by_hand: Mapping[int, set[str]],
) -> tuple[OpenCase, ...]:
    rows = [
        OpenCase(
            id=request.id,
            topics=request.topics,
            deadline_ms=request.deadline_ms,
            records=each.found,
            gone_by_ms=_or_never(each.gone_by_ms),
            state=each.state,
            next_step=next_step(
                each.state,
                gone_by_ms=each.gone_by_ms,
                deadline_ms=request.deadline_ms,
                unsearched=account.look(request.topics, request.hmac.hex()).unsearched,
                by_hand=sorted(by_hand.get(number, ())),
            ),
        )
        for number, (request, each) in enumerate(zip(requests, became, strict=True))
        if each.state not in CLOSED
    ]
    return tuple(sorted(rows, key=lambda row: (row.deadline_ms, row.id)))


def _rows(
    requests: Sequence[Request],
    left: Mapping[tuple[str, int], Sequence[int | None]],
    account: Account,
    now_ms: int,
) -> Iterator[TopicCountdown]:
    """Yield what each topic's requests are waiting for; those that match no topic, and records of
    unknown topics, are of `UNMATCHED`.
    """
    for topic in sorted({UNMATCHED, *account.topics, *(topic for topic, _ in left)}):
        verdicts = []
        for number, request in enumerate(requests):
            here = left.get((topic, number), ())
            if topic != UNMATCHED:
                look = account.of_topic(topic, request.hmac.hex())
                concerns = bool(here) or request.applies_to(topic)
                here = (*here, *left.get((UNMATCHED, number), ()))
            else:
                look = account.look(request.topics, request.hmac.hex())
                concerns = bool(here) or not look.topics
            if concerns:
                became = verdict(here, request.deadline_ms, now_ms=now_ms, look=look)
                verdicts.append((became, request.deadline_ms))
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
    past = [one.state for one, deadline in verdicts if now_ms >= deadline]
    coming = next_deadline_ms(((one.state, deadline) for one, deadline in verdicts), now_ms)
    return TopicCountdown(
        topic=topic,
        requests=len(verdicts),
        open=len(open_),
        records=sum(one.found for one in left),
        next_deadline_ms=_or_never(coming),
        gone_by_ms=_or_never(last_gone_ms([one.gone_by_ms for one in left])),
        missed=states.count("missed"),
        late=states.count("will be late"),
        state=next(one for one in get_args(Worst) if one in states),
        not_proved=sum(one in _NOT_PROVED for one in states),
        past_not_proved=sum(one in _NOT_PROVED for one in past),
    )


def _logs(
    requests: Sequence[Request],
    concerned: Concerned,
    records: Iterable[tuple[str, Finding]],
    now_ms: int,
) -> tuple[LogCountdown, ...]:
    logs: dict[tuple[str, str, int], list[tuple[Finding, int]]] = {}
    for name, record in records:
        numbers = concerned.by(record.request, record.topic)
        deadline_ms = min(requests[number].deadline_ms for number in numbers)
        log = logs.setdefault((name, record.topic, record.partition), [])
        log.append((record, deadline_ms))
    rows = [_log(*log, rows, now_ms) for log, rows in logs.items()]
    return tuple(sorted(rows, key=lambda row: (row.deadline_ms, row.topic, row.partition)))


def _log(
    directory: str,
    topic: str,
    partition: int,
    records: Sequence[tuple[Finding, int]],
    now_ms: int,
) -> LogCountdown:
    kinds = Counter(record.kind for record, _ in records)
    missed = [now_ms >= deadline_ms for _, deadline_ms in records]
    deadlines = sorted({deadline_ms for _, deadline_ms in records})
    late = [_is_late(record.gone_by_ms, deadline_ms, now_ms) for record, deadline_ms in records]
    return LogCountdown(
        directory=directory,
        topic=topic,
        partition=partition,
        live=kinds["live"],
        superseded=kinds["superseded"],
        tombstones=kinds["tombstone"],
        aborted=kinds["aborted"],
        values=kinds["value"],
        deadline_ms=deadlines[0],
        later_deadlines_ms=tuple(deadlines[1:]),
        gone_by_ms=_or_never(last_gone_ms([record.gone_by_ms for record, _ in records])),
        missed=sum(missed),
        late=sum(late),
        to_sweep=sum(
            record.place == "segment" and record.kind in _SWEPT and (bad or record.rule == SWEEP)
            for (record, _), bad in zip(records, map(or_, missed, late), strict=True)
        ),
    )


def _is_late(gone_by_ms: int | None, deadline_ms: int, now_ms: int) -> bool:
    return now_ms < deadline_ms and (gone_by_ms is None or gone_by_ms > deadline_ms)


def _or_never(time_ms: int | None) -> int:
    return NEVER if time_ms is None else time_ms


def _urgency(row: TopicCountdown) -> tuple[bool, bool, int, str]:
    last = row.next_deadline_ms == NEVER
    return not row.missed, last, row.next_deadline_ms, row.topic
