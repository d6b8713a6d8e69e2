"""What a run works with, made of a cluster's file."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from logwright.config.cluster import read_cluster
from logwright.config.properties import read_properties
from logwright.rolling.broker import Site
from logwright.rolling.cluster import RunningCluster
from logwright.rolling.hooks import secrets_of
from logwright.rolling.records import RunningTopics

_NS_PER_MS = 1_000_000


def open_site(file: Path, say: Callable[[str], None]) -> Site:
    """Read a cluster's file and make a client of it. Effects: reads it, its file of settings and
    the environment.

    Raises:
        PolicyError: a file is invalid or cannot be read, or a setting of the client is invalid.
        MissingExtra: the client is not installed.
    """
    config, directory = read_cluster(file), file.absolute().parent
    settings: dict[str, str] = {}
    if config.client_config is not None:
        settings = dict(read_properties(directory / config.client_config).pairs)
    return Site(
        directory=directory,
        config=config,
        admin=RunningCluster(config.bootstrap_servers, settings),
        topics=RunningTopics(config.bootstrap_servers, settings),
        secrets=(*secrets_of(settings), *secrets_of(os.environ)),
        say=say,
        now_ms=lambda: time.time_ns() // _NS_PER_MS,
    )
