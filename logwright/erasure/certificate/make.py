"""Make a certificate from what was asked, found and seen. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from logwright.erasure.certificate.deadlines import verdict
from logwright.erasure.certificate.manifest import File, Tree
from logwright.erasure.certificate.model import (
    NOT_SEEN,
    Asked,
    Certificate,
    Cluster,
    Directory,
    ManifestFile,
    NotRead,
    PathName,
    Remains,
    Replicas,
    Versions,
)
from logwright.erasure.concerned import Concerned
from logwright.erasure.find.model import Finding

UNREADABLE = "unreadable"
_OTHER_NAME = "has another name outside of the directory"


@dataclass(frozen=True, slots=True, kw_only=True)
class Requested:
    """What a certificate says of a request, before anything is searched.

    Attributes:
        hmac: of the key, in hex.
        topics: a topic, or a pattern with ``regex:`` before it.
    """

    hmac: str
    topics: str
    received_at_ms: int | None = None
    deadline_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Searched:
    """A directory that was searched.

    Attributes:
        path: absolute.
        findings: records of requests, with paths relative to the directory.
        node_id: of its broker, None: unknown.
    """

    path: str
    tree: Tree
    files: Mapping[str, File]
    findings: Sequence[Finding] = ()
    cluster: Cluster | None = None
    node_id: int | None = None
    unread: Mapping[str, str] = field(default_factory=dict)


def make_certificate(
    requested: Sequence[Requested],
    searched: Sequence[Searched],
    *,
    now_ms: int,
    signing_key_sha256: str,
    versions: Versions,
    replicas: Sequence[Replicas] = (),
) -> Certificate:
    """Return the certificate.

    Args:
        requested: the requests, in the order in which findings number them.
        searched: the directories, in the order in which they were given.
        now_ms: the clock.
        signing_key_sha256: fingerprint of the public key.
        versions: of the programs.
        replicas: what the cluster's metadata says is elsewhere.
    """
    not_read = _not_read(searched)
    return Certificate(
        issued_at_ms=now_ms,
        signing_key_sha256=signing_key_sha256,
        versions=versions,
        directories=tuple(
            Directory(
                path=one.path,
                files=len(one.files),
                bytes=sum(file.size for file in one.files.values()),
                cluster=one.cluster,
                node_id=one.node_id,
            )
            for one in searched
        ),
        requests=_asked(requested, searched, now_ms=now_ms, all_read=not not_read),
        remains=tuple(_remains(searched)),
        not_read=not_read,
        hard_linked=tuple(
            NotRead(directory=number, path=PathName.of(path), why=_OTHER_NAME)
            for number, one in enumerate(searched)
            for path in one.tree.hard_linked
        ),
        replicas_not_searched=tuple(replicas),
        not_seen=NOT_SEEN,
        manifest=tuple(
            ManifestFile(
                directory=number,
                path=PathName.of(path),
                bytes=file.size,
                sha256=file.sha256,
            )
            for number, one in enumerate(searched)
            for path, file in one.files.items()
        ),
    )


def _asked(
    requested: Sequence[Requested], searched: Sequence[Searched], *, now_ms: int, all_read: bool
) -> tuple[Asked, ...]:
    gone: list[list[int | None]] = [[] for _ in requested]
    concerned = Concerned([(one.hmac, one.topics) for one in requested])
    for one in searched:
        for finding in one.findings:
            if finding.place != UNREADABLE and finding.request >= 0:
                for number in concerned.by(finding.request, finding.topic):
                    gone[number].append(finding.gone_by_ms)
    asked = []
    for request, found in zip(requested, gone, strict=True):
        became = verdict(found, request.deadline_ms, now_ms=now_ms, all_read=all_read)
        asked.append(
            Asked(
                hmac=request.hmac,
                topics=request.topics,
                received_at_ms=request.received_at_ms,
                deadline_ms=request.deadline_ms,
                state=became.state,
                found=became.found,
                gone_by_ms=became.gone_by_ms,
            )
        )
    return tuple(asked)


def _remains(searched: Sequence[Searched]) -> list[Remains]:
    return [
        Remains(
            request=finding.request,
            directory=number,
            topic=finding.topic,
            partition=finding.partition,
            path=PathName.of(finding.path),
            place=finding.place,
            offset=finding.offset,
            batch_position=finding.batch_position,
            kind=finding.kind,
            rule=finding.rule,
            gone_by_ms=finding.gone_by_ms,
        )
        for number, one in enumerate(searched)
        for finding in one.findings
        if finding.place != UNREADABLE
    ]


def _not_read(searched: Sequence[Searched]) -> tuple[NotRead, ...]:
    """Return what was not searched: not a file, or a file whose records cannot be read."""
    found = []
    for number, one in enumerate(searched):
        why = {
            **one.tree.others,
            **{
                finding.path: finding.rule or "its records cannot be read"
                for finding in one.findings
                if finding.place == UNREADABLE
            },
            **one.unread,
        }
        found += [
            NotRead(directory=number, path=PathName.of(path), why=reason)
            for path, reason in sorted(why.items())
        ]
    return tuple(found)
