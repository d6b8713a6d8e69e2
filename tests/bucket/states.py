"""Random runs of the protocol of a log directory's state, with a fault at any request.

python -m tests.bucket.states --count 20000 --seed 1 [--without "6: a deadline"]

Two writers set and lift pauses, each its own: a pause is a word of the content here. They are
started again after a crash, or do something else. A collector runs all the while. What a run must
show: each word that was set by the last operation on it, by an answer, is there at the end, each
that was lifted is not; a removal changes nothing, and leaves one version.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Final
from unittest.mock import patch

from logwright.bucket import states
from logwright.bucket.commit import (
    Answer,
    Create,
    Delete,
    Elapsed,
    Limits,
    Requests,
    TooLate,
    listed,
    sure,
)
from logwright.bucket.manifest import STATES
from logwright.bucket.states import (
    Change,
    StoredState,
    change_stored,
    collect_stored,
    newest_stored,
)
from tests.bucket.simulation import LIMITS, Actor, Crash, Store, answered, survive

_OPERATIONS: Final = 8
_MOST_REQUESTS: Final = 20_000
_WORDS: Final = ("a", "b", "c")


def words_of(state: StoredState | None) -> frozenset[str]:
    """The words of a version."""
    return frozenset(() if state is None else state.content.decode().split())


def content_of(words: frozenset[str]) -> bytes:
    """A version of these words."""
    return " ".join(sorted(words)).encode() + b"\n"


@dataclass
class Run:
    """One run. `last`: word → whether it was set by the last operation on it that was answered;
    not there: that is not known.
    """

    seed: int
    store: Store
    last: dict[str, bool] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)

    def writer(self, number: int) -> Actor:
        """Sets and lifts words of its own; after a crash it may do something else next."""
        draw = self.store.random
        for count in range(_OPERATIONS):
            word, sets = f"{number}{draw.choice(_WORDS)}", draw.random() < 0.6
            self.last.pop(word, None)

            def change(base: StoredState | None, word: str = word, sets: bool = sets) -> bytes:
                before = words_of(base)
                return content_of(before | {word} if sets else before - {word})

            for attempt in range(60):
                try:
                    yield from survive(
                        change_stored(change, LIMITS, f"w{number}o{count}a{attempt}")
                    )
                except Crash:
                    self.done["crash"] += 1
                    if draw.random() < 0.5:
                        break
                except TooLate:
                    self.done["too late"] += 1
                else:
                    self.last[word] = sets
                    self.done["set" if sets else "lifted"] += 1
                    break

    def collector(self) -> Actor:
        """Removes what it may, again and again."""
        while True:
            try:
                removed = yield from survive(collect_stored(LIMITS, removes=True))
                self.done["removed"] += len(removed)
            except Crash:
                self.done["crash"] += 1
            for _ in range(self.store.random.randrange(30)):
                yield Elapsed()

    def play(self) -> None:
        """Let the actors take turns, and look at what is left."""
        actors = {"w0": self.writer(0), "w1": self.writer(1), "collector": self.collector()}
        waiting: dict[str, tuple[int, Answer | Crash | None]] = dict.fromkeys(actors, (0, None))
        store = self.store
        while {"w0", "w1"} & actors.keys() and store.requests < _MOST_REQUESTS:
            store.now += 1
            ready = [name for name in actors if waiting[name][0] <= store.now]
            if not ready:
                store.tick(min(waiting[name][0] for name in actors))
                continue
            name = store.random.choice(ready)
            try:
                request = actors[name].send(waiting[name][1])  # type: ignore[arg-type]  # None: it begins
            except StopIteration:
                del actors[name]
                continue
            answer, until = store.ask(request)
            waiting[name] = until, answer
        self.judge()

    def judge(self) -> None:
        """Compare what was answered with what is there, after all requests have arrived."""
        store = self.store
        for _, request in sorted(store.pending, key=lambda each: each[0]):
            store.do(request)
        store.pending.clear()
        newest = words_of(answered(store, newest_stored()))
        for word, is_set in self.last.items():
            if (word in newest) != is_set:
                self.wrong.append("set and lost" if is_set else "lifted and there")
        for _ in range(2):
            store.now += LIMITS.age_ms * 2
            answered(store, collect_stored(LIMITS, removes=True))
        left = [key for key in store.objects if key.startswith(STATES)]
        if newest != words_of(answered(store, newest_stored())):
            self.wrong.append("a removal changed the state")
        if len(left) > 1:
            self.wrong.append("something is left after a removal")


def _believes_yes(
    request: Create, _: Callable[[], Requests[Any]], require_time: Callable[[], Requests[None]]
) -> Requests[None]:
    """What was sent is taken for done."""
    yield from require_time()
    yield request


def _no_deadline(_: object, __: int) -> Requests[None]:
    """Nothing is required."""
    yield from ()


def _collects_all(_: object, *, removes: bool) -> Requests[tuple[int, ...]]:
    """The newest version is removed, too."""
    entries = yield from listed(STATES)
    for entry in entries if removes else ():
        yield from sure(Delete(entry.key))
    return ()


def _nothing_to_do(change: Change, limits: Limits, operation: str) -> Requests[StoredState]:
    """A change that changes nothing makes no version."""
    base = yield from newest_stored()
    if base is not None and change(base) == base.content:
        return base
    return (yield from states.change_stored(change, limits, operation))


LEFT_OUT: Final[dict[str, dict[str, object]]] = {
    "2: a create is settled": {"states.created": _believes_yes},
    "6: a deadline": {"states.within": _no_deadline},
    "7: the newest stays": {"own.collect_stored": _collects_all},
    "an answer is of a version": {"own.change_stored": _nothing_to_do},
}
"""Rule → what is done without it."""


def run(seed: int, without: str | None = None) -> Run:
    """Play one run."""
    draw = random.Random(seed)
    played = Run(seed, Store(draw, draw.choice((0.05, 0.15, 0.3))))
    own = sys.modules[__name__]
    with ExitStack() as patches:
        for name, function in ({} if without is None else LEFT_OUT[without]).items():
            module, _, attribute = name.partition(".")
            where = own if module == "own" else states
            patches.enter_context(patch.object(where, attribute, function))
        played.play()
    return played


def main() -> None:
    """Print what all runs showed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--without", choices=LEFT_OUT)
    options = parser.parse_args()
    began, first = time.monotonic(), dict[str, int]()
    done, kinds, faults, requests = Counter[str](), Counter[str](), 0, 0
    for seed in range(options.seed, options.seed + options.count):
        played = run(seed, options.without)
        done += played.done
        kinds.update(set(played.wrong))
        faults += played.store.faults.total()
        requests += played.store.requests
        for kind in played.wrong:
            first.setdefault(kind, seed)
    seconds = time.monotonic() - began
    sys.stdout.write(
        f"{options.count} runs, wrong: {dict(kinds)}, first {first}; {dict(done)};"
        f" {requests} requests, {faults} faults; {seconds:.0f} s\n"
    )
    sys.exit(bool(kinds))


if __name__ == "__main__":
    main()
