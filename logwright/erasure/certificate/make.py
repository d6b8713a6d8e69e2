"""Make a certificate from what was asked, found and seen. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from logwright.erasure.account import Account, erased_of, others_of
from logwright.erasure.certificate.manifest import File
from logwright.erasure.certificate.model import (
    Asked,
    Certificate,
    Cluster,
    Deed,
    Directory,
    ManifestFile,
    NotRead,
    PathName,
    Remains,
    Replicas,
    Running,
    Versions,
    not_seen,
)
from logwright.erasure.concerned import Concerned
from logwright.erasure.find.model import Finding, Looked
from logwright.erasure.find.result import Unsearched
from logwright.erasure.outlook.verdict import verdict_of
from logwright.log.tree import Tree
from logwright.state.erasure_mark import Erasure

_UNSEEN = "the search did not look at it"
_OTHER_NAME = "has another name outside of the directory"


@dataclass(frozen=True, slots=True, kw_only=True)
class Requested:
    """What a certificate says of a request, before anything is searched.

    Attributes:
        hmac: of the key, in hex.
        topics: a topic, or a pattern with ``regex:`` before it.
        id: its name in the operator's system, or the line of a key given in clear.
        decoded: see `logwright.erasure.request.Request`.
    """

    hmac: str
    topics: str
    received_at_ms: int | None = None
    deadline_ms: int | None = None
    id: str = ""
    decoded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Issue:
    """Who issues a certificate, when and with what.

    Attributes:
        at_ms: the clock.
        issuer: as the operator names it; empty: not given.
        signing_key_sha256: fingerprint of the public key.
        versions: of the programs.
    """

    at_ms: int
    issuer: str
    signing_key_sha256: str
    versions: Versions


@dataclass(frozen=True, slots=True, kw_only=True)
class Searched:
    """A directory that was searched.

    Attributes:
        path: absolute.
        findings: records of requests, with paths relative to the directory.
        node_id: of its broker, None: unknown.
        looked: path → how the search looked at the file.
        unsearched: what the search says that it did not read.
        topics, deleted, erased, shown, others, unformed: see
            `logwright.erasure.find.result.SearchResult`.
        running: how it was searched, if a broker had it open.
        is_tier: it is the remote segments of a tier.
        in_bucket: it is in a bucket.
        objects: see `logwright.erasure.certificate.model.Directory`.
    """

    path: str
    tree: Tree
    files: Mapping[str, File]
    findings: Sequence[Finding] = ()
    cluster: Cluster | None = None
    node_id: int | None = None
    looked: Mapping[str, Looked] = field(default_factory=dict)
    unsearched: Sequence[Unsearched] = ()
    topics: frozenset[str] = frozenset()
    deleted: frozenset[str] = frozenset()
    erased: Mapping[str, Mapping[str, Erasure]] = field(default_factory=dict)
    shown: Mapping[str, str] = field(default_factory=dict)
    others: Mapping[str, Mapping[str, Iterable[str]]] = field(default_factory=dict)
    unformed: frozenset[str] = frozenset()
    running: Running | None = None
    is_tier: bool = False
    in_bucket: bool = False
    objects: bool = False


def make_certificate(
    requested: Sequence[Requested],
    searched: Sequence[Searched],
    issue: Issue,
    *,
    replicas: Sequence[Replicas] = (),
    secret: str = "",
    earlier: Sequence[Certificate] = (),
    patterns: int = 0,
) -> Certificate:
    """Return the certificate.

    Args:
        requested: the requests, in the order in which findings number them.
        searched: the directories, in the order in which they were given.
        issue: who issues it, and when.
        replicas: what the cluster's metadata says is elsewhere.
        secret: id of the secret of the requests' HMACs; without it no mark of an erasure counts.
        earlier: certificates of before, whose keys have HMACs with the same secret.
        patterns: number of byte patterns that were searched for.
    """
    not_read = _not_read(searched)
    account = _account(searched, replicas=replicas, secret=secret, earlier=earlier)
    return Certificate(
        issued_at_ms=issue.at_ms,
        signing_key_sha256=issue.signing_key_sha256,
        versions=issue.versions,
        directories=tuple(map(_directory, searched)),
        requests=_asked(requested, searched, account, now_ms=issue.at_ms),
        remains=tuple(_remains(searched)),
        not_read=not_read,
        hard_linked=tuple(
            NotRead(directory=number, path=_name(directory, path), why=_OTHER_NAME)
            for number, directory in enumerate(searched)
            for path in directory.tree.hard_linked
        ),
        replicas_not_searched=tuple(replicas),
        not_seen=not_seen(
            running=any(each.running for each in searched),
            tier=any(each.is_tier for each in searched),
            buckets=[each.path for each in searched if each.in_bucket],
            patterns=patterns > 0,
        ),
        manifest=tuple(_manifest(searched)),
        topics=tuple(sorted(account.topics)),
        erased=tuple(
            sorted({*account.deleted, *(one for one, keys in account.erased.items() if keys)})
        ),
        issuer=issue.issuer,
        patterns=patterns,
    )


def _account(
    searched: Sequence[Searched],
    *,
    replicas: Sequence[Replicas],
    secret: str,
    earlier: Sequence[Certificate] = (),
) -> Account:
    """Return the account of a certificate; see `make_certificate`."""
    unsearched = (*(one.topic for one in _not_read(searched)), *(one.topic for one in replicas))
    return Account(
        topics=frozenset().union(
            *(one.topics for one in searched), *(one.topics for one in earlier)
        ),
        deleted=frozenset().union(*(one.deleted for one in searched)),
        erased=erased_of(one.erased for one in searched),
        secret=secret,
        unsearched=unsearched,
        earlier=_listed(earlier),
        others=others_of(one.others for one in searched),
        unformed=frozenset().union(*(one.unformed for one in searched)),
    )


def _directory(searched: Searched) -> Directory:
    name = PathName.of(searched.path)
    return Directory(
        path=name.text,
        path_hex=name.hex,
        files=len(searched.files),
        bytes=sum(file.size for file in searched.files.values()),
        cluster=searched.cluster,
        node_id=searched.node_id,
        running=searched.running,
        objects=searched.objects,
    )


def _manifest(searched: Sequence[Searched]) -> Iterator[ManifestFile]:
    for number, directory in enumerate(searched):
        for path, file in directory.files.items():
            yield ManifestFile(
                directory=number,
                path=_name(directory, path),
                bytes=file.size,
                sha256=file.sha256,
                looked=directory.looked.get(path, "not searched"),
            )


def _name(searched: Searched, path: str) -> PathName:
    """Return a path as it is shown."""
    return PathName.of(searched.shown.get(path, path))


def _listed(earlier: Sequence[Certificate]) -> dict[str, dict[str, int]]:
    """Return HMAC → topic → when the last of the earlier certificates that list such records was
    made.
    """
    listed: dict[str, dict[str, int]] = {}
    for certificate in sorted(earlier, key=lambda each: each.issued_at_ms):
        for record in certificate.remains:
            if record.request >= 0:
                hmac = certificate.requests[record.request].hmac
                listed.setdefault(hmac, {})[record.topic] = certificate.issued_at_ms
    return listed


def _asked(
    requested: Sequence[Requested],
    searched: Sequence[Searched],
    account: Account,
    *,
    now_ms: int,
) -> tuple[Asked, ...]:
    gone: list[list[int | None]] = [[] for _ in requested]
    concerned = Concerned([(one.hmac, one.topics) for one in requested])
    for directory in searched:
        for finding in directory.findings:
            if finding.request >= 0:
                for number in concerned.by(finding.request, finding.topic):
                    gone[number].append(finding.gone_by_ms)
    answers = []
    for request, times in zip(requested, gone, strict=True):
        became = verdict_of(
            request.topics, request.hmac, times, request.deadline_ms, account=account, now_ms=now_ms
        )
        answers.append(
            Asked(
                hmac=request.hmac,
                topics=request.topics,
                received_at_ms=request.received_at_ms,
                deadline_ms=request.deadline_ms,
                state=became.state,
                found=became.found,
                gone_by_ms=became.gone_by_ms,
                why=became.why,
                id=request.id,
                deeds=tuple(
                    Deed(topic=deed.topic, at_ms=deed.at_ms, what=deed.what, of_key=deed.of_key)
                    for deed in account.deeds(request.topics, request.hmac)
                ),
                decoded=request.decoded,
                other_forms=tuple(sorted(account.look(request.topics, request.hmac).others)),
            )
        )
    return tuple(answers)


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
            committed=finding.committed,
        )
        for number, directory in enumerate(searched)
        for finding in directory.findings
    ]


def _not_read(searched: Sequence[Searched]) -> tuple[NotRead, ...]:
    """Return what was not searched: what is not a file, what the search could not read, and each
    file that was seen and that the search says nothing of.
    """
    entries = []
    for number, directory in enumerate(searched):
        shown = directory.shown
        others = {shown.get(path, path): why for path, why in directory.tree.others.items()}
        parts = [part for part in directory.unsearched if part.path not in others]
        topics = {part.path: part.partition.topic for part in directory.unsearched}
        named = {part.path for part in parts}
        rows = [
            (part.path, part.problem, part.partition.topic, part.position, part.bytes)
            for part in parts
        ]
        rows += [(path, why, topics.get(path, ""), 0, -1) for path, why in others.items()]
        rows += [
            (shown.get(path, path), _UNSEEN, "", 0, -1)
            for path in directory.files
            if shown.get(path, path) not in named
            and directory.looked.get(path, "not searched") == "not searched"
        ]
        entries += [
            NotRead(
                directory=number,
                path=PathName.of(path),
                why=why,
                topic=topic,
                position=position,
                bytes=size,
            )
            for path, why, topic, position, size in sorted(rows)
        ]
    return tuple(entries)
