"""``logwright verify-certificate``: check a certificate of erasure. Read-only."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from logwright import durable
from logwright.cli.log_lines import LogFormat, log_format_option, log_to_stderr
from logwright.cli.output import Format, Output, human_bytes, printable
from logwright.errors import LogwrightError, QualityError
from logwright.extras import require

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from logwright.erasure.certificate.changes import Changes
    from logwright.erasure.certificate.model import Certificate

_PATH: Final = click.Path(path_type=Path)
SHOWN: Final = 20
"""Maximum paths of each group in text output; JSON has all."""


@click.command(name="verify-certificate")
@click.argument("file", metavar="FILE", type=_PATH)
@click.argument("log_dirs", metavar="[LOG_DIR ...]", nargs=-1, type=_PATH)
@click.option(
    "--public-key",
    metavar="FILE",
    type=_PATH,
    required=True,
    help="The issuer's public key, as it was published.",
)
@click.option(
    "--sums",
    metavar="FILE",
    type=_PATH,
    help="Write the manifest as lines for `sha256sum --check`, of one directory.",
)
@click.option(
    "--directory",
    metavar="N",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Number of the directory of --sums.",
)
@click.option(
    "--output",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Output format; json prints one object per line.",
)
@log_format_option
def command(
    file: Path,
    log_dirs: tuple[Path, ...],
    *,
    public_key: Path,
    sums: Path | None,
    directory: int,
    form: Format,
    log_format: LogFormat,
) -> None:
    """Check a certificate's signature; with LOG_DIRs, in the certificate's order, also what changed
    in each since then.

    Exit status: 0 the certificate is as it was signed, and nothing changed; 3 it is not as it was
    signed; 6 a directory has other files than the certificate.
    """
    log_to_stderr(verbose=False, form=log_format)
    output = Output(form=form)
    try:
        require("erasure", by="verify-certificate")
        from logwright.erasure.certificate.keys import load_public  # noqa: PLC0415 -- of an extra
        from logwright.erasure.certificate.signed import read_certificate  # noqa: PLC0415

        certificate = read_certificate(file, load_public(public_key))
        _show(output, certificate)
        if sums is not None:
            _write_sums(output, certificate, directory, sums)
        changed = _compare(output, certificate, log_dirs)
    except LogwrightError as error:
        output.error_object(error)
        raise
    if changed:
        click.get_current_context().exit(QualityError.exit_status)


def _show(output: Output, certificate: Certificate) -> None:
    """Print what the certificate says, briefly. Effects: output."""
    issued = datetime.fromtimestamp(certificate.issued_at_ms / 1000, tz=UTC)
    states: dict[str, int] = {}
    for one in certificate.requests:
        states[one.state] = states.get(one.state, 0) + 1
    output.text(f"The signature is right: key {certificate.signing_key_sha256}.")
    output.text(
        f"Made {issued:%F %T}Z by logwright {certificate.versions.logwright}:"
        f" {len(certificate.requests):,} requests, {len(certificate.manifest):,} files,"
        f" {len(certificate.remains):,} records found."
    )
    output.table(["requests", "state"], [(count, state) for state, count in states.items()])
    if certificate.not_read:
        output.text(f"{len(certificate.not_read):,} places were not searched.")
    output.json_object(
        {
            "signature": "right",
            "key": certificate.signing_key_sha256,
            "issuedAt": certificate.issued_at_ms,
            "version": certificate.versions.logwright,
            "requests": states,
            "directories": [printable(one.name.path) for one in certificate.directories],
            "files": len(certificate.manifest),
            "found": len(certificate.remains),
            "notRead": len(certificate.not_read),
            "replicasNotSearched": len(certificate.replicas_not_searched),
        }
    )


def _write_sums(output: Output, certificate: Certificate, directory: int, path: Path) -> None:
    """Write the lines of a directory. Effects: the file; a message."""
    from logwright.erasure.certificate.files import written  # noqa: PLC0415 -- not for --help
    from logwright.erasure.certificate.sums import sums_of  # noqa: PLC0415

    if directory > len(certificate.directories):
        raise click.UsageError(f"the certificate has {len(certificate.directories)} directories")
    with written(path):
        durable.replace(path, sums_of(certificate, directory - 1))
    output.message(f"{path}: check with `sha256sum --check`, in the directory.")


def _compare(output: Output, certificate: Certificate, log_dirs: tuple[Path, ...]) -> bool:
    """Compare the directories and print the differences; return whether there are any. Effects:
    reads them; output.
    """
    from logwright.erasure.certificate.changes import changes_since  # noqa: PLC0415 -- not for --help

    if not log_dirs:
        return False
    if len(log_dirs) != len(certificate.directories):
        raise click.UsageError(
            f"the certificate has {len(certificate.directories)} directories, {len(log_dirs)} are"
            " given: give each, in the certificate's order"
        )
    with output.progress("hash") as progress:
        found = changes_since(certificate, log_dirs, _bytes_of(progress))
    for number, (log_dir, one) in enumerate(zip(log_dirs, found, strict=True)):
        _show_changes(output, log_dir, one, certificate.directories[number].bytes)
    return any(one.any for one in found)


def _bytes_of(progress: Callable[[str, int, int], None]) -> Callable[[int, int], None]:
    return lambda done, total: progress("files", done, total)


def _show_changes(output: Output, log_dir: Path, one: Changes, size: int) -> None:
    """Print the differences of a directory by group. Effects: output."""
    groups = {"added": one.added, "removed": one.removed, "altered": one.altered}
    if one.any:
        counts = ", ".join(f"{len(paths):,} {name}" for name, paths in groups.items())
        output.text(f"{log_dir}: {counts}, {one.same:,} as they were.")
    else:
        output.text(f"{log_dir}: {one.same:,} files, {human_bytes(size)}, all as they were.")
    for name, paths in groups.items():
        _show_paths(output, name, map(printable, paths))
    unread = {printable(path): why for path, why in one.not_read.items()}
    _show_paths(output, "not read", (f"{path}: {why}" for path, why in unread.items()))
    output.json_object(
        {
            "directory": str(log_dir),
            **{name: [printable(path) for path in paths] for name, paths in groups.items()},
            "same": one.same,
            "notRead": unread,
        }
    )


def _show_paths(output: Output, name: str, paths: Iterable[str]) -> None:
    paths = list(paths)
    for path in paths[:SHOWN]:
        output.text(f"  {name}: {path}")
    if len(paths) > SHOWN:
        output.text(f"  {name}: and {len(paths) - SHOWN:,} more")
