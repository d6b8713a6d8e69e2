"""All that is below a prefix, whatever its name, and where the client shows nothing.

A list with a name in it that the client refuses (an empty part, ``.``, ``..``, a control character)
is not shown. Then each directory is listed alone; one that has such a name is named, and of it what
sorts after a character is tried, from ``0`` on: most of these names sort before.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from dataclasses import dataclass, field
from string import ascii_lowercase, ascii_uppercase
from typing import TYPE_CHECKING, Final

from logwright.bucket.store import RefusedName, stored_file

if TYPE_CHECKING:
    from pathlib import Path

    from logwright.bucket.store import Bucket, Stored

_REFUSED: Final = (
    "objects were not searched here: one has a name that the client refuses, and hides others"
)
_FIRSTS: Final = ("0", *ascii_uppercase, "_", *ascii_lowercase)
"""Ascending: the first after which the client shows a list shows the most."""
_KINDS: Final = {stat.S_IFLNK: "a symbolic link, which is not followed"}


@dataclass(frozen=True, slots=True)
class Everything:
    """What was listed.

    Attributes:
        stored: objects; two can have the same key, where the client leaves a slash out.
        unread: key, or prefix with its slash → why nothing of it is known.
    """

    stored: list[Stored] = field(default_factory=list)
    unread: dict[str, str] = field(default_factory=dict)


def everything(bucket: Bucket) -> Everything:
    """Return all that is below a URL. Effects: lists it.

    Raises:
        OSError: it does not answer, or does not permit it.
    """
    seen = Everything()
    if bucket.root is None:
        _list(bucket, "", seen)
    elif bucket.root.is_dir():
        _walk(bucket.root, "", seen)
    return seen


def _list(bucket: Bucket, prefix: str, seen: Everything) -> None:
    with suppress(RefusedName):
        seen.stored.extend(bucket.listing(prefix))
        return
    try:
        inner, objects = bucket.level(prefix)
    except RefusedName:
        seen.unread[prefix] = _REFUSED
        for first in _FIRSTS:
            with suppress(RefusedName):
                seen.stored.extend(bucket.listing(prefix, f"{prefix}{first}"))
                return
        return
    seen.stored.extend(objects)
    for each in inner:
        _list(bucket, each, seen)


def _walk(directory: Path, prefix: str, seen: Everything) -> None:
    """List a directory of this machine; what vanishes meanwhile is left out."""
    try:
        names = sorted(os.listdir(directory))  # noqa: PTH208 -- names are enough
    except FileNotFoundError:
        return
    except OSError as error:
        seen.unread[prefix] = f"cannot be listed: {error.strerror}"
        return
    for name in names:
        with suppress(FileNotFoundError):
            status = (directory / name).lstat()
            if stat.S_ISDIR(status.st_mode):
                _walk(directory / name, f"{prefix}{name}/", seen)
            elif stat.S_ISREG(status.st_mode):
                seen.stored.append(stored_file(f"{prefix}{name}", status))
            else:
                kind = _KINDS.get(stat.S_IFMT(status.st_mode), "neither a file nor a directory")
                seen.unread[f"{prefix}{name}"] = kind
