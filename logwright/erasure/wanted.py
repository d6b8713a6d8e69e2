"""Which keys a command is about: those of a file, and those of stored or landed requests."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from logwright.config.key_words import KeySource
from logwright.erasure.keys import KeySet
from logwright.erasure.keys_file import KeysFile, read_keys
from logwright.erasure.landing import read_landing
from logwright.erasure.request import ALL_TOPICS, Request, topics_problem
from logwright.erasure.secret import ENVIRONMENT, Secret, load_secret
from logwright.erasure.store import STORE, chosen, read_store
from logwright.errors import PolicyError

Say = Callable[[str], None]
"""Called with each line that warns of what may not be meant. No line has anything of a key."""


def read_key_set(source: KeySource, say: Say) -> KeySet:
    """Return the keys of a command; it may be empty. Effects: reads the files of keys, requests and
    the secret, and the environment.

    Raises:
        PolicyError: something of it is not valid.
        UnreadableFile: a file cannot be read.
    """
    topics = ALL_TOPICS if source.topics is None else source.topics
    if (problem := topics_problem(topics)) is not None:
        raise PolicyError(f"--topic {topics!r} {problem}.", remedy="Correct it.")
    secret = _secret(source, say)
    stored = () if source.requests is None else _stored(source.requests, secret, say)
    if source.only:
        stored = chosen(stored, source.only)
    clear: tuple[bytes, ...] = ()
    if source.keys is not None:
        clear = keys_of(source.keys, read_keys(source.keys, source.form), say)
    is_decoded = source.form == "decoded"
    return KeySet.of(secret, requests=stored, clear=clear, topics=topics, decoded=is_decoded)


def keys_of(path: Path, file: KeysFile, say: Say) -> tuple[bytes, ...]:
    """Return the keys of a file, and say which lines may not be meant."""
    for warning in file.warnings:
        say(f"{path}: {warning}.")
    return file.keys


def no_requests() -> PolicyError:
    """Return the error of a command that has nothing to search for."""
    return PolicyError("there are no requests.", remedy="Give keys, or a store with requests.")


def _secret(source: KeySource, say: Say) -> Secret:
    """Return the secret, or one for this run. Effects: reads it."""
    environment = os.environ.get(ENVIRONMENT)
    if source.secret is None and not environment and source.requests is None:
        say(
            "Without --secret the HMACs are made under a secret of this run, and cannot be compared"
            " with others."
        )
        return Secret.random()
    return load_secret(source.secret, environment)


def _stored(directory: Path, secret: Secret, say: Say) -> tuple[Request, ...]:
    """Return the requests of a store or a landing directory. Effects: reads them."""
    if (directory / STORE).exists():
        return read_store(directory, secret)
    landed = read_landing(directory, secret)
    for doubt in landed.doubts:
        say(f"{directory}: {doubt}")
    return landed.require_all(directory)
