"""Damages of a log directory, one by one: Kafka's start before, what `doctor` says, what it names
as the remedy, and Kafka's start after it; the same with `rescue`, which is then undone. No record
is lost but those whose bytes are gone.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

from tests.differential.oracle_server import OracleServer, shared
from tests.e2e.command import call
from tests.property.accidents import (
    CHECKPOINTS,
    MARKER,
    META,
    NOW_MS,
    World,
    make,
    rewrite,
    write_offsets,
)
from tests.property.damaged_roots import content_of

pytestmark = pytest.mark.oracle

ZEROS = bytes(64)
STRANGER = "is not in the form of topic-partition"
IDS = "No readable meta.properties files found"
NO_IDS = "no node id or no cluster id"
OFFLINE = "went offline"
UNREAD = "Error while reading checkpoint file"
NO_NUMBER = "NumberFormatException"
TWICE = "Duplicate log directories"

Damage = Callable[[Path, Path], object]
"""What is done to a log directory, and to a log in it."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """A damage.

    Attributes:
        kafka: a part of what Kafka's start says before; empty: it starts.
        says: a part of the line of `doctor`; empty: no more than that it starts.
        cure: what its remedy says: ``recover``, ``move``, ``remove`` or ``ids``; empty: nothing.
        path: that is moved away or removed, below the log directory; ``LOG`` is the log's.
        lost: how many record batches cannot be had again.
        loses: a start loses some, which a rescue keeps or leaves.
    """

    do: Damage
    kafka: str = ""
    says: str = ""
    cure: str = ""
    path: str = ""
    lost: int = 0
    loses: bool = False


def directory(name: str, kafka: str = STRANGER) -> Case:
    """A directory that no broker makes."""
    return Case(
        do=lambda root, _: (root / name).mkdir(),
        kafka=kafka,
        says="the directory's name is not that of a partition",
        cure="move",
        path=name,
    )


def written(name: str, content: bytes, kafka: str, says: str, cure: str = "recover") -> Case:
    """A file with other content; ``LOG`` is the log's directory."""

    def do(root: Path, log: Path) -> None:
        rewrite((log if name.startswith("LOG/") else root) / name.removeprefix("LOG/"), content)

    return Case(do=do, kafka=kafka, says=says, cure=cure, path=name)


def without(suffix: str, lost: int = 0) -> Case:
    """All files of a suffix are gone."""

    def do(_: Path, log: Path) -> None:
        for path in log.glob(f"*{suffix}"):
            path.unlink()

    return Case(do=do, lost=lost)


def zeros(suffix: str) -> Case:
    """All files of a suffix have zeros."""

    def do(_: Path, log: Path) -> None:
        for path in log.glob(f"*{suffix}"):
            rewrite(path, bytes(path.stat().st_size))

    return Case(do=do)


def last(change: Callable[[bytes], bytes], *, clean: bool, **more: object) -> Case:
    """The newest segment that has records, after a stop that was clean or not."""

    def do(root: Path, log: Path) -> None:
        path = max(path for path in log.glob("*.log") if path.stat().st_size)
        rewrite(path, change(path.read_bytes()))
        if not clean:
            (root / MARKER).unlink()

    return Case(do=do, **more)  # type: ignore[arg-type]  # fields of a case


def last_gone(suffix: str) -> Case:
    """Files of the newest segment that has records, and of those after it."""

    def do(_: Path, log: Path) -> None:
        filled = max(path for path in log.glob("*.log") if path.stat().st_size)
        for path in log.glob(f"*{suffix}"):
            if path.suffix != ".snapshot" and filled.stem <= path.stem < "A":
                path.unlink()

    return Case(do=do, says="no segment has offset", loses=True)


def without_logs(_: Path, log: Path) -> None:
    """A copy that left them out."""
    for path in log.glob("*.log"):
        path.unlink()


def flipped(root: Path, log: Path) -> None:
    """One bit of the first segment, after an unclean stop before anything was flushed."""
    path = min(log.glob("*.log"))
    content = bytearray(path.read_bytes())
    content[200] ^= 1
    rewrite(path, bytes(content))
    (root / MARKER).unlink()
    (root / CHECKPOINTS[0]).unlink()


def twice(root: Path, log: Path) -> None:
    """A second directory of the partition."""
    shutil.copytree(log, root / f"{log.name[:-1]}0{log.name[-1]}")


def two_futures(root: Path, log: Path) -> None:
    """Two unfinished moves of a partition."""
    for letter in "ab":
        shutil.copytree(log, root / f"{log.name}.{letter * 32}-future")


def beyond(root: Path, log: Path) -> None:
    """A log start offset above the log."""
    write_offsets(root / CHECKPOINTS[1], {log.name: 10**9})


CASES = {
    "lost+found": Case(
        do=lambda root, _: (root / "lost+found").mkdir(),
        kafka=STRANGER,
        says="Remove it with rmdir",
        cure="remove",
        path="lost+found",
    ),
    "a directory of backups": directory("backup"),
    "a hidden directory": directory(".snapshot"),
    "a directory with the name of a checkpoint": directory("cleaner-offset-checkpoint.tmp"),
    "a deleted log without an id": directory("x-delete"),
    **{f"{name}: zeros": written(name, ZEROS, "", "line 1") for name in CHECKPOINTS},
    "recovery points: another version": written(CHECKPOINTS[0], b"1\n0\n", OFFLINE, "version is 1"),
    "high watermarks: no number": written(
        CHECKPOINTS[2], b"0\n1\na 0 12x\n", NO_NUMBER, "malformed or out of range"
    ),
    "cleaner offsets: another count": written(
        CHECKPOINTS[3], b"0\n5\na 0 1\n", UNREAD, "the count is 5"
    ),
    "meta.properties: empty": written("meta.properties", b"", NO_IDS, "no node id", "ids"),
    "meta.properties: zeros": written("meta.properties", ZEROS, NO_IDS, "no node id", "ids"),
    "meta.properties: cut": written(
        "meta.properties", b"version=1\nnode.id=1\nclus", IDS, "has no cluster.id", "ids"
    ),
    "meta.properties: another version": written(
        "meta.properties", META.replace("=1\n", "=2\n", 1).encode(), IDS, "another version", "ids"
    ),
    "meta.properties: not there": Case(
        do=lambda root, _: (root / "meta.properties").unlink(),
        kafka=IDS,
        says="the directory is not formatted",
        cure="ids",
    ),
    "partition.metadata: empty": written(
        "LOG/partition.metadata", b"", "NullPointerException", "it has no version"
    ),
    "partition.metadata: zeros": written(
        "LOG/partition.metadata", ZEROS, OFFLINE, "it has no version"
    ),
    "partition.metadata: not there": Case(
        do=lambda _, log: (log / "partition.metadata").unlink(),
        says="starts, and sets a log aside",
    ),
    "leader epochs: zeros": written("LOG/leader-epoch-checkpoint", ZEROS, OFFLINE, "line 1"),
    "leader epochs: another count": written(
        "LOG/leader-epoch-checkpoint", b"0\n2\n0 0\n", OFFLINE, "the count is 2"
    ),
    "a strange .log": written("LOG/x.log", b"", NO_NUMBER, "no broker writes a file", "remove"),
    "a strange .index": written(
        "LOG/old.index", b"", NO_NUMBER, "no broker writes a file", "remove"
    ),
    "a strange .snapshot": written(
        "LOG/x.snapshot", b"", NO_NUMBER, "no broker writes a file", "remove"
    ),
    "one partition twice": Case(
        do=twice, kafka=TWICE, says="takes this directory for the log of", cure="move", path="LOG0"
    ),
    "two moves of one partition": Case(
        do=two_futures,
        kafka=TWICE,
        says="is of the same partition",
        cure="move",
        path=f"LOG.{'b' * 32}-future",
    ),
    "indexes: not there": without(".index"),
    "time indexes: not there": without(".timeindex"),
    "snapshots: not there": without(".snapshot"),
    "indexes: zeros": zeros(".index"),
    "time indexes: zeros": zeros(".timeindex"),
    "snapshots: zeros": zeros(".snapshot"),
    "a torn tail, clean": last(
        lambda content: content[:-5], clean=True, says="no segment has offset", lost=1, loses=True
    ),
    "a torn tail": last(
        lambda content: content[:-5],
        clean=False,
        says="the record batch is cut off",
        lost=1,
        loses=True,
    ),
    "zeros at the end": last(
        lambda content: content + bytes(4096),
        clean=False,
        says="By its files a broker starts, and removes 4.0 KiB",
    ),
    "zeros at the end, clean": last(
        lambda content: content + bytes(4096),
        clean=True,
        kafka="Found record size 0",
        says="as in a zero-filled tail",
        cure="recover",
    ),
    "no .log is there": Case(do=without_logs, says="no segment has offsets", loses=True),
    "the last .log is not there": last_gone(".log"),
    "nothing of the last segment is there": last_gone(".*"),
    "a bit flipped in the first segment": Case(
        do=flipped, says="starts, and loses records", loses=True
    ),
    "a log start offset above the log": Case(do=beyond, says="below its start offset", loses=True),
    "staged output": written(f"LOG/{0:020d}.log.cleaned", b"", "", "", ""),
    "a retired segment": written(f"LOG/{0:020d}.log.deleted", b"x", "", "", ""),
}


@pytest.fixture
def server() -> OracleServer:
    """Of the oldest Kafka, or that of `--kafka`."""
    return shared()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return cleanly_stopped(tmp_path_factory)


def cleanly_stopped(places: pytest.TempPathFactory) -> World:
    """Two logs and the cluster's metadata in a directory that was stopped cleanly."""
    for number in range(1_000):
        place = places.mktemp("world")
        made = make(Random(f"catalogue-{number}"), place)
        has_metadata = (made.root / "__cluster_metadata-0").exists()
        if len(made.logs) > 1 and has_metadata and (made.root / MARKER).exists():
            return made
        shutil.rmtree(place)
    raise AssertionError


@pytest.mark.rotates(4)
@pytest.mark.parametrize("name", CASES)
def test_a_damage(name: str, world: World, server: OracleServer, tmp_path: Path) -> None:
    """Each is judged rightly, and what is said cures it."""
    case, log = CASES[name], min(world.logs)
    root = shutil.copytree(world.whole, tmp_path / "root", copy_function=shutil.copy2)
    case.do(root, root / log)
    answer = call("doctor", root, "--now", NOW_MS)
    fails = start(server, root, tmp_path / "before")
    assert case.kafka in fails
    assert bool(fails) == bool(case.cure) == (answer.status == 5), (fails, answer.out, answer.err)
    if case.says:
        assert case.says in answer.out
    elif not fails:
        assert answer.out.startswith("By its files a broker starts"), answer.out
    assert case.loses == (answer.status == 11), answer.out
    cure(case, root, log, tmp_path)
    assert (11 if case.loses else 0) == call("doctor", root, "--now", NOW_MS).status
    assert not start(server, root, tmp_path / "after")
    if case.cure or case.lost:
        assert case.lost == missing(world.whole, root, log)


@pytest.mark.rotates(4)
@pytest.mark.parametrize("name", CASES)
def test_a_rescue(name: str, world: World, server: OracleServer, tmp_path: Path) -> None:
    """Kafka starts afterwards, with all records that there are; what was in the way is kept, and an
    undo brings it back.
    """
    case, log = CASES[name], min(world.logs)
    root = shutil.copytree(world.whole, tmp_path / "root", copy_function=shutil.copy2)
    case.do(root, root / log)
    log_dirs = [root]
    if case.cure == "ids":
        log_dirs.append(sibling(tmp_path))
    named = [root / path_of(case, log)] if name in NAMED else []
    lost = missing(world.whole, root, log) if name in GONE else case.lost
    assert bool(lost) or name not in GONE
    before = contents(root)
    arguments = [*log_dirs, *(part for path in named for part in ("--set-aside", path))]
    planned = call("rescue", *arguments, "--dry-run", "--now", NOW_MS)
    assert before == contents(root)
    assert (5 if case.cure else 11 if case.loses else 0) == planned.status
    done = call("rescue", *arguments, "--yes", "--now", NOW_MS)
    assert (11 if name in KEPT_LOSS else 0) == done.status, (done.out, done.err)
    assert "by hand: " not in done.out
    assert not start(server, root, tmp_path / "after")
    assert lost == missing(world.whole, root, log)
    again = call("rescue", *log_dirs, "--yes", "--now", NOW_MS)
    assert again.out.startswith("Nothing to do.") or name in KEPT_LOSS, again.out
    if case.path and case.cure:
        assert 0 == call("rescue", *log_dirs, "--undo", "--yes").status
        shown = contents(root)
        path = path_of(case, log)
        assert shown[path] == before[path]


NAMED = ("one partition twice", "two moves of one partition")
"""Which log of two is kept, nobody but an operator decides."""
GONE = ("no .log is there", "the last .log is not there", "nothing of the last segment is there")
KEPT_LOSS = ("a bit flipped in the first segment", "a log start offset above the log", *GONE)
"""A rescue leaves the log as it is without --accept-loss."""


def path_of(case: Case, log: str) -> str:
    """The path that a case is about, below the log directory."""
    return case.path.replace("LOG0", f"{log[:-1]}0{log[-1]}").replace("LOG", log)


def sibling(place: Path) -> Path:
    """Another directory of the broker, without a log."""
    root = place / "second"
    root.mkdir()
    other = META.replace("YWJjZGVmZ2hpamtsbW5vcA", "b3RoZXItZGlyZWN0b3J5LQ")
    (root / "meta.properties").write_text(other)
    (root / MARKER).write_text('{"version":0,"brokerEpoch":7}')
    return root


def contents(root: Path) -> dict[str, bytes | None]:
    """All files and directories below a directory, without its lock."""
    return {
        str(path.relative_to(root)): path.read_bytes() if path.is_file() else None
        for path in sorted(root.rglob("*"))
        if path.name != ".lock"
    }


def test_a_loss_that_is_accepted(world: World, server: OracleServer, tmp_path: Path) -> None:
    """What is removed is counted, and kept."""
    log = min(world.logs)
    root = shutil.copytree(world.whole, tmp_path / "root", copy_function=shutil.copy2)
    flipped(root, root / log)
    refused = call("rescue", root, "--yes", "--now", NOW_MS)
    assert 0 == missing(world.whole, root, log)
    assert "--accept-loss allows it" in refused.err
    done = call("rescue", root, "--yes", "--accept-loss", "--now", NOW_MS)
    assert (0, True) == (done.status, "removed bytes are kept in" in done.out), done.err
    assert missing(world.whole, root, log) > 0
    assert not start(server, root, tmp_path / "after")


def test_a_wrong_log_start_offset(world: World, server: OracleServer, tmp_path: Path) -> None:
    """Without the checkpoint the log begins with its first segment: nothing is removed."""
    log = min(world.logs)
    root = shutil.copytree(world.whole, tmp_path / "root", copy_function=shutil.copy2)
    beyond(root, root / log)
    assert "and removes" in call("doctor", root, "--now", NOW_MS).out
    path = root / CHECKPOINTS[1]
    done = call("rescue", root, "--set-aside", path, "--yes", "--now", NOW_MS)
    assert (0, False) == (done.status, "and removes" in done.out)
    booted = shutil.copytree(root, tmp_path / "after", copy_function=shutil.copy2)
    assert "bootFailed" not in server.boot(booted, NOW_MS)
    assert 0 == missing(world.whole, booted, log)


def start(server: OracleServer, root: Path, copy: Path) -> str:
    """What Kafka's start says, on a copy; empty if it starts."""
    answer = server.boot(shutil.copytree(root, copy, copy_function=shutil.copy2), NOW_MS)
    return str(answer.get("bootFailed", ""))


def cure(case: Case, root: Path, log: str, away: Path) -> None:
    """Do what the remedy says."""
    path = root / path_of(case, log)
    match case.cure:
        case "recover":
            assert 0 == call("recover", root, "--yes", "--now", NOW_MS).status
        case "move":
            shutil.move(path, away / "moved")
        case "remove":
            path.rmdir() if path.is_dir() else path.unlink()
        case "ids":
            rewrite(root / "meta.properties", META.encode())


def missing(whole: Path, root: Path, log: str) -> int:
    """How many record batches are not there any more."""
    return len(content_of(whole / log).keys() - content_of(root / log).keys())
