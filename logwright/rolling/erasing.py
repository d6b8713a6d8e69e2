"""The erasures by tombstones of a cluster's file, done through the cluster: before a run stops its
first broker, each requested key that is alive gets a tombstone in its partition.

1. Only a leader appends: a record that is put into one replica takes the place of one that the
   leader acknowledges (`logwright.ingest.replicated`). So the tombstones are produced.
2. The keys are looked for by a consumer: requests have HMACs of keys, and a consumer has the keys.
   It reads what the leaders have, also of brokers whose log directories are on other machines
   (docs/adr/0069).
3. Partition by partition, so that little time is between the look and the tombstone: a value that
   an application produces in between is deleted, too.
4. Each run looks again. So nothing of it is in the journal.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, Final

import numpy as np

from logwright.config.key_words import key_source
from logwright.erasure.keys import Keys
from logwright.erasure.wanted import read_key_set
from logwright.rolling.tombstones import (
    KeyRecord,
    Lacking,
    concerned,
    latest,
    left_alone,
    not_looked_at,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa

    from logwright.config.cluster import Words
    from logwright.erasure.keys import KeySet
    from logwright.rolling.broker import Site
    from logwright.rolling.model import PartitionNow

_DECIDED_SECONDS: Final = 90.0
"""How long open transactions are waited for: ``transaction.timeout.ms`` of a producer is one minute
by default (KIP-98), and a coordinator looks each ten seconds.
"""
_POLL_SECONDS: Final = 0.5


def _quiet(lacking: Lacking) -> None:
    del lacking


class ClusterErasures:
    """The erasures by tombstones of a file, for some of its brokers.

    Args:
        site: what the run works with.
        brokers: whose commands are meant; empty: all of the file.
        report: called with each partition that lacks tombstones; with those it then has, if they
            are produced.

    Attributes:
        complete: all that may have the keys was looked at, as far as this run has looked, and each
            broker could count the tombstones when it was stopped.
        reached: where the records of requested keys end, with the tombstones: offsets by partition.
        has_looked: it has produced what was lacking.
    """

    def __init__(
        self,
        site: Site,
        brokers: Collection[int] = (),
        *,
        report: Callable[[Lacking], None] = _quiet,
    ) -> None:
        self._site = site
        self._brokers = brokers
        self._report = report
        self.has_looked = False
        self.complete = True
        self.reached: dict[str, int] = {}

    @property
    def commands(self) -> tuple[Words, ...]:
        """The commands of the file, each once."""
        config = self._site.config
        every = [each.id for each in config.brokers]
        commands = [
            words
            for broker in self._brokers or every
            for words in config.commands_of(self._site.broker(broker)).through_the_cluster
        ]
        return tuple(dict.fromkeys(commands))

    def look(self) -> int:
        """Return how many tombstones are lacking. Effects: reads the files of keys, and the topics;
        reports.

        Raises:
            PolicyError: the keys, or a setting of the client, are not valid.
            ClusterUnavailable: the cluster does not respond.
        """
        return self._each(produce=False)

    def produce(self) -> bool:
        """Produce what is lacking, if this run has not yet; return whether it has looked now.
        Effects: as said, and as `look`; says what was done.

        Raises:
            PolicyError, ClusterUnavailable: as `look`; not all tombstones are acknowledged.
        """
        if self.has_looked or not self.commands:
            return False
        count = self._each(produce=True)
        self.has_looked = True
        self._say(f"{count} produced and acknowledged")
        return True

    def _each(self, *, produce: bool) -> int:
        count = 0
        for words in self.commands:
            keys = read_key_set(key_source(words, self._site.directory), self._say)
            if not len(keys):
                self._say("there are no requests")
                continue
            for lacking in self._of(keys, produce=produce):
                if lacking.keys:
                    self._report(lacking)
                count += len(lacking.keys)
        return count

    def _of(self, keys: KeySet, *, produce: bool) -> Iterator[Lacking]:
        """Yield what was found in each partition; afterwards say what was not looked at."""
        where = concerned(self._site.admin.look(), keys)
        for sentence in left_alone(where):
            self._say(sentence.removesuffix("."))
        if where.partitions:
            topics = len({each.topic for each in where.partitions})
            self._say(f"looks for keys in {len(where.partitions)} partitions of {topics} topics")
        looked_at = []
        undecided = self._wait_for_transactions(where.partitions)
        for partition in where.partitions:
            unclear: set[str] = set()
            records = self._latest(partition, keys.for_topic(partition.topic), unclear)
            lacking = Lacking(
                partition=partition.name,
                keys=tuple(each.key for each in records if not each.deleted),
                undecided=undecided.get(partition.name),
                unclear=len(unclear),
            )
            if records:
                end = records[-1].offset + 1
                self.reached[partition.name] = max(end, self.reached.get(partition.name, 0))
            if produce and lacking.keys:
                self._site.topics.delete(partition, lacking.keys)
                self.reached |= self._site.topics.offsets([partition], "committed")
            looked_at.append(lacking)
            yield lacking
        for sentence in not_looked_at(where, looked_at):
            self.complete = False
            self._say(sentence.removesuffix("."))

    def _wait_for_transactions(self, partitions: Sequence[PartitionNow]) -> dict[str, int]:
        """Wait until what was committed at the beginning is decided, too; return the last stable
        offsets of partitions where it is not. Effects: as said.
        """
        if not partitions:
            return {}
        topics, deadline = self._site.topics, time.monotonic() + _DECIDED_SECONDS
        committed = topics.offsets(partitions, "committed")
        while True:
            decided = topics.offsets(partitions, "decided")
            behind = {name: at for name, at in decided.items() if at < committed[name]}
            if not behind or time.monotonic() > deadline:
                return behind
            time.sleep(_POLL_SECONDS)

    def _latest(
        self, partition: PartitionNow, keys: KeySet, unclear: set[str]
    ) -> tuple[KeyRecord, ...]:
        """Return the latest records of some keys in a partition; see `requested`. Effects: reads
        it.
        """
        topics = self._site.topics
        start = topics.offsets([partition], "first")[partition.name]
        end = topics.offsets([partition], "decided")[partition.name]
        batches = topics.read(partition, start, end)
        return latest(record for batch in batches for record in requested(batch, keys, unclear))

    def _say(self, text: str) -> None:
        self._site.say(f"tombstones: {text}")


def requested(batch: pa.RecordBatch, keys: KeySet, unclear: set[str]) -> Iterable[KeyRecord]:
    """Yield the records of requested keys among records that a consumer got, columns as
    `logwright.ingest.schema.COPIED`. Add the HMACs of keys that may be requested ones, or are in
    another form.
    """
    all_keys = batch.column("key").to_pylist()
    lengths = np.array([-1 if key is None else len(key) for key in all_keys], dtype=np.int64)
    ends = np.cumsum(np.maximum(lengths, 0))
    data = np.frombuffer(b"".join(key or b"" for key in all_keys), dtype=np.uint8)
    matching, answers = keys.search(Keys(data, ends - np.maximum(lengths, 0), lengths))
    unclear |= answers.undecoded
    unclear.update(hmac for _, hmac in answers.others)
    values, offsets = batch.column("value"), batch.column("offset")
    for row in np.flatnonzero(matching >= 0).tolist():
        yield KeyRecord(all_keys[row], not values[row].is_valid, offsets[row].as_py())
