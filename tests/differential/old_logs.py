"""Random logs of message formats v0 and v1, recovered, cleaned and expired by Kafka and logwright.

    python -m tests.differential.old_logs --count N --seed S [--kafka 4.4]

For each seed: a log without indexes, of old formats and sometimes of v2 too (`tests.old_formats`).
1. Both load it; files, bytes and checkpoints must be the same.
2. Both delete old segments; the same ones must go.
3. Both clean it; the same again, but where Kafka's cleaner fails: it cannot keep the header of an
   old batch that loses all records (4.3 at the end of the range, 4.4 at the high watermark). Ours
   drops that batch; its output must hold what survives.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from click.testing import CliRunner

from logwright.cli.main import main as command
from logwright.format.names import TopicPartition
from logwright.log.dump import dump_partition
from tests.comparison import compare_checkpoints, compare_partition
from tests.differential.oracle_server import OracleServer
from tests.differential.random_logs import scratch_directory
from tests.old_formats import NOW_MS, PARTITION, START_MS, write_random_log
from tests.oracle_runner import kafka
from tests.property.long_form import main

EXPIRATION_MS = 86_400_000
DAY_MS = 86_400_000
NOW = ("--now", str(NOW_MS))


def settings(random: Random) -> dict[str, str]:
    """Topic settings."""
    return {
        "cleanup.policy": "compact",
        "segment.bytes": str(random.choice((2_000, 20_000, 1_000_000))),
        "index.interval.bytes": str(random.choice((0, 100, 4096))),
        "delete.retention.ms": str(random.choice((0, 20_000_000, 60_000_000, DAY_MS))),
        "segment.index.bytes": "4096",
    }


def run_ours(operation: str, log_dir: Path, config: dict[str, str], *options: str) -> str | None:
    """Do an operation by the command line; return what is wrong, None if nothing is."""
    pairs = {**config, "producer.id.expiration.ms": str(EXPIRATION_MS)}
    given = [word for pair in pairs.items() for word in ("--config", "=".join(pair))]
    done = CliRunner().invoke(
        command, [operation, str(log_dir), PARTITION, "--yes", *options, *given]
    )
    return None if done.exit_code == 0 else f"exit {done.exit_code}: {done.output[-600:]}"


def read_plainly(log_dir: Path, partition: str, _log_name: str) -> list[dict[str, Any]]:
    """The batches of a partition by our reader, which test_old_formats.py compares with Kafka's."""
    at = TopicPartition.parse(partition)
    assert at is not None
    return list(dump_partition(log_dir, at))


def differences(expected: Path, actual: Path) -> list[str]:
    """What differs, by `tests.comparison`, but for snapshots that Kafka's loading removes."""
    bases = {path.stem for path in (expected / PARTITION).glob("*.log")}
    differing = [
        *compare_partition(expected, actual, PARTITION, read=read_plainly),
        *compare_checkpoints(expected, actual, PARTITION),
    ]
    return [
        each
        for each in differing
        if "replication-offset-checkpoint" not in each
        and not (each.endswith(".snapshot") and "unexpected" in each and each[-29:-9] not in bases)
    ]


def _ask(server: OracleServer, kind: str, log_dir: Path, config: dict[str, str]) -> dict[str, Any]:
    return server.ask(
        {
            "request": kind,
            "logDir": str(log_dir),
            "topicPartition": PARTITION,
            "config": config,
            "now": NOW_MS,
            "producerIdExpirationMs": EXPIRATION_MS,
        }
    )


def _set_times(directory: Path, like: Path) -> None:
    """Give files the modification times of those of another directory: Kafka's loading sets some by
    the wall clock. Effects: sets them.
    """
    for path in directory.glob("*.log"):
        status = (like / path.name).stat() if (like / path.name).exists() else None
        time = START_MS * 1_000_000 if status is None else status.st_mtime_ns
        os.utime(path, ns=(time, time))


def check(seed: str, scratch: Path, server: OracleServer) -> str:
    """What became of one seed: ``same``, ``kafka fails``, or what is wrong."""
    random = Random(seed)
    before, theirs, ours = (scratch / name for name in ("before", "theirs", "ours"))
    end = write_random_log(random, before)
    config = settings(random)
    if random.random() < 0.5:
        (before / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":7}')
    for copy in (theirs, ours):
        shutil.copytree(before, copy, copy_function=shutil.copy2)
    if problem := _recover(server, theirs, ours, config):
        return f"WRONG: recover: {problem}"
    for each in (theirs, ours):
        _set_times(each / PARTITION, before / PARTITION)
    if random.random() < 0.3:
        first_dirty = random.randrange(end)
        for each in (theirs, ours):
            content = f"0\n1\nt 0 {first_dirty}\n"
            (each / "cleaner-offset-checkpoint").write_text(content)
    if problem := _expire(random, server, (theirs, ours), scratch, config):
        return f"WRONG: retain: {problem}"
    checks = random.choice(("quick", "thorough"))
    return _clean(server, theirs, ours, config, checks)


def _recover(server: OracleServer, theirs: Path, ours: Path, config: dict[str, str]) -> object:
    answer = _ask(server, "recover", theirs, config)
    if "loadFailed" in answer:
        return answer["loadFailed"]
    problem = run_ours("recover", ours, config, "--like-kafka", *NOW)
    return problem or differences(theirs, ours)


def _expire(
    random: Random,
    server: OracleServer,
    logs: tuple[Path, Path],
    scratch: Path,
    config: dict[str, str],
) -> object:
    """Delete old segments of copies. Effects: makes them."""
    theirs, ours = (
        Path(shutil.copytree(log, scratch / f"{log.name}-expired", copy_function=shutil.copy2))
        for log in logs
    )
    retention = {
        **config,
        "cleanup.policy": "delete",
        "retention.ms": str(NOW_MS - START_MS - random.randrange(-1, 100_000_000)),
        "retention.bytes": str(random.choice((-1, -1, 3000, 10_000))),
    }
    server.ask(
        {
            "request": "manager",
            "logDir": str(theirs),
            "config": retention,
            "topics": {},
            "now": NOW_MS,
            "producerIdExpirationMs": EXPIRATION_MS,
            "retain": True,
        }
    )
    problem = run_ours("retain", ours, retention, "--high-watermark", "end", *NOW)
    kept = [sorted(path.name for path in (log / PARTITION).glob("*.log")) for log in (theirs, ours)]
    return problem or (kept if kept[0] != kept[1] else None)


def _clean(
    server: OracleServer, theirs: Path, ours: Path, config: dict[str, str], checks: str
) -> str:
    answer = _ask(server, "clean", theirs, config)
    cleaner = ("--like-kafka", "--force", "--kafka-version", kafka(), "--high-watermark", "end")
    cleaner += ("--checks", checks)
    problem = run_ours("clean", ours, config, *cleaner, *NOW)
    if problem is not None:
        return f"WRONG: clean: {problem} (Kafka: {answer.get('failed', 'cleans')})"
    if "failed" in answer:
        known = "Empty batches are only supported" in answer["failed"]
        return "kafka fails" if known else f"WRONG: Kafka: {answer['failed']}"
    differing = differences(theirs, ours)
    return f"WRONG: clean: {config} {differing}" if differing else "same"


def run(count: int, seed: int) -> Iterator[tuple[str, str]]:
    """Yield (seed, what became of it)."""
    with scratch_directory() as scratch, OracleServer() as server:
        for number in range(count):
            name = f"{seed}-{number}"
            place = scratch / name
            place.mkdir()
            yield name, check(name, place, server)
            shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    main(run)
