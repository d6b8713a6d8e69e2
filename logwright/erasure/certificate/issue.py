"""Issue a certificate: search live log directories, sign what was found, write it with its page."""

from __future__ import annotations

import hashlib
import platform
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from logwright import durable
from logwright.erasure.case.make import page_of_certificate
from logwright.erasure.case.model import CasePage, Signed
from logwright.erasure.case.next_step import of_page
from logwright.erasure.case.page import case_html
from logwright.erasure.certificate.files import written
from logwright.erasure.certificate.keys import fingerprint
from logwright.erasure.certificate.make import Issue, Requested, Searched
from logwright.erasure.certificate.model import Certificate, Versions
from logwright.erasure.certificate.running import (
    Concern,
    search_running,
    topics_of,
    wait_seconds,
)
from logwright.erasure.certificate.search import Report, search
from logwright.erasure.certificate.signed import signed_file
from logwright.erasure.find.search import search_log_dir
from logwright.erasure.names import Names
from logwright.errors import PolicyError
from logwright.running.place import RunningPlace
from logwright.units import INT64_MAX

if TYPE_CHECKING:
    from logwright.config.resolved import Sources
    from logwright.erasure.certificate.keys import PrivateKey
    from logwright.erasure.find.result import Settings
    from logwright.erasure.keys import KeySet
    from logwright.place.model import Place
    from logwright.tier.remote import RemoteSegments

PAGE: Final = ".html"
"""Suffix of the page for reading, next to the certificate."""


_MOST_NAMED: Final = 20
_NOT_ENOUGH: Final = frozenset(("missed", "will be late", "remains", "not proved", "gone as bytes"))
"""States in which a certificate is made, and does not prove enough."""


class Written(NamedTuple):
    """The files of a certificate.

    Attributes:
        sha256: of the certificate, in hex. shown: what its page shows.
    """

    certificate: Path
    page: Path
    sha256: str
    shown: CasePage

    @property
    def next_step(self) -> str:
        """What is to be done next, a sentence."""
        return of_page(self.shown)


def requested_of(keys: KeySet, deadline_ms: int | None = None) -> list[Requested]:
    """Return what a certificate says of each request; a time that was not given is None.

    Args:
        deadline_ms: of the keys given in clear.

    Raises:
        PolicyError: the id of a request has a key: it is signed.
    """
    names = names_of(keys)
    bad = [number for number, request in enumerate(keys.requests, 1) if names.has_key(request.id)]
    if bad:
        named = ", ".join(map(str, bad[:_MOST_NAMED])) + (" and more" * (len(bad) > _MOST_NAMED))
        raise PolicyError(
            f"the ids of {len(bad)} requests have a key, and would be signed: number {named}.",
            remedy="Give these requests other ids.",
        )
    stored = [
        Requested(
            id=request.id,
            hmac=request.hmac.hex(),
            topics=request.topics,
            received_at_ms=request.received_at_ms,
            deadline_ms=None if request.deadline_ms == INT64_MAX else request.deadline_ms,
            decoded=request.decoded,
        )
        for request in keys.requests
    ]
    clear = (keys.request(index) for index in range(len(stored), len(keys)))
    return stored + [
        Requested(
            id=request.id,
            hmac=request.hmac.hex(),
            topics=request.topics,
            deadline_ms=deadline_ms,
            decoded=request.decoded,
        )
        for request in clear
    ]


def names_of(keys: KeySet) -> Names:
    """Return what knows whether a name has one of these keys."""
    return Names.of(keys.secret, (keys.request(index).hmac for index in range(len(keys))))


def search_live(
    log_dir: Place,
    keys: KeySet,
    settings: Settings,
    sources: Sources,
    report: Report,
    *,
    patterns: tuple[bytes, ...] = (),
    tier: RemoteSegments | None = None,
) -> Searched:
    """Search a live log directory for a certificate. Effects and errors: as `search`, or, if a
    broker has it open, as `search_running`.

    Args:
        tier: is searched, too.
    """

    def look(place: Place, bounded: RunningPlace | None = None) -> Searched:
        find = partial(
            search_log_dir,
            keys=keys,
            settings=settings,
            patterns=patterns,
            progress=report,
            bounded=bounded,
            tier=tier,
        )
        return search(place, find, requests=len(keys), sources=sources, report=report)

    if not isinstance(log_dir, RunningPlace):
        return look(log_dir)

    def is_asked(topic: str) -> bool:
        return not topic or bool(patterns) or not keys.for_topic(topic).is_empty

    topics = filter(is_asked, topics_of(log_dir))
    return search_running(
        log_dir,
        look,
        Concern(len(keys), is_asked),
        wait_seconds=wait_seconds(settings, topics),
    )


def proves_too_little(certificate: Certificate) -> bool:
    """Return whether a deadline was missed or will be, records remain that nothing removes, or
    something that could hold records of a request was not searched.
    """
    return any(request.state in _NOT_ENOUGH for request in certificate.requests)


def issue_of(key: PrivateKey, issuer: str | None, at_ms: int) -> Issue:
    """Return who issues a certificate: with this key, under this name, at this time."""
    return Issue(
        at_ms=at_ms,
        issuer=issuer or "",
        signing_key_sha256=fingerprint(key.public_key()),
        versions=Versions(
            logwright=version("logwright"),
            python=platform.python_version(),
            cryptography=version("cryptography"),
        ),
    )


def write_certificate(certificate: Certificate, key: PrivateKey, path: Path) -> Written:
    """Sign and write a certificate and its page. Effects: two files.

    Raises:
        PreconditionError: one cannot be written.
    """
    content = signed_file(certificate, key)
    digest = hashlib.sha256(content).hexdigest()
    page = path.with_suffix(PAGE)
    signed = Signed(certificate=certificate, file_name=path.name, file_sha256=digest)
    shown = page_of_certificate(signed)
    with written(path):
        durable.replace(path, content)
    with written(page):
        durable.replace(page, case_html(shown).encode())
    return Written(path, page, digest, shown)
