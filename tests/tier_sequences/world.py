"""A log whose earlier segments are in a tier, as files, and what the model says of it: plain
dictionaries of the rows that each segment got.
"""

from __future__ import annotations

import base64
import random
import shutil
import struct
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, NamedTuple

from logwright.format.checkpoints import serialize_offset_checkpoint
from logwright.format.names import segment_file_name
from logwright.tier.metadata import COPY_FINISHED, COPY_STARTED, DELETE_FINISHED, DELETE_STARTED
from logwright.tier.place import TieredPlace, tier_alone, with_tier
from logwright.tier.tier import TierOptions
from tests.bucket_maintenance.copies import T0
from tests.log_builder import LogBuilder
from tests.tiers import to_local_storage

LOG: Final = str(T0)
KEYS: Final = tuple(f"k{number}" for number in range(7))
NOBODY: Final = "nobody"
EVENTS: Final = "__remote_log_metadata-0"
_TOPIC: Final = uuid.UUID(int=0x5EED)
_BATCHES: Final = 60
_SEGMENTS: Final = 9

Damage = Literal["", "lost", "unfinished", "cut", "flipped"]


class Row(NamedTuple):
    """A record.

    Attributes:
        is_committed: as a consumer of committed records gets it.
    """

    key: str
    value: str | None
    is_committed: bool


class Batch(NamedTuple):
    """What one append wrote; `ending`: of its transaction, which takes one more offset."""

    base: int
    pairs: tuple[tuple[str, str | None], ...]
    ending: Literal["commit", "abort"] | None

    @property
    def following(self) -> int:
        """The offset after it."""
        return self.base + len(self.pairs) + (self.ending is not None)


@dataclass(slots=True)
class Remote:
    """A remote segment.

    Attributes:
        end: exclusive.
        log: its object of records; the others are next to it.
        is_own: this broker copied it, not the leader before.
        state: by the events, if there are any.
        damage: what was done to its objects.
        left: of one that was cut, the end, exclusive, of the whole batches that are left.
        kept: its objects from before that.
    """

    base: int
    end: int
    rows: dict[int, Row]
    log: Path
    is_own: bool = True
    state: int = COPY_FINISHED
    damage: Damage = ""
    left: int = 0
    kept: dict[Path, bytes] = field(default_factory=dict)

    @property
    def objects(self) -> list[Path]:
        """Its objects that are there."""
        return sorted(self.log.parent.glob(f"{self.log.stem}.*"))

    @property
    def shown(self) -> int:
        """Where what can be read of it ends, exclusive."""
        return self.left if self.damage == "cut" else self.end

    @property
    def id(self) -> bytes:
        """Its id, as events have it."""
        return base64.urlsafe_b64decode(self.log.stem.partition("-")[2] + "==")


@dataclass(slots=True)
class World:
    """The files, and the model of them.

    Attributes:
        edges: where segments of this broker begin; the last one is the end of what is produced.
        other: where those of another leader begin.
        open: of each transaction its first offset and that of its marker.
        has_events: the log directory has the events of the tier.
        start: the log start offset.
        local: the rows of each local segment, by where it begins.
        remote: all remote segments, in the order of their copies.
        gone: events of those that were deleted.
    """

    root: Path
    edges: tuple[int, ...]
    other: tuple[int, ...]
    rows: dict[int, Row]
    open: tuple[tuple[int, int], ...]
    has_events: bool
    start: int = 0
    local: dict[int, dict[int, Row]] = field(default_factory=dict)
    remote: list[Remote] = field(default_factory=list)
    gone: list[Remote] = field(default_factory=list)
    seen: int = 0
    is_erased: bool = False

    @property
    def logs(self) -> Path:
        """The log directory."""
        return self.root / "logs"

    @property
    def tier(self) -> Path:
        """The bucket."""
        return self.root / "tier"

    @property
    def place(self) -> TieredPlace:
        """Both, looked at again."""
        return with_tier([self.logs], TierOptions.of(str(self.tier)))[0]

    @property
    def alone(self) -> TieredPlace:
        """The tier alone."""
        return tier_alone(str(self.tier))

    @property
    def first(self) -> int:
        """Where the first local segment begins."""
        return min(self.local)

    @property
    def end(self) -> int:
        """The log end offset."""
        return self.edges[self.seen]

    @property
    def readable(self) -> list[Remote]:
        """The remote segments that are whole and may be read."""
        return [remote for remote in self.remote if self.is_readable(remote) and not remote.damage]

    @property
    def _shown(self) -> list[Remote]:
        """Those that are read, even if a batch of them is refused, or only some are left."""
        return [
            remote
            for remote in self.remote
            if self.is_readable(remote) and remote.damage in {"", "flipped", "cut"}
        ]

    def is_readable(self, remote: Remote) -> bool:
        """Whether it is finished and not being deleted, whatever became of its objects."""
        return not self.has_events or remote.state == COPY_FINISHED

    def uncovered(self) -> set[int]:
        """Offsets below the first local segment that no whole remote segment has."""
        missing = set(range(self.start, self.first))
        return missing.difference(*(range(remote.base, remote.shown) for remote in self._shown))

    def uncovered_by_all(self) -> set[int]:
        """The same of what a search sees: segments that are not readable any more, too."""
        missing = set(range(self.start, self.first))
        whole = [remote for remote in self.remote if not remote.damage]
        return missing.difference(*(range(remote.base, remote.end) for remote in whole))

    def shown(self) -> dict[int, Row]:
        """The rows of the log: what is local counts."""
        rows: dict[int, Row] = {}
        for remote in self._shown:
            bound = min(self.first, remote.shown)
            rows |= {offset: row for offset, row in remote.rows.items() if offset < bound}
        for segment in self.local.values():
            rows |= segment
        return {offset: rows[offset] for offset in sorted(rows) if offset >= self.start}

    def committed(self) -> dict[int, Row]:
        """The rows that a consumer of committed records gets: up to an open transaction."""
        end = min((at for at, ending in self.open if at < self.end <= ending), default=self.end)
        return {at: row for at, row in self.shown().items() if row.is_committed and at < end}

    def holders(self, key: str) -> set[tuple[bool, int]]:
        """Where records of a key are: whether in the tier, and the offset. Of an object that was
        cut, nothing.
        """
        seen = {
            (False, offset)
            for segment in self.local.values()
            for offset, row in segment.items()
            if row.key == key
        }
        for remote in self.remote:
            if remote.damage not in {"lost", "cut"}:
                seen |= {(True, offset) for offset, row in remote.rows.items() if row.key == key}
        return seen

    def write_roots(self) -> None:
        """Write what the root of the log directory says, and the events."""
        for name, offset in (
            ("cleaner-offset-checkpoint", None),
            ("log-start-offset-checkpoint", self.start),
            ("replication-offset-checkpoint", self.end),
        ):
            content = serialize_offset_checkpoint({} if offset is None else {T0: offset})
            (self.logs / name).write_bytes(content)
        if self.has_events:
            self._write_events()

    def _write_events(self) -> None:
        shutil.rmtree(self.logs / EVENTS, ignore_errors=True)
        values = [value for remote in (*self.gone, *self.remote) for value in _events(remote)]
        scratch = self.root / "events"
        builder = LogBuilder(scratch, EVENTS)
        segment = builder.segment(0)
        for offset, value in enumerate(values):
            segment.batch(offset, [(None, value)])
        builder.write(producers=True)
        (scratch / EVENTS).rename(self.logs / EVENTS)
        shutil.rmtree(scratch)

    def show(self, segments: Iterable[int]) -> None:
        """Copy segments of the whole log into the log directory, as if they were appended."""
        directory = self.logs / LOG
        for number in segments:
            base, end = self.edges[number], self.edges[number + 1]
            for path in (self.root / "mine" / LOG).glob(f"{base:020d}.*"):
                shutil.copy2(path, directory)
            snapshot = segment_file_name(end, ".snapshot")
            shutil.copy2(self.root / "mine" / LOG / snapshot, directory)
            self.local[base] = {o: self.rows[o] for o in range(base, end) if o in self.rows}
            self.seen = number + 1

    def copy(self, log_dir: Path, base: int, end: int, rows: dict[int, Row]) -> None:
        """Copy a segment to the tier, as LocalTieredStorage does."""
        to_local_storage(log_dir, self.tier, LOG, [base], topic_id=topic_id())
        known = {remote.log for remote in self.remote}
        fresh = {*self.tier.rglob(f"{base}-*.log")} - known
        (log,) = fresh
        self.remote.append(Remote(base, end, dict(rows), log))


def topic_id() -> str:
    """The id of the topic, as file names have it."""
    return base64.urlsafe_b64encode(_TOPIC.bytes).decode().rstrip("=")


def _events(remote: Remote) -> list[bytes]:
    """The events of a remote segment up to its state (RemoteLogMetadataSerde, Kafka 4.3.0)."""
    log_id = b"\x02t" + _TOPIC.bytes + struct.pack(">i", T0.partition) + b"\0"
    segment = log_id + remote.id + b"\0"
    epochs = b"\x02" + struct.pack(">iqB", 0, remote.base, 0)
    fields = struct.pack(">qqiqq", remote.base, remote.end - 1, 1, 5, 6) + epochs
    fields += struct.pack(">i", 999) + b"\0" + bytes([COPY_STARTED, 0])
    changes = {
        COPY_STARTED: [],
        COPY_FINISHED: [COPY_FINISHED],
        DELETE_STARTED: [COPY_FINISHED, DELETE_STARTED],
        DELETE_FINISHED: [COPY_FINISHED, DELETE_STARTED, DELETE_FINISHED],
    }[remote.state]
    ending = [b"\x01\x01\0" + segment + struct.pack(">iqBBB", 1, 6, 0, s, 0) for s in changes]
    return [b"\x01\x00\x00" + segment + fields, *ending]


def made(root: Path, draw: random.Random) -> World:
    """A log that two leaders cut into segments in their own ways; some of it is produced."""
    batches = _batches(draw)
    world = World(
        root=root,
        edges=_edges(batches, draw, _SEGMENTS),
        other=_edges(batches, draw, draw.randrange(3, 12)),
        rows=_rows(batches),
        open=tuple(
            (remote.base, remote.following - 1) for remote in batches if remote.ending is not None
        ),
        has_events=draw.random() < 0.5,
    )
    _write(root / "mine", batches, world.edges)
    _write(root / "other", batches, world.other)
    (world.logs / LOG).mkdir(parents=True)
    (world.logs / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":0}')
    (world.logs / LOG / "leader-epoch-checkpoint").write_bytes(b"")
    (world.logs / LOG / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id()}\n")
    world.tier.mkdir()
    world.show(range(draw.randrange(2, 5)))
    world.write_roots()
    return world


def _batches(draw: random.Random) -> list[Batch]:
    batches, at = [], 0
    for _ in range(_BATCHES):
        ending = draw.choice((None, None, None, "commit", "abort"))
        count = draw.randrange(1, 4)
        pairs = [(draw.choice(KEYS), draw.choice((None, "v" * 9, "w" * 300))) for _ in range(count)]
        batches.append(Batch(at, tuple(pairs), ending))  # type: ignore[arg-type]  # of the choice
        at = batches[-1].following
    return batches


def _edges(batches: Sequence[Batch], draw: random.Random, count: int) -> tuple[int, ...]:
    """Where segments begin: before a batch, or before the marker of its transaction."""
    inner = {each.base for each in batches[1:]}
    inner |= {each.following - 1 for each in batches if each.ending is not None}
    return (0, *sorted(draw.sample(sorted(inner), count - 1)), batches[-1].following)


def _rows(batches: Iterable[Batch]) -> dict[int, Row]:
    return {
        each.base + number: Row(key, value, each.ending != "abort")
        for each in batches
        for number, (key, value) in enumerate(each.pairs)
    }


def _write(log_dir: Path, batches: Iterable[Batch], edges: Sequence[int]) -> None:
    builder, left = LogBuilder(log_dir), list(edges[:-1])
    segment = builder.segment(left.pop(0))
    for each in batches:
        if left and each.base >= left[0]:
            segment = builder.segment(left.pop(0))
        producer = -1 if each.ending is None else 7
        is_in = each.ending is not None
        segment.batch(each.base, each.pairs, producer_id=producer, transactional=is_in)
        if each.ending is not None:
            if left and each.following - 1 >= left[0]:
                segment = builder.segment(left.pop(0))
            segment.marker(each.following - 1, 7, each.ending)
    builder.write(producers=True, index_interval=200)
