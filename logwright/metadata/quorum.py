"""Who leads the quorum of a KRaft cluster: the active controller, as a node has noted it.

Each node, voter or observer, writes ``quorum-state`` next to the metadata log before it follows
another leader (`org.apache.kafka.raft.QuorumState`, KIP-595; version 1 with KIP-853). So the newest
epoch of several nodes' files names the active controller. The Admin API of a broker does not: it
names any broker as the controller (`KafkaApis.handleDescribeCluster`).
"""

from __future__ import annotations

import json
from typing import Final, NamedTuple

from logwright.errors import CorruptLogError
from logwright.place.files import exists, open_bytes
from logwright.place.model import Place

QUORUM_STATE: Final = "quorum-state"
_MOST_BYTES: Final = 65_536


class QuorumLeader(NamedTuple):
    """The leader that a node knows.

    Attributes:
        epoch: of the leader; the newest of several nodes is right.
        leader: node id of the active controller, None if the epoch has no leader yet.
    """

    epoch: int
    leader: int | None


def read_quorum_leader(directory: Place) -> QuorumLeader | None:
    """Return what is in the ``quorum-state`` of a ``__cluster_metadata-0``; None without the file.
    Effects: reads it.

    Raises:
        UnreadableFile: it cannot be read.
        CorruptLogError: it is not what a node writes.
    """
    path = directory / QUORUM_STATE
    if not exists(path):
        return None
    with open_bytes(path) as file:
        content = file.span(0, _MOST_BYTES)
    try:
        given = json.loads(content)
        epoch, leader = given["leaderEpoch"], given["leaderId"]
        if not (isinstance(epoch, int) and isinstance(leader, int)):
            raise TypeError
    except (ValueError, TypeError, KeyError) as error:
        raise CorruptLogError(
            "is not the state of a quorum.",
            path=path,
            remedy="The file was not changed. The node writes it again when it starts.",
        ) from error
    return QuorumLeader(epoch, leader if leader >= 0 else None)
