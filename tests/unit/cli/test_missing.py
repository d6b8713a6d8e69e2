"""A log of which segments are missing: each command says so, or refuses it; nothing takes it for
whole, and the proof is kept.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from logwright.format.checkpoints import serialize_offset_checkpoint
from logwright.format.names import TopicPartition
from logwright.units import Offset
from tests.e2e.command import tree
from tests.log_builder import START_MS, LogBuilder
from tests.metadata_builder import MetadataBuilder, partition, topic, uuid_text
from tests.unit.cli.conftest import Call

NOW = ("--now", START_MS + 86_400_000)
COMPACT = ("--config", "cleanup.policy=compact", "--no-metadata")
END = 30
FAULTS, REFUSED = 3, 5


def offsets(log_dir: Path, name: str, offset: int) -> None:
    content = serialize_offset_checkpoint({TopicPartition("t", 0): Offset(offset)})
    (log_dir / name).write_bytes(content)


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """A log that a broker closed: three segments of ten records, all committed."""
    log = LogBuilder(tmp_path / "logs")
    for base in range(0, END, 10):
        log.segment(base).batch(base, [(f"k{n}", f"v{base + n}") for n in range(10)])
    log.write(producers=True, high_watermark=END, index_interval=1)
    offsets(log.log_dir, "recovery-point-offset-checkpoint", END)
    (log.directory / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    (log.log_dir / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=c\n")
    (log.directory / "partition.metadata").write_text(f"version: 0\ntopic_id: {uuid_text(5)}")
    return log.log_dir


def of(log_dir: Path, base: int) -> list[Path]:
    return sorted((log_dir / "t-0").glob(f"{base:020d}.*"))


def copied_without_logs(log_dir: Path) -> None:
    for path in (log_dir / "t-0").glob("*.log"):
        path.unlink()


def without_the_last(log_dir: Path) -> None:
    (log_dir / "t-0" / f"{20:020d}.log").unlink()


def without_all_of_the_last(log_dir: Path) -> None:
    for path in of(log_dir, 20):
        path.unlink()


def without_the_first(log_dir: Path) -> None:
    (log_dir / "t-0" / f"{0:020d}.log").unlink()


def without_the_middle(log_dir: Path) -> None:
    (log_dir / "t-0" / f"{10:020d}.log").unlink()


def cut(log_dir: Path) -> None:
    """The last segment lost its only batch."""
    (log_dir / "t-0" / f"{20:020d}.log").write_bytes(b"")


class Damage(NamedTuple):
    """What is done to the log directory, and which offsets are missing then."""

    do: Callable[[Path], None]
    first: int
    end: int

    @property
    def offsets(self) -> int:
        """How many are missing."""
        return self.end - self.first

    @property
    def words(self) -> str:
        """They, as they are said."""
        return f"offsets {self.first} to {self.end - 1}"


DAMAGES = [
    Damage(copied_without_logs, 0, END),
    Damage(without_the_last, 20, END),
    Damage(without_all_of_the_last, 20, END),
    Damage(without_the_first, 0, 10),
    Damage(without_the_middle, 10, 20),
    Damage(cut, 20, END),
]
damages = pytest.mark.parametrize("damage", DAMAGES, ids=[one.do.__name__ for one in DAMAGES])


@damages
@pytest.mark.parametrize("clean", [True, False])
def test_doctor_says_what_is_missing(
    call: Call, log_dir: Path, damage: Damage, *, clean: bool
) -> None:
    """With the numbers of offsets; all of them are committed."""
    assert 0 == call("doctor", log_dir, *NOW).status
    damage.do(log_dir)
    if not clean:
        (log_dir / ".kafka_cleanshutdown").unlink()
    answer = call("doctor", log_dir, *NOW, "--output", "json")
    assert 11 == answer.status
    (finding,) = [line for line in answer.lines if line.get("offsets")]
    assert (damage.first, damage.end, damage.offsets) == (
        finding["firstOffset"],
        finding["endOffset"],
        finding["offsets"],
    )
    assert finding["problem"].endswith("all of it is committed.")
    assert (True, damage.offsets) == (
        answer.lines[-1]["starts"],
        answer.lines[-1]["missingOffsets"],
    )
    text = call("doctor", log_dir, *NOW).out
    assert f"no segment has {damage.words}" in text
    assert f"By its files a broker starts, without {damage.offsets} offsets that were there" in text


@damages
def test_it_is_recovered_only_on_demand(call: Call, log_dir: Path, damage: Damage) -> None:
    """Nothing is changed before; then the proof is kept, and the broker epoch goes."""
    damage.do(log_dir)
    before = tree(log_dir)
    for command in ("recover", "rescue"):
        answer = call(command, log_dir, "--yes", *NOW)
        assert answer.status in (REFUSED, 11), answer.out + answer.err
        assert damage.words in answer.out + answer.err
        assert before == tree(log_dir)
    answer = call("recover", log_dir, "--yes", "--accept-loss", *NOW)
    assert 0 == answer.status, answer.err
    (kept,) = (log_dir / "t-0/.logwright/cut").iterdir()
    (missing,) = json.loads((kept / "manifest.json").read_text())["missing"]
    assert (damage.first, damage.end, damage.offsets) == (
        missing["firstOffset"],
        missing["endOffset"],
        missing["committed"],
    )
    indexes = {path.name for path in kept.glob("*.index")}
    removed = {name.rpartition("/")[2] for name in before if name.endswith(".index")}
    removed -= {path.name for path in (log_dir / "t-0").glob("*.index")}
    assert removed <= indexes
    assert b"" == (log_dir / ".kafka_cleanshutdown").read_bytes()
    assert 0 == call("doctor", log_dir, *NOW).status


@damages
def test_no_command_takes_it_for_whole(
    call: Call, log_dir: Path, tmp_path: Path, damage: Damage
) -> None:
    """Each refuses the log by name; `verify` finds faults in it."""
    damage.do(log_dir)
    before = tree(log_dir)
    bucket = f"file://{tmp_path}/bucket/logs"
    for words in (
        ("clean", log_dir, *COMPACT, "--yes"),
        ("retain", log_dir, "--config", "cleanup.policy=delete", "--no-metadata", "--yes"),
        ("verify", log_dir),
        ("latest", log_dir, "t", "--to", tmp_path / "table", "--no-metadata"),
        ("upload", log_dir, "--to", bucket, "--no-metadata"),
        ("plan", log_dir, *COMPACT),
        ("roll", log_dir, "t-0", *COMPACT, "--yes"),
    ):
        answer = call(*words, *(() if words[0] in ("verify", "upload") else NOW))
        status = FAULTS if words[0] == "verify" else REFUSED
        assert status == answer.status, (words, answer.out, answer.err)
        assert "t-0" in answer.out + answer.err
        assert before == tree(log_dir), words


@damages
def test_a_purge_keeps_the_proof(call: Call, log_dir: Path, damage: Damage) -> None:
    """Indexes that name records; not one that is empty, as an interrupted roll leaves."""
    damage.do(log_dir)
    empty = log_dir / "t-0" / f"{END:020d}.index"
    proofs = {path.name for path in (log_dir / "t-0").iterdir() if path.stat().st_size}
    empty.write_bytes(b"")
    assert 0 == call("purge", log_dir, *COMPACT, "--yes", *NOW).status
    assert not empty.exists()
    assert proofs <= {path.name for path in (log_dir / "t-0").iterdir()}
    assert 11 == call("doctor", log_dir, *NOW).status


@damages
def test_a_search_has_not_seen_it(
    call: Call, log_dir: Path, tmp_path: Path, damage: Damage
) -> None:
    """What is not there was not searched: no certificate says that a person was never there."""
    damage.do(log_dir)
    keys = tmp_path / "keys"
    keys.write_text("nobody\n")
    answer = call("find", log_dir, "--keys", keys, *COMPACT, "--output", "json")
    assert 9 == answer.status, answer.out + answer.err
    assert damage.words in answer.out


def test_the_files_come_back(call: Call, log_dir: Path, tmp_path: Path) -> None:
    """Then it is the log that it was."""
    shutil.copytree(log_dir, tmp_path / "copy")
    without_all_of_the_last(log_dir)
    assert 11 == call("doctor", log_dir, *NOW).status
    for path in of(tmp_path / "copy", 20):
        shutil.copy2(path, log_dir / "t-0")
    assert 0 == call("doctor", log_dir, *NOW).status
    assert 0 == call("verify", log_dir).status


def test_a_whole_log(call: Call, log_dir: Path) -> None:
    """Its directory is gone: the checkpoints of a clean stop have it. Not so after a crash, when
    they are older than a deletion may be, nor if the metadata does not give it to this node.
    """
    shutil.rmtree(log_dir / "t-0")
    answer = call("doctor", log_dir, *NOW, "--output", "json")
    assert 11 == answer.status
    (finding,) = [line for line in answer.lines if line.get("offsets")]
    assert (0, END, str(log_dir / "t-0")) == (
        finding["firstOffset"],
        finding["endOffset"],
        finding["path"],
    )
    assert "unless its topic was deleted since" in finding["problem"]
    assert "by hand: " in call("rescue", log_dir, "--dry-run", *NOW).out
    (log_dir / ".kafka_cleanshutdown").rename(log_dir / "marker")
    assert 0 == call("doctor", log_dir, *NOW).status
    (log_dir / "marker").rename(log_dir / ".kafka_cleanshutdown")
    metadata = MetadataBuilder(log_dir)
    metadata.segment(0, [topic("t", 5), partition(5, 0, [1])])
    answer = call("doctor", log_dir, *NOW)
    assert 11 == answer.status
    assert "unless" not in answer.out
    (log_dir / "meta.properties").write_text("version=1\nnode.id=2\ncluster.id=c\n")
    assert 0 == call("doctor", log_dir, *NOW).status


@pytest.mark.parametrize("content", [b"\0" * 20, None])
@pytest.mark.parametrize("name", ["replication", "recovery-point", "cleaner"])
@pytest.mark.parametrize("clean", [True, False])
def test_a_search_without_a_checkpoint(
    call: Call, log_dir: Path, name: str, content: bytes | None, *, clean: bool
) -> None:
    """The other files still prove it, also where one checkpoint is malformed or missing."""
    without_the_last(log_dir)
    path = log_dir / f"{name}-offset-checkpoint"
    path.unlink(missing_ok=True)
    if content is not None:
        path.write_bytes(content)
    if not clean:
        (log_dir / ".kafka_cleanshutdown").unlink()
    keys = log_dir.parent / "keys"
    keys.write_text("nobody\n")
    answer = call("find", log_dir, "--keys", keys, *COMPACT, "--output", "json")
    assert 9 == answer.status, answer.out + answer.err
    assert "offsets 20 to 29" in answer.out


def test_a_beginning_of_which_no_file_is_left(call: Call, log_dir: Path) -> None:
    """The leader epochs of a clean stop prove it: doctor, a recovery and a search read them."""
    for path in of(log_dir, 0):
        path.unlink()
    assert 11 == call("doctor", log_dir, *NOW).status
    before = tree(log_dir)
    assert REFUSED == call("recover", log_dir, "--yes", *NOW).status
    assert before == tree(log_dir)
    keys = log_dir.parent / "keys"
    keys.write_text("nobody\n")
    answer = call("find", log_dir, "--keys", keys, *COMPACT, "--output", "json")
    assert 9 == answer.status
    assert "offsets 0 to 9" in answer.out


@pytest.mark.parametrize(
    "name",
    [
        "7.from-9.cleaned.snapshot",
        ".snapshot",
        "abcdefghijklmnopqrst.log.old",
        f"{0:019d}٣.snapshot",
    ],
)
def test_names_that_no_broker_gives(call: Call, log_dir: Path, tmp_path: Path, name: str) -> None:
    """A file that only ends like one of a log's does not hide what is there."""
    keys = tmp_path / "keys"
    keys.write_text("k1\n")
    (log_dir / "t-0" / name).write_bytes(b"x")
    status = call("doctor", log_dir, *NOW).status
    assert status in ({4, 5} if name.endswith(".snapshot") else {0})  # a broker fails on it
    answer = call("find", log_dir, "--keys", keys, "--output", "json", *NOW)
    assert 3 == sum("offset" in line for line in answer.lines), answer.err
