"""The records of a running cluster: offsets of partitions, reading them, and producing tombstones.

A producer is idempotent and waits for all replicas in sync (``enable.idempotence``, ``acks=all``;
KIP-98), whatever the settings of the client say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

from logwright.errors import PolicyError
from logwright.extras import require
from logwright.ingest.broker import BrokerUnavailable, open_topic
from logwright.rolling.model import WAIT_SECONDS, ClusterUnavailable, PartitionNow

if TYPE_CHECKING:
    import pyarrow as pa
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient

Which = Literal["first", "committed", "decided"]
"""Of the offsets of a partition: that of its first record; its high watermark; and its last stable
offset, which an open transaction holds back."""
_FLUSH_SECONDS: Final = 0.5
_LONGEST_SECONDS: Final = 2 * WAIT_SECONDS
"""How long an answer is waited for that the client should have given up before."""
_REMEDY: Final = (
    "See that the user may read and write the topics of the requests, then run it again: what is a"
    " tombstone already gets none."
)


class RunningTopics:
    """A consumer and a producer of a cluster.

    Args:
        bootstrap_servers: addresses of brokers.
        settings: more settings of librdkafka, such as those of TLS and SASL.
    """

    def __init__(self, bootstrap_servers: Sequence[str], settings: Mapping[str, str]) -> None:
        require("archive", by="An erasure through the cluster")
        self._bootstrap = ",".join(bootstrap_servers)
        self._settings = settings
        self._admin: AdminClient | None = None
        self._producer: Producer | None = None

    def offsets(self, partitions: Sequence[PartitionNow], which: Which) -> dict[str, int]:
        """Return an offset of each partition, by its name. Effects: queries brokers.

        Raises:
            ClusterUnavailable: they do not respond, or refuse to.
        """
        from confluent_kafka import IsolationLevel, KafkaException, TopicPartition  # noqa: PLC0415 -- an extra
        from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]  # noqa: PLC0415

        spec: Any = OffsetSpec
        at = spec.earliest() if which == "first" else spec.latest()
        isolation = {
            "first": IsolationLevel.READ_UNCOMMITTED,
            "committed": IsolationLevel.READ_UNCOMMITTED,
            "decided": IsolationLevel.READ_COMMITTED,
        }[which]
        try:
            admin = self._admin = self._admin or self._new_admin()
            answers = admin.list_offsets(
                {TopicPartition(each.topic, each.number): at for each in partitions},
                isolation_level=isolation,
                request_timeout=WAIT_SECONDS,
            )
            return {
                f"{each.topic}-{each.partition}": int(answer.result(_LONGEST_SECONDS).offset)
                for each, answer in answers.items()
            }
        except KafkaException as error:
            raise _unavailable(str(error.args[0].name())) from error
        except TimeoutError as error:
            raise _unavailable("no answer") from error

    def read(self, partition: PartitionNow, start: int, end: int) -> Iterator[pa.RecordBatch]:
        """Yield the committed records with offsets in [start, end), columns as
        `logwright.ingest.schema.COPIED`. Effects: reads from brokers.

        Raises:
            PolicyError: a setting of the client is invalid.
            ClusterUnavailable: they stop responding, or refuse to.
        """
        settings = self._settings
        try:
            with open_topic(
                self._bootstrap, partition.topic, isolation="read_committed", settings=settings
            ) as source:
                yield from source.records(partition.number, start, end)
        except BrokerUnavailable as error:
            raise ClusterUnavailable(error.problem, remedy=_REMEDY) from error

    def delete(self, partition: PartitionNow, keys: Sequence[bytes]) -> None:
        """Produce a tombstone of each key to a partition, and wait until all are acknowledged.
        Effects: as said.

        Raises:
            PolicyError: a setting of the client is invalid.
            ClusterUnavailable: not all are acknowledged.
        """
        from confluent_kafka import KafkaException  # noqa: PLC0415 -- an extra

        failed: Counter[str] = Counter()

        def delivered(error: Any, message: object) -> None:  # noqa: ANN401 -- of the client
            del message
            if error is not None:
                failed[str(error.name())] += 1

        producer = self._producer = self._producer or self._new_producer()
        try:
            for key in keys:
                _produce(producer, partition, key, delivered)
            while producer.flush(_FLUSH_SECONDS):
                pass
        except KafkaException as error:
            failed[str(error.args[0].name())] += 1
        if failed:
            self._producer = None
            raise ClusterUnavailable(
                f"{partition.name}: not all of {len(keys)} tombstones were acknowledged:"
                f" {', '.join(sorted(failed))}.",
                remedy=_REMEDY,
            )

    def _new_admin(self) -> AdminClient:
        from confluent_kafka import KafkaException  # noqa: PLC0415 -- an extra
        from confluent_kafka.admin import AdminClient  # noqa: PLC0415 -- the same

        try:
            return AdminClient(self._given())
        except (KafkaException, TypeError, ValueError) as error:
            raise _invalid() from error

    def _new_producer(self) -> Producer:
        from confluent_kafka import KafkaException, Producer  # noqa: PLC0415 -- an extra

        try:
            return Producer({**self._given(), "enable.idempotence": True, "acks": "all"})
        except (KafkaException, TypeError, ValueError) as error:
            raise _invalid() from error

    def _given(self) -> dict[str, Any]:
        return {"bootstrap.servers": self._bootstrap, "log_level": 0, **self._settings}


def _produce(producer: Producer, partition: PartitionNow, key: bytes, delivered: Any) -> None:  # noqa: ANN401 -- a callback of the client
    """Put a tombstone into the producer's queue; wait while that is full."""
    while True:
        try:
            producer.produce(
                partition.topic,
                key=key,
                value=None,
                partition=partition.number,
                on_delivery=delivered,
            )
        except BufferError:
            producer.poll(_FLUSH_SECONDS)
        else:
            producer.poll(0)
            return


def _invalid() -> PolicyError:
    return PolicyError("a setting of the client is invalid.")


def _unavailable(name: str) -> ClusterUnavailable:
    return ClusterUnavailable(f"the cluster does not respond as it should: {name}.", remedy=_REMEDY)
