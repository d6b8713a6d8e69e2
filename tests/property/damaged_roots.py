"""Random damage to the root and logs of small log directories, recovered, then started by Kafka.

    python -m tests.property.damaged_roots --count N --seed S [--kafka 4.4]

For each seed: a directory of one to four of Kafka's own logs is damaged. `recover` runs; what it
refuses is treated as the remedy of its error says, and it runs again. Then:

1. What it marked as clean is opened by all that a broker reads at its start (oracle's ``boot``).
2. Every batch that Kafka keeps, when it loads the same damage with a root made right by hand, is in
   the recovered log, or is kept in ``.logwright/cut``.
3. Where `doctor` says that offsets are missing from a log's end, they begin where Kafka's log
   ends; and where the checkpoints of a clean stop have more than Kafka's log, it says so. A
   recovery asked before it took such a log for what is there.
4. What is not marked as clean was refused by name, and is a broker's to decide (an old format).
"""

from __future__ import annotations

import base64
import re
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from logwright.format.checkpoints import parse_offset_checkpoint
from logwright.format.valid import valid_batches
from tests.differential.oracle_server import OracleServer, shared
from tests.differential.random_logs import scratch_directory
from tests.e2e.command import Answer, call
from tests.property.accidents import (
    CHECKPOINTS,
    DAMAGES,
    MARKER,
    META,
    NOW_MS,
    World,
    copy_over,
    make,
    rewrite,
)
from tests.property.long_form import main

MOST_ROUNDS = 8
JUDGED = (0, 11)
"""Exit statuses of `doctor` where a broker starts: else it does not look at all of a log."""
OLD_FORMAT = 4
"""Exit status if a log of an old format is left to a broker."""


class Wrong(AssertionError):
    """What must never be seen; the message says what."""


def follow(error: dict[str, Any], world: World, random: Random, words: list[str]) -> None:
    """Do what the remedy of an error says. Effects: changes the root, or the command's words."""
    path, remedy = Path(error["path"]), error["remedy"] or ""
    ways: list[Callable[[], None]] = []
    if "--accept-loss allows it" in remedy or "--accept-loss takes the log" in remedy:
        ways.append(lambda: words.append("--accept-loss"))
    if "Move it out of the log directory" in remedy:
        ways.append(lambda: shutil.move(path, world.root.parent / f"away-{random.random()}"))
    if "rmdir" in remedy:
        ways.append(path.rmdir)
    if "Restore it, or write it: version=1" in remedy:
        ids = "version=1\nnode.id=1\ncluster.id=Y2x1c3RlcmNsdXN0ZXJjbA\n"
        ways += [lambda: rewrite(path, META.encode()), lambda: rewrite(path, ids.encode())]
    if "or remove it: a broker then renames the log to -stray" in remedy:
        ways.append(path.unlink)
        own = path.parent.name
        others = [one for one in world.logs if one[0] == own[0] and one != own]
        ways += [partial(copy_over, world.whole / one / path.name, path) for one in others]
    if remedy == "Remove it.":
        ways.append(lambda: shutil.rmtree(path) if path.is_dir() else path.unlink())
    if "Move it away" in remedy:
        named = error["problem"].partition("a file ")[2]
        strange = re.findall(r"\S+", named.rstrip("."))
        ways.append(lambda: [(path / one.strip(",")).unlink() for one in strange] and None)
    if "restore the segment" in remedy.lower():
        ways.append(lambda: restore(world, path, is_refused="loading fails" in remedy))
    if not ways:
        raise Wrong(f"no remedy to follow: {error['message']}")
    random.choice(ways)()


def restore(world: World, segment: Path, *, is_refused: bool) -> None:
    """Restore a segment, and remember its content before if Kafka is said to refuse it."""
    place = segment.relative_to(world.root)
    world.restored[place] = segment.read_bytes() if is_refused else b""
    rewrite(segment, (world.whole / place).read_bytes())


def recover(world: World, random: Random) -> tuple[Answer, bool]:
    """Run `recover`, and what its errors say, until nothing is left to do.

    Returns:
        the last answer; whether a remedy was followed.
    """
    words = ["--config", "cleanup.policy=compact"] if random.random() < 0.3 else []
    seen: set[str] = set()
    for number in range(MOST_ROUNDS):
        answer = call("recover", world.root, "--yes", "--output", "json", "--now", NOW_MS, *words)
        errors = [one for one in answer.errors if "A broker loads it" not in (one["remedy"] or "")]
        if not errors and answer.status not in (0, 4):
            errors = [top_error(answer)]
        if not errors:
            return answer, number > 0
        for error in {one["message"]: one for one in errors}.values():
            if error["message"] in seen:
                raise Wrong(f"the remedy changes nothing: {error['message']}")
            seen.add(error["message"])
            follow(error, world, random, words)
    raise Wrong(f"{MOST_ROUNDS} rounds: {answer.err}")


def top_error(answer: Answer) -> dict[str, Any]:
    """An error of the whole command, which is on stderr only."""
    matched = re.search(r"Error: (/[^:\s]+)(?: at byte \d+)?: ([^.]*\.) (.*)", answer.err)
    if matched is None:
        raise Wrong(f"status {answer.status} without an error: {answer.err}")
    keys = ("path", "problem", "remedy")
    return {"message": matched[0], **dict(zip(keys, matched.groups(), strict=True))}


def content_of(directory: Path) -> dict[tuple[int, int], bytes]:
    """The batches of a log by base offset and CRC."""
    contents = {}
    for path in sorted(directory.glob("*.log")):
        data = path.read_bytes()
        for row in batches_in(data):
            batch = data[row[0] : row[0] + row[1]]
            contents[row[2], int.from_bytes(batch[17:21], "big")] = batch
    return contents


def batches_in(data: bytes) -> list[tuple[int, int, int]]:
    rows = valid_batches(np.frombuffer(data, np.uint8), base_offset=0, check_crcs=False).batches
    return [(int(r["position"]), int(r["size"]), int(r["base_offset"])) for r in rows]


def load_by_hand(
    world: World, server: OracleServer, place: Path
) -> tuple[Path | None, dict[str, Any]]:
    """The same damage with a root made right by hand, as Kafka loads it; None if it does not. With
    the logs' offsets, none if checkpoints had to go.
    """
    for number, checkpoints in enumerate(((), CHECKPOINTS)):
        root = place / f"by-hand-{number}"
        shutil.copytree(world.root, root, copy_function=shutil.copy2)
        for make_right in world.by_hand:
            make_right(root)
        for checkpoint in checkpoints:
            (root / checkpoint).unlink(missing_ok=True)
        boot = server.boot(root, NOW_MS)
        if "bootFailed" not in boot:
            return root, {} if checkpoints else boot["logs"]
    return None, {}


def require_seen(world: World, logs: dict[str, Any], answer: Answer) -> bool:
    """Hold what `doctor` says to be missing against the ends of Kafka's logs; whether a recovery
    must ask.
    """
    missing = {
        Path(line["path"]).name: line
        for line in answer.lines
        if line.get("offsets") and line["endOffset"] is not None
    }
    for name, line in missing.items():
        end = logs.get(name, {}).get("endOffset")
        if end is not None and line["endOffset"] > end and line["firstOffset"] != end:
            raise Wrong(f"{name}: {line['problem']} Kafka's log ends at {end}")
    points = world.root / CHECKPOINTS[0]
    is_whole = points.exists() and points.read_bytes() == (world.whole / points.name).read_bytes()
    is_clean = (world.root / MARKER).exists()
    if is_whole and is_clean and answer.status in JUDGED:
        for partition, point in parse_offset_checkpoint(points.read_bytes(), points).items():
            name = partition.directory_name
            end = logs.get(name, {}).get("endOffset")
            if end is not None and end < point and name not in missing:
                raise Wrong(f"{name}: Kafka's log ends at {end} of {point}: {answer.out}")
    cut = {Path(line["path"]).parent.name for line in answer.lines if line.get("bytes")}
    return any(name in world.logs and name not in cut for name in missing)


def check(seed: str, scratch: Path, server: OracleServer) -> str:
    """Damage, recover and start one directory; return what became of it."""
    random = Random(seed)
    world = make(random, scratch)
    for _ in range(random.choice((1, 1, 1, 2, 2, 3))):
        random.choice(DAMAGES)(world, random)
    kafkas, logs = load_by_hand(world, server, scratch)
    asks = require_seen(
        world, logs, call("doctor", world.root, "--output", "json", "--now", NOW_MS)
    )
    answer, followed = recover(world, random)
    if asks and not followed:
        raise Wrong(f"records are missing, and a recovery does not ask: {world.done}")
    clean = (world.root / MARKER).exists()
    if not clean and answer.status != OLD_FORMAT:
        raise Wrong(f"neither marked nor refused: {answer.status} {answer.err}")
    if kafkas is not None:
        compare(world, kafkas)
    boot = server.boot(world.root, NOW_MS)
    if "bootFailed" in boot:
        raise Wrong(f"marked as clean: {clean}, and Kafka says {boot['bootFailed']}")
    for name, log in boot["logs"].items():
        if name in world.logs and log["topicId"] not in (world.logs[name], None) and clean:
            written = (world.root / name / "partition.metadata").read_text().split()[-1]
            if id_bytes(log["topicId"]) != id_bytes(written):
                raise Wrong(f"{name} has topic id {log['topicId']}")
    if not clean:
        return "left to a broker"
    return "clean after remedies" if followed else "clean"


def id_bytes(topic_id: str) -> bytes:
    """The 16 bytes of a topic id; several texts have the same."""
    return base64.urlsafe_b64decode(f"{topic_id}==")


def compare(world: World, kafkas: Path) -> None:
    """Every batch that Kafka keeps is in the recovered log, or kept aside. A segment that had to be
    restored is not one that Kafka keeps as it was.
    """
    for place, content in world.restored.items():
        if not batches_in(content):
            continue
        kept = kafkas / place
        if kept.exists() and kept.read_bytes() == content:
            raise Wrong(f"{place} had to be restored, and Kafka keeps it")
    restored = {place.parts[0] for place in world.restored}
    for name in world.logs.keys() - restored:
        ours = content_of(world.root / name)
        missing = content_of(kafkas / name).keys() - ours.keys()
        if missing:
            kept = b"".join(
                path.read_bytes()
                for path in (world.root / name / ".logwright" / "cut").rglob("*")
                if path.is_file()
            )
            lost = content_of(kafkas / name)
            gone = [one for one in missing if lost[one] not in kept]
            if gone:
                raise Wrong(f"{name}: Kafka keeps {len(gone)} batches, first at {min(gone)}")


def run(count: int, seed: int) -> Iterator[tuple[str, str]]:
    """Yield (seed, what became of it)."""
    with scratch_directory() as scratch:
        for number in range(count):
            name = f"{seed}-{number}"
            place = scratch / name
            place.mkdir()
            try:
                yield name, check(name, place, shared())
            except Wrong as wrong:
                yield name, f"WRONG: {wrong}"
            finally:
                shutil.rmtree(place)


if __name__ == "__main__":
    main(run)
