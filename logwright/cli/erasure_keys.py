"""The options that say which keys a command is about: a file of keys, or stored requests."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypedDict, TypeVar, Unpack

import click

if TYPE_CHECKING:
    from logwright.erasure.keys import KeySet
    from logwright.erasure.secret import Secret

_R = TypeVar("_R")
_PATH: Final = click.Path(path_type=Path)
_SECRET_VARIABLE: Final = "LOGWRIGHT_ERASURE_SECRET"  # noqa: S105 -- the name of a variable
_OPTIONS: Final = (
    click.option(
        "--keys", metavar="FILE", type=_PATH, help="A file of keys, one in each line; kept nowhere."
    ),
    click.option(
        "--keys-format",
        type=click.Choice(["text", "base64"]),
        default="text",
        show_default=True,
        help="How the lines of --keys are written.",
    ),
    click.option(
        "--requests", metavar="DIR", type=_PATH, help="Directory with the stored erasure requests."
    ),
    click.option(
        "--secret",
        metavar="FILE",
        type=_PATH,
        help=f"The secret of the stored requests, mode 0600 [default: {_SECRET_VARIABLE}].",
    ),
    click.option(
        "--topic",
        "topics",
        metavar="TOPIC",
        multiple=True,
        help="Only these topics; repeatable; regex:PATTERN for all whose whole name matches.",
    ),
)


class _Given(TypedDict):
    keys: Path | None
    keys_format: Literal["text", "base64"]
    requests: Path | None
    secret: Path | None
    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenKeys:
    """The keys that a command is about.

    Attributes:
        keys: all of them.
        topics: the topics of ``--topic``; all, if there are none.
    """

    keys: KeySet
    topics: tuple[str, ...]

    def names(self, topic: str) -> bool:
        """Return whether the command is about a topic."""
        from logwright.erasure.request import applies_to  # noqa: PLC0415 -- not for --help

        return not self.topics or any(applies_to(one, topic) for one in self.topics)

    def applies_to(self, topic: str) -> bool:
        """Return whether a key must be gone from a topic, and the command is about it."""
        return self.names(topic) and not self.keys.for_topic(topic).is_empty


def keys_options(command: Callable[..., _R]) -> Callable[..., _R]:
    """Add the options; the command is called with a `ChosenKeys` as ``chosen``."""

    @functools.wraps(command)
    def called(*args: object, **given: Unpack[_Given]) -> _R:
        values = {name: given.pop(name) for name in _Given.__annotations__}  # type: ignore[misc]
        return command(*args, chosen=_load(values), **given)  # type: ignore[arg-type]

    for option in reversed(_OPTIONS):
        called = option(called)
    return called


def _load(given: _Given) -> ChosenKeys:
    """Return the keys. Effects: reads the files and the environment.

    Raises:
        click.UsageError: neither a file nor stored requests are given.
        LogwrightError: one of them cannot be read.
    """
    from logwright.erasure.keys import KeySet, read_keys  # noqa: PLC0415 -- kernels: not for --help
    from logwright.erasure.store import read_store  # noqa: PLC0415 -- pydantic

    if given["keys"] is None and given["requests"] is None:
        raise click.UsageError("say which keys: --keys FILE, or --requests DIR")
    secret = _secret(given)
    clear = [] if given["keys"] is None else read_keys(given["keys"], given["keys_format"])
    stored = () if given["requests"] is None else read_store(given["requests"], secret)
    return ChosenKeys(keys=KeySet.of(secret, requests=stored, clear=clear), topics=given["topics"])


def _secret(given: _Given) -> Secret:
    """Return the secret; keys in clear alone need none that lasts."""
    from logwright.erasure.secret import Secret, load_secret  # noqa: PLC0415 -- kernels

    environment = os.environ.get(_SECRET_VARIABLE)
    if given["requests"] is None and given["secret"] is None and not environment:
        return Secret.random()
    return load_secret(given["secret"], environment)
