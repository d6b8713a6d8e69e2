"""Search a directory for a certificate: list, hash, search, and list again, so that the manifest
and the search are about the same files.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from logwright.config.resolved import Sources
from logwright.erasure.certificate.make import Searched
from logwright.erasure.certificate.manifest import hash_files, require_same
from logwright.erasure.certificate.model import Cluster, Replicas
from logwright.erasure.certificate.replicas import not_searched
from logwright.erasure.find.model import Finding
from logwright.erasure.find.result import SearchResult
from logwright.erasure.keys import KeySet
from logwright.erasure.request import applies_to
from logwright.log.load import list_partitions
from logwright.log.tree import list_tree
from logwright.metadata.model import TopicMetadata
from logwright.place.files import absolute
from logwright.place.model import Place, is_versioned
from logwright.place.objects import ObjectsPlace
from logwright.place.whole import whole
from logwright.reading import reading
from logwright.tier.remote import RemoteSegmentsPlace

Report = Callable[[str, int, int], None]
"""Called with (stage, bytes done, total bytes)."""


def search(
    directory: Place,
    find: Callable[[Place], SearchResult],
    *,
    requests: int,
    sources: Sources | None,
    report: Report,
) -> Searched:
    """Search one directory. Effects: reads all of its files.

    Args:
        directory: a log directory, an archive, or the files of a table.
        find: searches it.
        requests: number of requests; findings of others are byte patterns.
        sources: of its settings, None for what nothing maintains.
        report: called with the progress.

    Raises:
        LogDirLocked: a broker runs on it.
        StalePlan: a file changes meanwhile.
        LogwrightError: it cannot be read.
    """
    directory = whole(directory)
    with reading(directory):
        tree = list_tree(directory)
        files = hash_files(tree, lambda done, total: report("hash", done, total))
        result = find(directory)
        require_same(tree)
    metadata = None if sources is None else sources.metadata
    return Searched(
        path=str(absolute(directory)),
        tree=tree,
        files=files,
        findings=findings_of(result, requests),
        cluster=None
        if metadata is None
        else Cluster(
            cluster_id=metadata.cluster_id,
            end_offset=metadata.end_offset,
            snapshot=metadata.snapshot,
        ),
        node_id=None if sources is None else sources.ids.node_id,
        looked=result.looked,
        unsearched=result.unsearched,
        topics=frozenset(result.topics),
        deleted=frozenset(result.deleted),
        erased=result.erased,
        shown=result.shown,
        others=result.others,
        unformed=frozenset(result.unformed),
        is_tier=isinstance(directory, RemoteSegmentsPlace),
        in_bucket=is_versioned(directory) or isinstance(directory, ObjectsPlace),
        objects=isinstance(directory, ObjectsPlace),
    )


def findings_of(result: SearchResult, requests: int) -> list[Finding]:
    """Return the findings, with -1 for the request of a byte pattern's."""
    return [
        finding if 0 <= finding.request < requests else replace(finding, request=-1)
        for finding in result.findings
    ]


def replicas_elsewhere(
    searched: Sequence[tuple[Place, Sources]], keys: KeySet, *, every_topic: bool = False
) -> tuple[Replicas, ...]:
    """Return the replicas that the clusters' metadata knows and that were not searched. Effects:
    lists the directories.

    Args:
        searched: log directories, each with the sources of its settings.
        keys: of the requests; replicas of other topics do not count.
        every_topic: those of all topics do: a byte pattern is searched in all of them.

    Raises:
        LogwrightError: one cannot be listed.
    """
    topics: dict[str, TopicMetadata] = {}
    held = []
    for log_dir, sources in searched:
        held.append((sources.ids.node_id, frozenset(list_partitions(log_dir))))
        if sources.metadata is not None:
            topics |= sources.metadata.topics
    patterns = {keys.request(index).topics for index in range(len(keys))}
    return not_searched(
        topics,
        held,
        lambda topic: every_topic or any(applies_to(one, topic) for one in patterns),
    )
