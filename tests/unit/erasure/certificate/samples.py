"""Certificates to look at: a small directory, two requests, one of them not gone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from logwright.erasure.certificate.keys import fingerprint
from logwright.erasure.certificate.make import Issue, Requested, Searched, make_certificate
from logwright.erasure.certificate.manifest import hash_files
from logwright.erasure.certificate.model import Certificate, Cluster, Versions
from logwright.erasure.find.model import Finding
from logwright.log.tree import list_tree
from logwright.state.erasure_mark import Erasure

NOW_MS = 1_700_000_000_000
KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
SECRET = "5ec2e7" + "0" * 10
VERSIONS = Versions(logwright="1", python="3", cryptography="50")
GONE, LEFT = "aa" * 32, "bb" * 32
ISSUE = Issue(
    at_ms=NOW_MS,
    issuer="Example Ltd, Data Protection",
    signing_key_sha256=fingerprint(KEY.public_key()),
    versions=VERSIONS,
)
ERASED = {"t": {f"{SECRET}:{hmac[:16]}": Erasure(NOW_MS, "at once") for hmac in (GONE, LEFT)}}


def finding(**changed: object) -> Finding:
    """One that a cleaning removes in an hour."""
    values: dict[str, object] = {
        "request": 1,
        "topic": "t",
        "partition": 0,
        "path": "t-0/00000000000000000000.log",
        "place": "segment",
        "offset": 7,
        "batch_position": 61,
        "kind": "superseded",
        "rule": "max.compaction.lag.ms",
        "gone_by_ms": NOW_MS + 3_600_000,
    }
    return Finding(**{**values, **changed})  # type: ignore[arg-type]  # of the names above


def small_directory(root: Path) -> Path:
    """Three files, one of them in a hidden directory."""
    (root / "t-0/.logwright").mkdir(parents=True)
    (root / "t-0/00000000000000000000.log").write_bytes(b"first")
    (root / "t-0/.logwright/purge").write_bytes(b"second")
    (root / "meta.properties").write_bytes(b"")
    return root


def searched(root: Path, *findings: Finding, **changed: Any) -> Searched:  # noqa: ANN401 -- of the fields
    """All of the directory was searched, and the erasure of both keys is on record."""
    tree = list_tree(root)
    cluster = Cluster(cluster_id="c1", end_offset=42, snapshot=None)
    return Searched(
        path=str(root),
        tree=tree,
        files=hash_files(tree),
        findings=findings,
        cluster=cluster,
        node_id=1,
        **{
            "looked": dict.fromkeys(tree.files, "searched"),
            "topics": frozenset({"t"}),
            "erased": ERASED,
            **changed,
        },
    )


def sample(
    root: Path,
    *findings: Finding,
    deadline_ms: int = NOW_MS + 7_200_000,
    earlier: Sequence[Certificate] = (),
    **changed: Any,  # noqa: ANN401 -- of `searched`
) -> Certificate:
    """A certificate of the small directory, which is made if it is not there."""
    if not root.exists():
        small_directory(root)
    requested = [
        Requested(
            id=f"r-{number}",
            hmac=hmac,
            topics="t",
            received_at_ms=NOW_MS - 1,
            deadline_ms=deadline_ms,
        )
        for number, hmac in enumerate((GONE, LEFT))
    ]
    return make_certificate(
        requested,
        [searched(root, *findings, **changed)],
        ISSUE,
        secret=SECRET,
        earlier=earlier,
    )
