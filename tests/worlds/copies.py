"""Copies of a person's records outside of log directories: tables of other programs, a bucket, what
killed commands left. Each function makes one.
"""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Final

from tests.hidden_in_tables import HIDDEN
from tests.plants_in_tables import PERSONS as SOMEBODY
from tests.worlds.acts import upload
from tests.worlds.content import log_bytes, write
from tests.worlds.plain_search import below
from tests.worlds.requests import CUSTOMERS, ORDERS, PERSONS
from tests.worlds.world import Planted, World

_NAME: Final = "00000000000000000000"
_TEXTS: Final = tuple(hidden for hidden in HIDDEN if hidden.keys == SOMEBODY)


def hidden(world: World, draw: random.Random) -> None:
    """A table of another program, with a person in one of the places that it has."""
    place = draw.choice(_TEXTS)
    who = draw.choice((*PERSONS, b"eve@x.example"))
    path = world.root / f"foreign{len(world.planted)}"
    place.plant(path, who.decode())
    is_proved = place.says == "found" and place.name != "values"
    world.planted.append(Planted(path, who, is_found=place.says == "found", is_proved=is_proved))
    world.note(f"{path.name}: {place.kind}, {place.name}, {who.decode()}")


def bucket(world: World, draw: random.Random) -> None:
    """A copy of the logs in a bucket, with what an upload has left or has not sent yet."""
    if world.bucket.exists():
        return
    upload(world, world.first)
    world.archives.append(world.bucket)
    partition = draw.choice((f"{CUSTOMERS}-0", f"{ORDERS}-0"))
    for _ in range(draw.choice((0, 0, 1, 2))):
        name = draw.choice(
            (
                f"{partition}/data/{draw.randrange(10**6):06}-{_NAME}.log",
                f"{partition}/{_NAME}.log",
                f"backup/{_NAME}.log",
                f"{partition}/.logwright/{_NAME}.log",
                "export.txt",
                f"other/{partition}/{_NAME}.log",
            )
        )
        content = log_bytes(draw)
        if name.endswith(".txt"):
            content = draw.choice((*PERSONS, b"nobody"))
        write(world.bucket / name, content)
        world.note(f"bucket: {name}, {len(content)} bytes")
    world.note(f"bucket: {sum(1 for _ in below(world.bucket))} objects")


def left(world: World, draw: random.Random) -> None:
    """What a killed command has left among the temporary files, or elsewhere with a note there."""
    own = world.temporary / f"logwright-{os.geteuid()}"
    own.mkdir(mode=0o700, exist_ok=True)
    name = f"logwright-copy-{draw.randrange(16**16):016x}"
    where = draw.choice((own, own, world.root / "scratch"))
    where.mkdir(mode=0o700, exist_ok=True)
    write(where / name / f"{CUSTOMERS}-0" / f"{_NAME}.log", log_bytes(draw, share=1.0))
    (where / f"{name}.lock").touch()
    if where != own:
        note = f"logwright-copy-{draw.randrange(16**16):016x}"
        write(own / note / "elsewhere", f"{where / name}\n".encode())
        (own / f"{note}.lock").touch()
    world.note(f"left in {where.name}")


def left_copies(world: World) -> list[Path]:
    """The files of killed commands that are still there."""
    places = [one for one in (world.temporary, world.root / "scratch") if one.exists()]
    return [path for place in places for path in below(place) if path.suffix == ".log"]
