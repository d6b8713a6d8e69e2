"""The brokers of a running cluster are maintained one after another; its clients notice nothing,
and whatever goes wrong ends with the broker started.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
)

from logwright.locks import wait_for
from logwright.rolling.journal import read_journal
from logwright.rolling.model import STEPS, Journal
from tests.e2e.brokers import Brokers
from tests.e2e.command import PROGRAM, Answer, call
from tests.e2e.rolling_load import EVENTS, MIN_ISR, PARTITIONS, STATE, Load, fill, make_topics

pytestmark = [pytest.mark.e2e, pytest.mark.oracle]

CLEAN = " ".join(
    ["clean --config cleanup.policy=compact --force", *(f"{STATE}-{n}" for n in range(PARTITIONS))]
)
IN_TIME = 120.0
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
        "limits": {"stop": "60s", "lock": "60s", "start": "60s", "in_sync": "120s"},
        "brokers": [
            {"id": broker, "log_dirs": [str(brokers.log_dir(broker))]} for broker in brokers.ids
        ],
    }
    path = brokers.work / "cluster.yml"
    path.write_text(json.dumps(content | changes))
    return path


def rolling(path: Path, *words: str) -> Answer:
    """The command."""
    return call("rolling", path, "--yes", "--output", "json", *words)


def started(path: Path, *words: str) -> subprocess.Popen[str]:
    """The command, in a process of its own."""
    command = ["rolling", str(path), "--yes", "--output", "json", *words]
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def until(process: subprocess.Popen[str], words: str) -> list[str]:
    """Wait until the command has said this; all that it said."""
    assert process.stderr is not None
    lines: list[str] = []
    for line in process.stderr:
        lines.append(line.rstrip())
        if words in line:
            return lines
    raise AssertionError(lines)


def journal(path: Path) -> Journal:
    return read_journal(path.parent / "state" / "rolling.json")


def whole(brokers: Brokers) -> bool:
    """All brokers are in the cluster and in all ISRs."""
    topics = brokers.admin.list_topics(timeout=10).topics
    isrs = [len(about.isrs) for topic in topics.values() for about in topic.partitions.values()]
    return brokers.alive() == set(brokers.ids) and set(isrs) == {len(brokers.ids)}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    """Three brokers with both topics."""
    with Brokers(tmp_path_factory.mktemp("cluster")) as running:
        make_topics(running.admin)
        yield running


@pytest.fixture
def brokers(cluster: Brokers) -> Brokers:
    """The cluster, whole, with something to clean."""
    assert wait_for(lambda: whole(cluster) or None, IN_TIME), cluster.said()
    fill(cluster.bootstrap)
    (cluster.work / "state" / "rolling.json").unlink(missing_ok=True)
    return cluster


def test_a_broker_is_maintained_in_a_running_cluster(brokers: Brokers) -> None:
    """Its replicas are cleaned; no error of a producer, all is consumed, never below min ISR."""
    path = write_file(brokers)
    with Load(brokers.bootstrap) as load:
        shown = call("rolling", path, "--dry-run", "--output", "json")
        answer = rolling(path, "--broker", "2")
    assert (0, {1, 2, 3}) == (shown.status, {line["broker"] for line in shown.lines})
    assert 0 == answer.status, answer.err
    (line,) = answer.lines
    assert (2, "clean", PARTITIONS) == (line["broker"], line["command"], line["logs"])
    assert line["freedBytes"] > 3_000_000
    check(load)
    assert whole(brokers)
    assert Journal() == journal(path)


def check(load: Load) -> None:
    """Nobody has noticed anything."""
    assert [] == load.errors
    assert MIN_ISR == load.smallest  # a broker was away
    assert load.samples > 20
    assert len(load.acknowledged) > 100
    assert load.acknowledged <= set(load.consumed)


@pytest.mark.nightly
def test_a_round_is_not_noticed(brokers: Brokers) -> None:
    """All three brokers, one after another; where `run_with` says, as on another machine."""
    elsewhere = {"run_with": "env", "logwright": [sys.executable, "-c", PROGRAM]}
    path = write_file(brokers, maintain=[CLEAN, "purge", "verify"], **elsewhere)
    with Load(brokers.bootstrap) as load:
        answer = rolling(path)
    assert 0 == answer.status, answer.err
    freed = {
        each["broker"]: each["freedBytes"] for each in answer.lines if each["command"] == "clean"
    }
    assert {1, 2, 3} == set(freed)
    assert min(freed.values()) > 3_000_000
    check(load)
    assert whole(brokers)
    assert Journal() == journal(path)


@pytest.mark.nightly
@pytest.mark.parametrize("step", STEPS)
def test_a_killed_run_continues_where_it_was(brokers: Brokers, step: str) -> None:
    """Killed in any step; the next run brings the broker back and does all that is left."""
    path = write_file(brokers)
    with Load(brokers.bootstrap) as load:
        process = started(path)
        first = until(process, "broker ")[0].split(":")[0]
        if step != "check":
            until(process, f"{first}: {step}")
        process.kill()
        process.communicate()
        answer = rolling(path)
    assert 0 == answer.status, answer.err
    check(load)
    assert whole(brokers)
    assert Journal() == journal(path)
    assert {1, 2, 3} - {int(first.split()[1])} <= {line["broker"] for line in answer.lines}


@pytest.mark.nightly
def test_a_terminated_run_starts_the_broker(brokers: Brokers) -> None:
    """SIGTERM in the middle of a maintenance: the broker is back, and then the run ends."""
    path = write_file(brokers)
    process = started(path, "--broker", "1")
    until(process, "broker 1: maintain")
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=IN_TIME)
    assert 130 == process.returncode, err
    assert "interrupted. The broker is started again" in err
    assert {1, 2, 3} == brokers.alive()
    assert Journal() == journal(path)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("stop", "status", "problem"),
    [
        ("sleep 1000", 7, "the stop hook of broker 3 did not end within 2 s and was stopped"),
        ("false", 7, "the stop hook of broker 3 ended with status 1"),
        ("true", 5, "a process holds the lock of "),
    ],
)
def test_a_stop_hook_that_does_not_stop(
    brokers: Brokers, stop: str, status: int, problem: str
) -> None:
    """One that hangs, fails, or does nothing: the broker runs, and nothing was maintained."""
    limits = {"stop": "2s", "lock": "3s", "start": "60s", "in_sync": "60s"}
    path = write_file(brokers, stop=stop, limits=limits)
    answer = rolling(path, "--broker", "3")
    assert (status, [problem in answer.err]) == (answer.status, [True]), answer.err
    assert whole(brokers)
    assert Journal() == journal(path)


@pytest.mark.nightly
def test_a_failed_maintenance(brokers: Brokers) -> None:
    """The broker runs, the status is the command's, and its reason is shown; no other broker is
    stopped.
    """
    path = write_file(brokers, maintain=["clean --policies nowhere"])
    answer = rolling(path)
    assert 2 == answer.status, answer.err
    assert "ended with status 2: is not a directory of policies" in answer.err
    assert 1 == answer.err.count(": stop\n")
    assert {1, 2, 3} == brokers.alive()
    assert Journal() == journal(path)


@pytest.mark.nightly
def test_a_broker_that_does_not_come_back(brokers: Brokers) -> None:
    """The reason is shown; no other broker is touched; the next run continues with this one."""
    limits = {"stop": "60s", "lock": "10s", "start": "5s", "in_sync": "60s"}
    path = write_file(brokers, start="true", limits=limits)
    answer = rolling(path)
    assert 7 == answer.status, answer.err
    assert "is not back in the cluster, after 5 s. After that broker" in answer.err
    stopped = journal(path).broker
    left = {1, 2, 3} - {stopped}
    assert wait_for(lambda: brokers.alive() == left or None, IN_TIME), brokers.alive()
    others = rolling(path, "--broker", str(1 + (stopped or 0) % 3))
    assert 5 == others.status
    assert f"a run was interrupted at broker {stopped}, step start" in others.err
    answer = rolling(write_file(brokers))
    assert 0 == answer.status, answer.err
    assert [stopped] == [each["broker"] for each in answer.lines][:1]
    assert whole(brokers)


@pytest.mark.nightly
def test_an_isr_that_does_not_fill(brokers: Brokers) -> None:
    """The broker runs, the reason is shown, and the next run continues with this broker."""
    throttle(brokers, AlterConfigOpType.SET)
    wait = f"while ! [ -e {brokers.work}/filled ]; do sleep 0.1; done"
    path = write_file(
        brokers,
        start=["sh", "-c", f"{wait}; exec {brokers.work}/start-{{id}}"],
        limits={"stop": "60s", "lock": "60s", "start": "60s", "in_sync": "5s"},
    )
    thread = threading.Thread(target=lag, args=(brokers, 2))
    thread.start()
    answer = rolling(path, "--broker", "2")
    thread.join()
    throttle(brokers, AlterConfigOpType.DELETE)
    assert 5 == answer.status, answer.err
    assert "broker 2 is not in the ISR of events-" in answer.err
    assert {1, 2, 3} == brokers.alive()
    answer = rolling(write_file(brokers), "--broker", "2")
    assert 0 == answer.status, answer.err
    assert "it continues with verify" in answer.err
    assert whole(brokers)


def lag(brokers: Brokers, broker: int) -> None:
    """Once a broker is away, write more than one fetch of it has room for."""
    assert wait_for(lambda: broker not in brokers.alive() or None, IN_TIME)
    fill(brokers.bootstrap, EVENTS)
    (brokers.work / "filled").touch()


def throttle(brokers: Brokers, change: Any) -> None:  # noqa: ANN401 -- an enumeration
    """Let broker 2 fetch nothing of the topic with load, or end that."""
    wanted = [
        (ConfigResource.Type.BROKER, "2", "follower.replication.throttled.rate", "1"),
        (ConfigResource.Type.TOPIC, EVENTS, "follower.replication.throttled.replicas", "*"),
    ]
    for kind, name, key, value in wanted:
        entry = ConfigEntry(key, value, incremental_operation=change)
        resource = ConfigResource(kind, name, incremental_configs=[entry])

        def changed(resource: ConfigResource = resource) -> bool | None:
            admin = AdminClient({"bootstrap.servers": brokers.bootstrap, "log_level": 0})
            with suppress(KafkaException):  # of a client that has not reached the broker yet
                for answer in admin.incremental_alter_configs([resource]).values():
                    answer.result(30)
                return True
            return None

        assert wait_for(changed, IN_TIME)
    time.sleep(1)  # until the broker has it
