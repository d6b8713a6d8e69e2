"""What `logwright erase` says that it leaves, against a plain search of all bytes: random logs with
files of others next to them, random keys files.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.e2e.command import Answer, call
from tests.erasing import bytes_anywhere
from tests.log_builder import START_MS, LogBuilder

WORLDS: Final = 30
NIGHTLY: Final = 2000
NOW: Final = START_MS + 10_000
ID: Final = "0123456789abcdef0123456789abcdef"
TOPICS: Final = ("customers", "orders")
PEOPLE: Final = ("the-first-person", "the-second-person", "the-third-person")
PLACES: Final = (
    "{log}/00000000000000000007.log.bak",
    "{log}/old.log",
    "{log}/notes.txt",
    "{log}/backup/00000000000000000000.log",
    "{log}/.logwright/cut/1-0/00000000000000000009.log.from-9",
    "backup/00000000000000000000.log",
    "backup/deep/deeper/00000000000000000000.log.deleted",
    "backup.tar",
    "core.1",
    ".logwright-write-abc",
    f"{'long' * 53}lon.{ID}-delete/00000000000000000000.log",
    f"{{topic}}-7.{ID}-delete/00000000000000000000.log",
    f"{{topic}}-8.{ID}-stray/00000000000000000000.log",
    "link",
    "{log}/00000000000000000000.log.gz",
)
"""Where files of others are, and what an interrupted process or a broker has left."""
WRITINGS: Final[dict[str, Callable[[str], bytes]]] = {
    "text": lambda key: f"{key}\n".encode(),
    "crlf": lambda key: f"{key}\r\n".encode(),
    "mark": lambda key: f"\ufeff{key}\n".encode(),
    "utf-16": lambda key: f"{key}\n".encode("utf-16"),
    "utf-16-le": lambda key: f"{key}\n".encode("utf-16-le"),
    "blank": lambda key: f"{key}\n\n".encode(),
    "quoted": lambda key: f'"{key}"\n'.encode(),
    "spaced": lambda key: f"{key} \n".encode(),
}
"""The same key as different programs write it."""
REFUSED: Final = ("mark", "utf-16", "utf-16-le", "blank")
OTHER_KEYS: Final = ("quoted", "spaced")


def world(log_dir: Path, draw: random.Random) -> None:
    """Two logs, and some files of others that may have a person."""
    copies = []
    for topic in TOPICS:
        log = LogBuilder(log_dir, f"{topic}-0")
        offset = 0
        for _ in range(draw.randrange(1, 4)):
            segment = log.segment(offset)
            for _ in range(draw.randrange(1, 3)):
                keys = [draw.choice((*PEOPLE, "a", "b")) for _ in range(draw.randrange(1, 4))]
                segment.batch(offset, [(key, "v") for key in keys])
                offset += len(keys)
        log.write()
        copies += sorted(log.directory.glob("*.log"))
    for place in draw.sample(PLACES, draw.randrange(4)):
        topic = draw.choice(TOPICS)
        path = log_dir / place.format(topic=topic, log=f"{topic}-0")
        path.parent.mkdir(parents=True, exist_ok=True)
        source = draw.choice(copies)
        if place == "link":
            path.symlink_to(source)
        else:
            shutil.copy(source, path)
            if draw.random() < 0.2:
                path.write_bytes(path.read_bytes()[:-5])


def named(answer: Answer) -> set[str]:
    """The files that are said to have records, or not to be searched."""
    return {
        str(line[name]) for line in answer.lines for name in ("left", "notSearched") if name in line
    }


def judge(tmp_path: Path, seed: int) -> str:
    """Erase in a random world; return which status it ended with."""
    draw = random.Random(seed)
    log_dir = tmp_path / "logs"
    world(log_dir, draw)
    key, form = draw.choice(PEOPLE), draw.choice([*WRITINGS, "text", "text", "text"])
    (tmp_path / "keys").write_bytes(WRITINGS[form](key))
    mode = draw.choice(((), ("--now-and-for-good",)))
    done = call(
        *("erase", log_dir, "--keys", tmp_path / "keys", "--now", NOW, "--yes"),
        *("--config", "cleanup.policy=compact", "--output", "json", *mode),
    )
    assert key not in done.out + done.err, seed
    if form in REFUSED:
        assert 2 == done.status, (seed, form)
        assert "line " in done.err
        return "refused"
    if form in OTHER_KEYS:
        assert "taken for part of the key: line 1" in done.err, (seed, form)
        return "another key"
    holding = {path for path in bytes_anywhere(log_dir, key.encode()) if path != "link"}
    if done.status in {8, 9}:
        assert holding <= named(done), (seed, holding - named(done))
    if done.status == 8:
        assert holding, seed
    if done.status == 9:
        assert any("notSearched" in one for one in done.lines), seed
    if done.status == 0:
        assert not holding, (seed, holding)
        assert not named(done), seed
    return f"{done.status}"


def judged(tmp_path: Path, seeds: range) -> set[str]:
    kinds = set()
    for seed in seeds:
        place = tmp_path / str(seed)
        place.mkdir()
        kinds.add(judge(place, seed))
        shutil.rmtree(place)
    return kinds


def test_what_is_left_is_named_and_the_status_says_so(tmp_path: Path, seed: int) -> None:
    """Every file with the person's bytes is named, and 0 means that there is none."""
    kinds = judged(tmp_path, range(seed * NIGHTLY, seed * NIGHTLY + WORLDS))
    assert len(kinds) > 1


@pytest.mark.nightly
def test_many_worlds(tmp_path: Path, seed: int) -> None:
    """The same, in many."""
    kinds = judged(tmp_path, range(seed * NIGHTLY, seed * NIGHTLY + NIGHTLY))
    assert {"0", "8", "9", "refused", "another key"} == kinds - {"5", "3"}
