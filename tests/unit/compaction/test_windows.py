"""The output of a cleaning does not depend on how much of it is read or written at once."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from logwright.batches import runtime as steps
from logwright.batches import source
from logwright.batches import unpack as unpacking
from logwright.batches.runtime import Runtime
from logwright.compaction.model import CleanPlan, StagedCleaning
from logwright.errors import BatchAboveLimit, CorruptBatch
from logwright.format import native_codec
from logwright.keys import read as reading
from logwright.place.mapped import MappedFiles
from logwright.rewrite import chunks
from logwright.rewrite.staging import discard_staging
from logwright.sweep.build import build, examine
from tests import faults
from tests.log_builder import LogBuilder
from tests.plans import forced_plan

SEGMENTS, BATCHES, RECORDS = 3, 12, 20


def a_plan(directory: Path, codecs: tuple[int, ...]) -> CleanPlan:
    """Of a log whose segments become one: batches that stay, go, and lose some of their records, by
    the codecs in turn, one of them larger than the smallest buffer.
    """
    builder = LogBuilder(directory)
    offset = 0
    for number in range(SEGMENTS):
        segment = builder.segment(offset)
        for batch in range(BATCHES):
            shared = (0, RECORDS // 2, RECORDS)[batch % 3]
            keys = [f"{'all' if n < shared else f'{number} {batch}'} {n}" for n in range(RECORDS)]
            text = "value " * (400 if batch == 4 else 4)
            pairs = [(key, f"{text}{offset} {n}") for n, key in enumerate(keys)]
            segment.batch(offset, pairs, codec=codecs[batch % len(codecs)])
            offset += RECORDS
    builder.segment(offset)
    builder.write()
    return forced_plan(
        builder.log_dir,
        builder.partition,
        {"cleanup.policy": "compact", "segment.ms": str(1 << 60)},
    )


def output(plan: CleanPlan, *, threads: int = 1) -> dict[str, str]:
    """Digests of the staged files; the checks hold for them."""
    runtime = Runtime(threads=threads)
    staged = build(plan, runtime=runtime)
    assert 1 == len(staged.segments)
    assert 0 < min(staged.stats.batches_verbatim, staged.stats.batches_dropped)
    assert 2 * BATCHES // 3 <= staged.stats.batches_rebuilt
    assert () == examine(plan, staged, runtime=runtime).failed
    digests = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in staged.directory.iterdir()
    }
    discard_staging(plan)
    return digests


@pytest.mark.parametrize("codecs", [(0,), (3,), (4,), (0, 1, 2, 3, 4)])
@pytest.mark.parametrize("sizes", [(1, 1), (500, 2000), (2000, 20_000)])
@pytest.mark.parametrize("threads", [1, 3])
def test_small_windows_and_buffers_give_the_same_bytes(
    threads: int,
    codecs: tuple[int, ...],
    sizes: tuple[int, int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As those that hold all of the log, and are read and written by one thread."""
    plan = a_plan(tmp_path / "logs", codecs)
    whole = output(plan)
    window_bytes, buffer_bytes = sizes
    monkeypatch.setattr(source, "WINDOW_BYTES", window_bytes)
    monkeypatch.setattr(source, "COMPRESSED_WINDOW_BYTES", window_bytes)
    monkeypatch.setattr(steps, "STEP_BYTES", window_bytes)
    monkeypatch.setattr(reading, "FOUND_RECORDS", window_bytes // 50)
    monkeypatch.setattr(unpacking, "SCRATCH_BYTES", window_bytes)
    monkeypatch.setattr(chunks, "CHUNK_BYTES", buffer_bytes)
    assert whole == output(plan, threads=threads)


@pytest.mark.parametrize("codecs", [(0,), (3,)])
def test_a_full_map_is_halved_under_several_threads(
    codecs: tuple[int, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What others have read for the larger shard by then is read again: nothing is lost, nothing
    counted twice, and the output is that of one map.
    """
    plan = a_plan(tmp_path / "logs", codecs)
    whole = output(plan)
    few = plan._replace(cleaner=plan.cleaner.model_copy(update={"dedupe_buffer_bytes": 5000}))
    monkeypatch.setattr(steps, "STEP_BYTES", 2000)
    monkeypatch.setattr(reading, "FOUND_RECORDS", 40)
    for _ in range(20):
        assert whole == output(few, threads=3)
    staged = build(few, runtime=Runtime(threads=3))
    assert staged.stats.map_reads > 2
    discard_staging(few)


def test_of_several_threads_the_first_damage_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its place, whichever thread was the first; what others had read by then does no harm."""
    plan = a_plan(tmp_path / "logs", (0,))
    logs = sorted(plan.log.directory.glob("*.log"))[:SEGMENTS]
    for log in logs:
        content = bytearray(log.read_bytes())
        content[-1] ^= 1
        times = log.stat()
        log.write_bytes(content)
        os.utime(log, ns=(times.st_atime_ns, times.st_mtime_ns))
    monkeypatch.setattr(steps, "STEP_BYTES", 2000)
    for _ in range(20):
        with pytest.raises(CorruptBatch) as caught:
            build(plan, runtime=Runtime(threads=3))
        assert caught.value.path == logs[0]


@pytest.mark.parametrize("codecs", [(0,), (1,), (2,), (3,), (4,), (0, 1, 2, 3, 4)])
def test_without_libraries_the_output_is_the_same(
    codecs: tuple[int, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same bytes, but for gzip and zstd, which other code packs to others."""
    plan = a_plan(tmp_path / "logs", codecs)
    whole = output(plan)
    monkeypatch.setattr(native_codec, "libraries", native_codec.python_only)
    monkeypatch.setattr(unpacking, "SCRATCH_BYTES", 100)
    without = output(plan)
    assert whole.keys() == without.keys()
    if not {1, 4} & set(codecs):
        assert whole == without


@pytest.mark.parametrize("plant", [faults.lose_last_value, faults.change_value])
@pytest.mark.parametrize("window_bytes", [1, 500, 2000])
def test_small_windows_give_the_same_verdict(
    plant: Callable[[StagedCleaning], int],
    window_bytes: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A fault is found where it is, and counted once, however little is read at once."""
    plan = a_plan(tmp_path / "logs", (0, 1, 2, 3, 4))
    staged = build(plan)
    offset = plant(staged)
    whole = examine(plan, staged)
    assert offset in {check.first_offset for check in whole.checks if check.violations == 1}
    monkeypatch.setattr(source, "WINDOW_BYTES", window_bytes)
    monkeypatch.setattr(source, "COMPRESSED_WINDOW_BYTES", window_bytes)
    assert whole == examine(plan, staged)


def test_many_small_bombs_do_not_take_all_memory_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each batch of a window stays below its own limit; together they would not."""
    builder = LogBuilder(tmp_path / "logs")
    filled = builder.segment(0)
    for offset in range(4):
        filled.batch(offset, [(f"k{offset}", "v" * 50_000)], codec=4)
    builder.segment(4)
    builder.write()
    plan = forced_plan(
        builder.log_dir,
        builder.partition,
        {"cleanup.policy": "compact", "segment.ms": str(1 << 60)},
    )
    monkeypatch.setattr(source, "SCRATCH_BYTES", 120_000)
    segment = plan.log.segments[0]
    opened = source.open_source(
        str(plan.log.directory), segment, MappedFiles(), end_offset=4, first_ordinal=0
    )
    source.open_window(opened, slice(0, 2))
    with pytest.raises(BatchAboveLimit, match="offset 2 unpacks, with those before it"):
        source.open_window(opened, slice(0, 4))
