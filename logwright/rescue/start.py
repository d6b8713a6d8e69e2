"""Judge a broker's next start by what it reads then (LogManager, LogLoader, Kafka 4.3.0).

1. The directories together: ids in ``meta.properties`` that differ, or are the same where they must
   not be; two logs of one partition.
2. The root of each: `logwright.recovery.root`. A malformed checkpoint stops a start.
3. Each log: its loading is simulated as Kafka does it (`logwright.recovery.load`, like_kafka). What
   makes the loading fail stops a start; what it removes is lost.

Nothing is changed. What could not be read, or is of an old message format, is not judged.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from logwright.config.properties import parse_properties
from logwright.config.topic import TopicConfig
from logwright.errors import (
    CorruptLogError,
    LogwrightError,
    UncleanLogDir,
    UnreadableFile,
)
from logwright.format.checkpoints import parse_leader_epochs, parse_offset_checkpoint
from logwright.format.names import LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA, TopicPartition
from logwright.log.load import META_PROPERTIES, list_partitions
from logwright.place.mapped import map_file
from logwright.recovery.directory_plan import plan_directory
from logwright.recovery.model import DirectoryPlan, RecoveryOptions, RecoveryPlan
from logwright.rescue.model import Effect, StartFinding, StartVerdict
from logwright.units import INT32_MAX, ByteCount, TimestampMs

_AS_KAFKA: Final = RecoveryOptions(like_kafka=True)
_RECOVER: Final = "Run `logwright recover`, which writes a new one and keeps a copy."
_KEEPS: Final = "Run `logwright recover` before: it keeps what it cuts."
_FORMAT: Final = "Run `kafka-storage.sh format --ignore-formatted` with the cluster's id."
_ONE_OF_TWO: Final = (
    "Compare both, and move one out of its log directory: the one that ends earlier, as a rule."
)
_NEGATIVE: Final = re.compile(rb" -(?=[0-9]{1,18}\r?$)", re.MULTILINE)
_STOPPING: Final = (CorruptLogError, UncleanLogDir)
"""Errors of a log on which a start fails, too; others are of the simulation."""


def judge_start(log_dirs: Sequence[Path], *, now_ms: TimestampMs) -> StartVerdict:
    """Return whether a broker starts on these log directories. Effects: reads them.

    Args:
        log_dirs: all of the broker's.
        now_ms: the clock of the start, for what expires.

    Raises:
        NotALogDir, UnreadableFile: one cannot be listed.
        LogDirLocked: an append or a recovery works on one.
    """
    findings = list(_identities(log_dirs))
    plans = []
    for log_dir in log_dirs:
        partitions = list_partitions(log_dir)
        plan = plan_directory(
            log_dir, partitions, lambda _: TopicConfig(), now_ms=now_ms, options=_AS_KAFKA
        )
        plans.append(plan)
        findings += _of_directory(plan)
    findings += _twice(plans)
    return StartVerdict(
        log_dirs=tuple(log_dirs),
        logs=sum(len(_names(plan)) for plan in plans),
        findings=tuple(findings),
    )


def _names(plan: DirectoryPlan) -> list[str]:
    """Return the directories of the logs that a broker loads."""
    failed = (partition.directory_name for partition in plan.failures)
    return [*(one.name for one in plan.plans), *failed, *plan.marked_failures]


def _identities(log_dirs: Sequence[Path]) -> Iterator[StartFinding]:
    """Yield what is wrong with the ids of directories together (MetaPropertiesEnsemble.verify)."""
    seen: dict[str, tuple[str, Path]] = {}
    for log_dir in log_dirs:
        path = log_dir / META_PROPERTIES
        if not path.is_file():
            yield StartFinding(
                path=path,
                problem="there is no such file: the directory is not formatted.",
                effect="stops",
                remedy=_FORMAT,
            )
            continue
        pairs = parse_properties(map_file(path).tobytes().decode("latin-1"), path).pairs
        for key in ("cluster.id", "node.id", "directory.id"):
            value = pairs.get(key) or (pairs.get("broker.id") if key == "node.id" else None)
            if value is None:
                continue
            known, where = seen.setdefault(key, (value, log_dir))
            if where != log_dir and (known == value) == (key == "directory.id"):
                same = "the same" if key == "directory.id" else "another"
                yield StartFinding(
                    path=path,
                    problem=f"it has {same} {key} as {where}.",
                    effect="stops",
                    remedy="Take the directory that is not of this broker out of log.dirs.",
                )


def _of_directory(plan: DirectoryPlan) -> Iterator[StartFinding]:
    for name, problem in plan.root.malformed.items():
        path = plan.log_dir / name
        if _has_negative_offsets(path):
            yield StartFinding(path=path, problem="it has negative offsets.", effect="repairs")
        else:
            yield StartFinding(path=path, problem=problem, effect="stops", remedy=_RECOVER)
    names = set(_names(plan))
    for error in plan.root.problems:
        yield StartFinding.of(error, _effect_of_problem(error, names), plan.log_dir)
    failures = {one.directory_name: error for one, error in plan.failures.items()}
    for name, failure in {**failures, **plan.marked_failures}.items():
        yield StartFinding.of(failure, _effect_of(failure), plan.log_dir / name)
    for log in plan.plans:
        yield from _of_log(log)


def _effect_of_problem(error: LogwrightError, names: Collection[str]) -> Effect:
    """A directory that a broker takes for a log of another name stops it if that is there, too."""
    name = "" if error.path is None else Path(str(error.path)).name
    taken_for = TopicPartition.parse(name)
    if taken_for is None or taken_for.partition > INT32_MAX:
        return "stops"
    return "stops" if taken_for.directory_name in names else "not judged"


def _has_negative_offsets(path: Path) -> bool:
    """Return whether that is all that is wrong with a checkpoint: a broker reads it then."""
    content = _NEGATIVE.sub(b" ", map_file(path).tobytes())
    try:
        parse_offset_checkpoint(content, path)
    except LogwrightError:
        return False
    return True


def _effect_of(error: LogwrightError) -> Effect:
    is_read = not isinstance(error, UnreadableFile)
    return "stops" if is_read and isinstance(error, _STOPPING) else "not judged"


def _of_log(plan: RecoveryPlan) -> Iterator[StartFinding]:
    directory = plan.observed.directory
    if plan.observed.epochs_malformed:
        path = directory / LEADER_EPOCH_CHECKPOINT
        try:
            parse_leader_epochs(map_file(path).tobytes(), path)
        except LogwrightError as error:
            yield StartFinding(path=path, problem=error.problem, effect="stops", remedy=_RECOVER)
    if plan.observed.topic_id_problem is not None:
        yield StartFinding(
            path=directory / PARTITION_METADATA,
            problem=plan.observed.topic_id_problem,
            effect="stops",
            remedy="Run `logwright recover`, which writes the id if the cluster's metadata has it.",
        )
    for change in plan.findings:
        loses = change.bytes > 0 and change.action in ("cut", "dropped")
        if change.action == "kept":
            continue
        yield StartFinding(
            path=directory / change.files[0] if change.files else directory,
            problem=f"{change.action}: {change.reason}.",
            effect="loses" if loses else "repairs",
            remedy=_KEEPS if loses else None,
            bytes=ByteCount(change.bytes if loses else 0),
            first_offset=change.first_offset,
            end_offset=change.end_offset,
        )


def _twice(plans: Iterable[DirectoryPlan]) -> Iterator[StartFinding]:
    """Yield partitions of which two directories have a log, or a future log."""
    seen: dict[tuple[str, bool], Path] = {}
    for plan in plans:
        for name in _names(plan):
            is_future = name.endswith("-future")
            if not is_future and name.endswith("-stray"):
                continue
            key = (name.rpartition(".")[0] if is_future else name, is_future)
            first = seen.setdefault(key, plan.log_dir / name)
            if first.parent != plan.log_dir:
                yield StartFinding(
                    path=plan.log_dir / name,
                    problem=f"{first} is a log of the same partition.",
                    effect="stops",
                    remedy=_ONE_OF_TWO,
                )
