"""The options of ``logwright verify-certificate``."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from logwright.cli.options.common import declare
from logwright.cli.options.parameters import LogDir, log_format_option, output_option

_PATH: Final = click.Path(path_type=Path)


@declare("verify-certificate", extra="erasure")
@click.argument("file", metavar="FILE", type=_PATH)
@click.argument("log_dirs", metavar="[LOG_DIR ...]", nargs=-1, type=LogDir())
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
    "--tier-key",
    metavar="FILE",
    type=_PATH,
    help="Of a LOG_DIR tier:DIR that is encrypted: the RSA private key, in PEM.",
)
@output_option
@log_format_option
def command() -> None:
    """Check a certificate's signature; with LOG_DIRs, in the certificate's order, also what changed
    in each since then.

    Exit status: 0 the certificate is as it was signed, and nothing changed; 3 it is not as it was
    signed; 6 a directory has other files than the certificate.
    """
