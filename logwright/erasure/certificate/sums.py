r"""The manifest in the form that ``sha256sum --check`` reads (GNU coreutils).

A line is the digest, two blanks, and the path. A file whose path is not shown, since a key is in
it, has no line. In a path with a backslash, a line feed or a
carriage return these are written as ``\\``, ``\n`` and ``\r``; the line begins with a backslash.
"""

from __future__ import annotations

import os

from logwright.erasure.certificate.model import Certificate
from logwright.erasure.names import is_hidden

_ESCAPED = {"\\": "\\\\", "\n": "\\n", "\r": "\\r"}


def sums_of(certificate: Certificate, directory: int) -> bytes:
    """Return the lines of a directory's files; paths are relative to it."""
    lines = (
        _line(file.sha256, file.path.path)
        for file in certificate.manifest
        if file.directory == directory and not is_hidden(file.path.path)
    )
    return b"".join(lines)


def _line(sha256: str, path: str) -> bytes:
    escaped = "".join(_ESCAPED.get(character, character) for character in path)
    lead = "\\" if escaped != path else ""
    return os.fsencode(f"{lead}{sha256}  {escaped}\n")
