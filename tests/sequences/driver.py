"""Random sequences of operations on one log directory, judged by the model after each.

A sequence follows from its seed. One that shows a difference is made as short as it gets:
operations go, then faults, as long as it still shows one.
"""

from __future__ import annotations

import logging
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final

from logwright.errors import (
    CannotUndo,
    CorruptBatch,
    LogwrightError,
    NotALogDir,
    Paused,
    PreconditionError,
    QualityError,
    UncleanLogDir,
    Unsettled,
    UnsupportedFormatError,
)
from logwright.move.commit import abandon_move
from logwright.verify.partition import verify_partition
from tests.crash.filesystems import Crash
from tests.crash.operations import relink
from tests.differential.oracle_server import OracleServer
from tests.differential.random_logs import scratch_directory
from tests.sequences.content import Content
from tests.sequences.drawing import Operation, drawn
from tests.sequences.faults import NO_FAULT, interrupted
from tests.sequences.operations import OPERATIONS, Step, move_on
from tests.sequences.rescues import after_power_loss, rescue_now, undo_now
from tests.sequences.world import (
    NAMES,
    Difference,
    RecoveryFails,
    World,
    compare,
    parsed,
    repair,
    template,
)

UNREADABLE: Final = (CorruptBatch, UnsupportedFormatError, QualityError)
"""Never the answer of an operation: all logs can be read."""
REFUSALS: Final[Mapping[str, tuple[type[LogwrightError], ...]]] = {
    "undo": (CannotUndo, NotALogDir),
    "running": (Unsettled, NotALogDir),
    "retain": (Paused, NotALogDir),
    "free": (Paused, NotALogDir),
    "purge": (Paused, NotALogDir, UncleanLogDir),
    "restore": (CannotUndo,),
    "ingest": (UncleanLogDir,),
    "archive": (UncleanLogDir,),
}
"""How an operation may be refused without a fault in it; another one since there is no such log."""


@dataclass(slots=True)
class Figures:
    """What many sequences came to.

    Attributes:
        died: sequences in which a process died, or the power went.
    """

    sequences: int = 0
    died: int = 0
    operations: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    states: set[int] = field(default_factory=set)
    differences: list[tuple[int, str, tuple[Operation, ...]]] = field(default_factory=list)

    @property
    def deaths(self) -> int:
        """How often a process died, or the power went."""
        return self.faults["kill"] + self.faults["power"]

    def add(self, other: Figures) -> None:
        """Take over what others came to."""
        self.sequences += other.sequences
        self.died += other.died
        self.operations += other.operations
        self.faults += other.faults
        self.refusals += other.refusals
        self.states |= other.states
        self.differences += other.differences


def run(
    shape: int,
    operations: Sequence[Operation],
    scratch: Path,
    figures: Figures | None = None,
    kafka: OracleServer | None = None,
) -> str | None:
    """Do a sequence; what differs, None if nothing does. Effects: makes and removes `scratch`.

    `kafka`: is asked in the end what its consumers get, and for the operations of a broker.
    """
    figures = Figures() if figures is None else figures
    figures.sequences += 1
    deaths = figures.deaths
    shutil.rmtree(scratch, ignore_errors=True)
    world = _copied(shape, scratch)
    world.kafka = kafka
    try:
        for number, operation in enumerate(operations):
            following = operations[number + 1] if number + 1 < len(operations) else None
            _perform(world, operation, following, figures)
        _settle(world)
        _verify(world)
        if kafka is not None:
            _perform(world, Operation("broker", 0, 10), None, figures)
    except Exception as error:  # noqa: BLE001 -- whatever it is, it is a fault
        return f"{type(error).__name__}: {error}"
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        figures.died += figures.deaths > deaths
    figures.states.add(hash(tuple((n, log.content) for n, log in sorted(world.logs.items()))))
    return None


_templates: dict[tuple[int, Path], World] = {}


def _copied(shape: int, scratch: Path) -> World:
    """A copy of the log directories of a shape, which are made once."""
    base = scratch.with_name(f"{scratch.name}-shapes")
    if (shape, base) not in _templates:
        directory = base / str(shape)
        shutil.rmtree(directory, ignore_errors=True)
        _templates[shape, base] = template(shape, directory)
    made = _templates[shape, base]
    shutil.copytree(made.root, scratch)
    relink(made.root, scratch)
    logs = {name: replace(log, where=scratch / "a", before={}) for name, log in made.logs.items()}
    return World(root=scratch, now=made.now, logs=logs)


def _perform(
    world: World, operation: Operation, following: Operation | None, figures: Figures
) -> None:
    """Do one operation, let its fault happen, and hold what is left against the model."""
    if operation.kind == "broker" and world.kafka is None:
        return
    world.now += operation.wait_ms
    step = OPERATIONS[operation.kind](world, operation.choice)
    if world.maybe and not _goes_on(world, step, operation):
        _settle(world)
        step = OPERATIONS[operation.kind](world, operation.choice)
    figures.operations[operation.kind] += 1
    restored: list[Step] = []
    with interrupted(
        operation.fault, world.root, partial(_beside, world, operation, step, figures, restored)
    ) as interposed:
        ended = _ended(step, operation, figures, lambda: interposed.happened)
        if ended == "refused" and interposed.happened and operation.fault.kind == "errno":
            ended = "failed"
    figures.faults[operation.fault.kind] += interposed.happened
    if operation.fault.kind == "power" and interposed.happened:
        after_power_loss(world)
    if ended == "failed" and not interposed.happened:
        raise RecoveryFails(f"{operation}: a recovery failed without a fault")
    died = ended in ("died", "failed")
    _expect(world, step, operation, ended, died=died)
    for other in restored:
        world.maybe[other.name] = tuple(other.done())
    if ended == "done" and operation.kind in ("ingest", "archive"):
        world.logs[step.name].taking = None
    is_stopped = bool(world.damaged) or world.undoing is not None
    leave = (died and operation.left and not is_stopped) or operation.kind == "broker-crash"
    if leave and following is not None:
        world.left[step.name] = operation.kind
        return
    _settle(world)


def _goes_on(world: World, step: Step, operation: Operation) -> bool:
    """Whether an operation can follow an interrupted one without a recovery between them: the same
    again, or one that knows nothing of the log that is in doubt.
    """
    if step.again:
        other = step.unclean and step.name not in world.maybe
        return other or world.left.get(step.name) == operation.kind
    return step.unclean


def _beside(
    world: World, operation: Operation, step: Step, figures: Figures, restored: list[Step]
) -> None:
    """Another operation runs completely inside one; what does not change a log, and an undo of
    a deletion, which is put down.
    """
    if operation.meanwhile is None:
        return
    kind, choice = operation.meanwhile
    other = OPERATIONS[kind](world, choice)
    ordered = kind == "roll" or (kind == "restore" and operation.kind != "purge-deleted")
    if ordered and other.name == step.name:  # what an order of them gives is for the pairs
        return
    try:
        other.run()
    except (LogwrightError, RecoveryFails) as error:
        figures.refusals[f"meanwhile {kind}: {type(error).__name__}"] += 1
    else:
        restored.extend([other] if kind == "restore" else [])


def _ended(step: Step, operation: Operation, figures: Figures, happened: Callable[[], bool]) -> str:
    try:
        step.run()
    except Crash:
        return "died"
    except RecoveryFails:
        if operation.fault.kind == "errno":
            return "failed"
        raise
    except LogwrightError as error:
        refusal = type(error)
        figures.refusals[f"{operation.kind}: {refusal.__name__}"] += 1
        if refusal in UNREADABLE or not (
            happened() or refusal in REFUSALS.get(operation.kind, (NotALogDir,))
        ):
            raise Difference(f"{operation.kind} is refused: {refusal.__name__}: {error}") from error
        return "refused"
    return "done"


def _expect(world: World, step: Step, operation: Operation, ended: str, *, died: bool) -> None:
    old = world.logs[step.name].content
    if ended == "done":
        if step.unclean and not step.again:
            return
        world.maybe[step.name] = tuple(step.done())
    elif died:
        world.expect(step.name, (old, *step.halfway(), *step.done()))
    else:
        made = operation.kind in ("ingest", "archive") and old is None
        world.expect(step.name, (old, *((Content(),) if made else ())))


def _settle(world: World) -> None:
    """Bring the disk to where it can be compared, and compare."""
    if world.undoing is not None:
        undo_now(world)
    if world.damaged:
        rescue_now(world)
    if world.moving is not None:
        _end_move(world)
    repair(world)
    compare(world)


def _end_move(world: World) -> None:
    """An interrupted move is continued, or abandoned if it has not begun to switch."""
    name = world.moving
    assert name is not None
    log = world.logs[name]
    other = world.second if log.where == world.first else world.first
    try:
        move_on(world, log.where, other, name)
    except LogwrightError:
        with suppress(PreconditionError):  # none is open: it was refused
            abandon_move(log.where, parsed(name), now_ms=world.clock)
    world.moving = None


def _verify(world: World) -> None:
    """Everything that the directories say agrees with their batches."""
    for log_dir in (world.first, world.second):
        for name in NAMES:
            if any((log_dir / name).glob("*.log")):
                faults = verify_partition(log_dir, parsed(name))
                if faults:
                    raise Difference(f"verify finds {faults[:3]} of {len(faults)}")


def shrunk(
    shape: int,
    operations: tuple[Operation, ...],
    scratch: Path,
    kafka: OracleServer | None = None,
) -> tuple[Operation, ...]:
    """The shortest sequence of them that still differs."""

    def differs(some: tuple[Operation, ...]) -> bool:
        return run(shape, some, scratch, None, kafka) is not None

    changed = True
    while changed:
        changed = False
        for at in reversed(range(len(operations))):
            fewer = operations[:at] + operations[at + 1 :]
            if fewer and differs(fewer):
                operations, changed = fewer, True
        for at, operation in enumerate(operations):
            plain = replace(operation, fault=NO_FAULT, meanwhile=None, left=False)
            calmer = (*operations[:at], plain, *operations[at + 1 :])
            if plain != operation and differs(calmer):
                operations, changed = calmer, True
    return operations


def run_many(
    seeds: range,
    scratch: Path,
    *,
    kafka: OracleServer | None = None,
    asking: int = 1,
    most_differences: int = 5,
) -> Figures:
    """The sequences of some seeds. Effects: works below `scratch`.

    Args:
        kafka: Kafka's own code; None: it is not asked.
        asking: it takes part in one of this number of sequences.
    """
    figures = Figures()
    for seed in seeds:
        shape, operations = drawn(seed)
        server = kafka if seed % asking == 0 else None
        reason = run(shape, operations, scratch / "work", figures, server)
        if reason is not None:
            short = shrunk(shape, operations, scratch / "work", server)
            again = run(shape, short, scratch / "work", None, server)
            figures.differences.append((seed, again or reason, short))
            if len(figures.differences) >= most_differences:
                break
    return figures


def run_share(first: int, count: int, asking: int) -> Figures:
    """`run_many` of this number of seeds, by a process of its own. Effects: starts a JVM."""
    logging.disable(logging.CRITICAL)
    with scratch_directory() as scratch, OracleServer() as kafka:
        return run_many(range(first, first + count), Path(scratch), kafka=kafka, asking=asking)
