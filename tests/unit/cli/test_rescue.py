"""``logwright rescue``: what it does, what it leaves to an operator, its undo, and a death."""

from __future__ import annotations

import json
import os
import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from tests.crash.filesystems import Crash
from tests.log_builder import LogBuilder
from tests.metadata_builder import MetadataBuilder, partition, topic, uuid_text
from tests.property.accidents import META
from tests.running_dirs import running
from tests.sequences.faults import Fault, interrupted
from tests.unit.cli.conftest import Call

CHECKPOINT = "cleaner-offset-checkpoint"
OTHER_ID = "b3RoZXItZGlyZWN0b3J5LQ"
OWN_ID = "YWJjZGVmZ2hpamtsbW5vcA"
JOURNAL = ".logwright-rescue.json"
NOW = ("--now", 1_760_100_000_000)


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """A log in a directory that a broker left cleanly."""
    log = LogBuilder(tmp_path / "logs")
    log.segment(0).batch(0, [("a", "1"), ("b", "2")])
    log.segment(2).batch(2, [("a", "3")]).batch(3, [("b", "4")])
    log.write(producers=True, high_watermark=4)
    (tmp_path / "logs/meta.properties").write_text(META)
    return tmp_path / "logs"


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """Another directory of the same broker."""
    path = tmp_path / "other"
    path.mkdir()
    (path / "meta.properties").write_text(META.replace(OWN_ID, OTHER_ID))
    (path / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":7}')
    return path


def write_topic_id(log_dir: Path) -> None:
    path = log_dir / "t-0/partition.metadata"
    path.write_text(f"version: 0\ntopic_id: {uuid_text(5)}")


def content(log_dir: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(log_dir)): path.read_bytes() if path.is_file() else None
        for path in log_dir.rglob("*")
        if path.name != ".lock"
    }


def damage(log_dir: Path) -> None:
    """What all steps but one are for."""
    (log_dir / "backup").mkdir()
    (log_dir / "t-0/x.log").write_bytes(b"x")
    (log_dir / CHECKPOINT).write_bytes(bytes(20))
    (log_dir / "t-0/leader-epoch-checkpoint").write_bytes(b"y")


def test_steps_are_shown_and_done(call: Call, log_dir: Path, tmp_path: Path) -> None:
    """A dry run changes nothing; nothing is deleted; an undo brings all back."""
    damage(log_dir)
    before = content(log_dir)
    planned = call("rescue", log_dir, "--dry-run", *NOW)
    assert (5, before) == (planned.status, content(log_dir))
    assert f"rename {log_dir / 'backup'} to {tmp_path / 'logs.rescued'}/" in planned.out
    assert f"recover {log_dir}" in planned.out
    assert 2 == call("rescue", log_dir).status
    done = call("rescue", log_dir, "--yes", "--output", "json", *NOW)
    assert (0, True) == (done.status, done.lines[-1]["starts"]), done.err
    kept = [*log_dir.glob(".logwright-damaged-*"), *(tmp_path / "logs.rescued").iterdir()]
    assert 4 == len(kept)
    assert {b"x", b"y", bytes(20)} == {path.read_bytes() for path in kept if path.is_file()}
    assert call("rescue", log_dir, "--yes").out.startswith("Nothing to do.")
    assert 0 == call("rescue", log_dir, "--undo", "--yes").status
    after = content(log_dir)
    assert [] == [
        name for name in before if before[name] != after.get(name) and "clean" not in name
    ]
    assert before[CHECKPOINT] == after[CHECKPOINT]
    assert not (tmp_path / "logs.rescued").exists()
    assert not (log_dir / JOURNAL).exists()


def test_a_damaged_end_in_spite_of_a_clean_stop(call: Call, log_dir: Path) -> None:
    """What a broker makes of it is not known; it is recovered all the same."""
    write_topic_id(log_dir)
    path = log_dir / f"t-0/{2:020d}.log"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2 + 12] + bytes(len(whole) // 2 - 12))
    before = content(log_dir)
    planned = call("rescue", log_dir, "--dry-run")
    assert "the record batch's CRC is wrong" in planned.out
    assert "by hand" not in planned.out + planned.err
    assert before == content(log_dir)
    done = call("rescue", log_dir, "--yes")
    assert (0, False) == (done.status, "Nothing to do" in done.out)
    assert "no longer has the broker's epoch" in done.out
    assert whole[: len(whole) // 2] == path.read_bytes()
    assert 0 == call("verify", log_dir).status


@pytest.mark.parametrize("strange", ["x.log", "notes.index"])
def test_what_was_set_aside_is_not_taken_for_searched(
    call: Call, log_dir: Path, tmp_path: Path, strange: str
) -> None:
    """A text with a key inside proves nothing of a file that is not a checkpoint."""
    (log_dir / "t-0" / strange).write_text('{"id":"ada@example.org"}\n')
    (tmp_path / "keys").write_text("ada@example.org\n")
    words = ("find", log_dir, "--keys", tmp_path / "keys", *NOW)
    assert 9 == call(*words).status
    assert 0 == call("rescue", log_dir, "--yes", *NOW).status
    answer = call(*words)
    assert 9 == answer.status
    assert f".logwright-damaged-t-0-{strange}" in answer.out + answer.err


def test_what_was_moved_out_is_not_taken_for_searched(
    call: Call, log_dir: Path, tmp_path: Path
) -> None:
    """It is next to the log directory: a search says so until it is removed, also while a broker
    runs.
    """
    shutil.copytree(log_dir / "t-0", log_dir / "backup")
    (tmp_path / "keys").write_text("nobody\n")
    words = ("find", log_dir, "--keys", tmp_path / "keys", *NOW)
    assert 0 == call("rescue", log_dir, "--yes", *NOW).status
    answer = call(*words)
    assert 9 == answer.status
    assert "logs.rescued" in answer.out + answer.err
    with running(log_dir, {"t-0": 4}):
        meanwhile = call(*words)
        assert (9, True) == (meanwhile.status, "logs.rescued" in meanwhile.out + meanwhile.err)
    shutil.rmtree(tmp_path / "logs.rescued")
    assert 0 == call(*words).status


@pytest.mark.parametrize("more", [(), ("--free", "1KiB")])
def test_each_directory_is_given_once(call: Call, log_dir: Path, more: tuple[str, ...]) -> None:
    """A directory that is given twice is refused, also under another name."""
    link = log_dir.with_name("link")
    link.symlink_to(log_dir)
    for twice in (log_dir, link):
        answer = call("rescue", log_dir, twice, "--yes", *more, *NOW)
        assert (2, True) == (answer.status, "give each log directory once" in answer.err)


def test_settings_are_used(call: Call, log_dir: Path) -> None:
    """A rebuilt index has as many entries as a recovery by the same settings makes."""
    log = LogBuilder(log_dir, "u-0")
    log.segment(0)
    for base in range(0, 40, 2):
        log.segments[-1].batch(base, [("a", "1"), ("b", "2")])
    log.write(producers=True)
    (log_dir / "u-0/00000000000000000000.index").write_bytes(b"x")
    (log_dir / ".kafka_cleanshutdown").unlink()
    small = ("--config", "index.interval.bytes=100")
    by_recovery = log_dir.with_name("other")
    shutil.copytree(log_dir, by_recovery)
    assert 0 == call("recover", by_recovery, "--yes", *small, *NOW).status
    (log_dir / "u-0/leader-epoch-checkpoint").write_bytes(b"y")  # what a rescue is for
    assert 0 == call("rescue", log_dir, "--yes", *small, *NOW).status
    index = Path("u-0/00000000000000000000.index")
    assert (by_recovery / index).read_bytes() == (log_dir / index).read_bytes()
    assert len((log_dir / index).read_bytes()) > 8 * 5


def test_meta_properties_that_are_proved(call: Call, log_dir: Path, other: Path) -> None:
    """By another directory of the broker, and the metadata for the directory's id."""
    number = int.from_bytes(b"abcdefghijklmnop", "big")
    others = int.from_bytes(b"other-directory-", "big")
    MetadataBuilder(other).segment(
        0, [topic("t", 5), partition(5, 0, [1], [number]), partition(5, 1, [1], [others])]
    )
    (log_dir / "t-0/partition.metadata").write_text(f"version: 0\ntopic_id: {uuid_text(5)}")
    (log_dir / "meta.properties").write_text("version=1\nnode.id=1\nclus")
    assert 5 == call("doctor", log_dir, other).status
    done = call("rescue", log_dir, other, "--yes", *NOW)
    assert 0 == done.status, done.out
    lines = set((log_dir / "meta.properties").read_text().splitlines())
    assert set(META.splitlines()) == lines
    assert 0 == call("rescue", log_dir, "--undo", "--yes").status
    assert "clus" == (log_dir / "meta.properties").read_text().splitlines()[-1]


def test_an_id_of_several_is_not_guessed(call: Call, log_dir: Path, other: Path) -> None:
    """If the metadata has two directory ids that no directory has, a broker makes a new one."""
    MetadataBuilder(other).segment(
        0, [topic("t", 5), partition(5, 0, [1], [1000]), partition(5, 1, [1], [2000])]
    )
    (log_dir / "t-0/partition.metadata").write_text(f"version: 0\ntopic_id: {uuid_text(5)}")
    (log_dir / "meta.properties").unlink()
    assert 0 == call("rescue", log_dir, other, "--yes", *NOW).status
    expected = set(META.splitlines()) - {f"directory.id={OWN_ID}"}
    assert expected == set((log_dir / "meta.properties").read_text().splitlines())


def test_meta_properties_that_are_not_proved(call: Call, log_dir: Path, other: Path) -> None:
    """No other directory, another node, another id left, a directory without a log."""
    path = log_dir / "meta.properties"
    path.unlink()
    alone = call("rescue", log_dir, "--yes")
    assert (5, False) == (alone.status, path.exists())
    assert f"by hand: {path}: " in alone.out
    path.write_text("version=1\nnode.id=2\nclus")
    assert 5 == call("rescue", log_dir, other, "--yes").status
    assert "node.id=2" in path.read_text()
    shutil.rmtree(log_dir / "t-0")
    path.unlink()
    assert 5 == call("rescue", log_dir, other, "--yes").status
    assert not path.exists()


def test_inodes_that_are_reserved_for_root(
    call: Call, log_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start of another user has no inode if root alone may take those that are left."""
    status = list(os.statvfs(log_dir))
    status[5:8] = 100, 5, 0  # all, free, free for any user
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result(status))
    answers = {user: call("doctor", log_dir, "--user", user).out for user in ("nobody", "root")}
    lacks = {user: "its file system has no inode left" in out for user, out in answers.items()}
    assert {"nobody": True, "root": False} == lacks


def test_two_logs_of_a_partition(call: Call, log_dir: Path, other: Path) -> None:
    """Nothing is done before an operator names the one to set aside."""
    write_topic_id(log_dir)
    shutil.copytree(log_dir / "t-0", other / "t-0")
    answer = call("rescue", log_dir, other, "--yes")
    assert (5, True) == (answer.status, (other / "t-0").is_dir())
    assert "That one ends at offset 4, this one at 4." in answer.out
    named = ("--set-aside", other / "t-0")
    assert 0 == call("rescue", log_dir, other, *named, "--yes").status
    assert not (other / "t-0").exists()
    assert (log_dir / "t-0").is_dir()
    assert 0 == call("rescue", log_dir, other, "--undo", "--yes").status
    assert (other / "t-0").is_dir()
    for wrong in (other / "none", log_dir.parent, log_dir):
        assert 0 != call("rescue", log_dir, other, "--set-aside", wrong, "--yes").status


def test_a_topic_id(call: Call, log_dir: Path) -> None:
    """The metadata's, if it gives the log to this node; else nothing is written."""
    MetadataBuilder(log_dir).segment(0, [topic("t", 5), partition(5, 0, [1])])
    path = log_dir / "t-0/partition.metadata"
    assert "sets 1 log aside" in call("doctor", log_dir).out
    assert 0 == call("rescue", log_dir, "--yes").status
    assert f"version: 0\ntopic_id: {uuid_text(5)}" == path.read_text()
    assert 0 == call("rescue", log_dir, "--undo", "--yes").status
    assert not path.exists()
    path.write_text(f"version: 0\ntopic_id: {uuid_text(6)}")
    answer = call("rescue", log_dir, "--yes")
    assert f"by hand: {path.parent}: a broker renames it to -stray" in answer.out
    assert uuid_text(6) in path.read_text()


def test_an_undo_that_is_refused(call: Call, log_dir: Path) -> None:
    """What changed since, a name that is taken, a journal that is not one."""
    damage(log_dir)
    assert 0 == call("rescue", log_dir, "--yes", *NOW).status
    (log_dir / CHECKPOINT).write_text("0\n0\n")
    (log_dir / "backup").mkdir()
    answer = call("rescue", log_dir, "--undo", "--yes")
    assert 5 == answer.status
    assert "it changed since the rescue" in answer.out
    assert "its name is taken" in answer.out
    assert "0\n0\n" == (log_dir / CHECKPOINT).read_text()
    left = json.loads((log_dir / JOURNAL).read_text())["steps"]
    assert {CHECKPOINT, "backup"} == {step["path"] for step in left}
    for wrong in ("x", '{"steps": [{"kind": "set aside", "path": "../a", "target": "b"}]}'):
        (log_dir / JOURNAL).write_text(wrong)
        assert "is not the journal of a rescue" in call("rescue", log_dir, "--undo", "--yes").err


def test_an_undo_of_several_rescues(call: Call, log_dir: Path) -> None:
    """A file that changed between two rescues has changed since the first one."""
    (log_dir / CHECKPOINT).write_bytes(bytes(20))
    assert 0 == call("rescue", log_dir, "--yes", *NOW).status
    (log_dir / CHECKPOINT).write_text("0\n1\nt 0 2\n")
    (log_dir / "backup").mkdir()
    assert 0 == call("rescue", log_dir, "--yes", "--now", NOW[1] + 1).status
    answer = call("rescue", log_dir, "--undo", "--yes")
    assert (5, True) == (answer.status, "it changed since the rescue" in answer.out)
    assert "0\n1\nt 0 2\n" == (log_dir / CHECKPOINT).read_text()
    assert (log_dir / "backup").is_dir()


def test_an_undo_where_a_log_is_gone(call: Call, log_dir: Path) -> None:
    """What was in it stays in the root, and the rest is undone."""
    damage(log_dir)
    assert 0 == call("rescue", log_dir, "--yes", *NOW).status
    shutil.rmtree(log_dir / "t-0")
    answer = call("rescue", log_dir, "--undo", "--yes")
    assert (5, True) == (answer.status, "its directory is gone" in answer.out)
    assert (log_dir / "backup").is_dir()
    assert bytes(20) == (log_dir / CHECKPOINT).read_bytes()
    kept = {path.read_bytes() for path in log_dir.glob(".logwright-damaged-*")}
    assert {b"x", b"y"} == kept
    left = json.loads((log_dir / JOURNAL).read_text())["steps"]
    assert {"t-0/x.log", "t-0/leader-epoch-checkpoint"} == {step["path"] for step in left}


def test_a_death_at_every_call(call: Call, log_dir: Path, tmp_path: Path) -> None:
    """Run again it ends; no segment is ever another; what was in the way is kept."""
    damage(log_dir)
    segments = {name: each for name, each in content(log_dir / "t-0").items() if "0.log" in name}
    deaths = 0
    for at in range(1, 200):
        copy = shutil.copytree(log_dir, tmp_path / "copies" / str(at) / "logs")
        with interrupted(Fault("kill", at), copy.parent) as fault:
            try:
                call("rescue", copy, "--yes", *NOW)
            except Crash:
                deaths += 1
        killed = content(copy / "t-0")
        assert segments == {name: killed[name] for name in segments}
        done = call("rescue", copy, "--yes", "--now", NOW[1] + 1)
        assert 0 == done.status, (at, done.out, done.err)
        kept = {path.read_bytes() for path in copy.glob(".logwright-damaged-*")}
        assert {b"x", b"y", bytes(20)} <= kept
        assert [] == [*copy.glob("backup")]
        assert 1 == len([*copy.with_name("logs.rescued").iterdir()])
        undone = call("rescue", copy, "--undo", "--yes")
        assert 0 == undone.status, (at, undone.out)
        assert {"backup", "t-0/x.log"} <= content(copy).keys()
        if not fault.happened:
            break
        shutil.rmtree(copy.parent)
    assert deaths > 20


def test_an_interrupted_undo(call: Call, log_dir: Path, tmp_path: Path) -> None:
    """Run again it ends, wherever it was killed."""
    damage(log_dir)
    before = content(log_dir)
    assert 0 == call("rescue", log_dir, "--yes", *NOW).status
    for at in range(1, 100):
        place = tmp_path / "copies" / str(at)
        copy = shutil.copytree(log_dir, place / "logs", copy_function=shutil.copy2)
        shutil.copytree(log_dir.with_name("logs.rescued"), place / "logs.rescued")
        rows = json.loads((copy / JOURNAL).read_text().replace(str(log_dir), str(copy)))
        for row in rows["steps"]:
            if row["stamp"]:
                row["stamp"][2] = (copy / row["path"]).stat().st_ino
        (copy / JOURNAL).write_text(json.dumps(rows))
        with interrupted(Fault("kill", at), place) as fault, suppress(Crash):
            call("rescue", copy, "--undo", "--yes")
        answer = call("rescue", copy, "--undo", "--yes")
        assert 0 == answer.status, (at, answer.out)
        after = content(copy)
        assert before[CHECKPOINT] == after[CHECKPOINT]
        assert {"backup", "t-0/x.log"} <= after.keys()
        assert b"y" == after["t-0/leader-epoch-checkpoint"]
        if not fault.happened:
            return
    raise AssertionError
