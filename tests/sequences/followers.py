"""A follower truncates its log and fetches other records while it is read, or a broker that was
killed starts and makes the indexes again, in sequences: on a copy of the directory, in the order of
Kafka's own calls (UnifiedLog.truncateTo, LogSegment.truncateTo and recover, Kafka 4.4.0).
"""

from __future__ import annotations

import os
import random
import shutil
import struct
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

from logwright.errors import Unsettled
from logwright.format.batch import MAGIC, parse_batch, walk_batches
from logwright.format.legacy import NO_EPOCH
from logwright.format.names import HIGH_WATERMARK_CHECKPOINT
from logwright.log.load import observe
from logwright.reading import reading
from logwright.records.model import Isolation, ReadRequest
from logwright.records.plan import plan_records
from logwright.records.read import read_range
from logwright.running import place as places
from logwright.running import watermark
from logwright.running.place import RunningPlace, as_it_runs
from tests.log_builder import SegmentBuilder
from tests.running_dirs import record
from tests.sequences.content import Content
from tests.sequences.reading import old_records, read_content
from tests.sequences.running import Read, open_by_broker
from tests.sequences.step import Step, pick, unchanged
from tests.sequences.world import (
    BOTH,
    COMPACTED,
    MARKER,
    RETAINED,
    TAKEN_IN,
    Difference,
    World,
    parsed,
    repair,
)

PATIENCE_SECONDS = 0.06
"""For a checkpoint of the high watermarks that does not come while the follower stands still."""
TICK_SECONDS = 0.01
"""Files that are written so far apart have different times."""
STARTS = 0.4
"""Share of the readings in which a broker starts."""
HELD = 0.6
"""Share of those in which all is over between the look at the files and their bound."""
FETCHED, ROLLED = 5, 0.4
"""The most record batches that it fetches, and before how many of them it rolls."""
_LEVELS: tuple[Isolation, ...] = ("read_uncommitted", "read_committed")
_OFFSET_OF = {
    ".index": struct.Struct(">i4x"),
    ".timeindex": struct.Struct(">8xi"),
    ".txnindex": struct.Struct(">18xq8x"),
}
"""Of an entry of each index, in Kafka's order of truncation; of the last one not relative."""

Do = Callable[[], object]


class At(NamedTuple):
    """A record batch on disk; `segment`: its base offset."""

    segment: int
    position: int
    base_offset: int
    epoch: int


class Seen(NamedTuple):
    """What was read up to the last stable offset, or of all records up to the bound."""

    isolation: Isolation
    rows: list[Read]
    end: int

    def is_of(self, content: Content) -> bool:
        """Whether consumers of this log get it."""
        is_all = self.isolation == "read_uncommitted"
        rows = content.uncommitted() if is_all else content.committed()
        return self.rows == [(r.offset, r.key, r.value) for r in rows if r.offset < self.end]

    def __str__(self) -> str:
        return f"{self.isolation} up to {self.end}: {[row[0] for row in self.rows]}"


def follower(world: World, choice: int) -> Step:
    """Read a log while its follower truncates it and fetches what another leader has, or its broker
    starts after a kill: what is read is the log before or after that, or is refused.
    """
    name = pick(world, choice, (COMPACTED, COMPACTED, TAKEN_IN, RETAINED, BOTH))
    log = world.logs[name]

    def run() -> None:
        repair(world)
        if log.content is None:
            return
        copy = world.root.with_name(f"{world.root.name}-follower")
        shutil.rmtree(copy, ignore_errors=True)
        try:
            shutil.copytree(log.where, copy, symlinks=True)
            (copy / MARKER).unlink(missing_ok=True)
            for path in copy.glob("*/*.deleted"):  # as a broker does when it starts
                path.unlink()
            _read_while_it_follows(copy, name, log.content, random.Random(choice))
        finally:
            shutil.rmtree(copy, ignore_errors=True)

    return Step(name, run, unchanged(world, name))


def _read_while_it_follows(log_dir: Path, name: str, before: Content, draw: random.Random) -> None:
    batches = list(_batches(log_dir / name))
    epochs = [each.epoch for each in batches]
    candidates = [each for each in batches if each.base_offset >= before.start]
    if not candidates or epochs != sorted(epochs):  # records of another broker were taken in
        return
    _write_epochs(log_dir / name, batches)
    starts = draw.random() < STARTS
    if starts:
        steps = deque(_recovery(log_dir / name))
        steps.append(partial(record, log_dir, {name: before.end}))
    else:
        first = draw.choice(candidates)
        steps = deque(_truncation(log_dir / name, batches, first))
        steps.extend(_fetching(log_dir / name, batches, first, draw))
    count = len(steps)
    moments = sorted(draw.choice((0, draw.randint(0, count), count)) for _ in range(3))
    if draw.random() < HELD:
        moments = [draw.randint(1, count), count, count]
    bounds = [before.end, draw.randint(before.start, before.end)]
    isolation = "read_committed" if starts else draw.choice(_LEVELS)
    with open_by_broker(log_dir):
        record(log_dir, {name: draw.choice(bounds)})
        if starts:  # the watermarks are older than its process
            os.utime(log_dir / HIGH_WATERMARK_CHECKPOINT, (0, 0))
        time.sleep(TICK_SECONDS)
        with _patient(5 * PATIENCE_SECONDS if starts else PATIENCE_SECONDS):
            seen = _read(log_dir, name, isolation, steps, moments)
        _do(steps, len(steps))
        after = read_content(log_dir, name)
        if seen is not None and not (seen.is_of(before) or seen.is_of(after)):
            raise Difference(f"{name}: changed meanwhile, {moments} of {count} steps: {seen}")
        time.sleep(TICK_SECONDS)
        record(log_dir, {name: after.end})
        with _patient(1.0):
            seen = _read(log_dir, name, isolation, steps, (0, 0, 0))
        if seen is None or not seen.is_of(after):
            raise Difference(f"{name}: after the last step: {seen}")


def _read(
    log_dir: Path,
    name: str,
    isolation: Isolation,
    steps: deque[Do],
    moments: Sequence[int],
) -> Seen | None:
    """What is read while steps are done: up to these moments, before the files are looked at,
    before their bound is known, and before they are read; None: it was refused.
    """
    first, second, third = moments
    left = [first, second - first, third - second]

    def bounded(*words: Any) -> Any:  # noqa: ANN401 -- as the one that it calls
        _do(steps, left[1])
        left[1] = 0
        return original(*words)

    original = places.bounded
    _do(steps, left[0])
    with ExitStack() as stack:
        stack.enter_context(patch.object(places, "bounded", bounded))
        stack.enter_context(suppress(Unsettled))
        place = as_it_runs(log_dir)
        assert isinstance(place, RunningPlace)
        stack.enter_context(reading(place))
        log = observe(place, parsed(name), high_watermark="checkpoint")
        parts = plan_records(log, ReadRequest(isolation=isolation))
        _do(steps, left[2])
        rows = [
            tuple(row.values())
            for part in parts
            for batch in read_range(part, columns=("offset", "key", "value"))
            for row in batch.to_pylist()
        ]
        is_all = isolation == "read_uncommitted"
        return Seen(isolation, rows, log.high_watermark if is_all else log.last_stable_offset)
    return None


@contextmanager
def _patient(seconds: float) -> Iterator[None]:
    """A reading waits so long for another checkpoint of the high watermarks, or other files."""
    with ExitStack() as stack:
        for module in (places, watermark):
            stack.enter_context(patch.object(module, "PATIENCE_SECONDS", seconds))
        yield


def _do(steps: deque[Do], count: int) -> None:
    for _ in range(count):
        steps.popleft()()


def _batches(directory: Path) -> Iterator[At]:
    for path in sorted(directory.glob("*.log")):
        content = path.read_bytes()
        for span in walk_batches(content):
            if span.magic < MAGIC:
                row = next(old_records(content[span.position : span.position + span.bytes]))
                yield At(int(path.stem), span.position, row.offset, NO_EPOCH)
                continue
            batch = parse_batch(content, span.position)
            yield At(int(path.stem), span.position, batch.base_offset, batch.partition_leader_epoch)


def _write_epochs(directory: Path, batches: Sequence[At]) -> None:
    firsts: dict[int, int] = {}
    for each in batches:
        if each.epoch != NO_EPOCH:
            firsts.setdefault(each.epoch, each.base_offset)
    lines = ["0", str(len(firsts)), *(f"{epoch} {first}" for epoch, first in firsts.items()), ""]
    new = directory / "leader-epoch-checkpoint.tmp"
    new.write_text("\n".join(lines))
    new.rename(directory / "leader-epoch-checkpoint")


def _truncation(directory: Path, batches: Sequence[At], first: At) -> Iterator[Do]:
    """The steps of a truncation to the base offset of a batch."""
    log = directory / f"{first.segment:020}.log"
    kept = [each for each in batches if each < first]
    later = [path for path in sorted(directory.glob("*.log")) if int(path.stem) > first.segment]
    for path in later:
        for suffix in (".log", *_OFFSET_OF):
            file = path.with_suffix(suffix)
            if file.exists():
                yield partial(file.rename, f"{file}.deleted")
    for suffix, entry in _OFFSET_OF.items():
        file = log.with_suffix(suffix)
        if file.exists():
            base = 0 if suffix == ".txnindex" else first.segment
            offsets = [base + each for (each,) in entry.iter_unpack(file.read_bytes())]
            below = sum(offset < first.base_offset for offset in offsets)
            yield partial(os.truncate, file, below * entry.size)
    yield partial(os.truncate, log, first.position)
    for file in sorted(directory.glob("*.snapshot")):
        if int(file.stem) > first.base_offset:
            yield file.unlink
    epoch = batches[-1].epoch + 1
    fetched = At(first.segment, first.position, first.base_offset, epoch)
    yield partial(_write_epochs, directory, [*kept, fetched])


def _recovery(directory: Path) -> Iterator[Do]:
    """The steps in which the indexes of all segments are made again."""
    for log in sorted(directory.glob("*.log")):
        files = [log.with_suffix(suffix) for suffix in _OFFSET_OF]
        contents = {file: file.read_bytes() for file in files if file.exists()}
        for file in contents:
            yield partial(os.truncate, file, 0)
        for file, content in contents.items():
            yield partial(_append, file, content)


def _fetching(
    directory: Path, batches: Sequence[At], first: At, draw: random.Random
) -> Iterator[Do]:
    """The steps in which record batches of a later leader epoch are appended."""
    log, offset = directory / f"{first.segment:020}.log", first.base_offset
    for _ in range(draw.randint(1, FETCHED)):
        if draw.random() < ROLLED and offset > int(log.stem):
            yield log.with_suffix(".index").touch
            yield log.with_suffix(".timeindex").touch
            log = directory / f"{offset:020}.log"
            yield log.touch
        pairs = [(draw.choice("abz"), f"of {offset + n}") for n in range(draw.randint(1, 3))]
        (batch,) = SegmentBuilder(offset).batch(offset, pairs).batches
        epoch = (batches[-1].epoch + 1).to_bytes(4, "big", signed=True)
        yield partial(_append, log, batch[:12] + epoch + batch[16:])
        offset += len(pairs)


def _append(path: Path, content: bytes) -> None:
    with path.open("ab") as file:
        file.write(content)
