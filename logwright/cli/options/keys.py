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
        metavar="FORMAT",
        type=click.Choice(["text", "base64", "hex", "decoded"]),
        default="text",
        help="base64, hex; decoded: in all forms [default: text].",
    ),
    click.option(
        "--requests",
        metavar="DIR",
        type=_PATH,
        help="Erasure requests: a landing directory, or a store.",
    ),
    click.option(
        "--request",
        "only",
        metavar="ID",
        multiple=True,
        help="Only the request with this id; repeatable.",
    ),
    click.option(
        "--secret",
        metavar="FILE",
        type=_PATH,
        help="Secret of the HMACs, mode 0600 [default: "
        "LOGWRIGHT_ERASURE_SECRET, else one for this run].",
    ),
    click.option(
        "--topic",
        "topics",
        metavar="TOPIC",
        help="Topic of the keys of --keys, or regex:PATTERN.",
    ),
)

_SEARCH: Final = (
    click.option(
        "--archive",
        "archives",
        metavar="DIR",
        type=LogDir(),
        multiple=True,
        help="An unmaintained copy of a log directory; repeatable.",
    ),
    click.option(
        "--pattern",
        metavar="FILE",
        type=_PATH,
        help="Byte patterns to find in any record, a line each.",
    ),
    click.option(
        "--run-interval",
        "run_interval_ms",
        type=Duration(bare_ms=True),
        help="Time between runs [default: 5m with a store, or 0].",
    ),
    click.option(
        "--appends-continue",
        is_flag=True,
        help="Forecast with new appends [default: --policies].",
    ),
)


class KeyOptions(TypedDict):
    """Values of the options above, as click passes them."""

    keys: Path | None
    keys_format: Literal["text", "base64", "hex", "decoded"]
    requests: Path | None
    only: tuple[str, ...]
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
