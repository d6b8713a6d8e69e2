"""The file of a cluster whose brokers are maintained one after another (docs/rolling.md)::

version: 1
bootstrap_servers: [kafka-1:9092, kafka-2:9092, kafka-3:9092]
client_config: client.properties       # settings of librdkafka
state: /var/lib/logwright/rolling      # what a run that was killed continues from
stop: ssh kafka-{id} sudo systemctl stop kafka
start: ssh kafka-{id} sudo systemctl start kafka
run_with: ssh -tt kafka-{id}           # before each command of logwright
maintain: [clean --policies /etc/logwright/policies --retain, purge]
windows: ["Sat,Sun 01:00-06:00"]
brokers:
  - {id: 1, log_dirs: [/kafka/data]}
  - {id: 2, log_dirs: [/kafka/data]}
  - {id: 3, log_dirs: [/kafka/data], start: ssh kafka-3 sudo /opt/start-kafka}
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from logwright.config.key_words import key_source
from logwright.config.marked import read_marked
from logwright.config.policy_checks import Checker
from logwright.config.values import Int32, contradiction
from logwright.config.windows import Window, Zone
from logwright.errors import PolicyError
from logwright.times import duration_ms

MAINTENANCE: Final = ("roll", "clean", "retain", "purge", "maintain", "erase", "verify")
"""The commands of logwright that may stand in ``maintain``."""
AT_ONCE: Final = "--now-and-for-good"
"""The option of ``erase`` with which it appends nothing."""
ID: Final = "{id}"
"""Stands for the broker's id in every command."""

_FROZEN: Final = ConfigDict(frozen=True, extra="forbid")
_MOST_PROBLEMS: Final = 20
_Path = Annotated[str, Field(min_length=1, max_length=4096)]


def _words(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return tuple(shlex.split(value))
    except ValueError as error:
        raise ValueError(f"is not a command: {error}") from error


def _milliseconds(value: object) -> object:
    if not isinstance(value, str):
        return value
    found_ms = duration_ms(value)
    if found_ms is None:
        raise ValueError("is not a duration such as 90s, 10min or 4h")
    return found_ms


Words = Annotated[
    tuple[Annotated[str, Field(max_length=8192)], ...],
    BeforeValidator(_words),
    Field(min_length=1, max_length=1000),
]
"""A command: a list of words, or one text with a shell's quotes. No shell runs it."""
Milliseconds = Annotated[int, BeforeValidator(_milliseconds), Field(ge=1, le=31_622_400_000)]
"""A duration such as ``10min``, in ms."""


class Limits(BaseModel):
    """How long each part of a broker's maintenance may take, as durations such as ``10min``.

    Attributes:
        stop: of the stop hook, ms.
        lock: until the broker has given its log directories free after it, ms.
        maintain: of all commands of logwright together, ms.
        start: of the start hook, and again until the broker is back in the cluster, ms.
        in_sync: until the broker is in all ISRs that it should be in, ms.
    """

    model_config = _FROZEN
    stop: Milliseconds = 600_000
    lock: Milliseconds = 300_000
    maintain: Milliseconds = 14_400_000
    start: Milliseconds = 600_000
    in_sync: Milliseconds = 3_600_000

    @property
    def away_ms(self) -> int:
        """How long a broker can be away at most: it is started twice if the first time fails."""
        return self.stop + 2 * self.lock + self.maintain + 2 * (self.lock + 2 * self.start)


def _appends(words: Sequence[str]) -> bool:
    """Return whether a command appends records."""
    return words[0] == "erase" and AT_ONCE not in words


class Commands(BaseModel):
    """The commands of one broker, or those of all that have none of their own.

    Attributes:
        stop: the stop hook; it ends when the broker has been asked to stop, or has stopped.
        start: the start hook; it must do no harm to a broker that runs.
        run_with: stands before each command of logwright, to run it where the log directories are.
        logwright: the program; by default the one of this installation, with `run_with` the first
            on the PATH of the other machine.
        maintain: what is run for each log directory while the broker is away: commands of logwright
            with their options, without the directory. ``erase`` by tombstones is not run there.
    """

    model_config = _FROZEN
    stop: Words | None = None
    start: Words | None = None
    run_with: Words | None = None
    logwright: Words | None = None
    maintain: tuple[Words, ...] | None = None

    @model_validator(mode="after")
    def _maintains(self) -> Self:
        for words in self.maintain or ():
            if words[0] not in MAINTENANCE:
                raise contradiction(f"each begins with {', '.join(MAINTENANCE)}", "maintain")
        for words in self.through_the_cluster:
            try:
                key_source(words)
            except ValueError as error:
                raise contradiction(f"erase {error}", "maintain") from error
        if self.through_the_cluster and not self.on_directories:
            raise contradiction(
                f"erase without {AT_ONCE} only produces tombstones: give what is run on each log"
                " directory, too, such as clean or maintain",
                "maintain",
            )
        return self

    @property
    def through_the_cluster(self) -> tuple[Words, ...]:
        """The erasures of `maintain` whose tombstones are produced through the cluster: only a
        leader appends.
        """
        return tuple(each for each in self.maintain or () if _appends(each))

    @property
    def on_directories(self) -> tuple[Words, ...]:
        """The commands of `maintain` that are run on each log directory."""
        return tuple(each for each in self.maintain or () if not _appends(each))


class ClusterBroker(Commands):
    """A broker.

    Attributes:
        id: its ``node.id``.
        log_dirs: its log directories, as logwright sees them.
    """

    id: Annotated[Int32, Field(ge=0)]
    log_dirs: Annotated[tuple[_Path, ...], Field(min_length=1)]


class Cluster(Commands):
    """A file of a cluster; see the module.

    Attributes:
        version: of the file's form.
        bootstrap_servers: addresses of brokers; name several, since each is away once.
        client_config: a file of librdkafka's settings, such as those of TLS and SASL.
        state: directory of the journal and the lock, outside of all log directories.
        coordinate: each ``clean`` keeps the tombstones and markers that a replica of another broker
            may need (docs/adr/0030); the log directories of all must be on this machine.
        limits: time limits.
        windows: when a broker may be stopped; at any time by default.
        time_zone: of the windows.
        brokers: all that are maintained.
    """

    version: Literal["1"]
    bootstrap_servers: Annotated[
        tuple[Annotated[str, Field(min_length=1)], ...], Field(min_length=1)
    ]
    client_config: _Path | None = None
    state: _Path
    coordinate: bool = False
    limits: Limits = Field(default_factory=Limits)
    windows: tuple[Window, ...] = ()
    time_zone: Zone = "UTC"
    brokers: tuple[ClusterBroker, ...]

    @model_validator(mode="after")
    def _brokers_are_whole(self) -> Self:
        ids = [broker.id for broker in self.brokers]
        if not ids:
            raise contradiction("name at least one broker", "brokers")
        if len(set(ids)) < len(ids):
            raise contradiction("two brokers have the same id", "brokers")
        for name in ("stop", "start", "maintain"):
            if any(not (getattr(each, name) or getattr(self, name)) for each in self.brokers):
                raise contradiction(f"a broker has no {name}, nor has the cluster", "brokers")
        if self.coordinate and any(each.run_with or self.run_with for each in self.brokers):
            raise contradiction(
                "needs the log directories of all brokers on this machine, without run_with",
                "coordinate",
            )
        return self

    def commands_of(self, broker: ClusterBroker) -> Commands:
        """Return the broker's commands: its own, else the cluster's; with its id in them."""
        chosen = {
            name: getattr(broker, name) or getattr(self, name) for name in Commands.model_fields
        }
        named = {
            name: words and with_id(words, broker.id)
            for name, words in chosen.items()
            if name != "maintain"
        }
        maintain = tuple(with_id(words, broker.id) for words in chosen["maintain"] or ())
        return Commands(**named, maintain=maintain)


def with_id(words: Sequence[str], broker: int) -> tuple[str, ...]:
    """Return the words with a broker's id in place of `ID`."""
    return tuple(word.replace(ID, str(broker)) for word in words)


def read_cluster(path: Path) -> Cluster:
    """Read the file of a cluster. Effects: reads it.

    Raises:
        PolicyError: it cannot be read or is invalid; a line per problem, with its position.
    """
    document, problems = read_marked(path)
    checker = Checker()
    checker.problems += problems
    cluster = checker.model(Cluster, document)
    if checker.problems or cluster is None:
        lines = [str(problem) for problem in sorted(checker.problems, key=lambda each: each.mark)]
        more = len(lines) - _MOST_PROBLEMS
        ending = [f"… and {more} more problems"] if more > 0 else []
        raise PolicyError("\n".join([*lines[:_MOST_PROBLEMS], *ending]))
    return cluster
