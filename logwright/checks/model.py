"""The results of the checks, and the facts read back from the staged files."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from logwright.compaction.model import ReadablePlan
from logwright.errors import QualityError

CRC_VALID: Final = "crc_valid"
OFFSETS_ASCENDING: Final = "offsets_ascending"
SURVIVORS_IDENTICAL: Final = "survivors_identical"
LATEST_VALUE_PER_KEY: Final = "latest_value_per_key"
INDEX_ENTRIES_VALID: Final = "index_entries_valid"

CHECK_NAMES: Final = (
    CRC_VALID,
    OFFSETS_ASCENDING,
    SURVIVORS_IDENTICAL,
    LATEST_VALUE_PER_KEY,
    INDEX_ENTRIES_VALID,
)
"""In the order in which results are given."""


class CheckResult(NamedTuple):
    """The result of one check.

    Attributes:
        name: one of `CHECK_NAMES`.
        violations: how many records or batches broke it.
        first_offset: offset of the first offender, None if there is none.
    """

    name: str
    violations: int
    first_offset: int | None = None

    @property
    def passed(self) -> bool:
        """No violation was found."""
        return self.violations == 0

    @property
    def sentence(self) -> str:
        """The result of a failed check, as all messages show it."""
        count = "1 violation" if self.violations == 1 else f"{self.violations} violations"
        at = "" if self.first_offset is None else f", the first at offset {self.first_offset}"
        return f"{self.name}: {count}{at}"


class SegmentFacts(NamedTuple):
    """The facts read back from one staged segment: one row of the frame that the contracts check.

    Offsets are -1 where there is nothing (an empty segment).
    """

    topic_partition: str
    base_offset: int
    log_bytes: int
    batches: int
    records: int
    tombstones: int
    null_key_records: int
    first_null_key_offset: int
    first_offset: int
    last_offset: int
    max_codec: int
    min_timestamp_ms: int
    max_timestamp_ms: int
    largest_batch_bytes: int
    index_entries: int
    timeindex_entries: int
    misplaced_index_entries: int


class OutputFacts(NamedTuple):
    """All that the quality checks judge: read back from the staged files, not remembered from
    building them.
    """

    topic_partition: str
    plan_id: str
    checks: tuple[CheckResult, ...]
    segments: tuple[SegmentFacts, ...] = ()
    source_records: int = 0
    source_bytes: int = 0
    expected_records: int = 0
    expected_bytes: int = 0

    @property
    def failed(self) -> tuple[CheckResult, ...]:
        """The checks that did not pass."""
        return tuple(check for check in self.checks if not check.passed)


def refusal(plan: ReadablePlan, sentences: Iterable[str]) -> QualityError:
    """Return the error of a log whose staged output must not be swapped in.

    Args:
        plan: what the output was made by.
        sentences: the checks that failed, see `CheckResult.sentence`.
    """
    return QualityError(
        f"the compacted output failed its checks: {'; '.join(sentences)}.",
        path=plan.log.directory,
        remedy="No record was changed.",
    )
