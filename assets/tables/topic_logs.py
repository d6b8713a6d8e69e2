"""The logs and the table of a topic, as assets and checks of `latest_state` need them."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final

import dagster as dg

from logwright.config.policies import Policies
from logwright.config.sources import DirectorySettings
from logwright.config.table import TABLE, TopicTable, tables_of
from logwright.errors import LogwrightError, NotALogDir, PolicyError
from logwright.format.names import TopicPartition
from logwright.log.load import observe
from logwright.log.watermark import require_high_watermark
from logwright.place.model import Place
from logwright.reading import reading
from logwright.resources.log_dirs import Listing, LogDirs, MaintainedLog
from logwright.resources.policies import PolicyDirectory
from logwright.resources.secrets import with_secrets
from logwright.running.place import as_it_runs, look_at
from logwright.tables.logs import TopicLog, topic_log
from logwright.tables.topic import LocatedTable

LATEST_STATE: Final = "latest_state"


def table_key(topic: str) -> dg.AssetKey:
    """Return the key of a topic's table."""
    return dg.AssetKey([LATEST_STATE, topic])


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicLogs:
    """A topic's logs.

    Attributes:
        logs: that can be read.
        failures: partition key → error, of the others.
    """

    logs: tuple[TopicLog, ...]
    failures: Mapping[str, LogwrightError]


def table_of(policies: PolicyDirectory, topic: str) -> tuple[LocatedTable, Policies]:
    """Return where a topic's table is, and the policies. Effects: reads them.

    Raises:
        PolicyError: they are invalid, or the topic has no table any more.
    """
    loaded = policies.load()
    table = tables_of(loaded).get(topic)
    if table is None:
        raise PolicyError(
            f"topic {topic} has no 'table:' in the policies any more.",
            path=policies.path(),
            remedy="Reload the code location.",
        )
    catalog = with_secrets(table.catalog, topic=topic)
    return LocatedTable(topic=topic, table=table, catalog=catalog, base=policies.path()), loaded


@contextmanager
def topic_logs(
    topic: str, table: TopicTable, log_dirs: LogDirs, settings: DirectorySettings
) -> Iterator[TopicLogs]:
    """Yield the logs of a topic; those that a broker has open, up to what is committed, all of the
    same moment if that is possible. Effects: reads; may wait some seconds for the broker.

    Raises:
        NotALogDir: there is none.
        PolicyError: a partition is in several log directories.
        Unsettled: on leaving: a log was truncated while it was read, or a broker started.
    """
    maintained = topic_of(topic, table.log_dir, log_dirs.listing())
    with ExitStack() as stack:
        refused: dict[str, LogwrightError] = {}
        places: dict[Place, Place] = {}
        for directory in sorted({log.log_dir for log in maintained}, key=str):
            here = [log for log in maintained if log.log_dir == directory]
            try:
                places[directory] = place = as_it_runs(directory, exact=True)
                stack.enter_context(reading(place))
                look_at(place, [log.partition.directory_name for log in here])
            except LogwrightError as error:
                refused |= {log.key: error.as_value() for log in here}
        logs: list[TopicLog] = []
        for log in maintained:
            if log.key in refused:
                continue
            try:
                logs.append(_observed(log, places[log.log_dir], settings))
            except LogwrightError as error:
                refused[log.key] = error.as_value()
        yield TopicLogs(logs=tuple(logs), failures=refused)


def topic_of(
    topic: str, log_dir: str | None, listing: Listing, *, entry: str = TABLE
) -> Sequence[MaintainedLog]:
    """Return the logs that a topic's table, or archive, is made from, by partition. Pure.

    Args:
        log_dir: name of the log directory; None: there is one that has them.
        entry: what of the topic's policy names it, for messages.

    Raises:
        NotALogDir, PolicyError: see `topic_logs`.
    """
    by_partition: dict[TopicPartition, MaintainedLog] = {}
    for log in listing.logs.values():
        name = log.long_key.partition(":")[0]
        if log.partition.topic != topic or log_dir not in (None, name):
            continue
        if log.partition in by_partition:
            raise PolicyError(
                f"{log.partition} is in several log directories.",
                remedy=f"Set log_dir in the {entry} of topic {topic}.",
            )
        by_partition[log.partition] = log
    if not by_partition:
        unreadable = next(iter(listing.unreadable.values()), None)
        if unreadable is not None:
            raise unreadable
        raise NotALogDir(f"no log directory has a partition of topic {topic}.")
    return [by_partition[partition] for partition in sorted(by_partition)]


def _observed(log: MaintainedLog, place: Place, settings: DirectorySettings) -> TopicLog:
    """Observe a log. Effects: reads it and the settings of its topic."""
    _, cleaner = settings.of(log.log_dir, log.partition.topic)
    high_watermark = settings.policies.high_watermark
    observed = observe(place, log.partition, high_watermark=high_watermark)
    if high_watermark == "checkpoint":
        require_high_watermark(observed)
    return topic_log(observed, cleaner)
