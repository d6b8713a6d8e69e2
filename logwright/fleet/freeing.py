"""What a rescue would free in the log directories of a fleet (`logwright.rescue.free_disk`), by the
topics' own settings alone. Effects: reads those of stopped brokers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from logwright.errors import LogDirLocked, LogwrightError
from logwright.fleet.starts import RUNS, why_not
from logwright.log.load import list_partitions
from logwright.place.model import is_local
from logwright.reading import reading
from logwright.rescue.free import KINDS, at_most
from logwright.rescue.free_disk import FreeDirectory, Freeing
from logwright.running.broker import broker_process

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from logwright.config.sources import DirectorySettings
    from logwright.place.model import Place
    from logwright.rescue.free_disk import Outlook
    from logwright.units import TimestampMs

_REMEDY: Final = "Stop the broker that uses this log directory, then run it again."


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryOutlook:
    """What a rescue would free in a log directory.

    Attributes:
        name: of the directory, as partition keys have it.
        outlook: None: that is not known. why: why it is not; empty if it is.
    """

    name: str
    log_dir: Place
    outlook: Outlook | None = None
    why: str = ""

    @property
    def bytes(self) -> int:
        """What it would free at most; -1 if that is not known."""
        return -1 if self.outlook is None else at_most(self.outlook.steps)

    @property
    def by_kind(self) -> dict[str, int]:
        """Kind of step → the bytes that it would free at most; without those that free none."""
        steps = () if self.outlook is None else self.outlook.steps
        sums = {kind: sum(one.bytes for one in steps if one.kind == kind) for kind in KINDS}
        return {kind: size for kind, size in sums.items() if size}

    @property
    def not_planned(self) -> int:
        """Logs that were not shut down cleanly, or could not be read: what they would free is not
        in the figures.
        """
        return 0 if self.outlook is None else len(self.outlook.unclean | self.outlook.failures)


def directory_to_free(log_dir: Path, settings: DirectorySettings) -> FreeDirectory:
    """Return a log directory as a rescue takes it, by the policies. Effects: lists it; reads its
    settings.

    Raises:
        LogDirLocked: a broker runs on it.
        LogwrightError: it cannot be listed, or the sources of its settings cannot be read.
    """
    if broker_process(log_dir) is not None:
        raise LogDirLocked("a broker runs on this log directory.", path=log_dir, remedy=_REMEDY)
    return FreeDirectory(
        log_dir=log_dir,
        partitions=tuple(list_partitions(log_dir)),
        settings=partial(settings.of, log_dir),
        delete_delay_ms=settings.broker(log_dir).file_delete_delay_ms,
        stray=partial(settings.stray, log_dir),
        high_watermark=settings.policies.high_watermark,
    )


def free_outlooks(
    log_dirs: Mapping[str, Place], settings: DirectorySettings, *, now_ms: TimestampMs
) -> tuple[DirectoryOutlook, ...]:
    """Return what a rescue would free in each log directory, by name. Effects: reads them; asks for
    the brokers' locks.
    """
    return tuple(_outlook(name, one, settings, now_ms) for name, one in log_dirs.items())


def _outlook(
    name: str, log_dir: Place, settings: DirectorySettings, now_ms: TimestampMs
) -> DirectoryOutlook:
    if not is_local(log_dir):
        return DirectoryOutlook(name=name, log_dir=log_dir, why=why_not(log_dir))
    try:
        if broker_process(log_dir) is not None:
            return DirectoryOutlook(name=name, log_dir=log_dir, why=RUNS)
        with reading(log_dir):
            directory = directory_to_free(log_dir, settings)
            outlook = Freeing(directories=[directory], goal=0, now_ms=now_ms).look()
    except LogwrightError as error:
        return DirectoryOutlook(name=name, log_dir=log_dir, why=str(error))
    return DirectoryOutlook(name=name, log_dir=log_dir, outlook=outlook)
