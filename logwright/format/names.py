"""Names of files and directories in a log directory (LocalLog, LogFileUtils of Kafka 4.3.0)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Container

LOG: Final = ".log"
INDEX: Final = ".index"
TIMEINDEX: Final = ".timeindex"
TXNINDEX: Final = ".txnindex"
SNAPSHOT: Final = ".snapshot"
SEGMENT_SUFFIXES: Final = (LOG, INDEX, TIMEINDEX, TXNINDEX)

CLEANED: Final = ".cleaned"
SWAP: Final = ".swap"
DELETED: Final = ".deleted"

DELETE_DIRECTORY: Final = "-delete"
FUTURE_DIRECTORY: Final = "-future"
STRAY_DIRECTORY: Final = "-stray"

LEADER_EPOCH_CHECKPOINT: Final = "leader-epoch-checkpoint"
PARTITION_METADATA: Final = "partition.metadata"

RECOVERY_POINT_CHECKPOINT: Final = "recovery-point-offset-checkpoint"
LOG_START_OFFSET_CHECKPOINT: Final = "log-start-offset-checkpoint"
HIGH_WATERMARK_CHECKPOINT: Final = "replication-offset-checkpoint"
CLEANER_OFFSET_CHECKPOINT: Final = "cleaner-offset-checkpoint"

CLEAN_SHUTDOWN_MARKER: Final = ".kafka_cleanshutdown"
MARKER_ASIDE: Final = ".logwright-cleanshutdown"
"""Prefix of the clean-shutdown marker during an append: without the marker a broker runs recovery
on a log that a crash may leave torn."""
INGEST_JOURNAL: Final = "ingest.json"
INGEST_BATCHES: Final = "ingest.batches"
ERASURE_MARK: Final = "erased.json"
"""Files of the work directory: see `logwright.ingest.journal`."""
BROKER_LOCK: Final = ".lock"
RESCUED: Final = ".rescued"
"""Suffix of the directory next to a log directory that gets what `rescue` moves out of it."""
WORK_DIRECTORY: Final = ".logwright"
"""logwright's directory inside a partition directory: staging, lock, ledgers. Kafka ignores it."""
STAGING: Final = "staging"
"""Directory of the plans' staging directories, in the work directory."""
FAILED: Final = "failed"
"""Directory of the kept outputs (`logwright.steps.failed_output`), in the work directory."""
FAILED_OUTPUT: Final = r"[0-9]{1,19}\.-?[0-9]+-[0-9a-f]{8}-[0-9a-f]{8}"
"""Pattern of the directory's name of one: when it expires, in ms, and the plan's id."""
CUT: Final = "cut"
"""Directory of what recoveries have cut out, in the work directory."""

DELETED_LOGS: Final = ".logwright-deleted-logs.jsonl"
"""In a log directory's root: the ledger of deleted logs."""
SPOOL: Final = ".logwright-write-"
"""In a log directory's root: prefix of the rows of a write by Spark, as Arrow's IPC files
(`logwright.spark.kafka_log_write`)."""

_LONGEST_NAME: Final = 255
_PARTITION = re.compile(r"(?P<topic>[a-zA-Z0-9._-]{1,249})-(?P<partition>[0-9]{1,10})")
_SEGMENT_FILE = re.compile(
    r"(?P<base>[0-9]{20,})(?P<suffix>\.log|\.index|\.timeindex|\.txnindex|\.snapshot)"
)
_DELETED_DIRECTORY = re.compile(r"(?P<partition>.+)\.[0-9a-f]{32}-delete")
_MARKED_DIRECTORY = re.compile(
    r"(?P<partition>.+)\.[^.\s]+"
    rf"(?P<suffix>{DELETE_DIRECTORY}|{FUTURE_DIRECTORY}|{STRAY_DIRECTORY})"
)
_RETIRED_FILE = re.compile(rf"(?P<live>{_SEGMENT_FILE.pattern})(?:\.[0-9]+)?\.deleted")


class TopicPartition(NamedTuple):
    """A topic and a partition number; sorts by topic, then number. A tuple, for fast look-ups of
    many partitions.
    """

    topic: str
    partition: int

    @classmethod
    def parse(cls, name: str) -> TopicPartition | None:
        """Parse a directory name ``TOPIC-N``; None if it is not a partition's name."""
        match = _PARTITION.fullmatch(name)
        if match is None:
            return None
        topic, partition = match.groups()
        return None if topic in {".", ".."} else cls(topic, int(partition))

    @property
    def directory_name(self) -> str:
        """``TOPIC-N``."""
        return f"{self.topic}-{self.partition}"

    def __str__(self) -> str:
        return self.directory_name


def parse_deleted_directory_name(name: str) -> TopicPartition | None:
    """Parse the directory name of a deleted log, whose topic may be truncated; None for others."""
    match = _DELETED_DIRECTORY.fullmatch(name)
    return None if match is None else TopicPartition.parse(match["partition"])


def parse_marked_directory_name(name: str) -> tuple[TopicPartition, str] | None:
    """Parse the directory name of a deleted, future or stray log into its partition, whose topic
    may be truncated, and its suffix; None for others (UnifiedLog.parseTopicPartitionName).
    """
    match = _MARKED_DIRECTORY.fullmatch(name)
    partition = None if match is None else TopicPartition.parse(match["partition"])
    return None if match is None or partition is None else (partition, match["suffix"])


def live_file_name(deleted: str) -> str | None:
    """Return the name of a retired file before its retirement; None for any other file."""
    match = _RETIRED_FILE.fullmatch(deleted)
    return None if match is None else match["live"]


def marked_directory_name(partition: TopicPartition, unique_id: str, suffix: str) -> str:
    """Return ``TOPIC-N.UNIQUE_ID`` and a suffix such as ``-delete``; truncates the topic if the
    name would be too long (LocalLog.logDeleteDirName).
    """
    end = f"-{partition.partition}.{unique_id}{suffix}"
    return partition.topic[: _LONGEST_NAME - len(end)] + end


def segment_file_name(base_offset: int, suffix: str) -> str:
    """Return the file name of a segment or snapshot: at least 20 digits, then the suffix."""
    return f"{base_offset:020d}{suffix}"


def segment_files(base_offset: int, among: Container[str]) -> tuple[str, ...]:
    """Return the names of a segment's files that are among these names, ``.log`` first."""
    names = (segment_file_name(base_offset, suffix) for suffix in SEGMENT_SUFFIXES)
    return tuple([name for name in names if name in among])


def parse_segment_file_name(name: str) -> tuple[int, str] | None:
    """Parse the file name of a live segment or snapshot into (offset, suffix); None for others."""
    match = _SEGMENT_FILE.fullmatch(name)
    return None if match is None else (int(match["base"]), match["suffix"])
