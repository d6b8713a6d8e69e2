"""The options that say which keys a command is about, and how they are shown: as HMACs."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypedDict, TypeVar

import click

from logwright.cli.request import Request

if TYPE_CHECKING:
    from logwright.erasure.keys import KeySet
    from logwright.erasure.request import Request as ErasureRequest

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
        type=click.Choice(["text", "base64"]),
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
        type=_PATH,
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
        metavar="MS",
        type=click.IntRange(min=0),
        default=0,
        show_default=True,
        help="The longest time between two runs of maintenance.",
    ),
    click.option(
        "--appends-continue",
        is_flag=True,
        help="Forecast for logs to which records of other keys are appended all the time.",
    ),
)


class KeyOptions(TypedDict):
    """Values of the options above, as click passes them."""

    keys: Path | None
    keys_format: Literal["text", "base64"]
    requests: Path | None
    secret: Path | None
    topics: str | None


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is searched for.

    Attributes:
        patterns: byte patterns; a finding's request that is above all keys is one of these.
    """

    keys: KeySet
    patterns: tuple[bytes, ...]

    def hmac(self, request: int) -> str | None:
        """Return the HMAC of a key or pattern in hexadecimal digits, None of an unsearched file."""
        if request < 0:
            return None
        if request < len(self.keys):
            return self.keys.request(request).hmac.hex()
        return self.keys.secret.hmac(self.patterns[request - len(self.keys)]).hex()

    def name(self, request: int) -> str | None:
        """Return the request's id; of a pattern its line."""
        if request < 0:
            return None
        if request < len(self.keys):
            return self.keys.request(request).id
        return f"pattern {request - len(self.keys) + 1}"


def read_wanted(request: Request, given: KeyOptions, pattern: Path | None = None) -> Wanted:
    """Return what is searched for. Effects: reads the files of keys, requests, patterns, secret."""
    from logwright.erasure.find.patterns import read_patterns  # noqa: PLC0415 -- kernels: not for --help
    from logwright.erasure.keys import KeySet, read_keys  # noqa: PLC0415
    from logwright.erasure.landing import read_landing  # noqa: PLC0415
    from logwright.erasure.request import ALL_TOPICS  # noqa: PLC0415
    from logwright.erasure.secret import ENVIRONMENT, Secret, load_secret  # noqa: PLC0415
    from logwright.erasure.store import STORE, read_store  # noqa: PLC0415

    directory, environment = given["requests"], os.environ.get(ENVIRONMENT)
    if given["secret"] is None and not environment and directory is None:
        secret = Secret.random()
        request.output.message(
            "Without --secret the HMACs are made under a secret of this run, and cannot be compared"
            " with others."
        )
    else:
        secret = load_secret(given["secret"], environment)
    stored: tuple[ErasureRequest, ...] = ()
    if directory is not None and (directory / STORE).exists():
        stored = read_store(directory, secret)
    elif directory is not None:
        stored = read_landing(directory, secret).require_all(directory)
    form = given["keys_format"]
    return Wanted(
        keys=KeySet.of(
            secret,
            requests=stored,
            clear=read_keys(given["keys"], form) if given["keys"] is not None else (),
            topics=given["topics"] or ALL_TOPICS,
        ),
        patterns=tuple(read_patterns(pattern, form)) if pattern else (),
    )
