"""Judge a broker's next start by what it reads then (LogManager, LogLoader, Kafka 4.3.0).

1. The directories together: ids in ``meta.properties`` that differ, or are the same where they must
   not be; two logs of one partition.
2. The root of each: `logwright.recovery.root`. A malformed checkpoint stops a start.
3. Each log: its loading is simulated as Kafka does it (`logwright.recovery.load`, like_kafka). What
   makes the loading fail stops a start; what it removes is lost.
4. The cluster's metadata log, and which logs it gives this broker: `logwright.rescue.cluster` and
   `logwright.rescue.stray`.
5. The rights of the broker's user, and the space of the file systems: `rights` and `space`.

Nothing is changed. What could not be read, or is of an unknown format, is not judged; what else
a start needs is named in the verdict.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
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
    parse_marked_directory_name,
)
from logwright.garbage import rare_collections
from logwright.log.absence import BRING_BACK, without
from logwright.log.checkpoints import CHECKPOINT_FILES, Checkpoints
from logwright.log.kinds import file_kinds
from logwright.log.load import META_PROPERTIES, list_partitions
from logwright.metadata.model import ClusterMetadata
from logwright.metadata.read import read_directory_ids
from logwright.place.files import is_regular, names_in
from logwright.place.mapped import map_file
from logwright.recovery.directory_plan import plan_directory
from logwright.recovery.lookup import MISLEADING
from logwright.recovery.model import DirectoryPlan, RecoveryOptions, RecoveryPlan
from logwright.recovery.observe import marked_logs
from logwright.recovery.root import MOST_PROPERTIES_BYTES
from logwright.recovery.segments import ENDS
from logwright.rescue.absent import absent_logs, why_not_asked
from logwright.rescue.alone import (
    LET_ANOTHER_LEAD,
    NOT_KNOWN_WHO_LEADS,
    led_by_it_alone,
    sentence_of,
)
from logwright.rescue.checkpoints import epochs_read, offsets_of, offsets_read
from logwright.rescue.cluster import LOG_LOST, ClusterState, read_cluster
from logwright.rescue.model import NEVER_LOOKED_AT, Effect, StartFinding, StartVerdict
from logwright.rescue.rights import User, judge_rights
from logwright.rescue.space import spaces
from logwright.rescue.stray import strays
from logwright.units import INT32_MAX, ByteCount, TimestampMs

_AS_KAFKA: Final = RecoveryOptions(like_kafka=True)
_DEFAULTS: Final = TopicConfig()
_RECOVER: Final = "Run `logwright recover`, which writes a new one and keeps a copy."
_KEEPS: Final = "Run `logwright recover` before: it keeps what it cuts."
_BRING_BACK: Final = f"{BRING_BACK} A broker that starts takes the log for what is there."
_NO_ID: Final = "Remove it: the log is kept aside as -stray then."
_FORMAT: Final = (
    "Look first whether its disk is mounted. If the directory is new, run `kafka-storage.sh format"
    " --ignore-formatted` with the cluster's id."
)
_ONE_OF_TWO: Final = (
    "Compare both, and move one out of its log directory, with `logwright rescue --set-aside`: the"
    " one that ends earlier, as a rule."
)
UNCERTAIN: Final = (f"{ENDS['crc']}.", f"{MISLEADING}.")
"""Another magic byte, since no CRC is looked at here; and a look-up that may succeed by chance. It
is not judged what a broker makes of it; a recovery is for it all the same."""
_READ: Final = "A broker reads it all the same."
_STARTS_WITH: Final = {
    "fails": "",
    "ignores": " A broker starts as if the file had no entry.",
    "reads": f" {_READ}",
}


def judge_start(
    log_dirs: Sequence[Path],
    *,
    now_ms: TimestampMs,
    user: User | None = None,
    metadata: Path | None = None,
) -> StartVerdict:
    """Return whether a broker starts on these log directories. Effects: reads them.

    Args:
        log_dirs: all of the broker's.
        now_ms: the clock of the start, for what expires.
        user: who starts the broker; None: nobody's rights are looked at.
        metadata: the directory of the metadata log; None: as `read_cluster` finds it.

    Raises:
        UnreadableFile: one cannot be listed.
        LogDirLocked: an append or a recovery works on one.
    """
    findings = list(_identities(log_dirs))
    cluster = read_cluster(log_dirs, metadata, now_ms=now_ms)
    plans = []
    stray: set[Path] = set()
    for log_dir in log_dirs:
        plan = _plan_of(log_dir, now_ms)
        if plan is None:
            continue
        plans.append(plan)
        findings += _of_directory(plan)
        named = list(strays(log_dir, _names(plan), cluster.metadata))
        stray.update(log_dir / name for name, _ in named)
        findings += [finding for _, finding in named]
        if user is not None:
            names = [*_names(plan), *_metadata_in(cluster, log_dir)]
            findings += judge_rights(log_dir, names, user)
    here = {partition for plan in plans for partition in _present(plan)}
    for plan in plans:
        findings += _absent(plan, here, cluster.metadata)
        findings += _alone(plan, cluster.metadata)
    findings += _twice(plans, stray)
    findings += [*cluster.findings, *_of_metadata(cluster.plan)]
    known, lacking = spaces(plans, is_root=user is not None and user.uid == 0)
    nobody = () if user is not None else ("rights and owners: there is no meta.properties",)
    return StartVerdict(
        log_dirs=tuple(log_dirs),
        logs=sum(len(_names(plan)) for plan in plans),
        findings=(*findings, *lacking),
        space=known,
        user=None if user is None else user.name,
        not_looked_at=(*_not_asked(plans, cluster), *nobody, *NEVER_LOOKED_AT),
    )


def _absent(
    plan: DirectoryPlan, here: Collection[TopicPartition], metadata: ClusterMetadata | None
) -> Iterator[StartFinding]:
    """Yield the logs of which a directory has nothing. Effects: reads it."""
    checkpoints, untrusted = _checkpoints(plan.log_dir), plan.root.malformed
    yield from absent_logs(plan.log_dir, checkpoints, here, metadata, untrusted=untrusted)


def _not_asked(plans: Iterable[DirectoryPlan], cluster: ClusterState) -> Iterator[str]:
    """Yield the questions that lack an input, in phrases. Effects: reads the markers."""
    yield from cluster.not_looked_at
    for plan in plans:
        phrase = why_not_asked(plan.log_dir, plan.root.malformed)
        if phrase is not None:
            yield phrase
        if plan.lacking and cluster.metadata is None:
            yield NOT_KNOWN_WHO_LEADS


def _alone(plan: DirectoryPlan, metadata: ClusterMetadata | None) -> Iterator[StartFinding]:
    """Yield that replicas lead which lack records. Effects: reads the directory's ids."""
    if metadata is None or not plan.lacking:
        return
    node_id = None
    with suppress(LogwrightError):  # found before
        node_id = read_directory_ids(plan.log_dir).node_id
    alone = led_by_it_alone(metadata, node_id, plan.lacking)
    if alone:
        yield StartFinding(
            path=plan.log_dir,
            problem=sentence_of(alone),
            effect="loses",
            about="cluster",
            remedy=LET_ANOTHER_LEAD,
        )


def _plan_of(log_dir: Path, now_ms: TimestampMs) -> DirectoryPlan | None:
    """Return the simulated loading of a directory; None without any log: it is found not to be
    formatted. Effects: reads it.
    """
    try:
        partitions = list_partitions(log_dir)
    except NotALogDir:
        return None
    with rare_collections():
        return plan_directory(
            log_dir,
            partitions,
            lambda _: _DEFAULTS,
            now_ms=now_ms,
            options=_AS_KAFKA,
            marked=[one.name for one in marked_logs(log_dir)],
            checkpoints=_checkpoints(log_dir),
        )


def _metadata_in(cluster: ClusterState, log_dir: Path) -> tuple[str, ...]:
    path = cluster.path
    is_here = path is not None and path.parent == log_dir.absolute()
    return (path.name,) if path is not None and is_here else ()


def _of_metadata(plan: RecoveryPlan | None) -> Iterator[StartFinding]:
    """Yield what the loading of the metadata log changes; `recover` leaves that log alone."""
    for finding in () if plan is None else _of_log(plan):
        if finding.effect != "loses":
            yield finding
            continue
        yield replace(
            finding,
            about="cluster",
            problem=f"{finding.problem}{LOG_LOST}",
            remedy="Copy the directory before.",
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


def _present(plan: DirectoryPlan) -> Iterator[TopicPartition]:
    """Yield the partitions of which a directory has a log of any kind."""
    for name in _names(plan):
        marked = parse_marked_directory_name(name)
        partition = TopicPartition.parse(name) if marked is None else marked[0]
        if partition is not None:
            yield partition


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
                about="node",
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
                    about="node",
                    remedy="Name only the directories of one node in log.dirs.",
                )


def _of_directory(plan: DirectoryPlan) -> Iterator[StartFinding]:
    for name, problem in plan.root.malformed.items():
        path = plan.log_dir / name
        does = offsets_read(name, map_file(path).tobytes())
        effect: Effect = "stops" if does == "fails" else "repairs"
        yield StartFinding(
            path=path,
            problem=f"{problem}{_STARTS_WITH[does]}",
            effect=effect,
            about="root",
            remedy=_RECOVER if effect == "stops" else None,
        )
    names = set(_names(plan))
    for error in plan.root.problems:
        effect = _effect_of_problem(error, names)
        yield StartFinding.of(error, effect, plan.log_dir, about="root")
    failures = {one.directory_name: error for one, error in plan.failures.items()}
    for name, failure in {**failures, **plan.marked_failures}.items():
        directory = plan.log_dir / name
        yield StartFinding.of(failure, _effect_of(failure, directory), directory)
    for log in plan.plans:
        yield from _of_log(log, untrusted=plan.root.malformed.keys())


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
    if error.problem in UNCERTAIN:
        return "not judged"
    return "stops" if isinstance(error, CorruptLogError) else "not judged"


def _of_log(plan: RecoveryPlan, *, untrusted: Collection[str] = ()) -> Iterator[StartFinding]:
    """Yield what a start makes of a log. Of a malformed checkpoint (`untrusted`) a broker may read
    an entry; it proves nothing.
    """
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
    proved = (without(absence, untrusted) for absence in plan.missing)
    for absence in filter(None, proved):
        yield StartFinding(
            path=directory,
            problem=f"{absence.reason}.",
            effect="loses",
            remedy=_BRING_BACK,
            offsets=absence.offsets,
            first_offset=absence.first_offset,
            end_offset=absence.end_offset,
        )
    for change in plan.findings:
        removes = change.bytes > 0 and change.action in ("cut", "dropped")
        loses = removes and not change.is_empty
        if change.action in ("kept", "missing"):
            continue
        yield StartFinding(
            path=directory / change.files[0] if change.files else directory,
            problem=f"{change.action}: {change.reason}.",
            effect="loses" if loses else "repairs",
            remedy=_KEEPS if loses else None,
            bytes=ByteCount(change.bytes if removes else 0),
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


def _twice(plans: Iterable[DirectoryPlan], stray: Collection[Path]) -> Iterator[StartFinding]:
    """Yield partitions of which two directories have a log, or a future log; `stray` ones get
    another name before that is looked at.
    """
    seen: dict[tuple[str, bool], DirectoryPlan] = {}
    for plan in plans:
        aside = {path.name for path in stray if path.parent == plan.log_dir}
        for name in _names(plan):
            if name.endswith(STRAY_DIRECTORY) or name in aside:
                continue
            key = _key(name)
            first = seen.setdefault(key, plan)
            if first is not plan:
                yield _twin(first, plan, key)


def _twin(first: DirectoryPlan, second: DirectoryPlan, key: tuple[str, bool]) -> StartFinding:
    paths, ends = [], []
    for plan in (first, second):
        name = next(name for name in _names(plan) if _key(name) == key)
        paths.append(plan.log_dir / name)
        ends += [log.log_end_offset for log in plan.plans if log.name == name]
    where = ""
    if len(ends) > 1:
        where = f" That one ends at offset {ends[0]}, this one at {ends[1]}."
    return StartFinding(
        path=paths[1],
        problem=f"{paths[0]} is a log of the same partition.{where}",
        effect="stops",
        about="twin",
        remedy=_ONE_OF_TWO,
    )


def _key(name: str) -> tuple[str, bool]:
    """Return what two directories of one partition have in common; a future log is another one."""
    is_future = name.endswith(FUTURE_DIRECTORY)
    return (name.rpartition(".")[0] if is_future else name, is_future)
