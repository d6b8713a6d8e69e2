"""What all writers of a log directory in a bucket agree on: ``<url>/format.json``.

::

    {"format": 1, "deadlineMs": 7200000, "ageMs": 604800000, "keptVersions": 1, "raced": 20}

It is made once, by the first writer, after the bucket was probed (`logwright.bucket.probe`), and
never changed. Nobody writes without it.
"""

from __future__ import annotations

import time
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from logwright.bucket.commit import Limits
from logwright.bucket.probe import ROUNDS, probe
from logwright.bucket.store import Bucket
from logwright.errors import (
    CorruptLogError,
    NotALogDir,
    UnreadableFile,
    Unsettled,
    unreadable,
)
from logwright.units import DurationMs

AGREEMENT: Final = "format.json"
_LARGEST_BYTES: Final = 65_536
_TRIES: Final = 20
_WAIT_SECONDS: Final = 0.2
_HOUR_MS: Final = 3_600_000
_DAY_MS: Final = 24 * _HOUR_MS
USUAL: Final = Limits(
    deadline_ms=DurationMs(2 * _HOUR_MS), age_ms=DurationMs(7 * _DAY_MS), kept_versions=1
)
LONGEST_REQUEST_MS: Final = _HOUR_MS
"""No request is on its way for longer, on any network."""


class _Agreement(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
    format: Literal[1]
    deadlineMs: Annotated[int, Field(ge=1)]  # noqa: N815 -- as it is written
    ageMs: Annotated[int, Field(ge=1)]  # noqa: N815 -- as it is written
    keptVersions: Annotated[int, Field(ge=1)]  # noqa: N815 -- as it is written
    raced: Annotated[int, Field(ge=1)]


def agreed(bucket: Bucket) -> Limits | None:
    """Return what the writers of a log directory agree on, None if nobody wrote yet. Effects:
    reads.

    Raises:
        CorruptLogError: it is not of the form above, or its age is too short for its deadline.
        UnreadableFile: the bucket does not answer, or does not permit it.
    """
    path = f"{bucket}/{AGREEMENT}"
    try:
        content = bucket.content(AGREEMENT, _LARGEST_BYTES)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise unreadable(error, path) from error
    try:
        agreement = _Agreement.model_validate_json(content)
    except ValidationError:
        agreement = None
    too_short = agreement and agreement.ageMs <= agreement.deadlineMs + LONGEST_REQUEST_MS
    if agreement is None or too_short:
        raise CorruptLogError(
            "what writers agree on is malformed, or its age is too short for its deadline.",
            path=path,
            remedy="Restore the object. Nobody may write before.",
        )
    return Limits(
        deadline_ms=DurationMs(agreement.deadlineMs),
        age_ms=DurationMs(agreement.ageMs),
        kept_versions=agreement.keptVersions,
    )


def limits_of(bucket: Bucket) -> Limits:
    """Return what the writers of a log directory that exists agree on. Effects: reads.

    Raises:
        NotALogDir: nobody wrote there. LogwrightError: as `agreed`.
    """
    limits = agreed(bucket)
    if limits is None:
        raise NotALogDir("nobody has written logs there.", path=bucket, remedy="Look at the URL.")
    return limits


def agree(bucket: Bucket, limits: Limits = USUAL) -> Limits:
    """Return what the writers agree on; the first of them probes the bucket. Effects: writes it, if
    it is not there; races creates.

    Raises:
        NotALogDir: there is no such bucket.
        UnsafeBucket: the bucket does not keep its word. Nothing is written there.
        Unsettled: it does not answer.
        CorruptLogError, UnreadableFile: see `agreed`.
    """
    known = agreed(bucket)
    if known is not None:
        return known
    probe(bucket)
    content = _Agreement(
        format=1,
        deadlineMs=limits.deadline_ms,
        ageMs=limits.age_ms,
        keptVersions=limits.kept_versions,
        raced=ROUNDS,
    ).model_dump_json()
    for _ in range(_TRIES):
        try:
            bucket.create(AGREEMENT, content.encode() + b"\n")
        except PermissionError as error:
            raise unreadable(error, f"{bucket}/{AGREEMENT}") from error
        try:
            known = agreed(bucket)
        except UnreadableFile:
            known = None
        if known is not None:
            return known
        time.sleep(_WAIT_SECONDS)
    raise Unsettled("the bucket does not answer.", path=bucket, remedy="Run it again when it does.")
