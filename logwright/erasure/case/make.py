"""Make pages of cases: of a certificate, or of a search without one. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from logwright.erasure.account import Deed
from logwright.erasure.case.model import (
    Case,
    CasePage,
    Certified,
    Directory,
    Left,
    Signed,
    Unread,
    place_name,
)
from logwright.erasure.concerned import Concerned
from logwright.erasure.outlook.verdict import last_gone_ms, verdict_of
from logwright.erasure.request import applies_to
from logwright.log.inventory import file_place_at

if TYPE_CHECKING:
    from logwright.erasure.account import Account
    from logwright.erasure.certificate.model import PathName, Replicas
    from logwright.erasure.find.model import Finding, Kind
    from logwright.erasure.find.result import Unsearched
    from logwright.erasure.request import Request

_OUTSIDE: Final = frozenset(("archive", "remote segment", "table"))
"""Places that an erasure does not change."""


class Searched(NamedTuple):
    """A directory or table that was searched, and what was found in it; `files`: None: they were
    not counted.
    """

    path: str
    files: int | None
    findings: Sequence[Finding]


class _Row(NamedTuple):
    directory: int
    log: str
    place: str
    path: str
    kind: Kind
    rule: str
    gone_by_ms: int | None


def page_of_certificate(signed: Signed) -> CasePage:
    """Return the page of all requests of a certificate. Nothing is on it that is not signed, but
    what follows from it.
    """
    made = signed.certificate
    hits = [record for record in made.remains if record.request >= 0]
    topics = {asked.topics for asked in made.requests}
    unread = [
        Unread(
            where=_where(entry.path, entry.position, entry.bytes), topic=entry.topic, why=entry.why
        )
        for entry in made.not_read
    ]
    return CasePage(
        now_ms=made.issued_at_ms,
        version=made.versions.logwright,
        cases=tuple(
            Case(
                id=request.id,
                topics=request.topics,
                received_at_ms=request.received_at_ms,
                deadline_ms=request.deadline_ms,
                state=request.state,
                found=request.found,
                gone_by_ms=request.gone_by_ms,
                why=request.why,
                deeds=tuple(Deed(**deed.model_dump()) for deed in request.deeds),
                hmac=request.hmac,
            )
            for request in made.requests
        ),
        directories=tuple(
            Directory(path=shown_path(each.name), files=each.files) for each in made.directories
        ),
        left=_left(
            _Row(
                record.directory,
                _log_name(record.topic, record.partition),
                record.place,
                shown_path(record.path),
                record.kind,
                record.rule,
                record.gone_by_ms,
            )
            for record in hits
        ),
        unread=_of_topics([*unread, *replicas_unread(made.replicas_not_searched)], topics),
        patterns=len(made.remains) - len(hits),
        signed=signed,
    )


def pages_of_search(
    requests: Sequence[Request],
    searched: Sequence[Searched],
    unread: Sequence[Unread],
    account: Account,
    *,
    now_ms: int,
    version: str,
    certified: Mapping[str, Certified] | None = None,
) -> Iterator[CasePage]:
    """Yield a page for each request, in their order.

    Args:
        requests: in the order in which findings number them.
        unread: what was not searched; `account`: of the search, with the topics of these.
        certified: id → the last certificate.
    """
    rows_of = _by_request(requests, searched)
    directories = tuple(Directory(path=each.path, files=each.files) for each in searched)
    for number, request in enumerate(requests):
        rows = rows_of.get(number, [])
        yield CasePage(
            now_ms=now_ms,
            version=version,
            cases=(_case(request, [row.gone_by_ms for row in rows], account, now_ms=now_ms),),
            directories=directories,
            left=_left(rows),
            unread=_of_topics(unread, {request.topics}),
            last=(certified or {}).get(request.id),
        )


def _by_request(requests: Sequence[Request], searched: Sequence[Searched]) -> dict[int, list[_Row]]:
    """Return the number of each request with records → these."""
    concerned = Concerned([(request.hmac, request.topics) for request in requests])
    rows: dict[int, list[_Row]] = {}
    for directory, place in enumerate(searched):
        for finding in place.findings:
            if finding.request < 0:
                continue
            row = _Row(
                directory,
                _log_name(finding.topic, finding.partition),
                finding.place,
                printable(finding.path),
                finding.kind,
                finding.rule,
                finding.gone_by_ms,
            )
            for number in concerned.by(finding.request, finding.topic):
                rows.setdefault(number, []).append(row)
    return rows


def _case(
    request: Request, gone_by_ms: Sequence[int | None], account: Account, *, now_ms: int
) -> Case:
    hmac = request.hmac.hex()
    became = verdict_of(
        request.topics, hmac, gone_by_ms, request.deadline_ms, account=account, now_ms=now_ms
    )
    return Case(
        id=request.id,
        topics=request.topics,
        received_at_ms=request.received_at_ms,
        deadline_ms=request.deadline_ms,
        state=became.state,
        found=became.found,
        gone_by_ms=became.gone_by_ms,
        why=became.why,
        deeds=account.deeds(request.topics, hmac),
    )


def unread_of(directory: str, parts: Iterable[Unsearched]) -> Iterator[Unread]:
    """Yield the parts of a directory that were not searched."""
    for part in parts:
        where = f"{directory}/{printable(part.path)}" if part.path else directory
        topic = part.partition.topic
        yield Unread(where=_span(where, part.position, part.bytes), topic=topic, why=part.problem)


def replicas_unread(replicas: Iterable[Replicas]) -> Iterator[Unread]:
    """Yield the replicas that were not searched."""
    for each in replicas:
        brokers = ", ".join(map(str, each.brokers))
        yield Unread(where=f"brokers {brokers}", topic=each.topic, why="replicas, not searched")


def shown_path(path: PathName) -> str:
    r"""Return a path's text; bytes that are not UTF-8 as ``\xNN``."""
    return path.text if not path.hex else bytes.fromhex(path.hex).decode(errors="backslashreplace")


def printable(path: str) -> str:
    r"""Return a path as `os` has it with bytes that are not UTF-8 as ``\xNN``."""
    return path.encode(errors="surrogateescape").decode(errors="backslashreplace")


def _where(path: PathName, position: int, size: int) -> str:
    return _span(shown_path(path) or "(elsewhere)", position, size)


def _span(where: str, position: int, size: int) -> str:
    return f"{where}, bytes {position:,} to {position + size:,}" if size >= 0 else where


def _of_topics(unread: Iterable[Unread], topics: Iterable[str]) -> tuple[Unread, ...]:
    """Return what can hold records of requests with these topics."""
    patterns = set(topics)
    known: dict[str, bool] = {"": True}
    kept = []
    for each in unread:
        if each.topic not in known:
            known[each.topic] = any(applies_to(one, each.topic) for one in patterns)
        if known[each.topic]:
            kept.append(each)
    return tuple(kept)


def left_by_erasure(finding: Finding) -> str | None:
    """Return the name of the place of a record that an erasure at once leaves, else None."""
    if not _stays(finding.place, finding.path):
        return None
    return place_name(finding.place, _log_name(finding.topic, finding.partition))


def _log_name(topic: str, partition: int) -> str:
    if not topic:
        return ""
    return f"{topic}-{partition}" if partition >= 0 else topic


def _left(rows: Iterable[_Row]) -> tuple[Left, ...]:
    groups: dict[tuple[int, str, str], list[_Row]] = {}
    for row in rows:
        groups.setdefault((row.directory, row.log, row.place), []).append(row)
    return tuple(
        Left(
            directory=directory,
            log=log,
            place=place,
            kinds=Counter(row.kind for row in group),
            files=tuple(dict.fromkeys(row.path for row in group)),
            stays=any(_stays(place, row.path) for row in group),
            rules=tuple(dict.fromkeys(row.rule for row in group)),
            gone_by_ms=last_gone_ms([row.gone_by_ms for row in group]),
        )
        for (directory, log, place), group in sorted(groups.items())
    )


def _stays(place: str, path: str) -> bool:
    return place in _OUTSIDE or file_place_at(path).erasure == "left"
