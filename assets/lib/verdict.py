"""The verdict of a check on one log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from logwright.checks.due import (
    FILES_LEFT,
    FILES_PURGED,
    SEGMENTS_DELETED,
    SEGMENTS_LEFT,
    DueResult,
)
from logwright.checks.model import (
    CRC_VALID,
    INDEX_ENTRIES_VALID,
    LATEST_VALUE_PER_KEY,
    OFFSETS_ASCENDING,
    SURVIVORS_IDENTICAL,
    CheckResult,
)

Severity = Literal["WARN", "ERROR"]

SEGMENT_CONTRACT: Final = "segment_contract"
LOG_PROFILE: Final = "log_profile"
PASSED: Final = "passed"
"""The result of a check that nothing broke."""
VALUE_CONTRACT: Final = "value_contract"

CHECKS: Final = {
    CRC_VALID: "Every batch of the output has the CRC-32C of its header.",
    OFFSETS_ASCENDING: "Offsets ascend strictly and stay inside the source's range.",
    SURVIVORS_IDENTICAL: "Survivors have the source's key, value, headers, offset and timestamp.",
    LATEST_VALUE_PER_KEY: "Each key's latest record survives, but tombstones past their horizon.",
    INDEX_ENTRIES_VALID: "Every entry of both indexes points at a batch that it describes.",
    SEGMENT_CONTRACT: "Pandera: columns, types and ranges of what was read back from each segment.",
    LOG_PROFILE: "Great Expectations: the whole output against its source and the policy.",
    VALUE_CONTRACT: "Pandera: decoded values against the contract of the topic's entry.",
}
"""All checks of a cleaning and what each means, for the catalogue."""

RETENTION_CHECKS: Final = {
    SEGMENTS_DELETED: "Every segment that went was due: by log start offset, retention.bytes or"
    " retention.ms, and committed.",
    SEGMENTS_LEFT: "The oldest segment that is left is not due, and keeps all after it.",
}
PURGE_CHECKS: Final = {
    FILES_PURGED: "Every file that went was retired at least file.delete.delay.ms before.",
    FILES_LEFT: "No retired file that is left has waited for file.delete.delay.ms.",
}
_OUTPUT_WRONG: Final = (
    "Run it once more, after `logwright resume`, which ends the quarantine. If it fails again,"
    " `logwright verify` says whether the log is damaged; if it is not, report a bug of logwright."
)
NEXT_STEPS: Final = {
    **dict.fromkeys((*CHECKS,), _OUTPUT_WRONG),
    LOG_PROFILE: "See which expectation failed in the data docs. Correct the producer or the limit:"
    " `expectations` of the policies, `tests` of the topic's entry. Then `logwright resume`.",
    VALUE_CONTRACT: "`logwright dump` shows the records at these offsets. Correct the producer, or"
    " the contract in `tests` of the topic's entry. Then `logwright resume`.",
    SEGMENTS_DELETED: "`logwright pause` the log, then `logwright undo`: it restores the segments,"
    " until a purge. Report a bug of logwright.",
    SEGMENTS_LEFT: "Run the job `retention` again. If it fails again, report a bug of logwright.",
    FILES_PURGED: "`logwright pause` the log, and compare it with another replica's: the files are"
    " gone. Report a bug of logwright.",
    FILES_LEFT: "Run the job `purge` again. If it fails again, report a bug of logwright.",
}
"""Check → what to do if it fails."""
_MEANING: Final = CHECKS | RETENTION_CHECKS | PURGE_CHECKS
_NAMED: Final = 20
"""Maximum segments or files that a verdict names; the count is exact."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """How one check fared on one log.

    Attributes:
        violations: how many records, batches, segments or expectations broke it.
        first_offset: offset of the first offender, None if there is none or it is not known.
        broken: which rules of the check broke, by name.
        severity: of a failure; only ERROR stops the swap.
        details: more figures; never a record's key or value.
    """

    check: str
    violations: int = 0
    first_offset: int | None = None
    broken: tuple[str, ...] = ()
    severity: Severity = "ERROR"
    details: Mapping[str, int | float | str] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        """Nothing broke it."""
        return self.violations == 0

    @property
    def stops(self) -> bool:
        """The swap must not happen."""
        return not self.passed and self.severity == "ERROR"

    @property
    def sentence(self) -> str:
        """The verdict in words."""
        if self.passed:
            return _MEANING[self.check]
        result = CheckResult(self.check, self.violations, self.first_offset)
        rules = f" ({', '.join(self.broken)})" if self.broken else ""
        return f"{result.sentence}{rules}"

    @property
    def next_step(self) -> str:
        """What to do if it failed."""
        return NEXT_STEPS[self.check]


def due_verdict(result: DueResult) -> Verdict:
    """Return the verdict of a check of what was deleted, or left."""
    offsets = [one.offset for one in result.wrong if one.offset is not None]
    return Verdict(
        check=result.name,
        violations=len(result.wrong),
        first_offset=min(offsets, default=None),
        broken=tuple(one.sentence for one in result.wrong[:_NAMED]),
        details={"looked at": result.looked_at},
    )
