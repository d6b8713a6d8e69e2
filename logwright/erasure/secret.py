"""The deployment's secret, under which the keys of requests are kept as HMACs.

1. A file has the secret, without the newline at its end. Its mode must be 0600 or stricter, so that
   nobody but its owner can compute an HMAC and try out keys.
2. An HMAC is HMAC-SHA-256 (RFC 2104) of the key's bytes alone: ``openssl dgst -sha256 -hmac`` gives
   the same. One request may therefore name a pattern of topics.
3. The filter's hash key and the secret's own id are derived with HMAC-SHA-512 instead. No record
   key, whatever it is, has one of them as its HMAC.
"""

from __future__ import annotations

import hmac
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from logwright.errors import PolicyError
from logwright.format.siphash import HashKey, siphash64

ENVIRONMENT: Final = "LOGWRIGHT_ERASURE_SECRET"
"""The environment variable that may have the secret. The command line and the resources read it."""
HMAC_BYTES: Final = 32
SHORT_BYTES: Final = 8
SMALLEST_SECRET_BYTES: Final = 32
"""A key shorter than the hash makes an HMAC weaker (RFC 2104, section 3)."""
FILTER_MASK: Final = 0xFFFF_FFFF
_LARGEST_SECRET_BYTES: Final = 4096
_OTHERS: Final = 0o077
_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_REMEDY: Final = "Make one: (umask 077; openssl rand -hex 32 > FILE)."


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret:
    """The secret of a deployment. It is not in its `repr`.

    Attributes:
        hash_key: of the filter, derived from the secret.
        id: identifies the secret, and shows nothing of it: 16 hexadecimal digits.
    """

    _bytes: bytes = field(repr=False)
    hash_key: HashKey = field(repr=False)
    id: str

    @classmethod
    def of(cls, secret: bytes) -> Secret:
        """Return the secret that these bytes are.

        Raises:
            PolicyError: they are too few.
        """
        if len(secret) < SMALLEST_SECRET_BYTES:
            raise PolicyError(
                f"the secret of the erasure requests has {len(secret)} bytes, fewer than"
                f" {SMALLEST_SECRET_BYTES}.",
                remedy=_REMEDY,
            )
        derived = hmac.digest(secret, b"logwright erasure filter", "sha512")
        name = hmac.digest(secret, b"logwright erasure secret id", "sha512")
        return cls(
            _bytes=secret,
            hash_key=HashKey(
                low=int.from_bytes(derived[:8], "little"),
                high=int.from_bytes(derived[8:16], "little"),
            ),
            id=name[:8].hex(),
        )

    @classmethod
    def random(cls) -> Secret:
        """Return a new secret. Effects: reads the system's randomness."""
        return cls.of(os.urandom(HMAC_BYTES))

    def hmac(self, key: bytes) -> bytes:
        """Return the HMAC-SHA-256 of a key, 32 bytes."""
        return hmac.digest(self._bytes, key, "sha256")

    def short(self, hmac_: bytes) -> str:
        """Return the first 8 bytes of an HMAC under this secret in hex, after the secret's id and a
        colon.
        """
        return f"{self.id}:{hmac_[:SHORT_BYTES].hex()}"

    def filter(self, key: bytes) -> int:
        """Return the filter of a key: the low 32 bits of its SipHash-1-3."""
        data = np.frombuffer(key, dtype=np.uint8)
        low, high = np.uint64(self.hash_key.low), np.uint64(self.hash_key.high)
        return int(siphash64(data, 0, len(data), low, high)) & FILTER_MASK


def load_secret(path: Path | None, environment: str | None = None) -> Secret:
    """Return the secret of a file, or without a file that of the environment. Effects: reads the
    file.

    Args:
        path: the file, None if there is none.
        environment: the value of `ENVIRONMENT`, None if it is not set.

    Raises:
        PolicyError: there is neither, the file cannot be read, others may read it, or the secret is
            too short.
    """
    if path is None:
        if not environment:
            raise PolicyError(
                f"no secret for the erasure requests: neither a file nor {ENVIRONMENT} is given.",
                remedy=_REMEDY,
            )
        return Secret.of(os.fsencode(environment))
    try:
        content = _read_private(path)
    except OSError as error:
        raise PolicyError(
            f"the secret cannot be read: {error.strerror}.", path=path, remedy=_REMEDY
        ) from error
    try:
        return Secret.of(content.removesuffix(b"\n").removesuffix(b"\r"))
    except PolicyError as error:
        raise PolicyError(error.problem, path=path, remedy=error.remedy) from None


def _read_private(path: Path) -> bytes:
    """Return the content of a file that only its owner may read. Effects: reads it.

    Raises:
        OSError: it cannot be opened or read.
        PolicyError: it is not a regular file, others may read it, or it is too large.
    """
    descriptor = os.open(path, _FLAGS)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise PolicyError("the secret is not a regular file.", path=path, remedy=_REMEDY)
        if status.st_mode & _OTHERS:
            raise PolicyError(
                f"others may read the secret: its mode is {stat.S_IMODE(status.st_mode):04o}.",
                path=path,
                remedy="Set its mode to 0600, and change the secret if others may have read it.",
            )
        if status.st_size > _LARGEST_SECRET_BYTES:
            raise PolicyError(
                f"the secret has {status.st_size} bytes, more than {_LARGEST_SECRET_BYTES}.",
                path=path,
                remedy=_REMEDY,
            )
        return os.read(descriptor, _LARGEST_SECRET_BYTES)
    finally:
        os.close(descriptor)
