"""Decide which partitions a command skips and report why: paused, in quarantine, moving, without a
known cleanup.policy, or stray.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from logwright.cli.failures import FailureLog
from logwright.cli.request import Request
from logwright.config.resolved import disagreements
from logwright.config.sources import stray_partition
from logwright.errors import LogwrightError, PolicyError, PreconditionError
from logwright.format.names import TopicPartition
from logwright.metadata.model import ClusterMetadata
from logwright.state.store import read_state

UNKNOWN_REMEDY: Final = (
    "Give the cluster's metadata (--metadata DIR), an entry of topics.yml (--policies DIR), or"
    " --config cleanup.policy=VALUE."
)


def leave_held(
    request: Request, partitions: Iterable[TopicPartition], *, force: bool = False
) -> tuple[TopicPartition, ...]:
    """Return the partitions that are not held; with `force`, those in quarantine too.

    Reports why each of the others is skipped, and every unfinished move. Effects: reads the state
    file; output.

    Raises:
        UnreadableFile: the state file is invalid, so no partition may be changed.
    """
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
                f"{partition}: {one.move.sentence}: run `logwright move` again to finish it, or"
                " with --abandon to give it up"
            )
    return tuple(free)


def leave_strays(
    request: Request,
    partitions: Iterable[TopicPartition],
    failures: FailureLog,
    *,
    force: bool = False,
) -> tuple[TopicPartition, ...]:
    """Return the partitions that a broker would serve from this directory; with `force`, all. A
    stray partition that was named is a failure, any other is skipped. Effects: reads their topic
    ids; output.

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
            problem = f"is stray: {reason}."
            remedy = "Give --force to include stray logs."
            failures.add(partition, PreconditionError(problem, remedy=remedy))
    return tuple(free)


def say_strays(
    request: Request, partitions: Iterable[TopicPartition], failures: FailureLog
) -> tuple[TopicPartition, ...]:
    """Return the partitions that a broker would serve from this directory and report the others.
    Effects: reads all topic ids; output.

    Raises:
        LogwrightError: as `Request.sources`.
    """
    free = []
    for partition, reason in _standing(request, partitions, failures):
        if reason is None:
            free.append(partition)
        else:
            say_held(request, partition, "stray", f"stray: {reason}")
    return tuple(free)


def _standing(
    request: Request, partitions: Iterable[TopicPartition], failures: FailureLog
) -> Iterator[tuple[TopicPartition, str | None]]:
    """Yield each partition and why it is stray, None if it is not; an unreadable topic id is a
    failure. Effects: reads the topic ids; output.
    """
    request.sources()
    for partition in partitions:
        try:
            yield partition, stray(request, partition)
        except LogwrightError as error:
            failures.add(partition, error)


def stray(request: Request, partition: TopicPartition) -> str | None:
    """Return why a broker would not serve a partition from this directory; None if it would, or
    without cluster metadata. Effects: reads its topic id.

    Raises:
        LogwrightError: as `Request.sources`, and `read_topic_id`.
    """
    return stray_partition(request.sources(), request.log_dir, partition)


def leave_unknown(
    request: Request, partitions: Iterable[TopicPartition], failures: FailureLog
) -> tuple[TopicPartition, ...]:
    """Return the partitions whose ``cleanup.policy`` is known.

    Invalid settings are a failure. An unknown policy is a failure if the partition was named or if
    no partition has a known one; otherwise the partition is skipped. Effects: output.

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
            problem = "its cleanup.policy is unknown."
            failures.add(partition, PolicyError(problem, remedy=UNKNOWN_REMEDY))
        else:
            sentence = f"its cleanup.policy is unknown. {UNKNOWN_REMEDY}"
            say_held(request, partition, "unknown", sentence)
    return tuple(known)


def say_sources(
    request: Request, partitions: Iterable[TopicPartition], *, planned: bool = False
) -> None:
    """Report the version of Kafka, the cluster metadata in use, and the entries of ``topics.yml``
    that disagree with it on a setting that deletes data; without metadata, only an
    assumed version. Effects: writes to stderr; for a plan (`planned`, or a dry run) JSON to stdout.

    Raises:
        LogwrightError: as `Request.sources`.
    """
    sources = request.sources()
    kafka = sources.kafka
    if sources.metadata is None:
        if kafka.assumed:
            request.output.message(kafka.sentence)
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
            {
                "now": request.now_ms,
                "metadata": used,
                "kafkaVersion": kafka.version.name,
                "kafkaVersionFrom": kafka.sentence,
                "disagreements": differing,
            }
        )
    request.output.message(f"Settings from {said_metadata(sources.metadata)}.")
    request.output.message(kafka.sentence)
    for topic in topics:
        for one in found[topic]:
            request.output.message(f"{topic}: {one.sentence}")


def metadata_object(metadata: ClusterMetadata) -> dict[str, object]:
    """Return the JSON form of the metadata's identity."""
    return {
        "path": str(metadata.path),
        "clusterId": metadata.cluster_id,
        "endOffset": metadata.end_offset,
        "snapshot": metadata.snapshot,
    }


def said_metadata(metadata: ClusterMetadata) -> str:
    """Return the text form of `metadata_object`."""
    snapshot = f", snapshot {metadata.snapshot}" if metadata.snapshot else ""
    return (
        f"the metadata of cluster {metadata.cluster_id} up to offset {metadata.end_offset}, from"
        f" {metadata.path}{snapshot}"
    )


def say_held(request: Request, partition: TopicPartition, kind: str, sentence: str) -> None:
    """Report why a partition is skipped. Effects: output."""
    request.output.message(f"{partition}: skipped: {sentence}")
    request.output.json_object(
        {
            "topicPartition": str(partition),
            "now": request.now_ms,
            "skipped": kind,
            "why": sentence,
        }
    )
