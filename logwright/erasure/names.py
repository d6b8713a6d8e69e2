"""Requested keys in names: of topics, files, directories and requests. Pure.

Names are not secret, so they are shown and signed; a key must not be. Since stored requests have
only the HMACs of their keys, each part of a name is tried: what stands between two characters that
are neither letters nor digits, as it is, percent-decoded, or decoded from hexadecimal digits or
base64. A part of fewer than `SHORTEST` bytes is not tried: partition numbers, ``log``.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote_to_bytes

from logwright.erasure.secret import SHORT_BYTES, Secret

SHORTEST: Final = 4
"""In bytes, of a key that is looked for in names."""
HIDDEN: Final = "hidden-"
"""Stands in a name for a key, before the beginning of the key's HMAC in hex."""
_HIDDEN: Final = re.compile(rf"{HIDDEN}[0-9a-f]{{{2 * SHORT_BYTES}}}")
_HEX: Final = re.compile(r"(?:[0-9A-Fa-f]{2})+")
_BASE64: Final = re.compile(r"[A-Za-z0-9+/_-]+={0,2}")
_FROM_URL: Final = str.maketrans("-_", "+/")
_LONGEST: Final = 1024
"""In characters, of a part that is tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """What knows whether a name has a requested key.

    Attributes:
        secret: under which the HMACs are.
        hmacs: of the keys.
    """

    secret: Secret
    hmacs: frozenset[bytes]
    _shown: dict[str, str] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, secret: Secret, hmacs: Iterable[bytes]) -> Names:
        """Return what knows these keys."""
        return cls(secret=secret, hmacs=frozenset(hmacs))

    def has_key(self, name: str) -> bool:
        """Return whether a key is in a name."""
        return self.shown(name) != name

    def shown(self, name: str) -> str:
        """Return a name, or a path, with `HIDDEN` and the beginning of its HMAC for each key."""
        if self._part(name) is not None:
            return self._of_part(name)
        return "/".join(map(self._of_part, name.split("/")))

    def _of_part(self, part: str) -> str:
        if part not in self._shown:
            self._shown[part] = self._replaced(part)
        return self._shown[part]

    def _replaced(self, part: str) -> str:
        for start, end in _spans(part):
            if (digest := self._part(part[start:end])) is not None:
                before, after = self._replaced(part[:start]), self._replaced(part[end:])
                return f"{before}{hidden_as(digest)}{after}"
        return part

    def _part(self, text: str) -> bytes | None:
        """Return the HMAC of the key that a text is, in one of its forms."""
        for form in _forms(text):
            if len(form) >= SHORTEST and (digest := self.secret.hmac(form)) in self.hmacs:
                return digest
        return None


def hidden_as(hmac: bytes) -> str:
    """Return what stands for a key, or for a name that has one, by its HMAC."""
    return f"{HIDDEN}{hmac[:SHORT_BYTES].hex()}"


def is_hidden(name: str) -> bool:
    """Return whether a key may have been replaced in a name."""
    return _HIDDEN.search(name) is not None


def may_be(shown: str, path: str) -> bool:
    """Return whether a path may be the one that is shown so."""
    parts = map(re.escape, _HIDDEN.split(shown))
    return re.fullmatch("[^/]+".join(parts), path) is not None


def _spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield start and end of the parts of a text, the longest first."""
    cuts = [
        at
        for at in range(len(text) + 1)
        if at in (0, len(text)) or not (text[at - 1].isalnum() and text[at].isalnum())
    ]
    spans = [
        (start, end)
        for number, start in enumerate(cuts)
        for end in cuts[number + 1 :]
        if SHORTEST <= end - start <= _LONGEST
    ]
    yield from sorted(spans, key=lambda span: span[0] - span[1])


def _forms(text: str) -> Iterator[bytes]:
    """Yield the bytes that a text can stand for."""
    plain = text.encode(errors="surrogateescape")
    yield plain
    if "%" in text:
        yield unquote_to_bytes(plain)
    if _HEX.fullmatch(text):
        yield bytes.fromhex(text)
    if _BASE64.fullmatch(text):
        bare = text.rstrip("=")
        try:
            yield base64.b64decode(
                bare + "=" * (-len(bare) % 4), altchars="-_" if _url(text) else None
            )
        except (binascii.Error, ValueError):
            return


def _url(text: str) -> bool:
    return "-" in text or "_" in text
