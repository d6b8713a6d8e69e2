"""Whatever a disk has made of a log, a recovery ends, keeps no bad batch, and is Kafka's own."""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

from logwright.config.topic import parse_settings
from logwright.errors import CorruptProducerSnapshot, LogwrightError, UnsupportedFormatError
from logwright.format.names import TopicPartition
from logwright.format.snapshot import ProducerEntry, parse_snapshot
from logwright.format.valid import valid_batches
from logwright.place.mapped import map_file
from logwright.recovery.model import RecoveryOptions
from logwright.sweep.recover import recover_directory
from logwright.units import INT64_MAX, TimestampMs
from tests import fixtures
from tests.comparison import compare_checkpoints, live_files
from tests.differential.oracle_server import OracleServer, shared
from tests.differential.random_logs import scratch_directory
from tests.property.mutations import mutate

CASES = (
    "basic-none",
    "basic-gzip",
    "gap-huge-1",
    "idempotent-2-written-again",
    "leader-epochs",
    "odd-records",
    "txn-1-mixed",
    "txn-2-second",
    "txn-ongoing",
)
MUTANTS = 80
NIGHTLY_MUTANTS = 10_000
COMPARED = 80
NIGHTLY_COMPARED = 3_000
MOST_GROWTH_BYTES = 128 * 1024 * 1024
"""The logs have some 100 KB; a batch may decompress to 64 MiB before it is called a bomb."""
PARTITION = TopicPartition("t", 0)
ENTRY_BYTES = {".index": 8, ".timeindex": 12}
UNSUPPORTED = (
    "the record batch's magic",
    "no offset is left after that of the last record batch.",
)
"""What a recovery refuses though a broker takes it: magic and base offset are not covered by a
batch's CRC. Kafka's next offset becomes negative, and it drops the log.
"""


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """A damaged copy of a case."""

    case: str
    log_dir: Path

    @property
    def now_ms(self) -> int:
        """The case's clock."""
        now: int = fixtures.description(self.case)["now"]
        return now

    @property
    def expiration_ms(self) -> int:
        """The case's `producer.id.expiration.ms`."""
        expiration: int = fixtures.description(self.case)["producerIdExpirationMs"]
        return expiration

    @property
    def settings(self) -> dict[str, str]:
        """The topic's."""
        return dict(fixtures.partition_of(self.case).config)

    def recover(self, log_dir: Path, options: RecoveryOptions) -> LogwrightError | None:
        """Recover it; the refusal, if there was one."""
        pairs = self.settings | {"producer.id.expiration.ms": str(self.expiration_ms)}
        config, _ = parse_settings(pairs)
        result = recover_directory(
            log_dir,
            [PARTITION],
            lambda _: config,
            now_ms=TimestampMs(self.now_ms),
            options=options,
        )
        assert result.clean == (not result.failures)
        return result.failures.get(PARTITION)

    def by_kafka(self, log_dir: Path, server: OracleServer) -> str | None:
        """Have Kafka's loader recover it; why it could not, if so."""
        answer = server.ask(
            {
                "request": "recover",
                "logDir": str(log_dir),
                "topicPartition": str(PARTITION),
                "config": self.settings,
                "now": self.now_ms,
                "producerIdExpirationMs": self.expiration_ms,
            }
        )
        failed: str | None = answer.get("loadFailed")
        return failed


def make(random: Random, log_dir: Path) -> Mutant:
    """Damage a log, its indexes and snapshots; take the marker and the recovery point away."""
    case = random.choice(CASES)
    shutil.copytree(fixtures.case_dir(case) / "before", log_dir, copy_function=shutil.copy2)
    directory = log_dir / str(PARTITION)
    logs = sorted(directory.glob("*.log"))
    log = random.choice(logs)
    if random.random() < 0.9:
        rewrite(log, mutate(log.read_bytes(), random))
    bases = [int(path.stem) for path in logs]
    point = random.choice((0, 0, int(log.stem), int(log.stem), bases[-1]))
    if random.random() < 0.8:
        (log_dir / ".kafka_cleanshutdown").unlink()
    rewrite(log_dir / "recovery-point-offset-checkpoint", f"0\n1\nt 0 {point}\n".encode())
    if random.random() < 0.2:
        start = random.choice((bases[-1] + 5, bases[len(bases) // 2] + 3, 10**6))
        rewrite(log_dir / "log-start-offset-checkpoint", f"0\n1\nt 0 {start}\n".encode())
    for path in sorted(directory.iterdir()):
        if path.suffix in (".index", ".timeindex", ".txnindex", ".snapshot"):
            if random.random() < 0.02:
                path.unlink()
            elif random.random() < 0.02:
                unit = ENTRY_BYTES.get(path.suffix, 1)
                rewrite(path, path.read_bytes()[: unit * random.randrange(1 + path.stat().st_size)])
    return Mutant(case=case, log_dir=log_dir)


def rewrite(path: Path, content: bytes) -> None:
    path.unlink(missing_ok=True)
    path.write_bytes(content)


def mutants(seed: int, count: int, scratch: Path, first: int = 0) -> Iterator[tuple[str, Mutant]]:
    for number in range(first, first + count):
        name = f"{seed}-{number}"
        log_dir = scratch / name
        yield name, make(Random(name), log_dir)
        shutil.rmtree(log_dir)


def resident_bytes(field: str) -> int:
    """This process's memory: VmRSS, or VmHWM, the most since it was last forgotten."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return 1024 * int(status.split(f"{field}:")[1].split()[0])


def keeps_no_bad_batch(seed: int, count: int) -> Counter[str]:
    """Recover mutants with every loss accepted; what came of them, and of how much memory."""
    counts: Counter[str] = Counter()
    with scratch_directory() as scratch:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
        before = resident_bytes("VmRSS")
        for name, mutant in mutants(seed, count, scratch):
            marked = (mutant.log_dir / ".kafka_cleanshutdown").exists()
            point = (mutant.log_dir / "recovery-point-offset-checkpoint").read_text().split()[-1]
            error = mutant.recover(mutant.log_dir, RecoveryOptions(accept_loss=True))
            if error is not None:
                counts[type(error).__name__] += 1
                assert str(error.path).startswith(str(mutant.log_dir)), name
                continue
            counts["recovered"] += 1
            bases = sorted(int(path.stem) for path in (mutant.log_dir / "t-0").glob("*.log"))
            for base, end in zip(bases, [*bases[1:], INT64_MAX], strict=True):
                # Below the recovery point, and under a marker, only the last segment is looked at.
                if base == bases[-1] or (not marked and base >= int(point)):
                    data = map_file(mutant.log_dir / "t-0" / f"{base:020d}.log")
                    valid = valid_batches(data, base_offset=base, end_offset=end)
                    assert valid.end == "whole", f"{name}: {base} {valid.end}"
        grown = resident_bytes("VmHWM") - before
        assert grown < MOST_GROWTH_BYTES
        counts["MiB of memory"] = grown >> 20
    return counts


def test_a_recovery_keeps_no_bad_batch(seed: int) -> None:
    """It ends, refuses by name, or leaves whole batches in ascending order."""
    counts = keeps_no_bad_batch(seed, MUTANTS)
    assert counts["recovered"] > 0.7 * MUTANTS, counts


@pytest.mark.nightly
def test_ten_thousand_recoveries_keep_no_bad_batch(
    seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """The long form."""
    counts = keeps_no_bad_batch(seed, NIGHTLY_MUTANTS)
    assert counts["recovered"] > 0.9 * NIGHTLY_MUTANTS, counts
    with capsys.disabled():
        sys.stdout.write(f"\n{dict(counts)}\n")


def same_as_kafka(seed: int, count: int, first: int = 0) -> Counter[str]:
    """Recover mutants as Kafka does, from a number on; what came of them."""
    counts: Counter[str] = Counter()
    with scratch_directory() as scratch:
        for name, mutant in mutants(seed, count, scratch, first):
            kafkas = scratch / "kafka"
            shutil.copytree(mutant.log_dir, kafkas, copy_function=shutil.copy2)
            failed = mutant.by_kafka(kafkas, shared())
            error = mutant.recover(mutant.log_dir, RecoveryOptions(like_kafka=True))
            if error is None and failed is None:
                counts["same"] += 1
                assert [] == differences(kafkas, mutant.log_dir), f"{name} ({mutant.case})"
            elif failed is not None:
                counts["Kafka does not load it"] += 1
            else:
                counts["refused"] += 1
                assert isinstance(error, LogwrightError)
                control = "record" in error.problem or "codec" in error.problem
                assert error.problem.startswith(UNSUPPORTED) or control, f"{name}: {error}"
            shutil.rmtree(kafkas)
    return counts


def differences(kafkas: Path, ours: Path) -> list[str]:
    """What a broker would see differently; the order of producers in a snapshot is free."""
    wanted, got = live_files(kafkas / "t-0"), live_files(ours / "t-0")
    differing = sorted(wanted.keys() ^ got.keys())
    for name in sorted(wanted.keys() & got.keys()):
        if wanted[name].read_bytes() != got[name].read_bytes():
            producers = read_producers(wanted[name]) if name.endswith(".snapshot") else None
            if producers is None or producers != read_producers(got[name]):
                differing.append(name)
    unlimited = ("checkpoint: replication", "checkpoint: cleaner")
    return differing + [
        difference
        for difference in compare_checkpoints(kafkas, ours)
        if not difference.startswith(unlimited)
    ]


def read_producers(path: Path) -> dict[int, ProducerEntry] | None:
    try:
        return {entry.producer_id: entry for entry in parse_snapshot(path.read_bytes(), path)}
    except (CorruptProducerSnapshot, UnsupportedFormatError):
        # Kafka writes over a longer one without cutting it; what it says is at the beginning.
        return read_beginning(path)


def read_beginning(path: Path) -> dict[int, ProducerEntry] | None:
    content = path.read_bytes()
    end = 10 + 46 * int.from_bytes(content[6:10], "big")
    try:
        return {one.producer_id: one for one in parse_snapshot(content[:end], path)}
    except (CorruptProducerSnapshot, UnsupportedFormatError):
        return None


@pytest.mark.oracle
def test_a_recovery_like_kafka_is_kafkas(seed: int) -> None:
    """The same files, byte for byte, for every mutant that both recover."""
    counts = same_as_kafka(seed, COMPARED)
    assert counts["same"] > 0.7 * COMPARED, counts


@pytest.mark.oracle
@pytest.mark.parametrize(("seed_of", "number"), [(4242, 1284)])
def test_a_batch_that_ends_before_it_begins(seed_of: int, number: int, kafka_version: str) -> None:
    """Kafka finds the last batch by its base offset, and takes the log's end from it: below the
    log's start, so the log is dropped, clean stop or not.
    """
    assert {"same": 1} == same_as_kafka(seed_of, 1, number)


@pytest.mark.oracle
@pytest.mark.nightly
def test_three_thousand_recoveries_like_kafka_are_kafkas(
    seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """The long form."""
    counts = same_as_kafka(seed, NIGHTLY_COMPARED)
    assert counts["same"] > 0.9 * NIGHTLY_COMPARED, counts
    with capsys.disabled():
        sys.stdout.write(f"\n{dict(counts)}\n")
