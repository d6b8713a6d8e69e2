"""Credentials that somebody wrote into a URL: they are shown nowhere."""

from __future__ import annotations

import re
from typing import Final

HIDDEN: Final = "***"
_USER: Final = re.compile(r"(\b[a-z][a-z0-9+.-]*:/{1,3})[^/@\s]*:[^/@\s]*@", re.IGNORECASE)
"""Also with one slash: so a path has it."""
_PARAMETER: Final = re.compile(
    r"([?&;](?:sig|(?:x-[a-z]+-)?signature|x-[a-z]+-credential|x-[a-z]+-security-token|token"
    r"|AWSAccessKeyId)=|\b(?:AccountKey|SharedAccessKey|SharedAccessSignature)=)[^&;\s'\"]+",
    re.IGNORECASE,
)
"""Of signed URLs: Azure's SAS, and what Amazon and Google sign; and of connection strings."""
_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def without_credentials(text: str) -> str:
    """Return a text with the users, passwords and signatures of its URLs as ``***``. Pure."""
    return _PARAMETER.sub(rf"\1{HIDDEN}", _USER.sub(rf"\1{HIDDEN}@", text))


def is_any_url(text: str) -> bool:
    """Return whether a text begins as a URL does, of whatever scheme. Pure."""
    return _URL.match(text) is not None
