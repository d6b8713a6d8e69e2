"""What brokers do in sequences: Kafka's own code loads the directory, or one is killed."""

from __future__ import annotations

import base64
import shutil
from collections.abc import Iterable
from typing import Any

from tests.sequences.content import (
    Content,
    Row,
    appended,
)
from tests.sequences.step import Step, pick, unchanged
from tests.sequences.world import (
    APPENDED,
    BOTH,
    BOTH_PAIRS,
    COMPACTED,
    MARKER,
    RETAINED,
    RETAINED_PAIRS,
    TAKEN_IN,
    Difference,
    World,
    repair,
)


def broker(world: World, choice: int) -> Step:
    """Kafka loads the directory as it is, appends a record to some log, and stops cleanly."""
    name = pick(world, choice, (COMPACTED, TAKEN_IN, RETAINED, BOTH))
    log = world.logs[name]
    rows: list[Row] = []

    def run() -> None:
        assert world.kafka is not None
        if world.moving is not None or any((world.root / "b").glob("*/*.log")):
            return
        if log.content is not None and name not in world.maybe and choice % 3:
            row = Row(log.content.end, b"a", b"broker", world.now, ((b"h", b"2"),))
            rows[:] = [row]
        answer = world.kafka.ask(
            {
                "request": "directory",
                "logDir": str(world.first),
                "now": world.now,
                "config": {
                    "t": APPENDED,
                    "u": APPENDED,
                    "a": APPENDED,
                    "d": RETAINED_PAIRS,
                    "e": BOTH_PAIRS,
                },
                "append": {name: [_as_json(row) for row in rows]} if rows else {},
            }
        )
        if "loadFailed" in answer:
            raise Difference(f"Kafka does not load it: {answer['loadFailed']}")
        world.seen = {one: _from_json(seen) for one, seen in answer["logs"].items()}

    def done() -> Iterable[Content | None]:
        known = world.maybe.get(name, (log.content,))
        return [one if one is None else appended(one, rows) for one in known]

    return Step(name, run, done, unclean=True, again=True)


def _as_json(row: Row) -> dict[str, object]:
    return {
        "key": _text(row.key),
        "value": _text(row.value),
        "timestamp": row.timestamp_ms,
        "headers": [[key.decode(), _text(value)] for key, value in row.headers],
    }


def _from_json(seen: dict[str, Any]) -> Content:
    """What Kafka's consumers got of a log."""
    rows = tuple(
        Row(
            offset=row["offset"],
            key=_bytes(row["key"]),
            value=_bytes(row["value"]),
            timestamp_ms=row["timestamp"],
            headers=tuple((key.encode(), _bytes(value)) for key, value in row["headers"]),
            outcome="committed" if row["committed"] else "aborted",
        )
        for row in seen["rows"]
    )
    producers = tuple(sorted((int(one), last) for one, last in seen["producers"].items()))
    return Content(rows=rows, start=seen["start"], end=seen["end"], producers=producers)


def _text(content: bytes | None) -> str | None:
    return None if content is None else base64.b64encode(content).decode()


def _bytes(content: str | None) -> bytes | None:
    return None if content is None else base64.b64decode(content)


def broker_crash(world: World, choice: int) -> Step:
    """A broker ran and was killed: whole and torn batches after the log's end, checkpoints written
    again, no marker. Also a broker that deletes a topic before that.
    """
    name = pick(world, choice, (COMPACTED, TAKEN_IN, RETAINED, BOTH))
    log = world.logs[name]
    deleted = choice % 4 == 0 and world.logs[TAKEN_IN].where == log.where and name != TAKEN_IN

    def run() -> None:
        repair(world)
        if deleted:
            shutil.rmtree(log.where / TAKEN_IN, ignore_errors=True)
            gone = world.logs[TAKEN_IN]
            gone.content = gone.taking = None
            gone.before.clear()
            world.maybe[TAKEN_IN] = (None,)
        (log.where / MARKER).unlink(missing_ok=True)
        for file in ("recovery-point", "replication"):
            path = log.where / f"{file}-offset-checkpoint"
            if path.exists():
                fresh = path.with_suffix(".tmp")
                fresh.write_bytes(path.read_bytes())
                fresh.rename(path)
        logs = sorted((log.where / name).glob("*.log"))
        if logs:
            with logs[-1].open("ab") as file:
                file.write(b"torn" if choice % 3 else bytes(20))

    return Step(name, run, unchanged(world, name))
