"""Three brokers: node 1 controls, nodes 2 and 3 have all topics, so that every log is read of its
leader and of a follower. One topic loses records by unclean elections, again and again.
"""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from math import inf
from pathlib import Path

from tests import oracle_runner
from tests.e2e.command import free_port
from tests.live.broker import Broker, Topics
from tests.live.driver import (
    Changes,
    Court,
    Figures,
    Plan,
    clients,
    not_of_kafka,
    readings_of,
    settings_of,
    start_again,
)
from tests.live.load import COMPACT, TOPICS, Topic, Writer
from tests.live.rows import LEVELS
from tests.live.truth import Truth

NODES = (2, 3)
"""Those that are read."""
CLUSTER_ID = "bGl2ZS10ZXN0LWNsdXN0ZQ"
REPLICATED = {
    "transaction.state.log.replication.factor": "2",
    "transaction.state.log.min.isr": "1",
    "replica.lag.time.max.ms": "2000",
    "unclean.leader.election.interval.ms": "500",
}
LONG_AWAY = {"delete.retention.ms": "3600000"}
"""A follower that is away for longer never gets tombstones that its leader removed meanwhile: its
log has deleted keys then, whoever reads it.
"""
UNCLEAN = Topic(
    name="unclean",
    config={**COMPACT, **LONG_AWAY, "unclean.leader.election.enable": "true"},
    keys=500,
    plain_per_second=300,
)
"""The changes of its leader write to it, since nobody may while there is none."""
KEPT = tuple(
    replace(topic, config={**topic.config, **LONG_AWAY})
    for topic in TOPICS
    if topic.name in {"compacted", "again", "sized"}
)
ALONE_SECONDS = 4.0
WAIT_SECONDS = 60.0


def start_cluster(work: Path, plan: Plan, ends: ExitStack) -> dict[int, Broker]:
    """Start the brokers, which `ends` stops; by node. Effects: processes, files below `work`."""
    controller = free_port()
    nodes = {}
    for node in (1, *NODES):
        port = free_port()
        listeners = [f"PLAINTEXT://127.0.0.1:{port}"]
        if node == 1:
            listeners.append(f"CONTROLLER://127.0.0.1:{controller}")
        settings = {
            **REPLICATED,
            **settings_of(plan),
            "node.id": str(node),
            "process.roles": "broker,controller" if node == 1 else "broker",
            "listeners": ",".join(listeners),
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        }
        nodes[node] = Broker(work / f"node{node}", settings=settings, port=port)
        for directory in ("logs", "metadata"):
            identity = work / f"node{node}" / directory / "meta.properties"
            identity.parent.mkdir(parents=True)
            identity.write_text(f"version=1\ncluster.id={CLUSTER_ID}\nnode.id={node}\n")
        ends.enter_context(nodes[node])
    return nodes


def run(plan: Plan, work: Path) -> Figures:
    """Run it. Effects: processes and files below `work`."""
    figures = Figures()
    plan = replace(plan, topics=(*KEPT, UNCLEAN), late_seconds=inf)
    with oracle_runner.using(oracle_runner.NEWEST), ExitStack() as ends:
        nodes = start_cluster(work, plan, ends)
        bootstrap = ",".join(node.bootstrap for node in nodes.values())
        truth, topics = Truth(bootstrap), Topics(bootstrap)
        for topic in plan.topics:
            topic_id = topics.create(topic.name, topic.config, nodes=NODES)
            truth.follow(topic.name, topic_id)
        court = Court(truth, plan, figures, lambda: max(node.up_since for node in nodes.values()))
        changes = Changes(plan, bootstrap, truth, figures, nodes=NODES)
        elections = Elections(nodes, truth, changes, figures, plan)
        with clients(replace(plan, topics=KEPT), bootstrap), elections.held():
            time.sleep(plan.warm_seconds)
            log_dirs = [nodes[node].log_dir for node in NODES]
            with readings_of(plan, log_dirs, work) as readings:
                court.sit(readings)
        for node in NODES:
            for name in not_of_kafka(nodes[node].log_dir):
                figures.wrong[f"written below the log directory: {name}"] += 1
        truth.close()
    return figures


class Elections:
    """Kills both brokers of UNCLEAN in turn, so that the one that lags becomes its leader."""

    def __init__(
        self, nodes: dict[int, Broker], truth: Truth, changes: Changes, figures: Figures, plan: Plan
    ) -> None:
        self._nodes, self._truth, self._changes = nodes, truth, changes
        self._topics = Topics(truth.bootstrap)
        self._figures, self._plan = figures, plan
        self._failed: Exception | None = None

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold elections while the context lasts. Effects: a thread."""
        stop = threading.Event()
        thread = threading.Thread(target=self._keep_on, args=(stop,), daemon=True)
        thread.start()
        yield
        stop.set()
        thread.join()
        if self._failed is not None:
            raise self._failed

    def _keep_on(self, stop: threading.Event) -> None:
        try:
            while not stop.is_set():
                with self._writing():
                    self._stay_together(stop)
                    leader, follower = self._leave_alone()
                    time.sleep(ALONE_SECONDS)
                self._elect(leader, follower)
        except Exception as error:  # noqa: BLE001 -- raised again in the main thread
            self._failed = error

    def _stay_together(self, stop: threading.Event) -> None:
        """Change topics meanwhile."""
        until = time.monotonic() + self._plan.together_seconds
        while time.monotonic() < until and not stop.wait(self._plan.change_seconds):
            self._changes.change()

    def _leave_alone(self) -> tuple[int, int]:
        """Kill the follower; leader and follower."""
        leader, _ = self._topics.replicas(UNCLEAN.name)
        assert leader in NODES
        follower = sum(NODES) - leader
        self._nodes[follower].kill()
        self._wait(lambda: self._topics.replicas(UNCLEAN.name)[1] == {leader})
        return leader, follower

    def _elect(self, leader: int, follower: int) -> None:
        """Let the follower lead, which lacks records; then start the one that has them."""
        name = UNCLEAN.name
        for level in LEVELS:
            self._truth.reach(UNCLEAN.log, level, self._topics.end(name, level))
        self._truth.close(UNCLEAN.log)
        lost = self._topics.end(name, "read_uncommitted")
        self._nodes[leader].kill()
        start_again(self._nodes[follower], self._figures)
        self._wait(lambda: self._topics.replicas(name)[0] == follower)
        end = self._topics.end(name, "read_uncommitted")
        old = self._truth.branch(name, end)
        self._figures.changes["unclean elections"] += 1
        self._figures.changes["records lost by them"] += lost - end
        with self._writing():
            start_again(self._nodes[leader], self._figures)
            self._wait(lambda: self._topics.replicas(name)[1] == set(NODES))
        old.until = time.monotonic()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Write to UNCLEAN meanwhile. Effects: a thread, requests to the brokers."""
        stop = multiprocessing.get_context("spawn").Event()
        writer = Writer(self._truth.bootstrap, UNCLEAN, "none", iter(range(10**9)), stop)
        thread = threading.Thread(target=writer.plain, args=(self._plan.seed,), daemon=True)
        thread.start()
        yield
        stop.set()
        thread.join()

    @staticmethod
    def _wait(is_done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        while not is_done():
            assert time.monotonic() < deadline, "the brokers do not agree"
            time.sleep(0.2)
