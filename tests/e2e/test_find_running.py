"""``find`` and ``certificate`` next to a real broker, whose own cleaner removes a person."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from logwright.erasure.certificate.keys import load_public
from logwright.erasure.certificate.model import Certificate
from logwright.erasure.certificate.signed import read_certificate
from tests.e2e.broker_life import broker
from tests.e2e.command import call

pytestmark = [pytest.mark.e2e, pytest.mark.oracle]

PERSON = b"person-to-erase"
QUICK = (
    "--server-config",
    "log.cleaner.backoff.ms=50",
    "replica.high.watermark.checkpoint.interval.ms=300",
    "log.initial.task.delay.ms=100",
)
TOPIC = {
    "cleanup.policy": "compact",
    "internal.segment.bytes": "4096",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "100",
    "file.delete.delay.ms": "200",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A broker with a topic, and what a certificate needs."""

    work: Path
    producer: Producer

    @property
    def log_dir(self) -> Path:
        """The broker's."""
        (directory,) = self.work.rglob("users-0")
        return directory.parent

    def write(self, key: bytes, value: bytes | None) -> None:
        """One record, acknowledged."""
        self.producer.produce("users", key=key, value=value)
        self.producer.flush()

    def fill(self) -> None:
        """Records of others, which roll segments."""
        for number in range(60):
            self.producer.produce("users", key=b"other-%d" % number, value=b"v" * 100)
        self.producer.flush()

    def on_disk(self) -> bool:
        """Whether any file has the key, by a plain search of all bytes."""
        for path in self.log_dir.rglob("*"):
            try:
                if path.is_file() and PERSON in path.read_bytes():
                    return True
            except FileNotFoundError:
                continue
        return False

    def certify(self, name: str, *more: str | Path) -> Certificate:
        """What is signed now."""
        answer = call(
            "certificate",
            self.log_dir,
            *("--keys", self.work / "keys", "--secret", self.work / "secret", "--topic", "users"),
            *("--signing-key", self.work / "key", "--out", self.work / name, *more),
        )
        assert answer.status in (0, 6), answer.err
        return read_certificate(self.work / name, load_public(self.work / "key.pub"))


@pytest.fixture(name="users")
def _users(tmp_path: Path) -> Iterator[Running]:
    (tmp_path / "keys").write_bytes(PERSON + b"\n")
    (tmp_path / "secret").write_text("0123456789abcdef" * 4)
    (tmp_path / "secret").chmod(0o600)
    assert call("certificate", "--new-key", tmp_path / "key").status == 0
    with broker(tmp_path, "life", *QUICK) as (process, bootstrap):
        admin = AdminClient({"bootstrap.servers": bootstrap})
        for made in admin.create_topics([NewTopic("users", 1, 1, config=TOPIC)]).values():
            made.result()
        producer = Producer(
            {"bootstrap.servers": bootstrap, "batch.num.messages": 20, "log_level": 0}
        )
        yield Running(work=tmp_path, producer=producer)
        (tmp_path / "life.stop").touch()
        process.wait(60)


def test_a_person_is_gone_when_the_broker_has_removed_them(users: Running) -> None:
    """While a byte of the key is on the disk it is found, and no certificate says that it is gone;
    when the cleaner is done, and its files are deleted, one does. Copies that the cleaner makes, or
    has replaced, are found, too.
    """
    users.write(PERSON, b"lives here")
    users.fill()
    answer = call("find", users.log_dir, "--keys", users.work / "keys", "--output", "json")
    assert 8 == answer.status, answer.err
    records = [line for line in answer.lines if "kind" in line]
    assert {("users-0", "live")} == {(line["topicPartition"], line["kind"]) for line in records}
    assert 1 == sum(line["place"] == "segment" for line in records)
    before = users.certify("before.json")
    assert 1 == sum(record.place == "segment" for record in before.remains)
    users.write(PERSON, None)
    earlier = ("--earlier", users.work / "before.json")
    deadline, number, state = time.monotonic() + 60, 0, ""
    while state != "gone":
        assert time.monotonic() < deadline, state
        users.fill()
        number += 1
        was_there = users.on_disk()
        (request,) = users.certify(f"{number}.json", *earlier).requests
        state = request.state
        assert not (users.on_disk() and was_there and state == "gone")
    assert number > 1
    assert not users.on_disk()
    made = users.certify("last.json", *earlier)
    assert "gone" == made.requests[0].state
    how = made.directories[0].running
    assert how is not None
    assert ["users"] == [log.topic for log in how.logs]
    checked = call(
        "verify-certificate", users.work / "last.json", "--public-key", users.work / "key.pub"
    )
    assert 0 == checked.status, checked.err
