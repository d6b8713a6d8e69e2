"""A log that is copied, as it was observed; what is copied must be what was observed.

What another command changes meanwhile (a cleaning, a retention, an undo, an erasure) is noticed by
the stamps of all files, by the checkpoints, and by the mark of erasures. A log that a broker has
open is held as it was seen; only its mark can be another.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from logwright.errors import LogwrightError, StalePlan
from logwright.format.names import TopicPartition
from logwright.log.load import fingerprint, observe
from logwright.log.model import ReadableLog
from logwright.place.model import Bytes, Place, is_local
from logwright.reading import require_history
from logwright.state.erasure_mark import mark_content
from logwright.steps.live import look_twice

_REMEDY = "Nothing was written of what changed. Run it again."


@dataclass(frozen=True)
class Source:
    """A log and its mark, as they were observed.

    Attributes:
        log: with the stamps of its files.
        mark: see `mark_content`; read before the log.
    """

    log: ReadableLog
    mark: bytes

    @classmethod
    def seen(cls, place: Place, partition: TopicPartition) -> Source:
        """Observe a log. Effects: reads.

        Raises:
            LogwrightError: see `observe`.
        """
        mark = mark_content(place / partition.directory_name)
        if is_local(place):
            log: ReadableLog = look_twice(
                lambda each: observe(place, each, high_watermark="recorded"), place, partition
            )
        else:
            log = observe(place, partition, high_watermark="recorded")
        return cls(log, mark)

    @cached_property
    def _stamps(self) -> dict[str, tuple[int, int, int]]:
        return {stamp.name: stamp[1:] for stamp in self.log.fingerprint.files}

    def require_seen(self, name: str, opened: Bytes) -> None:
        """Require that an open file is the one that was observed.

        Raises:
            StalePlan: it is not.
        """
        if is_local(self.log.log_dir) and self._stamps.get(name) != opened.seen:
            raise StalePlan("changed while it was copied.", path=opened.path, remedy=_REMEDY)

    def require_same(self) -> None:
        """Require that the log is as it was observed. Effects: looks at its files.

        Raises:
            StalePlan: it is not.
            Unsettled: a broker worked on it meanwhile (`require_history`).
            LogwrightError: it cannot be looked at.
        """
        log = self.log
        require_history(log.log_dir, log.partition.directory_name)
        if is_local(log.log_dir) and fingerprint(log.log_dir, log.partition) != log.fingerprint:
            raise StalePlan("changed while it was copied.", path=log.directory, remedy=_REMEDY)
        self.require_mark()

    def require_mark(self) -> None:
        """Require that no erasure began, or ended, since the log was observed. Effects: reads.

        Raises:
            StalePlan: one did.
        """
        log = self.log
        if mark_content(log.log_dir / log.partition.directory_name) != self.mark:
            raise StalePlan(
                "was erased from while it was copied.", path=log.directory, remedy=_REMEDY
            )

    def has_changed(self) -> bool:
        """Return whether the log is not as it was observed. Effects: looks at its files."""
        try:
            self.require_same()
        except LogwrightError:
            return True
        return False
