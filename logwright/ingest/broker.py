"""Read a topic of a running broker with a consumer, as the source of a copy.

librdkafka decompresses and checks CRCs. With read_committed, data of aborted transactions and the
markers are left out; their offsets are gaps.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from logwright.config.policy_models import INTERNAL_TOPICS
from logwright.errors import PolicyError, PreconditionError
from logwright.format.kept_topics import KeptTopic

if TYPE_CHECKING:
    from concurrent.futures import Future

    import pyarrow as pa
    from confluent_kafka import Consumer, Message
    from confluent_kafka.admin import AdminClient

_LOG = logging.getLogger(__name__)

Isolation = Literal["read_committed", "read_uncommitted"]

GROUP: Final = "logwright-archive"
"""A consumer must have a group id; nothing is ever committed under this one."""

WAIT_SECONDS: Final = 15.0
RESETS: Final = 5
ROWS: Final = 10_000
"""Number of records per batch."""

_TIERED: Final = ("remote.", "local.retention.")
"""Prefixes of the configs of tiered storage, which a copy does not have."""


class BrokerUnavailable(PreconditionError):
    """The broker does not respond, or with an error."""


class TopicUnavailable(BrokerUnavailable):
    """The broker answers that the topic cannot be read: it is gone, or must not be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """The offsets of a partition on the broker: [first, end)."""

    first: int
    end: int


class SourceTopic:
    """One topic of a running broker."""

    def __init__(self, consumer: Consumer, admin: AdminClient, topic: str) -> None:
        self._consumer = consumer
        self._admin = admin
        self._topic = topic

    def partitions(self) -> dict[int, Held]:
        """Return partition → offsets on the broker now. Effects: queries the broker.

        Raises:
            BrokerUnavailable: it does not respond.
            TopicUnavailable: the topic does not exist, or must not be read.
        """
        from confluent_kafka import KafkaException  # noqa: PLC0415 -- an extra

        try:
            listed = self._consumer.list_topics(self._topic, timeout=WAIT_SECONDS)
            about = listed.topics[self._topic]
            if about.error is not None:
                raise TopicUnavailable(_sentence(str(about.error.name())), remedy=_REMEDY)
        except KafkaException as error:
            raise _unavailable(str(error.args[0].name())) from error
        return {number: self._held(number) for number in sorted(about.partitions)}

    def described(self) -> KeptTopic | None:
        """Return the topic's id and settings: its ``cleanup.policy``, and all that differ from
        Kafka's defaults, set for the topic or for the brokers. Effects: queries the broker; logs a
        warning if that is not permitted.

        Returns:
            None if it is not permitted.

        Raises:
            BrokerUnavailable: it does not respond.
        """
        from confluent_kafka import KafkaError, KafkaException, TopicCollection  # noqa: PLC0415 -- an extra
        from confluent_kafka.admin import ConfigResource, ConfigSource  # type: ignore[attr-defined]  # noqa: PLC0415

        resource = ConfigResource(ConfigResource.Type.TOPIC, self._topic)
        try:
            described = self._admin.describe_configs([resource], request_timeout=WAIT_SECONDS)
            configs = described[resource].result()
            topics = self._admin.describe_topics(
                TopicCollection([self._topic]), request_timeout=WAIT_SECONDS
            )
            topic_id = _topic_id(topics[self._topic])
        except KafkaException as error:
            name = str(error.args[0].name())
            if error.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                _LOG.warning("topic=%s its settings are not saved: %s", self._topic, name)
                return None
            raise _unavailable(name) from error
        return KeptTopic(
            topic_id=topic_id,
            configs={
                name: str(entry.value)
                for name, entry in configs.items()
                if entry.value is not None
                and not name.startswith(_TIERED)
                and (name == "cleanup.policy" or entry.source != ConfigSource.DEFAULT_CONFIG.value)
            },
        )

    def records(self, partition: int, start: int, end: int) -> Iterator[pa.RecordBatch]:
        """Yield the records with offsets in [start, end), columns as
        `logwright.ingest.schema.COPIED`. Records that retention deletes during the copy are a gap.
        Effects: reads from the broker.

        Raises:
            BrokerUnavailable: it stops responding.
        """
        from pyarrow import RecordBatch  # noqa: PLC0415 -- an extra

        from logwright.ingest.schema import COPIED  # noqa: PLC0415

        resets, position = 0, start
        self._assign(partition, position)
        while position < end:
            rows = []
            for message in self._consumer.consume(ROWS, timeout=1.0) or self._waited():
                problem = _problem_of(message)
                if problem == "reset" and resets < RESETS:
                    resets += 1
                    position = max(position, self._held(partition).first)
                    self._assign(partition, position)
                    break
                if problem is not None and problem != "end":
                    raise _unavailable(problem)
                offset = message.offset()
                if problem == "end" or offset is None or offset >= end:
                    position = end
                    break
                rows.append(_row(message))
                position = offset + 1
            if rows:
                yield RecordBatch.from_pylist(rows, schema=COPIED)
        self._consumer.unassign()

    def _held(self, partition: int) -> Held:
        from confluent_kafka import KafkaException, TopicPartition  # noqa: PLC0415 -- an extra

        try:
            first, end = self._consumer.get_watermark_offsets(
                TopicPartition(self._topic, partition), timeout=WAIT_SECONDS
            )
        except KafkaException as error:
            raise _unavailable(str(error.args[0].name())) from error
        return Held(first=first, end=end)

    def _assign(self, partition: int, offset: int) -> None:
        from confluent_kafka import TopicPartition  # noqa: PLC0415 -- an extra

        self._consumer.assign([TopicPartition(self._topic, partition, offset)])

    def _waited(self) -> list[Message]:
        messages = self._consumer.consume(ROWS, timeout=WAIT_SECONDS)
        if not messages:
            raise _unavailable("no answer")
        return messages


def topics_of(bootstrap: str, settings: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of the topics that a broker shows this user, without Kafka's internal ones.
    Effects: queries the broker.

    Args:
        settings: as of `open_topic`.

    Raises:
        PolicyError: it refuses a setting.
        BrokerUnavailable: it does not respond.
        TopicUnavailable: it shows none.
    """
    from confluent_kafka import KafkaException  # noqa: PLC0415 -- an extra
    from confluent_kafka.admin import AdminClient  # noqa: PLC0415

    try:
        admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0, **settings})
    except (KafkaException, TypeError, ValueError) as error:
        raise _invalid_setting() from error
    try:
        listed = admin.list_topics(timeout=WAIT_SECONDS).topics
    except KafkaException as error:
        raise _unavailable(str(error.args[0].name())) from error
    topics = tuple(sorted(listed.keys() - INTERNAL_TOPICS.keys()))
    if not topics:
        raise TopicUnavailable(
            "the broker shows no topic.", remedy="See whether this user may describe topics."
        )
    return topics


@contextmanager
def open_topic(
    bootstrap: str, topic: str, *, isolation: Isolation, settings: Mapping[str, str]
) -> Iterator[SourceTopic]:
    """Open a consumer. Effects: connects to the broker.

    Args:
        settings: more settings of librdkafka, for example for TLS and SASL.

    Raises:
        PolicyError: it refuses a setting.
    """
    from confluent_kafka import Consumer, KafkaException  # noqa: PLC0415 -- an extra
    from confluent_kafka.admin import AdminClient  # noqa: PLC0415

    ours: dict[str, str | bool | int] = {
        "bootstrap.servers": bootstrap,
        "group.id": GROUP,
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "error",
        "check.crcs": True,
        "isolation.level": isolation,
        "log_level": 0,
    }
    try:
        admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0, **settings})
        consumer = Consumer({**ours, **settings, "isolation.level": isolation})
    except (KafkaException, TypeError, ValueError) as error:
        raise _invalid_setting() from error
    try:
        yield SourceTopic(consumer, admin, topic)
    finally:
        consumer.close()


def _topic_id(described: Future[Any]) -> str | None:
    """Return the topic id in Kafka's text form; None if there is none, as before KIP-516."""
    topic_id = described.result().topic_id
    parts = (topic_id.get_most_significant_bits(), topic_id.get_least_significant_bits())
    content = b"".join(part.to_bytes(8, "big", signed=True) for part in parts)
    return base64.urlsafe_b64encode(content).decode().rstrip("=") if any(content) else None


def _problem_of(message: Message) -> str | None:
    """Return None for a record; else ``end`` of the partition, ``reset`` for an offset out of
    range, or the name of an error.
    """
    from confluent_kafka import KafkaError  # noqa: PLC0415 -- an extra

    error = message.error()
    if error is None:
        return None
    if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 -- the library's own names
        return "end"
    if error.code() == KafkaError._AUTO_OFFSET_RESET:  # noqa: SLF001
        return "reset"
    return str(error.name())


def _row(message: Message) -> dict[str, object]:
    _, timestamp = message.timestamp()
    headers = [
        {"key": str(pair[0]).encode(), "value": pair[1]} for pair in list(message.headers() or ())
    ]
    return {
        "key": message.key(),
        "value": message.value(),
        "headers": headers,
        "timestamp": timestamp,
        "offset": message.offset(),
    }


def _invalid_setting() -> PolicyError:
    return PolicyError("a setting of the consumer is invalid.")


_REMEDY: Final = "Records copied so far are kept. Fix the cause and retry."


def _sentence(what: str) -> str:
    return f"the broker cannot be read: {what}."


def _unavailable(what: str) -> BrokerUnavailable:
    return BrokerUnavailable(_sentence(what), remedy=_REMEDY)
