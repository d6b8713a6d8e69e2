"""Detect changes of a log without opening its files."""

import hashlib
from typing import Final

from logwright.config.resolved import maintenance_pairs
from logwright.config.sources import DirectorySettings
from logwright.errors import LogwrightError
from logwright.log.checkpoints import Checkpoints, read_checkpoints
from logwright.log.listing import stamp_files
from logwright.pipelines.lib.unchanged import Remembered, active_segment
from logwright.pipelines.segments.markers import Markers
from logwright.place.files import open_partition_dir
from logwright.place.model import Place
from logwright.resources.log_dirs import MaintainedLog

_BYTES = 8
_STAMPS: Final = Remembered[str]()


class Signatures:
    """Signatures of logs at one moment. Reads each directory's checkpoints once."""

    def __init__(self, settings: DirectorySettings, markers: Markers) -> None:
        self._settings = settings
        self._markers = markers
        self._checkpoints: dict[Place, Checkpoints | str] = {}
        self._settings_texts: dict[tuple[Place, str], str] = {}

    def of(self, log: MaintainedLog) -> str:
        """Return a signature that changes with the log's files, checkpoints and settings, and when
        the clean-shutdown marker appears or disappears. Effects: lists the directory.

        Returns:
            16 hexadecimal digits.
        """
        parts = (
            _stamps(log),
            self._entries(log),
            self._settings_of(log.log_dir, log.partition.topic),
            log.log_dir in self._markers.missing,
        )
        return _digest(parts)

    def _entries(self, log: MaintainedLog) -> object:
        if log.log_dir not in self._checkpoints:
            try:
                self._checkpoints[log.log_dir] = read_checkpoints(log.log_dir)
            except LogwrightError as error:
                # The plan reports the error; the signature only has to differ from readable files.
                self._checkpoints[log.log_dir] = str(error)
        checkpoints = self._checkpoints[log.log_dir]
        return checkpoints if isinstance(checkpoints, str) else checkpoints.of(log.partition)

    def _settings_of(self, log_dir: Place, topic: str) -> str:
        key = (log_dir, topic)
        if key not in self._settings_texts:
            high_watermark = self._settings.policies.high_watermark
            try:
                pairs = maintenance_pairs(self._settings.sources(log_dir), topic)
            except LogwrightError as error:
                self._settings_texts[key] = str(error)
            else:
                self._settings_texts[key] = repr((sorted(pairs.items()), high_watermark))
        return self._settings_texts[key]


def _stamps(log: MaintainedLog) -> str:
    """Return a digest of the stamps of a partition's files. Effects: lists the directory, if it has
    changed.
    """

    def read() -> tuple[str, str | None]:
        with open_partition_dir(log.log_dir, log.partition) as directory:
            stamps = stamp_files(directory)
        return _digest(list(stamps.values())), active_segment(stamps)

    try:
        return _STAMPS.value(f"{log.log_dir}/{log.partition.directory_name}", read)
    except LogwrightError as error:
        return str(error)


def _digest(value: object) -> str:
    return hashlib.blake2b(repr(value).encode(), digest_size=_BYTES).hexdigest()
