"""What the last certificate said of each request: a small file of the platform with the pages of
cases, so that a page of a later search can name it. No keys, no HMACs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter, ValidationError

from logwright import durable
from logwright.erasure.case.model import CasePage, Certified
from logwright.erasure.certificate.files import read_small
from logwright.errors import UnreadableFile

CERTIFIED: Final = "certified.json"
"""Name of the file."""
_MOST_BYTES: Final = 64 * 1024 * 1024


_CERTIFIED: Final = TypeAdapter(dict[str, Certified])


def certified_by(page: CasePage, path: Path) -> dict[str, Certified]:
    """Return id → what the certificate of a page, in this file, says."""
    if page.signed is None:
        return {}
    return {
        case.id: Certified(
            path=str(path),
            sha256=page.signed.file_sha256,
            topics=case.topics,
            state=case.state,
            issued_at_ms=page.now_ms,
        )
        for case in page.cases
    }


def read_certified(directory: Path) -> dict[str, Certified]:
    """Return id → its last certificate; empty without a file. Effects: reads it.

    Raises:
        UnreadableFile: it cannot be read, or has another form.
    """
    path = directory / CERTIFIED
    if not path.exists():
        return {}
    content, _ = read_small(path, most=_MOST_BYTES)
    try:
        return _CERTIFIED.validate_json(content)
    except ValidationError as error:
        raise UnreadableFile(
            "is not a list of certificates.",
            path=path,
            remedy="Remove it: the next certificate makes it again.",
        ) from error


def add_certified(directory: Path, new: Mapping[str, Certified]) -> None:
    """Note the certificate of some requests. Effects: replaces the file; makes the directory.

    Raises:
        UnreadableFile: as `read_certified`.
        OSError: it cannot be written.
    """
    durable.make_directory(directory)
    known = {name: asdict(entry) for name, entry in {**read_certified(directory), **new}.items()}
    durable.replace(directory / CERTIFIED, json.dumps(known).encode())
