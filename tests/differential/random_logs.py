"""Random logs: Kafka writes one and cleans it, our engine cleans the same one, and the outcomes are
compared.

For each log also: Kafka's decisions in every pass and ours, the checks of `examine`, and that
cleaning again at the same clock changes nothing. Should the engine hang, the smallest number in the
scratch directory is the seed.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from logwright.cli.run.planning import compaction_object
from logwright.compaction.model import CleaningOptions, CleanPlan
from logwright.config.kafka_version import BY_NAME
from logwright.config.topic import CleanerConfig, TopicConfig, effective
from logwright.errors import UnsupportedFormatError
from logwright.format.names import TopicPartition
from logwright.log.dump import segment_lines
from logwright.sweep.build import build, examine
from logwright.sweep.commit import commit
from logwright.sweep.plan import plan_cleaning
from logwright.units import TimestampMs
from tests.comparison import (
    PACKING_FIELDS,
    compare_checkpoints,
    compare_partition,
    compare_times,
    read_checkpoint,
    stray_snapshots,
)
from tests.differential.oracle_server import Answer, OracleServer
from tests.oracle_runner import kafka

Shape = dict[str, Any]

WITHOUT_PRODUCERS: Shape = {"transactions": False, "idempotent": False}
LIKE_KAFKA = CleaningOptions(force=True, like_kafka=True)
CODECS = ("gzip", "snappy", "lz4", "zstd")
BY_SIZE = frozenset({"cleanBytes", "cleanableBytes", "totalBytes", "cleanableRatio", "eligible"})
LOG_STARTS = "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
GROUPED_OTHERWISE = "declared: grouped otherwise after other packing"
PLACE = PACKING_FIELDS | {"segment"}
OF_SEGMENTS = ("time: ", "batch: ", "log: ", "index: ", "timeindex: ", "txnindex: ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one log showed.

    Attributes:
        differences: each begins with its kind, as in tests/comparison.py; further kinds are `plan`
            (a decision), `check` (`examine` found a violation), `again` (a second cleaning at the
            same clock did something) and `raised` (our engine failed).
        refused: why our engine does not handle the log; None if it does.
        cleaner_failed: how Kafka's own cleaner failed on it, so that there is nothing to compare.
        coverage: what the log had, as the oracle counted it.
        operations: how many operations wrote it.
    """

    seed: int
    differences: tuple[str, ...] = ()
    refused: str | None = None
    cleaner_failed: str | None = None
    coverage: dict[str, int] = field(default_factory=dict)
    operations: int = 0

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of its differences."""
        return frozenset(one.split(":")[0] for one in self.differences)


@dataclass(slots=True, kw_only=True)
class Tally:
    """What many logs showed.

    Attributes:
        coverage: how many of the compared logs had a thing at least once.
        failures: the outcomes with differences.
        kinds: how many logs had a difference of a kind.
    """

    logs: int = 0
    compared: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    cleaner_failed: Counter[str] = field(default_factory=Counter)
    coverage: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    failures: list[Outcome] = field(default_factory=list)

    def add(self, outcome: Outcome) -> None:
        """Count one more."""
        self.logs += 1
        if outcome.refused is not None:
            self.refused[outcome.refused] += 1
        elif outcome.cleaner_failed is not None:
            self.cleaner_failed[outcome.cleaner_failed] += 1
        else:
            self.compared += 1
            self.coverage.update(name for name, count in outcome.coverage.items() if count)
            self.kinds.update(outcome.kinds)
            if outcome.differences:
                self.failures.append(outcome)

    def lines(self) -> Iterator[str]:
        """The figures, for people."""
        yield f"{self.logs} logs: {self.compared} compared, {len(self.failures)} with differences"
        for title, counts in (
            ("refused", self.refused),
            ("Kafka's cleaner failed", self.cleaner_failed),
            ("differences", self.kinds),
            ("logs with", self.coverage),
        ):
            for name, count in sorted(counts.items()):
                yield f"{title}: {name}: {count}"
        for outcome in self.failures[:20]:
            yield f"seed {outcome.seed}: " + "; ".join(outcome.differences[:4])


@contextmanager
def scratch_directory() -> Iterator[Path]:
    """A directory in memory where there is one: on a disk the syncs would take most of the time."""
    memory = Path("/dev/shm")  # noqa: S108 -- a private directory below it
    parent = memory if memory.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="logwright-", dir=parent) as directory:
        yield Path(directory)


def run_many(
    server: OracleServer, seeds: Sequence[int], shape: Shape, scratch: Path
) -> Generator[Outcome, None, None]:
    """The outcome of each seed in turn. Kafka works on the next log while we work on this one."""
    requests = ({"request": "random", **_request(seed, shape, scratch)} for seed in seeds)
    with closing(server.ask_ahead(requests)) as answers:
        for seed, answer in zip(seeds, answers, strict=True):
            yield _outcome(answer, seed, scratch)


def run_one(server: OracleServer, seed: int, shape: Shape, scratch: Path) -> Outcome:
    """The outcome of one seed."""
    (outcome,) = run_many(server, [seed], shape, scratch)
    return outcome


def write_case(server: OracleServer, seed: int, shape: Shape, directory: Path) -> Answer:
    """Write a random log as a case that stays: before, after, dumps, case.json. Effects: files."""
    return server.ask(
        {"request": "random", "seed": seed, "out": str(directory), "shape": shape, "dumps": True}
    )


def _request(seed: int, shape: Shape, scratch: Path) -> dict[str, Any]:
    return {"seed": seed, "out": str(scratch / f"{seed}"), "shape": shape}


def _outcome(case: Answer, seed: int, scratch: Path) -> Outcome:
    root = scratch / f"{seed}"
    try:
        if "cleanerFailed" in case:
            return Outcome(seed=seed, cleaner_failed=case["cleanerFailed"].split("(")[0].strip())
        differences = clean_and_compare(case, root)
    except UnsupportedFormatError as error:
        return Outcome(seed=seed, refused=error.problem)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    return Outcome(
        seed=seed,
        differences=tuple(differences),
        coverage=case["coverage"],
        operations=case["operations"],
    )


def clean_and_compare(case: Answer, root: Path) -> list[str]:
    """Clean `before` by our engine and compare it with `after`. Effects: changes `before`.

    Args:
        case: as case.json has it.
        root: the case's directory.

    Raises:
        UnsupportedFormatError: our engine does not handle the log.
    """
    ours, kafkas = root / "before", root / "after"
    partition = TopicPartition(case["topic"], case["partition"])
    start = read_checkpoint(ours / LOG_STARTS).get(partition.directory_name, 0)
    stray = stray_snapshots(ours / partition.directory_name, log_start_offset=start)
    watermarks = read_checkpoint(ours / HIGH_WATERMARKS)
    try:
        differing = _clean(case, ours, partition)
    except UnsupportedFormatError:
        raise
    except Exception as error:  # noqa: BLE001 -- whatever it is, it is a finding
        return [f"raised: {type(error).__name__}: {error}"]
    differences = compare_partition(kafkas, ours, partition.directory_name, read=_read_segment)
    differing += [one for one in differences if not one.endswith(stray)]
    differing += compare_times(case["files"], ours / partition.directory_name)
    if _grouped_otherwise(case, root, partition.directory_name):
        case["coverage"][GROUPED_OTHERWISE] = 1
        differing = [one for one in differing if not _is_of_segments(one)]
    # Kafka writes the high watermark when it closes the log; logwright does not.
    if watermarks == read_checkpoint(ours / HIGH_WATERMARKS):
        watermark = f"checkpoint: {HIGH_WATERMARKS}"
    else:
        watermark = "checkpoint: none"
    changed = compare_checkpoints(kafkas, ours)
    return differing + [one for one in changed if not one.startswith(watermark)]


def _grouped_otherwise(case: Answer, root: Path, partition: str) -> bool:
    """Whether the segments differ for this one reason: what our compressor packed has another size,
    so that a further pass grouped them otherwise. All batches and records are Kafka's then.
    """
    packed = any("batches " + codec in case["coverage"] for codec in CODECS)
    if len(case["results"][0]["passes"]) == 1 or not packed:
        return False
    names = [
        sorted(path.name for path in (root / side / partition).glob("*.log"))
        for side in ("before", "after")
    ]
    if names[0] == names[1]:
        return False
    ours, kafkas = (
        [
            {field: value for field, value in batch.items() if field not in PLACE}
            for name in each
            for batch in _read_segment(root / side, partition, name)
            if batch["type"] == "batch"
        ]
        for side, each in zip(("before", "after"), names, strict=True)
    )
    return ours == kafkas


def _is_of_segments(difference: str) -> bool:
    """Of a segment's files or a snapshot, not of the partition's others."""
    numbered = difference.rpartition(" ")[2][0].isdigit()
    return difference.startswith(OF_SEGMENTS) or (difference.startswith("files: ") and numbered)


def settings_of(case: Answer, config: dict[str, str]) -> tuple[TopicConfig, CleanerConfig]:
    """The settings of a topic of a case, and the cleaner's."""
    pairs = dict(config)
    pairs["producer.id.expiration.ms"] = str(case["producerIdExpirationMs"])
    pairs["log.cleaner.io.buffer.load.factor"] = str(case.get("loadFactor", 0.9))
    topic, cleaner = effective(pairs, BY_NAME[kafka()])
    if "dedupeBuffer" in case:
        cleaner = cleaner.model_copy(update={"dedupe_buffer_bytes": case["dedupeBuffer"]})
    return topic, cleaner


def _clean(case: Answer, log_dir: Path, partition: TopicPartition) -> list[str]:
    """As many passes as Kafka made; what the checks and the plans show."""
    settings = settings_of(case, case["topicConfig"])

    def plan() -> CleanPlan:
        return plan_cleaning(
            log_dir,
            partition,
            settings,
            now_ms=TimestampMs(case["now"]),
            options=LIKE_KAFKA,
            high_watermark=case["highWatermark"],
        )

    differing: list[str] = []
    # The first look puts an invalid checkpoint right, and only it says so.
    passes = [dict(one) for one in case["results"][0]["passes"]]
    passes[0] |= case["plan"]["partitions"][0]
    for number, kafkas in enumerate(passes):
        planned = plan()
        # Our compressor may pack otherwise, which a further pass sees.
        packed = number > 0 and any("batches " + codec in case["coverage"] for codec in CODECS)
        differing += compare_decision(kafkas, planned, f"pass {number}", sizes=not packed)
        if planned.clean != kafkas["cleaned"]:
            differing.append(f"plan: pass {number}: cleaned: expected {kafkas['cleaned']}")
        if not planned.clean:
            commit(planned, None)
            break
        staged = build(planned)
        differing += [
            f"check: pass {number}: {check.name}: {check.violations} from {check.first_offset}"
            for check in examine(planned, staged).failed
        ]
        commit(planned, staged)
        if staged.end_offset != kafkas.get("newFirstDirtyOffset"):
            expected = f"expected {kafkas.get('newFirstDirtyOffset')}, got {staged.end_offset}"
            differing.append(f"plan: pass {number}: newFirstDirtyOffset: {expected}")
    return differing + _clean_again(plan(), log_dir)


def compare_decision(
    kafkas: dict[str, Any], planned: CleanPlan, where: str, *, sizes: bool = True
) -> list[str]:
    """The differences between Kafka's view of a log and ours; with or without what sizes decide."""
    ours = compaction_object(planned.compaction)
    if not sizes:
        ours = {name: value for name, value in ours.items() if name not in BY_SIZE}
    return [
        f"plan: {where}: {name}: expected {kafkas[name]}, got {value}"
        for name, value in ours.items()
        if kafkas[name] != value
    ]


def _clean_again(planned: CleanPlan, log_dir: Path) -> list[str]:
    """Nothing is left to do at the same clock, and doing it changes no file.

    The rest that a map was too small for does not count as a second cleaning.
    """
    if planned.compaction.first_dirty_offset < planned.compaction.first_uncleanable_offset:
        return []
    differing = ["again: something is to be cleaned"] if planned.clean else []
    before = _contents(log_dir)
    commit(planned, None)
    return differing + ([] if before == _contents(log_dir) else ["again: a file changed"])


def _contents(log_dir: Path) -> dict[Path, tuple[bytes, int]]:
    return {
        path: (path.read_bytes(), path.stat().st_mtime_ns)
        for path in log_dir.rglob("*")
        if path.is_file()
    }


def _read_segment(log_dir: Path, partition: str, log_name: str) -> list[dict[str, Any]]:
    """By our own reader, which is proved equal to Kafka's (tests/unit/log/test_dump.py)."""
    content = (log_dir / partition / log_name).read_bytes()
    return list(segment_lines(content, base_offset=int(Path(log_name).stem)))
