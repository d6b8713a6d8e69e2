"""Draw a world from a seed, and put it on disk."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Final

from tests.worlds.acts import draw_acts, left_out, perform
from tests.worlds.places import PLACES
from tests.worlds.requests import draw_asking
from tests.worlds.world import NOW_MS, Piece, Plan, World, new_world, write_checkpoints

_MOST: Final = 5


def draw_plan(seed: int) -> Plan:
    """What is in a world. One with tables is rare: they take the most time."""
    draw = random.Random(seed)
    weights = [weight for weight, _ in PLACES.values()]
    kinds = draw.choices(list(PLACES), weights, k=draw.choice((0, 1, 1, 2, 2, 3, _MOST)))
    kinds.insert(0, "live")
    if kinds.count("table") > 1:
        kinds = [one for one in kinds if one != "table"] + ["table"]
    pieces = tuple(Piece(kind, draw.randrange(10**6)) for kind in kinds)
    acts = draw_acts(draw, with_tables="table" in kinds, with_bucket="bucket" in kinds)
    return Plan(seed, pieces, acts, draw_asking(draw, NOW_MS))


def make(root: Path, plan: Plan) -> World:
    """Put a world on disk. Effects: makes it below `root`."""
    world = new_world(root, plan)
    late = ("unreadable", "metadata", "table")
    for planned in sorted(plan.pieces, key=lambda piece: piece.kind in late):
        if planned.kind != "bucket":
            PLACES[planned.kind][1](world, planned.draw())
    write_checkpoints(world)
    shutil.copytree(world.first, world.machine, symlinks=True, ignore=left_out)
    for planned in plan.pieces:
        if planned.kind == "bucket":
            PLACES[planned.kind][1](world, planned.draw())
    for act in plan.acts:
        perform(world, act)
    return world
