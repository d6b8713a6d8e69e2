"""``logwright audit``: compare what several log directories of the same partitions serve."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import click

from logwright.audit.lacking import Holders, find_holders, node_ids
from logwright.audit.model import Finding, PartitionAudit, Replica
from logwright.audit.one_broker import stops_one_broker
from logwright.audit.run import audit_partition
from logwright.audit.running import look_together
from logwright.cli.failures import FailureLog
from logwright.cli.output import Output
from logwright.errors import CorruptLogError, NotALogDir, PreconditionError
from logwright.format.names import TopicPartition
from logwright.log.committed import HighWatermark
from logwright.log.load import list_partitions
from logwright.metadata.find import find_metadata
from logwright.metadata.model import ClusterMetadata
from logwright.metadata.read import read_metadata
from logwright.place.files import absolute
from logwright.place.model import Place, is_running
from logwright.running.place import bounds_of

_FEWEST: Final = 2
_TOGETHER: Final = 256
"""Partitions of running brokers that are looked at together: they wait for the same checkpoints."""


def run(
    output: Output,
    *,
    log_dirs: tuple[Place, ...],
    topics: tuple[str, ...],
    metadata: Path | None,
    no_metadata: bool,
    high_watermark: HighWatermark,
) -> int:
    """Run the command."""
    if len(set(map(absolute, log_dirs))) < max(_FEWEST, len(log_dirs)):
        raise click.UsageError("give two or more log directories, each once")
    cluster = None if no_metadata else _metadata(metadata, log_dirs)
    partitions = _partitions(log_dirs, topics)
    for sentence in stops_one_broker(log_dirs):
        output.message(sentence)
    failures, wrong, compared = FailureLog(output=output), 0, 0
    for number, partition in enumerate(partitions):
        if number % _TOGETHER == 0:
            look_together(log_dirs, partitions[number : number + _TOGETHER])
        with failures.of(partition):
            audit = _audit(output, partition, log_dirs, cluster, high_watermark)
            wrong += sum(audit.counts.values())
            compared += len(audit.replicas) > 1
    if not compared and not failures.failures:
        raise _nothing_compared(log_dirs)
    if not wrong and not failures.failures:
        alone = len(partitions) - compared
        more = f" {alone} have one replica here, and were compared with none." if alone else ""
        output.text(f"{compared} partitions compared, no faults found.{more}")
    return failures.exit_status or (CorruptLogError.exit_status if wrong else 0)


def _metadata(given: Path | None, log_dirs: tuple[Place, ...]) -> ClusterMetadata | None:
    """Return the cluster's metadata, None if there is none. Effects: reads it."""
    if given is not None:
        return read_metadata(given)
    metadata = next((path for path in map(find_metadata, log_dirs) if path is not None), None)
    return None if metadata is None else read_metadata(metadata)


def _partitions(log_dirs: tuple[Place, ...], topics: tuple[str, ...]) -> list[TopicPartition]:
    """Return the partitions of all directories, sorted. Effects: lists them.

    Raises:
        NotALogDir: one is not a log directory, or none has a topic that was asked for.
    """
    present = {partition for log_dir in log_dirs for partition in list_partitions(log_dir)}
    for topic in topics:
        if topic not in {partition.topic for partition in present}:
            raise NotALogDir(
                f"has no partition of topic {topic}, nor has any other of the directories.",
                path=log_dirs[0],
                remedy="`logwright inspect` lists the partitions.",
            )
    return sorted(each for each in present if not topics or each.topic in topics)


def _audit(
    output: Output,
    partition: TopicPartition,
    log_dirs: tuple[Place, ...],
    metadata: ClusterMetadata | None,
    high_watermark: HighWatermark,
) -> PartitionAudit:
    """Audit a partition and show the result. Effects: reads; stdout."""
    nodes = node_ids(log_dirs)
    holders = find_holders(partition, log_dirs, nodes, metadata)
    audit = audit_partition(partition, holders.holding, high_watermark=high_watermark)
    output.result(None, **_as_object(audit, holders, nodes))
    _show(output, audit, holders)
    return audit


def _nothing_compared(log_dirs: tuple[Place, ...]) -> PreconditionError:
    return PreconditionError(
        "no partition has two replicas in the given directories: nothing was compared.",
        path=log_dirs[0],
        remedy="Give log directories of brokers that have replicas of the same partitions.",
    )


def _show(output: Output, audit: PartitionAudit, holders: Holders) -> None:
    for log_dir in holders.lacking:
        output.text(f"{audit.partition}: {log_dir} has no replica")
    for broker in holders.unseen:
        output.text(
            f"{audit.partition}: broker {broker} has a replica: no directory of it is given"
        )
    header = ("replica", "offsets", "last stable", "clean below", "lag")
    rows = [
        (
            f"{replica.log.directory}{', running' if is_running(replica.log.log_dir) else ''}",
            f"{replica.span.start}..{replica.span.end}",
            int(replica.log.last_stable_offset),
            int(replica.clean_offset),
            audit.end_offset - replica.span.end,
        )
        for replica in audit.replicas
    ]
    output.table(header, rows)
    for finding in audit.findings:
        output.text(f"{audit.partition}: {_sentence(finding)}")
    total = sum(audit.counts.values())
    if total > len(audit.findings):
        output.text(f"{audit.partition}: {total} faults in all, {len(audit.findings)} shown")


def _sentence(finding: Finding) -> str:
    """Return a fault as text."""
    here, there, at = finding.log_dir, finding.other_log_dir, finding.other_offset
    match finding.kind:
        case "resurrected key":
            why = f"deleted at {at} in {there}" if at >= 0 else f"removed from {there}"
            more = f"the key of the record at offset {finding.offset} of {here} is {why}"
        case "aborted record shown" if at < finding.offset:
            more = (
                f"offset {finding.offset} of {here}: a record of a transaction whose key has an"
                f" older record at {at} in {there}, but not this one"
            )
        case "aborted record shown" | "committed record hidden":
            more = (
                f"offset {finding.offset} of {here}: producer {finding.producer_id}, marker at {at}"
                f" in {there} only"
            )
        case "lost record":
            more = f"offset {finding.offset} of {here}: its key has no later one there; see {there}"
        case "lost marker":
            more = (
                f"offset {at} of {here}: the marker of producer {finding.producer_id} is in {there}"
                f" only, data from offset {finding.offset} on"
            )
        case "frozen last stable offset":
            how = f"ended at {at} in {there}" if at >= 0 else f"removed from {there}"
            more = (
                f"offset {finding.offset} of {here}: the open transaction of producer"
                f" {finding.producer_id} is {how}"
            )
        case "diverged offset":
            more = f"offset {finding.offset} of {here} is another record than in {there}"
    return f"{finding.kind}: {more}"


def _as_object(
    audit: PartitionAudit, holders: Holders, nodes: Mapping[Place, int | None]
) -> dict[str, object]:
    return {
        "topicPartition": str(audit.partition),
        "replicas": [_replica_object(audit, replica, nodes) for replica in audit.replicas],
        "lacking": [str(log_dir) for log_dir in holders.lacking],
        "brokersNotGiven": list(holders.unseen),
        "faults": dict(audit.counts),
        "findings": [
            {
                "kind": finding.kind,
                "logDir": str(finding.log_dir),
                "offset": finding.offset,
                "otherLogDir": str(finding.other_log_dir),
                "otherOffset": finding.other_offset,
                "producerId": finding.producer_id,
                "isolationLevels": list(finding.levels),
            }
            for finding in audit.findings
        ],
    }


def _replica_object(
    audit: PartitionAudit, replica: Replica, nodes: Mapping[Place, int | None]
) -> dict[str, object]:
    log = replica.log
    bound = bounds_of(log.log_dir).get(log.partition.directory_name)
    return {
        "logDir": str(log.log_dir),
        "brokerId": nodes[log.log_dir],
        "logStartOffset": log.log_start_offset,
        "logEndOffset": log.log_end_offset,
        "highWatermark": log.high_watermark,
        "lastStableOffset": log.last_stable_offset,
        "cleanOffset": replica.clean_offset,
        "lag": audit.end_offset - replica.span.end,
        "recordedMs": None if bound is None else bound.recorded_ms,
    }
