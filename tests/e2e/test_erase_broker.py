"""A real broker works, keys are erased from its users' topic at once, and it and its clients
continue: consumers of both levels see every other record, groups and transactions are as they were.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.broker_life import LEVELS, BrokerLives, Read, mended, snapshots
from tests.e2e.command import call
from tests.e2e.test_broker_life import OFFSETS, OPEN, PARTITIONS, USERS, crash
from tests.erasing import bytes_anywhere

pytestmark = [pytest.mark.e2e, pytest.mark.oracle, pytest.mark.rotates(6, by="file")]

OPEN_KEY = "open-0"
"""Of the transaction that is open while the broker is down."""
EACH = 4
"""Every fourth key goes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lives:
    """Three lives of a broker, the keys that were erased after the first one.

    Attributes:
        keys: in base64, as the oracle writes them.
        printed: what the command printed, one object for each log.
        left: files below the log directory that have one of the keys, by a plain search.
    """

    broker: BrokerLives
    keys: frozenset[str]
    printed: list[dict[str, Any]]
    left: list[str]
    first: dict[str, Any]
    second: dict[str, Any]
    third: dict[str, Any]

    def others(self, partition: str, isolation: str) -> list[Read]:
        """What a consumer read in the first life, without the keys."""
        read = self.broker.records("first", partition, isolation)
        if partition not in USERS:
            return read
        return [record for record in read if record["key"] not in self.keys]


def chosen(broker: BrokerLives) -> frozenset[str]:
    """Some keys of the users' topics, one of the open transaction among them."""
    seen = {
        record["key"]: None
        for name in USERS
        for record in broker.records("first", name, LEVELS[0])
        if record["key"] is not None
    }
    is_open = base64.b64encode(OPEN_KEY.encode()).decode()
    assert is_open in seen
    return frozenset([*list(seen)[::EACH], is_open])


@pytest.fixture(scope="module")
def lives(tmp_path_factory: pytest.TempPathFactory, seed: int) -> Lives:
    """The whole story, once for all tests."""
    work = tmp_path_factory.mktemp("lives")
    with BrokerLives(work, seed=seed, guests=[]) as broker:
        first = broker.life()
        log_dir = Path(first["logDir"])
        keys = chosen(broker)
        file = work / "keys"
        file.write_text("".join(f"{key}\n" for key in sorted(keys)))
        done = call(
            *("erase", log_dir, "--keys", file, "--keys-format", "base64", "--topic", "users"),
            *("--now-and-for-good", "--yes", "--output", "json"),
        )
        assert 0 == done.status, done.err
        users = [log_dir / name for name in USERS]
        left = [
            path
            for key in keys
            for directory in users
            for path in bytes_anywhere(directory, framed(key))
        ]
        broker.go_on()
        second = broker.life()
        crash(log_dir)
        broker.go_on()
        third = broker.life()
    return Lives(
        broker=broker,
        keys=keys,
        printed=[line for line in done.lines if "topicPartition" in line],
        left=left,
        first=first,
        second=second,
        third=third,
    )


def framed(key: str) -> bytes:
    """A key with its length before it, as an uncompressed record has it: keys may begin alike."""
    content = base64.b64decode(key)
    assert len(content) < 1 << 6
    return bytes([2 * len(content)]) + content


def test_records_were_erased_from_every_segment(lives: Lives) -> None:
    """Of both logs, the active segments among them, and no plain search finds a key."""
    assert set(USERS) == {line["topicPartition"] for line in lives.printed}
    assert all(line["records"] > 0 for line in lives.printed)
    assert any(line["rolled"] for line in lives.printed)
    assert [] == lives.left


@pytest.mark.parametrize("isolation", LEVELS)
@pytest.mark.parametrize("partition", PARTITIONS)
def test_consumers_read_all_other_records(partition: str, isolation: str, lives: Lives) -> None:
    """Offset, time, key, value and headers; of the internal topics all."""
    after = lives.broker.records("second", partition, isolation)
    assert lives.others(partition, isolation) == after
    assert after
    first, second = (life["reads"][partition][isolation] for life in (lives.first, lives.second))
    assert first["endOffset"] == second["endOffset"] == second["position"]


def test_the_broker_finds_nothing_to_mend(lives: Lives) -> None:
    """It skips recovery, and the snapshot at each log's end has the whole producer state."""
    lines = lives.broker.said_in(2)
    assert [] == mended(lines)
    ends = {name: read["read_uncommitted"] for name, read in lives.first["reads"].items()}
    assert {name: read["endOffset"] for name, read in ends.items()} == snapshots(lines)


@pytest.mark.parametrize("what", ["producers", "transactions", "groups", "groupIds"])
def test_the_broker_knows_what_it_knew(what: str, lives: Lives) -> None:
    """Every producer's last sequence, every transaction's state, every group's offsets."""
    assert lives.first[what] == lives.second[what]
    assert lives.first[what]


def test_open_transactions_and_groups_continue(lives: Lives) -> None:
    """The open one commits, and its records appear but for the erased one; groups resume."""
    second, then = lives.second, lives.second["then"]
    assert "Ongoing" == second["transactions"]["tx-open"]["state"]
    assert "CompleteCommit" == then["transactions"]["tx-open"]["state"]
    continued = lives.broker.records("continued", OPEN, "read_committed")
    keys = [base64.b64decode(record["key"]).decode() for record in continued]
    assert "open-3" in keys
    assert OPEN_KEY not in keys
    assert second["resumed"].keys() == second["groups"].keys()
    assert OFFSETS[0] in second["reads"]


@pytest.mark.parametrize("isolation", LEVELS)
@pytest.mark.parametrize("partition", PARTITIONS)
def test_recovery_reads_the_same(partition: str, isolation: str, lives: Lives) -> None:
    """After a crash that left nothing but the logs, every record is there."""
    stopped = lives.broker.records("continued", partition, isolation)
    assert stopped == lives.broker.records("third", partition, isolation)


def test_recovery_finds_the_producers_in_the_logs(lives: Lives) -> None:
    """A batch without records stands for a producer all of whose records were erased."""
    for name in PARTITIONS:
        known, after = (
            json.dumps(
                sorted(
                    (producer["producerId"], producer["epoch"], producer["lastSequence"])
                    for producer in life["producers"][name]
                )
            )
            for life in (lives.second["then"], lives.third)
        )
        assert known == after
