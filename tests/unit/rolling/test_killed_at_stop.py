"""A run that was killed while its stop hook was at work: the next one waits for what that does."""

from __future__ import annotations

from pathlib import Path

import pytest

from logwright.config.cluster import Cluster
from logwright.rolling import broker
from logwright.rolling.broker import BrokerMaintenance, Site
from logwright.rolling.model import ClusterNow, Journal, PartitionNow
from logwright.rolling.records import RunningTopics


class Leaving:
    """A cluster that the broker leaves after some looks.

    Attributes:
        looks: how many still show it.
    """

    def __init__(self, looks: int) -> None:
        self.looks = looks

    def look(self) -> ClusterNow:
        """As it is now."""
        self.looks -= 1
        there = {1, 2} if self.looks >= 0 else {2}
        return ClusterNow(cluster_id="c", brokers=frozenset(there), partitions=())

    def elect(self, partitions: list[PartitionNow], /) -> None:
        """There is nothing to elect."""
        raise AssertionError(partitions)


@pytest.mark.parametrize(("looks", "step"), [(0, "maintain"), (3, "maintain"), (10_000, "check")])
def test_the_next_run_waits_for_the_stop_hook(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, looks: int, step: str
) -> None:
    """A broker that goes meanwhile is maintained, one that stays is checked. Otherwise it would go
    after the check had begun, and nobody would start it.
    """
    monkeypatch.setattr(broker, "_POLL_SECONDS", 0.01)
    (tmp_path / "logs").mkdir()
    config = Cluster(
        version="1",
        bootstrap_servers=("localhost:1",),
        state="state",
        stop=["true"],
        start=["true"],
        maintain=[["verify"]],
        limits={"stop": "200ms", "lock": "100ms"},
        brokers=[{"id": 1, "log_dirs": ["logs"]}, {"id": 2, "log_dirs": ["other"]}],
    )
    site = Site(
        directory=tmp_path,
        config=config,
        admin=Leaving(looks),
        topics=RunningTopics(("localhost:1",), {}),
        secrets=(),
        say=lambda _: None,
        now_ms=lambda: 0,
    )
    (tmp_path / "state").mkdir()
    site.note(Journal(broker=1, step="stop"))
    assert step == BrokerMaintenance(site, 1).first_step()
