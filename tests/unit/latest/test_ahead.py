"""Several threads work ahead, and the results are in order."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from itertools import islice

import pytest

from logwright.latest.ahead import in_order


def numbers(first: int) -> Iterator[int]:
    yield from range(first, first + 10)


def fails(first: int) -> Iterator[int]:
    yield first
    message = str(first)
    raise ValueError(message)


def parts(*makers: Callable[[int], Iterator[int]]) -> list[Callable[[], Iterator[int]]]:
    """Part n begins at 10 n."""
    return [lambda n=n, make=make: make(10 * n) for n, make in enumerate(makers)]  # type: ignore[misc]


@pytest.mark.parametrize("threads", [1, 2, 5, 50])
def test_results_are_in_order(threads: int) -> None:
    """Whatever the number of threads; they end."""
    before = set(threading.enumerate())
    assert list(range(100)) == list(in_order(parts(*[numbers] * 10), threads=threads))
    assert [] == list(in_order([], threads=threads))
    _ended(before)


@pytest.mark.parametrize("threads", [1, 3])
def test_the_first_error_is_raised(threads: int) -> None:
    """By its place, after the results before it, though a later part may fail earlier."""
    before = set(threading.enumerate())
    results: list[int] = []
    with pytest.raises(ValueError, match="10"):
        results.extend(in_order(parts(numbers, fails, fails, numbers), threads=threads))
    assert list(range(11)) == results
    _ended(before)


@pytest.mark.parametrize("taken", [0, 1, 15])
def test_threads_end_when_nobody_goes_on(taken: int) -> None:
    """What is not wanted any more is dropped."""
    before = set(threading.enumerate())
    running = in_order(parts(*[numbers] * 10), threads=3)
    assert list(range(taken)) == list(islice(running, taken))
    running.close()
    _ended(before)


def _ended(before: set[threading.Thread]) -> None:
    """A thread has put its last result a moment before it is over. Those of other tests stay."""
    for thread in set(threading.enumerate()) - before:
        thread.join(timeout=60)
    assert set(threading.enumerate()) <= before
