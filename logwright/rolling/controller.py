"""Which node is the active controller, by what the nodes have noted next to their metadata logs: no
broker's Admin API says it (`logwright.metadata.quorum`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from logwright.config.cluster import Cluster, ClusterBroker
from logwright.errors import LogwrightError
from logwright.metadata.find import find_metadata
from logwright.metadata.quorum import QuorumLeader, read_quorum_leader
from logwright.rolling.model import ActiveController


def noted_leader(log_dirs: Iterable[Path]) -> QuorumLeader | None:
    """Return what a node with these log directories has noted, None if it has not. Effects: reads
    files.

    Raises:
        LogwrightError: they cannot be read.
    """
    for log_dir in log_dirs:
        metadata = find_metadata(log_dir)
        leader = None if metadata is None else read_quorum_leader(metadata)
        if leader is not None:
            return leader
    return None


def newest_leader(
    brokers: Iterable[ClusterBroker], noted: Callable[[ClusterBroker], QuorumLeader | None]
) -> ActiveController:
    """Return the leader of the newest epoch that the nodes of some brokers have noted. Effects:
    those of `noted`.

    Args:
        noted: returns what a broker's node has; a LogwrightError is as good as nothing.
    """
    leaders, problems = [], []
    for broker in brokers:
        try:
            leader = noted(broker)
        except LogwrightError as error:
            problems.append(error.problem.rstrip("."))
        else:
            leaders += [] if leader is None else [leader]
    if not leaders:
        why = problems[0] if problems else "no log directory of the file has a quorum-state"
        return ActiveController(problem=why)
    newest = max(leaders, key=lambda leader: leader.epoch)
    return ActiveController(node=newest.leader, problem="none is elected")


def local_controller(config: Cluster, directory: Path) -> ActiveController:
    """Return the active controller as far as the brokers' log directories are on this machine.
    Effects: reads files.

    Args:
        directory: of the cluster's file.
    """
    here = [each for each in config.brokers if config.commands_of(each).run_with is None]
    return newest_leader(
        here, lambda broker: noted_leader(directory / each for each in broker.log_dirs)
    )
