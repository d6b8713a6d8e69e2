"""Which keys an ``erase`` is about that stands in a cluster's file without ``--now-and-for-good``:
the options of `logwright erase` that name them.

It is not run on a log directory: the tombstones are produced through the cluster
(`logwright.rolling.erasing`). So an option that is about a log directory is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, cast, get_args

KeysFormat = Literal["text", "base64", "hex", "decoded"]
"""How keys are written in a file. Decoded: as text or JSON, and meant in all their forms."""
_TAKEN: Final = ("--keys", "--keys-format", "--requests", "--request", "--secret", "--topic")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySource:
    """Where the keys of a command are, as its options say.

    Attributes:
        keys: a file of keys, one in each line; form: how they are written.
        topics: of the keys of that file: a topic, or ``regex:PATTERN``; None: all.
        requests: a landing directory or a store of erasure requests.
        only: the ids of those that are meant; empty: all.
        secret: the file of the secret of the HMACs.
    """

    keys: Path | None = None
    form: KeysFormat = "text"
    topics: str | None = None
    requests: Path | None = None
    only: tuple[str, ...] = ()
    secret: Path | None = None


def key_source(words: Sequence[str], directory: Path = Path()) -> KeySource:
    """Return where the keys of ``erase`` are, by its words.

    Args:
        directory: that relative paths are below.

    Raises:
        ValueError: an option is not one that names keys, has no value, or none names any.
    """
    _, *rest = words
    given: dict[str, list[str]] = {}
    while rest:
        name, equals, value = rest.pop(0).partition("=")
        if name not in _TAKEN:
            raise ValueError(f"takes only {', '.join(_TAKEN)} without --now-and-for-good")
        if not equals:
            if not rest:
                raise ValueError(f"has no value after {name}")
            value = rest.pop(0)
        given.setdefault(name, []).append(value)

    def last(name: str) -> str | None:
        return given[name][-1] if name in given else None

    def path(name: str) -> Path | None:
        return directory / given[name][-1] if name in given else None

    form = last("--keys-format") or "text"
    if form not in get_args(KeysFormat):
        raise ValueError(f"has no --keys-format {form}: {', '.join(get_args(KeysFormat))}")
    if not given.keys() & {"--keys", "--requests"}:
        raise ValueError("names no keys: --keys FILE, or --requests DIR")
    return KeySource(
        keys=path("--keys"),
        form=cast("KeysFormat", form),
        topics=last("--topic"),
        requests=path("--requests"),
        only=tuple(given.get("--request", ())),
        secret=path("--secret"),
    )
