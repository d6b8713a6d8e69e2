"""A cluster of three brokers that is maintained while clients use it: its file, and what must hold
afterwards.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from logwright.locks import wait_for
from logwright.rolling.journal import read_journal
from logwright.rolling.model import Journal
from tests.e2e.brokers import Brokers
from tests.e2e.rolling_load import MIN_ISR, PARTITIONS, STATE, Load, fill, make_topics

CLEAN: Final = " ".join(
    ["clean --config cleanup.policy=compact --force", *(f"{STATE}-{n}" for n in range(PARTITIONS))]
)
IN_TIME: Final = 120.0
"""How long anything may take that is waited for, s."""


def write_file(brokers: Brokers, **changes: Any) -> Path:  # noqa: ANN401 -- sections of YAML
    """The cluster's file, with some sections changed. JSON is YAML."""
    content: dict[str, Any] = {
        "version": 1,
        "bootstrap_servers": brokers.bootstrap.split(","),
        "state": "state",
        "stop": f"{brokers.work}/stop-{{id}}",
        "start": f"{brokers.work}/start-{{id}}",
        "maintain": [CLEAN],
        "limits": {"stop": "120s", "lock": "120s", "start": "240s", "in_sync": "300s"},
        "brokers": [
            {"id": broker, "log_dirs": [str(brokers.log_dir(broker))]} for broker in brokers.ids
        ],
    }
    path = brokers.work / "cluster.yml"
    path.write_text(json.dumps(content | changes))
    return path


def journal(path: Path) -> Journal:
    """What the last run has noted."""
    return read_journal(path.parent / "state" / "rolling.json")


def whole(brokers: Brokers) -> bool:
    """All brokers are in the cluster and in all ISRs."""
    topics = brokers.admin.list_topics(timeout=10).topics
    isrs = [len(about.isrs) for topic in topics.values() for about in topic.partitions.values()]
    return brokers.alive() == set(brokers.ids) and set(isrs) == {len(brokers.ids)}


def check(load: Load) -> None:
    """Nobody has noticed anything."""
    assert [] == load.errors
    assert MIN_ISR == load.smallest  # a broker was away
    assert load.samples > 20
    assert len(load.acknowledged) > 100
    assert load.acknowledged <= set(load.consumed)


@contextmanager
def three_brokers(work: Path) -> Iterator[Brokers]:
    """They run, with both topics of the load."""
    with Brokers(work) as running:
        make_topics(running.admin)
        yield running


def refill(cluster: Brokers) -> Brokers:
    """The cluster once it is whole, with something to clean, and no round begun."""
    assert wait_for(lambda: whole(cluster) or None, IN_TIME), cluster.said()
    fill(cluster.bootstrap)
    (cluster.work / "state" / "rolling.json").unlink(missing_ok=True)
    return cluster
