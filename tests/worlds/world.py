"""A world: log directories, archives and tables on disk, and what the driver knows of them."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from logwright.format.checkpoints import serialize_offset_checkpoint
from logwright.format.names import TopicPartition
from tests.metadata_builder import uuid_text
from tests.worlds.requests import TOPICS, Asking

NOW_MS: Final = 1_900_000_000_000
"""After all that is written; the machine's clock is before it."""
TOPIC_IDS: Final = {name: 1000 + n for n, name in enumerate(TOPICS)}
BUCKET: Final = "bucket"
_META: Final = "version=1\ncluster.id=AAAAAAAAAAAAAAAAAAAAAw\nnode.id=1\ndirectory.id={}\n"
_DIRECTORY_IDS: Final = {"a": 2000, "b": 2001}


@dataclass(frozen=True, slots=True)
class Piece:
    """One thing of a world, or one act; `seed` decides all about it."""

    kind: str
    seed: int

    def draw(self) -> random.Random:
        """Its own numbers, whatever else is in the world."""
        return random.Random(f"{self.kind} {self.seed}")

    def __str__(self) -> str:
        return f"{self.kind}({self.seed})"


@dataclass(frozen=True, slots=True)
class Plan:
    """A world as it is drawn, before it is on disk."""

    seed: int
    pieces: tuple[Piece, ...]
    acts: tuple[Piece, ...]
    asking: Asking


@dataclass(slots=True)
class Table:
    """A table of `logwright latest`, updated by the command.

    Attributes:
        keep_versions_ms: for how long its old versions stay.
        is_given: whether it is searched, too.
    """

    topic: str
    form: str
    path: Path
    keep_versions_ms: int
    is_given: bool


@dataclass(frozen=True, slots=True)
class Planted:
    """A table of another program, with somebody in it.

    Attributes:
        who: that is in it, a person or nobody who is asked for.
        is_found: a search finds a person there; else it names the place.
        is_proved: of somebody else it can say that he is not there.
    """

    path: Path
    who: bytes
    is_found: bool
    is_proved: bool


@dataclass(slots=True)
class World:
    """A world on disk.

    Attributes:
        live: the log directories that are given, the first one first.
        archives: copies that nothing maintains, given with ``--archive``; the bucket is one.
        planted: tables of other programs, given, too.
        policy: ``cleanup.policy`` of all topics.
        replicas: by the cluster's metadata, topic → partition → brokers; empty without metadata.
        tiered: topics with remote storage.
        ends: offsets that the next records of a partition get.
        starts: log start offsets.
        done: acts that were carried out, with their exit status; 'dead' of one that was killed.
        erased: topic and person of erasures at once that ended with 0.
        deleted_tiers: topics of deleted logs that began before their first segment.
        lacking: topics with a live segment that was cut, and looks whole.
        on_record: of any erasure that was begun.
        erased_in_bucket: topic and person of erasures of the bucket that ended with 0, and the
            objects that still had them then.
        notes: what is in the world, in words.
    """

    root: Path
    plan: Plan
    live: list[Path]
    archives: list[Path] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    planted: list[Planted] = field(default_factory=list)
    policy: str = "compact"
    replicas: dict[str, dict[int, tuple[int, ...]]] = field(default_factory=dict)
    tiered: set[str] = field(default_factory=set)
    ends: dict[tuple[str, int], int] = field(default_factory=dict)
    starts: dict[tuple[str, int], int] = field(default_factory=dict)
    done: list[tuple[str, int | str]] = field(default_factory=list)
    erased: set[tuple[str, bytes]] = field(default_factory=set)
    lacking: set[str] = field(default_factory=set)
    deleted_tiers: set[str] = field(default_factory=set)
    on_record: set[tuple[str, bytes]] = field(default_factory=set)
    erased_in_bucket: dict[tuple[str, bytes], set[str]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def temporary(self) -> Path:
        """Where commands have temporary files."""
        return self.root / "tmp"

    @property
    def bucket(self) -> Path:
        """The bucket, which not every world has."""
        return self.root / BUCKET

    @property
    def machine(self) -> Path:
        """The first directory as another machine has it; not in every world."""
        return self.root / "machine"

    @property
    def first(self) -> Path:
        """The log directory that most is in."""
        return self.live[0]

    @property
    def other(self) -> Path:
        """The second directory of the same broker; not always given."""
        return self.root / "b"

    @property
    def config(self) -> list[str]:
        """The settings of all topics."""
        pairs = (f"cleanup.policy={self.policy}", "delete.retention.ms=1000")
        more = ("file.delete.delay.ms=1000", "retention.ms=-1")
        return [word for pair in (*pairs, *more) for word in ("--config", pair)]

    def did(self, *names: str) -> bool:
        """Whether such an act was carried out, or begun."""
        return any(name.removeprefix("kill ") in names for name, _ in self.done)

    def note(self, text: str) -> None:
        """Something for who looks at the world."""
        self.notes.append(text)


def new_world(root: Path, plan: Plan) -> World:
    """Two empty log directories of one broker. Effects: makes them below `root`."""
    for name, identity in _DIRECTORY_IDS.items():
        (root / name).mkdir(parents=True)
        (root / name / "meta.properties").write_text(_META.format(uuid_text(identity)))
        (root / name / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":0}')
    (root / "tmp").mkdir()
    draw = random.Random(f"world {plan.seed}")
    policy = draw.choice(("compact", "compact", "compact,delete", "delete"))
    return World(root=root, plan=plan, live=[root / "a"], policy=policy)


@contextmanager
def temporary_files(world: World) -> Iterator[None]:
    """Have commands in this process make temporary files in the world. Effects: as said."""
    before, tempfile.tempdir = tempfile.tempdir, str(world.temporary)
    try:
        yield
    finally:
        tempfile.tempdir = before


def write_checkpoints(world: World) -> None:
    """The checkpoint files of the first log directory. Effects: replaces them."""
    starts = {TopicPartition(*one): start for one, start in world.starts.items()}
    ends = {TopicPartition(*one): end for one, end in world.ends.items()}
    for name, entries in (
        ("log-start-offset-checkpoint", starts),
        ("replication-offset-checkpoint", ends),
        ("recovery-point-offset-checkpoint", ends),
        ("cleaner-offset-checkpoint", {}),
    ):
        (world.first / name).write_bytes(serialize_offset_checkpoint(entries))  # type: ignore[arg-type]  # plain numbers


def short(names: Sequence[str]) -> str:
    """Names for reading, long ones cut."""
    return ", ".join(one if len(one) < 60 else f"{one[:20]}..{one[-20:]}" for one in names)
