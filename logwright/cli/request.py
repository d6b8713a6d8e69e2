"""What a command is asked to do: the positionals and the options that every command has, checked
and resolved.
"""

from __future__ import annotations

import functools
import logging
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NotRequired, TypedDict, TypeVar, Unpack

import click

from logwright.cli.output import Format, Output, StderrHandler
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
_DECLINED: Final = 1
_NS_PER_MS: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One call of a command.

    Attributes:
        log_dir: the log directory.
        named: the partitions that were named; none = all of the directory.
        config: pairs of ``--config``.
        policies: of ``--policies``, None if it was not given.
        metadata: the directory of ``--metadata``. find_metadata: it is looked for if not given.
        properties: the file of ``--server-properties``.
        now_ms: the clock of every decision and every durable record.
        high_watermark: what counts as committed: ``--high-watermark``, else what the policies say.
        yes: do not ask. dry_run: stop after the plan.
    """

    log_dir: Path
    named: tuple[TopicPartition, ...]
    config: Mapping[str, str]
    policies: Policies | None
    metadata: Path | None
    find_metadata: bool
    properties: Path | None
    now_ms: TimestampMs
    high_watermark: Literal["end", "checkpoint"]
    engine: Engine
    yes: bool
    dry_run: bool
    output: Output
    _sources: list[Sources] = field(default_factory=list, repr=False)
    _parsed: dict[str, tuple[TopicConfig, CleanerConfig]] = field(default_factory=dict, repr=False)

    def sources(self) -> Sources:
        """All that says something about the settings. Effects: reads it, once.

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
                )
            )
        return self._sources[0]

    def settings(self, topic: str) -> tuple[TopicConfig, CleanerConfig]:
        """The settings by which a topic is maintained, see `logwright.config.resolved`. Effects: as
        `sources`.

        Raises:
            PolicyError: they are not valid.
            LogwrightError: as `sources`.
        """
        from logwright.config.resolved import settings_of  # noqa: PLC0415 -- pydantic: not for --help

        if topic not in self._parsed:
            self._parsed[topic] = settings_of(self.sources(), topic)
        return self._parsed[topic]

    def broker(self) -> BrokerConfig:
        """The broker's own settings. Effects: as `sources`.

        Raises:
            PolicyError: they are not valid.
            LogwrightError: as `sources`.
        """
        from logwright.config.resolved import effective_pairs  # noqa: PLC0415 -- pydantic: not for --help
        from logwright.config.topic import broker_settings  # noqa: PLC0415

        return broker_settings(effective_pairs(self.sources()))

    def check_settings(self) -> None:
        """Refuse wrong settings before anything is looked at. Effects: warns of those without
        effect.

        Raises:
            PolicyError: what ``--config`` says is not valid by itself or over the policies'
            defaults.
        """
        from logwright.config.policies import Policies  # noqa: PLC0415 -- yaml: not for --help
        from logwright.config.topic import effective, overlay  # noqa: PLC0415
        from logwright.config.without_effect import warn_of_no_effect  # noqa: PLC0415

        effective(overlay((self.policies or Policies()).defaults, self.config))
        warn_of_no_effect(self.config)

    def partitions(self, *, absent: bool = False) -> tuple[TopicPartition, ...]:
        """The partitions to work on, sorted. Effects: lists the log directory.

        Args:
            absent: partitions that were named and are not there are left out, not refused.

        Raises:
            NotALogDir: the directory is none, or lacks a partition that was named.
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
                    remedy="`logwright inspect` lists what is there.",
                )
        return tuple(sorted(set(self.named)))

    def absent(self) -> frozenset[TopicPartition]:
        """The partitions that were named and are not there. Effects: lists the log directory.

        Raises:
            NotALogDir: the directory is none.
        """
        return frozenset(self.named) - set(self.partitions(absent=True))

    def require_terminal(self) -> None:
        """A changing command needs ``--yes``, or somebody to ask.

        Raises:
            click.UsageError: neither is there.
        """
        if not (self.yes or self.dry_run or sys.stdin.isatty()):
            raise click.UsageError(
                "this changes the log directory: give --yes, or run it in a terminal"
            )

    def confirm(self, question: str) -> None:
        """Ask, unless ``--yes`` was given. Effects: reads the terminal; ends the command if
        declined.
        """
        if self.yes:
            return
        if not click.confirm(question, err=True):
            self.output.message("Nothing was changed.")
            raise click.exceptions.Exit(_DECLINED)


class _Pair(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.4
    """``KEY=VALUE``; the value may hold anything, commas and equals signs too."""

    name = "KEY=VALUE"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        key, equals, text = str(value).partition("=")
        if not equals or not key.strip():
            self.fail(f"{value!r} is not KEY=VALUE", param, ctx)
        return key.strip(), text


class _Partition(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.4
    """``TOPIC-N``, also with the slash that a shell completes."""

    name = "TOPIC-N"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> TopicPartition:
        partition = TopicPartition.parse(str(value).rstrip("/"))
        if partition is None:
            self.fail(f"{value!r} names no partition: TOPIC-N is expected, as t-0", param, ctx)
        return partition


_PATH: Final = click.Path(path_type=Path)
_LOG_DIR: Final = click.Path(path_type=Path, readable=False)
"""Not looked at by click: what cannot be read is an error of the directory, not of usage."""
_ARGUMENT: Final = click.argument("log_dir", metavar="LOG_DIR", type=_LOG_DIR)
_PARTITIONS: Final = click.argument("named", metavar="[TOPIC-N ...]", nargs=-1, type=_Partition())
_TOPICS: Final = click.argument("topics", metavar="[TOPIC ...]", nargs=-1)
_OPTIONS: Final = (
    click.option(
        "--config",
        "config",
        metavar="KEY=VALUE",
        type=_Pair(),
        multiple=True,
        help="A topic or broker config by Kafka's name; repeatable; wins over --policies.",
    ),
    click.option(
        "--policies", "policies_dir", metavar="DIR", type=_PATH, help="Settings per topic, as YAML."
    ),
    click.option(
        "--metadata",
        metavar="DIR",
        type=_PATH,
        help="The cluster's __cluster_metadata-0; else it is looked for in LOG_DIR and beside it.",
    ),
    click.option(
        "--no-metadata",
        is_flag=True,
        help="Do not read the cluster's metadata.",
    ),
    click.option(
        "--server-properties",
        "properties",
        metavar="FILE",
        type=_PATH,
        help="Of the broker: its static settings.",
    ),
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
        show_default="what --policies say; without them, end",
        help="What counts as committed: all of a stopped log, or what its checkpoint says.",
    ),
    click.option("--yes", is_flag=True, help="Do not ask."),
    click.option("--dry-run", is_flag=True, help="Stop after the plan."),
    click.option(
        "--output",
        "form",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        help="json: one object a line on stdout.",
    ),
    click.option(
        "--verbose",
        is_flag=True,
        help="Say more: debug lines on stderr; all that inspect and plan know.",
    ),
)


class _Given(TypedDict):
    """What click hands over of the options above."""

    log_dir: Path
    named: NotRequired[tuple[TopicPartition, ...]]
    config: tuple[tuple[str, str], ...]
    policies_dir: Path | None
    metadata: Path | None
    no_metadata: bool
    properties: Path | None
    now_ms: int | None
    high_watermark: Literal["end", "checkpoint"] | None
    engine: Engine
    yes: bool
    dry_run: bool
    form: Format
    verbose: bool


like_kafka_option: Final = click.option(
    "--like-kafka",
    is_flag=True,
    help="Only what Kafka's cleaner would do: no differences, no roll.",
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
    """Give a command the common positionals and options; it is called with a `Request` first."""
    return _with_options(command, _PARTITIONS)


def engine_options(command: Callable[..., _R]) -> Callable[..., _R]:
    """As `request_options`, for a command that uses ``--engine``."""
    return _with_options(command, _PARTITIONS, uses_engine=True)


def topic_options(command: Callable[..., _R]) -> Callable[..., _R]:
    """As `request_options`, but the positionals behind the log directory are ``topics``."""
    return _with_options(command, _TOPICS)


def _with_options(
    command: Callable[..., _R],
    positionals: Callable[[Callable[..., _R]], Callable[..., _R]],
    *,
    uses_engine: bool = False,
) -> Callable[..., _R]:

    @functools.wraps(command)
    def called(**given: Unpack[_Given]) -> _R:
        _log_to_stderr(verbose=given["verbose"])
        if given["metadata"] is not None and given["no_metadata"]:
            raise click.UsageError("--metadata and --no-metadata contradict each other")
        now_ms, policies = given["now_ms"], _load(given["policies_dir"])
        request = Request(
            log_dir=given["log_dir"],
            named=given.get("named", ()),
            config=dict(given["config"]),
            policies=policies,
            metadata=given["metadata"],
            find_metadata=not given["no_metadata"],
            properties=given["properties"],
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


def _log_to_stderr(*, verbose: bool) -> None:
    """Effects: the engine's log lines go to stderr until the command ends."""
    logger = logging.getLogger("logwright")
    before = logger.level
    handler = StderrHandler(logging.DEBUG if verbose else logging.WARNING)
    logger.addHandler(handler)
    logger.setLevel(handler.level)

    def undo() -> None:
        logger.removeHandler(handler)
        logger.setLevel(before)

    click.get_current_context().call_on_close(undo)
