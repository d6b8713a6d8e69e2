"""``find``: the search for keys, next to Kafka's dump of the same segments piped to grep, and to
reading the bytes once.
"""

from __future__ import annotations

import random
import resource
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.logs import BenchLog, prepare
from benchmarks.runs import JVM_OPTIONS
from benchmarks.table import table
from logwright.batches.runtime import silent
from logwright.erasure.find.scan import Scanner
from logwright.erasure.find.search import search_log_dir
from logwright.erasure.keys import KeySet
from logwright.erasure.secret import Secret
from logwright.format.batch import parse_batch, walk_batches
from logwright.format.record import read_records
from logwright.place.mapped import map_file
from tests.oracle_runner import java, oracle_classpath

CASES: Final = ("u100", "u1k", "lz4", "zstd")
COUNTS: Final = (1, 1_000, 1_000_000)
THREADS: Final = (1, 2)
MOST_GREPPED: Final = 1_000
"""With more keys grep builds an automaton that does not fit into memory."""
_DUMP: Final = "org.apache.kafka.tools.DumpLogSegments"
_SEED: Final = 1


class _Taken(NamedTuple):
    wall: float
    cpu: float
    found: int


def find_rows(
    cases: Sequence[str], *, scale: float, rounds: int, work: Path, say: Callable[[str], None]
) -> str:
    """Return a table of GB/s on one core, by CPU seconds, and one of GB/s by the clock with more
    threads; medians of the rounds. Effects: writes logs below `work`, starts JVMs.
    """
    rows, threaded = [], []
    for case in cases:
        log = prepare(case, scale=scale, work=work)
        paths = sorted(log.partition_directory.glob("*.log"))
        floor = _median(partial(_read, paths), rounds)
        for count in COUNTS:
            say(f"{case}: {count} keys")
            keys = _keys(log, paths, count)
            key_set = KeySet.of(Secret.random(), clear=keys)
            _search(paths[:1], key_set)
            ours = _median(partial(_search, paths, key_set), rounds)
            kafka = _kafka(paths, keys, work) if count <= MOST_GREPPED else None
            rows.append(_row(case, log, count, (floor, ours, kafka)))
        searched = KeySet.of(Secret.random(), clear=_keys(log, paths, MOST_GREPPED))
        threaded.append(_threaded(case, log, searched, rounds))
    head = ("log", "keys", "hits", "find GB/s", "floor GB/s", "dump and grep GB/s", "times faster")
    columns = ("log directory", "GB", *(f"{one} threads, GB/s" for one in THREADS), "times faster")
    return "\n\n".join((table(head, rows), table(columns, threaded)))


def _threaded(case: str, log: BenchLog, keys: KeySet, rounds: int) -> tuple[str, ...]:
    """A row of the whole search of a log directory, in turn with these numbers of threads."""
    taken = {threads: list[float]() for threads in THREADS}
    for _ in range(rounds):
        for threads, seconds in taken.items():
            began = time.perf_counter()
            search_log_dir(log.directory, keys, None, progress=silent, threads=threads)
            seconds.append(time.perf_counter() - began)
    size, walls = log.log_bytes / 1e9, [median(seconds) for seconds in taken.values()]
    speeds = (f"{size / wall:.2f}" for wall in walls)
    return case, f"{size:.2f}", *speeds, f"{walls[0] / walls[-1]:.2f}"


def _row(
    case: str, log: BenchLog, count: int, taken: tuple[_Taken, _Taken, _Taken | None]
) -> tuple[str, ...]:
    floor, ours, kafka = taken
    size = log.log_bytes / 1e9
    return (
        case,
        f"{count:,}",
        f"{ours.found:,}",
        f"{size / ours.cpu:.2f}",
        f"{size / floor.cpu:.2f}",
        "-" if kafka is None else f"{size / kafka.cpu:.3f} ({kafka.wall:.1f} s)",
        "-" if kafka is None else f"{kafka.cpu / ours.cpu:.0f}",
    )


def _median(run: Callable[[], _Taken], rounds: int) -> _Taken:
    taken = [run() for _ in range(rounds)]
    return _Taken(
        median(one.wall for one in taken), median(one.cpu for one in taken), taken[0].found
    )


def _read(paths: Sequence[Path]) -> _Taken:
    """Read the mapped bytes once."""
    wall, cpu, total = time.perf_counter(), time.process_time(), 0
    for path in paths:
        data = map_file(path)
        words: NDArray[np.uint64] = data[: len(data) // 8 * 8].view(np.uint64)
        total += int(np.bitwise_xor.reduce(words))
    return _Taken(time.perf_counter() - wall, time.process_time() - cpu, total & 1)


def _search(paths: Sequence[Path], keys: KeySet) -> _Taken:
    scanner, hits = Scanner(), 0
    wall, cpu = time.perf_counter(), time.process_time()
    for path in paths:
        hits += len(scanner.scan(map_file(path), path, keys).hits)
    return _Taken(time.perf_counter() - wall, time.process_time() - cpu, hits)


def _keys(log: BenchLog, paths: Sequence[Path], count: int) -> list[bytes]:
    """Return keys of which up to half are in the log: the first ones that it has, at most one for
    each hundred of its records.
    """
    draw, present = random.Random(_SEED), dict[bytes, None]()
    wanted = max(min(count // 2, log.records // 100), 1)
    for key in _keys_of(paths):
        present[key] = None
        if len(present) == wanted:
            break
    length = len(next(iter(present)))
    keys = list(present)
    return keys + [draw.randbytes(length).hex()[:length].encode() for _ in range(count - len(keys))]


def _keys_of(paths: Sequence[Path]) -> Iterator[bytes]:
    """Yield the keys of all records."""
    for path in paths:
        content = path.read_bytes()
        for span in walk_batches(content):
            whole = content[span.position : span.position + span.bytes]
            header = parse_batch(whole)
            for record in () if header.is_control else read_records(header, whole):
                if record.key is not None:
                    yield record.key


def _kafka(paths: Sequence[Path], keys: Sequence[bytes], work: Path) -> _Taken:
    """Dump all records with Kafka's tool, and count the lines with one of the keys."""
    patterns = work / "patterns.txt"
    patterns.write_bytes(b"\n".join(keys) + b"\n")
    dump = [java(), *JVM_OPTIONS, "-cp", oracle_classpath(), _DUMP, "--print-data-log"]
    dump += ["--files", ",".join(map(str, paths))]
    before, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    with subprocess.Popen(dump, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as writer:
        counted = subprocess.run(
            ["grep", "-c", "-F", "-f", str(patterns)],  # noqa: S607 -- coreutils
            stdin=writer.stdout,
            capture_output=True,
            check=False,
            env={"LC_ALL": "C"},
        )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return _Taken(time.perf_counter() - wall, cpu, int(counted.stdout or 0))
