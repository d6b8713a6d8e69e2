"""Records taken in, in sequences: files of rows, and copies of another broker's topic."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from logwright.ingest.commit import commit_append, stage_append
from logwright.ingest.model import AppendOptions, AppendPlan
from tests import ingested
from tests.ingested import arrow, planned
from tests.sequences.content import (
    Content,
    Row,
    appended,
)
from tests.sequences.step import Step
from tests.sequences.world import (
    APPENDED,
    COMPACTED,
    COPIED,
    TAKEN_IN,
    Log,
    Taking,
    World,
    parsed,
)

BATCH_BYTES: Final = 130


def _end(content: Content | None) -> int:
    return 0 if content is None else content.end


def _rows(world: World, log: Log, choice: int, name: str) -> tuple[Row, ...]:
    rnd = random.Random(choice)
    first = offset = _end(log.content)
    rows = []
    for number in range(rnd.randint(1, 7)):
        rows.append(
            Row(
                offset=offset,
                key=rnd.choice("abcdefg").encode(),
                value=None if rnd.random() < 0.2 else f"{name}{first}.{number}".encode(),
                timestamp_ms=world.now + number,
                headers=((b"h", b"1"),) if rnd.random() < 0.2 else (),
            )
        )
        offset += rnd.choice((1, 1, 4)) if name == COPIED else 1
    return tuple(rows)


def ingest(world: World, choice: int) -> Step:
    """Append rows, each input once: one that was interrupted is continued."""
    return _take(world, choice, (TAKEN_IN, COMPACTED)[choice % 2])


def archive(world: World, choice: int) -> Step:
    """Append records of another broker, offsets as they are."""
    return _take(world, choice, COPIED)


def _take(world: World, choice: int, name: str) -> Step:
    log = world.logs[name]
    kept = name == COPIED

    def run() -> None:
        if log.taking is None:
            log.number += 1
            identity = "copy" if kept else f"{name}-{log.number}"
            log.taking = Taking(identity, _rows(world, log, choice, name), _end(log.content))
        taking = log.taking
        log.is_another |= log.content is None
        options = AppendOptions(batch_bytes=BATCH_BYTES, keep_offsets=kept)
        plan = planned(
            log.where,
            APPENDED,
            now_ms=world.now,
            ingest_id=taking.identity,
            options=options,
            partition=parsed(name),
        )
        if not isinstance(plan, AppendPlan):
            return
        rows = [row for row in taking.rows if not kept or row.offset >= plan.log_end_offset]
        records = arrow(
            [_as_taken(row) for row in rows], [row.offset for row in rows] if kept else None
        )
        commit_append(plan, stage_append(plan, [records]))

    def some(count: int) -> Content:
        """With this many of its rows."""
        taking = log.taking
        assert taking is not None
        if kept:
            more = taking.rows[taking.present : count]
        else:
            at = _end(log.content) - taking.present
            more = tuple(
                replace(row, offset=at + number)
                for number, row in enumerate(taking.rows)
                if taking.present <= number < count
            )
        return appended(log.content or Content(), more)

    def done() -> Iterable[Content | None]:
        return () if log.taking is None else (some(len(log.taking.rows)),)

    def halfway() -> Iterator[Content | None]:
        if log.taking is not None:
            counts = range(log.taking.present, len(log.taking.rows) + 1)
            yield from (some(count) for count in counts)
            if log.content is None:
                yield Content()

    return Step(name, run, done, halfway, again=True, unclean=True)


def _as_taken(row: Row) -> ingested.Row:
    headers = [(key.decode(), value) for key, value in row.headers]
    return row.key, row.value, headers, row.timestamp_ms
