"""The arguments and options that most commands have, and how a command is declared.

Only declarations: what a command does is `run` of the module of its name in `logwright.cli.run`,
which is imported when the command is called, so that ``--help`` needs none of the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC
from pathlib import Path
from textwrap import wrap
from typing import Any, Final, TypeVar

import click

from logwright.cli.options.examples import EXAMPLES
from logwright.cli.options.parameters import (
    POLICIES_VARIABLE,
    LogDir,
    Pair,
    Partition,
    Running,
    Time,
    kafka_version_option,
    log_format_option,
    output_option,
)

_R = TypeVar("_R")
_HELP_ALL: Final = "help_all"
_COLUMN: Final = 22
"""Greatest width of the names of options, next to their help."""

COMMON: Final = frozenset(
    {
        *("config", "policies_dir", "metadata", "no_metadata", "properties", "kafka_version"),
        *("now_ms", "high_watermark", "yes", "dry_run", "form", "log_format", "verbose"),
        *("throttle", "tier", "tier_key"),
        _HELP_ALL,
    }
)
"""Names of the options that most commands have: a group of their own in the help."""
_Option = Callable[[Callable[..., Any]], Callable[..., Any]]


class Command(click.Command):
    """A command of logwright.

    Attributes:
        module: of `logwright.cli.run`, which has what it does as the function `run`.
        extra: the extra that it needs, whatever its options are.
        running: how it reads log directories that a broker has open; None: it does not.
    """

    def __init__(
        self,
        name: str,
        *,
        module: str | None = None,
        extra: str | None = None,
        running: Running | None = None,
        tiered: bool = False,
        **given: Any,  # noqa: ANN401 -- as click passes them
    ) -> None:
        super().__init__(name, **given)
        self.module = module or name.replace("-", "_")
        self.extra = extra
        self.running = running
        if running is not None:
            self.params.append(_throttle_option())
        if tiered:
            self.params += _tier_options()

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the command's own options, and below them the common ones, explained only on
        request.
        """
        own: list[tuple[str, str]] = []
        common: list[tuple[str, str]] = []
        has_common = any(param.name == _HELP_ALL for param in self.params)
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx) if isinstance(param, click.Option) else None
            if record is not None:
                is_common = param.name in COMMON or "--help" in param.opts
                (common if has_common and is_common else own).append(record)
        if own:
            with formatter.section("Options"):
                formatter.write_dl(own, col_max=_COLUMN)
        if common:
            with formatter.section("Common options"):
                if ctx.meta.get(_HELP_ALL):
                    formatter.write_dl(common, col_max=_COLUMN)
                else:
                    names = ", ".join(names.replace(" [", " ").rstrip("]") for names, _ in common)
                    width = formatter.width - formatter.current_indent
                    for line in wrap(names, width, break_on_hyphens=False):
                        formatter.write(f"{'':{formatter.current_indent}}{line}\n")

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples."""
        name = ctx.command_path.partition(" ")[2]
        with formatter.section("Examples"):
            for words in EXAMPLES.get(name, ()):
                formatter.write(f"  logwright {name} {words}\n")

    def invoke(self, ctx: click.Context) -> object:
        """Run it. Effects: imports the engine; those of the command; exits."""
        return ctx.invoke(run, self.module, ctx.params, extra=self.extra, running=self.running)


def _throttle_option() -> click.Option:
    return click.Option(
        ["--throttle"],
        metavar="BYTES",
        type=click.IntRange(min=1),
        help="Of logs that a broker has open: read at most this many bytes per second from disk.",
    )


def _tier_options() -> list[click.Option]:
    return [
        click.Option(
            ["--tier"],
            metavar="DIR",
            help="Also the remote segments of tiered storage: the directory that they are in.",
        ),
        click.Option(
            ["--tier-key"],
            metavar="FILE",
            type=_PATH,
            help="The RSA private key of a tier that is encrypted, in PEM.",
        ),
    ]


def declare(
    name: str,
    *,
    extra: str | None = None,
    running: Running | None = None,
    tiered: bool = False,
) -> Callable[[Callable[[], None]], Command]:
    """Return the decorator that makes a command of its options and its help; `tiered`: it reads
    remote segments, too.
    """
    return click.command(name=name, cls=Command, extra=extra, running=running, tiered=tiered)


def run(
    module: str, given: dict[str, Any], *, extra: str | None = None, running: Running | None = None
) -> None:
    """Import what a command needs, and run it: see `logwright.cli.call.call`. Effects: its own."""
    from logwright.cli.call import call  # noqa: PLC0415 -- the one import that waits for a call

    call(module, given, extra=extra, running=running)


def _help_all(ctx: click.Context, param: click.Parameter, value: object) -> None:
    """Show the help with the common options explained, and exit. Effects: stdout."""
    del param
    if value and not ctx.resilient_parsing:
        ctx.meta[_HELP_ALL] = True
        click.echo(ctx.get_help())
        ctx.exit()


_PATH: Final = click.Path(path_type=Path)
_ARGUMENT: Final = click.argument("log_dir", metavar="LOG_DIR", type=LogDir())
_PARTITIONS: Final = click.argument("named", metavar="[TOPIC-N ...]", nargs=-1, type=Partition())
_MORE_DIRS: Final = click.argument("more_dirs", metavar="[LOG_DIR ...]", nargs=-1, type=LogDir())
_TOPICS: Final = click.argument("topics", metavar="[TOPIC ...]", nargs=-1)
policies_option: Final = click.option(
    "--policies",
    "policies_dir",
    metavar="DIR",
    type=_PATH,
    envvar=POLICIES_VARIABLE,
    show_envvar=True,
    help="Directory of YAML files with settings per topic.",
)
metadata_option: Final = click.option(
    "--metadata",
    metavar="DIR",
    type=_PATH,
    help="The cluster's __cluster_metadata-0 [default: search LOG_DIR and its siblings].",
)
no_metadata_option: Final = click.option(
    "--no-metadata",
    is_flag=True,
    help="Do not read cluster metadata.",
)
properties_option: Final = click.option(
    "--server-properties",
    "properties",
    metavar="FILE",
    type=_PATH,
    help="The broker's server.properties.",
)
now_option: Final = click.option(
    "--now",
    "now_ms",
    metavar="TIME",
    type=Time(zone=UTC),
    help="Fix the clock: ISO 8601, in UTC without an offset, or ms since the epoch.",
)
_OPTIONS: Final = (
    click.option(
        "--config",
        "config",
        metavar="KEY=VALUE",
        type=Pair(),
        multiple=True,
        help="A topic or broker config by its Kafka name; repeatable; overrides --policies.",
    ),
    policies_option,
    metadata_option,
    no_metadata_option,
    properties_option,
    kafka_version_option,
    now_option,
    click.option(
        "--high-watermark",
        type=click.Choice(["end", "checkpoint", "recorded"]),
        default=None,
        show_default="as the policies say, else recorded",
        help="Committed up to the log end offset, or up to the high watermark checkpoint; recorded:"
        " up to the checkpoint, and to the end of logs that it does not have.",
    ),
    output_option,
    log_format_option,
    click.option(
        "--verbose",
        is_flag=True,
        help="Debug messages on stderr; full details in inspect and plan.",
    ),
    click.option(
        "--help-all",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_help_all,
        help="Show the help with the common options explained.",
    ),
)


yes_option: Final = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
dry_run_option: Final = click.option("--dry-run", is_flag=True, help="Stop after the plan.")
_CHANGING: Final = (yes_option, dry_run_option)

like_kafka_option: Final = click.option(
    "--like-kafka",
    is_flag=True,
    help="Do exactly what Kafka would: no declared differences, no roll.",
)


scratch_option: Final = click.option(
    "--scratch",
    metavar="DIR",
    type=_PATH,
    help="For a log in a bucket: where its working copy is made [default: a directory for "
    "temporary files].",
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
    """Add the common arguments and options of a command that changes logs; it runs with a `Request`
    first.
    """
    return _with_options(command, _PARTITIONS, _CHANGING)


def read_options(command: Callable[..., _R]) -> Callable[..., _R]:
    """Like `request_options`, for a command that only reads: without --yes and --dry-run."""
    return _with_options(command, _PARTITIONS)


def engine_options(command: Callable[..., _R]) -> Callable[..., _R]:
    """Like `request_options`, with ``--engine``."""
    return _with_options(command, _PARTITIONS, _CHANGING, uses_engine=True)


def topic_options(command: Callable[..., _R]) -> Callable[..., _R]:
    """Like `read_options`, but the arguments after the log directory are ``topics``."""
    return _with_options(command, _TOPICS)


def directory_options(command: Callable[..., _R]) -> Callable[..., _R]:
    """Like `read_options`, but the arguments after the log directory are ``more_dirs``."""
    return _with_options(command, _MORE_DIRS)


def maintenance_options(command: Callable[..., _R]) -> Callable[..., _R]:
    """Like `engine_options`, but the arguments after the log directory are ``more_dirs``."""
    return _with_options(command, _MORE_DIRS, _CHANGING, uses_engine=True)


def _with_options(
    command: Callable[..., _R],
    positionals: Callable[[Callable[..., _R]], Callable[..., _R]],
    more: Sequence[_Option] = (),
    *,
    uses_engine: bool = False,
) -> Callable[..., _R]:
    engine = _engine_option(hidden=not uses_engine)
    for own in reversed(more):
        command = own(command)
    for option in reversed((_ARGUMENT, positionals, *_OPTIONS, engine)):
        command = option(command)
    return command
