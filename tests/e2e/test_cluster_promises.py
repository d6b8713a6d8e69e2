"""What a command does to one replica breaks no promise of its cluster: real brokers, with a
controller that continues while they are stopped.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ElectionType, Producer, TopicPartition
from confluent_kafka.admin import NewTopic

from logwright.locks import wait_for
from tests.e2e.brokers import Brokers
from tests.e2e.command import REPOSITORY, Answer, call
from tests.e2e.rolling_cluster import IN_TIME

pytestmark = [pytest.mark.e2e, pytest.mark.oracle]

TOPIC = "t"
COUNT = 1_000
"""Records that are acknowledged."""
EVERY = {1, 2, 3}
LOG = f"{TOPIC}-0"
SEGMENT = f"{LOG}/{0:020d}.log"
MARKER = ".kafka_cleanshutdown"
CLIENT_SECONDS = 60.0


_HERE = "test_cluster_promises.py"
_KEEPS = (_HERE, "test_a_log_that_ends_where_it_ended")
_ACKNOWLEDGED = (_HERE, "test_what_all_acknowledged_stays")
_OLDER = (_HERE, "test_an_older_state_comes_back")
_MOVED = (_HERE, "test_a_kill_and_a_move")
ROWS = {
    "what reads (`plan`, `latest`, `find`, `verify`, …)": _KEEPS,
    "`clean`, `roll`, `retain`, `purge`, `maintain`, and their `undo`": _KEEPS,
    "`recover`, `rescue`, and the recovery that other commands begin with": _KEEPS,
    (
        "the same, where records are cut or dropped, the log ends before its recovery point, or a"
        " `rescue` accepts that a log is missing"
    ): _ACKNOWLEDGED,
    "a directory without the marker that is recovered": _MOVED,
    "`delete`, `undo` of a deletion, `rescue --set-aside`, `rescue --undo`": _OLDER,
    "`download`": _OLDER,
    "`move` within one stop of a broker (KIP-113)": _MOVED,
    "`move` from a directory whose marker is of another stop, or that has none": _MOVED,
    "`erase` by tombstones, `ingest`, `archive`, Spark's writer": _ACKNOWLEDGED,
    "`erase --now-and-for-good`": _KEEPS,
    "`quorum --to`": ("test_quorum.py", "test_one_controller_is_left"),
    "`rolling`": ("test_rolling.py", "test_a_round_is_not_noticed"),
}
"""The rows of the table in the documents, by their first cells: file and name of the test."""


@contextmanager
def three_brokers(work: Path, *features: str, two_dirs: bool = False) -> Iterator[Brokers]:
    """They run, with the topic, until the end of the block."""
    with Brokers(work, apart=True, two_dirs=two_dirs, features=features) as running:
        config = {"min.insync.replicas": "2", "cleanup.policy": "compact"}
        topic = NewTopic(TOPIC, 1, len(EVERY), config=config)
        running.admin.create_topics([topic])[TOPIC].result(CLIENT_SECONDS)
        yield running


def produce(cluster: Brokers, keys: list[str]) -> None:
    """Records of which all replicas in sync have acknowledged each."""
    settings = {"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 0}
    producer = Producer({**settings, "batch.num.messages": 20})
    for key in keys:
        producer.produce(TOPIC, key=key, value=f"of {key}", partition=0)
        producer.poll(0)
    assert 0 == producer.flush(CLIENT_SECONDS)


def consumed(cluster: Brokers) -> set[str]:
    """The keys that a consumer gets, up to the end."""
    settings = {"bootstrap.servers": cluster.bootstrap, "group.id": "g", "log_level": 0}
    consumer = Consumer(settings)
    partition = TopicPartition(TOPIC, 0)
    offset, end = consumer.get_watermark_offsets(partition, timeout=CLIENT_SECONDS)
    consumer.assign([TopicPartition(TOPIC, 0, offset)])
    keys = set()
    while offset < end:
        (message,) = consumer.consume(1, CLIENT_SECONDS)
        assert message.error() is None
        keys.add(bytes(message.key() or b"").decode())
        offset = (message.offset() or 0) + 1
    consumer.close()
    return keys


def isr(cluster: Brokers) -> set[int]:
    """Who is in sync."""
    return set(cluster.admin.list_topics(TOPIC, timeout=10).topics[TOPIC].partitions[0].isrs)


def leader(cluster: Brokers) -> int:
    """Who leads; -1: nobody."""
    return int(cluster.admin.list_topics(TOPIC, timeout=10).topics[TOPIC].partitions[0].leader)


def stop_all(cluster: Brokers, *, last: int) -> None:
    """Cleanly, one after the other."""
    for each in sorted(EVERY - {last}):
        cluster.stop(each)
    cluster.stop(last)


def lose_the_end(cluster: Brokers, broker: int) -> Answer:
    """All are stopped cleanly, this one last; its disk loses the end of the log, and it is rescued.
    What `rescue` says.
    """
    stop_all(cluster, last=broker)
    log_dir = cluster.log_dir(broker)
    marker = log_dir / MARKER
    assert "brokerEpoch" in marker.read_text()
    segment = log_dir / SEGMENT
    size = segment.stat().st_size
    with segment.open("r+b") as file:
        file.seek(size * 4 // 10)
        file.write(bytes(size - size * 4 // 10))
    rescued = call("rescue", log_dir, "--yes", "--accept-loss")
    assert 0 == rescued.status, rescued.err
    assert "" == marker.read_text()
    return rescued


def lose_the_log(cluster: Brokers, broker: int) -> None:
    """All are stopped cleanly, this one last; its disk loses the whole log, which is accepted."""
    stop_all(cluster, last=broker)
    log_dir = cluster.log_dir(broker)
    shutil.rmtree(log_dir / LOG)
    assert "brokerEpoch" in (log_dir / MARKER).read_text()
    rescued = call("rescue", log_dir, "--yes", "--accept-loss")
    assert 0 == rescued.status, rescued.err
    assert f"do without {log_dir / LOG}: the log is not there" in rescued.out
    assert "" == (log_dir / MARKER).read_text()


def has_most(cluster: Brokers, broker: int) -> tuple[int, int]:
    """The last leader epoch of a replica, and where its log ends."""
    epochs = cluster.log_dir(broker) / f"{LOG}/leader-epoch-checkpoint"
    (log,) = call("inspect", cluster.log_dir(broker), LOG, "--output", "json").lines
    return int(epochs.read_text().split()[-2]), log["logEndOffset"]


def require_all(cluster: Brokers, keys: set[str]) -> None:
    """Consumers get all that was acknowledged, and the replicas are alike."""
    require_in_sync(cluster)
    assert keys == consumed(cluster)
    replicas = list(cluster.work.glob(f"logs-*/{SEGMENT}"))
    assert len(EVERY) == len(replicas)
    assert 1 == len({path.stat().st_size for path in replicas})


def require_in_sync(cluster: Brokers) -> None:
    """All replicas come back into the ISR."""
    assert wait_for(lambda: isr(cluster) == EVERY or None, IN_TIME), cluster.said()


def require_not_elected(cluster: Brokers, broker: int) -> None:
    """It starts first, has less than it acknowledged, and waits for another one; then all start."""
    cluster.start(broker)
    assert wait_for(lambda: cluster.alive() == {broker} or None, IN_TIME), cluster.said()
    assert -1 == leader(cluster), "it has less than it acknowledged"
    for each in sorted(EVERY - {broker}):
        cluster.start(each)


def require_elected(cluster: Brokers, broker: int) -> None:
    """It starts first, and leads, since it is whole; then all start."""
    cluster.start(broker)
    assert wait_for(lambda: leader(cluster) == broker or None, IN_TIME), cluster.said()
    for each in sorted(EVERY - {broker}):
        cluster.start(each)
    require_in_sync(cluster)


def done(*words: str | Path) -> Answer:
    """A command that ends well."""
    answer = call(*words)
    assert 0 == answer.status, answer.err
    return answer


@pytest.mark.rotates(8)
def test_what_all_acknowledged_stays(tmp_path: Path) -> None:
    """A follower takes no record of its own while it is stopped: `erase` by Kafka's rules is
    refused. A replica that lost its end, or all, and was rescued, is not elected, even if it comes
    back first; the others keep what they acknowledged, and it fetches that from them (KIP-966).
    """
    keys = [f"k{number}" for number in range(COUNT)]
    with three_brokers(tmp_path) as cluster:
        produce(cluster, keys)
        follower = min(EVERY - {leader(cluster), 1})
        cluster.stop(follower)
        (cluster.work / "keys").write_text("k1\n")
        words = ("--keys", cluster.work / "keys", "--yes", "--config", "cleanup.policy=compact")
        refused = call("erase", cluster.log_dir(follower), *words)
        assert 5 == refused.status, refused.err
        assert "only its leader appends" in refused.err
        produce(cluster, ["later"])
        cluster.start(follower)
        require_in_sync(cluster)

        assert "whatever it lacks" not in lose_the_end(cluster, 1).out
        require_not_elected(cluster, 1)
        require_all(cluster, {*keys, "later"})

        lose_the_log(cluster, 1)
        require_not_elected(cluster, 1)
        require_all(cluster, {*keys, "later"})


@pytest.mark.rotates(8)
def test_a_cluster_without_eligible_leader_replicas(tmp_path: Path) -> None:
    """There the last member of an ISR leads whatever it lacks: `doctor` and `rescue` say so, and
    what to do. Done as they say, nothing is lost.
    """
    keys = {f"k{number}" for number in range(COUNT)}
    with three_brokers(tmp_path, "eligible.leader.replicas.version=0") as cluster:
        produce(cluster, sorted(keys))
        cluster.stop(2)  # it lacks what follows, and is the first that an election would take
        assert wait_for(lambda: isr(cluster) == {1, 3} or None, IN_TIME), cluster.said()
        produce(cluster, ["later"])
        rescued = lose_the_end(cluster, 1)
        alone = f"{LOG}: by the cluster's metadata this is the only replica in sync"
        assert alone in rescued.out
        assert "leave this one stopped, and stop the others" in rescued.out
        assert has_most(cluster, 3) > has_most(cluster, 2)
        cluster.start(3)
        assert wait_for(lambda: cluster.alive() == {3} or None, IN_TIME), cluster.said()
        assert -1 == leader(cluster)
        partition = TopicPartition(TOPIC, 0)
        cluster.admin.elect_leaders(ElectionType.UNCLEAN, [partition]).result()
        assert wait_for(lambda: leader(cluster) == 3 or None, IN_TIME), cluster.said()
        cluster.start(2)
        cluster.start(1)
        require_all(cluster, {*keys, "later"})


@pytest.mark.rotates(24)
@pytest.mark.parametrize("how", ["download", "undo of a rescue", "undo of a deletion"])
def test_an_older_state_comes_back(tmp_path: Path, how: str) -> None:
    """Of the broker that stopped last, whose disk has lost the log: it is not elected, even if it
    comes back first, and fetches what it lacks from the others.
    """
    keys = {f"k{number}" for number in range(COUNT)}
    with three_brokers(tmp_path) as cluster:
        log_dir = cluster.log_dir(1)
        bucket = f"file://{tmp_path / 'bucket'}"
        keep, bring_back = {
            "download": (("upload", log_dir, LOG, "--to", bucket), ("download", bucket, LOG)),
            "undo of a rescue": (
                ("rescue", log_dir, "--set-aside", log_dir / LOG, "--yes"),
                ("rescue", log_dir, "--undo", "--yes"),
            ),
            "undo of a deletion": (
                ("delete", log_dir, LOG, "--yes", "--config", "file.delete.delay.ms=3600000"),
                ("undo", log_dir, LOG, "--yes"),
            ),
        }[how]
        produce(cluster, sorted(keys))
        cluster.stop(1)
        done(*keep)
        cluster.start(1)
        require_in_sync(cluster)
        produce(cluster, ["later"])

        stop_all(cluster, last=1)
        marker = log_dir / MARKER
        assert "brokerEpoch" in marker.read_text()
        shutil.rmtree(log_dir / LOG)
        to = ("--to", log_dir) if how == "download" else ()
        assert "only replica in sync" not in done(*bring_back, *to).err
        assert "" == marker.read_text()
        require_not_elected(cluster, 1)
        require_all(cluster, {*keys, "later"})


@pytest.mark.rotates(24)
def test_a_log_that_ends_where_it_ended(tmp_path: Path) -> None:
    """What reads, cleans, rolls, retains, repairs or erases leaves the broker's epoch: the replica
    leads as before, and serves what is left. Its log start offset becomes that of the others.
    """
    keys = [f"k{number}" for number in range(COUNT)]
    compact = ("--config", "cleanup.policy=compact", "--config", "min.cleanable.dirty.ratio=0")
    with three_brokers(tmp_path) as cluster:
        produce(cluster, keys)
        produce(cluster, keys)
        broker = leader(cluster)  # its high watermark is the end
        log_dir = cluster.log_dir(broker)
        stop_all(cluster, last=broker)
        marker = (log_dir / MARKER).read_text()
        assert "brokerEpoch" in marker
        (tmp_path / "keys").write_text("k1\n")
        done("plan", log_dir, *compact)
        done("latest", log_dir, TOPIC, "--to", tmp_path / "table")
        done("roll", log_dir, LOG, "--force", "--yes")
        cleaned = done("clean", log_dir, LOG, "--yes", *compact)
        assert "Reclaimed" in cleaned.out
        done("undo", log_dir, LOG, "--yes")
        (log_dir / SEGMENT).with_suffix(".index").unlink()
        done("recover", log_dir, "--yes")
        done("maintain", log_dir, "--yes", *compact)
        done("purge", log_dir, "--yes")
        given = ("--keys", tmp_path / "keys", "--now-and-for-good", "--yes", *compact)
        assert 9 == call("erase", log_dir, *given).status, "the other replicas have it"
        done("verify", log_dir)
        assert marker == (log_dir / MARKER).read_text()
        require_elected(cluster, broker)
        assert {*keys} - {"k1"} == consumed(cluster)

        produce(cluster, ["later"])
        stop_all(cluster, last=broker)
        retention = ("--config", "cleanup.policy=delete", "--config", "retention.bytes=0")
        done("roll", log_dir, LOG, "--force", "--yes")
        done("retain", log_dir, LOG, *retention, "--yes")
        require_elected(cluster, broker)
        assert set() == consumed(cluster)
        stop_all(cluster, last=broker)
        starts = {
            done("inspect", cluster.log_dir(each), LOG, "--output", "json").lines[0][
                "logStartOffset"
            ]
            for each in EVERY
        }
        assert {2 * COUNT + 1} == starts


@pytest.mark.rotates(24)
def test_a_kill_and_a_move(tmp_path: Path) -> None:
    """A broker that was killed has no epoch, whoever recovers its directory. A move within one stop
    leaves a whole replica, which leads; one from an older stop does not.
    """
    keys = {f"k{number}" for number in range(COUNT)}
    with three_brokers(tmp_path, two_dirs=True) as cluster:
        produce(cluster, sorted(keys))
        broker = leader(cluster)
        first, second = cluster.log_dir(broker), cluster.second_dir(broker)
        if not (first / LOG).exists():
            first, second = second, first
        cluster.kill(broker)
        assert wait_for(lambda: isr(cluster) == EVERY - {broker} or None, IN_TIME), cluster.said()
        for log_dir in (first, second):
            done("recover", log_dir, "--yes")
        assert "brokerEpoch" not in (first / MARKER).read_text()
        cluster.start(broker)
        require_in_sync(cluster)

        stop_all(cluster, last=broker)
        marker = (second / MARKER).read_text()
        assert "brokerEpoch" in marker
        older = tmp_path / "older"
        shutil.copytree(first, older)
        done("move", first, LOG, "--to", second, "--yes")
        assert marker == (second / MARKER).read_text()
        require_elected(cluster, broker)
        produce(cluster, ["later"])

        stop_all(cluster, last=broker)
        shutil.rmtree(second / LOG)
        done("move", older, LOG, "--to", second, "--yes")
        assert "" == (second / MARKER).read_text()
        require_not_elected(cluster, broker)
        require_all(cluster, {*keys, "later"})


def test_each_row_has_a_test() -> None:
    """Of what the documents say that commands do to a replica."""
    text = (REPOSITORY / "docs/replicas.md").read_text()
    table = text.partition("| command | what it changes")[2].partition("\n\n")[0]
    rows = [line.split("|")[1].strip() for line in table.splitlines()[2:]]
    assert rows == [*ROWS]
    for file, name in ROWS.values():
        assert f"\ndef {name}(" in (Path(__file__).parent / file).read_text(), name
