"""A running cluster through Kafka's Admin API: looked at, and leaders elected. Nothing else of it
is changed: a broker that is stopped hands its leaderships over itself (controlled shutdown).
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from logwright.errors import PolicyError
from logwright.extras import require
from logwright.rolling.model import (
    WAIT_SECONDS,
    ClusterNow,
    ClusterUnavailable,
    PartitionNow,
    Quorum,
)

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

_MIN_ISR: Final = "min.insync.replicas"
_DELETE_RETENTION: Final = "delete.retention.ms"
_VOTERS: Final = "controller.quorum.voters"
_CONNECT_SECONDS: Final = 2.0
_TOPICS_AT_ONCE: Final = 500
"""How many topics' configs one request is for."""


class RunningCluster:
    """A client of the Admin API.

    Args:
        bootstrap_servers: addresses of brokers.
        settings: more settings of librdkafka, such as those of TLS and SASL.
    """

    def __init__(self, bootstrap_servers: Sequence[str], settings: Mapping[str, str]) -> None:
        require("archive", by="A rolling maintenance")
        from confluent_kafka import KafkaException  # noqa: PLC0415 -- an extra
        from confluent_kafka.admin import AdminClient  # noqa: PLC0415 -- the same

        ours: dict[str, str | int] = {
            "bootstrap.servers": ",".join(bootstrap_servers),
            "log_level": 0,
        }
        try:
            self._admin: AdminClient = AdminClient({**ours, **settings})
        except (KafkaException, TypeError, ValueError) as error:
            raise PolicyError("a setting of the client is invalid.") from error

    def look(self) -> ClusterNow:
        """Return the cluster as it is now. Effects: queries brokers.

        Raises:
            ClusterUnavailable: none responds, or it refuses to.
        """
        from confluent_kafka import KafkaException  # noqa: PLC0415 -- an extra

        try:
            listed = self._admin.list_topics(timeout=WAIT_SECONDS)
            described = self._admin.describe_cluster(request_timeout=WAIT_SECONDS).result()
            configs = self._configs(listed.topics)
            brokers = frozenset(int(node.id) for node in described.nodes)
            quorum = self._quorum(brokers)
        except KafkaException as error:
            raise _unavailable(error) from error
        partitions = [
            PartitionNow(
                topic=topic,
                number=number,
                leader=None if about.leader < 0 else about.leader,
                replicas=tuple(about.replicas),
                isr=frozenset(about.isrs),
                min_isr=int(configs[topic][_MIN_ISR]),
                delete_retention_ms=(
                    int(configs[topic][_DELETE_RETENTION])
                    if "compact" in configs[topic]["cleanup.policy"]
                    else None
                ),
            )
            for topic, named in sorted(listed.topics.items())
            if topic in configs
            for number, about in sorted(named.partitions.items())
        ]
        return ClusterNow(
            cluster_id=str(described.cluster_id),
            brokers=brokers,
            partitions=tuple(partitions),
            quorum=quorum,
        )

    def elect(self, partitions: Iterable[PartitionNow]) -> None:
        """Ask for the preferred leaders of partitions. Effects: leaders change, as far as the
        cluster lets them.

        Raises:
            ClusterUnavailable: no broker responds, or it refuses to.
        """
        from confluent_kafka import ElectionType, KafkaException, TopicPartition  # noqa: PLC0415 -- an extra

        wanted = [TopicPartition(each.topic, each.number) for each in partitions]
        try:
            # It takes no time limit: with one, confluent-kafka 2.16 raises SystemError.
            self._admin.elect_leaders(ElectionType.PREFERRED, wanted).result()
        except KafkaException as error:
            raise _unavailable(error) from error

    def _quorum(self, brokers: Iterable[int]) -> Quorum:
        """Return the controllers' quorum, by the settings of a broker. Effects: queries it; tries
        to connect to voters that are not in the cluster as brokers.
        """
        from confluent_kafka import KafkaError, KafkaException  # noqa: PLC0415 -- an extra
        from confluent_kafka.admin import ConfigResource  # type: ignore[attr-defined]  # noqa: PLC0415

        there = frozenset(brokers)
        if not there:
            return Quorum()
        resource = ConfigResource(ConfigResource.Type.BROKER, str(min(there)))
        (answer,) = self._admin.describe_configs([resource], request_timeout=WAIT_SECONDS).values()
        try:
            entries = answer.result()
        except KafkaException as error:
            if error.args[0].code() == KafkaError.CLUSTER_AUTHORIZATION_FAILED:
                return Quorum()
            raise
        setting = entries.get(_VOTERS)
        voters = voters_of("" if setting is None else setting.value or "")
        up = {voter for voter, at in voters.items() if voter in there or _accepts(at)}
        return Quorum(voters=frozenset(voters), up=frozenset(up))

    def _configs(self, topics: Iterable[str]) -> dict[str, dict[str, str]]:
        """Return topic → config → value; without topics that were deleted meanwhile."""
        from confluent_kafka import KafkaError, KafkaException  # noqa: PLC0415 -- an extra
        from confluent_kafka.admin import ConfigResource  # type: ignore[attr-defined]  # noqa: PLC0415

        names, configs = sorted(topics), {}
        for start in range(0, len(names), _TOPICS_AT_ONCE):
            resources = [
                ConfigResource(ConfigResource.Type.TOPIC, name)
                for name in names[start : start + _TOPICS_AT_ONCE]
            ]
            answers: Mapping[Any, Any] = self._admin.describe_configs(
                resources, request_timeout=WAIT_SECONDS
            )
            for resource, answer in answers.items():
                try:
                    entries = answer.result()
                except KafkaException as error:
                    if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                        continue
                    raise
                configs[resource.name] = {name: str(each.value) for name, each in entries.items()}
        return configs


def voters_of(setting: str) -> dict[int, tuple[str, int]]:
    """Return id → host and port of ``controller.quorum.voters``, ``{id}@{host}:{port}``."""
    voters = {}
    for part in filter(None, (each.strip() for each in setting.split(","))):
        voter, _, address = part.partition("@")
        host, _, port = address.rpartition(":")
        voters[int(voter)] = (host.strip("[]"), int(port))
    return voters


def _accepts(address: tuple[str, int]) -> bool:
    """Return whether a connection is accepted there. Effects: tries."""
    try:
        socket.create_connection(address, timeout=_CONNECT_SECONDS).close()
    except OSError:
        return False
    return True


def _unavailable(error: Exception) -> ClusterUnavailable:
    return ClusterUnavailable(
        f"the cluster does not respond as it should: {error.args[0].name()}.",
        remedy="See that bootstrap_servers and client_config are right, and that the user may"
        " describe topics, their configs and the cluster, and elect leaders.",
    )
