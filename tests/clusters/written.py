"""What producers of a history write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from tests.log_builder import SegmentBuilder

KEYS: Final = "abcdefgh"


@dataclass(frozen=True, slots=True)
class Produced:
    """A record; `number`: unique, and its place in the order of production."""

    number: int
    key: str
    is_tombstone: bool

    @property
    def value(self) -> bytes | None:
        """As it is in the log."""
        return None if self.is_tombstone else f"{self.number}".encode()


def batch_of(records: Sequence[Produced], producer_id: int | None, *, transactional: bool) -> bytes:
    """One batch, at offset 0."""
    segment = SegmentBuilder(0).batch(
        0,
        [(each.key, each.value) for each in records],
        producer_id=-1 if producer_id is None else producer_id,
        sequence=None if producer_id is None else 0,
        transactional=transactional,
    )
    return segment.batches[0]


def marker_of(producer_id: int, kind: str) -> bytes:
    """The end of a transaction, at offset 0; `kind`: commit, abort."""
    ends: Literal["commit", "abort"] = "commit" if kind == "commit" else "abort"
    return SegmentBuilder(0).marker(0, producer_id, ends).batches[0]
