"""A real broker works, we clean every compacted log that it left, its offsets' and transactions'
too, and it and its clients continue as if nothing had happened.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests import fixtures
from tests.e2e.broker_life import (
    LEVELS,
    BrokerLives,
    Cleaned,
    Read,
    clean_and_purge,
    is_aborted,
    latest,
    live,
    mended,
    snapshots,
)
from tests.e2e.command import call

pytestmark = [pytest.mark.e2e, pytest.mark.oracle, pytest.mark.rotates(4, by="file")]

OFFSETS = ("__consumer_offsets-0", "__consumer_offsets-1")
TRANSACTIONS = ("__transaction_state-0", "__transaction_state-1")
USERS = ("users-0", "users-1")
PARTITIONS = (*OFFSETS, *TRANSACTIONS, *USERS)
OPEN = "users-1"
"""Where a transaction is open while the broker is down."""
FIXTURE = "real-broker"
FIXTURES_PARTITIONS = ("users-0", "users-1")
KAFKAS = "kafkas-"
OURS = "ours-"
SEALED = (".log", ".index", ".timeindex", ".txnindex")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lives:
    """Three lives of a broker; we cleaned after the first, the second ended as in a crash.

    Attributes:
        broker: stopped; keeps what was read and said.
        log_dir: as the broker left it at last.
        cleaned: what we did.
        left: names of all files that were there when we were done, by partition.
        digests: of the sealed segments' files, after us and after the second life.
        first, second, third: what the broker reported in each life.
    """

    broker: BrokerLives
    log_dir: Path
    cleaned: Cleaned
    left: dict[str, list[str]]
    digests: tuple[dict[str, str], dict[str, str]]
    first: dict[str, Any]
    second: dict[str, Any]
    third: dict[str, Any]

    def committed(self, life: str, partition: str) -> list[Read]:
        """What a consumer read of committed records."""
        return self.broker.records(life, partition, "read_committed")


def guests(work: Path) -> Iterator[dict[str, str]]:
    """The packed broker's partitions as Kafka cleaned them, and as we do."""
    log_dir = fixtures.copy_before(FIXTURE, work)
    later = fixtures.description(FIXTURE)["now"] + 60_000
    for name in FIXTURES_PARTITIONS:
        cleaned = call("clean", log_dir, name, *fixtures.clean_arguments(FIXTURE, name))
        assert 0 == cleaned.status, cleaned.err
        purged = call("purge", log_dir, name, "--now", later, "--yes")
        assert 0 == purged.status, purged.err
        kafkas = str(fixtures.case_dir(FIXTURE) / "after")
        for prefix, directory in ((KAFKAS, kafkas), (OURS, str(log_dir))):
            yield {"logDir": directory, "topicPartition": name, "as": prefix + name}


def sealed(log_dir: Path) -> dict[str, str]:
    """A digest of each file of a segment that is not the active one."""
    bases = {}
    for name in PARTITIONS:
        files = [path for path in (log_dir / name).iterdir() if path.suffix in SEALED]
        active = max(path.stem for path in files)
        for path in files:
            if path.stem != active:
                digest = hashlib.sha256(path.read_bytes()).hexdigest()
                bases[str(path.relative_to(log_dir))] = digest
    return bases


def crash(log_dir: Path) -> None:
    """Nothing is left but the logs: no clean stop, no index, no snapshot, no recovery point."""
    (log_dir / ".kafka_cleanshutdown").unlink()
    (log_dir / "recovery-point-offset-checkpoint").unlink()
    for name in PARTITIONS:
        for path in (log_dir / name).iterdir():
            if path.suffix in {*SEALED, ".snapshot"} - {".log"}:
                path.unlink()


@pytest.fixture(scope="module")
def lives(tmp_path_factory: pytest.TempPathFactory, seed: int) -> Lives:
    """The whole story, once for all tests."""
    work = tmp_path_factory.mktemp("lives")
    with BrokerLives(work, seed=seed, guests=list(guests(work))) as broker:
        first = broker.life()
        log_dir = Path(first["logDir"])
        cleaned = clean_and_purge(log_dir, PARTITIONS, first["midMs"])
        left = {name: [path.name for path in (log_dir / name).iterdir()] for name in PARTITIONS}
        ours = sealed(log_dir)
        broker.go_on()
        second = broker.life()
        after = sealed(log_dir)
        crash(log_dir)
        broker.go_on()
        third = broker.life()
    return Lives(
        broker=broker,
        log_dir=log_dir,
        cleaned=cleaned,
        left=left,
        digests=(ours, {name: digest for name, digest in after.items() if name in ours}),
        first=first,
        second=second,
        third=third,
    )


def test_something_of_each_kind_was_removed(lives: Lives) -> None:
    """Superseded records, tombstones and markers past their horizons, aborted records."""
    assert set(PARTITIONS) == set(lives.first["reads"])
    users = lives.cleaned.removed("users")
    assert {"records", "tombstones", "markers", "aborted"} == set(users)
    assert 100 < users["records"]
    assert {"records", "tombstones", "markers"} == set(lives.cleaned.removed("__consumer_offsets"))
    assert {"records"} == set(lives.cleaned.removed("__transaction_state"))
    assert set(PARTITIONS) == lives.cleaned.rolled
    for name, bounds in lives.cleaned.bounds.items():
        assert (2 if name == OPEN else 3) == len(bounds)


def test_nothing_of_our_work_is_left(lives: Lives) -> None:
    """The broker finds files of its own kinds only."""
    names = {name for names in lives.left.values() for name in names}
    suffixes = {Path(name).suffix for name in names if name[0].isdigit()}
    assert {*SEALED, ".snapshot"} == suffixes
    others = {name for name in names if not name[0].isdigit()}
    assert {"leader-epoch-checkpoint", "partition.metadata"} == others


def test_the_broker_finds_nothing_to_mend(lives: Lives) -> None:
    """It skips recovery, and the snapshot at each log's end has the whole producer state; after
    the crash it says otherwise.
    """
    lines = [line for line in lives.broker.said_in(2) if KAFKAS not in line and OURS not in line]
    logs = len(PARTITIONS) + len(lives.broker.guests)
    skips = f"Skipping recovery of {logs} logs from {lives.log_dir} since clean shutdown file"
    assert [skips] == [skips for line in lines if skips in line]
    assert [] == mended(lines)
    ends = {name: read["read_uncommitted"] for name, read in lives.first["reads"].items()}
    assert {name: read["endOffset"] for name, read in ends.items()} == snapshots(lines)
    crashed = mended(lives.broker.said_in(3))
    for name in PARTITIONS:
        assert any(line.endswith(f" recovered for {name}.") for line in crashed)


def test_the_broker_leaves_our_segments_as_they_are(lives: Lives) -> None:
    """Not a byte of a cleaned segment or of its indexes changes."""
    ours, after = lives.digests
    assert len(PARTITIONS) * 3 <= len(ours)
    assert ours == after


@pytest.mark.parametrize("isolation", LEVELS)
@pytest.mark.parametrize("partition", PARTITIONS)
def test_consumers_read_exactly_what_is_live(partition: str, isolation: str, lives: Lives) -> None:
    """The last committed record of each key, bit for bit, and all that was not cleaned."""
    before = lives.broker.records("first", partition, isolation)
    after = lives.broker.records("second", partition, isolation)
    bounds = lives.cleaned.bounds[partition]
    assert live(lives.committed("first", partition), before, bounds) == after
    assert 0 < len(after) < len(before)
    first = lives.first["reads"][partition][isolation]
    second = lives.second["reads"][partition][isolation]
    assert first["endOffset"] == second["endOffset"] == second["position"]


@pytest.mark.parametrize("partition", PARTITIONS)
def test_each_key_has_the_same_latest_value(partition: str, lives: Lives) -> None:
    """The state that a reader builds from the log is the one it built before."""
    before = latest(lives.committed("first", partition))
    assert before == latest(lives.committed("second", partition))
    assert before


@pytest.mark.parametrize("partition", USERS)
def test_aborted_records_stay_away(partition: str, lives: Lives) -> None:
    """From committed readers everywhere, and from all where the log was cleaned."""
    everything = {
        life: lives.broker.records(life, partition, LEVELS[0]) for life in ("first", "second")
    }
    assert any(map(is_aborted, everything["first"]))
    for life in ("first", "second", "continued", "third"):
        assert not any(map(is_aborted, lives.committed(life, partition)))
    bound = lives.cleaned.bounds[partition][-1]
    left = [record["offset"] for record in everything["second"] if is_aborted(record)]
    assert [] == [offset for offset in left if offset < bound]
    assert (partition == OPEN) == bool(left)


@pytest.mark.parametrize("what", ["producers", "transactions", "groups", "groupIds"])
def test_the_broker_knows_what_it_knew(what: str, lives: Lives) -> None:
    """Every producer's last sequence, every transaction's state, every group's offsets."""
    assert lives.first[what] == lives.second[what]
    assert lives.first[what]


def test_groups_resume_at_their_offsets(lives: Lives) -> None:
    """A group's poll gets the first record from the offset on that it committed at last, or that a
    committed transaction did.
    """
    groups = lives.second["groups"]
    assert 5 == len(groups)
    assert len(groups) == len({json.dumps(offsets) for offsets in groups.values()})
    expected = {
        group: {
            name: min(
                record["offset"]
                for record in lives.committed("second", name)
                if record["offset"] >= offset
            )
            for name, offset in offsets.items()
        }
        for group, offsets in groups.items()
    }
    assert expected == lives.second["resumed"]


def test_producers_go_on(lives: Lives) -> None:
    """Those that outlived the broker, one in the middle of its transaction, and one that takes up a
    transactional id.
    """
    second, then = lives.second, lives.second["then"]
    assert "Ongoing" == second["transactions"]["tx-open"]["state"]
    assert "CompleteCommit" == then["transactions"]["tx-open"]["state"]
    again = (second["transactions"]["tx-1"], then["transactions"]["tx-1"])
    assert again[0]["producerId"] == again[1]["producerId"]
    assert again[0]["epoch"] < again[1]["epoch"]
    assert (5, 8) == (steady(second)["lastSequence"], steady(then)["lastSequence"])
    assert steady(second)["producerId"] == steady(then)["producerId"]


def steady(told: dict[str, Any]) -> dict[str, Any]:
    """The idempotent producer that sent six records in the first life and three in the second."""
    producers = [one for one in told["producers"]["users-0"] if one["lastSequence"] in {5, 8}]
    (producer,) = producers
    return dict(producer)


def test_new_records_follow_the_old(lives: Lives) -> None:
    """Consumers read what they read before, then what the open transaction held back, then what was
    sent.
    """
    sent = {
        "users-0": [(f"steady-{number}", "steady") for number in range(3)]
        + [("again-0", "commit again")],
        OPEN: [("open-3", "open")],
    }
    held = {name: lives.broker.records("second", name, LEVELS[0]) for name in USERS}
    for name in USERS:
        before, after = (lives.committed(life, name) for life in ("second", "continued"))
        stable = lives.second["reads"][name]["read_committed"]["endOffset"]
        then = [one for one in held[name] if one["offset"] >= stable and not is_aborted(one)]
        assert (name == OPEN) == bool(then)
        assert [*before, *then] == after[: -len(sent[name])]
        assert sent[name] == [decoded(record) for record in after[-len(sent[name]) :]]


def decoded(record: Read) -> tuple[str, str]:
    """Key and value as text; a tombstone's is empty."""
    return base64.b64decode(record["key"]).decode(), base64.b64decode(
        record["value"] or ""
    ).decode()


@pytest.mark.parametrize("isolation", LEVELS)
@pytest.mark.parametrize("partition", PARTITIONS)
def test_recovery_reads_the_same(partition: str, isolation: str, lives: Lives) -> None:
    """After a crash that left nothing but the logs, every record is there."""
    stopped = lives.broker.records("continued", partition, isolation)
    assert stopped == lives.broker.records("third", partition, isolation)


def test_recovery_finds_the_producers_in_the_logs(lives: Lives) -> None:
    """A batch without records stands for a producer of which nothing else is left."""
    for name in PARTITIONS:
        known, after = (sequences(told, name) for told in (lives.second["then"], lives.third))
        assert known == after
    assert (0, 3, -1) in sequences(lives.third, "users-0").values()
    assert "silent" not in {decoded(one)[1] for one in lives.committed("third", "users-0")}


def sequences(told: dict[str, Any], partition: str) -> dict[int, tuple[int, int, int]]:
    """By producer: epoch, last sequence, and where its transaction is open."""
    return {
        producer["producerId"]: (producer["epoch"], producer["lastSequence"], producer["openSince"])
        for producer in told["producers"][partition]
    }


@pytest.mark.parametrize("isolation", LEVELS)
@pytest.mark.parametrize("partition", FIXTURES_PARTITIONS)
def test_consumers_read_of_ours_what_they_read_of_kafkas(
    partition: str, isolation: str, lives: Lives
) -> None:
    """Of another broker's logs, cleaned by Kafka and by logwright, equal records and equal ends."""
    reads = lives.second["reads"]
    kafkas, ours = (reads[prefix + partition][isolation] for prefix in (KAFKAS, OURS))
    assert kafkas == ours
    assert kafkas["complete"]
    records = lives.broker.records("second", OURS + partition, isolation)
    assert 0 < len(records) < kafkas["endOffset"]
