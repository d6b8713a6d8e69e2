"""The requests of the commit protocol, made to a bucket."""

from __future__ import annotations

import random
import secrets
import time
from pathlib import Path
from typing import Any, Final, TypeVar, assert_never

from logwright.bucket.commit import (
    Absent,
    Answer,
    Clock,
    Create,
    Delete,
    Elapsed,
    Get,
    List,
    Listed,
    Put,
    Request,
    Requests,
    Unknown,
    Yes,
)
from logwright.bucket.manifest import LARGEST_MANIFEST_BYTES
from logwright.bucket.store import Bucket, RefusedName
from logwright.errors import LogwrightError, UnreadableFile

_T = TypeVar("_T")
_FIRST_WAIT_SECONDS: Final = 0.02
_LONGEST_WAIT_SECONDS: Final = 5.0
CLOCK: Final = "clock/"
"""Prefix of the objects that are written to see the server's clock."""


def drive(directory: Bucket, requests: Requests[_T]) -> _T:
    """Make the requests of a protocol, and return what it returns. Effects: those of its requests;
    waits, longer each time, while there is no answer.

    Args:
        directory: a partition's.
        requests: of `logwright.bucket.commit`.

    Raises:
        UnreadableFile: the bucket does not permit a request.
        LogwrightError: as the protocol.
    """
    answer: Any = None
    wait = _FIRST_WAIT_SECONDS
    try:
        while True:
            answer = _answer(directory, requests.send(answer))
            if isinstance(answer, Unknown):
                time.sleep(wait * random.random())  # noqa: S311 -- so that two do not keep step
                wait = min(2 * wait, _LONGEST_WAIT_SECONDS)
            else:
                wait = _FIRST_WAIT_SECONDS
    except StopIteration as end:
        result: _T = end.value
        return result
    except LogwrightError as error:
        if error.path is not None and not str(error.path).startswith(str(Path(directory.url))):
            error.path = Path(f"{directory.url}/{error.path}")
        raise
    finally:
        requests.close()


def _answer(directory: Bucket, request: Request) -> Answer:
    try:
        return _made(directory, request)
    except FileNotFoundError:
        return Yes(()) if isinstance(request, List) else Absent()
    except PermissionError as error:
        raise UnreadableFile(
            "the bucket does not permit it.",
            path=directory.url,
            remedy="Give the environment's credentials the right to list, read, write and delete.",
        ) from error
    except RefusedName as error:
        raise UnreadableFile(
            "an object has a name that the client refuses.",
            path=directory.url,
            remedy="Rename or remove it with the tools of the bucket.",
        ) from error
    except OSError:
        return Unknown()


def _made(directory: Bucket, request: Request) -> Answer:
    match request:
        case Elapsed():
            value: object = int(time.monotonic() * 1000)
        case Clock():
            value = directory.clock_ms(f"{CLOCK}{secrets.token_hex(8)}")
        case List(prefix, after):
            entries = directory.listing(prefix, after)
            value = tuple(Listed(entry.key, entry.modified_ms) for entry in entries)
        case Get(key):
            value = directory.content(key, LARGEST_MANIFEST_BYTES)
        case Put(key, content):
            directory.put_unique(key, content)
            value = None
        case Create(key, content):
            return Yes(None) if directory.create(key, content) else Unknown()
        case Delete(key):
            directory.delete(key)
            value = None
        case _:
            assert_never(request)
    return Yes(value)
