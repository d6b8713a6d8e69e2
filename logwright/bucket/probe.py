"""Whether a bucket keeps its word: of many who create one object at once, one succeeds.

Some servers ignore the condition, and some look and then write, so that creates one after another
are right and a race has several winners. With one of these an acknowledged commit could be lost. So
a bucket is probed by races before anything is written there.
"""

from __future__ import annotations

import secrets
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from threading import Barrier
from typing import Final

from logwright.bucket.store import Bucket
from logwright.errors import NotALogDir, PreconditionError, Unsettled, unreadable

ROUNDS: Final = 20
AT_ONCE: Final = 8
PROBES: Final = "probe/"
_MOST_ROUNDS: Final = 3 * ROUNDS
_CONTENT_BYTES: Final = 64


class UnsafeBucket(PreconditionError):
    """A bucket lets several creates of one object succeed."""


def probe(bucket: Bucket) -> None:
    """Require that each of some races has one winner, whose object is there. Effects: writes
    objects below ``probe/`` and removes them.

    Raises:
        NotALogDir: there is no such bucket.
        UnsafeBucket: a race had several winners, or the winner's object is not there.
        Unsettled: too many races had no winner that is known: the bucket does not answer.
        UnreadableFile: it does not permit it.
    """
    _require_bucket(bucket)
    settled = 0
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for _ in range(_MOST_ROUNDS):
            try:
                settled += _race(bucket, pool)
            except OSError as error:
                raise unreadable(error, f"{bucket}/{PROBES}") from error
            if settled == ROUNDS:
                return
    raise Unsettled(
        f"only {settled} of {_MOST_ROUNDS} races of creates have a known winner.",
        path=bucket,
        remedy="Run it again when the bucket answers.",
    )


def _require_bucket(bucket: Bucket) -> None:
    """Write an object and remove it: the answer to a create would not be looked at.

    Raises:
        NotALogDir, UnreadableFile: see `probe`.
    """
    key = f"{PROBES}{secrets.token_hex(8)}"
    try:
        bucket.put_unique(key, b"")
        bucket.delete(key)
    except FileNotFoundError as error:
        raise NotALogDir(
            "there is no such bucket.",
            path=bucket,
            remedy="Make the bucket or the container, or look at the URL.",
        ) from error
    except OSError as error:
        raise unreadable(error, f"{bucket}/{PROBES}") from error


def _race(bucket: Bucket, pool: ThreadPoolExecutor) -> bool:
    """Run one race; return whether its winner is known.

    Raises:
        UnsafeBucket: see `probe`. OSError: the bucket does not answer, or does not permit it.
    """
    key = f"{PROBES}{secrets.token_hex(8)}"
    start = Barrier(AT_ONCE)
    contents = [secrets.token_bytes(_CONTENT_BYTES) for _ in range(AT_ONCE)]
    try:
        answers = list(pool.map(partial(_enter, bucket, key, start), contents))
        winners = [content for content, won in zip(contents, answers, strict=True) if won]
        if not winners:
            return False
        if len(winners) > 1 or bucket.content(key, _CONTENT_BYTES) != winners[0]:
            raise UnsafeBucket(
                f"of {AT_ONCE} creates of one object at once {len(winners)} succeeded.",
                path=bucket,
                remedy="Use a store that honours If-None-Match: * on PUT also in a race; with this"
                " one two writers would lose each other's changes.",
            )
        return True
    finally:
        with suppress(OSError):  # it is small, and nothing names it
            bucket.delete(key)


def _enter(bucket: Bucket, key: str, start: Barrier, content: bytes) -> bool:
    start.wait()
    return bucket.create(key, content)
