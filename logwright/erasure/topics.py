"""Topics that requests are about and that nothing has: a name with a typing error, or a pattern
that matches nothing. Nobody may take "not found" there for "gone".
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from logwright.erasure.request import ALL_TOPICS, applies_to
from logwright.log.record_files import list_files
from logwright.metadata.model import ClusterMetadata
from logwright.place.model import Place


def match_nothing(patterns: Iterable[str], topics: Collection[str]) -> tuple[str, ...]:
    """Return which of the requests' `topics` are none of these topics, sorted. `ALL_TOPICS` is left
    out: it names nothing.

    Args:
        patterns: topics, or patterns with the prefix ``regex:``, as requests have them.
        topics: that there are.
    """
    distinct = sorted({*patterns} - {ALL_TOPICS})
    return tuple(one for one in distinct if not any(applies_to(one, topic) for topic in topics))


def topics_of(log_dir: Place, metadata: ClusterMetadata | None = None) -> frozenset[str]:
    """Return the topics that a log directory has, as a search of it knows them, and those of the
    cluster's metadata. Effects: lists the directory; reads ledgers.

    Raises:
        NotALogDir, UnreadableFile: it cannot be listed.
    """
    return frozenset(list_files(log_dir).topics.union({} if metadata is None else metadata.topics))
