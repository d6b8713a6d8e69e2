"""``logwright certificate --new-key``: make a key pair."""

from __future__ import annotations

from pathlib import Path

from logwright.cli.output import Output
from logwright.erasure.certificate.keys import fingerprint, load_public, new_key


def run(output: Output, *, path: Path) -> None:
    """Make a key pair and print its fingerprint. Effects: two files; output."""
    public = new_key(path)
    output.text(f"{path}: the private key. Keep it.")
    output.text(f"{public}: the public key. Publish it, and its SHA-256:")
    output.text(fingerprint(load_public(public)))
