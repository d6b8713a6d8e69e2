"""Judge a broker's next start by what it reads then (LogManager, LogLoader, Kafka 4.3.0).

1. The directories together: ids in ``meta.properties`` that differ, or are the same where they must
   not be; two logs of one partition.
2. The root of each: `logwright.recovery.root`. A malformed checkpoint stops a start.
3. Each log: its loading is simulated as Kafka does it (`logwright.recovery.load`, like_kafka). What
   makes the loading fail stops a start; what it removes is lost.

Nothing is changed. What could not be read, or is of an unknown format, is not judged; other
things that a start needs are not looked at (`logwright.rescue.model.NOT_LOOKED_AT`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from logwright.config.properties import parse_properties
from logwright.config.topic import TopicConfig
from logwright.errors import (
    CorruptLogError,
    LogwrightError,
    NotALogDir,
    UncleanLogDir,
)
from logwright.format.checkpoints import parse_leader_epochs
from logwright.format.names import (
    FUTURE_DIRECTORY,
    LEADER_EPOCH_CHECKPOINT,
    PARTITION_METADATA,
    STRAY_DIRECTORY,
    TopicPartition,
)
from logwright.log.checkpoints import CHECKPOINT_FILES, Checkpoints
from logwright.log.kinds import file_kinds
from logwright.log.load import META_PROPERTIES, list_partitions
from logwright.place.files import is_regular, names_in
from logwright.place.mapped import map_file
from logwright.recovery.directory_plan import plan_directory
from logwright.recovery.lookup import MISLEADING
from logwright.recovery.model import DirectoryPlan, RecoveryOptions, RecoveryPlan
from logwright.recovery.observe import marked_logs
from logwright.recovery.root import MOST_PROPERTIES_BYTES
from logwright.recovery.segments import ENDS
from logwright.rescue.checkpoints import epochs_read, offsets_of, offsets_read
from logwright.rescue.model import Effect, StartFinding, StartVerdict
from logwright.units import INT32_MAX, ByteCount, TimestampMs

_AS_KAFKA: Final = RecoveryOptions(like_kafka=True)
_RECOVER: Final = "Run `logwright recover`, which writes a new one and keeps a copy."
_KEEPS: Final = "Run `logwright recover` before: it keeps what it cuts."
_NO_ID: Final = "Remove it: the log is kept aside as -stray then."
_FORMAT: Final = "Run `kafka-storage.sh format --ignore-formatted` with the cluster's id."
_ONE_OF_TWO: Final = (
    "Compare both, and move one out of its log directory: the one that ends earlier, as a rule."
)
_UNCERTAIN: Final = (f"{ENDS['crc']}.", f"{MISLEADING}.")
"""Another magic byte, since no CRC is looked at here; and a look-up that may succeed by chance."""
_IGNORED: Final = "A broker starts as if the file had no entry."
_READ: Final = "A broker reads it all the same."


def judge_start(log_dirs: Sequence[Path], *, now_ms: TimestampMs) -> StartVerdict:
    """Return whether a broker starts on these log directories. Effects: reads them.

    Args:
        log_dirs: all of the broker's.
        now_ms: the clock of the start, for what expires.

    Raises:
        UnreadableFile: one cannot be listed.
        LogDirLocked: an append or a recovery works on one.
    """
    findings = list(_identities(log_dirs))
    plans = []
    for log_dir in log_dirs:
        try:
            partitions = list_partitions(log_dir)
        except NotALogDir:  # without any log; it is found not to be formatted
            continue
        plan = plan_directory(
            log_dir,
            partitions,
            lambda _: TopicConfig(),
            now_ms=now_ms,
            options=_AS_KAFKA,
            marked=[one.name for one in marked_logs(log_dir)],
            checkpoints=_checkpoints(log_dir),
        )
        plans.append(plan)
        findings += _of_directory(plan)
    findings += _twice(plans)
    return StartVerdict(
        log_dirs=tuple(log_dirs),
        logs=sum(len(_names(plan)) for plan in plans),
        findings=tuple(findings),
    )


def _checkpoints(log_dir: Path) -> Checkpoints:
    """Return the entries that a broker reads. Effects: reads the files."""
    contents = (
        map_file(log_dir / name).tobytes() if is_regular(log_dir / name) else b""
        for name in CHECKPOINT_FILES
    )
    recovery, start, watermark, cleaner = map(offsets_of, contents)
    return Checkpoints(
        recovery_point=recovery,
        log_start_offset=start,
        high_watermark=watermark,
        cleaner_offset=cleaner,
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
        content = map_file(path)[:MOST_PROPERTIES_BYTES].tobytes()  # more stops a start by itself
        pairs = parse_properties(content.decode("latin-1"), path).pairs
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
                    remedy="Name only the directories of one node in log.dirs.",
                )


def _of_directory(plan: DirectoryPlan) -> Iterator[StartFinding]:
    for name, problem in plan.root.malformed.items():
        path = plan.log_dir / name
        match offsets_read(name, map_file(path).tobytes()):
            case "fails":
                yield StartFinding(path=path, problem=problem, effect="stops", remedy=_RECOVER)
            case "ignores":
                yield StartFinding(path=path, problem=f"{problem} {_IGNORED}", effect="repairs")
            case "reads":
                yield StartFinding(path=path, problem=f"{problem} {_READ}", effect="repairs")
    names = set(_names(plan))
    for error in plan.root.problems:
        yield StartFinding.of(error, _effect_of_problem(error, names), plan.log_dir)
    failures = {one.directory_name: error for one, error in plan.failures.items()}
    for name, failure in {**failures, **plan.marked_failures}.items():
        directory = plan.log_dir / name
        yield StartFinding.of(failure, _effect_of(failure, directory), directory)
    for log in plan.plans:
        yield from _of_log(log)


def _effect_of_problem(error: LogwrightError, names: Collection[str]) -> Effect:
    """A directory that a broker takes for a log of another name stops it if that is there, too."""
    name = "" if error.path is None else Path(str(error.path)).name
    taken_for = TopicPartition.parse(name)
    if taken_for is None or taken_for.partition > INT32_MAX:
        return "stops"
    return "stops" if taken_for.directory_name in names else "not judged"


def _effect_of(error: LogwrightError, directory: Path) -> Effect:
    if isinstance(error, UncleanLogDir):
        strange = file_kinds(names_in(directory)).strange
        has_numbers = all(name.partition(".")[0].isdecimal() for name in strange)
        return "not judged" if has_numbers else "stops"  # taken for another file, or none
    if error.problem in _UNCERTAIN:
        return "not judged"
    return "stops" if isinstance(error, CorruptLogError) else "not judged"


def _of_log(plan: RecoveryPlan) -> Iterator[StartFinding]:
    directory = plan.observed.directory
    if plan.observed.epochs_malformed:
        path = directory / LEADER_EPOCH_CHECKPOINT
        yield _of_epochs(path, map_file(path).tobytes())
    if plan.observed.topic_id_problem is not None:
        yield StartFinding(
            path=directory / PARTITION_METADATA,
            problem=plan.observed.topic_id_problem,
            effect="stops",
            remedy=_NO_ID,
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


def _of_epochs(path: Path, content: bytes) -> StartFinding:
    problem = ""
    try:
        parse_leader_epochs(content, path)
    except LogwrightError as error:
        problem = error.problem
    if epochs_read(content) == "reads":
        return StartFinding(path=path, problem=f"{problem} {_READ}", effect="repairs")
    return StartFinding(path=path, problem=problem, effect="stops", remedy=_RECOVER)


def _twice(plans: Iterable[DirectoryPlan]) -> Iterator[StartFinding]:
    """Yield partitions of which two directories have a log, or a future log."""
    seen: dict[tuple[str, bool], Path] = {}
    for plan in plans:
        for name in _names(plan):
            is_future = name.endswith(FUTURE_DIRECTORY)
            if name.endswith(STRAY_DIRECTORY):
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
