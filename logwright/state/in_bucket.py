"""Read and change the state of a log directory in a bucket (`logwright.bucket.states`)."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from logwright.bucket.agreement import limits_of
from logwright.bucket.driver import drive
from logwright.bucket.states import StoredState, change_stored, newest_stored
from logwright.place.bucket import bucket_of
from logwright.state.file import parse_state, serialize_state

if TYPE_CHECKING:
    from collections.abc import Callable

    from logwright.format.names import TopicPartition
    from logwright.place.model import Place
    from logwright.state.model import PartitionState

    States = dict[TopicPartition, PartitionState]

_OPERATION_BYTES = 16


def read_states(log_dir: Place) -> States:
    """Return the newest states of the partitions, whichever a place shows of the logs. Effects:
    lists the versions, and reads the newest.

    Raises:
        UnreadableFile: it is malformed, or the bucket does not permit it.
        Unsettled: the bucket does not answer.
    """
    bucket = bucket_of(log_dir)
    stored = drive(bucket, newest_stored())
    return {} if stored is None else parse_state(stored.content, f"{bucket}/{stored.key}")


def change_states(log_dir: Place, change: Callable[[States], States]) -> None:
    """Change the states of the partitions. Effects: creates the next version.

    Args:
        log_dir: the log directory.
        change: makes the new states from the newest ones; it is called again when another operation
            was first.

    Raises:
        NotALogDir: nobody has written there.
        UnreadableFile: the newest version is malformed, or the bucket does not permit it.
        Unsettled, TooLate: it does not answer. Whether the change is in is not known.
    """
    bucket = bucket_of(log_dir)

    def content_of(stored: StoredState | None) -> bytes:
        before = {} if stored is None else parse_state(stored.content, stored.key)
        return serialize_state(change(before))

    drive(bucket, change_stored(content_of, limits_of(bucket), secrets.token_hex(_OPERATION_BYTES)))
