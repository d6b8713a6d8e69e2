"""Fixtures of the tests of whole jobs and commands."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.brokers import Brokers
from tests.e2e.rolling_cluster import refill, three_brokers


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    """Three brokers with both topics."""
    with three_brokers(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture
def brokers(cluster: Brokers) -> Brokers:
    """The cluster, whole, with something to clean."""
    return refill(cluster)
