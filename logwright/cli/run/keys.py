"""Which keys a command is about, and how they are shown: as HMACs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from logwright.cli.options.keys import KeyOptions, SearchOptions
from logwright.cli.request import Request
from logwright.config.key_words import KeySource
from logwright.config.policies import Policies
from logwright.erasure.decoded import readers_of
from logwright.erasure.find.patterns import read_patterns
from logwright.erasure.find.result import Settings
from logwright.erasure.keys import KeySet
from logwright.erasure.outlook.upkeep import Upkeep
from logwright.erasure.wanted import keys_of, no_requests, read_key_set


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
    source = KeySource(
        keys=given["keys"],
        form=given["keys_format"],
        topics=given["topics"],
        requests=given["requests"],
        only=given["only"],
        secret=given["secret"],
    )
    readers = readers_of(request.policies, request.policies_dir)
    keys = read_key_set(source, request.output.message).read_by(readers)
    patterns: tuple[bytes, ...] = ()
    if pattern is not None:
        file = read_patterns(pattern, given["keys_format"])
        patterns = keys_of(pattern, file, request.output.message)
    if not (len(keys) or patterns):
        raise no_requests()
    return Wanted(keys=keys, patterns=patterns)
