"""What the product claims of a world: its commands in this process, and the countdown."""

from __future__ import annotations

import json
import shutil
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from logwright.errors import LogwrightError
from tests.e2e.command import Answer, call
from tests.worlds.countdowns import count
from tests.worlds.requests import BY_FILE, Asking, pattern_words, words
from tests.worlds.world import NOW_MS, World, temporary_files

_KEY: Final = "sign.pem"


@dataclass(frozen=True, slots=True)
class Claimed:
    """What one command said.

    Attributes:
        status: None: it ended in a bug.
        states: of requests, by HMAC and topics; of a countdown by topic.
        warned: whether it said something of the keys or topics that it was given.
    """

    command: str
    status: int | None
    states: dict[tuple[str, str], str] = field(default_factory=dict)
    said: str = ""
    gone: int = 0


def signing_key(root: Path) -> Path:
    """The key that signs, made once for many worlds. Effects: makes it."""
    path = root / _KEY
    if not path.exists():
        call("certificate", "--new-key", path)
    return path


def claims(world: World, keys: Path) -> list[Claimed]:
    """Ask everything but the erasure. Effects: reads; writes below the root of the world."""
    asking = world.plan.asking
    given = [*given_words(world, asking), *pattern_words(asking, world.root)]
    claimed = [
        _guarded(world, "find", lambda: _find(world, given)),
        _guarded(world, "certificate", lambda: _certificate(world, given, keys)),
    ]
    if asking.way in ("landing", "store"):
        claimed.append(_guarded(world, "countdown", lambda: _countdown(world)))
    return claimed


def given_words(world: World, asking: Asking) -> list[str]:
    """The options that name the keys; of a store, which is made. Effects: writes files."""
    given = words(asking, world.root)
    if asking.way == "store":
        store_requests(world.root)
        given = [*given[:-1], str(world.root / "store")]
    return given


def store_requests(root: Path) -> None:
    """Store the requests of the landing directory. Effects: replaces the store."""
    from logwright.erasure.landing import read_landing  # noqa: PLC0415 -- names of today
    from logwright.erasure.secret import load_secret  # noqa: PLC0415
    from logwright.erasure.store import write_store  # noqa: PLC0415

    secret = load_secret(root / "secret", None)
    shutil.rmtree(root / "store", ignore_errors=True)
    landed = read_landing(root / "requests", secret)
    write_store(root / "store", landed.requests, secret)


def _places(world: World) -> list[str]:
    archives = [word for one in _archives(world) for word in ("--archive", one)]
    tables = [word for one in _tables(world) for word in ("--table", str(one))]
    return [*map(str, world.live), *archives, *tables, *world.config, "--now", str(NOW_MS)]


def _tables(world: World) -> list[Path]:
    own = [one.path for one in world.tables if one.is_given and one.path.exists()]
    return [*own, *(one.path for one in world.planted)]


def _archives(world: World) -> list[str]:
    return [f"file://{one}" if one == world.bucket else str(one) for one in world.archives]


def _deadline(world: World) -> list[str]:
    deadline_ms = world.plan.asking.requests[0].deadline_ms
    by_option = world.plan.asking.way in BY_FILE
    return ["--deadline", str(deadline_ms)] if deadline_ms is not None and by_option else []


def _find(world: World, given: list[str]) -> Claimed:
    answer = call("find", *_places(world), *given)
    return Claimed("find", answer.status, said=answer.out + answer.err)


def _certificate(world: World, given: list[str], keys: Path) -> Claimed:
    out = world.root / "certificate.json"
    signing = ("--signing-key", keys, "--out", out)
    answer = call("certificate", *_places(world), *given, *signing, *_deadline(world))
    if not out.exists():
        return Claimed("certificate", answer.status, said=answer.out + answer.err)
    made: dict[str, Any] = json.loads(out.read_text())["certificate"]
    states = {(one["hmac"], one["topics"]): one["state"] for one in made["requests"]}
    output = answer.out + answer.err + json.dumps(made)
    given_dirs = [*world.live, *_archives(world), *_tables(world)]
    checked = call("verify-certificate", out, "--public-key", f"{keys}.pub", *given_dirs)
    if checked.status != 0:
        output = f"verify-certificate {checked.status}\n{output}"
    return Claimed("certificate", answer.status, states, output)


def _countdown(world: World) -> Claimed:
    store_requests(world.root)
    try:
        countdown = count(world)
    except LogwrightError as error:
        return Claimed("countdown", error.exit_status, said=str(error))
    states = {("", one.topic): str(one.state) for one in countdown.topics}
    return Claimed("countdown", 0, states, gone=countdown.gone)


def erasure(world: World) -> Claimed:
    """Erase what is asked, at once, or in one of four worlds by the rules. Effects: changes the
    first log directory.
    """
    given = given_words(world, world.plan.asking)
    at_once = () if world.plan.seed % 4 == 0 else ("--now-and-for-good",)
    mode = (*at_once, "--yes", *world.config, "--now", NOW_MS)

    def run() -> Claimed:
        answer: Answer = call("erase", world.first, *given, *mode)
        return Claimed("erase", answer.status, said=answer.out + answer.err)

    return _guarded(world, "erase", run)


def _guarded(world: World, command: str, run: Callable[[], Claimed]) -> Claimed:
    """What a command claims; None as its status if it ends in a bug, with where."""
    try:
        with temporary_files(world):
            return run()
    except Exception:  # noqa: BLE001 -- whatever it is, it is a fault
        return Claimed(command, None, said="".join(traceback.format_exc().splitlines(True)[-4:]))
