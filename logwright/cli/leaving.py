"""Which partitions a command leaves alone, and what it says of them: those that are held, those
whose settings nothing says, and strays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from logwright.errors import LogwrightError, PolicyError, PreconditionError

if TYPE_CHECKING:
    from logwright.cli.planning import FailureLog
    from logwright.cli.request import Request
    from logwright.format.names import TopicPartition
    from logwright.metadata.model import ClusterMetadata

UNKNOWN_REMEDY: Final = (
    "Give the cluster's metadata (--metadata DIR), an entry of topics.yml (--policies DIR), or"
    " --config cleanup.policy=VALUE."
)


def leave_held(
    request: Request, partitions: Iterable[TopicPartition], *, force: bool = False
) -> tuple[TopicPartition, ...]:
    """The partitions that may be worked on; with `force`, those in quarantine too.

    Of the others it is said why they are left alone, and of moves that were cut short where their
    partitions are. Effects: reads the state file; output.

    Raises:
        UnreadableFile: the state file is none. Nothing may be worked on then.
    """
    from logwright.state.store import read_state  # noqa: PLC0415 -- not for --help

    state = read_state(request.log_dir)
    free = []
    chosen = tuple(partitions)
    for partition in chosen:
        hold = state[partition].hold(request.now_ms, force=force) if partition in state else None
        if hold is None:
            free.append(partition)
            continue
        say_held(request, partition, hold.kind, hold.sentence)
    for partition, one in sorted(state.items()):
        if one.move is not None and (partition in chosen or not request.named):
            request.output.message(
                f"{partition}: there is {one.move.sentence}: run `logwright move` again, or with"
                " --abandon"
            )
    return tuple(free)


def leave_strays(
    request: Request,
    partitions: Iterable[TopicPartition],
    failures: FailureLog,
    *,
    force: bool = False,
) -> tuple[TopicPartition, ...]:
    """The partitions that a broker would serve from this directory; with `force`, all. One that was
    named is a failure, the others are left alone. Effects: reads their topic ids; output.

    Raises:
        LogwrightError: as `Request.sources`.
    """
    chosen = tuple(partitions)
    if force:
        return chosen
    if not request.named:
        return say_strays(request, chosen, failures)
    free = []
    for partition, reason in _standing(request, chosen, failures):
        if reason is None:
            free.append(partition)
        else:
            problem = f"it is stray: {reason}."
            failures.add(partition, PreconditionError(problem, remedy="--force passes over that."))
    return tuple(free)


def say_strays(
    request: Request, partitions: Iterable[TopicPartition], failures: FailureLog
) -> tuple[TopicPartition, ...]:
    """The partitions that a broker would serve from this directory. Effects: reads the topic ids of
    all; output about the others.

    Raises:
        LogwrightError: as `Request.sources`.
    """
    free = []
    for partition, reason in _standing(request, partitions, failures):
        if reason is None:
            free.append(partition)
        else:
            say_held(request, partition, "stray", f"it is stray: {reason}")
    return tuple(free)


def _standing(
    request: Request, partitions: Iterable[TopicPartition], failures: FailureLog
) -> Iterator[tuple[TopicPartition, str | None]]:
    """Each partition and why it is stray; one whose topic id cannot be read is a failure. Effects:
    reads the topic ids; output.
    """
    request.sources()
    for partition in partitions:
        try:
            yield partition, stray(request, partition)
        except LogwrightError as error:
            failures.add(partition, error)


def stray(request: Request, partition: TopicPartition) -> str | None:
    """Why a broker would not serve a partition from this directory; None if it would, or if there
    is no metadata. Effects: reads its topic id.

    Raises:
        LogwrightError: as `Request.sources`, and `read_topic_id`.
    """
    from logwright.config.sources import stray_partition  # noqa: PLC0415 -- pydantic: not for --help

    return stray_partition(request.sources(), request.log_dir, partition)


def leave_unknown(
    request: Request, partitions: Iterable[TopicPartition], failures: FailureLog
) -> tuple[TopicPartition, ...]:
    """The partitions whose ``cleanup.policy`` is known. One that was named is a failure; so are all
    if none is known, and those whose settings are not valid; else the others are left alone.
    Effects: output.

    Raises:
        LogwrightError: as `Request.sources`.
    """
    request.sources()
    known: list[TopicPartition] = []
    unknown: list[TopicPartition] = []
    for partition in partitions:
        try:
            config, _ = request.settings(partition.topic)
        except LogwrightError as error:
            failures.add(partition, error)
        else:
            (known if config.policy_known else unknown).append(partition)
    for partition in unknown:
        if request.named or not known:
            problem = "nothing says its cleanup.policy."
            failures.add(partition, PolicyError(problem, remedy=UNKNOWN_REMEDY))
        else:
            sentence = f"nothing says its cleanup.policy. {UNKNOWN_REMEDY}"
            say_held(request, partition, "unknown", sentence)
    return tuple(known)


def say_sources(
    request: Request, partitions: Iterable[TopicPartition], *, planned: bool = False
) -> None:
    """The cluster's metadata in use, and where an entry of ``topics.yml`` disagrees with it on what
    is deleted; nothing without metadata. Effects: stderr; of a plan (`planned`, or a dry run)
    stdout as JSON.

    Raises:
        LogwrightError: as `Request.sources`.
    """
    from logwright.config.resolved import disagreements  # noqa: PLC0415 -- pydantic: not for --help

    sources = request.sources()
    if sources.metadata is None:
        return
    topics = sorted({one.topic for one in partitions})
    found = {topic: disagreements(sources, topic) for topic in topics}
    differing = [
        {
            "topic": topic,
            "name": one.name,
            "entry": {"value": one.entry.value, "where": one.entry.where},
            "cluster": {"value": one.cluster.value, "where": one.cluster.where},
            "override": one.override,
        }
        for topic in topics
        for one in found[topic]
    ]
    if planned or request.dry_run:
        used = metadata_object(sources.metadata)
        request.output.json_object(
            {"now": request.now_ms, "metadata": used, "disagreements": differing}
        )
    request.output.message(f"Settings by {said_metadata(sources.metadata)}.")
    for topic in topics:
        for one in found[topic]:
            request.output.message(f"{topic}: {one.sentence}")


def metadata_object(metadata: ClusterMetadata) -> dict[str, object]:
    """Which metadata it is."""
    return {
        "path": str(metadata.path),
        "clusterId": metadata.cluster_id,
        "endOffset": metadata.end_offset,
        "snapshot": metadata.snapshot,
    }


def said_metadata(metadata: ClusterMetadata) -> str:
    """`metadata_object`, for people."""
    snapshot = f", with the snapshot {metadata.snapshot}" if metadata.snapshot else ""
    return (
        f"the metadata of cluster {metadata.cluster_id} up to offset {metadata.end_offset}, from"
        f" {metadata.path}{snapshot}"
    )


def say_held(request: Request, partition: TopicPartition, kind: str, sentence: str) -> None:
    """Say why a partition is left alone. Effects: output."""
    request.output.message(f"{partition}: left alone: {sentence}")
    request.output.json_object(
        {
            "topicPartition": str(partition),
            "now": request.now_ms,
            "skipped": kind,
            "why": sentence,
        }
    )
