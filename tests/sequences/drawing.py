"""What a sequence is made of: its operations and faults follow from its seed."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Final

from tests.sequences.faults import NO_FAULT, Fault, Kind
from tests.sequences.world import SHAPES

LONGEST: Final = 12
INTERRUPTED: Final = 0.8
"""The share of sequences with faults. Some come after an operation's last call, some are not death;
so a death happens in half of the sequences."""
WEIGHTS: Final = {
    "clean": 20,
    "undo": 16,
    "ingest": 16,
    "retain": 6,
    "purge": 7,
    "roll": 5,
    "recover": 3,
    "delete": 5,
    "restore": 6,
    "purge-deleted": 5,
    "archive": 4,
    "pause": 3,
    "move": 4,
    "broker-crash": 5,
    "broker": 4,
    "fail": 4,
    "table": 12,
    "erase": 10,
    "running": 10,
    "follower": 6,
    "rescue": 6,
    "undo-rescue": 5,
    "doctor": 4,
    "free": 8,
    "lose": 5,
}
THEMES: Final = (
    tuple(WEIGHTS),
    tuple(WEIGHTS),
    tuple(WEIGHTS),
    ("ingest", "clean", "broker-crash", "recover"),
    ("ingest", "archive"),
    ("delete", "restore", "purge-deleted", "retain"),
    ("clean", "undo", "roll", "purge", "ingest", "table"),
    ("table", "clean", "ingest", "roll", "retain", "undo", "delete", "restore"),
    ("clean", "fail", "undo", "purge", "move", "delete", "restore"),
    ("erase", "clean", "undo", "retain", "fail", "ingest", "recover"),
    ("table", "erase", "move", "table", "ingest"),
    ("running", "clean", "ingest", "roll", "retain", "erase"),
    ("follower", "clean", "retain", "erase", "undo"),
    ("rescue", "undo-rescue", "clean", "broker-crash", "move", "undo", "doctor"),
    ("lose", "retain", "undo", "clean", "broker-crash", "delete", "restore", "ingest", "move"),
    ("free", "clean", "ingest", "undo", "purge", "roll", "broker-crash"),
    ("retain", "clean", "undo", "roll", "purge", "erase", "broker-crash", "broker"),
)
"""What a sequence is made of: of everything, or of what leaves traces for each other."""
BESIDE: Final = ("purge", "purge-deleted", "restore", "roll")
OPPOSED: Final = {"purge-deleted": "restore", "restore": "purge-deleted"}
"""What is run next to these more often."""
FAULTS: Final[tuple[Kind, ...]] = ("kill", "kill", "power", "power", "errno", "errno")
FOLLOWING: Final = {
    "delete": ("restore", "purge-deleted"),
    "clean": ("undo",),
    "retain": ("undo", "delete"),
    "undo": ("clean",),
    "erase": ("undo", "erase", "move"),
    "move": ("table",),
    "rescue": ("undo-rescue", "rescue"),
    "broker-crash": ("doctor",),
}
"""What is tried more often after another."""
DEEPEST: Final = {
    "clean": 90,
    "fail": 8,
    "undo": 110,
    "ingest": 36,
    "archive": 36,
    "move": 130,
    "retain": 20,
    "delete": 14,
    "restore": 13,
    "purge-deleted": 14,
    "roll": 12,
    "pause": 4,
    "erase": 140,
    "rescue": 40,
    "undo-rescue": 60,
    "free": 90,
}
"""The last call that a fault comes before, of most of them; of others 20."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of a sequence.

    Attributes:
        kind: of `OPERATIONS`.
        choice: everything about it follows from this number.
        wait_ms: by which the clock moves before it.
        fault: what happens in the middle of it.
        meanwhile: what runs completely at the fault, if that is its kind.
        left: after a fault the disk is left as it is, if the next operation can do with it.
    """

    kind: str
    choice: int
    wait_ms: int
    fault: Fault = NO_FAULT
    meanwhile: tuple[str, int] | None = None
    left: bool = False

    def __str__(self) -> str:
        at = "" if self.fault.kind == "none" else f" {self.fault.kind}@{self.fault.at}"
        return f"{self.kind}{at}{f' {self.meanwhile[0]}' if self.meanwhile else ''}"


def drawn(seed: int) -> tuple[int, tuple[Operation, ...]]:
    """The shape of the log directory and the operations; a death in half of the sequences."""
    rnd = random.Random(seed)
    kinds = rnd.choice(THEMES)
    weights = [WEIGHTS[kind] for kind in kinds]
    count = rnd.randint(1, LONGEST)
    interrupted_ones = rnd.random() < INTERRUPTED
    operations = []
    before = ""
    for drawn_kind in rnd.choices(kinds, weights, k=count):
        follows = before in FOLLOWING and rnd.random() < 0.35
        kind = before = rnd.choice(FOLLOWING[before]) if follows else drawn_kind
        operation = Operation(kind, rnd.randrange(1 << 30), rnd.choice((10, 700, 3_000, 61_000)))
        if interrupted_ones and rnd.random() < 0.5:
            operation = _with_fault(operation, rnd)
        operations.append(operation)
    if interrupted_ones and all(one.fault.kind == "none" for one in operations):
        operations[-1] = _with_fault(operations[-1], rnd)
    return rnd.randrange(SHAPES), tuple(operations)


def _with_fault(operation: Operation, rnd: random.Random) -> Operation:
    if operation.kind == "lose":  # its files come back
        return operation
    at = rnd.randint(1, DEEPEST.get(operation.kind, 20))
    opposed = OPPOSED.get(operation.kind)
    if rnd.random() < (0.5 if opposed else 0.12):
        kind = opposed if opposed and rnd.random() < 0.8 else rnd.choice(BESIDE)
        at = rnd.randint(1, rnd.choice((3, 8, 30)))  # most is decided where the locks are taken
        return replace(
            operation, fault=Fault("meanwhile", at), meanwhile=(kind, rnd.randrange(1 << 30))
        )
    fault = Fault(rnd.choice(FAULTS), at, rnd.randrange(1 << 30))
    return replace(operation, fault=fault, left=rnd.random() < 0.5)
