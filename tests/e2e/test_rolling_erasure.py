"""Erasures by tombstones of a cluster's file: produced through the running cluster, before its
brokers are maintained one after another.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)

from logwright.locks import wait_for
from logwright.rolling import broker as maintenance
from logwright.rolling import erasing
from logwright.rolling.broker import BrokerMaintenance
from logwright.rolling.erasing import ClusterErasures
from logwright.rolling.model import ClusterUnavailable, Journal
from logwright.rolling.site import open_site
from logwright.rolling.tombstones import Lacking
from tests.e2e.brokers import Brokers
from tests.e2e.command import PROGRAM, Answer, call
from tests.e2e.rolling_cluster import IN_TIME, journal, whole, write_file
from tests.e2e.rolling_load import EVENTS, PARTITIONS

pytestmark = [pytest.mark.e2e, pytest.mark.oracle, pytest.mark.rotates(8, by="file")]

PEOPLE = "people"
KEYS = [f"person-{number}@example.com" for number in range(40)]
GONE = KEYS[:6]
"""Those that are requested."""
TWICE, DEAD, ALIVE_AGAIN, ABORTED = GONE[:4]
"""In two partitions; with a tombstone; with a value after one; with an aborted one after one."""
LACKING = {f"{PEOPLE}-0": 1, f"{PEOPLE}-1": 2, f"{PEOPLE}-2": 2}
"""How many tombstones are lacking: see `fill_people`."""
SECONDS = 60.0

Seen = dict[tuple[int, bytes], list[tuple[int, bytes | None]]]
"""Partition and key → offsets and values, as a consumer gets them."""


@pytest.fixture
def people(brokers: Brokers) -> Iterator[Brokers]:
    """The cluster, with a topic that no other test has."""
    config = {"min.insync.replicas": "2", "cleanup.policy": "compact"}
    topic = NewTopic(PEOPLE, PARTITIONS, len(brokers.ids), config=config)
    brokers.admin.create_topics([topic])[PEOPLE].result(SECONDS)
    assert wait_for(lambda: whole(brokers) or None, IN_TIME), brokers.said()
    fill_people(brokers)
    yield brokers
    assert wait_for(lambda: whole(brokers) or None, IN_TIME), brokers.said()
    brokers.admin.delete_topics([PEOPLE])[PEOPLE].result(SECONDS)
    assert wait_for(
        lambda: PEOPLE not in brokers.admin.list_topics(timeout=10).topics or None, IN_TIME
    )


def producer(brokers: Brokers, **more: Any) -> Producer:  # noqa: ANN401 -- settings
    settings = {"bootstrap.servers": brokers.bootstrap, "acks": "all", "log_level": 0}
    return Producer({**settings, **more})


def put(client: Producer, partition: int, key: str, value: str | None) -> None:
    """A record in a partition that no partitioner chose."""
    client.produce(PEOPLE, key=key, value=value, partition=partition)


def fill_people(brokers: Brokers) -> None:
    """The n-th key in the partition of n modulo 3; of the requested ones:

    - 0 and 3 in partition 0; 3 has a tombstone, and after it an aborted value;
    - 1 and 4 in partition 1; 1 has a tombstone; 0 is in this one, too;
    - 2 and 5 in partition 2; 2 has a value after a tombstone.
    """
    client = producer(brokers)
    for number, key in enumerate(KEYS):
        put(client, number % PARTITIONS, key, f"value of {key}")
    put(client, 1, TWICE, f"value of {TWICE}")
    for number, key in ((1, DEAD), (2, ALIVE_AGAIN), (0, ABORTED)):
        put(client, number, key, None)
    put(client, 2, ALIVE_AGAIN, f"value of {ALIVE_AGAIN}")
    put(client, 0, KEYS[6], f"value of {KEYS[6]}")
    assert 0 == client.flush(SECONDS)
    aborting = producer(brokers, **{"transactional.id": "aborting"})
    aborting.init_transactions(SECONDS)
    aborting.begin_transaction()
    put(aborting, 0, ABORTED, f"value of {ABORTED}")
    aborting.flush(SECONDS)
    aborting.abort_transaction(SECONDS)
    client.produce(EVENTS, key=TWICE, value="of a topic that is not compacted", partition=0)
    assert 0 == client.flush(SECONDS)


def ends(brokers: Brokers) -> dict[int, int]:
    """The end offset of each partition."""
    consumer = Consumer({"bootstrap.servers": brokers.bootstrap, "group.id": "e", "log_level": 0})
    offsets = {
        number: consumer.get_watermark_offsets(TopicPartition(PEOPLE, number), timeout=SECONDS)[1]
        for number in range(PARTITIONS)
    }
    consumer.close()
    return offsets


def seen(brokers: Brokers) -> Seen:
    """All that a consumer of committed records gets."""
    settings = {"bootstrap.servers": brokers.bootstrap, "group.id": "s", "log_level": 0}
    consumer = Consumer({**settings, "enable.partition.eof": True, "enable.auto.commit": False})
    consumer.assign([TopicPartition(PEOPLE, number, 0) for number in range(PARTITIONS)])
    records: Seen = {}
    at_end: set[int | None] = set()
    while len(at_end) < PARTITIONS:
        (message,) = consumer.consume(1, SECONDS)
        if message.error() is not None:
            at_end.add(message.partition())
            continue
        place = (message.partition() or 0, message.key() or b"")
        records.setdefault(place, []).append((message.offset() or 0, message.value()))
    consumer.close()
    return records


def latest(records: Seen) -> dict[tuple[int, bytes], bytes | None]:
    """The last value of each key in each partition."""
    return {place: some[-1][1] for place, some in records.items()}


def cluster_file(brokers: Brokers, *, topics: str = f"regex:{PEOPLE}|{EVENTS}") -> Path:
    """The file: requests that have HMACs of all keys but one, and one key in clear."""
    work = brokers.work
    landing = work / "landing"
    landing.mkdir(exist_ok=True)
    rows = [
        {"id": f"r-{number}", "topics": topics, "key": key, "received_at": 0, "deadline": 1}
        for number, key in enumerate((*GONE[:5], "nobody@example.com"))
    ]
    (landing / "requests.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    secret = work / "secret"
    secret.write_text("s" * 32)
    secret.chmod(0o600)
    (work / "keys").write_text(f"{GONE[5]}\n")
    logs = [f"{PEOPLE}-{number}" for number in range(PARTITIONS)]
    maintain = [
        "erase --requests landing --secret secret",
        f"erase --keys=keys --topic {PEOPLE}",
        " ".join(["roll --force", *logs]),
        " ".join(["clean --config cleanup.policy=compact --force", *logs]),
    ]
    return write_file(brokers, maintain=maintain)


def tombstones(answer: Answer) -> dict[str, int]:
    """Partition → how many were produced, or lack."""
    counts: dict[str, int] = {}
    for line in answer.lines:
        if "tombstones" in line:
            name = line["topicPartition"]
            counts[name] = counts.get(name, 0) + line["tombstones"]
    return counts


def require_gone(brokers: Brokers, before: Seen) -> None:
    """No consumer gets a value of the requested keys, from any partition, and all other keys are
    where they were. No replica has such a value in a live segment; all are alike.
    """
    records = seen(brokers)
    gone = {key.encode() for key in GONE}
    assert not [place for place, some in records.items() if place[1] in gone and some[-1][1]]
    values = [value for place, some in records.items() if place[1] in gone for _, value in some]
    assert {None} == set(values)
    kept = {place: value for place, value in latest(before).items() if place[1] not in gone}
    assert len(KEYS) - len(GONE) == len(kept)
    assert kept == {place: at for place, at in latest(records).items() if place[1] not in gone}
    assert before.keys() == records.keys(), "each tombstone is where the key was"
    for broker in brokers.ids:
        for log in brokers.log_dir(broker).glob(f"{PEOPLE}-[0-9]/*.log"):
            content = log.read_bytes()
            assert not [key for key in GONE if f"value of {key}".encode() in content], log
    alike = call("audit", *(brokers.log_dir(each) for each in brokers.ids))
    assert 0 == alike.status, alike.out + alike.err


def require_no_key(answer: Answer, brokers: Brokers) -> None:
    """Nothing of a key was said or noted."""
    notes = [path.read_text() for path in (brokers.work / "state").glob("*") if path.is_file()]
    for text in (answer.out, answer.err, *notes):
        assert "example.com" not in text


def test_tombstones_go_through_the_cluster(people: Brokers) -> None:
    """A dry run counts them and produces none; a round produces them, and cleans each replica; the
    next one has nothing to produce.
    """
    path = cluster_file(people)
    before, offsets = seen(people), ends(people)
    shown = call("rolling", path, "--dry-run", "--output", "json")
    assert (0, LACKING) == (shown.status, tombstones(shown)), shown.err
    assert not any(line.get("produced") for line in shown.lines)
    assert offsets == ends(people)
    answer = call("rolling", path, "--yes", "--output", "json")
    assert (0, LACKING) == (answer.status, tombstones(answer)), answer.err
    first, *_ = [line for line in answer.lines if "broker" in line or "tombstones" in line]
    assert "tombstones" in first, "before the first broker"
    assert f"{EVENTS} is not compacted and gets no tombstones" in answer.err
    assert 1 == answer.err.count("tombstones: 5 produced and acknowledged")
    assert {f"{PEOPLE}-{n}": end - offsets[n] for n, end in ends(people).items()} == LACKING
    require_gone(people, before)
    require_no_key(shown, people)
    require_no_key(answer, people)
    assert Journal() == journal(path)
    again = call("rolling", path, "--yes", "--output", "json", "--broker", "1")
    assert (0, {}) == (again.status, tombstones(again)), again.err


@pytest.mark.nightly
def test_a_killed_round_produces_nothing_twice(people: Brokers) -> None:
    """It looks again: what is a tombstone gets none. Killed while a broker is away, that one is
    maintained first.
    """
    path = cluster_file(people)
    before, offsets = seen(people), ends(people)
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "rolling", str(path), "--yes", "--output", "json"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if "maintain: logwright" in line:
            break
    process.kill()
    process.communicate()
    answer = call("rolling", path, "--yes", "--output", "json")
    assert (0, {}) == (answer.status, tombstones(answer)), answer.err
    assert "an interrupted run was at its step maintain" in answer.err
    assert {f"{PEOPLE}-{n}": end - offsets[n] for n, end in ends(people).items()} == LACKING
    require_gone(people, before)


def test_what_was_not_looked_at_is_said(people: Brokers, monkeypatch: pytest.MonkeyPatch) -> None:
    """An open transaction hides records; a topic that nothing has is named. Once it is committed,
    its keys are found.
    """
    monkeypatch.setattr(erasing, "_DECIDED_SECONDS", 1.0)
    path = cluster_file(people, topics=f"regex:{PEOPLE}|nothing.*")
    begun = ends(people)[1]
    open_one = producer(people, **{"transactional.id": "open"})
    open_one.init_transactions(SECONDS)
    open_one.begin_transaction()
    put(open_one, 1, DEAD, f"value of {DEAD}")
    assert 0 == open_one.flush(SECONDS)
    lines, lacking, complete = looked_at(path)
    assert (LACKING, False) == (lacking, complete)
    sentence = f"{PEOPLE}-1 has an open transaction and was looked at only up to offset {begun}"
    assert f"tombstones: {sentence}" in lines
    assert 9 == call("rolling", path, "--dry-run", "--output", "json").status
    open_one.commit_transaction(SECONDS)
    _, lacking, complete = looked_at(path)
    assert (LACKING | {f"{PEOPLE}-1": 3}, True) == (lacking, complete)
    nothing = cluster_file(people, topics="nothing")
    lines, lacking, complete = looked_at(nothing)
    assert ({f"{PEOPLE}-2": 1}, False) == (lacking, complete)
    assert (
        "tombstones: no topic of the cluster is nothing: its keys were looked for in none" in lines
    )


@pytest.mark.nightly
def test_a_tombstone_that_is_not_acknowledged(people: Brokers) -> None:
    """One is refused by its leader: the reason is shown, and nothing of the key."""
    change = AlterConfigOpType.SET
    entry = ConfigEntry("max.message.bytes", "10", incremental_operation=change)
    resource = ConfigResource(ConfigResource.Type.TOPIC, PEOPLE, incremental_configs=[entry])
    people.admin.incremental_alter_configs([resource])[resource].result(SECONDS)
    time.sleep(1)  # until the leader has it
    offsets = ends(people)
    site = open_site(cluster_file(people), lambda _: None)
    (first, *_) = [each for each in site.admin.look().partitions if each.topic == PEOPLE]
    with pytest.raises(
        ClusterUnavailable, match="tombstones were acknowledged: MSG_SIZE"
    ) as refused:
        site.topics.delete(first, [key.encode() for key in GONE[:2]])
    assert "example.com" not in f"{refused.value} {refused.value.remedy}"
    assert offsets == ends(people)


def looked_at(path: Path) -> tuple[list[str], Mapping[str, int], bool]:
    """What a look says, finds, and whether it saw all."""
    lines: list[str] = []
    partitions: list[Lacking] = []
    erasures = ClusterErasures(open_site(path, lines.append), report=partitions.append)
    count = erasures.look()
    counts: dict[str, int] = {}
    for each in partitions:
        counts[each.partition] = counts.get(each.partition, 0) + len(each.keys)
    assert count == sum(counts.values())
    return lines, counts, erasures.complete


def test_a_cleaning_counts_what_is_on_record(
    people: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The high watermarks that a broker has on record are waited for, up to what was produced; what
    they do not reach is said. Other partitions do not matter.
    """
    lines: list[str] = []
    site = open_site(cluster_file(people), lines.append)
    work = BrokerMaintenance(site, 1)
    put_at = {f"{PEOPLE}-{number}": end for number, end in ends(people).items()}
    assert work.has_on_record({**put_at, "elsewhere-0": 5})
    monkeypatch.setattr(maintenance, "_ON_RECORD_MS", 0)
    lines.clear()
    assert not work.has_on_record({f"{PEOPLE}-1": put_at[f"{PEOPLE}-1"] + 1})
    assert f"the high watermark of {PEOPLE}-1 on record is {put_at[f'{PEOPLE}-1']}" in lines[-1]
    erasures = ClusterErasures(site, [1])
    assert erasures.produce()
    reached = {f"{PEOPLE}-{number}": end for number, end in ends(people).items()}
    assert reached == erasures.reached
    put(client := producer(people), 0, KEYS[7], "value that is nobody's business")
    assert 0 == client.flush(SECONDS)
    again = ClusterErasures(site, [1])
    assert again.produce(), "it looks"
    assert reached == again.reached, "what an earlier run produced has to count, too"


def test_what_an_interrupted_run_counted_is_not_known(people: Brokers) -> None:
    """A broker that is back, maintained by a run that was killed: it is named, and the status is
    that of an erasure that is not complete. Once it is maintained again, all is.
    """
    path = cluster_file(people)
    open_site(path, lambda _: None).note(Journal(broker=1, step="verify"))
    answer = call("rolling", path, "--yes", "--output", "json", "--broker", "1")
    assert 9 == answer.status, answer.err
    sentence = "an interrupted run has maintained it: it is not known whether it counted all"
    assert f"broker 1: {sentence} tombstones" in answer.err
    answer = call("rolling", path, "--yes", "--output", "json", "--broker", "1")
    assert 0 == answer.status, answer.err
