"""Which keys a command is about, and how they are shown: as HMACs."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

from logwright.cli.options.keys import KeyOptions, SearchOptions
from logwright.cli.request import Request
from logwright.config.policies import Policies
from logwright.erasure.find.patterns import read_patterns
from logwright.erasure.find.result import Settings
from logwright.erasure.keys import KeySet
from logwright.erasure.keys_file import KeysFile, read_keys
from logwright.erasure.landing import read_landing
from logwright.erasure.outlook.upkeep import Upkeep
from logwright.erasure.request import ALL_TOPICS, topics_problem
from logwright.erasure.request import Request as ErasureRequest
from logwright.erasure.secret import ENVIRONMENT, Secret, load_secret
from logwright.erasure.store import STORE, chosen, read_store
from logwright.errors import PolicyError


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
    topics = ALL_TOPICS if given["topics"] is None else given["topics"]
    if (problem := topics_problem(topics)) is not None:
        raise PolicyError(f"--topic {topics!r} {problem}.", remedy="Correct it.")
    secret = _secret(request, given)
    stored = () if given["requests"] is None else _stored(request, given["requests"], secret)
    if given["only"]:
        stored = chosen(stored, given["only"])
    clear: tuple[bytes, ...] = ()
    patterns: tuple[bytes, ...] = ()
    if given["keys"] is not None:
        clear = _keys_of(request, given["keys"], read_keys(given["keys"], given["keys_format"]))
    if pattern is not None:
        patterns = _keys_of(request, pattern, read_patterns(pattern, given["keys_format"]))
    if not (stored or clear or patterns):
        raise PolicyError("there are no requests.", remedy="Give keys, or a store with requests.")
    return Wanted(
        keys=KeySet.of(secret, requests=stored, clear=clear, topics=topics), patterns=patterns
    )


def _secret(request: Request, given: KeyOptions) -> Secret:
    """Return the secret, or one for this run. Effects: reads it; output."""
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
    if (directory / STORE).exists():
        return read_store(directory, secret)
    landed = read_landing(directory, secret)
    for doubt in landed.doubts:
        request.output.message(f"{directory}: {doubt}")
    return landed.require_all(directory)


def _keys_of(request: Request, path: Path, file: KeysFile) -> tuple[bytes, ...]:
    """Return the keys of a file, and report which lines may not be meant. Effects: output."""
    for warning in file.warnings:
        request.output.message(f"{path}: {warning}.")
    return file.keys
