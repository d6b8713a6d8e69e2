"""An erasure, proved: keys are planted in logs of all codecs and in copies of every kind; they are
found, erased and certified, and a search that shares no code with logwright agrees each time.

    python -m tests.erasure_proof --records 5000000 --keys 10000

Prints what was found and how long it took; an assertion fails if anything differs.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import shutil
import struct
import sys
import tempfile
import time
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import cramjam
import duckdb
import lz4.frame
import zstandard

from tests.e2e.command import call
from tests.log_builder import LogBuilder, Pair

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
"""By their numbers in a batch's attributes; each has a topic."""
KEY = re.compile(rb"secret-[0-9a-f]{32}")
OTHER = re.compile(rb"key-[0-9]{12}.{1,2}value [0-9]+", re.DOTALL)
"""Key and value of a record of another key, with the value's length between."""
BATCH = 100
SEGMENT = 10_000
"""Records of a batch and of a segment."""
TRANSACTIONAL = 5
"""One batch of this many is a transaction; every second of these is aborted."""
DAY_MS = 86_400_000
POLICIES = """version: 1
topics:
  - pattern: ".*"
    cleanup.policy: compact
    delete.retention.ms: 86400000
    file.delete.delay.ms: 60000
    max.compaction.lag.ms: 86400000
"""
XERIAL = 16
HEADER = 61


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Where everything is.

    Attributes:
        logs, archive, tables: directories. policies: of the settings.
        keys: file of the planted keys; planted: the same.
    """

    root: Path
    planted: frozenset[bytes]
    now_ms: int

    @property
    def logs(self) -> Path:
        """The log directory."""
        return self.root / "logs"

    @property
    def archive(self) -> Path:
        """A copy of a log that nothing maintains."""
        return self.root / "archive"

    @property
    def table(self) -> Path:
        """The latest state of the first topic."""
        return self.root / "tables"

    @property
    def words(self) -> list[str | Path]:
        """Options of all commands."""
        return ["--policies", self.root / "policies"]

    @property
    def keys(self) -> list[str | Path]:
        """Options with the keys and the secret."""
        return ["--keys", self.root / "keys", "--secret", self.root / "secret"]


class Said(NamedTuple):
    """What `logwright find` said: how often it found something in each file, and other files."""

    status: int
    records: Counter[str]
    unread: set[str]
    kinds: Counter[str]
    seconds: float


def plant(root: Path, *, records: int, keys: int, seed: int) -> World:
    """Write logs, copies and the keys' file. Effects: as said."""
    draw = random.Random(seed)
    planted = [f"secret-{draw.randbytes(16).hex()}".encode() for _ in range(keys)]
    for codec, name in enumerate(CODECS):
        own = planted[codec :: len(CODECS)]
        batches = max(records // len(CODECS) // BATCH, 2)
        write_topic(LogBuilder(root / "logs", f"{name}-0"), codec, batches, own, draw)
    (root / "keys").write_bytes(b"".join(key + b"\n" for key in planted))
    (root / "secret").write_text(draw.randbytes(32).hex())
    (root / "secret").chmod(0o600)
    (root / "policies").mkdir()
    (root / "policies/topics.yml").write_text(POLICIES)
    now_ms = time.time_ns() // 1_000_000  # a directory's own times count too
    world = World(root=root, planted=frozenset(planted), now_ms=now_ms)
    make_copies(world)
    return world


def write_topic(
    log: LogBuilder, codec: int, batches: int, keys: Sequence[bytes], draw: random.Random
) -> None:
    """A log with records of other keys, into which records of these keys are put: live, superseded,
    deleted and aborted. Effects: writes it.
    """
    put: dict[int, list[Pair]] = {}
    for number, key in enumerate(keys):
        for _ in range(1 + number % 3):
            value = f"of {key.decode()} " * draw.randrange(1, 3)
            put.setdefault(draw.randrange(batches), []).append((key, value))
        if number % 7 == 0:
            put.setdefault(batches - 1, []).append((key, None))
    offset = 0
    for number in range(batches):
        if number % (SEGMENT // BATCH) == 0:
            segment = log.segment(offset)
        pairs: list[Pair] = [
            (f"key-{number * BATCH + n:012d}", f"value {draw.randrange(10**12)}")
            for n in range(BATCH)
        ]
        pairs += put.get(number, [])
        if number % TRANSACTIONAL == 0:
            producer = 1000 + number
            segment.batch(
                offset, pairs, codec=codec, producer_id=producer, transactional=True, sequence=0
            )
            offset += len(pairs)
            kind = "abort" if number % (2 * TRANSACTIONAL) == 0 else "commit"
            segment.marker(offset, producer, kind)
            offset += 1
        else:
            segment.batch(offset, pairs, codec=codec)
            offset += len(pairs)
    log.write(producers=True, index_interval=4096, high_watermark=offset)


def make_copies(world: World) -> None:
    """What broker and logwright leave next to a log, and copies elsewhere. Effects: makes them."""
    logs, hexed = world.logs, "0123456789abcdef" * 2
    run(world, "latest", logs, "none", "--to", world.table)
    shutil.copytree(logs / "lz4-0", world.archive / "lz4-0")
    for name in ("cleaner-offset-checkpoint", ".kafka_cleanshutdown"):
        shutil.copy(logs / name, world.archive / name)
    for topic, mark in (("gzip", "stray"), ("snappy", "future"), ("zstd", "delete")):
        shutil.copytree(logs / f"{topic}-0", logs / f"{topic}-0.{hexed}-{mark}")
    first = f"{0:020d}.log"
    shutil.copy(logs / "zstd-0" / first, logs / "zstd-0" / f"{first}.cleaned")
    run(
        world, "clean", logs, "none-0", "lz4-0", "--force", "--yes", *world.words, *at(world.now_ms)
    )
    failed = logs / "snappy-0/.logwright/staging/0123456789abcdef"
    failed.mkdir(parents=True, mode=0o700)
    shutil.copy(logs / "snappy-0" / first, failed / first)


def at(now_ms: int) -> list[str]:
    """The option of the clock."""
    return ["--now", str(now_ms)]


def run(world: World, *words: str | Path, expected: int = 0) -> Any:  # noqa: ANN401 - of `call`
    """Run a command, whose output has none of the keys."""
    done = call(*words)
    assert expected == done.status, (words[0], done.status, done.err[-2000:])
    assert not KEY.search(done.out.encode() + done.err.encode()), words[0]
    return done


def find(world: World, now_ms: int) -> Said:
    """What `logwright find` says of all directories."""
    start = time.perf_counter()
    places = ["--archive", world.archive] if world.archive.exists() else []
    done = call(
        *("find", world.logs, *world.keys, *places, "--table", world.table),
        *(*world.words, *at(now_ms), "--output", "json"),
    )
    assert not KEY.search(done.out.encode() + done.err.encode())
    records: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    unread = set()
    for line in done.lines:
        if "kind" in line and "offset" in line:
            path = str(Path(line["directory"]) / line["path"])
            records[path] += 1
            kinds[f"{line['place']}, {line['kind']}"] += 1
        elif "problem" in line:
            unread.add(str(Path(line["directory"]) / line["path"]))
    return Said(done.status, records, unread, kinds, time.perf_counter() - start)


def searched(world: World) -> Counter[str]:
    """File → planted keys in it, by code that knows only the layout of a batch and the libraries of
    the codecs.
    """
    counts: Counter[str] = Counter()
    for path in sorted(world.root.rglob("*")):
        if not path.is_file() or path == world.root / "keys":
            continue
        seen = sum(
            key in world.planted for content in contents(path) for key in KEY.findall(content)
        )
        if seen:
            counts[str(path)] = seen
    return counts


def others(world: World) -> tuple[int, int]:
    """Number and sum of checksums of the records of other keys in the live segments."""
    differing = [
        zlib.crc32(record)
        for path in world.logs.glob("*-0/*.log")
        for content in contents(path)
        for record in OTHER.findall(content)
    ]
    return len(differing), sum(differing)


def contents(path: Path) -> Iterator[bytes]:
    """The bytes of a file, and what is compressed in it."""
    content = path.read_bytes()
    if path.suffix == ".parquet":
        with duckdb.connect() as connection:
            for row in connection.read_parquet(str(path)).fetchall():
                yield b"\0".join(one for one in row if isinstance(one, bytes))
        return
    if not re.search(r"\.log(\.|$)", path.name):
        yield content
        return
    position = 0
    while position + HEADER <= len(content):
        (length,) = struct.unpack_from(">i", content, position + 8)
        (attributes,) = struct.unpack_from(">h", content, position + 21)
        batch = content[position + HEADER : position + 12 + length]
        yield decompressed(attributes & 7, batch) if batch else b""
        position += 12 + length
    yield b"" if position == len(content) else content[position:]


def decompressed(codec: int, content: bytes) -> bytes:
    """A batch's records."""
    if codec == 0:
        return content
    if codec == 1:
        return bytes(cramjam.gzip.decompress(content))
    if codec == 2:
        parts, position = [], XERIAL
        while position < len(content):
            (size,) = struct.unpack_from(">i", content, position)
            block = content[position + 4 : position + 4 + size]
            parts.append(bytes(cramjam.snappy.decompress_raw(block)))
            position += 4 + size
        return b"".join(parts)
    if codec == 3:
        return bytes(lz4.frame.decompress(content))
    return zstandard.ZstdDecompressor().decompressobj().decompress(content)


def certified(world: World, now_ms: int, deadline_ms: int, expected: int) -> dict[str, Any]:
    """The certificate of this moment, checked. Effects: writes it."""
    signing, out = world.root / "signing.pem", world.root / f"certificate-{now_ms}.json"
    if not signing.exists():
        run(world, "certificate", "--new-key", signing)
    archive = ["--archive", world.archive] if world.archive.exists() else []
    run(
        world,
        *("certificate", world.logs, *archive, "--table", world.table, *world.keys),
        *("--signing-key", signing, "--out", out, "--deadline", str(deadline_ms)),
        *(*world.words, *at(now_ms)),
        expected=expected,
    )
    public = ["--public-key", world.root / "signing.pem.pub"]
    run(world, "verify-certificate", out, *public)
    text = out.read_bytes()
    signed: dict[str, Any] = json.loads(text)
    return signed


def prove_at_once(world: World) -> Iterator[str]:
    """Find, erase at once, and find nothing. Yields what happened."""
    before, search, known = searched(world), find(world, world.now_ms), others(world)
    yield f"before: {len(before)} files with {sum(before.values())} places by the plain search"
    yield f"find: status {search.status}, {search.records.total()} records, {search.seconds:.1f} s"
    yield f"kinds: {dict(sorted(search.kinds.items()))}; not searched: {len(search.unread)}"
    assert set(before) == set(search.records) | (search.unread & set(before))
    start = time.perf_counter()
    for place in (world.logs, world.archive):
        run(
            world,
            *("erase", place, *world.keys, "--now-and-for-good", "--yes", *world.words),
            *at(world.now_ms),
        )
    run(world, "latest", world.logs, "none", "--to", world.table)
    yield f"erased at once in {time.perf_counter() - start:.1f} s"
    assert searched(world) == Counter()
    assert known == others(world)
    yield f"{known[0]} records of other keys are the same"
    after = find(world, world.now_ms)
    assert (0, {}) == (after.status, dict(after.records)), (after, after.unread)
    certificate = certified(world, world.now_ms, world.now_ms + DAY_MS, 0)
    yield f"after: nothing in {len(certificate['certificate']['manifest'])} files, certified"


def prove_by_rules(world: World) -> Iterator[str]:
    """Erase by the rules until the deadline; before it each file is named. Yields what happened."""
    now_ms, deadline_ms = world.now_ms, world.now_ms + 10 * DAY_MS
    for path in [*world.logs.glob("*-stray"), *world.logs.glob("*-future"), world.archive]:
        shutil.rmtree(path)
    for day in range(5):
        done = call("erase", world.logs, *world.keys, "--yes", *world.words, *at(now_ms))
        remains = any(path.startswith(str(world.logs)) for path in searched(world))
        assert done.status in ((8, 9) if remains else (0,)), (day, done.status, done.err[-2000:])
        run(world, "latest", world.logs, "none", "--to", world.table)
        left, search = searched(world), find(world, now_ms)
        assert set(left) == set(search.records) | (search.unread & set(left)), day
        counts = f"{len(left)} files, {search.records.total()} records"
        yield f"day {day}: {counts}; {dict(search.kinds)}"
        if not left:
            break
        run(world, "purge", world.logs, "--yes", *world.words, *at(now_ms))
        now_ms += DAY_MS + 120_000
    assert searched(world) == Counter()
    certificate = certified(world, now_ms, deadline_ms, 0)
    yield f"gone by the rules: {len(certificate['certificate']['manifest'])} files, certified"


def prove(root: Path, *, records: int, keys: int, seed: int) -> Iterator[str]:
    """Both ways, from the same beginning. Yields what happened. Effects: writes below `root`."""
    start = time.perf_counter()
    world = plant(root / "at-once", records=records, keys=keys, seed=seed)
    yield f"planted {keys} keys in {records} records: {time.perf_counter() - start:.0f} s"
    shutil.copytree(world.root, root / "by-rules", symlinks=True)
    yield from prove_at_once(world)
    yield from prove_by_rules(
        World(root=root / "by-rules", planted=world.planted, now_ms=world.now_ms)
    )


def main(arguments: list[str]) -> int:
    """Run it; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.erasure_proof")
    parser.add_argument("--records", type=int, default=5_000_000)
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--work", type=Path)
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(dir=chosen.work) as root:
        sizes = {"records": chosen.records, "keys": chosen.keys, "seed": chosen.seed}
        for line in prove(Path(root), **sizes):
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
