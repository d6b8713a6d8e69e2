"""The file of a certificate: what is signed, and the signature.

::

    {"certificate":{...},"signature":"<88 characters of base64>"}<line feed>

All of it is in canonical form, so that a file with any other byte is refused, inside and outside of
the signed part. The signature is Ed25519 over the bytes of ``{...}``: those from byte 16 (counted
from 1) up to 105 bytes before the end. So a stranger needs ``head``, ``tail``, ``base64`` and
``openssl`` to check it (docs/erasure.md).
"""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from pydantic import ValidationError

from logwright.erasure.certificate.canonical import (
    CorruptCertificate,
    canonical,
    parse_canonical,
)
from logwright.erasure.certificate.files import read_small
from logwright.erasure.certificate.keys import fingerprint, is_signed
from logwright.erasure.certificate.model import Certificate
from logwright.errors import UnsupportedFormatError

BEFORE: Final = b'{"certificate":'
BETWEEN: Final = b',"signature":"'
AFTER: Final = b'"}\n'
SIGNATURE_CHARACTERS: Final = 88
SIGNATURE_BYTES: Final = 64
SIGNED_FROM: Final = len(BEFORE)
SIGNED_TO: Final = -(len(BETWEEN) + SIGNATURE_CHARACTERS + len(AFTER))
MOST_BYTES: Final = 4 * 1024**3
"""Of a certificate's file; a row of the manifest has about 200 bytes."""
_REMEDY: Final = "Do not rely on it: ask for the file as it was issued."


def signed_file(certificate: Certificate, key: Ed25519PrivateKey) -> bytes:
    """Return a certificate's file.

    Raises:
        ValueError: the certificate names another key.
    """
    if certificate.signing_key_sha256 != fingerprint(key.public_key()):
        raise ValueError("the certificate names another key")
    content = canonical(certificate.model_dump(mode="json"))
    signature = base64.b64encode(key.sign(content))
    return BEFORE + content + BETWEEN + signature + AFTER


def open_signed(content: bytes, key: Ed25519PublicKey, path: Path) -> Certificate:
    """Return a certificate, if this key signed exactly these bytes.

    Args:
        content: of the file.
        key: the public key; the file's own statement about it is not used.
        path: for messages.

    Raises:
        CorruptCertificate: any byte differs from what was signed, or another key signed it.
        UnsupportedFormatError: the signature is right and the version is not known.
    """
    inside = content[SIGNED_FROM:SIGNED_TO]
    signature = content[SIGNED_TO + len(BETWEEN) : -len(AFTER)]
    try:
        raw = base64.b64decode(signature, validate=True)
    except ValueError:
        raw = b""
    whole = BEFORE + inside + BETWEEN + base64.b64encode(raw) + AFTER
    if whole != content or len(raw) != SIGNATURE_BYTES:
        raise CorruptCertificate(
            "does not have the form of a certificate's file.", path=path, remedy=_REMEDY
        )
    if not is_signed(key, raw, inside):
        raise CorruptCertificate(
            "the signature does not fit the content and this public key.",
            path=path,
            remedy=_REMEDY,
        )
    try:
        parse_canonical(inside)
        certificate = Certificate.model_validate_json(inside)
    except CorruptCertificate as error:
        raise CorruptCertificate(error.problem, path=path, remedy=_REMEDY) from error
    except ValidationError as error:
        raise UnsupportedFormatError(
            "is signed, but not of a version that this program knows.",
            path=path,
            remedy="Use the version of logwright that made it, or a newer one.",
        ) from error
    if certificate.signing_key_sha256 != fingerprint(key):
        raise CorruptCertificate(
            "names another key than the one that signed it.", path=path, remedy=_REMEDY
        )
    return certificate


def read_certificate(path: Path, key: Ed25519PublicKey) -> Certificate:
    """Return the certificate of a file. Effects: reads it.

    Raises:
        UnreadableFile: it cannot be read.
        LogwrightError: as `open_signed`.
    """
    content, _ = read_small(path, most=MOST_BYTES)
    return open_signed(content, key, path)
