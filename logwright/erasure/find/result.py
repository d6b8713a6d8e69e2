"""What a search is given, and what it returns."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from logwright.erasure.find.model import Finding, Looked
from logwright.erasure.outlook.upkeep import Upkeep
from logwright.format.names import TopicPartition
from logwright.log.model import PartitionLog
from logwright.place.model import Place
from logwright.state.erasure_mark import Erasure
from logwright.state.model import Hold

if TYPE_CHECKING:
    from logwright.config.broker import BrokerConfig
    from logwright.config.topic import CleanerConfig, TopicConfig
    from logwright.erasure.keys import KeySet
    from logwright.log.committed import HighWatermark
    from logwright.metadata.model import ClusterMetadata


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of a log directory.

    Attributes:
        of_topic: a topic's settings.
        broker: the broker's own.
        now_ms: the clock, ms since the epoch.
        high_watermark: what counts as committed.
        upkeep: how logs are maintained, as far as that is so of each.
        metadata: of the cluster, None: unknown.
    """

    of_topic: Callable[[str], tuple[TopicConfig, CleanerConfig]]
    broker: BrokerConfig
    now_ms: int
    high_watermark: HighWatermark
    upkeep: Upkeep = field(default_factory=Upkeep)
    metadata: ClusterMetadata | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsearched:
    """A place where records can be and that was not searched: a file, a part of one, or a place
    that is not in the directory, such as remote storage.

    Attributes:
        partition: whose records can be in it; an empty topic: any.
        path: relative to the directory.
        position, bytes: of the part; 0 and -1 for the whole file, or what is not a file.
        problem: why.
    """

    partition: TopicPartition
    path: str
    position: int
    bytes: int
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveHits:
    """The records of a live log that were found.

    Attributes:
        log: as it was observed.
        hits: HIT[n]. batches: BATCH[m]. markers: int64[k, 3], of the whole log.
        hold: why the log is not maintained now, None if it is.
        deadlines: int64[n], the first of the stored requests for the record's key, INT64_MAX: none.
    """

    log: PartitionLog
    hits: NDArray[np.void]
    batches: NDArray[np.void]
    markers: NDArray[np.int64]
    deadlines: NDArray[np.int64]
    hold: Hold | None = None


@dataclass(slots=True, kw_only=True)
class SearchResult:
    """The result for one directory.

    Attributes:
        directory: as given.
        findings: sorted by path and offset.
        unsearched: what could not be searched.
        undecided: log → why it is not maintained, or why its settings or its state are not known:
            what removes its records is not known either.
        live: the live logs with findings.
        looked: path → how the file was looked at, of every file: with `unsearched` the account.
        topics: of which the directory has a log, live or not, or the record of a deletion.
        deleted: of these, those of which the deletion of a log is on record.
        erased: topic → key, as `Secret.short` has it, → its last erasure that is on record.
        shown: path → how it is shown, of each path of a table that has a key in it: findings and
            `unsearched` have what is shown.
        others: HMAC of a request → topic, empty: not known, → HMACs of other keys in it that are
            forms of the request's.
        unformed: HMACs of requests whose keys' other forms cannot be looked for.
        keys: topic, empty: not known, → keys of the records in which only a pattern was found;
            None: one has no key.
        files, bytes: of the account.
    """

    directory: Place
    findings: list[Finding] = field(default_factory=list)
    unsearched: list[Unsearched] = field(default_factory=list)
    undecided: dict[TopicPartition, str] = field(default_factory=dict)
    live: dict[TopicPartition, LiveHits] = field(default_factory=dict)
    looked: dict[str, Looked] = field(default_factory=dict)
    topics: set[str] = field(default_factory=set)
    deleted: set[str] = field(default_factory=set)
    erased: dict[str, dict[str, Erasure]] = field(default_factory=dict)
    shown: dict[str, str] = field(default_factory=dict)
    others: dict[str, dict[str, set[str]]] = field(default_factory=dict)
    unformed: set[str] = field(default_factory=set)
    keys: dict[str, set[bytes | None]] = field(default_factory=dict, repr=False)
    files: int = 0
    bytes: int = 0

    def add_others(self, keys: KeySet, topic: str, others: Iterable[tuple[int, str]]) -> None:
        """Add other forms of requested keys in a topic.

        Args:
            others: index of the request, and HMAC of the other key.
        """
        for request, hmac in others:
            of = keys.request(request).hmac.hex()
            self.others.setdefault(of, {}).setdefault(topic, set()).add(hmac)
