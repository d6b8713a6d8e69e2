"""The key pair's files."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed448

from logwright.erasure.certificate.keys import (
    fingerprint,
    is_signed,
    load_private,
    load_public,
    new_key,
)
from logwright.errors import PreconditionError, UnreadableFile


def test_new_key(tmp_path: Path) -> None:
    """Only the owner can read the private one, whatever the umask; the pair fits."""
    before = os.umask(0)
    try:
        public_path = new_key(tmp_path / "key.pem")
    finally:
        os.umask(before)
    assert 0o600 == stat.S_IMODE((tmp_path / "key.pem").stat().st_mode)
    assert tmp_path / "key.pem.pub" == public_path
    private, public = load_private(tmp_path / "key.pem"), load_public(public_path)
    assert is_signed(public, private.sign(b"x"), b"x")
    assert not is_signed(public, private.sign(b"x"), b"y")
    assert fingerprint(private.public_key()) == fingerprint(public)


def test_fingerprint_is_what_openssl_prints(tmp_path: Path) -> None:
    """A stranger compares it with the published one."""
    public_path = new_key(tmp_path / "key.pem")
    script = "openssl pkey -pubin -in key.pem.pub -outform DER | sha256sum"
    printed = subprocess.run(
        ["/bin/sh", "-c", script], cwd=tmp_path, check=True, capture_output=True
    ).stdout
    assert fingerprint(load_public(public_path)) == printed.split()[0].decode()


@pytest.mark.parametrize("name", ["key.pem", "key.pem.pub"])
def test_a_key_is_never_replaced(tmp_path: Path, name: str) -> None:
    """Certificates that it signed could not be checked any more."""
    (tmp_path / name).write_text("old")
    with pytest.raises(PreconditionError, match="never replaced"):
        new_key(tmp_path / "key.pem")
    assert [name] == [path.name for path in tmp_path.iterdir()]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o601])
def test_others_must_not_read_it(tmp_path: Path, mode: int) -> None:
    """It is refused, with the mode that it should have."""
    new_key(tmp_path / "key.pem")
    (tmp_path / "key.pem").chmod(mode)
    with pytest.raises(UnreadableFile, match=f"mode {mode:04o}.*0600"):
        load_private(tmp_path / "key.pem")


@pytest.mark.parametrize("content", [b"", b"s3cret", b"-----BEGIN PRIVATE KEY-----\nx\n"])
def test_not_a_key(tmp_path: Path, content: bytes) -> None:
    """The message has nothing of the file."""
    path = tmp_path / "key.pem"
    path.write_bytes(content)
    path.chmod(0o600)
    for load in (load_private, load_public):
        with pytest.raises(UnreadableFile) as caught:
            load(path)
        assert "s3cret" not in caught.value.problem


def test_another_algorithm(tmp_path: Path) -> None:
    """Ed448 is not Ed25519."""
    path = tmp_path / "key.pem"
    key = ed448.Ed448PrivateKey.generate()
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    path.chmod(0o600)
    with pytest.raises(UnreadableFile, match="no private Ed25519"):
        load_private(path)


def test_a_large_file_is_not_read(tmp_path: Path) -> None:
    """A key is small."""
    path = tmp_path / "key.pem"
    path.write_bytes(bytes(20_000))
    with pytest.raises(UnreadableFile, match="more than"):
        load_public(path)
