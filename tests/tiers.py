"""Tiers: those that a real broker wrote (data/README.md), and LocalTieredStorage made by hand of a
log directory.
"""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import tarfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from logwright.format.names import TopicPartition
from logwright.log.load import observe
from logwright.place.model import Place
from logwright.records.model import Isolation, ReadRequest
from logwright.records.plan import plan_records
from logwright.records.read import read_range
from logwright.tier.place import TieredPlace, tier_alone, with_tier
from logwright.tier.tier import TierOptions
from tests.fixtures import DATA

TIERS: Final = ("zstd-encrypted", "plain")
PARTITIONS: Final = ("plain-0", "plain-1", "shortened-0", "tx-0", "zstd-by-producer-0")
"""Of each tier; the topic ``gone`` was deleted."""
COLUMNS: Final = ("offset", "timestamp", "key", "value", "headers")
TOPIC_ID: Final = "AAAAAAAAAAAAAAAAAAAA_-"
Row = list[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiered:
    """A tier, its log directory, and what consumers read of both.

    Attributes:
        key: of the encrypted one.
    """

    root: Path
    key: Path | None

    @property
    def logs(self) -> Path:
        """The log directory."""
        return self.root / "logs"

    @property
    def remote(self) -> Path:
        """The bucket."""
        return self.root / "remote"

    @property
    def options(self) -> TierOptions:
        """As a user gives them."""
        return TierOptions.of(str(self.remote), self.key)

    @property
    def words(self) -> tuple[str | Path, ...]:
        """The same, on the command line."""
        return ("--tier", self.remote, *(() if self.key is None else ("--tier-key", self.key)))

    @property
    def place(self) -> TieredPlace:
        """Both together."""
        return with_tier([self.logs], self.options)[0]

    @property
    def alone(self) -> TieredPlace:
        """The tier without the log directory."""
        return tier_alone(str(self.remote), self.key)

    def object(self, pattern: str) -> Path:
        """The only object of this pattern."""
        (path,) = self.remote.rglob(pattern)
        return path

    def consumed(self, isolation: str, partition: str) -> list[Row]:
        """What a consumer read: rows as `rows_of` gives them; offsets for read_committed."""
        rows = []
        for line in (self.root / "read.jsonl").read_text().splitlines():
            how, topic, number, *row = json.loads(line)
            if (how, f"{topic}-{number}") == (isolation, partition):
                rows.append(row)
        return rows


def unpacked(name: str, into: Path) -> Tiered:
    """One of `TIERS`, in a directory, with the marker that the broker left."""
    with tarfile.open(DATA / "tier.tar.xz") as packed:
        members = [each for each in packed.getmembers() if each.name.split("/")[0] == name]
        packed.extractall(into, members=members, filter="data")
    root = into / name
    (root / "logs/.kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":-1}')
    key = root / "priv.pem"
    return Tiered(root=root, key=key if key.exists() else None)


def rows_of(place: Place, partition: str, isolation: Isolation = "read_uncommitted") -> list[Row]:
    """The records of a log as `Tiered.consumed` has them."""
    parsed = TopicPartition.parse(partition)
    assert parsed is not None
    log = observe(place, parsed, high_watermark="end")
    rows = []
    for part in plan_records(log, ReadRequest(isolation=isolation)):
        for batch in read_range(part, columns=COLUMNS):
            rows += [_row(each) for each in batch.to_pylist()]
    return rows


def _row(each: dict[str, Any]) -> Row:
    value = each["value"]
    return [
        each["offset"],
        round(each["timestamp"].timestamp() * 1000),
        _text(each["key"]),
        None if value is None else hashlib.sha256(value).hexdigest()[:8],
        [[header["key"], _text(header["value"])] for header in each["headers"] or []],
    ]


def _text(content: bytes | None) -> str | None:
    return None if content is None else base64.b64encode(content).decode()


def to_local_storage(
    log_dir: Path, bucket: Path, partition: str, bases: Iterable[int], *, topic_id: str = TOPIC_ID
) -> None:
    """Copy segments to a bucket as LocalTieredStorage does; the log's directory gets its topic
    id.
    """
    directory = log_dir / partition
    (directory / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}\n")
    into = bucket / f"{partition}-{topic_id}"
    into.mkdir(parents=True, exist_ok=True)
    for base in bases:
        given = f"{log_dir.name} {base}".encode()
        segment_id = base64.urlsafe_b64encode(hashlib.md5(given).digest())  # noqa: S324 -- an id
        stem = f"{base}-{segment_id.decode().rstrip('=')}"
        for path in directory.glob(f"{base:020d}.*index"):
            shutil.copyfile(path, into / f"{stem}{path.suffix}")
        shutil.copyfile(directory / f"{base:020d}.log", into / f"{stem}.log")


def drop_local(log_dir: Path, partition: str, bases: Iterable[int]) -> None:
    """Remove segments as a broker does whose local retention is over."""
    for base in bases:
        for path in (log_dir / partition).glob(f"{base:020d}.*"):
            if path.suffix != ".snapshot":
                path.unlink()
