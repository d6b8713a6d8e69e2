"""A certificate with any other byte is refused."""

from __future__ import annotations

import base64
import random
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from logwright.erasure.certificate.canonical import CorruptCertificate, canonical
from logwright.erasure.certificate.keys import public_pem
from logwright.erasure.certificate.signed import (
    AFTER,
    BEFORE,
    BETWEEN,
    open_signed,
    read_certificate,
    signed_file,
)
from logwright.errors import UnsupportedFormatError
from tests.unit.erasure.certificate.samples import KEY, finding, sample

ORDER = 2**252 + 27742317777372353535851937790883648493
"""Of the group of Ed25519 (RFC 8032, 5.1)."""


@pytest.fixture(name="content")
def _content(tmp_path: Path) -> bytes:
    return signed_file(sample(tmp_path / "logs", finding()), KEY)


def refused(content: bytes) -> None:
    with pytest.raises(CorruptCertificate):
        open_signed(content, KEY.public_key(), Path("c"))


def test_a_certificate_is_read_as_it_was_made(tmp_path: Path) -> None:
    """All that it says."""
    made = sample(tmp_path / "logs", finding(), finding(offset=2**62, gone_by_ms=None))
    (tmp_path / "c.json").write_bytes(signed_file(made, KEY))
    assert made == read_certificate(tmp_path / "c.json", KEY.public_key())


def test_every_byte_counts(content: bytes, seed: int) -> None:
    """Each changed, removed, doubled, in the signed part and outside of it."""
    rng = random.Random(seed)
    for at, byte in enumerate(content):
        for other in {byte ^ 1, byte ^ 0x20, rng.randrange(256)} - {byte}:
            refused(content[:at] + bytes([other]) + content[at + 1 :])
        refused(content[:at] + content[at + 1 :])
        refused(content[:at] + content[at : at + 1] + content[at:])
    for more in (b"\n", b" ", b"\0", b"}"):
        refused(content + more)
        refused(more + content)
    for length in range(0, len(content), 97):
        refused(content[:length])


def test_the_same_value_in_another_form(content: bytes) -> None:
    """A signature of it by the right key does not help."""
    inside = content[len(BEFORE) : -(len(BETWEEN) + 88 + len(AFTER))]
    for other in (inside.replace(b",", b", ", 1), inside.replace(b"erasure", b"\\u0065rasure", 1)):
        refused(_signed(other))


def test_a_signature_in_another_form(content: bytes) -> None:
    """S + L is a signature for careless code, and so are other bits after the last character."""
    start = len(content) - len(AFTER) - 88
    raw = base64.b64decode(content[start:-3])
    number = int.from_bytes(raw[32:], "little") + ORDER
    other = base64.b64encode(raw[:32] + number.to_bytes(32, "little"))
    refused(content[:start] + other + AFTER)
    assert b"==" == content[-5:-3]
    last = content[-6]
    for character in b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/":
        if character != last:
            refused(content[:-6] + bytes([character]) + content[-5:])


def test_another_key(content: bytes) -> None:
    """The file's own statement about its key is not believed."""
    with pytest.raises(CorruptCertificate, match="does not fit"):
        open_signed(content, Ed25519PrivateKey.generate().public_key(), Path("c"))


def test_a_key_that_is_not_named(tmp_path: Path) -> None:
    """A certificate names the key that signs it."""
    other = Ed25519PrivateKey.generate()
    with pytest.raises(ValueError, match="another key"):
        signed_file(sample(tmp_path / "logs"), other)


def test_the_first_version(tmp_path: Path) -> None:
    """It has no account, and is still read."""
    value = sample(tmp_path / "logs", finding()).model_dump(mode="json") | {"format_version": 1}
    del value["topics"], value["erased"], value["issuer"], value["patterns"], value["hidden"]
    for rows, names in (
        ("manifest", ["looked"]),
        ("directories", ["path_hex", "running"]),
        ("remains", ["committed"]),
        ("requests", ["why", "id", "deeds"]),
        ("not_read", ["topic", "position", "bytes"]),
    ):
        for row in value[rows]:
            for name in names:
                del row[name]
    made = open_signed(_signed(canonical(value)), KEY.public_key(), Path("c"))
    assert {None} == {one.looked for one in made.manifest}
    assert (1, ()) == (made.format_version, made.topics)


def test_another_version(tmp_path: Path) -> None:
    """It is signed, but its meaning is not known."""
    value = sample(tmp_path / "logs").model_dump(mode="json") | {"format_version": 5}
    with pytest.raises(UnsupportedFormatError):
        open_signed(_signed(canonical(value)), KEY.public_key(), Path("c"))


def test_openssl_agrees(content: bytes, tmp_path: Path) -> None:
    """The commands of docs/erasure.md, which need nothing of this program."""
    (tmp_path / "certificate.json").write_bytes(content)
    (tmp_path / "key.pub").write_bytes(public_pem(KEY.public_key()))
    script = """
        set -e
        tail -c +16 certificate.json | head -c -105 > signed
        tail -c 91 certificate.json | head -c 88 | base64 -d > signature
        openssl pkeyutl -verify -pubin -inkey key.pub -rawin -in signed -sigfile signature
    """
    good = subprocess.run(["/bin/sh", "-c", script], cwd=tmp_path, check=False, capture_output=True)
    assert (0, b"Signature Verified Successfully\n") == (good.returncode, good.stdout), good.stderr
    (tmp_path / "certificate.json").write_bytes(content.replace(b"erasure", b"Erasure", 1))
    bad = subprocess.run(["/bin/sh", "-c", script], cwd=tmp_path, check=False, capture_output=True)
    assert 0 != bad.returncode


def _signed(inside: bytes) -> bytes:
    return BEFORE + inside + BETWEEN + base64.b64encode(KEY.sign(inside)) + AFTER
