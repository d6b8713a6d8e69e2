"""Topics that requests are about and that nothing has: a name with a typing error, or a pattern
that matches nothing. Nobody may take "not found" there for "gone".
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Final

from logwright.erasure.request import ALL_TOPICS, applies_to
from logwright.log.files import open_log_dir
from logwright.log.log_dir import list_log_dir
from logwright.metadata.model import ClusterMetadata

LONGEST_NAME: Final = 255
"""At this length Kafka has shortened the topic in a directory's name (LocalLog.logDeleteDirName).
"""


def match_nothing(patterns: Iterable[str], topics: Collection[str]) -> tuple[str, ...]:
    """Return which of the requests' `topics` are none of these topics, sorted. `ALL_TOPICS` is left
    out: it names nothing.

    Args:
        patterns: topics, or patterns with the prefix ``regex:``, as requests have them.
        topics: that there are.
    """
    asked = sorted({*patterns} - {ALL_TOPICS})
    return tuple(one for one in asked if not any(applies_to(one, topic) for topic in topics))


def topics_of(log_dir: Path, metadata: ClusterMetadata | None = None) -> frozenset[str]:
    """Return the topics that a log directory has, by the names of its directories, and those of the
    cluster's metadata. Effects: lists the directory.

    Raises:
        NotALogDir, UnreadableFile: it cannot be listed.
    """
    with open_log_dir(log_dir) as root:
        listing = list_log_dir(root)
    named = {one.topic for one in listing.partitions.values()}
    named |= {one.partition.topic for one in listing.marked if len(one.name) < LONGEST_NAME}
    return frozenset(named | {*({} if metadata is None else metadata.topics)})
