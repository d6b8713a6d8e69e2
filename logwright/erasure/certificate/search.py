"""Search a directory for a certificate: list, hash, search, and list again, so that the manifest
and the search are about the same files.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from logwright.config.sources import DirectorySettings
from logwright.erasure.certificate.make import Searched
from logwright.erasure.certificate.manifest import hash_files, list_tree, require_same
from logwright.erasure.certificate.model import Cluster, Replicas
from logwright.erasure.certificate.replicas import not_searched
from logwright.erasure.keys import KeySet
from logwright.erasure.look import look_for
from logwright.erasure.request import applies_to
from logwright.locks import broker_kept_out
from logwright.log.load import list_partitions
from logwright.metadata.model import TopicMetadata
from logwright.units import TimestampMs

Report = Callable[[str, int, int], None]
"""Called with (stage, bytes done, total bytes)."""


def search(
    log_dir: Path,
    keys: KeySet,
    settings: DirectorySettings,
    *,
    now_ms: TimestampMs,
    report: Report,
) -> Searched:
    """Search one directory. Effects: reads all of its files.

    Raises:
        LogDirLocked: a broker runs on it.
        StalePlan: a file changes meanwhile.
        LogwrightError: the directory cannot be read, or its settings are invalid.
    """
    with broker_kept_out(log_dir):
        tree = list_tree(log_dir)
        files = hash_files(tree, lambda done, total: report("hash", done, total))
        findings, unread = look_for(log_dir, keys, settings, now_ms=now_ms, report=report)
        require_same(tree)
    sources = settings.sources(log_dir)
    metadata = sources.metadata
    return Searched(
        path=os.path.abspath(log_dir),  # noqa: PTH100 -- resolve() would follow symlinks
        tree=tree,
        files=files,
        findings=findings,
        unread=unread,
        cluster=None
        if metadata is None
        else Cluster(
            cluster_id=metadata.cluster_id,
            end_offset=metadata.end_offset,
            snapshot=metadata.snapshot,
        ),
        node_id=sources.ids.node_id,
    )


def replicas_elsewhere(
    log_dirs: Sequence[Path], keys: KeySet, settings: DirectorySettings
) -> tuple[Replicas, ...]:
    """Return the replicas that the clusters' metadata knows and that were not searched. Effects:
    reads metadata; lists the directories.

    Raises:
        LogwrightError: as `DirectorySettings.sources`.
    """
    topics: dict[str, TopicMetadata] = {}
    held = []
    for log_dir in log_dirs:
        sources = settings.sources(log_dir)
        held.append((sources.ids.node_id, frozenset(list_partitions(log_dir))))
        if sources.metadata is not None:
            topics |= sources.metadata.topics
    patterns = {keys.request(index).topics for index in range(len(keys))}
    return not_searched(topics, held, lambda topic: any(applies_to(one, topic) for one in patterns))
