"""One call of a command on a log directory: the options that most commands have, resolved."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal, NotRequired, TypedDict

import click

from logwright.cli.failures import FailureLog
from logwright.cli.output import Output
from logwright.cli.refused import only_here
from logwright.cli.statuses import STOPPED
from logwright.cli.streams import confirmed
from logwright.config.broker import BrokerConfig
from logwright.config.kafka_version import BY_NAME, NEWEST
from logwright.config.policies import Policies, load_policies
from logwright.config.resolved import Sources, effective_pairs, settings_of
from logwright.config.sources import read_sources, served_topic_id, stray_partition
from logwright.config.topic import CleanerConfig, TopicConfig, broker_settings, effective, overlay
from logwright.config.without_effect import warn_of_no_effect
from logwright.errors import LogwrightError, NotALogDir, UnsupportedFormatError
from logwright.format.names import TopicPartition
from logwright.log.committed import HighWatermark
from logwright.log.load import list_partitions
from logwright.place.model import Place, is_local, is_versioned, narrowed
from logwright.tier.place import TieredPlace
from logwright.units import TimestampMs

Engine = Literal["local", "spark"]
BY_DEFAULT: Final = "the default of the command line"
"""Neither an option nor the policies say it."""
_NS_PER_MS: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One call of a command.

    Attributes:
        place: the log directory; `log_dir` is the same for what needs one of this machine.
        named: the partitions given as TOPIC-N; empty = all of the directory.
        config: the pairs of ``--config``.
        policies: the policies of ``--policies``, None if not given; policies_dir: their directory.
        metadata: the directory of ``--metadata``.
        find_metadata: search for the metadata if ``--metadata`` is not given.
        properties: the file of ``--server-properties``.
        kafka_version: the name of ``--kafka-version``.
        now_ms: the clock of every decision and every durable record.
        high_watermark: what counts as committed: ``--high-watermark``, else the policies' value,
            else ``recorded``; high_watermark_from: which of these it is.
        yes: do not ask.
        dry_run: stop after the plan.
        failures: the errors of single partitions.
        changed: the partitions whose change is complete: what an interrupted command has done.
    """

    place: Place
    named: tuple[TopicPartition, ...]
    config: Mapping[str, str]
    policies: Policies | None
    policies_dir: Path | None
    metadata: Path | None
    find_metadata: bool
    properties: Path | None
    kafka_version: str | None
    now_ms: TimestampMs
    high_watermark: HighWatermark
    high_watermark_from: str
    engine: Engine
    yes: bool
    dry_run: bool
    output: Output
    failures: FailureLog
    changed: list[TopicPartition] = field(default_factory=list)
    _sources: list[Sources] = field(default_factory=list, repr=False)
    _parsed: dict[str, tuple[TopicConfig, CleanerConfig]] = field(default_factory=dict, repr=False)

    @property
    def log_dir(self) -> Path:
        """The log directory.

        Raises:
            click.UsageError: it is not of this machine.
        """
        return local_directory(self.place)

    @property
    def changeable(self) -> Place:
        """The log directory, which can be changed: of this machine, or in a bucket.

        Raises:
            click.UsageError: it can only be read.
        """
        return self.place if is_versioned(self.place) else self.log_dir

    def sources(self) -> Sources:
        """Return all sources of settings. Effects: reads them, once.

        Raises:
            LogwrightError: as `logwright.config.sources.read_sources`.
        """
        if not self._sources:
            self._sources.append(
                read_sources(
                    self.place,
                    policies=self.policies or Policies(),
                    command_line=self.config,
                    metadata=self.metadata,
                    find=self.find_metadata,
                    properties=self.properties,
                    kafka_version=self.kafka_version,
                )
            )
        return self._sources[0]

    def of(self, place: Place) -> Request:
        """Return the same request for another log directory."""
        return replace(self, place=place, _sources=[], _parsed={})

    def settings(self, topic: str) -> tuple[TopicConfig, CleanerConfig]:
        """Return the effective settings of a topic, see `logwright.config.resolved`. Effects: as
        `sources`.

        Raises:
            PolicyError: a setting is invalid.
            LogwrightError: as `sources`.
        """
        if topic not in self._parsed:
            self._parsed[topic] = settings_of(self.sources(), topic)
        return self._parsed[topic]

    def cleaner(self, topic: str) -> CleanerConfig:
        """Return the settings that a read of a topic needs: the default ones if it is in tiered
        storage and is read from there, too. Effects and errors: as `settings`.
        """
        try:
            return self.settings(topic)[1]
        except UnsupportedFormatError:
            if isinstance(self.place, TieredPlace):
                return CleanerConfig()
            raise

    def stray(self, partition: TopicPartition) -> str | None:
        """Return why a broker would not serve a partition from this directory; None if it would, or
        without cluster metadata. Effects: as `sources`; reads its topic id.

        Raises:
            LogwrightError: as `sources`, and `read_topic_id`.
        """
        return stray_partition(self.sources(), self.place, partition)

    def topic_id(self, partition: TopicPartition) -> str | None:
        """Return the id of a partition's topic by the sources of the settings; None if they do not
        have it, or cannot be read. Effects: as `sources`.
        """
        try:
            return served_topic_id(self.sources(), partition)
        except LogwrightError:
            return None

    def broker(self) -> BrokerConfig:
        """Return the broker's own settings. Effects: as `sources`.

        Raises:
            PolicyError: a setting is invalid.
            LogwrightError: as `sources`.
        """
        return broker_settings(effective_pairs(self.sources()))

    def gives(self, *names: str) -> bool:
        """Return whether ``--config`` has one of these settings."""
        return not self.config.keys().isdisjoint(names)

    def check_settings(self) -> None:
        """Refuse invalid settings before reading the log directory. Effects: warns about settings
        without effect.

        Raises:
            PolicyError: ``--config`` is invalid, alone or over the policies' defaults.
        """
        pairs = overlay((self.policies or Policies()).defaults, self.config)
        effective(pairs, BY_NAME.get(self.kafka_version or "", NEWEST))
        warn_of_no_effect(self.config)

    def partitions(self, *, absent: bool = False) -> tuple[TopicPartition, ...]:
        """Return the partitions to work on, sorted. Effects: lists the log directory.

        Args:
            absent: leave out named partitions that do not exist, instead of refusing them.

        Raises:
            NotALogDir: it is not a log directory, or a named partition does not exist.
        """
        present = tuple(list_partitions(self.place))
        if not self.named:
            return present
        if absent:
            return tuple(sorted(set(self.named).intersection(present)))
        for partition in self.named:
            if partition not in present:
                raise NotALogDir(
                    f"has no partition {partition}.",
                    path=self.place,
                    remedy="`logwright inspect` lists the partitions.",
                )
        return tuple(sorted(set(self.named)))

    def absent(self) -> frozenset[TopicPartition]:
        """Return the named partitions that do not exist. Effects: lists the log directory.

        Raises:
            NotALogDir: it is not a log directory.
        """
        return frozenset(self.named) - set(self.partitions(absent=True))

    def is_wanted(self, partition: TopicPartition) -> bool:
        """Return whether the command is about a partition."""
        return not self.named or partition in self.named

    def require_terminal(self, *, versioned: bool = False) -> None:
        """Require a directory that can be changed, and ``--yes`` or a terminal, for a command that
        changes the log directory.

        Args:
            versioned: the command changes logs in a bucket, too.

        Raises:
            click.UsageError: it is not of this machine; neither ``--yes`` nor a terminal.
        """
        if not (versioned and is_versioned(self.place)):
            local_directory(self.place)
        if not (self.yes or self.dry_run or sys.stdin.isatty()):
            raise click.UsageError(
                "this changes the log directory: give --yes, or run it in a terminal"
            )

    def confirm(self, question: str, lines: Iterable[str] = ()) -> None:
        """Show the lines and ask, unless ``--yes`` was given. Effects: output; reads the terminal;
        exits if declined.
        """
        if self.yes:
            return
        for line in lines:
            self.output.message(line)
        if not confirmed(question):
            self.output.message("Nothing was changed.")
            raise click.exceptions.Exit(STOPPED)


class Given(TypedDict):
    """Values of the options that each request has, as click passes them."""

    log_dir: Place
    named: NotRequired[tuple[TopicPartition, ...]]
    config: tuple[tuple[str, str], ...]
    policies_dir: Path | None
    metadata: Path | None
    no_metadata: bool
    properties: Path | None
    kafka_version: str | None
    now_ms: int | None
    high_watermark: HighWatermark | None
    engine: Engine
    yes: NotRequired[bool]
    dry_run: NotRequired[bool]


def local_directory(place: Place) -> Path:
    """Return a log directory for what needs one of this machine: its locks, its other files, or to
    change it.

    Raises:
        click.UsageError: it is in another place.
    """
    if is_local(place):
        return place
    raise only_here(place)


def committed_by(
    option: HighWatermark | None, policies: Policies | None
) -> tuple[HighWatermark, str]:
    """Return what counts as committed, and what says so: the default is the same with and without
    policies.
    """
    if option is not None:
        return option, f"--high-watermark {option}"
    own = None if policies is None else policies.own_high_watermark
    if own is not None:
        return own, f"high_watermark: {own} of the policies"
    return "recorded", BY_DEFAULT


def request_of(given: Given, output: Output) -> Request:
    """Return the request of a call. Effects: loads the policies; warns of settings without effect.

    Raises:
        click.UsageError: options contradict each other.
        PolicyError: the policies or ``--config`` are invalid.
    """
    if given["metadata"] is not None and given["no_metadata"]:
        raise click.UsageError("--metadata and --no-metadata contradict each other")
    now_ms, directory = given["now_ms"], given["policies_dir"]
    policies = None if directory is None else load_policies(directory)
    high_watermark, high_watermark_from = committed_by(given["high_watermark"], policies)
    request = Request(
        place=narrowed(given["log_dir"], partitions=given.get("named", ())),
        named=given.get("named", ()),
        config=dict(given["config"]),
        policies=policies,
        policies_dir=directory,
        metadata=given["metadata"],
        find_metadata=not given["no_metadata"],
        properties=given["properties"],
        kafka_version=given["kafka_version"],
        now_ms=TimestampMs(time.time_ns() // _NS_PER_MS if now_ms is None else now_ms),
        high_watermark=high_watermark,
        high_watermark_from=high_watermark_from,
        engine=given["engine"],
        yes=given.get("yes", False),
        dry_run=given.get("dry_run", False),
        output=output,
        failures=FailureLog(output=output),
    )
    request.check_settings()
    return request
