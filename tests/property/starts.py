"""Random damage to a broker's log directories: what `doctor` says of its start, and Kafka's start.

    python -m tests.property.starts --count N --seed S [--kafka 4.4]

For each seed: one or two directories of Kafka's own logs, damaged as in `accidents`, mixed up with
each other or with those of another node. Then Kafka loads them (oracle's ``boot``). Where `doctor`
says that a broker starts, or does not, that is what Kafka does, and it removes as many bytes. It
may only say that it does not know of a directory or file that is taken for another one, and of a
batch with a wrong CRC, an unknown magic, or an index that does not fit it. The
oracle's loading knows no cluster: what `doctor` says that a broker renames to -stray is renamed
before.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random

from logwright.rescue.model import StartVerdict
from logwright.rescue.start import judge_start
from tests.differential.oracle_server import OracleServer, shared
from tests.differential.random_logs import scratch_directory
from tests.property.accidents import DAMAGES, META, NOW_MS, World, make
from tests.property.long_form import main

OTHER_ID = "b3RoZXItZGlyZWN0b3J5LQ"
IDENTITIES = (
    META.replace("YWJjZGVmZ2hpamtsbW5vcA", OTHER_ID),
    META.replace("YWJjZGVmZ2hpamtsbW5vcA", OTHER_ID),
    META.replace("YWJjZGVmZ2hpamtsbW5vcA", OTHER_ID),
    META.replace("YWJjZGVmZ2hpamtsbW5vcA", OTHER_ID).replace("node.id=1", "node.id=2"),
    META.replace("YWJjZGVmZ2hpamtsbW5vcA", OTHER_ID).replace("cluster.id=Y", "cluster.id=Z"),
    META,
    "version=1\nnode.id=1\ncluster.id=Y2x1c3RlcmNsdXN0ZXJjbA\n",
    None,
)


def second(world: World, random: Random) -> Path:
    """Another directory, with some of the logs, moved or copied. Effects: writes it."""
    root = world.root.with_name("second")
    root.mkdir()
    content = random.choice(IDENTITIES)
    if content is not None:
        (root / "meta.properties").write_text(content)
    names = sorted(path.name for path in world.root.iterdir() if path.name in world.logs)
    for name in random.sample(names, random.randrange(len(names) + 1)):
        target = root / random.choice((name, name, name, f"{name}.{'0f' * 16}-future"))
        if random.random() < 0.8:
            shutil.move(world.root / name, target)
        else:
            shutil.copytree(world.root / name, target)
    if random.random() < 0.5:
        (root / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":7}')
    return root


def check(seed: str, scratch: Path, server: OracleServer) -> str:
    """What became of one seed: ``starts``, ``does not``, ``not known``, or what is wrong."""
    random = Random(seed)
    world = make(random, scratch)
    for _ in range(random.choice((0, 1, 1, 1, 2))):
        random.choice(DAMAGES)(world, random)
    log_dirs = [world.root]
    if random.random() < 0.4:
        log_dirs.append(second(world, random))
    verdict = judge_start(log_dirs, now_ms=NOW_MS)
    booted = [shutil.copytree(each, scratch / "booted" / each.name) for each in log_dirs]
    for each in verdict.findings:
        if each.effect == "sets aside" and not each.path.name.endswith("-stray"):
            copied = scratch / "booted" / each.path.parent.name / each.path.name
            copied.rename(copied.with_name(f"{copied.name}.{'5' * 32}-stray"))
    answer = server.ask(
        {
            "request": "boot",
            "logDirs": [str(each) for each in booted],
            "identity": True,
            "now": NOW_MS,
        }
    )
    starts = "bootFailed" not in answer
    if verdict.starts is None:
        return "not known" if _may_be_unknown(verdict) else f"WRONG: not known: {_said(verdict)}"
    if verdict.starts != starts:
        return f"WRONG: {world.done}: {_said(verdict)}, Kafka: {answer.get('bootFailed', 'starts')}"
    lost = segment_bytes(log_dirs) - segment_bytes(booted)
    if starts and lost != verdict.lost_bytes:
        return f"WRONG: {world.done}: Kafka removed {lost} bytes: {_said(verdict)}"
    return "starts" if starts else "does not"


def segment_bytes(log_dirs: list[Path]) -> int:
    """Bytes of all segments."""
    return sum(path.stat().st_size for each in log_dirs for path in each.glob("*-*/*.log"))


def _may_be_unknown(verdict: StartVerdict) -> bool:
    unknown = [each for each in verdict.findings if each.effect == "not judged"]
    words = (
        *("takes this directory for", "no broker writes a file", "CRC"),
        *("names no record batch", "magic"),
    )
    return all(any(word in each.problem for word in words) for each in unknown)


def _said(verdict: StartVerdict) -> str:
    findings = [(str(each.path), each.effect, each.problem) for each in verdict.findings]
    return f"{verdict.starts} {findings}"


def run(count: int, seed: int) -> Iterator[tuple[str, str]]:
    """Yield (seed, what became of it)."""
    with scratch_directory() as scratch:
        for number in range(count):
            name = f"{seed}-{number}"
            place = scratch / name
            place.mkdir()
            yield name, check(name, place, shared())
            shutil.rmtree(place, ignore_errors=True)  # Kafka may still remove a log in it


if __name__ == "__main__":
    main(run)
