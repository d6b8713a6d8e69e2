"""Only the leader of a partition appends. Pure.

A record that is appended to one of several replicas has the offset and the epoch of one that the
leader gives out meanwhile. When the replica comes back, neither differs: it is not truncated, and
lacks the acknowledged record for ever, also when it leads (KIP-101, KIP-320).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from logwright.errors import PreconditionError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from logwright.format.names import TopicPartition

PRODUCE: Final = "Produce the records through the cluster. Nothing was changed."


def refuse_replicated(
    log_dir: Path,
    partition: TopicPartition,
    replicas: Sequence[int],
    *,
    remedy: str = PRODUCE,
) -> None:
    """Refuse an append to one replica of several.

    Args:
        replicas: node ids by the cluster's metadata; empty if they are not known.

    Raises:
        PreconditionError: there are several.
    """
    if len(replicas) > 1:
        nodes = ", ".join(map(str, sorted(replicas)))
        raise PreconditionError(
            f"{partition} has {len(replicas)} replicas (nodes {nodes}), and only its leader"
            " appends: a record that is put into one of them takes the place of one that the leader"
            " acknowledges.",
            path=log_dir / partition.directory_name,
            remedy=remedy,
        )
