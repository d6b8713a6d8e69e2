"""The arguments and options that every command has, validated and resolved into a `Request`."""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NotRequired, TypedDict, TypeVar, Unpack

import click

from logwright.cli.log_lines import LogFormat, log_format_option, log_to_stderr
from logwright.cli.output import Format, Output
from logwright.cli.parameters import Pair, Partition, kafka_version_option
from logwright.cli.statuses import STOPPED
from logwright.config.kafka_version import BY_NAME, NEWEST
from logwright.errors import LogwrightError, NotALogDir
from logwright.format.names import TopicPartition
from logwright.units import INT64_MAX, TimestampMs

if TYPE_CHECKING:
    from logwright.config.broker import BrokerConfig
    from logwright.config.policies import Policies
    from logwright.config.resolved import Sources
    from logwright.config.topic import CleanerConfig, TopicConfig

_R = TypeVar("_R")

Engine = Literal["local", "spark"]
_NS_PER_MS: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One call of a command.

    Attributes:
        log_dir: the log directory.
        named: the partitions given as TOPIC-N; empty = all of the directory.
        config: the pairs of ``--config``.
        policies: the policies of ``--policies``, None if not given; policies_dir: their directory.
        metadata: the directory of ``--metadata``.
        find_metadata: search for the metadata if ``--metadata`` is not given.
        properties: the file of ``--server-properties``.
        kafka_version: the name of ``--kafka-version``.
        now_ms: the clock of every decision and every durable record.
        high_watermark: what counts as committed: ``--high-watermark``, else the policies' value.
        yes: do not ask.
        dry_run: stop after the plan.
    """

    log_dir: Path
    named: tuple[TopicPartition, ...]
    config: Mapping[str, str]
    policies: Policies | None
    policies_dir: Path | None
    metadata: Path | None
    find_metadata: bool
    properties: Path | None
    kafka_version: str | None
    now_ms: TimestampMs
    high_watermark: Literal["end", "checkpoint"]
    engine: Engine
    yes: bool
    dry_run: bool
    output: Output
    _sources: list[Sources] = field(default_factory=list, repr=False)
    _parsed: dict[str, tuple[TopicConfig, CleanerConfig]] = field(default_factory=dict, repr=False)

    def sources(self) -> Sources:
        """Return all sources of settings. Effects: reads them, once.

        Raises:
            LogwrightError: as `logwright.config.sources.read_sources`.
        """
        from logwright.config.policies import Policies  # noqa: PLC0415 -- yaml: not for --help
        from logwright.config.sources import read_sources  # noqa: PLC0415

        if not self._sources:
            self._sources.append(
                read_sources(
                    self.log_dir,
                    policies=self.policies or Policies(),
                    command_line=self.config,
                    metadata=self.metadata,
                    find=self.find_metadata,
                    properties=self.properties,
                    kafka_version=self.kafka_version,
                )
            )
        return self._sources[0]

    def of(self, log_dir: Path) -> Request:
        """Return the same request for another log directory."""
        return replace(self, log_dir=log_dir, _sources=[], _parsed={})

    def settings(self, topic: str) -> tuple[TopicConfig, CleanerConfig]:
        """Return the effective settings of a topic, see `logwright.config.resolved`. Effects: as
        `sources`.

        Raises:
            PolicyError: a setting is invalid.
            LogwrightError: as `sources`.
        """
        from logwright.config.resolved import settings_of  # noqa: PLC0415 -- pydantic: not for --help

        if topic not in self._parsed:
            self._parsed[topic] = settings_of(self.sources(), topic)
        return self._parsed[topic]

    def broker(self) -> BrokerConfig:
        """Return the broker's own settings. Effects: as `sources`.

        Raises:
            PolicyError: a setting is invalid.
            LogwrightError: as `sources`.
        """
        from logwright.config.resolved import effective_pairs  # noqa: PLC0415 -- pydantic: not for --help
        from logwright.config.topic import broker_settings  # noqa: PLC0415

        return broker_settings(effective_pairs(self.sources()))

    def check_settings(self) -> None:
        """Refuse invalid settings before reading the log directory. Effects: warns about settings
        without effect.

        Raises:
            PolicyError: ``--config`` is invalid, alone or over the policies' defaults.
        """
        from logwright.config.policies import Policies  # noqa: PLC0415 -- yaml: not for --help
        from logwright.config.topic import effective, overlay  # noqa: PLC0415
        from logwright.config.without_effect import warn_of_no_effect  # noqa: PLC0415

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
        from logwright.log.load import list_partitions  # noqa: PLC0415

        present = tuple(list_partitions(self.log_dir))
        if not self.named:
            return present
        if absent:
            return tuple(sorted(set(self.named).intersection(present)))
        for partition in self.named:
            if partition not in present:
                raise NotALogDir(
                    f"has no partition {partition}.",
                    path=self.log_dir,
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

    def require_terminal(self) -> None:
        """Require ``--yes`` or a terminal for a command that changes the log directory.

        Raises:
            click.UsageError: neither ``--yes`` nor a terminal.
        """
        if not (self.yes or self.dry_run or sys.stdin.isatty()):
            raise click.UsageError(
                "this changes the log directory: give --yes, or run it in a terminal"
            )

    def confirm(self, question: str) -> None:
        """Ask, unless ``--yes`` was given. Effects: reads the terminal; exits if declined."""
        if self.yes:
            return
        if not click.confirm(question, err=True):
            self.output.message("Nothing was changed.")
            raise click.exceptions.Exit(STOPPED)


_PATH: Final = click.Path(path_type=Path)
_LOG_DIR: Final = click.Path(path_type=Path, readable=False)
"""click does not check it: an unreadable directory is not a usage error."""
_ARGUMENT: Final = click.argument("log_dir", metavar="LOG_DIR", type=_LOG_DIR)
_PARTITIONS: Final = click.argument("named", metavar="[TOPIC-N ...]", nargs=-1, type=Partition())
_MORE_DIRS: Final = click.argument("more_dirs", metavar="[LOG_DIR ...]", nargs=-1, type=_LOG_DIR)
_TOPICS: Final = click.argument("topics", metavar="[TOPIC ...]", nargs=-1)
_OPTIONS: Final = (
    click.option(
        "--config",
        "config",
        metavar="KEY=VALUE",
        type=Pair(),
        multiple=True,
        help="A topic or broker config by its Kafka name; repeatable; overrides --policies.",
    ),
    click.option(
        "--policies",
        "policies_dir",
        metavar="DIR",
        type=_PATH,
        help="Directory of YAML files with settings per topic.",
    ),
    click.option(
        "--metadata",
        metavar="DIR",
        type=_PATH,
        help="The cluster's __cluster_metadata-0 [default: search LOG_DIR and its siblings].",
    ),
    click.option(
        "--no-metadata",
        is_flag=True,
        help="Do not read cluster metadata.",
    ),
    click.option(
        "--server-properties",
        "properties",
        metavar="FILE",
        type=_PATH,
        help="The broker's server.properties.",
    ),
    kafka_version_option,
    click.option(
        "--now",
        "now_ms",
        metavar="MS",
        type=click.IntRange(0, INT64_MAX),
        help="Fix the clock, in ms since the epoch.",
    ),
    click.option(
        "--high-watermark",
        type=click.Choice(["end", "checkpoint"]),
        default=None,
        show_default="from --policies, else end",
        help="Committed up to the log end offset, or up to the high watermark checkpoint.",
    ),
    click.option("--yes", is_flag=True, help="Do not ask for confirmation."),
    click.option("--dry-run", is_flag=True, help="Stop after the plan."),
    click.option(
        "--output",
        "form",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        help="Output format; json prints one object per line.",
    ),
    log_format_option,
    click.option(
        "--verbose",
        is_flag=True,
        help="Debug messages on stderr; full details in inspect and plan.",
    ),
)


class _Given(TypedDict):
    """Values of the options above, as click passes them."""

    log_dir: Path
    named: NotRequired[tuple[TopicPartition, ...]]
    config: tuple[tuple[str, str], ...]
    policies_dir: Path | None
    metadata: Path | None
    no_metadata: bool
    properties: Path | None
    kafka_version: str | None
    now_ms: int | None
    high_watermark: Literal["end", "checkpoint"] | None
    engine: Engine
    yes: bool
    dry_run: bool
    form: Format
    log_format: LogFormat
    verbose: bool


like_kafka_option: Final = click.option(
    "--like-kafka",
    is_flag=True,
    help="Do exactly what Kafka would: no declared differences, no roll.",
)


def _engine_option(*, hidden: bool) -> Callable[[Callable[..., _R]], Callable[..., _R]]:
    """Return the option ``--engine``. Commands that ignore it accept it, since scripts give the
    common options to any command, and do not show it.
    """
    return click.option(
        "--engine",
        type=click.Choice(["local", "spark"]),
        default="local",
        show_default=True,
        hidden=hidden,
        help="Run in-process or as Spark tasks; identical output.",
    )


def request_options(command: Callable[..., _R]) -> Callable[..., _R]:
    """Add the common arguments and options; the command is called with a `Request` first."""
    return _with_options(command, _PARTITIONS)


def engine_options(command: Callable[..., _R]) -> Callable[..., _R]:
    """Like `request_options`, with ``--engine``."""
    return _with_options(command, _PARTITIONS, uses_engine=True)


def topic_options(command: Callable[..., _R]) -> Callable[..., _R]:
    """Like `request_options`, but the arguments after the log directory are ``topics``."""
    return _with_options(command, _TOPICS)


def directory_options(command: Callable[..., _R]) -> Callable[..., _R]:
    """Like `request_options`, but the arguments after the log directory are ``more_dirs``."""
    return _with_options(command, _MORE_DIRS)


def _with_options(
    command: Callable[..., _R],
    positionals: Callable[[Callable[..., _R]], Callable[..., _R]],
    *,
    uses_engine: bool = False,
) -> Callable[..., _R]:
    @functools.wraps(command)
    def called(**given: Unpack[_Given]) -> _R:
        log_to_stderr(verbose=given["verbose"], form=given["log_format"])
        if given["metadata"] is not None and given["no_metadata"]:
            raise click.UsageError("--metadata and --no-metadata contradict each other")
        now_ms, policies = given["now_ms"], _load(given["policies_dir"])
        request = Request(
            log_dir=given["log_dir"],
            named=given.get("named", ()),
            config=dict(given["config"]),
            policies=policies,
            policies_dir=given["policies_dir"],
            metadata=given["metadata"],
            find_metadata=not given["no_metadata"],
            properties=given["properties"],
            kafka_version=given["kafka_version"],
            now_ms=TimestampMs(time.time_ns() // _NS_PER_MS if now_ms is None else now_ms),
            high_watermark=given["high_watermark"]
            or (policies.high_watermark if policies else "end"),
            engine=given["engine"],
            yes=given["yes"],
            dry_run=given["dry_run"],
            output=Output(form=given["form"], verbose=given["verbose"]),
        )
        rest = {name: value for name, value in given.items() if name not in _Given.__annotations__}
        try:
            request.check_settings()
            return command(request, **rest)
        except LogwrightError as error:
            request.output.error_object(error)
            raise

    engine = _engine_option(hidden=not uses_engine)
    for option in reversed((_ARGUMENT, positionals, *_OPTIONS, engine)):
        called = option(called)
    return called


def _load(directory: Path | None) -> Policies | None:
    if directory is None:
        return None
    from logwright.config.policies import load_policies  # noqa: PLC0415 -- pydantic and yaml: not for --help

    return load_policies(directory)
