"""What happens to a log with a tier: what brokers do, accidents, and logwright's own commands on
the log directory.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Final

from logwright.format.batch import parse_batch, walk_batches
from logwright.format.checkpoints import find_offset
from logwright.tier.metadata import COPY_FINISHED, COPY_STARTED, DELETE_FINISHED, DELETE_STARTED
from tests.bucket_maintenance.copies import T0, called
from tests.log_builder import START_MS
from tests.tier_sequences.world import KEYS, LOG, Remote, World
from tests.tiers import drop_local

_HEADER: Final = 61
"""Bytes of a batch before its records."""
_NOW: Final = ("--now", START_MS + 1_000)
_LATER: Final = START_MS + 10_000_000


class Wrong(AssertionError):
    """Something is not what the model says."""


def append(world: World, draw: random.Random) -> bool:
    """A segment is written, after the active one was rolled."""
    del draw
    if world.seen + 1 >= len(world.edges):
        return False
    world.show([world.seen])
    return True


def copy(world: World, draw: random.Random) -> bool:
    """The broker copies its oldest sealed segment that it did not copy; perhaps not to the end."""
    mine = {remote.base for remote in (*world.remote, *world.gone) if remote.is_own}
    sealed = sorted(world.local)[:-1]
    waiting = [base for base in sealed if base not in mine]
    if not waiting:
        return False
    base = waiting[0]
    following = min(other for other in world.local if other > base)
    world.copy(world.logs, base, following, world.local[base])
    if world.has_events and draw.random() < 0.2:
        world.remote[-1].state = COPY_STARTED
    return True


def copy_of_another(world: World, draw: random.Random) -> bool:
    """The leader before copied a segment of its own, with other edges."""
    sealed_end = max(world.local)
    copied = {remote.base for remote in (*world.remote, *world.gone) if not remote.is_own}
    spans = [
        (base, end)
        for base, end in zip(world.other, world.other[1:], strict=False)
        if world.start < end <= sealed_end and base not in copied
    ]
    if world.is_erased or not spans:
        return False
    base, end = draw.choice(spans)
    rows = {offset: world.rows[offset] for offset in range(base, end) if offset in world.rows}
    world.copy(world.root / "other", base, end, rows)
    world.remote[-1].is_own = False
    return True


def finish(world: World, draw: random.Random) -> bool:
    """The end of a copy, or of a deletion, becomes known."""
    waiting = [remote for remote in world.remote if remote.state in {COPY_STARTED, DELETE_STARTED}]
    if not waiting:
        return False
    remote = draw.choice(waiting)
    if remote.state == COPY_STARTED:
        remote.state = COPY_FINISHED
    else:
        _remove(world, remote)
    return True


def drop(world: World, draw: random.Random) -> bool:
    """Local retention: the first segments go, which the tier has."""
    bases = sorted(world.local)[:-1]
    count = draw.randrange(1, 4)
    gone = []
    for base in bases[:count]:
        following = min(other for other in world.local if other > base)
        there = set(range(max(base, world.start), following))
        if there.difference(*(range(remote.base, remote.end) for remote in world.readable)):
            break
        gone.append(base)
    drop_local(world.logs, LOG, gone)
    for base in gone:
        del world.local[base]
    return bool(gone)


def delete_records(world: World, draw: random.Random) -> bool:
    """A client moves the log start offset; whole segments below it are deleted later."""
    if world.start + 1 >= max(world.local):
        return False
    world.start = draw.randrange(world.start + 1, min(world.start + 30, max(world.local)) + 1)
    for base in sorted(world.local)[:-1]:
        following = min(other for other in world.local if other > base)
        if following <= world.start:
            drop_local(world.logs, LOG, [base])
            del world.local[base]
    return True


def retain_remote(world: World, draw: random.Random) -> bool:
    """Remote retention: the first remote segment goes, and the log starts after it."""
    whole = [remote for remote in world.remote if remote.end <= world.first and not remote.damage]
    if not whole:
        return False
    remote = min(whole, key=lambda each: (each.base, each.end))
    world.start = max(world.start, remote.end)
    for each in [each for each in world.remote if each.end <= world.start]:
        if world.has_events and draw.random() < 0.4:
            each.state = DELETE_STARTED
        else:
            _remove(world, each)
    return True


def _remove(world: World, remote: Remote) -> None:
    for path in remote.objects:
        path.unlink()
    world.remote.remove(remote)
    remote.state = DELETE_FINISHED
    world.gone.append(remote)


def damage(world: World, draw: random.Random) -> bool:
    """An accident to the objects of a segment."""
    whole = [remote for remote in world.remote if not remote.damage]
    if not whole:
        return False
    remote = draw.choice(whole)
    remote.kept = {path: path.read_bytes() for path in remote.objects}
    content = remote.kept[remote.log]
    remote.damage = draw.choice(("lost", "unfinished", "cut", "flipped"))
    if remote.damage == "lost":
        for path in remote.objects:
            path.unlink()
    elif remote.damage == "unfinished":
        remote.log.with_suffix(".index").unlink()
    elif remote.damage == "cut":
        cut = content[: draw.randrange(len(content))]
        remote.log.write_bytes(cut)
        remote.left = remote.base
        for span in walk_batches(cut):
            remote.left = parse_batch(cut, span.position).last_offset + 1
    else:
        at = draw.randrange(_HEADER, _HEADER + 3)
        remote.log.write_bytes(content[:at] + bytes([content[at] ^ 0x55]) + content[at + 1 :])
    return True


def restore(world: World, draw: random.Random) -> bool:
    """The objects are restored."""
    damaged = [remote for remote in world.remote if remote.damage]
    if not damaged:
        return False
    remote = draw.choice(damaged)
    for path, content in remote.kept.items():
        path.write_bytes(content)
    remote.damage = ""
    return True


def _files(world: World) -> dict[str, bytes]:
    paths = filter(Path.is_file, (world.logs / LOG).rglob("*"))
    return {str(path): path.read_bytes() for path in paths}


def _command(world: World, *words: str | int) -> bool:
    """Call a command; whether it did something. A refusal changes nothing.

    Raises:
        Wrong: it changed something, and did not end well.
    """
    before = _files(world)
    result = called(words[0], world.logs, *words[1:], *_NOW, "--yes")
    if result.exit_code not in {0, 9} and before != _files(world):
        raise Wrong(f"{words[0]} ended with {result.exit_code}: {result.output}")
    is_done = before != _files(world)
    if is_done:
        purged = called("purge", world.logs, "--now", _LATER, "--yes")
        if purged.exit_code:
            raise Wrong(f"purge: {purged.output}")
    return is_done


def roll(world: World, draw: random.Random) -> bool:
    """``logwright roll``: the active segment is sealed."""
    del draw
    if not _command(world, "roll", LOG, "--force", "--config", "cleanup.policy=delete"):
        return False
    world.local[world.end] = {}
    return True


def retain(world: World, draw: random.Random) -> bool:
    """``logwright retain``: what is local and old goes, and the log starts after it."""
    keep = draw.choice((0, 500, 1500))
    words = ("--config", "cleanup.policy=delete", "--config", f"retention.bytes={keep}")
    if not _command(world, "retain", LOG, *words):
        return False
    bases = {int(path.stem) for path in (world.logs / LOG).glob("*.log")}
    if not bases <= {*world.local, world.end}:
        raise Wrong(f"retain: segments {sorted(bases)}")
    world.local = {base: world.local.get(base, {}) for base in sorted(bases)}
    content = (world.logs / "log-start-offset-checkpoint").read_bytes()
    start = find_offset(content, T0)
    if start is None:  # then a broker begins with the first segment that it has, here or there
        start = min([world.first, *(remote.base for remote in world.readable)])
    elif start < world.start:
        raise Wrong(f"retain: start {start} after {world.start}")
    world.start = start
    return True


def erase(world: World, draw: random.Random) -> bool:
    """``logwright erase`` takes a key from the log directory; the tier has it still."""
    key = draw.choice(KEYS)
    (world.root / "keys").write_text(f"{key}\n")
    words = ("--keys", str(world.root / "keys"), "--now-and-for-good")
    if not _command(world, "erase", *words):
        return False
    world.is_erased = True
    for rows in world.local.values():
        for offset in [offset for offset, row in rows.items() if row.key == key]:
            del rows[offset]
    return True


STEPS: Final[dict[Callable[[World, random.Random], bool], int]] = {
    append: 5,
    copy: 9,
    copy_of_another: 4,
    finish: 3,
    drop: 6,
    delete_records: 2,
    retain_remote: 2,
    damage: 4,
    restore: 5,
    roll: 1,
    retain: 1,
    erase: 1,
}
"""Step → how often it is drawn."""
