"""A broker at work, its clients, consumers that know the truth, readers, and the judge."""

from __future__ import annotations

import itertools
import multiprocessing
import queue
import random
import re
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from multiprocessing.context import SpawnContext, SpawnProcess
from multiprocessing.queues import Queue
from pathlib import Path

from tests import oracle_runner
from tests.live import judge
from tests.live.broker import Broker, BrokerFailed, Topics
from tests.live.load import COMPACT, TOPICS, Topic, produce
from tests.live.readers import Outcome, Work, attempt, read_on
from tests.live.rows import LEVELS, Call, Findings, Reading, Refusal
from tests.live.truth import Tail, Truth

REACH_SECONDS = 30.0
"""How long a judge waits for the consumers to get what was read."""
START_SECONDS = 90.0
"""A reader may have to compile its kernels first."""
KILLED = 0.7
"""Share of the ends of a broker; the others are clean stops."""
SETTLE_SECONDS = 2.0
"""For the consumers to get what is newer than the bound, too."""
AT_REST = ", broker stopped"
"""After the reader's name."""
AHEAD = 16
"""Readings that wait for the judge."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is run.

    Attributes:
        seconds: how long readers read, after `warm_seconds` in which the logs grow; longer until
            each has read something.
        names: of the readers, see `readers.READERS`.
        processes: that read.
        kill_seconds: between two ends of the broker, by SIGKILL or cleanly; 0: it is never ended.
        checkpoint_ms: how often the broker writes its high watermarks.
        late_seconds: how old a bound may be. It is infinite where a replica may lag.
    """

    seconds: float
    seed: int
    names: tuple[str, ...]
    topics: tuple[Topic, ...] = TOPICS
    processes: int = 2
    warm_seconds: float = 5.0
    change_seconds: float = 4.0
    kill_seconds: float = 0.0
    checkpoint_ms: int = 5000
    late_seconds: float = 30.0


@dataclass(slots=True)
class Figures:
    """What came of it.

    Attributes:
        rounds, records: by reader and log.
        wrong: differences by reader, log, isolation level and kind; the first of each in `shown`.
        refusals, notes: by reader and cause.
        unjudged: readings of a topic that was deleted before consumers got all of it.
        states: different readings of a log: the same start, bound and number of rows count once.
        changes: what was done to topics and the broker.
        seconds: that readings took, by reader.
    """

    rounds: Counter[str] = field(default_factory=Counter)
    records: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    shown: list[str] = field(default_factory=list)
    refusals: Counter[str] = field(default_factory=Counter)
    notes: Counter[str] = field(default_factory=Counter)
    unjudged: Counter[str] = field(default_factory=Counter)
    states: set[tuple[object, ...]] = field(default_factory=set)
    changes: Counter[str] = field(default_factory=Counter)
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))


def run(plan: Plan, work: Path) -> Figures:
    """Run it. Effects: processes and files below `work`."""
    figures = Figures()
    settings = {"replica.high.watermark.checkpoint.interval.ms": str(plan.checkpoint_ms)}
    with (
        oracle_runner.using(oracle_runner.NEWEST),
        Broker(work / "broker", settings=settings) as broker,
    ):
        truth = Truth(broker.bootstrap)
        topics = Topics(broker.bootstrap)
        for topic in plan.topics:
            truth.follow(topic.name, topics.create(topic.name, topic.config))
        court = Court(truth, plan, figures)
        with clients(plan, broker.bootstrap), _changes(plan, broker, truth, figures):
            time.sleep(plan.warm_seconds)
            with readings_of(plan, [broker.log_dir]) as readings:
                court.sit(readings, plan.seconds)
        for topic, level in itertools.product(plan.topics, LEVELS):
            truth.reach(topic.log, level, topics.end(topic.name, level))
        for name in not_of_kafka(broker.log_dir):
            figures.wrong[f"written below the log directory: {name}"] += 1
        broker.stop()
        _read_at_rest(plan, broker, court)
        truth.close()
    return figures


def not_of_kafka(log_dir: Path) -> list[str]:
    """Names below a log directory that no broker makes."""
    return [path.name for path in log_dir.rglob("*") if "logwright" in path.name]


def _read_at_rest(plan: Plan, broker: Broker, court: Court) -> None:
    """Read every log once more after the broker stopped: now even the simplest reader is right."""
    for name, topic, level in itertools.product(plan.names, plan.topics, LEVELS):
        reading = attempt(name, broker.log_dir, topic.log, level)
        court.take(replace(reading, reader=f"{name}{AT_REST}"))
    court.finish()


@contextmanager
def clients(plan: Plan, bootstrap: str) -> Iterator[None]:
    """Producers, while the context lasts. Effects: a process."""
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    words = (bootstrap, plan.topics, plan.seed, stop)
    with _running([context.Process(target=produce, args=words, daemon=True)]):
        yield
        stop.set()


@contextmanager
def readings_of(plan: Plan, log_dirs: Sequence[Path]) -> Iterator[Queue[Outcome]]:
    """What readers make of log directories, while the context lasts. Effects: processes."""
    context: SpawnContext = multiprocessing.get_context("spawn")
    stop, out = context.Event(), context.Queue(AHEAD)
    work = Work(
        log_dirs=log_dirs,
        names=plan.names,
        logs=[topic.log for topic in plan.topics],
        seed=plan.seed,
    )
    processes = [
        context.Process(
            target=read_on, args=(replace(work, seed=work.seed + number), out, stop), daemon=True
        )
        for number in range(plan.processes)
    ]
    with _running(processes):
        yield out
        stop.set()
        while any(process.is_alive() for process in processes):  # one may wait for a place in it
            with suppress(queue.Empty):
                out.get(timeout=0.1)


@contextmanager
def _running(processes: list[SpawnProcess]) -> Iterator[None]:
    for process in processes:
        process.start()
    try:
        yield
        for process in processes:
            process.join(30)
    finally:
        for process in processes:
            process.kill()
            process.join()


@contextmanager
def _changes(plan: Plan, broker: Broker, truth: Truth, figures: Figures) -> Iterator[None]:
    """Change topics and kill the broker meanwhile. Effects: a thread."""
    stop = threading.Event()
    changing = Changes(plan, broker, truth, figures)
    thread = threading.Thread(target=changing.keep_on, args=(stop,), daemon=True)
    thread.start()
    yield
    stop.set()
    thread.join()
    if changing.failed is not None:
        raise changing.failed


class Changes:
    """What an operator does: records and topics are deleted, the broker is ended and started."""

    def __init__(self, plan: Plan, broker: Broker, truth: Truth, figures: Figures) -> None:
        self._plan, self._broker, self._truth = plan, broker, truth
        self._figures = figures
        self._topics = Topics(broker.bootstrap)
        self._draw = random.Random(plan.seed)
        self.failed: Exception | None = None

    def keep_on(self, stop: threading.Event) -> None:
        """Change something every few seconds until `stop` is set."""
        killed = time.monotonic()
        try:
            while not stop.wait(self._plan.change_seconds):
                for topic in self._plan.topics:
                    if topic.is_cut:
                        self._cut(topic)
                    if topic.is_recreated and self._draw.random() < 0.5:
                        self._recreate(topic)
                if 0 < self._plan.kill_seconds < time.monotonic() - killed:
                    is_killed = self._draw.random() < KILLED
                    self._broker.kill() if is_killed else self._broker.stop()
                    stop.wait(self._draw.uniform(0, 2))
                    self._start_again()
                    self._figures.changes["broker killed" if is_killed else "broker stopped"] += 1
                    killed = time.monotonic()
        except Exception as error:  # noqa: BLE001 -- raised again in the main thread
            self.failed = error

    def _start_again(self) -> None:
        """Start the broker. It must start, whoever reads."""
        for _ in range(3):
            try:
                self._broker.start()
            except BrokerFailed as error:
                self._figures.wrong[f"a starting broker was kept out: {error}"] += 1
            else:
                return

    def _cut(self, topic: Topic) -> None:
        low = self._topics.start(topic.name)
        high = self._topics.end(topic.name, "read_uncommitted")
        self._topics.delete_records(topic.name, low + (high - low) // 3)
        self._figures.changes["records deleted"] += 1

    def _recreate(self, topic: Topic) -> None:
        self._topics.delete(topic.name)
        self._truth.close(topic.log)
        time.sleep(self._draw.uniform(0, 1))
        self._truth.follow(topic.name, self._topics.create(topic.name, topic.config))
        self._figures.changes["topic made again"] += 1


class Court:
    """Judges readings when the consumers have got what they claim to have."""

    def __init__(self, truth: Truth, plan: Plan, figures: Figures) -> None:
        self._truth, self._figures, self._names = truth, figures, plan.names
        self._compacted = {topic.log: topic.is_compacted for topic in plan.topics}
        self._keeps = {topic.log: topic.config == COMPACT for topic in plan.topics}
        self._late_seconds = plan.late_seconds
        self._waiting: list[Reading | Findings] = []

    def sit(self, readings: Queue[Outcome], seconds: float) -> None:
        """Judge what comes for some time, and then what waits for the consumers."""
        end = time.monotonic() + seconds
        while time.monotonic() < end or not self._read_by_all(end):
            with suppress(queue.Empty):
                self.take(readings.get(timeout=0.1))
            self._retry()
        self.finish()

    def _read_by_all(self, end: float) -> bool:
        """Whether each reader has read something, or none does within a long time."""
        read = {re.split("[ @]", place)[0] for place in self._figures.rounds}
        return read >= set(self._names) or time.monotonic() > end + START_SECONDS

    def finish(self) -> None:
        """Judge what waits for the consumers."""
        while self._waiting:
            self._retry()
            time.sleep(0.05)

    def take(self, reading: Outcome) -> None:
        """Take a reading in; it is judged later."""
        place = f"{reading.reader} {reading.log}"
        if isinstance(reading, Refusal):
            self._figures.refusals[f"{reading.reader}: {reading.cause}"] += 1
            if not reading.is_named:
                self._blame(place, f"failed: {reading.cause}", 1, "")
            return
        self._figures.rounds[place] += 1
        if isinstance(reading, Call):
            self._figures.seconds[reading.reader] += reading.seconds
            for kind, count in reading.wrong.items():
                self._blame(place, kind, count, "")
            return
        rows = reading.hits if isinstance(reading, Findings) else reading.rows
        self._figures.records[place] += len(rows)
        self._figures.seconds[reading.reader] += reading.ended - reading.began
        for cause, count in reading.notes.items():
            self._figures.notes[f"{reading.reader}: {cause}"] += count
        self._waiting.append(reading)

    def _retry(self) -> None:
        """Judge those that can be judged now."""
        self._waiting = [reading for reading in self._waiting if not self._judged(reading)]

    def _judged(self, reading: Reading | Findings) -> bool:
        if time.monotonic() < reading.ended + SETTLE_SECONDS:
            return False
        if isinstance(reading, Findings):
            self._decide_findings(reading)
            return True
        tails = [
            history.tails[reading.isolation]
            for history in self._truth.of(reading.log, reading.topic_ids, reading.began)
        ]
        place = f"{reading.reader} {reading.log} {reading.isolation}"
        ready = [tail for tail in tails if tail.reached >= reading.bound]
        if len(ready) < len(tails) and not all(tail.is_closed for tail in tails):
            if time.monotonic() < reading.ended + REACH_SECONDS:
                return False
            if not ready:
                self._blame(place, "a bound that no consumer reaches", 1, f"bound {reading.bound}")
                return True
        if not ready:
            self._figures.unjudged[place] += 1
            return True
        self._decide(reading, place, ready)
        return True

    def _decide(self, reading: Reading, place: str, tails: list[Tail]) -> None:
        compacted = self._compacted[reading.log]
        judged = [
            judge.differences(reading, tail.rows(), is_compacted=compacted)
            + judge.age(reading, tail.reached_at(reading.began - self._late_seconds))
            for tail in tails
        ]
        least = min(judged, key=Counter.total)
        facts = (reading.log, reading.topic_ids, reading.start, reading.bound, len(reading.rows))
        self._figures.states.add(facts)
        for kind, count in least.items():
            self._blame(place, kind, count, f"[{reading.start}, {reading.bound})")

    def _decide_findings(self, findings: Findings) -> None:
        """Judge a search of a log that keeps what is newest."""
        place = f"{findings.reader} {findings.log}"
        judged = []
        for history in self._truth.of(findings.log, findings.topic_ids, findings.began):
            everything, committed = (history.tails[level] for level in LEVELS)
            wrong = judge.invented(findings, everything.rows(), known=everything.reached)
            if self._keeps[findings.log] and len(findings.topic_ids) == 1:
                known = committed.reached_at(findings.began)
                wrong += judge.missed(findings, committed.rows(), known=known)
            judged.append(wrong)
        if not judged:
            self._figures.unjudged[place] += 1
            return
        for kind, count in min(judged, key=Counter.total).items():
            self._blame(place, kind, count, f"of {len(findings.keys)} keys")

    def _blame(self, place: str, kind: str, count: int, more: str) -> None:
        wrong = f"{place}: {kind}"
        if wrong not in self._figures.wrong:
            self._figures.shown.append(f"{wrong} ({count}) {more}".strip())
        self._figures.wrong[wrong] += 1
