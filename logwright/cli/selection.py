"""Which partitions a command works on, in one order for all: `choose` leaves stray ones and those
without a known cleanup.policy, `ready` recovers what a crash has left, and leaves what is paused,
in quarantine or moving. Of each that is skipped it is reported why.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from logwright.cli.recovering import recover_first
from logwright.cli.request import Request
from logwright.config.resolved import disagreements
from logwright.errors import PolicyError, PreconditionError
from logwright.format.names import TopicPartition
from logwright.metadata.model import ClusterMetadata
from logwright.state.store import read_state

UNKNOWN_REMEDY: Final = (
    "Give the cluster's metadata (--metadata DIR), an entry of topics.yml (--policies DIR), or"
    " --config cleanup.policy=VALUE."
)


def choose(
    request: Request,
    partitions: Iterable[TopicPartition] | None = None,
    *,
    force: bool = False,
    by_policy: bool = True,
) -> tuple[TopicPartition, ...]:
    """Return the partitions that a command is for. Effects: reads topic ids and settings; output.

    Args:
        partitions: to choose from; None: those of the request.
        force: stray ones too.
        by_policy: only those whose ``cleanup.policy`` is known.

    Raises:
        LogwrightError: as `Request.sources` and `Request.partitions`.
    """
    chosen = tuple(request.partitions() if partitions is None else partitions)
    request.sources()
    if not force:
        chosen = leave_strays(request, chosen, refuse=bool(request.named))
    return _leave_unknown(request, chosen) if by_policy else chosen


def ready(
    request: Request,
    partitions: Iterable[TopicPartition],
    *,
    force: bool = True,
    like_kafka: bool = False,
    locked: bool = False,
) -> tuple[TopicPartition, ...]:
    """Return the partitions that can be worked on now. Effects and errors: as `recover_first` and
    `leave_held`.
    """
    recovered = recover_first(request, partitions, like_kafka=like_kafka, locked=locked)
    return leave_held(request, recovered, force=force)


def leave_held(
    request: Request, partitions: Iterable[TopicPartition], *, force: bool = True
) -> tuple[TopicPartition, ...]:
    """Return the partitions that are not held; with `force`, those in quarantine too.

    Reports why each of the others is skipped, and every unfinished move. Effects: reads the state
    file; output.

    Raises:
        UnreadableFile: the state file is invalid, so no partition may be changed.
    """
    states = read_state(request.place)
    free = []
    chosen = tuple(partitions)
    for partition in chosen:
        hold = states[partition].hold(request.now_ms, force=force) if partition in states else None
        if hold is None:
            free.append(partition)
        else:
            report_held(request, partition, hold.kind, hold.sentence)
    for partition, state in sorted(states.items()):
        if state.move is not None and (partition in chosen or not request.named):
            request.output.message(
                f"{partition}: {state.move.sentence}: run `logwright move` again to finish it, or"
                " with --abandon to give it up"
            )
    return tuple(free)


def leave_strays(
    request: Request, partitions: Iterable[TopicPartition], *, refuse: bool = False
) -> tuple[TopicPartition, ...]:
    """Return the partitions that a broker would serve from this directory. Any other is skipped, or
    with `refuse` a failure, as an unreadable topic id is. Effects: reads the topic ids; output.
    """
    served = []
    for partition in partitions:
        with request.failures.of(partition):
            reason = request.stray(partition)
            if reason is None:
                served.append(partition)
            elif refuse:
                raise PreconditionError(
                    f"is stray: {reason}.", remedy="Give --force to include stray logs."
                )
            else:
                report_held(request, partition, "stray", f"stray: {reason}")
    return tuple(served)


def _leave_unknown(
    request: Request, partitions: Iterable[TopicPartition]
) -> tuple[TopicPartition, ...]:
    """Return the partitions whose ``cleanup.policy`` is known.

    Invalid settings are a failure. An unknown policy is a failure if the partition was named or if
    no partition has a known one; otherwise the partition is skipped. Effects: output.
    """
    known: list[TopicPartition] = []
    unknown: list[TopicPartition] = []
    for partition in partitions:
        with request.failures.of(partition):
            config, _ = request.settings(partition.topic)
            (known if config.policy_known else unknown).append(partition)
    for partition in unknown:
        problem = "its cleanup.policy is unknown."
        if request.named or not known:
            request.failures.add(partition, PolicyError(problem, remedy=UNKNOWN_REMEDY))
        else:
            report_held(request, partition, "unknown", f"{problem} {UNKNOWN_REMEDY}")
    return tuple(known)


def report_sources(request: Request, partitions: Iterable[TopicPartition]) -> None:
    """Report the version of Kafka, the cluster metadata in use, and the entries of ``topics.yml``
    that disagree with it on a setting that deletes data; without metadata, only an
    assumed version. Effects: writes to stderr; in a dry run JSON to stdout.

    Raises:
        LogwrightError: as `Request.sources`.
    """
    sources, output = request.sources(), request.output
    kafka, metadata = sources.kafka, sources.metadata
    if metadata is None:
        if kafka.assumed:
            output.message(kafka.sentence)
        return
    topics = sorted({partition.topic for partition in partitions})
    differing = [(topic, entry) for topic in topics for entry in disagreements(sources, topic)]
    if request.dry_run:
        output.result(
            None,
            now=request.now_ms,
            metadata={
                "path": str(metadata.path),
                "clusterId": metadata.cluster_id,
                "endOffset": metadata.end_offset,
                "snapshot": metadata.snapshot,
            },
            kafkaVersion=kafka.version.name,
            kafkaVersionFrom=kafka.sentence,
            disagreements=[
                {
                    "topic": topic,
                    "name": entry.name,
                    "entry": {"value": entry.entry.value, "where": entry.entry.where},
                    "cluster": {"value": entry.cluster.value, "where": entry.cluster.where},
                    "override": entry.override,
                }
                for topic, entry in differing
            ],
        )
    output.message(f"Settings from {metadata_sentence(metadata)}.")
    output.message(kafka.sentence)
    for topic, entry in differing:
        output.message(f"{topic}: {entry.sentence}")


def metadata_sentence(metadata: ClusterMetadata) -> str:
    """Return what the cluster metadata is and where it is from."""
    snapshot = f", snapshot {metadata.snapshot}" if metadata.snapshot else ""
    of = (
        "a cluster of unknown id"
        if metadata.cluster_id is None
        else f"cluster {metadata.cluster_id}"
    )
    return (
        f"the metadata of {of} up to offset {metadata.end_offset}, from {metadata.path}{snapshot}"
    )


def report_held(request: Request, partition: TopicPartition, kind: str, sentence: str) -> None:
    """Report why a partition is skipped. Effects: output."""
    request.output.message(f"{partition}: skipped: {sentence}")
    request.output.result(
        None, topicPartition=str(partition), now=request.now_ms, skipped=kind, why=sentence
    )
