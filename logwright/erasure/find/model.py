"""A record of a person's, found in a file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Looked = Literal["searched", "no records", "not asked", "in part", "not searched"]
"""How a file was looked at: all of it was searched; its content proves that it holds no record; no
request is about its topic; some byte ranges, or all of it, were not searched."""
Kind = Literal["live", "superseded", "tombstone", "aborted", "value"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One record of a request's key in one file.

    Attributes:
        request: index of the request.
        path: of the file, relative to the directory given.
        place: what the file is: the name of a place of the inventory; ``archive``, ``table``,
            ``remote segment``.
        offset: of the record, -1 for a table's row or where there is none.
        batch_position: of its batch in the file, bytes.
        kind: what a cleaner would see in it; ``value``: a pattern in another key's record.
        rule: the Kafka config or the step that removes it, empty: nothing will.
        gone_by_ms: when it is gone, None: never.
        committed: whether it is below the high watermark of the log, which a broker has open; None:
            not known, or not asked: no broker has.
    """

    request: int
    topic: str
    partition: int
    path: str
    place: str
    offset: int
    batch_position: int
    kind: Kind
    rule: str
    gone_by_ms: int | None
    committed: bool | None = None
