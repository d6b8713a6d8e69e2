"""A log directory together with its remote segments, as one log directory that is only read.

Where both have a file, the local one counts. A log's directory has the files of its remote segments
before those of the local ones, so that readers see one log. A tier without a log directory is shown
as one, too: then what was not copied yet is not in it.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, ClassVar, Final

from logwright.format.names import CLEAN_SHUTDOWN_MARKER, LOG, PARTITION_METADATA, TopicPartition
from logwright.place.files import absolute, entry_at, open_bytes, open_log_dir
from logwright.place.model import Bytes, Entry, FileStamp, Place, ReadOnlyPlace, is_running
from logwright.tier.chunks import HeldBytes, entry_of_part
from logwright.tier.tier import Tier, TierOptions
from logwright.units import ByteCount

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from logwright.tier.parts import RemotePart

SCHEME: Final = "tier"
"""Of a tier without a log directory."""
_IN_A_LOG: Final = 2
"""Names below the log directory of a file of a log."""


@dataclass(frozen=True, order=True)
class TieredPlace(ReadOnlyPlace):
    """A log directory and its tier, or something in it.

    Attributes:
        tier: what both have.
        local: the log directory, None: there is none.
        shows_all: logs that are in no log directory are shown here.
    """

    tier: Tier = field(compare=False, repr=False)
    local: Place | None = field(compare=False, repr=False, default=None)
    shows_all: bool = field(compare=False, repr=False, default=True)

    def __str__(self) -> str:
        part = self._known_part()
        if part is not None:
            return part.name
        return str(self.pure) if self.local is not None else f"{SCHEME}:{self.pure}"

    def entry(self) -> Entry:
        """See `ReadOnlyPlace.entry`."""
        entry = self._local_entry()
        if entry is not None:
            return entry
        parts = self._parts()
        if self._is_root or (len(parts) == 1 and parts[0] in self._only_remote()):
            return _directory(self.name)
        made = self._made()
        if made is not None:
            return made.entry()._replace(stamp=made.entry().stamp._replace(name=self.name))
        part = self._part()
        if part is None:
            raise FileNotFoundError(str(self))
        return part.entry(self.name)

    def entries(self) -> list[Entry]:
        """See `ReadOnlyPlace.entries`."""
        local = self._local_entry()
        listed: dict[str, Entry] = {}
        if local is not None:
            with open_log_dir(self._beneath()) as directory:
                listed = {entry.stamp.name: entry for entry in directory.entries()}
        parts = self._parts()
        if not parts and self._is_root:
            more = {name: _directory(name) for name in self._only_remote()}
            if self.local is None:
                more[CLEAN_SHUTDOWN_MARKER] = entry_of_part(_NOTHING, CLEAN_SHUTDOWN_MARKER)
            return [*(more | listed).values()]
        if len(parts) == 1 and self.shows(parts[0]):
            more = {name: part.entry(name) for name, part in self._remote(parts[0]).items()}
            if local is None:
                metadata = self / PARTITION_METADATA
                more[PARTITION_METADATA] = metadata.entry()
            return [*(more | listed).values()]
        if local is None:
            raise FileNotFoundError(str(self))
        return [*listed.values()]

    def open(self) -> Bytes:
        """See `ReadOnlyPlace.open`."""
        if self._local_entry() is not None:
            return open_bytes(self._beneath())
        made, part = self._made(), self._part()
        if made is not None:
            return made
        if part is not None:
            return part.open()
        if self._is_root or (len(self._parts()) == 1 and self._parts()[0] in self._only_remote()):
            raise IsADirectoryError(str(self))
        raise FileNotFoundError(str(self))

    def reading(self) -> AbstractContextManager[None]:
        """See `ReadOnlyPlace.reading`."""
        return self.local.reading() if isinstance(self.local, ReadOnlyPlace) else nullcontext()

    @property
    def root(self) -> PurePosixPath:
        """The path of the log directory; of a tier without one, of its bucket."""
        if self.local is None:
            return PurePosixPath(self.tier.options.text)
        return PurePosixPath(
            self.local.pure if isinstance(self.local, ReadOnlyPlace) else self.local
        )

    @property
    def _is_root(self) -> bool:
        return self.pure == self.root

    def _parts(self) -> tuple[str, ...]:
        """Return its names below the log directory; none for what is not below it."""
        root = self.root
        return self.pure.relative_to(root).parts if self.pure.is_relative_to(root) else ()

    def _beneath(self) -> Place:
        """Return the same path without the tier."""
        if isinstance(self.local, ReadOnlyPlace):
            return replace(self.local, pure=self.pure)
        return Path(self.pure)

    def _local_entry(self) -> Entry | None:
        """Return what a log directory has here, None if it has nothing. Effects: looks."""
        return None if self.local is None else entry_at(self._beneath())

    def _only_remote(self) -> Mapping[str, TopicPartition]:
        return self.tier.only_remote() if self.shows_all else {}

    def shows(self, name: str) -> bool:
        """Return whether a directory is shown together with its remote segments."""
        if TopicPartition.parse(name) is None:
            return False
        holder = self.tier.holder(name)
        return name in self._only_remote() if holder is None else holder == self.local

    def _remote(self, name: str) -> Mapping[str, RemotePart]:
        return self.tier.parts(name)

    def _part(self) -> RemotePart | None:
        """Return the file of a remote segment that is shown here. Effects: see `Tier.parts`."""
        parts = self._parts()
        if len(parts) != _IN_A_LOG or not self.shows(parts[0]):
            return None
        return self._remote(parts[0]).get(parts[1])

    def _known_part(self) -> RemotePart | None:
        """Return `_part` if it was looked at, and nothing local is here. Effects: may look."""
        parts = self._parts()
        if len(parts) != _IN_A_LOG:
            return None
        part = self.tier.known_parts(parts[0]).get(parts[1])
        return part if part is not None and self._local_entry() is None else None

    def _made(self) -> HeldBytes | None:
        """Return a file that says what the tier says of a log without a directory."""
        parts = self._parts()
        if self.local is None and parts == (CLEAN_SHUTDOWN_MARKER,):
            return HeldBytes(b"", str(self.pure), _NOTHING)
        if len(parts) != _IN_A_LOG or parts[1] != PARTITION_METADATA:
            return None
        topic_id = self.tier.topic_id(parts[0]) if parts[0] in self._only_remote() else None
        if topic_id is None:
            return None
        content = f"version: 0\ntopic_id: {topic_id}\n".encode()
        return HeldBytes(content, str(self.pure), (len(content), 0, 0))


@dataclass(frozen=True, order=True)
class RunningTieredPlace(TieredPlace):
    """The same of a log directory that a broker has open."""

    running: ClassVar[bool] = True


_NOTHING: Final = (0, 0, 0)


def _directory(name: str) -> Entry:
    return Entry("directory", FileStamp(name, ByteCount(0), 0, 0), 0)


def with_tier(log_dirs: Iterable[Place], options: TierOptions) -> tuple[TieredPlace, ...]:
    """Return log directories of one broker together with their tier. Logs that are in none of them
    are shown in the first. Pure.
    """
    given = tuple(map(absolute, log_dirs))
    tier = Tier(options, given)
    places = []
    for number, local in enumerate(given):
        kind = RunningTieredPlace if is_running(local) else TieredPlace
        pure = PurePosixPath(local.pure if isinstance(local, ReadOnlyPlace) else local)
        places.append(kind(pure, tier, local, number == 0))
    return tuple(places)


def tier_alone(text: str, key: Path | None = None) -> TieredPlace:
    """Return a tier as a log directory. Pure."""
    options = TierOptions.of(text, key)
    return TieredPlace(PurePosixPath(options.text), Tier(options))


def is_tier(text: str) -> bool:
    """Return whether a text names a tier without a log directory. Pure."""
    return text.startswith(f"{SCHEME}:")


def with_key(place: TieredPlace, key: Path | None) -> TieredPlace:
    """Return a tier without a log directory, with the key of its segments. Pure."""
    return tier_alone(place.tier.options.text, key)


def local_part(place: Place) -> Place:
    """Return a log directory without its tier; any other place as it is. Pure."""
    return place.local if isinstance(place, TieredPlace) and place.local is not None else place


def remote_count(place: Place, directory: str) -> int:
    """Return how many segments of a log are shown that only remote storage has. Effects and errors:
    as `Tier.parts`.
    """
    if not isinstance(place, TieredPlace) or not place.shows(directory):
        return 0
    return sum(name.endswith(LOG) for name in place.tier.parts(directory))


def without_local(place: Place) -> list[str]:
    """Return the logs of a place of which only remote segments are shown, as far as they were
    looked at, by the names of their directories. Pure.
    """
    if not isinstance(place, TieredPlace) or not place.shows_all:
        return []
    return place.tier.looked_at_alone()
