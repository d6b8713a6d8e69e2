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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing.process import BaseProcess
from multiprocessing.queues import Queue
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tests import oracle_runner
from tests.live import judge
from tests.live.broker import Broker, BrokerFailed, Topics
from tests.live.calls import ONE_REPLICA
from tests.live.load import TOPICS, Topic, produce
from tests.live.readers import (
    PAUSE_SECONDS,
    REPLICAS_ONLY,
    Outcome,
    Work,
    attempt,
    read_on,
    readers,
)
from tests.live.rows import LEVELS, OFFSET, Call, Findings, Reading, Refusal
from tests.live.truth import History, Truth

if TYPE_CHECKING:
    from multiprocessing.sharedctypes import SynchronizedArray

REACH_SECONDS = 30.0
"""How long a judge waits for the consumers to get what was read, while their broker runs."""
AWAY_SECONDS = 600.0
"""How long it waits for a broker that does not run."""
START_SECONDS = 90.0
"""A reader may have to compile its kernels first."""
KILLED = 0.7
"""Share of the ends of a broker; the others are clean stops."""
SETTLE_SECONDS = 2.0
"""For the consumers to get what is newer than the bound, too."""
AT = "@"
"""Between a reader's name and the broker, of several."""
AT_REST = ", broker stopped"
"""After the reader's name."""
POLICY = "cleanup.policy"
UNSEEN = "rows that a cleaner may have removed before the consumers came to them"
"""Not judged."""
CUT = "keys that are not there, of which an election cut off newer records"
"""Not judged."""
CLAIMED = "audits that show nothing but what elections leave"
"""Not judged."""
SLOW = "keys that are not there, whose tombstones slow consumers may have missed"
"""Not judged."""
STARTS = 20
"""How often a broker is started before it is given up."""
AHEAD = 16
"""Readings that wait for the judge."""
SAY_SECONDS = 30.0
"""How often it says how far it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is run.

    Attributes:
        seconds: how long readers read, after `warm_seconds` in which the logs grow; longer until
            each has read something.
        names: of the readers, see `readers.READERS`.
        processes: that read.
        kill_seconds: between two ends of the broker, by SIGKILL or cleanly; 0: it is never ended.
        together_seconds: how long three brokers run before the next of the unclean elections.
        checkpoint_ms: how often the broker writes its high watermarks.
        late_seconds: how old a bound may be. It is infinite where a replica may lag.
        rounds: continue only until each reader has read this often; 0: for all of `seconds`.
        say: what happens, from time to time.
    """

    seconds: float
    seed: int
    names: tuple[str, ...]
    topics: tuple[Topic, ...] = TOPICS
    processes: int = 2
    warm_seconds: float = 5.0
    change_seconds: float = 4.0
    kill_seconds: float = 0.0
    together_seconds: float = 25.0
    checkpoint_ms: int = 5000
    late_seconds: float = 30.0
    rounds: int = 0
    say: Callable[[str], None] = lambda _: None


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
        cpu_seconds: the same of the CPU, and of those that were refused.
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
    cpu_seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    def of_readers(self, counted: Counter[str]) -> Counter[str]:
        """What is counted by reader, log and more, by reader alone."""
        totals: Counter[str] = Counter()
        for place, count in counted.items():
            totals[re.split("[ @:,]", place)[0]] += count
        return totals


def run(plan: Plan, work: Path) -> Figures:
    """Run it. Effects: processes and files below `work`."""
    figures = Figures()
    settings = settings_of(plan)
    with (
        oracle_runner.using(oracle_runner.NEWEST),
        Broker(work / "broker", settings=settings) as broker,
    ):
        truth = Truth(broker.bootstrap)
        topics = Topics(broker.bootstrap)
        for topic in plan.topics:
            truth.follow(topic.name, topics.create(topic.name, topic.config))
        court = Court(truth, plan, figures, lambda: broker.up_since)
        with clients(plan, broker.bootstrap), _changes(plan, broker, truth, figures):
            time.sleep(plan.warm_seconds)
            with readings_of(plan, [broker.log_dir], work) as readings:
                court.sit(readings)
        for topic, level in itertools.product(plan.topics, LEVELS):
            truth.reach(topic.log, level, topics.end(topic.name, level))
        for name in not_of_kafka(broker.log_dir):
            figures.wrong[f"written below the log directory: {name}"] += 1
        broker.stop()
        _read_at_rest(plan, broker, court, work / "at-rest")
        truth.close()
    return figures


def settings_of(plan: Plan) -> dict[str, str]:
    """The settings of a broker whose logs are read: what every search reads stays small."""
    return {
        "replica.high.watermark.checkpoint.interval.ms": str(plan.checkpoint_ms),
        "log.index.size.max.bytes": str(1 << 12),
        "metadata.max.idle.interval.ms": "0",
        "metadata.log.max.record.bytes.between.snapshots": "4096",
        "transaction.state.log.segment.bytes": str(1 << 20),
    }


def start_again(broker: Broker, figures: Figures) -> None:
    """Start a broker. It must start, whoever reads.

    Raises:
        BrokerFailed: it does not, however often it is tried.
    """
    for left in reversed(range(STARTS)):
        try:
            broker.start()
        except BrokerFailed:
            figures.wrong["a starting broker was kept out"] += 1
            if not left:
                raise
        else:
            return


def not_of_kafka(log_dir: Path) -> list[str]:
    """Names below a log directory that no broker makes."""
    return [path.name for path in log_dir.rglob("*") if "logwright" in path.name]


def _read_at_rest(plan: Plan, broker: Broker, court: Court, scratch: Path) -> None:
    """Read every log once more after the broker stopped: now even the simplest reader is right.
    Effects: files in `scratch`.
    """
    scratch.mkdir()
    by_name = readers([broker.log_dir], scratch)
    names = [name for name in plan.names if name not in REPLICAS_ONLY]
    for name, topic, level in itertools.product(names, plan.topics, LEVELS):
        reading = attempt(by_name, name, broker.log_dir, topic.log, level)
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


class Readings(NamedTuple):
    """Readings as they come, with the CPU seconds of each; and by number of a reader's name whether
    it has read enough.
    """

    out: Queue[tuple[Outcome, float]]
    ended: SynchronizedArray[int]


@contextmanager
def readings_of(plan: Plan, log_dirs: Sequence[Path], work: Path) -> Iterator[Readings]:
    """What readers make of log directories, while the context lasts. Effects: processes; files
    below `work`.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.live.readers"])  # once for all of them
    stop, out = context.Event(), context.Queue(AHEAD)
    ended = context.Array("b", len(plan.names))
    task = Work(
        log_dirs=log_dirs,
        names=plan.names,
        logs=[topic.log for topic in plan.topics],
        seed=plan.seed,
        scratch=work,
        ended=ended,
        pause_seconds=0.0 if plan.rounds else PAUSE_SECONDS,
    )
    processes = []
    for number in range(plan.processes):
        own = replace(task, seed=plan.seed + number, scratch=work / f"reader{number}")
        own.scratch.mkdir()
        processes.append(context.Process(target=read_on, args=(own, out, stop), daemon=True))
    with _running(processes):
        yield Readings(out, ended)
        stop.set()
        while any(process.is_alive() for process in processes):  # one may wait for a place in it
            with suppress(queue.Empty):
                out.get(timeout=0.1)


@contextmanager
def _running(processes: Sequence[BaseProcess]) -> Iterator[None]:
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
    changes = Changes(plan, broker.bootstrap, truth, figures)
    operator = Operator(plan, broker, changes, figures)
    thread = threading.Thread(target=operator.keep_on, args=(stop,), daemon=True)
    thread.start()
    yield
    stop.set()
    thread.join()
    if operator.failed is not None:
        raise operator.failed


def reach_until(ended: float, up_since: float) -> float:
    """Until when consumers may take to get what was read at `ended`, by the monotonic clock; they
    get nothing before their broker is back at `up_since`.
    """
    return min(max(ended, up_since), ended + AWAY_SECONDS) + REACH_SECONDS


class Changes:
    """What an operator does to topics: records are deleted, topics are deleted and made again."""

    def __init__(
        self,
        plan: Plan,
        bootstrap: str,
        truth: Truth,
        figures: Figures,
        *,
        nodes: Sequence[int] = (1,),
    ) -> None:
        """`nodes`: the brokers that have the topics."""
        self._plan, self._truth, self._figures, self._nodes = plan, truth, figures, nodes
        self._topics = Topics(bootstrap)
        self._draw = random.Random(plan.seed)

    def change(self) -> None:
        """Change each topic that is changed. Effects: requests to the broker."""
        for topic in self._plan.topics:
            if topic.is_cut:
                self._cut(topic)
            if topic.is_recreated and self._draw.random() < 0.5:
                self._recreate(topic)

    def _cut(self, topic: Topic) -> None:
        """Delete a third, but nothing that consumers wait for while a transaction is open: others
        can read it between its end and the deletion.
        """
        low = self._topics.start(topic.name)
        high = self._topics.end(topic.name, "read_uncommitted")
        got = self._truth.histories[topic.log][-1].tails["read_committed"].reached
        self._topics.delete_records(topic.name, max(low, min(low + (high - low) // 3, got)))
        self._figures.changes["records deleted"] += 1

    def _recreate(self, topic: Topic) -> None:
        self._topics.delete(topic.name)
        self._truth.close(topic.log)
        time.sleep(self._draw.uniform(0, 1))
        topic_id = self._topics.create(topic.name, topic.config, nodes=self._nodes)
        self._truth.follow(topic.name, topic_id)
        self._figures.changes["topic made again"] += 1


class Operator:
    """Changes topics every few seconds; the broker is ended and started."""

    def __init__(self, plan: Plan, broker: Broker, changes: Changes, figures: Figures) -> None:
        self._plan, self._broker, self._changes = plan, broker, changes
        self._figures = figures
        self._draw = random.Random(plan.seed)
        self.failed: Exception | None = None

    def keep_on(self, stop: threading.Event) -> None:
        """Change something every few seconds until `stop` is set."""
        killed = time.monotonic()
        try:
            while not stop.wait(self._plan.change_seconds):
                self._changes.change()
                if 0 < self._plan.kill_seconds < time.monotonic() - killed:
                    self._end(stop)
                    killed = time.monotonic()
        except Exception as error:  # noqa: BLE001 -- raised again in the main thread
            self.failed = error

    def _end(self, stop: threading.Event) -> None:
        is_killed = self._draw.random() < KILLED
        self._broker.kill() if is_killed else self._broker.stop()
        stop.wait(self._draw.uniform(0, 2))
        start_again(self._broker, self._figures)
        self._figures.changes["broker killed" if is_killed else "broker stopped"] += 1


class Court:
    """Judges readings when the consumers have got what they claim to have."""

    def __init__(
        self, truth: Truth, plan: Plan, figures: Figures, up_since: Callable[[], float]
    ) -> None:
        """`up_since`: see `Broker.up_since`; of several brokers the last one's."""
        self._up_since = up_since
        self._truth, self._figures, self._plan = truth, figures, plan
        self._topics = {topic.log: topic for topic in plan.topics}
        self._waiting: list[Reading | Findings] = []

    def sit(self, readings: Readings) -> None:
        """Judge what comes for some time, and then what waits for the consumers."""
        begun = shown_at = time.monotonic()
        while not self._is_enough(readings, time.monotonic() - begun):
            with suppress(queue.Empty):
                outcome, spent = readings.out.get(timeout=0.1)
                self._figures.cpu_seconds[outcome.reader] += spent
                self.take(outcome)
            self._retry()
            if time.monotonic() > shown_at + SAY_SECONDS:
                shown_at = time.monotonic()
                self._plan.say(f"{shown_at - begun:.0f} s: {self._state()}")
        self.finish()

    def _is_enough(self, readings: Readings, seconds: float) -> bool:
        """Whether it was long enough, or each reader has read often enough."""
        read = self._figures.of_readers(self._figures.rounds)
        if self._plan.rounds:
            for number, name in enumerate(self._plan.names):
                readings.ended[number] = read[name] >= self._plan.rounds
            return all(readings.ended[:]) or seconds > self._plan.seconds
        by_all = all(read[name] for name in self._plan.names)
        return seconds > self._plan.seconds + (0 if by_all else START_SECONDS)

    def _state(self) -> str:
        figures = self._figures
        rounds = ", ".join(f"{n} {name}" for name, n in figures.of_readers(figures.rounds).items())
        return f"{rounds}; {figures.wrong.total()} wrong, {len(self._waiting)} waiting"

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
            is_alone = ONE_REPLICA in reading.cause and not self._topics[reading.log].is_recreated
            if not reading.is_named or is_alone:
                self._blame(place, f"failed: {reading.cause}", 1, "")
            return
        self._figures.rounds[place] += 1
        for cause, count in reading.notes.items():
            self._figures.notes[f"{reading.reader}: {cause}"] += count
        if isinstance(reading, Call):
            self._take_call(reading, place)
            return
        rows = reading.hits if isinstance(reading, Findings) else reading.rows
        self._figures.records[place] += 0 if rows is None else len(rows)
        self._figures.seconds[reading.reader] += reading.ended - reading.began
        self._waiting.append(reading)

    def _take_call(self, reading: Call, place: str) -> None:
        self._figures.seconds[reading.reader] += reading.seconds
        if reading.claims and self._are_of_cuts(reading):
            self._figures.notes[CLAIMED] += 1
        else:
            for kind, count in reading.wrong.items():
                self._blame(place, kind, count, f"{reading.claims[:5]}" if reading.claims else "")
        self._waiting += [each for each in reading.extents if each.log in self._topics]
        topic = self._topics[reading.log]
        is_said = POLICY in reading.settings
        if is_said and topic.is_recreated and reading.settings[POLICY] != topic.config[POLICY]:
            self._figures.unjudged[place] += 1  # by the metadata it is gone
        elif is_said:
            for name, value in topic.config.items():
                if reading.settings.get(name) != value:
                    self._blame(place, f"another value of {name}", 1, "")

    def _are_of_cuts(self, reading: Call) -> bool:
        """Whether an audit claims nothing but what unclean elections leave."""
        histories = (each for each in self._truth.histories[reading.log] if each.cuts)
        return any(
            judge.are_of_cuts(reading.claims, each.tails[LEVELS[0]].got, each.cuts)
            for each in histories
        )

    def _retry(self) -> None:
        """Judge those that can be judged now."""
        self._waiting = [reading for reading in self._waiting if not self._judged(reading)]

    def _judged(self, reading: Reading | Findings) -> bool:
        if time.monotonic() < reading.ended + SETTLE_SECONDS:
            return False
        if isinstance(reading, Findings):
            self._decide_findings(reading)
            return True
        histories = self._truth.of(reading.log, reading.topic_ids, reading.began)
        tails = [history.tails[reading.isolation] for history in histories]
        place = f"{reading.reader} {reading.log} {reading.isolation}"
        ready = [
            history
            for history, tail in zip(histories, tails, strict=True)
            if tail.reached >= reading.bound
        ]
        if len(ready) < len(tails) and not all(tail.is_closed for tail in tails):
            if time.monotonic() < reach_until(reading.ended, self._up_since()):
                return False
            if not ready:
                self._blame(place, "a bound that no consumer reaches", 1, f"bound {reading.bound}")
                return True
        if not ready:
            self._figures.unjudged[place] += 1
            return True
        self._decide(reading, place, ready)
        return True

    def _decide(self, reading: Reading, place: str, histories: list[History]) -> None:
        compacted = self._topics[reading.log].is_compacted
        tails = [history.tails[reading.isolation] for history in histories]
        judged = []
        for history, tail in zip(histories, tails, strict=True):
            known, slow = tail.reached_at(reading.began), tail.slow_until
            ask = partial(
                judge.differences,
                reading,
                tail.got,
                is_compacted=compacted,
                known=known,
                may_lag=AT in reading.reader,
            )
            cut = ask(slow=slow)
            wrong = ask(slow=slow, cuts=history.cuts)
            self._figures.notes[CUT] += cut[judge.LOST] - wrong[judge.LOST]
            if slow:
                self._figures.notes[SLOW] += ask()[judge.LOST] - cut[judge.LOST]
            wrong += judge.age(reading, tail.reached_at(reading.began - self._plan.late_seconds))
            judged.append(wrong)
            if compacted and reading.rows is not None:
                late = slow if AT in reading.reader else 0
                self._figures.notes[UNSEEN] += len(judge.unseen(reading, tail.got, known, late))
        least = min(judged, key=Counter.total)
        if reading.rows is not None:
            bounds = (reading.start, reading.bound)
            self._figures.states.add((reading.log, reading.topic_ids, bounds, len(reading.rows)))
        for kind, count in least.items():
            more = f"[{reading.start}, {reading.bound})"
            if kind == judge.UNKNOWN:
                more += f": {self._unknown(reading)}"
            elif kind in judge.OF_STATES and reading.is_state:
                own = tails[judged.index(least)]
                more += f": without {judge.lacking(reading, own.got)}"
            self._blame(place, kind, count, more)

    def _unknown(self, reading: Reading) -> str:
        """The rows that the reading's consumer did not get, and of those whether another one got
        them, who takes records of aborted transactions, too.
        """
        everything, _ = LEVELS
        tails = self._truth.histories[reading.log][-1].tails
        own, others = (
            tails[level].got.rows[:, OFFSET].tolist() for level in (reading.isolation, everything)
        )
        assert reading.rows is not None
        unknown = [row for row in reading.rows.tolist() if row[OFFSET] not in set(own)]
        taken = sum(row[OFFSET] in set(others) for row in unknown)
        return f"{unknown[:5]}, {taken} of {len(unknown)} got by {everything}"

    def _decide_findings(self, findings: Findings) -> None:
        """Judge a search; of a log that keeps what is newest also what it did not find."""
        place = f"{findings.reader} {findings.log}"
        everything, committed = LEVELS
        histories = [
            history.tails[everything]
            for history in self._truth.histories[findings.log]
            if history.topic_id in findings.topic_ids
        ]
        # What they got later, a cleaner may have removed before.
        known = [(tail.got, tail.reached_at(findings.began)) for tail in histories]
        wrong = judge.invented(findings, known)
        keeps = self._topics[findings.log].is_compacted_only and findings.is_whole
        tails = [
            history.tails[committed]
            for history in self._truth.of(findings.log, findings.topic_ids, findings.began)
        ]
        if not tails:
            self._figures.unjudged[place] += 1
        elif keeps and len(findings.topic_ids) == 1:
            judged = [
                judge.missed(
                    findings,
                    tail.got,
                    known=tail.reached_at(findings.began),
                    slow=tail.slow_until,
                )
                for tail in tails
            ]
            least = min(judged, key=Counter.total)
            wrong += least
        for kind, count in wrong.items():
            self._blame(place, kind, count, f"of {len(findings.keys)} keys")

    def _blame(self, place: str, kind: str, count: int, more: str) -> None:
        wrong = f"{place}: {kind}"
        if wrong not in self._figures.wrong:
            self._figures.shown.append(f"{wrong} ({count}) {more}".strip())
            self._plan.say(f"! {self._figures.shown[-1]}")
        self._figures.wrong[wrong] += 1
