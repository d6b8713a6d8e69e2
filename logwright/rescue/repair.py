"""Plan what makes a broker start again, from what `judge_start` finds.

From what costs nothing to what costs most:

1. ``meta.properties`` is written again, if the broker's other directories prove what was in it.
2. A directory that no broker makes is moved out of the log directory: a broker accepts no name for
   it there, with or without a dot (LogManager.loadLogs, Kafka 4.3.0). An empty ``lost+found`` that
   cannot be moved, since it is of a file system's root, is removed.
3. A file in a log that no broker writes is moved to the root, where a broker ignores files.
4. A log without a topic id gets that of the cluster's metadata, if that gives the log to this node.
5. If the operator accepts that a log is missing as a whole, the marker of the clean stop loses its
   broker epoch, so that the controller lets a whole replica lead (KIP-966).
6. What a recovery replaces is kept. Then the directory is recovered: `logwright.recovery`.

What an operator names is set aside as well, such as one of two logs of a partition: which of them
is kept is never decided here. Nothing is deleted. What is left is to be done by hand.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from logwright.config.properties import parse_properties
from logwright.errors import LogwrightError, PolicyError
from logwright.format.names import (
    LEADER_EPOCH_CHECKPOINT,
    PARTITION_METADATA,
    TopicPartition,
    parse_marked_directory_name,
)
from logwright.log.kinds import file_kinds
from logwright.log.load import list_partitions
from logwright.metadata.model import ClusterMetadata, DirectoryIds, is_reserved
from logwright.metadata.read import META_PROPERTIES, read_directory_ids
from logwright.place.files import exists, is_directory, is_regular, names_in, rescued_of
from logwright.place.mapped import map_file
from logwright.recovery.root import DAMAGED, identity_problem
from logwright.rescue.model import StartFinding
from logwright.rescue.names import there_are
from logwright.rescue.recovering import served_topic_id
from logwright.rescue.start import UNCERTAIN
from logwright.units import TimestampMs

_LOST_FOUND: Final = "lost+found"
_MOST_BYTES: Final = 65_536
_ID_BYTES: Final = 22

Kind = Literal["moved out", "set aside", "written", "kept", "removed", "epoch removed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """One step, on one file or directory.

    Attributes:
        log_dir: that it belongs to.
        kind: a directory is moved out; a file is set aside; a file is written, and what has its
            name is kept; a file is kept that a recovery replaces; an empty directory is removed; a
            log is not there, and for its sake the marker loses its broker epoch.
        target: the new name of what is moved, set aside or kept; None: there is nothing.
        content: of a written file.
    """

    log_dir: Path
    kind: Kind
    path: Path
    why: str
    target: Path | None = None
    content: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairPlan:
    """Steps, and what they do not cover.

    Attributes:
        to_recover: directories with a finding that a recovery is for.
        by_hand: findings that no step is for.
    """

    steps: tuple[Repair, ...]
    to_recover: tuple[Path, ...]
    by_hand: tuple[StartFinding, ...]


def plan_repairs(
    log_dirs: Sequence[Path],
    findings: Iterable[StartFinding],
    *,
    metadata: ClusterMetadata | None,
    named: Sequence[Path],
    now_ms: TimestampMs,
    accept_loss: bool,
) -> RepairPlan:
    """Plan the steps for some findings. Effects: looks at what they are about.

    Args:
        log_dirs: all of the broker's, absolute.
        findings: of `judge_start` on these.
        metadata: the cluster's, if it could be read.
        named: what the operator sets aside: entries of a log directory, or files of a log.
        now_ms: for names.
        accept_loss: the broker starts without the logs that are missing.

    Raises:
        PolicyError: something named is not there, or not in a log directory.
    """
    planner = _Planner(tuple(log_dirs), metadata, now_ms, accept_loss)
    steps: dict[Path, Repair] = {path: planner.named(path) for path in named}
    to_recover: dict[Path, None] = {}
    by_hand: list[StartFinding] = []
    for finding in findings:
        if finding.effect == "repairs" or _is_below(finding.path, steps):
            continue
        repairs = {repair.path: repair for repair in planner.repairs(finding)}
        recovers = planner.is_recovered(finding)
        steps.update(repairs)
        if recovers:
            to_recover.setdefault(planner.log_dir_of(finding.path))
        elif not repairs:
            by_hand.append(finding)
    return RepairPlan(
        steps=tuple(sorted(steps.values(), key=_cost)),
        to_recover=tuple(to_recover),
        by_hand=tuple(by_hand),
    )


def _beside(path: Path, log_dir: Path) -> Iterator[str]:
    """Yield what could be named: of the log that the path is in, if it is in one, else of its log
    directory.
    """
    is_of_log = path.parent.parent == log_dir and is_directory(path.parent)
    parent = path.parent if is_of_log else log_dir
    for name in names_in(parent):
        if is_of_log or is_directory(parent / name):
            yield name


def _is_below(path: Path, steps: dict[Path, Repair]) -> bool:
    """Return whether a finding goes with what is moved."""
    gone = [each for each, step in steps.items() if step.kind in ("moved out", "removed")]
    return any(path == each or each in path.parents for each in gone)


def _cost(repair: Repair) -> tuple[int, str]:
    order = ("epoch removed", "written", "removed", "moved out", "set aside", "kept")
    return order.index(repair.kind), str(repair.path)


@dataclass(frozen=True, slots=True)
class _Planner:
    log_dirs: tuple[Path, ...]
    metadata: ClusterMetadata | None
    now_ms: TimestampMs
    accept_loss: bool

    def log_dir_of(self, path: Path) -> Path:
        """Return the log directory that a path is in, or is."""
        for log_dir in self.log_dirs:
            if path == log_dir or log_dir in path.parents:
                return log_dir
        raise PolicyError("it is in none of the given log directories.", path=path)

    def named(self, path: Path) -> Repair:
        """Return the step that sets aside what the operator names."""
        log_dir = self.log_dir_of(path)
        if is_directory(path) and path.parent == log_dir:
            repair = self._move(log_dir, path, "named with --set-aside.")
            if repair is not None:
                return repair
            raise PolicyError(f"it cannot be moved to {rescued_of(log_dir)}.", path=path)
        if is_regular(path) and log_dir in (path.parent, path.parent.parent):
            return self._aside("set aside", log_dir, path, "named with --set-aside.")
        raise PolicyError(
            "it is neither a directory of the log directory nor a file of a log.",
            path=path,
            remedy=f"{there_are(_beside(path, log_dir))} Nothing was changed.",
        )

    def is_recovered(self, finding: StartFinding) -> bool:
        """Return whether a recovery is for this finding."""
        log_dir = self.log_dir_or_none(finding.path)
        is_damage = finding.effect in ("stops", "loses") or finding.problem in UNCERTAIN
        if not is_damage or log_dir is None:
            return False
        if finding.about == "root":
            return is_regular(finding.path) and finding.path.name != META_PROPERTIES
        name = finding.path.relative_to(log_dir).parts[:1]
        is_id = finding.path.name == PARTITION_METADATA
        known = not is_id or self._topic_id(log_dir, *name) is not None
        return finding.about == "log" and known

    def log_dir_or_none(self, path: Path) -> Path | None:
        """Return the log directory that a path is in; None if it is in another place."""
        try:
            return self.log_dir_of(path)
        except PolicyError:
            return None

    def repairs(self, finding: StartFinding) -> Iterator[Repair]:
        """Yield the steps for a finding."""
        path = finding.path
        log_dir = self.log_dir_or_none(path)
        if log_dir is None or path == log_dir:
            return
        if path.name == META_PROPERTIES and path.parent == log_dir:
            yield from self._identity(log_dir, finding.problem)
        elif finding.about == "absent log":
            if self.accept_loss:
                why = finding.problem
                yield Repair(log_dir=log_dir, kind="epoch removed", path=path, why=why)
        elif path.parent == log_dir and is_directory(path) and finding.about != "twin":
            yield from self._directory(log_dir, path, finding)
        elif self.is_recovered(finding) and path.name in (
            LEADER_EPOCH_CHECKPOINT,
            PARTITION_METADATA,
        ):
            yield self._aside("kept", log_dir, path, finding.problem)

    def _directory(self, log_dir: Path, path: Path, finding: StartFinding) -> Iterator[Repair]:
        partition = TopicPartition.parse(path.name)
        if partition is None and parse_marked_directory_name(path.name) is None:
            repair = self._move(log_dir, path, finding.problem)
            if repair is not None:
                yield repair
            elif path.name == _LOST_FOUND and not names_in(path):
                yield Repair(log_dir=log_dir, kind="removed", path=path, why="it is empty.")
        elif finding.effect == "sets aside":
            topic_id = self._topic_id(log_dir, path.name)
            if topic_id is not None and not exists(path / PARTITION_METADATA):
                yield Repair(
                    log_dir=log_dir,
                    kind="written",
                    path=path / PARTITION_METADATA,
                    why=f"there is none; the cluster's metadata has the id {topic_id}.",
                    content=f"version: 0\ntopic_id: {topic_id}".encode(),
                )
        else:
            for name in file_kinds(names_in(path)).strange:
                if is_regular(path / name):
                    yield self._aside("set aside", log_dir, path / name, finding.problem)

    def _topic_id(self, log_dir: Path, name: str) -> str | None:
        partition = TopicPartition.parse(name)
        return None if partition is None else served_topic_id(log_dir, partition, self.metadata)

    def _move(self, log_dir: Path, path: Path, why: str) -> Repair | None:
        """Return the step that moves a directory out; None if it cannot be renamed to there."""
        rescued = rescued_of(log_dir)
        if log_dir.parent == log_dir or log_dir.parent.stat().st_dev != path.lstat().st_dev:
            return None
        if exists(rescued) and not is_directory(rescued):
            return None
        target = rescued / f"{self.now_ms}-{path.name}"
        return Repair(log_dir=log_dir, kind="moved out", path=path, why=why, target=target)

    def _aside(self, kind: Kind, log_dir: Path, path: Path, why: str) -> Repair:
        """Return the step that gives a file a name in the root that a broker ignores."""
        name = "-".join(path.relative_to(log_dir).parts)
        target = log_dir / f"{DAMAGED}-{name}-{self.now_ms}"
        return Repair(log_dir=log_dir, kind=kind, path=path, why=why, target=target)

    def _identity(self, log_dir: Path, problem: str) -> Iterator[Repair]:
        """Yield the step that writes ``meta.properties``, if what was in it is proved: by the
        broker's other directories, which agree, and what is left of the file. A directory without
        a log is skipped: it may be that its disk is not mounted.
        """
        path = log_dir / META_PROPERTIES
        content = map_file(path)[:_MOST_BYTES].tobytes() if is_regular(path) else b""
        if identity_problem(content) is None or not list_partitions(log_dir):
            return
        others = [each for each in map(_ids_of, self._others(log_dir)) if each is not None]
        nodes = {(each.cluster_id, each.node_id) for each in others}
        left = parse_properties(content.decode("latin-1"), path).pairs
        if len(nodes) != 1:
            return
        ((cluster_id, node_id),) = nodes
        is_prefix = str(cluster_id).startswith(left.get("cluster.id", ""))
        if not is_prefix or left.get("node.id", "") not in ("", str(node_id)):
            return
        known = {each.directory_id for each in others if each.directory_id is not None}
        directory_id = self._directory_id(left.get("directory.id", ""), known, node_id)
        lines = ["version=1", f"node.id={node_id}", f"cluster.id={cluster_id}"]
        lines += [] if directory_id is None else [f"directory.id={directory_id}"]
        agree = ", ".join(str(each) for each in self._others(log_dir))
        yield Repair(
            log_dir=log_dir,
            kind="written",
            path=path,
            why=f"{problem} As {agree}: {', '.join(lines)}.",
            target=self._aside("kept", log_dir, path, "").target if exists(path) else None,
            content="".join(f"{line}\n" for line in lines).encode(),
        )

    def _others(self, log_dir: Path) -> list[Path]:
        """Return the broker's other directories, that of its metadata log among them."""
        others = [each for each in self.log_dirs if each != log_dir]
        if self.metadata is not None and isinstance(self.metadata.path, Path):
            parent = self.metadata.path.absolute().parent
            if parent not in (log_dir, *others):
                others.append(parent)
        return others

    def _directory_id(self, left: str, known: set[str], node_id: int | None) -> str | None:
        """Return the directory's id: what is left of the file, or the only one that the metadata
        has of the node and no other directory has; None: a broker makes a new one.
        """
        if len(left) == _ID_BYTES and left not in known:
            return left
        if self.metadata is None or node_id is None:
            return None
        assigned = {
            partition.directories[partition.replicas.index(node_id)]
            for topic in self.metadata.topics.values()
            for partition in topic.partitions.values()
            if node_id in partition.replicas and partition.directories
        }
        free = {one for one in assigned if not is_reserved(one)} - known
        return free.pop() if len(free) == 1 else None


def _ids_of(log_dir: Path) -> DirectoryIds | None:
    """Return the ids of a directory that a broker would accept."""
    path = log_dir / META_PROPERTIES
    try:
        if not is_regular(path) or identity_problem(map_file(path).tobytes()) is not None:
            return None
        return read_directory_ids(log_dir)
    except LogwrightError:
        return None
