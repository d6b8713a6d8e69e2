"""Make worlds, ask the product, and judge what it says."""

from __future__ import annotations

import logging
import shutil
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.differential.random_logs import scratch_directory
from tests.table_rows import table_rows
from tests.worlds.acts import objects_with
from tests.worlds.judge import Wrong, judge, judge_erasure
from tests.worlds.knowledge import look
from tests.worlds.making import draw_plan, make
from tests.worlds.plain_search import search_table
from tests.worlds.product import claims, erasure, signing_key
from tests.worlds.world import Plan, Table, World


@dataclass(slots=True)
class Figures:
    """What many worlds came to.

    Attributes:
        states: how often each state was claimed of a request.
        wrong: seed and faults of each world that has some.
        by_cause: worlds with a fault of each cause.
    """

    worlds: int = 0
    states: Counter[str] = field(default_factory=Counter)
    statuses: Counter[str] = field(default_factory=Counter)
    acts: Counter[str] = field(default_factory=Counter)
    places: Counter[str] = field(default_factory=Counter)
    by_cause: Counter[str] = field(default_factory=Counter)
    wrong: list[tuple[int, list[Wrong]]] = field(default_factory=list)

    def add(self, other: Figures) -> None:
        """Take over what others came to."""
        self.worlds += other.worlds
        self.states += other.states
        self.statuses += other.statuses
        self.acts += other.acts
        self.places += other.places
        self.by_cause += other.by_cause
        self.wrong += other.wrong


def run(plan: Plan, scratch: Path, figures: Figures) -> tuple[World, list[Wrong]]:
    """Make a world, ask, and judge. Effects: replaces `scratch`/world."""
    root = scratch / "world"
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    world = make(root, plan)
    seen = look(world)
    claimed = claims(world, signing_key(scratch))
    wrong = [*judge(world, seen, claimed), *_tables(world), *brought_back(world)]
    erased = erasure(world)
    wrong += judge_erasure(world, seen, look(world), erased)
    figures.worlds += 1
    for claim in (*claimed, erased):
        figures.statuses[f"{claim.command} {claim.status}"] += 1
        figures.states.update(f"{claim.command} {state}" for state in claim.states.values())
        world.note(f"claim {claim.command}: {claim.status} {sorted(set(claim.states.values()))}")
    figures.acts.update(f"{name} {end}" for name, end in world.done)
    figures.places.update(piece.kind for piece in plan.pieces)
    figures.by_cause.update({f"{one.way}: {one.cause}" for one in wrong})
    if wrong:
        figures.wrong.append((plan.seed, wrong))
    return world, wrong


def _tables(world: World) -> Iterator[Wrong]:
    """Whoever was erased from a log is in no file with rows of a table that was updated since."""
    if not world.done or not world.done[-1][0].startswith("latest"):
        return
    ended = dict(world.done)
    left = {(one.topic, one.has_key) for one in look(world).logs if one.topic}
    for table in world.tables:
        if ended.get(f"latest {table.form}") != 0:
            continue
        for topic, key in sorted(world.erased):
            if topic != table.topic or any(t == topic and has(key) for t, has in left):
                continue
            files = [one.path for one in search_table(table.path) if one.has_key(key)]
            if files:
                where = "its rows" if key in _rows(table) else "old versions"
                yield Wrong(
                    "more", f"table has who was erased, in {where}", f"{table.form} {files}"
                )


def brought_back(world: World) -> Iterator[Wrong]:
    """Whoever was erased from the bucket is in no object that came later."""
    for (topic, key), before in world.erased_in_bucket.items():
        if later := objects_with(world, topic, key) - before:
            yield Wrong("more", "an upload brings back who was erased", f"{topic}: {sorted(later)}")


def _rows(table: Table) -> set[bytes]:
    with suppress(Exception):
        rows = table_rows(table.form, table.path)
        return {one.encode() if isinstance(one, str) else one for row in rows for one in row[2:3]}
    return set()


def run_many(seeds: Iterable[int], scratch: Path) -> Figures:
    """Many worlds, one after the other."""
    logging.disable(logging.CRITICAL)
    figures = Figures()
    for seed in seeds:
        plan = draw_plan(seed)
        try:
            run(plan, scratch, figures)
        except Exception:  # noqa: BLE001 -- whatever it is, it is a fault, of the driver or a command
            lines = traceback.format_exc().splitlines()
            wrong = Wrong("bug", f"world: {lines[-1][:80]}", "; ".join(lines[-5:]))
            figures.by_cause[f"{wrong.way}: {wrong.cause}"] += 1
            figures.wrong.append((seed, [wrong]))
    return figures


def run_share(first: int, count: int) -> Figures:
    """Some of the seeds, in a process of their own."""
    with scratch_directory() as scratch:
        return run_many(range(first, first + count), scratch)


def shortened(plan: Plan, cause: str, scratch: Path) -> Plan:
    """The smallest part of a world that still shows a fault of this cause."""
    smaller = True
    while smaller:
        smaller = False
        for part in _parts(plan):
            with suppress(Exception):
                _, wrong = run(part, scratch, Figures())
                if any(f"{each.way}: {each.cause}" == cause for each in wrong):
                    plan, smaller = part, True
                    break
    return plan


def _parts(plan: Plan) -> Iterator[Plan]:
    for n in reversed(range(len(plan.acts))):
        yield replace(plan, acts=plan.acts[:n] + plan.acts[n + 1 :])
    for n in reversed(range(len(plan.pieces))):
        yield replace(plan, pieces=plan.pieces[:n] + plan.pieces[n + 1 :])
    requests = plan.asking.requests
    for n in range(len(requests) if len(requests) > 1 else 0):
        yield replace(plan, asking=replace(plan.asking, requests=requests[:n] + requests[n + 1 :]))
    if plan.asking.pattern is not None:
        yield replace(plan, asking=replace(plan.asking, pattern=None))
