"""The values of a forecast."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from logwright.units import ByteCount


class Removal(NamedTuple):
    """What one cause removes: records, and ``.log`` bytes."""

    records: int = 0
    bytes: ByteCount = ByteCount(0)


NOTHING: Final = Removal()
_NO_BYTES: Final = ByteCount(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What a cleaning and the retention after it would remove from one log.

    A batch that loses all of its records loses its header too: its bytes are shared among the
    causes by the bytes of their records.

    Attributes:
        superseded: a later record has the same key.
        tombstones: tombstones past their delete horizon.
        aborted: data of aborted transactions, and markers past their delete horizon.
        null_keys: records without a key.
        empty_batches: batches without records that are not needed any more.
        retention: segments that retention deletes after the cleaning; records are not counted.
        added_bytes: bytes that batches gain by a new delete horizon.
        read_bytes: ``.log`` bytes in the cleaning's range.
        sampled_keys: keys in the sample; None if all were read.
        error_bytes: standard error of the superseded bytes by the choice of the sample; 0 if all
            keys were read.
    """

    superseded: Removal = NOTHING
    tombstones: Removal = NOTHING
    aborted: Removal = NOTHING
    null_keys: Removal = NOTHING
    empty_batches: Removal = NOTHING
    retention: Removal = NOTHING
    added_bytes: ByteCount = _NO_BYTES
    read_bytes: ByteCount = _NO_BYTES
    sampled_keys: int | None = None
    error_bytes: ByteCount = _NO_BYTES

    @property
    def cleaned_bytes(self) -> int:
        """``.log`` bytes by which a cleaning makes the log smaller; below 0 if it grows."""
        removed = sum(cause.bytes for cause in self.by_cause.values())
        return removed - self.retention.bytes - self.added_bytes

    @property
    def freed_bytes(self) -> int:
        """`cleaned_bytes`, and what retention frees afterwards."""
        return self.cleaned_bytes + self.retention.bytes

    @property
    def by_cause(self) -> dict[str, Removal]:
        """The removals, by the names of the causes."""
        return {
            "superseded": self.superseded,
            "tombstones": self.tombstones,
            "aborted": self.aborted,
            "null keys": self.null_keys,
            "empty batches": self.empty_batches,
            "retention": self.retention,
        }


def forecast_error(forecast_bytes: int, freed_bytes: int) -> float | None:
    """Return (forecast - freed) / freed bytes; None if nothing was freed."""
    return (forecast_bytes - freed_bytes) / freed_bytes if freed_bytes else None
