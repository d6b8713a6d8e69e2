"""Random sequences of updates of a table, with what happens to the log and to the table between.

After each update the rows, read by other engines, are those of a dictionary. Or the update is
refused by name: only after another program has changed the table, and then what the message says
works.
"""

from __future__ import annotations

import logging
import random
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from logwright.config.table import Unique, hidden_of
from logwright.config.topic import CleanerConfig
from logwright.errors import LogwrightError
from logwright.format.names import TopicPartition
from logwright.log.load import observe
from logwright.tables.logs import TopicLog
from logwright.tables.model import OtherForm, UnknownTable
from logwright.tables.topic import TopicUpdate, update_topic
from tests.differential.kafka_cleaner import KafkaCleaner
from tests.differential.random_logs import scratch_directory
from tests.table_deaths import Died, counted
from tests.table_rows import files_with, read_table, table_rows
from tests.table_sequences import world as logs
from tests.table_sequences.engines import engines
from tests.table_sequences.others import OTHERS as FILES
from tests.table_sequences.others import Act, parquet_by_spark
from tests.table_sequences.rules import RULES
from tests.table_sequences.world import World, form_of, make_world

LONGEST: Final = 14
DEEPEST: Final = 60
"""The last effect at which an update dies."""
_LOGS: Final[dict[str, tuple[int, Act]]] = {
    "append": (14, logs.append),
    "clean": (6, logs.clean),
    "cut": (3, logs.cut),
    "move start": (2, logs.move_start),
    "make again": (1, logs.make_again),
    "grow": (2, logs.grow),
    "erase": (4, logs.erase),
    "move": (2, logs.move),
}
_SCHEMAS: Final[dict[str, tuple[int, Act]]] = {"newer schema": (6, logs.newer_schema)}
"""Where values are of schemas."""
OTHERS: Final = {form: {**FILES[form], **RULES[form]} for form in FILES}
_UPDATE: Final = 18
_OTHERS: Final = 14
"""Weights of an update, and of all acts of other programs together."""


class Difference(AssertionError):
    """The table is not what it must be."""


@dataclass(slots=True)
class Figures:
    """What many sequences came to.

    Attributes:
        acts: what happened; refusals: kinds of refused updates; steps: kinds of steps.
        differences: seed, what differs, the shortest acts that show it.
    """

    sequences: int = 0
    updates: int = 0
    killed: int = 0
    acts: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    steps: Counter[str] = field(default_factory=Counter)
    differences: list[tuple[int, str, tuple[str, ...]]] = field(default_factory=list)

    @property
    def by_others(self) -> int:
        """How often other programs changed a table."""
        return sum(count for name, count in self.acts.items() if name.startswith("other "))

    def add(self, other: Figures) -> None:
        """Take over what others came to."""
        self.sequences += other.sequences
        self.updates += other.updates
        self.killed += other.killed
        self.acts += other.acts
        self.refusals += other.refusals
        self.steps += other.steps
        self.differences += other.differences


@dataclass(frozen=True, slots=True)
class Setting:
    """What takes part.

    Attributes:
        kafka: Kafka's own cleaner; None: it does not.
        more: acts of other programs, as `OTHERS`: of Spark and DuckDB.
        unique: where a key has one row in all tables; None: it is drawn.
        bucket: all tables are of Delta, in a bucket.
    """

    scratch: Path
    kafka: KafkaCleaner | None = None
    more: dict[str, dict[str, tuple[int, Act]]] = field(default_factory=dict)
    unique: Unique | None = None
    bucket: bool = False


Operation = tuple[str, int]
"""Name of the act, and the number from which all about it follows."""


def drawn(seed: int, setting: Setting) -> tuple[Operation, ...]:
    """The acts of a seed."""
    draw = random.Random(seed)
    form = form_of(seed, bucket=setting.bucket)
    others = {**OTHERS[form], **setting.more.get(form, {})}
    whole = sum(weight for weight, _ in others.values())
    acts = {**_LOGS, **_SCHEMAS} if logs.has_schemas(seed) else _LOGS
    weights = {name: float(weight) for name, (weight, _) in acts.items()}
    weights |= {f"other {name}": _OTHERS * one / whole for name, (one, _) in others.items()}
    weights["update"] = _UPDATE
    count = draw.randint(3, LONGEST)
    names = draw.choices(list(weights), list(weights.values()), k=count)
    return tuple((name, draw.randrange(1 << 30)) for name in names)


def run(
    seed: int, operations: Sequence[Operation], setting: Setting, figures: Figures
) -> str | None:
    """Do a sequence; what differs, None if nothing does. Effects: makes and removes the scratch."""
    shutil.rmtree(setting.scratch, ignore_errors=True)
    setting.scratch.mkdir(parents=True)
    figures.sequences += 1
    try:
        world = make_world(
            seed, setting.scratch, setting.kafka, setting.unique, bucket=setting.bucket
        )
        judge = _Judge(world, figures)
        judge.update(random.Random(seed), dies=False)
        for name, choice in (*operations, ("update", seed * 7)):
            judge.act(name, choice, setting)
    except Exception as error:  # noqa: BLE001 -- whatever it is, it is a fault
        return f"{type(error).__name__}: {error}"
    finally:
        shutil.rmtree(setting.scratch, ignore_errors=True)
    return None


@dataclass(slots=True)
class _Judge:
    """Does the acts of a sequence, and judges the table after each update.

    Attributes:
        changed: another program has changed the table since the last update that was right.
        versions: of the table before the last update.
    """

    world: World
    figures: Figures
    changed: bool = False
    versions: set[str] = field(default_factory=set)

    def act(self, name: str, choice: int, setting: Setting) -> None:
        """Do one."""
        draw = random.Random(choice)
        world = self.world
        world.now += draw.choice([0, 1, 1000, logs.HOUR_MS, 25 * logs.HOUR_MS])
        world.now += world.unique == "topic"  # else a late record may have the time of a deletion
        self.figures.acts[name] += 1
        if name == "update":
            self.update(draw, dies=draw.random() < 0.25)
        elif name in _LOGS or name in _SCHEMAS:
            {**_LOGS, **_SCHEMAS}[name][1](world, draw)
        else:
            acts = {**OTHERS[world.form], **setting.more.get(world.form, {})}
            self.changed = True
            if name == "other lost commit":  # what only that one named
                world.orphans |= _files_in(world) if world.bucket else set()
            try:
                acts[name.removeprefix("other ")][1](world, draw)
            except Exception as error:  # noqa: BLE001 -- the other program's, of many libraries
                self.figures.acts[f"{name} raised {type(error).__name__}"] += 1

    def update(self, draw: random.Random, *, dies: bool) -> None:
        """Update the table, perhaps after an update that dies; then it is right, or refused."""
        self.figures.updates += 1
        self.world.note_unread(in_doubt=self.changed)
        if dies:
            self._die(draw)
        limits = draw.choice([0, 0, 10**6]), draw.choice([2, 3, 8])
        self.versions = _versions(self.world)
        try:
            done = self._update(*limits)
        except LogwrightError as error:
            if not (self.changed or self.world.has_refs):
                raise
            done = self._refused(error, limits, undone=draw.random() < 0.5)
        self.changed = False
        self.world.undo = None
        for partition in done.result.partitions:
            why = partition.step.reason.partition(":")[0]
            self.figures.steps[
                f"{partition.step.kind}: {''.join(c for c in why if not c.isdigit())}"
            ] += 1
        self._check(done)
        self.world.note_read()

    def _die(self, draw: random.Random) -> None:
        with pytest.MonkeyPatch.context() as patch, counted(patch) as effects:
            effects.dies_at = draw.randint(1, DEEPEST)
            before = _files_in(self.world)
            try:
                self._update(0, 3)
            except Died:
                self.figures.killed += 1
            except LogwrightError:
                if not (self.changed or self.world.has_refs):
                    raise
            if self.world.bucket:
                log = "".join(one.read_text() for one in self.world.table.rglob("*.json"))
                new = _files_in(self.world) - before
                self.world.orphans |= {name for name in new if Path(name).stem not in log}

    def _update(self, small_bytes: int, files: int) -> TopicUpdate:
        world = self.world
        wrong = [
            TopicLog(
                log=observe(log.where, TopicPartition("t", number), high_watermark="end"),
                topic_id=logs.topic_id_of(log, number),
                cleaner=CleanerConfig(),
            )
            for number, log in world.logs.items()
        ]
        done = update_topic(world.place(small_bytes, files), wrong, now_ms=world.now)
        for error in done.result.failures.values():
            raise error
        return done

    def _refused(
        self, error: LogwrightError, limits: tuple[int, int], *, undone: bool
    ) -> TopicUpdate:
        """Update the table after a refusal: what is refused has not changed it. `undone`: what
        another program did is taken back, if that is known.
        """
        world = self.world
        self.figures.refusals[f"{world.form}: {_kind(error)}"] += 1
        if isinstance(error, UnknownTable | OtherForm) and self.versions != _versions(world):
            raise Difference(f"refused, and changed: {error}")
        if undone and world.undo is not None:
            self.figures.acts["undone"] += 1
            try:
                world.undo()
                return self._update(*limits)
            except LogwrightError as again:
                error = again
            except Exception as raised:  # noqa: BLE001 -- the other program's
                self.figures.acts[f"undone raised {type(raised).__name__}"] += 1
        self._follow(error)
        return self._update(*limits)

    def _follow(self, error: LogwrightError) -> None:
        """Do what the message says."""
        remedy = error.remedy or ""
        if "Move them away" in remedy:
            for path in self.world.table.rglob("*.parquet"):
                if path.name != "rows.parquet":
                    path.unlink()
        elif "emove the table" in remedy or "does not exist" in remedy:
            shutil.rmtree(self.world.table)
            self.world.has_refs = False
            shutil.rmtree(self.world.quarantine, ignore_errors=True)
        else:
            raise Difference(f"no way out: {error}")

    def _check(self, done: TopicUpdate) -> None:
        world = self.world
        unknown = world.unknown()
        (columns, whole) = _rows(world)
        expected = [
            (*row, *world.more_of(row[:2], row[3].decode(), columns))
            for row in world.expected()
            if row[2] not in unknown
        ]
        newest = max((world.written.get(one[:2], 0) for one in expected), default=0)
        if columns != list(range(1, len(columns) + 1)) or len(columns) < newest - 1:
            raise Difference(f"it has the columns {columns}, a record has schema {newest}")
        rows = [one for one in whole if one[2] not in unknown]
        if expected != rows:
            steps = [one.step for one in done.result.partitions]
            missing, more = _only(expected, rows), _only(rows, expected)
            raise Difference(f"after {steps}: missing {missing}, too many {more}")
        snapshot = done.result.snapshot
        if snapshot is None or snapshot.rows != len(whole):
            raise Difference(f"it says {snapshot and snapshot.rows} rows of {len(whole)}")
        folders = (world.table, hidden_of(world.table))
        kept = {key for one in folders for key in _keys_in(one, world.orphans)} & world.erased
        if kept:
            raise Difference(f"files still have erased keys: {sorted(kept)}")


def _rows(world: World) -> tuple[list[int], list[Any]]:
    """The columns of newer schemas, and the rows: partition, offset, key, value and these."""
    if world.schemas is None:
        return [], table_rows(world.form, world.table)
    table = read_table(world.form, world.table)
    columns = sorted(int(name[1:]) for name in table.column_names if name[1:].isdecimal())
    names = ["partition", "offset", "key", "value", *(f"f{one}" for one in columns)]
    rows = zip(*(table[name].to_pylist() for name in names), strict=True)
    return columns, sorted((*row[:3], row[3].encode(), *row[4:]) for row in rows)


def _only(some: Sequence[object], others: Sequence[object]) -> list[object]:
    return [one for one in some if one not in others][:3]


def _keys_in(table: Path, orphans: set[str]) -> set[str]:
    """The keys in all files but some, whether a version needs them or not."""
    keys = [f"key-{number:02}" for number in range(logs.KEYS)]
    return {
        key
        for key in keys
        if any(Path(one).name not in orphans for one in files_with(table, key.encode()))
    }


def _versions(world: World) -> set[str]:
    """The names of the files of versions of Delta and Iceberg."""
    table = world.table
    commits = [*table.glob("_delta_log/*.json"), *table.glob("metadata/*.metadata.json")]
    return {path.name for path in commits}


def _kind(error: LogwrightError) -> str:
    """What a refusal says, without paths and numbers."""
    words = [one for one in error.problem.split() if "/" not in one]
    return "".join(one for one in " ".join(words) if not one.isdigit())[:110]


def _files_in(world: World) -> set[str]:
    """The names of files with rows, or heads."""
    return {
        path.name
        for folder in (world.table, hidden_of(world.table))
        for path in folder.rglob("*.parquet")
    }


def shrunk(seed: int, operations: tuple[Operation, ...], setting: Setting) -> tuple[Operation, ...]:
    """The shortest sequence of them that still differs."""

    def differs(some: tuple[Operation, ...]) -> bool:
        return run(seed, some, setting, Figures()) is not None

    at = len(operations)
    while at > 0:
        at -= 1
        fewer = operations[:at] + operations[at + 1 :]
        if differs(fewer):
            operations = fewer
    return operations


def run_many(
    seeds: range, setting: Setting, *, say: Callable[[str], None] = lambda _: None
) -> Figures:
    """The sequences of some seeds. Effects: works in the scratch."""
    figures = Figures()
    for seed in seeds:
        operations = drawn(seed, setting)
        reason = run(seed, operations, setting, figures)
        if reason is not None:
            short = shrunk(seed, operations, setting)
            again = run(seed, short, setting, Figures()) or reason
            figures.differences.append((seed, again, tuple(name for name, _ in short)))
            say(f"seed {seed}: {'; '.join(name for name, _ in short)}\n    {again}")
    return figures


def run_share(
    first: int,
    count: int,
    *,
    kafka: bool,
    spark: bool,
    unique: Unique | None,
    bucket: bool = False,
    step: int = 1,
    engine: Path | None = None,
) -> Figures:
    """`run_many` of this number of seeds, each this `step` after the one before, by a process of
    its own. Effects: may start JVMs; prints each difference.
    """
    logging.disable(logging.CRITICAL)
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(scratch_directory()))
        cleaner = stack.enter_context(KafkaCleaner()) if kafka else None
        more: dict[str, dict[str, tuple[int, Act]]] = {}
        if engine is not None:
            more = stack.enter_context(engines(engine, scratch))
        if spark:
            from tests.spark_session import observed_session  # noqa: PLC0415 -- it costs time

            (scratch / "events").mkdir()
            session = stack.enter_context(observed_session(scratch / "events")).spark
            more["parquet"] = {"Spark": (4, parquet_by_spark(session))}
        setting = Setting(
            scratch=scratch / "work", kafka=cleaner, more=more, unique=unique, bucket=bucket
        )
        return run_many(range(first, first + step * count, step), setting, say=_say)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
