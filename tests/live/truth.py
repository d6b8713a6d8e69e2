"""What real consumers got: of each topic, two of them read from the first offset on, one of each
isolation level, and note every record at once.
"""

from __future__ import annotations

import threading
import time
from array import array
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf

import numpy as np
from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from logwright.units import INT64_MAX
from tests.live.broker import QUIET
from tests.live.got import Got
from tests.live.rows import KEY, LEVELS, OFFSET, TIME, Cut, Isolation, Rows, row_of, rows_of, within

POLL_SECONDS = 0.1
REACH_SECONDS = 30.0
MOST = 500
"""Records of one poll."""
SLOW_SECONDS = 1.0
"""A cleaner needs longer to remove a tombstone: its segment is rolled after 1.5 s, see `load`."""


@dataclass(slots=True)
class Pace:
    """When the consumers of a topic were last slow, by the monotonic clock. One of read_uncommitted
    says it: the others wait for the ends of transactions, as the cleaner does.
    """

    slow_at: float = -inf


class Tail:
    """A consumer of one topic that notes what it gets. Effects: a thread, ended by `close`."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        isolation: Isolation,
        pace: Pace,
        before: Rows | None = None,
    ) -> None:
        """`before`: what came before, of a log that continues as another one; else none."""
        self._pace = pace
        self._says_pace = isolation == LEVELS[0]
        self._config = {
            "bootstrap.servers": bootstrap,
            "group.id": "none",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 50,
            "auto.offset.reset": "earliest",
            "reconnect.backoff.max.ms": 500,
            **QUIET,
        }
        self._topic = topic
        self.got = Got(before)
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._times = array("d", [time.monotonic()])
        self._reached = array("q", [0 if before is None else int(before[-1, OFFSET]) + 1])
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    @property
    def reached(self) -> int:
        """It got everything below this offset."""
        return self._reached[-1]

    def reached_at(self, moment: float) -> int:
        """What it had reached at a time of the monotonic clock."""
        with self._lock:
            return self._reached[max(bisect_right(self._times, moment) - 1, 0)]

    @property
    def slow_until(self) -> int:
        """Of what is below this offset it may have missed tombstones."""
        return self.reached_at(self._pace.slow_at + SLOW_SECONDS)

    @property
    def is_closed(self) -> bool:
        """Whether it gets no more."""
        return self._stop.is_set() and not self._thread.is_alive()

    def close(self) -> None:
        """End it."""
        self._stop.set()
        self._thread.join()

    def _follow(self) -> None:
        consumer = Consumer(self._config)
        consumer.assign([TopicPartition(self._topic, 0, self.reached)])
        while not self._stop.is_set():
            messages = consumer.consume(MOST, POLL_SECONDS)
            if messages:
                self._note(messages)
        consumer.close()

    def _note(self, messages: list[Message]) -> None:
        reached = self.reached
        rows: list[tuple[int, ...]] = []
        for message in messages:
            error, offset = message.error(), message.offset()
            assert offset is not None
            if error is None:
                _, time_ms = message.timestamp()
                rows.append(row_of(offset, message.key(), message.value(), time_ms))
                reached = offset + 1
            elif error.code() == KafkaError._PARTITION_EOF:
                reached = max(reached, offset)
        self.got.extend(rows_of(rows))
        if self._says_pace and rows and time.time() - rows[0][TIME] / 1000 > SLOW_SECONDS:
            self._pace.slow_at = time.monotonic()
        with self._lock:
            if reached > self._reached[-1]:
                self._times.append(time.monotonic())
                self._reached.append(reached)


@dataclass(slots=True)
class History:
    """What consumers got of one topic, from its creation to its deletion, or to an election after
    which its log continues as another one.

    Attributes:
        tails: the consumer of each isolation level.
        until: readings that begin later, by the monotonic clock, cannot be of it.
        cuts: what elections cut off before it.
    """

    topic_id: str
    tails: dict[Isolation, Tail]
    until: float = inf
    cuts: tuple[Cut, ...] = ()


@dataclass(slots=True)
class Truth:
    """Of each log its histories, the newest last."""

    bootstrap: str
    histories: dict[str, list[History]] = field(default_factory=dict)

    def follow(self, topic: str, topic_id: str) -> None:
        """Begin with a topic that was created just now."""
        pace = Pace()
        tails = {level: Tail(self.bootstrap, topic, level, pace) for level in LEVELS}
        self.histories.setdefault(f"{topic}-0", []).append(History(topic_id, tails))

    def branch(self, topic: str, end: int) -> History:
        """Begin again with a topic that has lost everything from `end` on; its old history."""
        old, pace = self.histories[f"{topic}-0"][-1], Pace()
        tails = {
            level: Tail(self.bootstrap, topic, level, pace, within(tail.got.rows, 0, end))
            for level, tail in old.tails.items()
        }
        lost = within(old.tails[LEVELS[0]].got.rows, end, INT64_MAX)
        cuts = (*old.cuts, Cut(end=end, keys=np.unique(lost[:, KEY])))
        self.histories[f"{topic}-0"].append(History(old.topic_id, tails, cuts=cuts))
        return old

    def close(self, log: str | None = None) -> None:
        """End the consumers of a log, or all."""
        for name, histories in self.histories.items():
            if log in (None, name):
                for history in histories:
                    for tail in history.tails.values():
                        tail.close()

    def reach(self, log: str, isolation: Isolation, end: int) -> None:
        """Wait until the consumer of the topic as it is now has everything below `end`."""
        tail = self.histories[log][-1].tails[isolation]
        deadline = time.monotonic() + REACH_SECONDS
        while tail.reached < end:
            assert time.monotonic() < deadline, f"{tail.reached} of {end} of {log}"
            time.sleep(0.05)

    def of(self, log: str, topic_ids: Sequence[str], began: float) -> list[History]:
        """What a reading that began at a time can be of: there may be none."""
        return [
            history
            for history in self.histories[log]
            if history.topic_id in topic_ids and began < history.until
        ]
