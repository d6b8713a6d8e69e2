"""The archive of a topic in a bucket, as the topic's entry in the policies has it.

::

    archive:
      to: s3://archive/broker-1     # the log directory in the bucket
      late_after_ms: 3600000        # a check warns if more is missing
"""

from __future__ import annotations

import re
from typing import Annotated, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from logwright.bucket.store import SCHEMES
from logwright.config.marked import Entries, Text
from logwright.config.policy_checks import Checker
from logwright.config.values import Int64

ARCHIVE: Final = "archive"
_OF_SECRETS: Final = frozenset("@?")
"""What only a URL with credentials or a signature has: no message has it."""
NO_SECRETS: Final = "must have no credentials and no query: they are of the environment"
_ENTRY: Final = re.compile(rf"(?:[^=:/]*=)?(?:{'|'.join(SCHEMES)}):.*")


def is_bucket_entry(text: str) -> bool:
    """Return whether an entry of ``log_dirs`` is of a bucket: a URL, with ``NAME=`` or without."""
    return _ENTRY.fullmatch(text) is not None


def has_secrets(url: str) -> bool:
    """Return whether a URL has credentials or a signature."""
    return bool(set(url) & _OF_SECRETS)


def _url(text: object) -> object:
    scheme, separator, rest = str(text).partition("://")
    if not separator or scheme not in SCHEMES or not rest:
        raise ValueError(f"must be a URL: {', '.join(f'{each}://' for each in SCHEMES)}…")
    return text


class TopicArchive(BaseModel):
    """Where a topic's logs are written to.

    Attributes:
        to: URL of a log directory in a bucket.
        log_dir: name of the log directory that is read; required if two have the same partition.
        late_after_ms: how old the first record that is not archived may be.
        bytes_per_second: the most that is read of a log at once; None: no limit.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    to: Annotated[str, BeforeValidator(_url), Field(max_length=2048)]
    log_dir: str | None = Field(None, min_length=1)
    late_after_ms: Annotated[Int64, Field(ge=0)] = 3_600_000
    bytes_per_second: Annotated[Int64, Field(ge=1)] | None = None


def read_archive(checker: Checker, entry: Entries) -> TopicArchive | None:
    """Return the archive of a topic's entry; None if it has none, or not a valid one: the problems
    are reported to the checker.
    """
    if ARCHIVE not in entry.entries:
        return None
    mark, node = entry.entries[ARCHIVE]
    if "name" not in entry.entries:
        checker.report(node, "needs an entry with a name, not a pattern", at=mark, value=False)
        return None
    given = checker.mapping(node)
    (_, to) = given.entries.get("to", (None, None))
    if isinstance(to, Text) and to.text is not None and has_secrets(to.text):
        checker.report(to, NO_SECRETS, value=False)
        return None
    return checker.model(TopicArchive, given) if given.whole else None
