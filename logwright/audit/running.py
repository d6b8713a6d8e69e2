"""Replicas whose brokers run: looked at together, so that what one has removed is not a fault.

Their pictures are of different moments. Each is a replica that lags, which the rules know, if its
bound is younger than every picture: a tombstone that one cleaner removed is below the bounds of all
replicas in sync, which have had it for at least ``delete.retention.ms``.
"""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from logwright.errors import LogwrightError, Unsettled
from logwright.format.checkpoints import LeaderEpoch, parse_leader_epochs
from logwright.format.names import LEADER_EPOCH_CHECKPOINT
from logwright.log.load import list_partitions
from logwright.place.files import exists, open_bytes
from logwright.place.model import is_running
from logwright.running.place import RunningPlace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from logwright.audit.model import Replica
    from logwright.format.names import TopicPartition
    from logwright.place.model import Place
    from logwright.running.place import Session

_log = logging.getLogger(__name__)


def look_together(log_dirs: Iterable[Place], partitions: Iterable[TopicPartition]) -> None:
    """Make the pictures of some partitions in all directories that brokers have open, then wait for
    bounds that are younger. What fails is left to who reads it. Effects: looks at the logs; waits.
    """
    wanted = set(partitions)
    logs: list[tuple[Session, list[str]]] = []
    for place in log_dirs:
        if isinstance(place, RunningPlace):
            names = [each.directory_name for each in list_partitions(place) if each in wanted]
            logs.append((place.session, sorted(names)))
    if not logs:
        return
    with ThreadPoolExecutor(len(logs)) as pool:
        for act in (_prepare, _renew):
            list(pool.map(act, *zip(*logs, strict=True)))


def _prepare(session: Session, names: list[str]) -> None:
    _tried(session.prepare, names)


def _renew(session: Session, names: list[str]) -> None:
    _tried(session.renew, names)


def _tried(act: Callable[[Iterable[str]], None], names: list[str]) -> None:
    try:
        act(names)
    except LogwrightError as error:
        _log.debug("each log is looked at alone: %s", error)


def require_one_history(replicas: Sequence[Replica]) -> None:
    """Require that replicas have the same leader epochs where all of them serve, if a broker runs.
    Effects: reads their epochs.

    Raises:
        Unsettled: they have not: after an unclean election one of them is going to be truncated.
        UnreadableFile, CorruptCheckpoint, UnsupportedFormatError: they cannot be read.
    """
    if not any(is_running(replica.log.log_dir) for replica in replicas):
        return
    start = max(replica.span.start for replica in replicas)
    end = min(replica.span.end for replica in replicas)
    at = first_difference([_epochs(replica) for replica in replicas], start, end)
    if at is not None:
        raise Unsettled(
            f"the replicas have other leader epochs from offset {at} on: nothing was compared.",
            path=replicas[0].log.directory,
            remedy="One is going to be truncated: run it again. If it stays, stop the brokers and"
            " run it then.",
        )


def first_difference(
    histories: Sequence[Sequence[LeaderEpoch]], start: int, end: int
) -> int | None:
    """Return the first offset of [start, end) at which logs have different leader epochs, None if
    none has. A log without epochs says nothing. Pure.

    Args:
        histories: of each log, ascending.
    """
    known = [epochs for epochs in histories if epochs]
    offsets = {start, *(each.start_offset for epochs in known for each in epochs)}
    for offset in sorted(each for each in offsets if start <= each < end):
        if len({_epoch_at(epochs, offset) for epochs in known} - {None}) > 1:
            return offset
    return None


def _epoch_at(epochs: Sequence[LeaderEpoch], offset: int) -> int | None:
    return next((each.epoch for each in reversed(epochs) if each.start_offset <= offset), None)


def _epochs(replica: Replica) -> tuple[LeaderEpoch, ...]:
    path = replica.log.directory / LEADER_EPOCH_CHECKPOINT
    if not exists(path):
        return ()
    with open_bytes(path) as file:
        return parse_leader_epochs(file.span(0, file.seen[0]), path)
