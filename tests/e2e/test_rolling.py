"""The brokers of a running cluster are maintained one after another; its clients notice nothing,
and whatever goes wrong ends with the broker started.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka import TopicPartition as Assigned
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
)

from logwright.format.names import TopicPartition
from logwright.locks import wait_for
from logwright.rolling.cluster import RunningCluster
from logwright.rolling.controller import noted_leader
from logwright.rolling.model import STEPS, Journal, Quorum
from logwright.running.watermark import read_watermarks
from tests.e2e.brokers import Brokers
from tests.e2e.command import PROGRAM, Answer, call
from tests.e2e.rolling_cluster import CLEAN, IN_TIME, check, journal, whole, write_file
from tests.e2e.rolling_load import EVENTS, PARTITIONS, STATE, Load, fill

pytestmark = [pytest.mark.e2e, pytest.mark.oracle]


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


def quorum(brokers: Brokers) -> Quorum:
    """What is known of the controllers."""
    return RunningCluster(brokers.bootstrap.split(","), {}).look().quorum


@pytest.mark.rotates(3)
def test_a_broker_is_maintained_in_a_running_cluster(brokers: Brokers) -> None:
    """Its replicas are cleaned, coordinated with those of the brokers that run; no error of a
    producer, all is consumed, never below min ISR. The active controller would be the last.
    """
    every = frozenset({1, 2, 3})
    assert Quorum(voters=every, up=every) == quorum(brokers)
    path = write_file(brokers, coordinate=True)
    with Load(brokers.bootstrap) as load:
        shown = call("rolling", path, "--dry-run", "--output", "json")
        answer = rolling(path, "--broker", "2")
    assert (0, {1, 2, 3}) == (shown.status, {line["broker"] for line in shown.lines})
    assert [False, False, True] == [line["activeController"] for line in shown.lines]
    assert 0 == answer.status, answer.err
    (line,) = answer.lines
    assert (2, "clean", PARTITIONS) == (line["broker"], line["command"], line["logs"])
    assert line["freedBytes"] > 3_000_000
    check(load)
    assert whole(brokers)
    assert Journal() == journal(path)


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
@pytest.mark.parametrize("elsewhere", [False, True])
def test_the_active_controller_is_the_last(brokers: Brokers, *, elsewhere: bool) -> None:
    """As Kafka's own tool names it, before and after it was stopped; also through `run_with`."""
    words: dict[str, Any] = {"run_with": "env", "logwright": [sys.executable, "-c", PROGRAM]}
    path = write_file(brokers, **(words if elsewhere else {}))
    first = brokers.active_controller()
    assert first == last_of(path)
    subprocess.run([brokers.script("stop", first)], check=True)
    others = [broker for broker in brokers.ids if broker != first]
    second = wait_for(lambda: noted(brokers, others), IN_TIME)
    assert second == brokers.active_controller()
    brokers.start(first)
    assert wait_for(lambda: whole(brokers) or None, IN_TIME)
    assert brokers.active_controller() == last_of(path)


def noted(brokers: Brokers, wanted: list[int]) -> int | None:
    """The leader of the newest epoch that the nodes have noted, once it is one of these."""
    leaders = [noted_leader([brokers.log_dir(each)]) for each in brokers.ids]
    newest = max(each for each in leaders if each is not None)
    return newest.leader if newest.leader in wanted else None


def last_of(path: Path) -> int:
    """The last broker of a round, and that it is said to be the active controller."""
    shown = call("rolling", path, "--dry-run", "--output", "json")
    *others, last = shown.lines
    assert [False, False, True] == [line["activeController"] for line in shown.lines], shown.err
    assert "last, as it is the active controller" in last["reason"]
    assert not any("controller" in line["reason"] for line in others)
    text = call("rolling", path, "--dry-run").out
    assert f"The active controller is broker {last['broker']}." in text.splitlines()
    return int(last["broker"])


@pytest.mark.nightly
def test_tombstones_stay_while_a_running_replica_may_need_them(brokers: Brokers) -> None:
    """The other brokers have not cleaned their replicas, as their checkpoints say: a coordinated
    cleaning of the one that is stopped keeps its tombstones, another one removes them.
    """
    delete_keys(brokers)
    others = [f"--coordinate-with={brokers.log_dir(each)}" for each in (1, 3)]
    marked, kept = (cleaned(brokers, days, *others) for days in (2, 4))
    gone = cleaned(brokers, 6)
    answers = [marked, kept, gone]
    assert [0, 0, 0] == [each.status for each in answers], [each.err for each in answers]
    figures = [figures_of(each) for each in answers]
    assert [PARTITIONS] * 3 == [len(each) for each in figures]
    assert all(each["horizonsSet"] > 0 for each in figures[0])
    assert [0, 0] == [sum(each["removedTombstones"] for each in some) for some in figures[:2]]
    assert all(each["removedTombstones"] > 0 for each in figures[2])


def delete_keys(brokers: Brokers) -> None:
    """Write a tombstone of a key to each partition."""
    producer = Producer({"bootstrap.servers": brokers.bootstrap, "acks": "all"})
    for number in range(PARTITIONS):
        producer.produce(STATE, key=b"gone", value=None, partition=number)
    assert 0 == producer.flush(60)


def cleaned(brokers: Brokers, days: int, *options: str) -> Answer:
    """Write some segments more, stop broker 2, and clean its replicas as that many days later."""
    fill(brokers.bootstrap)
    ends = {f"{STATE}-{number}" for number in range(PARTITIONS)}
    assert wait_for(lambda: all(recorded(brokers, each) for each in ends) or None, IN_TIME)
    now = int(time.time() * 1000) + days * 86_400_000
    words = [*CLEAN.split()[1:], "--now", now, "--yes", "--output", "json"]
    subprocess.run([brokers.script("stop", 2)], check=True)
    try:
        return call("clean", brokers.log_dir(2), *words, *options)
    finally:
        brokers.start(2)
        assert wait_for(lambda: whole(brokers) or None, IN_TIME)


def recorded(brokers: Brokers, log: str) -> bool:
    """All replicas have the same high watermark on record, and what was written is below it."""
    partition = TopicPartition.parse(log)
    assert partition is not None
    _, end = Consumer(
        {"bootstrap.servers": brokers.bootstrap, "group.id": "ends"}
    ).get_watermark_offsets(Assigned(partition.topic, partition.partition))
    marks = [read_watermarks(brokers.log_dir(each)).offsets for each in brokers.ids]
    return {end} == {each.get(partition) for each in marks}


def figures_of(answer: Answer) -> list[dict[str, Any]]:
    """Of the passes that cleaned; the last pass of a log can find nothing to clean."""
    return [each for line in answer.lines for each in line["passes"] if each["cleaned"]]


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
    assert Quorum(voters=frozenset({1, 2, 3}), up=frozenset(left)) == quorum(brokers)
    others = rolling(path, "--broker", str(1 + (stopped or 0) % 3))
    assert 5 == others.status
    assert f"a run was interrupted at broker {stopped}, step start" in others.err
    answer = rolling(write_file(brokers))
    assert 0 == answer.status, answer.err
    assert f"broker {stopped}: an interrupted run was at its step start" in answer.err
    assert left == {each["broker"] for each in answer.lines}, "it was maintained before"
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
