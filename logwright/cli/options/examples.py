"""Up to three examples of each command, which its help shows. A test runs each of them.

``/kafka/data`` is a log directory of a stopped broker, ``/kafka/data2`` another one of the same
broker, ``/backup/data`` an earlier copy; ``/kafka/offsets`` has Kafka's internal topics;
``/kafka/controller`` and ``/kafka/broker`` are what is
left of a cluster without a quorum.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

_COMPACT: Final = "--config cleanup.policy=compact"
_DELETE: Final = "--config cleanup.policy=delete"

EXAMPLES: Final = MappingProxyType(
    {
        "inspect": ("/kafka/data", "/kafka/data orders-0 --verbose"),
        "dump": (
            "/kafka/data orders-0",
            "/kafka/data orders-0 --records --decode=string",
            "/kafka/data orders-0 --time 2020-01-31T12:00Z --count 10 --decode=string",
        ),
        "config": ("/kafka/data", "/kafka/data orders --all"),
        "policies check": ("policies",),
        "plan": (
            "/kafka/data",
            f"/kafka/data orders-0 {_COMPACT} --verbose",
            "/kafka/data --policies policies --now 2030-01-31T12:00Z --output json",
        ),
        "maintain": (
            "/kafka/data --policies policies --dry-run",
            "/kafka/data /kafka/data2 --policies policies --yes",
        ),
        "clean": (
            "/kafka/data --policies policies --dry-run",
            f"/kafka/data orders-0 {_COMPACT} --force --yes",
            "/kafka/data --policies policies --retain --yes",
        ),
        "roll": ("/kafka/data --dry-run", "/kafka/data orders-0 --force --yes"),
        "retain": (
            f"/kafka/data {_DELETE} --dry-run",
            f"/kafka/data {_DELETE} --config retention.ms=86400000 --yes",
            f"/kafka/data orders-0 {_DELETE} --delete-records-before 2 --yes",
        ),
        "delete": ("/kafka/data orders-0 --dry-run", "/kafka/data orders-0 --yes"),
        "undo": ("/kafka/data orders-0 --dry-run", "/kafka/data orders-0 --yes"),
        "recover": ("/kafka/data --dry-run", "/kafka/data --yes"),
        "offsets": ("/kafka/offsets", "/kafka/offsets --names --top 3"),
        "doctor": ("/kafka/data /kafka/data2", "/kafka/data --output json"),
        "quorum": (
            "/kafka/controller /kafka/broker",
            "/kafka/controller --to /kafka/rescued --yes",
            "/kafka/broker --to /kafka/rescued --node-id 1 --dry-run",
        ),
        "rescue": (
            "/kafka/data /kafka/data2 --dry-run",
            "/kafka/data --yes",
            "/kafka/data --free 20GiB --dry-run",
        ),
        "verify": (
            "/kafka/data",
            "/kafka/data orders-0 --output json",
            "/kafka/data --against /backup/data",
        ),
        "audit": ("/kafka/data /backup/data", "/kafka/data /backup/data --topic orders"),
        "ingest": ("/kafka/data --from orders.json --topic orders --partitions 1 --dry-run",),
        "archive": (
            "/kafka/data --bootstrap localhost:9092 --topic orders --dry-run",
            "file:///backup/bucket --bootstrap localhost:9092 --topic orders --dry-run",
        ),
        "upload": (
            "/kafka/data --to file:///backup/bucket",
            "/kafka/data orders-0 --to file:///backup/bucket --rate 50000000",
        ),
        "download": (
            "file:///backup/bucket --to /kafka/restored",
            "file:///backup/bucket orders-0 --to /kafka/data2",
        ),
        "latest": (
            "/kafka/data orders --to orders-table --key string --value string",
            "/kafka/data orders --to january --as-of-time 2030-01-31",
        ),
        "find": (
            "/kafka/data --keys keys.txt",
            "/kafka/data --keys keys.txt --forecast --deadline 2030-01-31T12:00Z",
            "/kafka/data --archive /backup/data --pattern patterns.txt",
        ),
        "certificate": (
            "--new-key issuer",
            "/kafka/data --keys keys.txt --signing-key issuer --out proof.json",
        ),
        "verify-certificate": (
            "proof.json --public-key issuer.pub",
            "proof.json /kafka/data --public-key issuer.pub",
        ),
        "purge": ("/kafka/data --dry-run", "/kafka/data --yes"),
        "erase": (
            f"/kafka/data --keys keys.txt {_COMPACT} --dry-run",
            f"/kafka/data --keys keys.txt {_COMPACT} --now-and-for-good --yes",
        ),
        "move": (
            "/kafka/data orders-0 --to /kafka/data2 --dry-run",
            "/kafka/data orders-0 --to /kafka/data2 --yes",
        ),
        "rolling": (
            "cluster.yml --dry-run",
            "cluster.yml --yes",
            "cluster.yml --broker 1 --output json --yes",
        ),
        "metrics": ("/kafka/data", "/kafka/data /kafka/data2 --textfile kafka.prom"),
        "pause": (
            "/kafka/data",
            "/kafka/data orders-0 --reason 'disk is replaced' --for 2h --yes",
            "/kafka/data orders-0 --reason audit --until 2030-01-31T12:00Z --yes",
        ),
        "resume": ("/kafka/data --dry-run", "/kafka/data orders-0 --yes"),
        "quarantine": (
            "/kafka/data",
            "/kafka/data orders-0 --set 'bad disk' --yes",
            "/kafka/data orders-0 --clear --yes",
        ),
        "demo": ("--no-ui --home demo",),
    }
)
"""Command → what follows its name."""
