"""A process that plans and reads in a loop keeps no garbage, and collects it as it did before."""

from __future__ import annotations

import gc
import io
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from threading import Barrier

import pytest

from logwright.cli.main import main
from logwright.garbage import rare_collections
from tests.e2e.command import call
from tests.log_builder import LogBuilder

OBJECTS = 20_000
"""Of a block of a fleet: more than a young collection takes at once."""
SECONDS = 60


class Node:
    """What refers to itself: only the collector frees it."""

    def __init__(self) -> None:
        self.itself = self


class Stream(io.StringIO):
    """A stream that can be referred to weakly."""


@pytest.fixture(autouse=True)
def _like_a_program() -> Iterator[None]:
    """The thresholds of a new interpreter, not those of the tests."""
    before = gc.get_threshold()
    gc.collect()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*before)
    gc.collect()


def _alive(blocks: int, block: Callable[[], object]) -> int:
    """Of a cycle made before each block and let go after it: how many are not freed."""
    cycles = []
    for _ in range(blocks):
        node = Node()
        cycles.append(weakref.ref(node))
        kept = block()
        del node, kept
    return sum(one() is not None for one in cycles)


@rare_collections()
def _few() -> list[list[int]]:
    return [[one] for one in range(100)]


@rare_collections()
def _many() -> list[list[int]]:
    return [[one] for one in range(OBJECTS)]


@pytest.mark.parametrize(("block", "blocks"), [(_few, 4000), (_many, 200)])
def test_garbage_does_not_grow_with_the_blocks(block: Callable[[], object], blocks: int) -> None:
    """Of small blocks and of large ones: a cycle that outlives its block is freed some blocks later
    at most.
    """
    assert _alive(blocks, block) < blocks // 4


def test_a_block_is_not_interrupted_by_collections() -> None:
    """Nothing of what it makes is looked at before it ends."""
    with rare_collections():
        before = [one["collections"] for one in gc.get_stats()]
        kept = _many()
        assert before == [one["collections"] for one in gc.get_stats()]
    assert len(kept) == OBJECTS


def test_blocks_of_threads_restore_the_threshold() -> None:
    """The one that began first ends first: the other one does not keep the collector rare."""
    before = gc.get_threshold()
    first_began, second_began, first_ended = (Barrier(2, timeout=SECONDS) for _ in range(3))

    def first() -> None:
        with rare_collections():
            first_began.wait()
            second_began.wait()
        first_ended.wait()

    def second() -> None:
        first_began.wait()
        with rare_collections():
            second_began.wait()
            first_ended.wait()
            assert gc.get_threshold()[0] > before[0]

    with ThreadPoolExecutor(2) as pool:
        for thread in [pool.submit(first), pool.submit(second)]:
            thread.result(SECONDS)
    assert gc.get_threshold() == before


@pytest.mark.parametrize(
    "words",
    [
        ("inspect",),
        ("inspect", "--output", "json"),
        ("dump",),
        ("plan", "--config", "cleanup.policy=compact", "--log-format", "json"),
        ("verify", "t-1"),
        ("metrics",),
    ],
)
def test_calls_in_one_process_leave_no_streams(tmp_path: Path, words: tuple[str, ...]) -> None:
    """A program that calls the command line does not keep what each call wrote."""
    log = LogBuilder(tmp_path)
    log.segment(0).batch(0, [("k", "v")])
    log.write(cleaner_checkpoint=None)
    command, *more = words
    streams, written = [], 0
    for _ in range(3):
        out, err = Stream(), Stream()
        with redirect_stdout(out), redirect_stderr(err), suppress(SystemExit):
            main([command, str(tmp_path), *more])
        written += len(out.getvalue()) + len(err.getvalue())
        streams += [weakref.ref(out), weakref.ref(err)]
        del out, err
    gc.collect()
    assert written
    assert [one() for one in streams] == [None] * len(streams)


def test_a_call_of_the_tests_leaves_no_cycle(tmp_path: Path) -> None:
    """A test that calls commands in a loop measures the commands, not what click's runner keeps."""
    for _ in range(3):
        call("inspect", tmp_path)
    gc.collect()
    gc.disable()
    try:
        assert call("inspect", tmp_path).status
        assert gc.collect() == 0
    finally:
        gc.enable()
