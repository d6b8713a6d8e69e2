"""The options that say which keys a command is about, and what else is searched."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypedDict, TypeVar

import click

from logwright.cli.options.parameters import Duration, LogDir

if TYPE_CHECKING:
    from logwright.place.model import Place

_R = TypeVar("_R")
_PATH: Final = click.Path(path_type=Path)

_OPTIONS: Final = (
    click.option(
        "--keys",
        metavar="FILE",
        type=_PATH,
        help="The keys, one in each line.",
    ),
    click.option(
        "--keys-format",
        type=click.Choice(["text", "base64", "hex"]),
        default="text",
        show_default=True,
        help="How keys and patterns are written.",
    ),
    click.option(
        "--requests",
        metavar="DIR",
        type=_PATH,
        help="Erasure requests: a landing directory of CSV, JSON lines and Parquet, or a store.",
    ),
    click.option(
        "--secret",
        metavar="FILE",
        type=_PATH,
        help="The secret under which keys are shown as HMACs, mode 0600 [default: "
        "LOGWRIGHT_ERASURE_SECRET; without it one that is made for this run].",
    ),
    click.option(
        "--topic",
        "topics",
        metavar="TOPIC",
        help="Search the keys of --keys in this topic, or in all that match regex:PATTERN.",
    ),
)

_SEARCH: Final = (
    click.option(
        "--archive",
        "archives",
        metavar="DIR",
        type=LogDir(),
        multiple=True,
        help="A copy of a log directory that nothing maintains; repeatable.",
    ),
    click.option(
        "--pattern",
        metavar="FILE",
        type=_PATH,
        help="Byte patterns, one in each line, to be searched in the keys, values and headers of "
        "all records.",
    ),
    click.option(
        "--run-interval",
        "run_interval_ms",
        type=Duration(bare_ms=True),
        help="The longest time between two runs of maintenance, as 5m or in ms [default: 5m if the "
        "policies have erasure.store, otherwise 0].",
    ),
    click.option(
        "--appends-continue",
        is_flag=True,
        help="Forecast for logs to which records of other keys are appended all the time [default: "
        "erasure.appends_continue of the policies].",
    ),
)


class KeyOptions(TypedDict):
    """Values of the options above, as click passes them."""

    keys: Path | None
    keys_format: Literal["text", "base64", "hex"]
    requests: Path | None
    secret: Path | None
    topics: str | None


class SearchOptions(KeyOptions):
    """Those of the options that say what else is searched, too."""

    archives: tuple[Place, ...]
    pattern: Path | None
    run_interval_ms: int | None
    appends_continue: bool


def key_options(command: Callable[..., _R]) -> Callable[..., _R]:
    """Add the options; see `KeyOptions`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def search_options(command: Callable[..., _R]) -> Callable[..., _R]:
    """Add the options that say what else is searched, and by what it is forecast."""
    for option in reversed(_SEARCH):
        command = option(command)
    return command
