"""A warm JVM of each Kafka for the tests that ask it about random logs, and a place in memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.differential.oracle_server import OracleServer, shared
from tests.differential.random_logs import scratch_directory


@pytest.fixture
def server(kafka_version: str) -> OracleServer:
    """The oracle as a server, of each Kafka in turn."""
    return shared()


@pytest.fixture
def scratch() -> Iterator[Path]:
    """An empty directory, in memory where that can be had."""
    with scratch_directory() as directory:
        yield directory
