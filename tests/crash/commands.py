"""The commands on one log directory of which two are run at once, and the logs they begin with."""

# ruff: noqa: D102  the properties of Place are names

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from logwright.config.topic import CleanerConfig, TopicConfig, effective
from logwright.deletion.commit import delete_log, find_deleted, restore_log
from logwright.deletion.commit import purge_deleted as purge_deleted_
from logwright.errors import CorruptLogError, UncleanLogDir
from logwright.format.checkpoints import serialize_offset_checkpoint
from logwright.format.names import CLEAN_SHUTDOWN_MARKER, TopicPartition
from logwright.ingest.commit import commit_append, plan_append, prepare_log_dir, stage_append
from logwright.ingest.model import Appended, AppendOptions
from logwright.ingest.staging import staging
from logwright.log.checkpoints import CHECKPOINT_FILES
from logwright.log.load import list_partitions
from logwright.move.commit import move_partition
from logwright.purge.commit import purge_partition
from logwright.recovery.directory_plan import partitions_to_recover
from logwright.recovery.model import RecoveryOptions
from logwright.retention.commit import plan_retention_of
from logwright.rewrite.staging import discard_staging
from logwright.roll.commit import plan_roll_of, roll_partition
from logwright.state.hold import quarantine_failure
from logwright.state.model import Pause
from logwright.state.store import change_state
from logwright.sweep.build import build, examine
from logwright.sweep.commit import commit
from logwright.sweep.recover import recover_directory
from logwright.sweep.retain import retain as retain_log
from logwright.undo.commit import undo_partition
from logwright.undo.observe import plan_undo_of
from logwright.units import TimestampMs
from tests.crash.operations import relink
from tests.ingested import Row, arrow
from tests.log_builder import START_MS, LogBuilder
from tests.plans import forced_plan

NOW = TimestampMs(START_MS + 10_000_000)
T0 = TopicPartition("t", 0)
U0 = TopicPartition("u", 0)
V0 = TopicPartition("v", 0)
META = "version=1\ncluster.id=CCCCCCCCCCCCCCCCCCCCCC\nnode.id=1\ndirectory.id={}\n"
TOPIC_ID = b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ"
EPOCHS = b"0\n2\n0 0\n1 5\n"
SEGMENTS = (0, 4, 8, 12)
SOURCE_END = 40
"""Where the copied topic ends."""


class Place(NamedTuple):
    """Two log directories of a broker; the logs are in the first one."""

    root: Path

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def other(self) -> Path:
        return self.root / "other"

    def copied(self, root: Path) -> Place:
        """A copy of both; hard links stay hard links."""
        shutil.copytree(self.root, root, copy_function=shutil.copy2)
        relink(self.root, root)
        return Place(root)


def make_place(root: Path) -> Place:
    """Three logs of four segments, with transactions, and an empty second log directory."""
    place = Place(root)
    place.logs.mkdir(parents=True)
    place.other.mkdir()
    for partition in (T0, U0, V0):
        _write_log(place.logs, partition)
    logs = (T0, U0, V0)
    entries = dict(zip(CHECKPOINT_FILES, (16, None, 16, None), strict=True))
    for log_dir, partitions in ((place.logs, logs), (place.other, ())):
        for name, offset in entries.items():
            offsets = {} if offset is None else dict.fromkeys(partitions, offset)
            (log_dir / name).write_bytes(serialize_offset_checkpoint(offsets))
        (log_dir / CLEAN_SHUTDOWN_MARKER).write_text('{"version":0,"brokerEpoch":7}')
        (log_dir / "meta.properties").write_text(META.format("D" + log_dir.name[0].upper() * 21))
    return place


def _write_log(log_dir: Path, partition: TopicPartition) -> None:
    log = LogBuilder(log_dir, str(partition))
    first, second, third, active = (log.segment(base) for base in SEGMENTS)
    first.batch(0, [("a", "1"), ("b", "1"), ("c", "1")]).batch(3, [("a", "2")])
    second.batch(4, [("d", "1"), ("b", "2")], producer_id=7, transactional=True)
    second.marker(6, 7, "abort").batch(7, [("e", "1")])
    third.batch(8, [("c", "2"), ("f", "1")], producer_id=8, transactional=True)
    third.marker(10, 8, "commit").batch(11, [("a", "3")])
    active.batch(12, [("g", "1"), ("e", "2"), ("h", None), ("a", "4")])
    log.write(producers=True, index_interval=0)
    (log.directory / "leader-epoch-checkpoint").write_bytes(EPOCHS)
    (log.directory / "partition.metadata").write_bytes(TOPIC_ID)


def settings(**more: str) -> tuple[TopicConfig, CleanerConfig]:
    pairs = {"cleanup.policy": "compact", "index.interval.bytes": "0", "segment.bytes": "1048576"}
    return effective(pairs | {name.replace("_", "."): value for name, value in more.items()})


def clean(place: Place, partition: TopicPartition) -> None:
    plan = forced_plan(place.logs, partition, settings(), now_ms=NOW)
    staged = None
    try:
        if plan.clean:
            staged = build(plan)
            assert not examine(plan, staged).failed
        commit(plan, staged)
    finally:
        discard_staging(plan)


def roll(place: Place, partition: TopicPartition) -> None:
    config, _ = settings()
    planned = plan_roll_of(place.logs, partition, config, now_ms=NOW, force=True)
    roll_partition(*planned)


def retain(place: Place, partition: TopicPartition) -> None:
    """The log begins inside its second segment then."""
    config, _ = settings(cleanup_policy="delete", retention_ms="-1")
    plan = plan_retention_of(
        place.logs,
        partition,
        config,
        now_ms=NOW,
        high_watermark="end",
        delete_records_before=SEGMENTS[1] + 1,
    )
    retain_log(plan)


def undo(place: Place, partition: TopicPartition) -> None:
    undo_partition(plan_undo_of(place.logs, partition), now_ms=NOW)


def purge(place: Place, partition: TopicPartition) -> None:
    config, _ = settings(file_delete_delay_ms="0")
    delay_ms = config.file_delete_delay_ms
    purge_partition(place.logs, partition, now_ms=NOW, file_delete_delay_ms=delay_ms, force=True)


def recover(place: Place, partition: TopicPartition) -> None:
    """`logwright recover` of all partitions."""
    del partition
    _recover(place, list_partitions(place.logs))


def recover_first(place: Place, partition: TopicPartition) -> None:
    """What other commands do before they begin: of those that need it."""
    wanted = partitions_to_recover(place.logs, [partition])
    _recover(place, wanted)


def _recover(place: Place, wanted: Iterable[TopicPartition]) -> None:
    wanted = tuple(wanted)
    result = recover_directory(
        place.logs, wanted, lambda _: settings()[0], now_ms=NOW, options=RecoveryOptions()
    )
    for error in result.failures.values():
        raise error
    if wanted and not result.clean:
        raise UncleanLogDir("not all of it was recovered", path=place.logs)


def delete(place: Place, partition: TopicPartition) -> None:
    delete_log(place.logs, partition, now_ms=NOW)


def restore(place: Place, partition: TopicPartition) -> None:
    restore_log(place.logs, find_deleted(place.logs, partition))


def purge_deleted(place: Place, partition: TopicPartition) -> None:
    purge_deleted_(place.logs, now_ms=NOW, delay_ms=0, named={partition})


def move(place: Place, partition: TopicPartition) -> None:
    move_partition(
        place.logs,
        partition,
        place.other,
        now_ms=NOW,
        progress=lambda _what, _done, _total: None,
    )


def _append(
    place: Place, partition: TopicPartition, ingest_id: str, options: AppendOptions
) -> Appended | None:
    config, _ = settings()
    prepare_log_dir(place.logs)
    plan = plan_append(
        place.logs, partition, config, ingest_id=ingest_id, now_ms=NOW, options=options
    )
    if isinstance(plan, Appended):
        return plan
    kept = range(plan.log_end_offset, SOURCE_END, 2) if options.keep_offsets else None
    if kept is not None and not kept:
        return None
    rows: list[Row] = [
        (f"{ingest_id}{n}".encode(), b"v", [("h", b"1")], NOW - 9 + n) for n in range(5)
    ]
    if kept is not None:
        rows = [(b"k%d" % offset, b"v", [], NOW - SOURCE_END + offset) for offset in kept]
    with staging([plan]):
        staged = stage_append(plan, [arrow(rows, None if kept is None else list(kept))])
        return commit_append(plan, staged)


def ingest(place: Place, partition: TopicPartition) -> None:
    _append(place, partition, "one", AppendOptions())


def ingest_another(place: Place, partition: TopicPartition) -> None:
    _append(place, partition, "two", AppendOptions())


def ingest_new(place: Place, partition: TopicPartition) -> None:
    """Ingest into a new topic: its partition 0 is next to t-0, its partition 1 next to u-0."""
    number = {T0: 0, U0: 1}[partition]
    _append(place, TopicPartition("n", number), "one", AppendOptions())


def archive(place: Place, partition: TopicPartition) -> None:
    _append(place, partition, "archive", AppendOptions(keep_offsets=True))


def pause(place: Place, partition: TopicPartition) -> None:
    wanted = Pause(owner="ops", reason="look", since_ms=NOW, expires_at_ms=None)
    change_state(place.logs, partition, lambda now: now.with_pause(wanted))


def resume(place: Place, partition: TopicPartition) -> None:
    change_state(place.logs, partition, lambda now: now.without_pauses(None))


def quarantine(place: Place, partition: TopicPartition) -> None:
    error = CorruptLogError("it was broken", path=place.logs)
    quarantine_failure(place.logs, partition, error, NOW)


def damage(place: Place, partition: TopicPartition) -> None:
    """An index is gone, and half-built output is left."""
    directory = place.logs / str(partition)
    if directory.exists():
        (directory / f"{SEGMENTS[-1]:020d}.index").unlink()
        (directory / f"{SEGMENTS[-1]:020d}.log.cleaned").write_bytes(b"half")


def crash(place: Place, partition: TopicPartition) -> None:
    del partition
    (place.logs / CLEAN_SHUTDOWN_MARKER).unlink(missing_ok=True)


Act = Callable[[Place, TopicPartition], None]


@dataclass(frozen=True, slots=True)
class Command:
    """A command on a partition.

    Attributes:
        before: what is done first, so that the command finds its work.
    """

    name: str
    act: Act
    before: tuple[Act, ...] = ()

    def __str__(self) -> str:
        return self.name


PREPARATIONS: tuple[Act, ...] = (clean, retain, pause, delete, damage, crash)
"""In the order in which they are made where both commands want some."""

COMMANDS = (
    Command("clean", clean),
    Command("roll", roll),
    Command("retain", retain),
    Command("undo-swap", undo, (clean,)),
    Command("undo-retain", undo, (retain,)),
    Command("purge", purge, (clean, retain)),
    Command("recover", recover, (damage,)),
    Command("recover-first", recover_first, (damage,)),
    Command("recover-unclean", recover, (crash,)),
    Command("delete", delete),
    Command("restore", restore, (delete,)),
    Command("purge-deleted", purge_deleted, (delete,)),
    Command("move", move),
    Command("ingest", ingest),
    Command("ingest-another", ingest_another),
    Command("ingest-new", ingest_new),
    Command("archive", archive),
    Command("pause", pause),
    Command("resume", resume, (pause,)),
    Command("quarantine", quarantine),
)
