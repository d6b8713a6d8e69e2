"""What a broker makes of the cluster's metadata log.

A node that starts loads ``__cluster_metadata-0`` as after an unclean stop: it cuts the log at the
first batch that is not whole. It stops at an unreadable ``quorum-state`` or newest snapshot (found
out with Kafka 4.3.0's own start). A broker then renames each log that the metadata does not give it
(`logwright.rescue.stray`). The only controller of a cluster that has lost its metadata does so with
all of them; another node fetches the rest from the leader.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

from logwright.config.topic import TopicConfig
from logwright.errors import LogwrightError, PreconditionError
from logwright.format.names import PARTITION_METADATA, TopicPartition
from logwright.log.checkpoints import NO_ENTRIES
from logwright.metadata.files import snapshots
from logwright.metadata.find import METADATA_DIRECTORY, find_metadata
from logwright.metadata.model import ClusterMetadata
from logwright.metadata.quorum import QUORUM_STATE, read_quorum_leader
from logwright.metadata.read import read_metadata
from logwright.place.files import is_directory, names_in
from logwright.recovery.model import RecoveryOptions, RecoveryPlan
from logwright.recovery.observe import observe
from logwright.recovery.plan import plan_recovery
from logwright.rescue.model import StartFinding
from logwright.units import TimestampMs

METADATA_PARTITION: Final = TopicPartition("__cluster_metadata", 0)
LOG_LOST: Final = (
    " Unless another controller has it, the topics made since are not known, and a broker renames"
    " their logs to -stray."
)
_COPY: Final = (
    "Do not start: restore it from a copy. If the cluster has other controllers, move the whole"
    " directory away; the node fetches it again."
)
_UNREAD: Final = "which logs the metadata gives this broker: its metadata log could not be read"
_QUESTION: Final = "the cluster's metadata log and which logs it gives this broker"
_NONE: Final = "none is here"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterState:
    """What was read of the cluster's metadata.

    Attributes:
        path: of the metadata log; None if there is none.
        metadata: what is in it; None if it could not be read.
        plan: its loading; None if that fails.
        findings: what is wrong with it.
        not_looked_at: phrases.
    """

    path: Path | None
    metadata: ClusterMetadata | None
    plan: RecoveryPlan | None
    findings: tuple[StartFinding, ...]
    not_looked_at: tuple[str, ...]


def read_cluster(
    log_dirs: Sequence[Path], given: Path | None, *, now_ms: TimestampMs
) -> ClusterState:
    """Read the metadata log of the node whose directories these are. Effects: reads it.

    Args:
        given: its directory; None: in one of the log directories, or in a directory of the same
            node next to one.
    """
    paths, problems, why = _places(log_dirs, given)
    if not paths:
        return ClusterState(
            path=None,
            metadata=None,
            plan=None,
            findings=problems,
            not_looked_at=(f"{_QUESTION}: {why}",),
        )
    path = paths[0]
    plan, findings = _loading(path, now_ms)
    try:
        metadata = read_metadata(path)
    except LogwrightError as error:
        finding = StartFinding.of(error, _effect_of(error, path), path, about="cluster")
        explained = replace(finding, problem=f"{finding.problem}{LOG_LOST}", remedy=_COPY)
        return ClusterState(
            path=path,
            metadata=None,
            plan=plan,
            findings=(*problems, *findings, explained),
            not_looked_at=(_UNREAD,),
        )
    findings += _passed_over(path, metadata)
    first = log_dirs[0] / METADATA_DIRECTORY
    where = f"whether metadata.log.dir, or else the first of log.dirs, is {path.parent}"
    return ClusterState(
        path=path,
        metadata=metadata,
        plan=plan,
        findings=(*problems, *findings),
        not_looked_at=() if given is not None or path == first else (where,),
    )


def _places(
    log_dirs: Sequence[Path], given: Path | None
) -> tuple[list[Path], tuple[StartFinding, ...], str]:
    """Return the metadata logs, a finding if there are two, and why there is none. Other
    directories of the node are searched only if these have none: a copy of it may be one of them.
    """
    if given is not None:
        return [given], (), ""
    paths = [path for log_dir in log_dirs if is_directory(path := log_dir / METADATA_DIRECTORY)]
    if not paths:
        other, why = _next_to(log_dirs)
        return ([] if other is None else [other]), (), why
    two = tuple(
        StartFinding(
            path=second,
            problem=f"{paths[0]} is a metadata log, too: a node uses one of them.",
            effect="not judged",
            about="cluster",
            remedy="Give the one in metadata.log.dir, or in the first of log.dirs, with"
            " --metadata; the other is left of an earlier configuration.",
        )
        for second in paths[1:]
    )
    return paths, two, ""


def _next_to(log_dirs: Sequence[Path]) -> tuple[Path | None, str]:
    """Return the metadata log in a directory next to one of these, or why there is none."""
    why = _NONE
    for log_dir in log_dirs:
        try:
            other = find_metadata(log_dir)
        except PreconditionError as error:  # which one it is
            why = f"{error.problem} {error.remedy}".removesuffix(".")
        except LogwrightError:  # also found to be malformed
            continue
        else:
            if isinstance(other, Path):
                return other, ""
    return None, why


def _loading(path: Path, now_ms: TimestampMs) -> tuple[RecoveryPlan | None, list[StartFinding]]:
    """Simulate the loading of the metadata log's segments, as after an unclean stop."""
    findings = list(_quorum_state(path))
    try:
        seen = observe(path.parent, METADATA_PARTITION, NO_ENTRIES, name=path.name)
        config = TopicConfig()
        plan = plan_recovery(
            replace(seen, clean_shutdown=False, topic_id_problem=None),
            ledger=b"",
            now_ms=now_ms,
            expiration_ms=config.producer_id_expiration_ms,
            index_interval_bytes=config.index_interval_bytes,
            options=RecoveryOptions(like_kafka=True),
        )
    except LogwrightError as error:
        return None, [*findings, StartFinding.of(error, "stops", path, about="cluster")]
    if seen.topic_id_problem is not None:
        findings.append(
            StartFinding(
                path=path / PARTITION_METADATA,
                problem=seen.topic_id_problem,
                effect="stops",
                about="cluster",
                remedy="Remove it: the node writes a new one.",
            )
        )
    return plan, findings


def _quorum_state(path: Path) -> Iterator[StartFinding]:
    try:
        read_quorum_leader(path)
    except LogwrightError as error:
        yield replace(
            StartFinding.of(error, "stops", path / QUORUM_STATE, about="cluster"),
            remedy="Move it away, unless the cluster has other controllers and this is one: its"
            " vote is forgotten then. The node writes a new one.",
        )


def _passed_over(path: Path, metadata: ClusterMetadata) -> Iterator[StartFinding]:
    """Yield the newest snapshot if it is not whole: the node reads no older one, as we do."""
    for newest in snapshots(names_in(path))[:1]:
        if newest.name != metadata.snapshot:
            yield StartFinding(
                path=path / newest.name,
                problem="the snapshot is not whole.",
                effect="stops",
                about="cluster",
                remedy="Move it away: the log has all that is in it.",
            )


def _effect_of(error: LogwrightError, path: Path) -> Literal["stops", "sets aside"]:
    """An unreadable snapshot stops the node; a log that cannot be read is cut."""
    newest = snapshots(names_in(path))[:1]
    name = "" if error.path is None else Path(str(error.path)).name
    of_snapshot = name in [snapshot.name for snapshot in newest]
    return "stops" if of_snapshot else "sets aside"
