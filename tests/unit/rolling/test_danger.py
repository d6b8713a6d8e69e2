"""While a broker is maintained the cluster is looked at."""

from __future__ import annotations

from pathlib import Path

import pytest

from logwright.config.cluster import Cluster
from logwright.rolling import hooks
from logwright.rolling.broker import BrokerMaintenance, Site
from logwright.rolling.model import ClusterNow, MaintenanceFailed, PartitionNow
from logwright.rolling.records import RunningTopics


class Dying:
    """A cluster of which broker 1 is stopped, and broker 3 dies after some looks."""

    def __init__(self, looks: int) -> None:
        self.looks = looks

    def look(self) -> ClusterNow:
        """As it is now."""
        self.looks -= 1
        brokers = frozenset({2, 3} if self.looks >= 0 else {2})
        partition = PartitionNow(
            topic="t",
            number=0,
            leader=2,
            replicas=(1, 2, 3),
            isr=brokers,
            min_isr=2,
            delete_retention_ms=None,
        )
        return ClusterNow(cluster_id="c", brokers=brokers, partitions=(partition,))

    def elect(self, partitions: list[PartitionNow], /) -> None:
        """There is nothing to elect."""
        raise AssertionError(partitions)


def test_a_broker_that_dies_meanwhile_ends_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker that is maintained is wanted back: its long command is ended, with the reason."""
    monkeypatch.setattr(hooks, "_WATCH_SECONDS", 0.1)
    (tmp_path / "logs").mkdir()
    (tmp_path / "state").mkdir()
    program = tmp_path / "logwright"
    program.write_text("#!/bin/sh\nexec sleep 100\n")
    program.chmod(0o755)
    config = Cluster(
        version="1",
        bootstrap_servers=("localhost:1",),
        state="state",
        stop=["true"],
        start=["true"],
        maintain=[["clean"]],
        logwright=[str(program)],
        brokers=[{"id": 1, "log_dirs": ["logs"]}, {"id": 2, "log_dirs": ["other"]}],
    )
    cluster = Dying(looks=3)
    site = Site(
        directory=tmp_path,
        config=config,
        admin=cluster,
        topics=RunningTopics(("localhost:1",), {}),
        secrets=(),
        say=lambda _: None,
        now_ms=lambda: 0,
    )
    with pytest.raises(MaintenanceFailed, match=r"stopped after .*t-0 is below min\.insync\.repl"):
        BrokerMaintenance(site, 1).maintain()
    assert -1 == cluster.looks
