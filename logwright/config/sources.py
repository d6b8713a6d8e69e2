"""Read all sources of the settings of a log directory's topics."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from logwright.config.broker import BrokerConfig
from logwright.config.kept import keep_topics, read_kept
from logwright.config.policies import Policies
from logwright.config.properties import ServerProperties, read_properties
from logwright.config.resolved import Sources, effective_pairs, given_configs, settings_of
from logwright.config.topic import CleanerConfig, TopicConfig, broker_settings
from logwright.errors import LogwrightError, PolicyError
from logwright.format.kept_topics import KeptTopic
from logwright.format.names import TopicPartition
from logwright.log.topic_id import read_topic_id
from logwright.metadata.find import find_metadata
from logwright.metadata.model import NO_IDS, ClusterMetadata, DirectoryIds
from logwright.metadata.places import stray_reason
from logwright.metadata.read import read_directory_ids, read_metadata
from logwright.place.files import open_partition_dir
from logwright.place.model import Place

_LOG = logging.getLogger(__name__)

WITHOUT_IT: Final = (
    "Or continue without it (--no-metadata; in Dagster LOGWRIGHT_METADATA=none), and give the"
    " topics' settings by policies or --config."
)


def read_sources(
    log_dir: Place,
    *,
    policies: Policies,
    command_line: Mapping[str, str],
    metadata: Path | None = None,
    find: bool = True,
    properties: Path | None = None,
    kafka_version: str | None = None,
) -> Sources:
    """Read all sources of one log directory's settings. Effects: reads files.

    Args:
        log_dir: the log directory; its ``meta.properties`` identifies the broker.
        policies: the operator's policies.
        command_line: the pairs of ``--config``.
        metadata: a ``__cluster_metadata-0`` directory; None: that of the log directory's node, see
            `find_metadata`.
        find: search for metadata if none is given; if false, settings saved by `archive` and
            `ingest` are ignored too.
        properties: a broker's ``server.properties``.
        kafka_version: of the broker; None: the sources decide.

    Raises:
        PolicyError: the properties cannot be read; the metadata is of another cluster.
        LogwrightError: as `find_metadata`, `read_metadata` and `read_kept`.
    """
    ids, metadata_read = NO_IDS, None
    kept: Mapping[str, KeptTopic] = {}
    if metadata is not None or find:
        try:
            ids = read_directory_ids(log_dir)
            path = metadata if metadata is not None else find_metadata(log_dir)
            metadata_read = None if path is None else read_metadata(path)
            kept = read_kept(log_dir)
            _refuse_another_cluster(log_dir, ids, metadata_read)
        except LogwrightError as error:
            if error.path != Path(str(log_dir)):  # without metadata that could not be read either
                error.remedy = f"{error.remedy} {WITHOUT_IT}" if error.remedy else WITHOUT_IT
            raise
    return Sources(
        command_line=command_line,
        policies=policies,
        metadata=metadata_read,
        ids=ids,
        kept=kept,
        properties=ServerProperties() if properties is None else read_properties(properties),
        kafka_version=kafka_version,
    )


def _refuse_another_cluster(
    log_dir: Place, ids: DirectoryIds, metadata: ClusterMetadata | None
) -> None:
    if metadata is None or None in (ids.cluster_id, metadata.cluster_id):
        return
    if ids.cluster_id != metadata.cluster_id:
        raise PolicyError(
            f"the metadata is of cluster {metadata.cluster_id}, but {log_dir} of {ids.cluster_id}.",
            path=metadata.path,
            remedy="Give the metadata of that cluster.",
        )


def keep_topic(log_dir: Path, sources: Sources, topic: str, kept: KeptTopic) -> Sources:
    """Save the settings of a topic that gets data, unless the cluster's metadata has the topic.
    Effects: see `keep_topics`.

    Returns:
        the sources, including them.

    Raises:
        LogwrightError: as `keep_topics`.
    """
    if sources.knows(topic):
        return sources
    keep_topics(log_dir, {topic: kept})
    return replace(sources, kept={**sources.kept, topic: kept})


def keep_given(log_dir: Path, sources: Sources, topic: str) -> None:
    """Save the settings that any source has for a topic that gets data. Effects and errors: as
    `keep_topic`.
    """
    kept = KeptTopic(topic_id=sources.topic_id(topic), configs=given_configs(sources, topic))
    if kept != KeptTopic():
        keep_topic(log_dir, sources, topic, kept)


def stray_partition(sources: Sources, log_dir: Place, partition: TopicPartition) -> str | None:
    """Return why a broker would not serve a partition from a directory; None if it would, or
    without metadata. Effects: reads its topic id.

    Raises:
        LogwrightError: as `read_topic_id`.
    """
    if sources.metadata is None:
        return None
    with open_partition_dir(log_dir, partition) as directory:
        topic_id = read_topic_id(directory)
    return stray_reason(partition, topic_id, sources.metadata, sources.ids)


def served_topic_id(sources: Sources, partition: TopicPartition) -> str | None:
    """Return the id of a partition's topic, if the cluster's metadata says that this node has a
    replica of the partition; None if it does not, or is not known.
    """
    topic_id = sources.topic_id(partition.topic)
    if topic_id is None or sources.metadata is None:
        return topic_id
    reason = stray_reason(partition, topic_id, sources.metadata, sources.ids)
    return topic_id if reason is None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Locations of a log directory's metadata and properties that differ from the default.

    Attributes:
        metadata, find, properties, kafka_version: as for `read_sources`.
    """

    metadata: Path | None = None
    find: bool = True
    properties: Path | None = None
    kafka_version: str | None = None


class DirectorySettings:
    """A cache of the settings of several log directories at one moment: reads each directory's
    metadata once and resolves each topic's settings once.

    `places`: by log directory, where they were given.
    """

    def __init__(
        self, policies: Policies, places: Callable[[Place], Places] = lambda _: Places()
    ) -> None:
        self.policies = policies
        self._places = places
        self._sources: dict[Place, Sources | LogwrightError] = {}
        self._settings: dict[tuple[Place, str], tuple[TopicConfig, CleanerConfig]] = {}

    def sources(self, log_dir: Place) -> Sources:
        """Return the sources of one log directory. Effects: may read its metadata; logs its
        version of Kafka if that is assumed.

        Raises:
            LogwrightError: as `read_sources`.
        """
        if log_dir not in self._sources:
            try:
                places = self._places(log_dir)
                sources = read_sources(
                    log_dir,
                    policies=self.policies,
                    command_line={},
                    metadata=places.metadata,
                    find=places.find,
                    properties=places.properties,
                    kafka_version=places.kafka_version,
                )
                if sources.kafka.assumed:
                    _LOG.warning("%s: %s", log_dir, sources.kafka.sentence)
                self._sources[log_dir] = sources
            except LogwrightError as error:
                self._sources[log_dir] = error.as_value()
        sources_read = self._sources[log_dir]
        if isinstance(sources_read, LogwrightError):
            raise copy(sources_read)  # what is raised gets frames, and this one is kept
        return sources_read

    def stray(self, log_dir: Place, partition: TopicPartition) -> str | None:
        """Return why a broker would not serve a partition from a directory; None if it would, or
        without metadata. Effects: as `sources`; reads its topic id.

        Raises:
            LogwrightError: as `read_sources` and `read_topic_id`.
        """
        return stray_partition(self.sources(log_dir), log_dir, partition)

    def topic_id(self, log_dir: Place, partition: TopicPartition) -> str | None:
        """Return the id of a partition's topic as `served_topic_id`; None also if the sources
        cannot be read. Effects: as `sources`.
        """
        try:
            return served_topic_id(self.sources(log_dir), partition)
        except LogwrightError:
            return None

    def replicas_of(self, log_dir: Place, partition: TopicPartition) -> tuple[int, ...]:
        """Return the node ids of a partition's replicas; none without metadata. Effects and errors:
        as `sources`.
        """
        return self.sources(log_dir).replicas_of(partition)

    def broker(self, log_dir: Place) -> BrokerConfig:
        """Return the broker's own settings. Effects: as `sources`.

        Raises:
            LogwrightError: as `of`.
        """
        return broker_settings(effective_pairs(self.sources(log_dir)))

    def of(self, log_dir: Place, topic: str) -> tuple[TopicConfig, CleanerConfig]:
        """Return the settings of a topic in a directory. Effects: as `sources`.

        Raises:
            LogwrightError: as `read_sources`; PolicyError: a setting is invalid.
        """
        key = (log_dir, topic)
        if key not in self._settings:
            self._settings[key] = settings_of(self.sources(log_dir), topic)
        return self._settings[key]

    def topic(self, log_dir: Place, topic: str) -> TopicConfig:
        """Return only the topic's settings. Effects and errors: as `of`."""
        return self.of(log_dir, topic)[0]
