"""Directories that pairs of old brokers left, whole and without some files: what Kafka's loader
makes of them is what `recover` makes, and what it loses is what `doctor` and `verify` name.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from logwright.format.snapshot import ProducerEntry, parse_snapshot
from tests import old_directories as old
from tests.comparison import compare_checkpoints, compare_partition, read_checkpoint
from tests.differential.old_logs import read_plainly
from tests.differential.oracle_server import OracleServer, shared
from tests.e2e.command import call
from tests.old_formats import last_offset
from tests.property.accidents import CHECKPOINTS, MARKER
from tests.property.damaged_roots import content_of

pytestmark = pytest.mark.oracle

EXPIRATION_MS = 86_400_000
LOSES, PROBLEMS, REFUSED = 11, 3, 5
SETTINGS = [word for pair in old.CONFIG.items() for word in ("--config", "=".join(pair))]
UNKNOWN_TO_0_10 = ("snapshots", ".txnindex", "leader epochs", CHECKPOINTS[1])
"""What brokers before 0.11 do not write."""
CASES = [
    (version, state, name)
    for version, state in old.DIRECTORIES
    for name in old.LEFT_OUT
    if not (version.startswith("0.10") and name in UNKNOWN_TO_0_10)
    if not (state.startswith("killed") and name == MARKER)
]


OF_A_LOG = ("first .log", "last .log", ".index", ".timeindex")
"""What `verify` names wherever it is left out."""


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """A directory, and what Kafka made of it.

    Attributes:
        whole: as the broker left it.
        root: the same without some files.
        kafkas: a copy of it that Kafka's own LogManager loaded and closed.
        left_out: paths of the files, below the directory.
    """

    whole: Path
    root: Path
    kafkas: Path
    left_out: list[Path]

    @property
    def is_clean(self) -> bool:
        """Whether a broker takes it for stopped cleanly."""
        return (self.root / MARKER).exists()

    def lost(self) -> dict[str, set[int]]:
        """The last offsets of the record batches that Kafka's load lost, by partition."""
        lost = {}
        for log in old.partitions(self.whole):
            before = content_of(log)
            gone = before.keys() - content_of(self.kafkas / log.name).keys()
            if gone:
                lost[log.name] = {last_offset(before[batch]) for batch in gone}
        return lost

    def committed(self) -> dict[str, set[int]]:
        """Those of them that are known to be committed: after a clean stop all, else those below
        the high watermark on record.
        """
        end = read_checkpoint(self.root / CHECKPOINTS[2])
        known = {
            name: {offset for offset in offsets if self.is_clean or offset < end.get(name, 0)}
            for name, offsets in self.lost().items()
        }
        return {name: offsets for name, offsets in known.items() if offsets}

    def retired(self) -> set[str]:
        """The partitions of which a ``.log`` is left out whose retired predecessor is still there:
        indexes without it prove nothing (ADR 67).
        """
        return {
            path.parent.name
            for path in self.left_out
            if path.suffix == ".log" and (self.root / f"{path}.deleted").exists()
        }

    def forgotten(self) -> set[str]:
        """The partitions of which Kafka's load forgot producers."""
        return {
            log.name
            for log in old.partitions(self.whole)
            if _producers(log) - _producers(self.kafkas / log.name)
        }

    def replaced(self, path: Path) -> bool:
        """Whether Kafka's load removed a file of the whole directory, or wrote it again; of a log's
        directory, whether it removed what an interrupted cleaning left there.
        """
        if path.is_dir():
            return any(path.glob("*.cleaned"))
        loaded = self.kafkas / path.relative_to(self.whole)
        return not loaded.exists() or loaded.read_bytes() != path.read_bytes()


def _producers(log: Path) -> set[int]:
    """The ids in the newest snapshot of a partition that can be read."""
    for path in sorted(log.glob("*.snapshot"), reverse=True):
        if path.stat().st_size:
            return {entry.producer_id for entry in parse_snapshot(path.read_bytes(), path)}
    return set()


@pytest.fixture
def server() -> OracleServer:
    """Of the oldest Kafka, or that of `--kafka`."""
    return shared()


def load(server: OracleServer, scratch: Path, case: tuple[str, str, str]) -> Loaded:
    """Leave out the files, and let Kafka load a copy. Effects: three directories below scratch."""
    version, state, name = case
    whole = old.copied(version, state, scratch / "whole")
    root = old.copied(version, state, scratch / "root")
    files = old.without(name, root)
    assert bool(files) == (name != "nothing")
    kafkas = shutil.copytree(root, scratch / "kafkas", copy_function=shutil.copy2)
    answer = server.ask(
        {
            "request": "manager",
            "logDir": str(kafkas),
            "config": old.CONFIG,
            "topics": {},
            "now": old.NOW_MS,
            "producerIdExpirationMs": EXPIRATION_MS,
        }
    )
    assert "loadFailed" not in answer
    left_out = [path.relative_to(root) for path in files]
    return Loaded(whole=whole, root=root, kafkas=kafkas, left_out=left_out)


def doctor(root: Path) -> tuple[int, dict[str, tuple[int, int]]]:
    """The exit status, and the offsets that are said to be missing, by partition."""
    answer = call("doctor", root, "--output", "json", "--now", old.NOW_MS)
    named = {
        Path(line["path"]).name: (line["firstOffset"], line["endOffset"])
        for line in answer.lines
        if line.get("offsets")
    }
    return answer.status, named


def verify(root: Path) -> dict[str, list[Path]]:
    """The paths of what is wrong, by partition."""
    answer = call("verify", root, "--output", "json")
    problems: dict[str, list[Path]] = {}
    for line in answer.lines:
        if "problem" in line:
            problems.setdefault(line["topicPartition"], []).append(Path(line["path"]))
    assert (PROBLEMS if problems else 0) == answer.status
    assert (root / MARKER).exists() or "was not shut down cleanly" in answer.err
    return problems


def differences(kafkas: Path, ours: Path) -> list[str]:
    """What differs, but for two things: Kafka makes an empty checkpoint of leader epochs for a log
    without one, and writes the producers of a snapshot in the order of a hash table.
    """
    differing = compare_checkpoints(kafkas, ours)
    for log in old.partitions(kafkas):
        differing += compare_partition(kafkas, ours, log.name, read=read_plainly)
        epochs = log / "leader-epoch-checkpoint"
        if not epochs.stat().st_size or epochs.read_text() == "0\n0\n":
            differing = [
                each for each in differing if each != f"files: {log.name}: missing {epochs.name}"
            ]
        for path in log.glob("*.snapshot"):
            if _sorted(path) == _sorted(ours / log.name / path.name):
                start = f"snapshot: {log.name}/{path.name}: "
                differing = [each for each in differing if not each.startswith(start)]
    return differing


def _sorted(path: Path) -> Sequence[ProducerEntry]:
    return sorted(parse_snapshot(path.read_bytes(), path), key=lambda entry: entry.producer_id)


@pytest.mark.rotates(24)
@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_a_recovery_is_kafkas_load(
    server: OracleServer, scratch: Path, case: tuple[str, str, str]
) -> None:
    """Segments, indexes, snapshots, leader epochs and checkpoints: no difference. Kafka's load
    leaves the high watermarks alone, which may be past the log's end then.
    """
    loaded = load(server, scratch, case)
    words = [word for pair in old.CONFIG.items() for word in ("--config", "=".join(pair))]
    words += ["--like-kafka", "--yes", "--now", str(old.NOW_MS)]
    assert 0 == call("recover", loaded.root, *words).status
    differing = differences(loaded.kafkas, loaded.root)
    assert [] == [each for each in differing if "replication-offset-checkpoint" not in each]
    assert (loaded.root / MARKER).exists()


@pytest.mark.rotates(24)
@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_what_kafkas_load_loses_is_named(
    server: OracleServer, scratch: Path, case: tuple[str, str, str]
) -> None:
    """By `doctor` if the records are known to be committed; a recovery asks then, and once. What
    only the leader epochs of a clean stop prove is seen after it.
    """
    loaded = load(server, scratch, case)
    lost, committed = loaded.lost(), loaded.committed()
    status, named = doctor(loaded.root)
    assert committed.keys() - named.keys() <= loaded.retired()
    assert named.keys() <= committed.keys()
    assert (LOSES if named else 0) == status
    for name, (first, end) in named.items():
        assert first <= min(lost[name])
        assert end - 1 <= max(lost[name])
    answer = call("recover", loaded.root, "--yes", "--now", old.NOW_MS)
    assert (REFUSED if named else 0) == answer.status
    accepted = call("recover", loaded.root, "--yes", "--accept-loss", "--now", old.NOW_MS)
    assert 0 == accepted.status
    assert doctor(loaded.root)[1].keys() <= loaded.retired() - named.keys()


@pytest.mark.rotates(24)
@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_what_is_left_out_is_named(
    server: OracleServer, scratch: Path, case: tuple[str, str, str]
) -> None:
    """By `verify`: a file of a log; records that are known to be missing; a snapshot if a load
    forgets producers without it; a transaction index if aborted records are shown without it.
    Nothing else is wrong, but for what the kill of a broker left and Kafka's load replaces.
    """
    loaded = load(server, scratch, case)
    left = verify(loaded.whole)
    problems = verify(loaded.root)
    touched = {path.parent.name for path in loaded.left_out}
    expected: set[str] = set()
    if case[2] in OF_A_LOG:
        expected = touched
    elif case[2] == "last segment":
        expected = loaded.committed().keys() & touched
    elif case[2] == "snapshots":
        expected = loaded.forgotten()
    elif case[2] == ".txnindex":
        expected = {"tx-0"}
        assert problems.keys() - left.keys() <= touched
        problems = {
            name: paths for name, paths in problems.items() if name not in touched - expected
        }
    assert expected <= problems.keys()
    assert problems.keys() - expected <= left.keys()
    assert not left or case[1].startswith("killed")
    assert all(loaded.replaced(path) for paths in left.values() for path in paths)


@pytest.mark.parametrize("version", old.VERSIONS)
def test_a_leader_that_was_stopped_is_sound(scratch: Path, version: str) -> None:
    """`verify` finds nothing in what a broker left after a clean stop."""
    assert {} == verify(old.copied(version, "stopped-1", scratch / "root"))


@pytest.mark.rotates(6)
@pytest.mark.parametrize(("version", "state"), old.DIRECTORIES, ids="-".join)
def test_the_ids_of_an_old_broker(
    server: OracleServer, scratch: Path, version: str, state: str
) -> None:
    """A broker starts on a directory whose ids are as an old one wrote them if `doctor` says so."""
    root = shutil.copytree(old.unpacked() / version / state, scratch / "root")
    status = call("doctor", root, "--now", old.NOW_MS).status
    assert (REFUSED if "bootFailed" in server.boot(root, old.NOW_MS) else 0) == status


@pytest.mark.parametrize("version", old.VERSIONS)
def test_the_follower_fetched_many_batches_at_once(version: str) -> None:
    """Its segments are the leader's, and its indexes have fewer entries."""
    leader, follower = (old.unpacked() / version / f"stopped-{n}" / "plain-0" for n in (1, 2))
    for path in leader.glob("*.log"):
        assert path.read_bytes() == (follower / path.name).read_bytes()
    sizes = [sum(path.stat().st_size for path in log.glob("*.index")) for log in (leader, follower)]
    assert sizes[1] < sizes[0]
