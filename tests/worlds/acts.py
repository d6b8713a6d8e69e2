"""What was done to a world before it is searched, by logwright's own commands or without them."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from tests.crash.filesystems import Crash
from tests.e2e.command import Answer, call
from tests.sequences.faults import Fault, interrupted
from tests.worlds.plain_search import begin_elsewhere, is_live, search_bucket, search_logs
from tests.worlds.requests import ALL, CUSTOMERS, ORDERS, PERSONS, Asked, Asking, words
from tests.worlds.world import NOW_MS, Piece, Table, World, short, temporary_files

Words = Sequence[object]
_POLICY: Final = """version: 1
topics:
  - name: {topic}
    table: {{format: {form}, path: {path}, key: string, value: string, keep_versions_ms: {keep}}}
"""


def run(world: World, *given: object) -> Answer:
    """A command at the world's time, without output of progress."""
    with temporary_files(world):
        return call(*map(str, given), "--now", NOW_MS)


def partitions(world: World) -> list[str]:
    """The live logs of the first directory but the metadata."""
    names = [one.name for one in sorted(world.first.iterdir()) if one.is_dir()]
    return [one for one in names if is_live(one) and not one.startswith("__")]


def erase(world: World, draw: random.Random, *, at_once: bool) -> Words:
    """The words of an erasure of some persons, in all topics or as requested."""
    persons = draw.sample(PERSONS, draw.choice((1, 2, 4, 4)))
    asking = Asking(tuple(Asked(key, ALL) for key in persons))
    directory = world.root / "erase"
    directory.mkdir(exist_ok=True)
    mode = ("--now-and-for-good",) if at_once else ()
    return ("erase", world.first, *words(asking, directory), *mode, *world.config, "--yes")


def _of_one(command: str) -> Callable[[World, random.Random], Words | None]:
    def found(world: World, draw: random.Random) -> Words | None:
        names = partitions(world)
        if command == "undo":
            names += [one for one, _ in _deleted(world)]
        if not names:
            return None
        more: Words = ("--to", world.other) if command == "move" else ()
        return (command, world.first, draw.choice(names), *more, *world.config, "--yes")

    return found


def _deleted(world: World) -> list[tuple[str, str]]:
    names = [one.name for one in sorted(world.first.iterdir()) if one.name.endswith("-delete")]
    return [(one.rpartition(".")[0], one) for one in names if "." in one and len(one) < 255]


def _whole(*command: str) -> Callable[[World, random.Random], Words]:
    return lambda world, _: (command[0], world.first, *world.config, *command[1:], "--yes")


COMMANDS: Final[dict[str, Callable[[World, random.Random], Words | None]]] = {
    "erase now": lambda world, draw: erase(world, draw, at_once=True),
    "erase": lambda world, draw: erase(world, draw, at_once=False),
    "clean": _whole("clean", "--config", "min.cleanable.dirty.ratio=0"),
    "roll": _whole("roll"),
    "purge": _whole("purge"),
    "recover": _whole("recover"),
    "move": _of_one("move"),
    "delete": _of_one("delete"),
    "undo": _of_one("undo"),
}
_WEIGHTS: Final = {
    "erase now": 7,
    "erase": 4,
    "clean": 3,
    "roll": 1,
    "purge": 2,
    "recover": 1,
    "move": 3,
    "delete": 2,
    "undo": 2,
    "copy": 2,
    "tables": 3,
    "kill erase now": 3,
    "kill erase": 1,
    "kill move": 2,
    "kill clean": 1,
    "kill delete": 1,
    "kill purge": 1,
    "kill undo": 1,
    "upload": 1,
    "upload machine": 2,
    "erase bucket": 2,
}
_ON_COPIES: Final = ("upload", "upload machine", "erase bucket")
AGREEMENT: Final = (
    b'{"format":1,"deadlineMs":7200000,"ageMs":604800000,"keptVersions":1,"raced":20}\n'
)
"""What writers of a bucket agree on, of one that was tried."""


def draw_acts(draw: random.Random, *, with_tables: bool, with_bucket: bool) -> tuple[Piece, ...]:
    """Some acts; tables are made first and updated last."""
    weights = {
        name: weight for name, weight in _WEIGHTS.items() if with_bucket or name not in _ON_COPIES
    }
    names = draw.choices(list(weights), list(weights.values()), k=draw.choice((0, 0, 1, 1, 2, 3)))
    if with_bucket and draw.random() < 0.6:
        between = draw.choice(([], ["clean"], ["upload"], ["erase now"]))
        names = [*names, "erase bucket", *between, "upload machine"]
    if with_tables:
        if draw.random() < 0.8:
            between = draw.choice((["move"], ["copy"], [], names))
            names = ["erase now", *between]
        names = ["tables", *names, "tables"]
    return tuple(Piece(name, draw.randrange(10**6)) for name in names)


def perform(world: World, act: Piece) -> None:
    """Carry out one act; a refusal is one of its ends. Effects: changes the world."""
    draw = act.draw()
    if act.kind == "copy":
        _copy(world)
        return
    if act.kind in _ON_COPIES:
        _on_copies(world, act)
        return
    if act.kind == "tables":
        for table in world.tables:
            world.done.append((f"latest {table.form}", update(world, table)))
        return
    given = COMMANDS[act.kind.removeprefix("kill ")](world, draw)
    if given is None:
        return
    _put_on_record(world, act.kind.removeprefix("kill "), given)
    end: int | str
    if act.kind.startswith("kill "):
        fault = Fault("kill", draw.randint(1, 12))
        try:
            with interrupted(fault, world.root):
                end = run(world, *given).status
        except Crash:
            end = "dead"
    else:
        before = _persons(world) if act.kind == "erase now" else set()
        end = run(world, *given).status
        if act.kind == "erase now" and end == 0:
            world.erased |= before - _persons(world)
    world.done.append((act.kind, end))
    world.note(f"act {act.kind} {short([str(one) for one in given[2:3]])}: {end}")


def _put_on_record(world: World, command: str, given: Words) -> None:
    """Note what an act may leave on record."""
    if command == "delete":
        topic = str(given[2]).rpartition("-")[0]
        world.deleted_tiers |= {topic} & begin_elsewhere(world.first)
    if command in ("erase", "erase now"):
        chosen = (world.root / "erase" / "keys").read_bytes().splitlines()
        files = [one for one in search_logs(world.first) if one.topic is not None]
        world.on_record |= {
            (str(file.topic), key) for file in files for key in chosen if file.has_key(key)
        }


def _persons(world: World) -> set[tuple[str, bytes]]:
    """The persons in the live logs, by topic."""
    persons = set()
    for file in search_logs(world.first):
        if file.topic is not None and is_live(file.path.split("/")[0]):
            persons |= {(file.topic, key) for key in PERSONS if file.has_key(key)}
    return persons


def upload(world: World, log_dir: Path) -> int:
    """Upload the logs of a directory to the bucket; the exit status. Effects: writes there."""
    world.bucket.mkdir(exist_ok=True)
    agreement = world.bucket / "format.json"
    if not agreement.exists():
        agreement.write_bytes(AGREEMENT)
    answer = run(world, "upload", log_dir, "--to", f"file://{world.bucket}", *world.config)
    return answer.status


def _on_copies(world: World, act: Piece) -> None:
    """An upload from this machine or from another one, or an erasure of what is in the bucket."""
    if act.kind == "upload machine":
        status = upload(world, world.machine)
    elif act.kind == "upload":
        status = upload(world, world.first)
    elif not world.bucket.exists():
        return
    else:
        status = _erase_in_bucket(world, act.draw())
    world.done.append((act.kind, status))
    world.note(f"act {act.kind}: {status}")


def _erase_in_bucket(world: World, draw: random.Random) -> int:
    words_of = list(erase(world, draw, at_once=True))
    words_of[1] = f"file://{world.bucket}"
    persons = (world.root / "erase" / "keys").read_bytes().splitlines()
    answer = run(world, *words_of)
    if answer.status == 0:
        for key in persons:
            for topic in (CUSTOMERS, ORDERS):
                world.erased_in_bucket[topic, key] = objects_with(world, topic, key)
    return answer.status


def objects_with(world: World, topic: str, key: bytes) -> set[str]:
    """The objects of logs in the bucket that have a person, by all bytes."""
    return {
        file.path
        for file in search_bucket(world.bucket)
        if file.topic == topic and "/data/" in file.path and file.has_key(key)
    }


def _copy(world: World) -> None:
    """Copy the first directory without logwright's files; the copy takes its place."""
    target = world.root / f"copy{len(world.done)}"
    shutil.copytree(world.first, target, symlinks=True, ignore=left_out)
    world.live[0] = target
    world.done.append(("copy", 0))
    world.note("act copy without .logwright")


def left_out(directory: str, names: list[str]) -> list[str]:
    """What a copy of files leaves out: logwright's directories, and sockets."""
    paths = [Path(directory, one) for one in names]
    return [one.name for one in paths if one.name == ".logwright" or one.is_socket()]


def update(world: World, table: Table) -> int | str:
    """Make or update a table, from the directory that has its topic; 'in part' if another one has
    partitions of it, too, or if it says that it has some whose log is not there: their rows stay.
    Effects: writes it.
    """
    policies = table.path.with_suffix(".policies")
    policies.mkdir(exist_ok=True)
    (policies / "p.yml").write_text(
        _POLICY.format(
            topic=table.topic, form=table.form, path=table.path, keep=table.keep_versions_ms
        )
    )
    formats = ("--format", table.form, "--key", "string", "--value", "string")
    here = any(one.startswith(f"{table.topic}-") for one in partitions(world))
    source = world.first if here else world.other
    given = ("latest", source, table.topic, "--to", table.path, *formats)
    more = ("--policies", policies, "--high-watermark", "end", *world.config)
    answer = run(world, *given, *more)
    status = answer.status
    world.note(f"act latest {table.form}: {status}")
    moved = here and any(world.other.glob(f"{table.topic}-[0-9]*"))
    moved = moved or "so its rows stay as they were" in answer.err
    return "in part" if moved and status == 0 else status
