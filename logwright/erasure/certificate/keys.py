"""The key pair that signs certificates: Ed25519 (RFC 8032), in the PEM files of OpenSSL.

The private key is a file that only its owner can read. The public key is published: it is what a
stranger needs to check a certificate. Both are in the forms that ``openssl pkey`` reads, PKCS #8
and SubjectPublicKeyInfo; the fingerprint is the SHA-256 of the latter's DER form.
"""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from logwright import durable
from logwright.erasure.certificate.files import read_small, written
from logwright.errors import PreconditionError, UnreadableFile

PrivateKey = Ed25519PrivateKey
PRIVATE_MODE: Final = 0o600
PUBLIC_MODE: Final = 0o644
PUBLIC_SUFFIX: Final = ".pub"
MOST_KEY_BYTES: Final = 16_384


def new_key(path: Path) -> Path:
    """Make a key pair: PATH with mode 0600, and PATH.pub. Effects: writes both files, which must
    not exist.

    Returns:
        the public key's file.

    Raises:
        PreconditionError: one of them exists, or cannot be written.
    """
    public_path = path.with_name(path.name + PUBLIC_SUFFIX)
    for file in (path, public_path):
        if os.path.lexists(file):
            raise PreconditionError("exists: a key is never replaced.", path=file)
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    with written(path):
        durable.new(path, private, mode=PRIVATE_MODE)
    with written(public_path):
        durable.new(public_path, public_pem(key.public_key()), mode=PUBLIC_MODE)
    return public_path


def load_private(path: Path) -> Ed25519PrivateKey:
    """Return a private key. Effects: reads the file.

    Raises:
        UnreadableFile: it is not a regular file, others may read it, or it has no such key.
    """
    content, status = read_small(path, most=MOST_KEY_BYTES)
    if stat.S_IMODE(status.st_mode) & 0o077:
        raise UnreadableFile(
            f"is a private key with mode {stat.S_IMODE(status.st_mode):04o}: others may read it.",
            path=path,
            remedy="Set its mode to 0600, or make a new key if others have read it.",
        )
    try:
        key = serialization.load_pem_private_key(content, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None  # the library's text may quote the file
    if not isinstance(key, Ed25519PrivateKey):
        raise UnreadableFile("has no private Ed25519 key without a password.", path=path)
    return key


def load_public(path: Path) -> Ed25519PublicKey:
    """Return a public key. Effects: reads the file.

    Raises:
        UnreadableFile: it is not a regular file, or has no such key.
    """
    content, _ = read_small(path, most=MOST_KEY_BYTES)
    try:
        key = serialization.load_pem_public_key(content)
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise UnreadableFile("has no public Ed25519 key in PEM form.", path=path)
    return key


def fingerprint(key: Ed25519PublicKey) -> str:
    """Return the SHA-256 of a public key in hex, as ``openssl pkey -pubin -outform DER |
    sha256sum`` prints it.
    """
    der = key.public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return hashlib.sha256(der).hexdigest()


def public_pem(key: Ed25519PublicKey) -> bytes:
    """Return a public key's file."""
    return key.public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def is_signed(key: Ed25519PublicKey, signature: bytes, content: bytes) -> bool:
    """Return whether this is the key's signature of the content."""
    try:
        key.verify(signature, content)
    except InvalidSignature:
        return False
    return True
