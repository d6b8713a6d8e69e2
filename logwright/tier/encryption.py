"""Decrypt what the common plugin encrypted: AES-256-GCM with a key for each segment, which is in
its manifest, encrypted with the operator's RSA key.

RSA-OAEP is with SHA3-512 for both hashes (RFC 8017, section 7.1.2), which the cryptography package
does not have: its own RSA is not asked, only AES and the reading of keys are.
"""

from __future__ import annotations

import hashlib
from base64 import b64decode
from binascii import Error as Base64Error
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from logwright.errors import PolicyError
from logwright.extras import require
from logwright.place.files import open_bytes

_IV_BYTES: Final = 12
_TAG_BYTES: Final = 16
OVERHEAD_BYTES: Final = _IV_BYTES + _TAG_BYTES
"""By how much encryption makes a chunk or an index longer."""
_KEY_BYTES: Final = 32
_HASH_BYTES: Final = 64
_MOST_KEY_FILE_BYTES: Final = 65_536
_MOST_MODULUS_BITS: Final = 16_384


class Cipher:
    """Decrypts the chunks and indexes of one segment."""

    def __init__(self, key: bytes, aad: bytes) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 -- an extra

        self._aes: Any = AESGCM(key)
        self._aad = aad

    def decrypt(self, content: bytes) -> bytes:
        """Return what was encrypted.

        Raises:
            ValueError: it is too short, or was changed.
        """
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415 -- an extra

        if len(content) < OVERHEAD_BYTES:
            raise ValueError("it is too short to be encrypted")
        try:
            plain: bytes = self._aes.decrypt(content[:_IV_BYTES], content[_IV_BYTES:], self._aad)
        except InvalidTag as error:
            raise ValueError("it was changed after it was encrypted") from error
        return plain


@dataclass(frozen=True, slots=True)
class PrivateKey:
    """The operator's RSA key.

    Attributes:
        modulus, exponent: its public modulus and private exponent.
    """

    modulus: int
    exponent: int

    def __repr__(self) -> str:
        """Without the numbers."""
        return "PrivateKey()"

    def data_key(self, encrypted: bytes) -> bytes:
        """Return a segment's key.

        Raises:
            ValueError: it was encrypted with another key, or changed.
        """
        size = (self.modulus.bit_length() + 7) // 8
        number = int.from_bytes(encrypted, "big")
        if len(encrypted) != size or number >= self.modulus or size < 2 * _HASH_BYTES + 2:
            raise ValueError("it was encrypted with another key")
        block = pow(number, self.exponent, self.modulus).to_bytes(size, "big")
        masked_seed, masked = block[1 : _HASH_BYTES + 1], block[_HASH_BYTES + 1 :]
        seed = _xor(masked_seed, _mask(masked, _HASH_BYTES))
        data = _xor(masked, _mask(seed, len(masked)))
        padding, separator, key = data[_HASH_BYTES:].partition(b"\x01")
        named = data[:_HASH_BYTES] == hashlib.sha3_512(b"").digest()
        if block[0] or not named or not separator or padding.strip(b"\0") or len(key) != _KEY_BYTES:
            raise ValueError("it was encrypted with another key, or changed")
        return key


def load_key(path: Path) -> PrivateKey:
    """Return the private key of a PEM file without a password. Effects: reads it.

    Raises:
        MissingExtra: the extra ``tier`` is not installed.
        UnreadableFile: it cannot be read.
        PolicyError: it is another kind of key.
    """
    require("tier", by="--tier-key")
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey  # noqa: PLC0415 -- an extra
    from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415 -- an extra

    with open_bytes(path) as file:
        content = file.span(0, _MOST_KEY_FILE_BYTES)
    try:
        key = load_pem_private_key(content, None)
    except (ValueError, TypeError) as error:
        raise _no_key(path) from error
    if not isinstance(key, RSAPrivateKey) or key.key_size > _MOST_MODULUS_BITS:
        raise _no_key(path)
    numbers = key.private_numbers()
    return PrivateKey(numbers.public_numbers.n, numbers.d)


def data_key_of(text: str) -> tuple[str, bytes]:
    """Return (name of the RSA key, encrypted key) of a manifest's ``NAME:BASE64``. Pure.

    Raises:
        ValueError: it is malformed.
    """
    name, colon, encoded = text.partition(":")
    try:
        content = b64decode(encoded, validate=True)
    except Base64Error as error:
        raise ValueError("the data key is not base64") from error
    if not colon or not content:
        raise ValueError("the data key is malformed")
    return name, content


def _no_key(path: Path) -> PolicyError:
    return PolicyError(
        "is not an RSA private key in PEM without a password.",
        path=path,
        remedy="Give the key file of the plugin.",
    )


def _mask(seed: bytes, size: int) -> bytes:
    """Return MGF1 with SHA3-512 (RFC 8017, appendix B.2.1)."""
    blocks = (
        hashlib.sha3_512(seed + number.to_bytes(4, "big")).digest()
        for number in range(-(-size // _HASH_BYTES))
    )
    return b"".join(blocks)[:size]


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))
