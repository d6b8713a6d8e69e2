"""The options that say which keys a command is about, and how they are shown: as HMACs."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypedDict, TypeVar

import click

from logwright.cli.request import Request
from logwright.errors import PolicyError

if TYPE_CHECKING:
    from logwright.erasure.find.result import Settings
    from logwright.erasure.keys import KeySet
    from logwright.erasure.keys_file import KeysFile
    from logwright.erasure.request import Request as ErasureRequest
    from logwright.erasure.secret import Secret

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
        help="The longest time between two runs of maintenance [default: 300000 if the policies "
        "have erasure.store, otherwise 0].",
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

    archives: tuple[Path, ...]
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


def search_settings(request: Request, given: SearchOptions | None = None) -> Settings:
    """Return what a search asks of a log directory's settings. Effects: reads metadata.

    Args:
        given: what was said of the maintenance, besides the policies.

    Raises:
        PolicyError: the settings of the broker are invalid.
    """
    from logwright.config.policies import Policies  # noqa: PLC0415 -- yaml: not for --help
    from logwright.erasure.find.result import Settings  # noqa: PLC0415 -- kernels: not for --help
    from logwright.erasure.outlook.upkeep import Upkeep  # noqa: PLC0415

    upkeep = Upkeep.of_policies((request.policies or Policies()).erasure)
    if given is not None and given["run_interval_ms"] is not None:
        upkeep = replace(upkeep, run_interval_ms=given["run_interval_ms"])
    if given is not None and given["appends_continue"]:
        upkeep = replace(upkeep, appends_continue=True)
    return Settings(
        of_topic=request.settings,
        broker=request.broker(),
        now_ms=request.now_ms,
        high_watermark=request.high_watermark,
        upkeep=upkeep,
        metadata=request.sources().metadata,
    )


def read_wanted(request: Request, given: KeyOptions, pattern: Path | None = None) -> Wanted:
    """Return what is searched for, and warn of what may not be meant. Effects: reads the files of
    keys, requests, patterns, secret; output.

    Raises:
        PolicyError: something of it is not valid, or there is nothing to search for.
    """
    from logwright.erasure.find.patterns import read_patterns  # noqa: PLC0415 -- kernels: not for --help
    from logwright.erasure.keys import KeySet  # noqa: PLC0415
    from logwright.erasure.keys_file import read_keys  # noqa: PLC0415
    from logwright.erasure.request import ALL_TOPICS, topics_problem  # noqa: PLC0415

    topics = ALL_TOPICS if given["topics"] is None else given["topics"]
    if (problem := topics_problem(topics)) is not None:
        raise PolicyError(f"--topic {topics!r} {problem}.", remedy="Correct it.")
    secret = _secret(request, given)
    stored = () if given["requests"] is None else _stored(request, given["requests"], secret)
    clear: tuple[bytes, ...] = ()
    patterns: tuple[bytes, ...] = ()
    if given["keys"] is not None:
        clear = _said(request, given["keys"], read_keys(given["keys"], given["keys_format"]))
    if pattern is not None:
        patterns = _said(request, pattern, read_patterns(pattern, given["keys_format"]))
    if not (stored or clear or patterns):
        raise PolicyError("there are no requests.", remedy="Give keys, or a store with requests.")
    return Wanted(
        keys=KeySet.of(secret, requests=stored, clear=clear, topics=topics), patterns=patterns
    )


def _secret(request: Request, given: KeyOptions) -> Secret:
    """Return the secret, or one for this run. Effects: reads it; output."""
    from logwright.erasure.secret import ENVIRONMENT, Secret, load_secret  # noqa: PLC0415 -- not for --help

    environment = os.environ.get(ENVIRONMENT)
    if given["secret"] is None and not environment and given["requests"] is None:
        request.output.message(
            "Without --secret the HMACs are made under a secret of this run, and cannot be compared"
            " with others."
        )
        return Secret.random()
    return load_secret(given["secret"], environment)


def _stored(request: Request, directory: Path, secret: Secret) -> tuple[ErasureRequest, ...]:
    """Return the requests of a store or a landing directory. Effects: reads them; output."""
    from logwright.erasure.landing import read_landing  # noqa: PLC0415 -- pydantic: not for --help
    from logwright.erasure.store import STORE, read_store  # noqa: PLC0415

    if (directory / STORE).exists():
        return read_store(directory, secret)
    landed = read_landing(directory, secret)
    for one in landed.doubts:
        request.output.message(f"{directory}: {one}")
    return landed.require_all(directory)


def _said(request: Request, path: Path, file: KeysFile) -> tuple[bytes, ...]:
    """Return the keys of a file, and say which lines may not be meant. Effects: output."""
    for warning in file.warnings:
        request.output.message(f"{path}: {warning}.")
    return file.keys
