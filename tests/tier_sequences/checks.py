"""What logwright reads and claims of a log and its tier, held against the model."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable
from typing import Any, Final, TypeVar

from logwright.config.topic import CleanerConfig
from logwright.errors import LogwrightError
from logwright.latest.plan import plan_latest
from logwright.log.load import list_partitions, observe
from logwright.spark.kafka_log import KafkaLogReader
from logwright.spark.kafka_log_options import read_options
from logwright.spark.kafka_log_rows import SCHEMA
from tests.bucket_maintenance.copies import T0, called
from tests.latest_rows import read_state
from tests.tier_sequences.steps import Wrong
from tests.tier_sequences.world import KEYS, LOG, NOBODY, Row, World
from tests.tiers import rows_of

_NOTHING, _FOUND, _INCOMPLETE = 0, 8, 9
_PROVED: Final = {"gone", "not found"}
_T = TypeVar("_T")


def check(world: World, draw: random.Random) -> list[str]:
    """Compare everything; what was refused.

    Raises:
        Wrong: something is not what the model says.
    """
    must_refuse = bool(world.uncovered()) or (
        world.has_events
        and any(world.is_readable(remote) and remote.damage == "lost" for remote in world.remote)
    )
    refused = [
        name
        for name, read, expected in (
            ("rows", _rows, _plain(world.shown())),
            ("committed rows", _committed, _committed_of(world)),
            ("kafka-log", _kafka_log, _committed_of(world)),
            ("latest", _latest, _latest_of(world)),
        )
        if not _compared(world, name, read, expected, must_refuse=must_refuse)
    ]
    _alone(world)
    for key in (draw.choice(KEYS), NOBODY):
        _find(world, key)
        _certificate(world, key)
    return refused


def _compared(
    world: World, name: str, read: Callable[[World], _T], expected: _T, *, must_refuse: bool
) -> bool:
    """Compare what is read; return whether it could be."""
    try:
        seen = read(world)
    except LogwrightError as error:
        if not any(remote.damage for remote in world.remote) and not must_refuse:
            raise Wrong(f"{name}: {error}") from error
        return False
    if must_refuse:
        raise Wrong(f"{name}: nothing is refused, {sorted(world.uncovered())[:5]} are missing")
    if seen != expected:
        raise Wrong(f"{name}: {seen}, model: {expected}")
    return True


def _plain(rows: dict[int, Row]) -> list[tuple[int, str, bool]]:
    return [(offset, row.key, row.value is None) for offset, row in rows.items()]


def _committed_of(world: World) -> list[tuple[int, str, bool]]:
    return _plain(world.committed())


def _latest_of(world: World) -> list[tuple[int, str]]:
    newest: dict[str, tuple[int, str | None]] = {}
    for offset, row in world.committed().items():
        newest[row.key] = (offset, row.value)
    return sorted((offset, key) for key, (offset, value) in newest.items() if value is not None)


def _of_rows(rows: list[list[Any]]) -> list[tuple[int, str, bool]]:
    return [(row[0], base64.b64decode(row[2]).decode(), row[3] is None) for row in rows]


def _rows(world: World) -> list[tuple[int, str, bool]]:
    return _of_rows(rows_of(world.place, LOG))


def _committed(world: World) -> list[tuple[int, str, bool]]:
    return _of_rows(rows_of(world.place, LOG, "read_committed"))


def _kafka_log(world: World) -> list[tuple[int, str, bool]]:
    given = {"path": str(world.logs), "subscribe": T0.topic, "tier": str(world.tier)}
    reader = KafkaLogReader(read_options(given), SCHEMA)
    return [
        (row["offset"], row["key"].decode(), row["value"] is None)
        for task in reader.partitions()
        for batch in reader.read(task)
        for row in batch.to_pylist()
    ]


def _latest(world: World) -> list[tuple[int, str]]:
    log = observe(world.place, T0, high_watermark="end")
    plan = plan_latest(log, cleaner=CleanerConfig())
    return [(row[2], row[0].decode()) for row in read_state(plan)]


def _alone(world: World) -> None:
    """The tier without the log directory; without events, those segments count that are whole. Of
    segments that overlap one may have what was erased before the other was copied.
    """
    if not world.remote or any(remote.damage for remote in world.remote):
        return
    allowed = {offset for remote in world.remote for offset in remote.rows}
    erased = {
        offset
        for offset in allowed
        for remote in world.remote
        if remote.base <= offset < remote.end and offset not in remote.rows
    }
    offsets = {offset for remote in world.remote for offset in range(remote.base, remote.end)}
    has_gap = bool(offsets) and len(offsets) != max(offsets) - min(offsets) + 1
    try:
        seen = _of_rows(rows_of(world.alone, LOG)) if T0 in list_partitions(world.alone) else []
    except LogwrightError as error:
        if not has_gap and not world.is_erased:  # an erasure may have taken a segment's last batch
            raise Wrong(f"tier alone: {error}") from error
        return
    rows = [offset for offset, *_ in seen]
    if has_gap or rows != sorted(set(rows)) or not allowed - erased <= set(rows) <= allowed:
        raise Wrong(f"tier alone: {seen}, model: {sorted(allowed)}, erased: {sorted(erased)}")


def _unproved(world: World) -> bool:
    """Whether it is certain that something was not seen."""
    return bool(world.uncovered_by_all()) or any(
        remote.damage in {"flipped", "unfinished"}
        or (remote.damage == "lost" and world.has_events and world.is_readable(remote))
        for remote in world.remote
    )


def _incomplete(world: World) -> bool:
    """Whether anything is missing or damaged."""
    return bool(world.uncovered_by_all()) or any(remote.damage for remote in world.remote)


def _words(world: World, key: str) -> tuple[Any, ...]:
    secret = world.root / "secret"
    if not secret.exists():
        secret.write_text("s" * 64)
        secret.chmod(0o600)
    (world.root / "asked").write_text(f"{key}\n")
    given = ("--keys", world.root / "asked", "--secret", secret, "--topic", T0.topic)
    return (*given, "--output", "json")


def _find(world: World, key: str) -> None:
    """What it finds is what is there; that nothing was found is said if all was searched."""
    words = ("find", world.logs, *_words(world, key))
    result = called(*words, "--tier", world.tier)
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    seen = {
        (each["place"] == "remote segment", each["offset"]) for each in lines if "offset" in each
    }
    expected, damaged = world.holders(key), _incomplete(world)
    right = {_FOUND if expected else _NOTHING}
    if damaged:  # an object that was cut at a batch may have the record, or have lost it
        right = {_FOUND, _INCOMPLETE} if expected else {_NOTHING, _INCOMPLETE, _FOUND}
    if _unproved(world):
        right -= {_NOTHING}
    if result.exit_code not in right or (seen != expected and not damaged):
        raise Wrong(f"find {key}: {result.exit_code}, {seen}, model {expected}: {result.output}")
    is_known = world.start < world.first or (world.has_events and bool(world.remote))
    if is_known and called(*words).exit_code == _NOTHING:
        raise Wrong(f"find {key} without the tier says that all was searched")


def _certificate(world: World, key: str) -> None:
    """Gone, or never there, is said only of what was seen completely."""
    signing = world.root / "signing"
    if not signing.exists():
        called("certificate", "--new-key", signing)
    out = ("--signing-key", signing, "--out", world.root / "certificate.json")
    words = ("certificate", world.logs, *_words(world, key), *out)
    states = _states(words, ("--tier", world.tier))
    is_there, damaged = bool(world.holders(key)), _incomplete(world)
    if states & _PROVED and (is_there or _unproved(world)):
        raise Wrong(f"certificate of {key}: {states}, there: {is_there}")
    if not damaged and states != {"remains" if is_there else "not found"}:
        raise Wrong(f"certificate of {key}: {states}, there: {is_there}")
    is_known = world.start < world.first or (world.has_events and bool(world.remote))
    if is_known and _states(words, ()) & _PROVED:
        raise Wrong(f"a certificate of {key} without the tier")


def _states(words: tuple[Any, ...], more: tuple[Any, ...]) -> set[str]:
    result = called(*words, *more)
    lines = result.stdout.splitlines()
    if not lines or "requests" not in json.loads(lines[-1]):
        raise Wrong(f"no certificate: {result.exit_code} {result.output}")
    requests: dict[str, int] = json.loads(lines[-1])["requests"]
    return {state for state, count in requests.items() if count}
