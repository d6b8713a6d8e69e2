"""Random runs of the commit protocol against a store in memory, with a fault at any request.

Two writers append and compact, and are started again after a crash with the same operation. A
collector runs all the while; a reader reads every object of the newest manifest. Each run is one
thread with one random sequence: the same seed gives the same run. What a run must show: nothing
that was acknowledged is lost, nothing is there twice, nothing that a manifest names is missing, and
after a last removal nothing is left that no manifest names.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from logwright.bucket.commit import (
    Absent,
    Answer,
    Change,
    Clock,
    Collect,
    Commit,
    Conflict,
    Create,
    Delete,
    Elapsed,
    Get,
    Limits,
    List,
    Listed,
    Operation,
    Put,
    Request,
    Requests,
    TooLate,
    Unknown,
    Yes,
    data_key,
    newest,
    sure,
)
from logwright.bucket.manifest import LogState, Manifest
from logwright.bucket.stored import StoredFile, StoredSegment
from logwright.units import DurationMs

LIFE: Final = 2500
"""The longest life of a request, in ticks."""
LIMITS: Final = Limits(deadline_ms=DurationMs(1000), age_ms=DurationMs(4000), kept_versions=1)
"""In ticks, too."""
_MOST_REQUESTS: Final = 20_000
_ATTEMPTS: Final = 60
_OPERATIONS: Final = 6
_FAULTS: Final = ("drop", "lost", "late", "twice", "crash before", "crash after", "pause", "pause")


class Crash(Exception):
    """The process of an actor ended."""


Actor: TypeAlias = Generator[Request, Answer | Crash, None]


@dataclass
class Store:
    """Objects with the time of their last change, and requests that are still on their way."""

    random: random.Random
    rate: float
    skew: int = 0
    objects: dict[str, tuple[bytes, int]] = field(default_factory=dict)
    now: int = 0
    pending: list[tuple[int, Request]] = field(default_factory=list)
    requests: int = 0
    faults: Counter[tuple[str, str]] = field(default_factory=Counter)

    def do(self, request: Request) -> Answer:
        """Carry a request out."""
        value: object = None
        match request:
            case Get(key):
                if key not in self.objects:
                    return Absent()
                value = self.objects[key][0]
            case Elapsed():
                value = self.now
            case Clock():
                value = self.now + self.skew
            case List(prefix, after):
                keys = sorted(key for key in self.objects if key.startswith(prefix))
                entries = (Listed(key, self.objects[key][1]) for key in keys)
                value = tuple(each for each in entries if after is None or each.key > after)
            case Delete(key):
                self.objects.pop(key, None)
            case Create(key, _) if key in self.objects:
                return Unknown()
            case Put(key, content) | Create(key, content):
                self.objects[key] = content, self.now
        return Yes(value)

    def tick(self, until: int = 0) -> None:
        """Time passes, and late requests arrive."""
        self.now = max(until, self.now + self.random.choice((1, 1, 1, 5, 20, 100)))
        for due in [each for each in self.pending if each[0] <= self.now]:
            self.pending.remove(due)
            self.do(due[1])

    def ask(self, request: Request) -> tuple[Answer | Crash, int]:
        """Return the answer, and until when its actor waits for it."""
        self.tick()
        self.requests += 1
        if self.random.random() > self.rate:
            return self.do(request), 0
        fault = self.random.choice(_FAULTS)
        self.faults[fault, type(request).__name__] += 1
        if fault == "pause":  # after the last look at the clock it is of the life of a request
            most = LIFE // 2 if isinstance(request, Elapsed) else LIMITS.age_ms * 2
            return self.do(request), self.now + self.random.randrange(most)
        if isinstance(request, Elapsed):
            return self.do(request), 0
        if fault in {"late", "twice"}:
            self.pending.append((self.now + self.random.randrange(LIFE // 2), request))
        if fault in {"lost", "crash after"}:
            self.do(request)
        if fault == "twice":
            return self.do(request), 0
        return (Crash() if fault.startswith("crash") else Unknown()), 0


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What the actors do; a test leaves one rule out."""

    commit: type[Commit] = Commit
    collect: type[Collect] = Collect
    limits: Limits = LIMITS
    key: Callable[[Operation, int, str], str] = data_key
    job: Callable[[str, int], str] = lambda name, _: name
    requires_replaced: bool = True
    reads_again: bool = True
    skew: int = 0


def append(rules: Rules, operation: Operation, ids: list[int]) -> Change:
    """A segment with these records is written after the others."""
    numbers = iter(range(1_000))

    def change(base: Manifest | None) -> Requests[LogState]:
        start = 0 if base is None else base.state.log_end_offset
        segment = yield from written(rules, operation, next(numbers), start, ids)
        segments = () if base is None else base.state.segments
        return log_of((*segments, segment))

    return change


def compact(rules: Rules, operation: Operation, choose: Callable[[int], int]) -> Change:
    """Two neighbours are replaced by one; refused if another has replaced either since the first
    look.
    """
    chosen: list[str] = []
    place: list[int] = []
    numbers = iter(range(1_000))

    def change(base: Manifest | None) -> Requests[LogState]:
        segments = () if base is None else base.state.segments
        if len(segments) < 2:
            raise Conflict("too few")
        if not chosen:
            place.append(choose(len(segments) - 1))
            chosen.extend(each.log.key for each in segments[place[0] : place[0] + 2])
        there = [n for n, each in enumerate(segments) if each.log.key in chosen]
        if not rules.requires_replaced:
            there = [place[0], place[0] + 1] if place[0] + 1 < len(segments) else []
        if len(there) != 2:
            raise Conflict("replaced by another")
        first, second = there
        ids: list[int] = []
        for key in chosen:
            answer = yield from sure(Get(key))
            if isinstance(answer, Absent):
                raise Conflict("replaced by another, and removed")
            assert isinstance(answer.value, bytes)
            ids += json.loads(answer.value)
        start = segments[first].base_offset
        segment = yield from written(rules, operation, next(numbers), start, ids)
        return log_of((*segments[:first], segment, *segments[second + 1 :]))

    return change


def written(
    rules: Rules, operation: Operation, number: int, start: int, ids: list[int]
) -> Requests[StoredSegment]:
    """A segment is one object, which is its indexes as well."""
    key, content = rules.key(operation, number, ".log"), json.dumps(ids).encode()
    yield from sure(Put(key, content))
    file = StoredFile(key=key, bytes=len(content), crc32c=0)
    return StoredSegment(
        base_offset=start,
        next_offset=start + len(ids),
        max_timestamp_ms=-1,
        modified_ns=0,
        log=file,
        index=file,
        timeindex=file,
    )


def log_of(segments: tuple[StoredSegment, ...]) -> LogState:
    """A log of these segments; the offsets follow each other whatever the records are."""
    end = segments[-1].next_offset
    return LogState(
        topic="t",
        number=0,
        topic_id=None,
        log_start_offset=0,
        high_watermark=end,
        log_end_offset=end,
        cleaner_checkpoint=None,
        leader_epochs=b"",
        configs={},
        segments=segments,
    )


@dataclass
class Run:
    """One run. `said`: operation → what its caller knows of it, and its records."""

    seed: int
    rules: Rules
    store: Store
    said: dict[str, tuple[str, list[int]]] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)

    def writer(self, number: int, ids: Iterator[int]) -> Actor:
        """Appends and compacts, in some order."""
        draw = self.store.random
        for count in range(_OPERATIONS):
            name = f"w{number}o{count}"
            mine = [next(ids) for _ in range(3)] if draw.random() < 0.6 else []
            self.said[name] = ("open", mine)
            planned: list[int] = []
            for attempt in range(_ATTEMPTS):
                try:
                    yield from self.attempt(name, attempt, mine, planned)
                except Crash:
                    self.done["crash"] += 1
                except TooLate:
                    self.done["too late"] += 1
                except Conflict:
                    self.done["conflict"] += 1
                    self.said[name] = ("out", mine)
                    break
                else:
                    self.done["commit"] += 1
                    self.said[name] = ("in", mine)
                    break

    def attempt(self, name: str, attempt: int, mine: list[int], planned: list[int]) -> Actor:
        """Plan the job, unless that was done before; commit it."""
        if not planned:
            base = yield from survive(newest())
            planned.append(-1 if base is None else base.version)
        operation = Operation(
            id=self.rules.job(name, attempt),
            attempt=attempt,
            planned_version=planned[0],
            written_ms=0,
        )
        if mine:
            change = append(self.rules, operation, mine)
        else:
            change = compact(self.rules, operation, self.store.random.randrange)
        yield from survive(self.rules.commit(operation, change, self.rules.limits).run())

    def collector(self) -> Actor:
        """Removes what it may, again and again."""
        while True:
            try:
                removed = yield from survive(self.rules.collect(self.rules.limits).run())
                self.done["removed"] += len(removed.data)
            except Crash:
                self.done["crash"] += 1
            for _ in range(self.store.random.randrange(30)):
                yield Elapsed()

    def reader(self) -> Actor:
        """Reads all objects of the newest manifest; if one is gone, there must be a newer one."""
        while True:
            try:
                manifest = yield from survive(newest())
                for key in sorted(() if manifest is None else manifest.state.keys()):
                    answer = yield from survive(sure(Get(key)))
                    if not isinstance(answer, Absent):
                        continue
                    again = yield from survive(newest())
                    if not self.rules.reads_again or again == manifest:
                        self.wrong.append("a reader misses an object")
                    self.done["read again"] += 1
                    break
            except Crash:
                self.done["crash"] += 1

    def play(self) -> None:
        """Let the actors take turns, and look at what is left."""
        ids = iter(range(1_000_000))
        actors: dict[str, Actor] = {
            "w0": self.writer(0, ids),
            "w1": self.writer(1, ids),
            "collector": self.collector(),
            "reader": self.reader(),
        }
        waiting: dict[str, tuple[int, Answer | Crash | None]] = dict.fromkeys(actors, (0, None))
        store = self.store
        while {"w0", "w1"} & actors.keys() and not self.wrong and store.requests < _MOST_REQUESTS:
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
        """Compare what was said with what is there, after all requests have arrived."""
        store = self.store
        for _, request in sorted(store.pending, key=lambda each: each[0]):
            store.do(request)
        store.pending.clear()
        store.rate = 0
        manifest = answered(store, newest())
        there: Counter[int] = Counter()
        for segment in () if manifest is None else manifest.state.segments:
            content = store.objects.get(segment.log.key)
            if content is None:
                self.wrong.append("an object is missing at the end")
            else:
                there.update(json.loads(content[0]))
        for state, mine in self.said.values():
            counts = [there[number] for number in mine]
            if state == "in" and 0 in counts:
                self.wrong.append("acknowledged and lost")
            if max(counts, default=0) > 1:
                self.wrong.append("there twice")
            if state == "out" and max(counts, default=0):
                self.wrong.append("refused, and it is in")
            if state == "open":
                self.wrong.append("an operation never ended")
        self.scrub()

    def scrub(self) -> None:
        """Remove what may be removed; nothing is left that no manifest names."""
        store = self.store
        for _ in range(2):
            store.now += LIMITS.age_ms * 2
            answered(store, Collect(LIMITS).run())
        kept = [each for key, (each, _) in store.objects.items() if key.startswith("manifest")]
        named = {key for content in kept for key in keys_of(content)}
        left = {key for key in store.objects if key.startswith("data/")} - named
        if left:
            self.wrong.append("something is left after a scrub")


def keys_of(content: bytes) -> list[str]:
    """The keys of the ``.log`` objects of a manifest."""
    keys: list[str] = json.loads(content.partition(b"\n")[0])["state"]["segments"]["log"]["key"]
    return keys


def survive(requests: Requests[Any]) -> Generator[Request, Answer | Crash, Any]:
    """Pass requests on; an answer that is a crash ends the actor's process."""
    answer: Any = None
    try:
        while True:
            answer = yield requests.send(answer)
            if isinstance(answer, Crash):
                raise answer
    except StopIteration as end:
        return end.value
    finally:
        requests.close()


def answered(store: Store, requests: Requests[Any]) -> Any:  # noqa: ANN401 -- of any protocol
    """What a protocol returns if nothing fails."""
    answer: Any = None
    try:
        while True:
            answer = store.do(requests.send(answer))
    except StopIteration as end:
        return end.value


def run(seed: int, rules: Rules = Rules()) -> Run:
    """Play one run."""
    draw = random.Random(seed)
    store = Store(draw, draw.choice((0.05, 0.15, 0.3)), skew=rules.skew)
    played = Run(seed, rules, store)
    played.play()
    return played
