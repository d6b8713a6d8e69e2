"""A compressed log is read once, from its end: what is rebuilt on the way is what would be rebuilt
later.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from logwright.batches import unpack as unpacking
from logwright.batches.runtime import Runtime, silent
from logwright.checks.quick import examine_quickly
from logwright.compaction import backward
from logwright.compaction import build as building
from logwright.compaction.model import CleanPlan
from logwright.compaction.survivors import Survivors, find_survivors
from logwright.errors import CorruptBatch
from logwright.keys.offset_map import count_dead
from logwright.rewrite import cache
from logwright.rewrite.staging import discard_staging, staging_directory
from logwright.sweep.build import build
from tests.log_builder import LogBuilder
from tests.unit.checks.test_quick import a_log, a_plan, broken

CODECS = [1, 2, 3, 4]


def found_in(plan: CleanPlan) -> Survivors:
    return find_survivors(plan, progress=silent, runtime=Runtime())


def waiting(survivors: Survivors) -> tuple[int, int]:
    """(batches that lose some of their records, those of them that wait as they are to be)."""
    lose, wait = 0, 0
    for _, source in (pair for group in survivors.groups for pair in group):
        for row, batch in enumerate(source.batches):
            count = int(batch["count"])
            alive = count - count_dead(survivors.dead, int(batch["first_ordinal"]), count)
            if 0 < alive < count:
                lose += 1
                entry = survivors.rebuilt.entries[source.base_offset][row]
                wait += bool(entry["size"] and entry["kept"] == alive)
    return lose, wait


def output(plan: CleanPlan, *, threads: int = 1) -> dict[str, str]:
    """Digests of the staged files, which pass all checks."""
    staged = build(plan, runtime=Runtime(threads=threads))
    assert set() == broken(examine_quickly(plan, staged))
    digests = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in staged.directory.iterdir()
    }
    discard_staging(plan)
    return digests


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("checkpoint", [None, 200])
def test_what_waits_is_what_is_to_be(tmp_path: Path, codec: int, checkpoint: int | None) -> None:
    """All batches that lose some of their records wait, and the output has the bytes of a build
    by several threads, which read forwards and rebuild later.
    """
    plan = a_plan(a_log(tmp_path / "logs", codec=codec, checkpoint=checkpoint))
    lose, wait = waiting(found_in(plan))
    assert lose > 10
    assert lose == wait
    assert output(plan, threads=2) == output(plan)


def test_an_uncompressed_log_is_rebuilt_where_it_is_copied(tmp_path: Path) -> None:
    """There is nothing to be saved."""
    survivors = found_in(a_plan(a_log(tmp_path / "logs")))
    assert survivors.groups
    assert cache.NOTHING_REBUILT == survivors.rebuilt


@pytest.mark.parametrize("codec", [3, 4])
def test_a_map_that_gets_full_ends_it(tmp_path: Path, codec: int) -> None:
    """What was rebuilt before is right; all else is rebuilt later."""
    plan = a_plan(a_log(tmp_path / "logs", codec=codec))
    few = plan._replace(cleaner=plan.cleaner.model_copy(update={"dedupe_buffer_bytes": 9_000}))
    survivors = found_in(few)
    lose, wait = waiting(survivors)
    assert survivors.map_reads > 1
    assert 0 < wait < lose
    assert output(plan) == output(few)


@pytest.mark.parametrize("codec", [3, 4])
def test_more_than_the_buffer_holds_waits_in_a_file_without_a_name(
    tmp_path: Path, codec: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody sees it, and nothing of it is left."""
    plan = a_plan(a_log(tmp_path / "logs", codec=codec))
    whole, files = output(plan), sorted(tmp_path.rglob("*"))
    monkeypatch.setattr(cache, "BUFFER_BYTES", 100)
    monkeypatch.setattr(unpacking, "SCRATCH_BYTES", 2_000)
    survivors = found_in(plan)
    lose, wait = waiting(survivors)
    assert lose == wait
    assert survivors.rebuilt.content.nbytes > 3_000
    assert files == sorted(tmp_path.rglob("*"))
    assert whole == output(plan)


@pytest.mark.parametrize("directory", ["partition", "gone"])
def test_without_room_for_the_file_it_ends(
    tmp_path: Path, directory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that is nearly full, or cannot have such files: what the file took is used."""
    plan = a_plan(a_log(tmp_path / "logs", codec=4))
    whole = output(plan)
    monkeypatch.setattr(cache, "BUFFER_BYTES", 100)
    monkeypatch.setattr(unpacking, "SCRATCH_BYTES", 2_000)
    at = plan.log.directory if directory == "partition" else tmp_path / "gone"
    small = partial(cache.RebuildCache, at)

    def nearly_full(_: Path, *, output_bytes: int) -> cache.RebuildCache:
        return small(output_bytes=output_bytes + (1 << 60))

    monkeypatch.setattr(backward, "RebuildCache", nearly_full)
    lose, wait = waiting(found_in(plan))
    assert 0 < wait < lose
    assert whole == output(plan)


def test_rows_that_did_not_get_into_the_file_are_taken_back(tmp_path: Path) -> None:
    """The disk became full between two writes."""
    store = cache.RebuildCache(tmp_path, output_bytes=0)
    rows = store.entries_of(0, 2)
    rows["size"], rows["at"] = 10, (0, 10)
    store.out[:20] = np.arange(20)
    store.state["used"] = 10
    store.empty()
    store.out[:10] = np.arange(10, 20)
    store.state["used"] = 10
    store._output_bytes = 1 << 60
    store.empty()
    assert store.closed
    assert list(range(10)) == store.close().content.tolist()
    assert [10, 0] == rows["size"].tolist()


def test_batches_larger_than_the_memory_for_them_are_rebuilt_too(tmp_path: Path) -> None:
    """The kernel's caller enlarges it."""
    builder = LogBuilder(tmp_path / "logs")
    filled = builder.segment(0)
    for number in range(4):
        noise = np.random.default_rng(number).bytes(400_000).hex()
        pairs = [("same", noise), (f"own {number}", noise)]
        filled.batch(2 * number, pairs, codec=4)
    builder.segment(8)
    plan = a_plan(builder.write())
    assert (3, 3) == waiting(found_in(plan))
    assert output(plan, threads=2) == output(plan)


def test_the_first_damage_is_told_though_the_last_is_met_first(tmp_path: Path) -> None:
    """By its place; and nothing is left in the staging directory."""
    plan = a_plan(a_log(tmp_path / "logs", codec=4))
    logs = sorted(plan.log.directory.glob("*.log"))[:3]
    for log in logs:
        content = bytearray(log.read_bytes())
        content[100] ^= 1
        times = log.stat()
        log.write_bytes(content)
        os.utime(log, ns=(times.st_atime_ns, times.st_mtime_ns))
    with pytest.raises(CorruptBatch) as caught:
        build(plan)
    assert (logs[0], 0) == (caught.value.path, caught.value.position)
    assert not staging_directory(plan).exists()


def exchange(survivors: Survivors) -> None:
    """Two batches wait for each other's place."""
    rows = next(iter(survivors.rebuilt.entries.values()))
    first, second = np.flatnonzero(rows["size"])[:2]
    rows["at"][[first, second]] = rows["at"][[second, first]]
    rows["size"][[first, second]] = rows["size"][[second, first]]


def damage(survivors: Survivors) -> None:
    """A byte of what waits is not what was written."""
    rows = next(iter(survivors.rebuilt.entries.values()))
    first = np.flatnonzero(rows["size"])[0]
    survivors.rebuilt.content[rows["at"][first] + rows["size"][first] - 3] ^= 1


@pytest.mark.parametrize("spoil", [exchange, damage])
def test_a_fault_of_what_waits_breaks_a_check(
    tmp_path: Path, spoil: Callable[[Survivors], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checks read what was written, however it came to be."""
    find = building.find_survivors

    def spoiled(
        plan: CleanPlan, *, progress: Callable[[str, int, int], None], runtime: Runtime
    ) -> Survivors:
        survivors = find(plan, progress=progress, runtime=runtime)
        spoil(survivors)
        return survivors

    monkeypatch.setattr(building, "find_survivors", spoiled)
    plan = a_plan(a_log(tmp_path / "logs", codec=4))
    assert broken(examine_quickly(plan, build(plan)))
