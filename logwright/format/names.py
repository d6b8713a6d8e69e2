"""Names of files and directories in a log directory (LocalLog, LogFileUtils of Kafka 4.3.0)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

LOG: Final = ".log"
INDEX: Final = ".index"
TIMEINDEX: Final = ".timeindex"
TXNINDEX: Final = ".txnindex"
SNAPSHOT: Final = ".snapshot"
SEGMENT_SUFFIXES: Final = (LOG, INDEX, TIMEINDEX, TXNINDEX)

CLEANED: Final = ".cleaned"
SWAP: Final = ".swap"
DELETED: Final = ".deleted"

LEADER_EPOCH_CHECKPOINT: Final = "leader-epoch-checkpoint"
PARTITION_METADATA: Final = "partition.metadata"

RECOVERY_POINT_CHECKPOINT: Final = "recovery-point-offset-checkpoint"
LOG_START_OFFSET_CHECKPOINT: Final = "log-start-offset-checkpoint"
HIGH_WATERMARK_CHECKPOINT: Final = "replication-offset-checkpoint"
CLEANER_OFFSET_CHECKPOINT: Final = "cleaner-offset-checkpoint"

CLEAN_SHUTDOWN_MARKER: Final = ".kafka_cleanshutdown"
MARKER_ASIDE: Final = ".logwright-cleanshutdown"
"""The marker's name while we append: no broker takes a log for clean that we may leave torn."""
BROKER_LOCK: Final = ".lock"
WORK_DIRECTORY: Final = ".logwright"
"""Our own directory inside a partition directory: staging, lock, scheduled deletions. Kafka ignores
it there.
"""

_PARTITION = re.compile(r"(?P<topic>[a-zA-Z0-9._-]{1,249})-(?P<partition>[0-9]{1,10})")
_SEGMENT_FILE = re.compile(
    r"(?P<base>[0-9]{20,})(?P<suffix>\.log|\.index|\.timeindex|\.txnindex|\.snapshot)"
)


@dataclass(frozen=True, slots=True, order=True)
class TopicPartition:
    """A topic and the number of one of its partitions; sorts by topic, then number."""

    topic: str
    partition: int

    @classmethod
    def parse(cls, name: str) -> TopicPartition | None:
        """The partition that a directory name ``TOPIC-N`` stands for, or None if it stands for
        none.
        """
        match = _PARTITION.fullmatch(name)
        if match is None or match["topic"] in {".", ".."}:
            return None
        return cls(match["topic"], int(match["partition"]))

    @property
    def directory_name(self) -> str:
        """``TOPIC-N``."""
        return f"{self.topic}-{self.partition}"

    def __str__(self) -> str:
        return self.directory_name


def segment_file_name(base_offset: int, suffix: str) -> str:
    """File name of a segment or snapshot: at least 20 digits, then the suffix."""
    return f"{base_offset:020d}{suffix}"


def parse_segment_file_name(name: str) -> tuple[int, str] | None:
    """(offset, suffix) of a live segment or snapshot file name; None for any other name."""
    match = _SEGMENT_FILE.fullmatch(name)
    return None if match is None else (int(match["base"]), match["suffix"])
