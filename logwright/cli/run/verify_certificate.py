"""``logwright verify-certificate``: check a certificate of erasure. Read-only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

import click

from logwright import durable
from logwright.bucket.agreement import AGREEMENT
from logwright.cli.output import Output, human_bytes
from logwright.erasure.certificate.changes import Changes, changes_since
from logwright.erasure.certificate.files import written
from logwright.erasure.certificate.keys import load_public
from logwright.erasure.certificate.model import NO_ISSUER, Certificate
from logwright.erasure.certificate.signed import read_certificate
from logwright.erasure.certificate.sums import sums_of
from logwright.errors import QualityError
from logwright.place.model import Place
from logwright.place.named import as_files
from logwright.place.whole import whole
from logwright.tier.remote import whole_tier

SHOWN: Final = 20
"""Maximum paths of each group in text output; JSON has all."""


def run(
    output: Output,
    *,
    file: Path,
    log_dirs: tuple[Place, ...],
    public_key: Path,
    sums: Path | None,
    directory: int,
    tier_key: Path | None,
) -> int:
    """Run the command."""
    log_dirs = tuple(whole_tier(place, tier_key) for place in log_dirs)
    certificate = read_certificate(file, load_public(public_key))
    _show(output, certificate)
    if sums is not None:
        _write_sums(output, certificate, directory, sums)
    return QualityError.exit_status if _compare(output, certificate, log_dirs) else 0


def _show(output: Output, certificate: Certificate) -> None:
    """Print what the certificate says, briefly. Effects: output."""
    issued = datetime.fromtimestamp(certificate.issued_at_ms / 1000, tz=UTC)
    states = Counter(request.state for request in certificate.requests)
    output.result(
        [
            f"The signature is right: key {certificate.signing_key_sha256}.",
            f"Issued by: {certificate.issuer or NO_ISSUER}.",
            (
                f"Made {issued:%F %T}Z by logwright {certificate.versions.logwright}:"
                f" {len(certificate.requests):,} requests, {len(certificate.manifest):,} files,"
                f" {len(certificate.remains):,} records found."
            ),
        ],
        signature="right",
        key=certificate.signing_key_sha256,
        issuer=certificate.issuer,
        issuedAt=certificate.issued_at_ms,
        version=certificate.versions.logwright,
        requests=states,
        directories=[each.name.path for each in certificate.directories],
        files=len(certificate.manifest),
        found=len(certificate.remains),
        notRead=len(certificate.not_read),
        replicasNotSearched=len(certificate.replicas_not_searched),
    )
    output.table(["requests", "state"], [(count, state) for state, count in states.items()])
    if certificate.not_read:
        output.text(f"{len(certificate.not_read):,} places were not searched.")


def _write_sums(output: Output, certificate: Certificate, directory: int, path: Path) -> None:
    """Write the lines of a directory. Effects: the file; a message."""
    if directory > len(certificate.directories):
        raise click.UsageError(f"the certificate has {len(certificate.directories)} directories")
    with written(path):
        durable.replace(path, sums_of(certificate, directory - 1))
    output.message(f"{path}: check with `sha256sum --check`, in the directory.")


def _compare(output: Output, certificate: Certificate, log_dirs: tuple[Place, ...]) -> bool:
    """Compare the directories and print the differences; return whether there are any. Effects:
    reads them; output.
    """
    if not log_dirs:
        return False
    if len(log_dirs) != len(certificate.directories):
        raise click.UsageError(
            f"the certificate has {len(certificate.directories)} directories, {len(log_dirs)} are"
            " given: give each, in the certificate's order"
        )
    places = [_as_it_was(certificate, number, place) for number, place in enumerate(log_dirs)]
    with output.progress("hash") as progress:
        changes = changes_since(certificate, places, partial(progress, "files"))
    for log_dir, change, then in zip(log_dirs, changes, certificate.directories, strict=True):
        _show_changes(output, log_dir, change, then.bytes)
    return any(change.any for change in changes)


def _as_it_was(certificate: Certificate, number: int, place: Place) -> Place:
    """Return a directory as the certificate has it: the files of a table; or a log directory in a
    bucket with all objects, unless logwright did not look at them then. Effects: may list it.
    """
    if certificate.directories[number].objects:
        return as_files(place)
    return whole(place) if AGREEMENT in certificate.files_of(number) else place


def _show_changes(output: Output, log_dir: Place, changes: Changes, size: int) -> None:
    """Print the differences of a directory by group. Effects: output."""
    groups = {"added": changes.added, "removed": changes.removed, "altered": changes.altered}
    if changes.any:
        counts = ", ".join(f"{len(paths):,} {name}" for name, paths in groups.items())
        output.text(f"{log_dir}: {counts}, {changes.same:,} as they were.")
    else:
        output.text(f"{log_dir}: {changes.same:,} files, {human_bytes(size)}, all as they were.")
    for name, paths in groups.items():
        _show_paths(output, name, paths)
    unread = changes.not_read
    _show_paths(output, "not read", (f"{path}: {why}" for path, why in unread.items()))
    output.result(
        None,
        directory=str(log_dir),
        **{name: list(paths) for name, paths in groups.items()},
        same=changes.same,
        notRead=unread,
    )


def _show_paths(output: Output, name: str, paths: Iterable[str]) -> None:
    paths = list(paths)
    for path in paths[:SHOWN]:
        output.text(f"  {name}: {path}")
    if len(paths) > SHOWN:
        output.text(f"  {name}: and {len(paths) - SHOWN:,} more")
