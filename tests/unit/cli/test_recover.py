"""What `logwright recover` says, keeps and refuses."""

from __future__ import annotations

import fcntl
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from logwright.format.crc import crc32c
from tests.fixtures import case_dir, copy_before, settings
from tests.log_builder import LogBuilder
from tests.overflowing import FAR, NOW_MS, overflowing_log
from tests.unit.cli.conftest import Call

MARKER = ".kafka_cleanshutdown"


def contents(log_dir: Path) -> dict[str, bytes]:
    """Every file below a log directory but lock files."""
    return {
        str(path.relative_to(log_dir)): path.read_bytes()
        for path in sorted(log_dir.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }


def test_a_torn_tail_is_cut_and_kept(call: Call, tmp_path: Path) -> None:
    """Exit status 0; the bytes lie in the cut directory, with a manifest that says what and why."""
    log_dir = copy_before("torn-tail", tmp_path)
    name = f"{152:020d}.log"
    torn = (log_dir / "t-0" / name).read_bytes()
    answer = call("recover", log_dir, *settings("torn-tail"), "--yes", "--now", "1760003654031")
    assert 0 == answer.status, answer.err
    kept = log_dir / "t-0" / ".logwright" / "cut" / "1760003654031-0"
    assert torn[3047:] == (kept / f"{name}.from-3047").read_bytes()
    assert torn[:3047] == (log_dir / "t-0" / name).read_bytes()
    manifest = json.loads((kept / "manifest.json").read_text())
    (entry,) = manifest["entries"]
    assert (3047, 3238, 182) == (entry["fromByte"], entry["toByte"], entry["firstOffset"])
    assert ("cut", "the record batch is cut off") == (entry["action"], entry["reason"])
    assert 1760003654031 == manifest["atMs"]
    assert f"cut {name} at byte 3047 from offset 182 (191 B)" in answer.out
    assert b"" == (log_dir / MARKER).read_bytes()


def test_a_directory_without_logs_becomes_clean(call: Call, tmp_path: Path) -> None:
    """Its last log was deleted before the broker died; nothing else would ever make it clean."""
    log_dir = tmp_path / "logs"
    log_dir.mkdir()
    (log_dir / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=c\n")
    assert 0 == call("recover", log_dir, "--yes").status
    assert (log_dir / MARKER).exists()


@pytest.mark.parametrize("start", [0, 30])
def test_a_start_in_remote_storage_stays(call: Call, tmp_path: Path, start: int) -> None:
    """Of a log whose first segments are in remote storage only, whether that is known or not; else
    what was deleted there is read again, and nothing local says why the first segments are missing.
    """
    log = LogBuilder(tmp_path / "logs")
    log.segment(50).batch(50, [("a", "1"), ("b", "2")])
    log.write(producers=True)
    log.kill()
    (log.directory / "leader-epoch-checkpoint").write_text(f"0\n1\n0 {start}\n")
    starts = log.log_dir / "log-start-offset-checkpoint"
    starts.write_text(f"0\n1\nt 0 {start}\n")
    assert 0 == call("recover", log.log_dir, "--yes").status
    assert f"0\n1\nt 0 {start}\n" == starts.read_text()
    assert 0 == call("recover", log.log_dir, "--yes").status
    verified = call("verify", log.log_dir)
    assert 0 == verified.status, verified.out


def test_a_loss_must_be_accepted(call: Call, tmp_path: Path) -> None:
    """Without --accept-loss nothing is changed; with it the dropped segments are kept aside."""
    log_dir = copy_before("bad-crc-sealed", tmp_path)
    before = contents(log_dir)
    words = ("recover", log_dir, *settings("bad-crc-sealed"), "--yes", "--now", "7")
    refused = call(*words)
    assert 5 == refused.status
    assert "--accept-loss" in refused.err
    assert before == contents(log_dir)
    accepted = call(*words, "--accept-loss", "--output", "json")
    assert 0 == accepted.status, accepted.err
    (line,) = accepted.lines
    assert [37, 76, 116, 150] == line["droppedSegments"]
    assert 3 == line["logEndOffset"]
    kept = Path(line["keptIn"])
    for base in line["droppedSegments"]:
        name = f"{base:020d}.log"
        assert before[f"t-0/{name}"] == (kept / name).read_bytes()
        assert not (log_dir / "t-0" / name).exists()
    assert (log_dir / MARKER).exists()


def test_a_second_recovery_has_nothing_to_do(call: Call, tmp_path: Path) -> None:
    """The directory is as a clean stop leaves it: no byte changes."""
    log_dir = copy_before("crash-swap-some-deleted", tmp_path)
    words = ("recover", log_dir, *settings("crash-swap-some-deleted"), "--yes", "--now", "9")
    assert 0 == call(*words).status
    before = contents(log_dir)
    again = call(*words)
    assert 0 == again.status
    assert before == contents(log_dir)


def test_the_marker_comes_only_with_every_partition(call: Call, tmp_path: Path) -> None:
    """Recovering one of two leaves the directory unclean, recovering both does not."""
    log_dir = copy_before("torn-tail", tmp_path)
    shutil.copytree(log_dir / "t-0", log_dir / "u-0", copy_function=shutil.copy2)
    words = (*settings("torn-tail"), "--yes")
    answer = call("recover", log_dir, "t-0", *words)
    assert 0 == answer.status
    assert "still not marked as cleanly shut down: left out: u-0" in answer.err
    assert not (log_dir / MARKER).exists()
    assert 0 == call("recover", log_dir, *words).status
    assert (log_dir / MARKER).exists()


def test_a_marker_that_was_there_stays(call: Call, tmp_path: Path) -> None:
    """A broker's epoch in it is kept, when leftovers of one partition are removed."""
    log_dir = copy_before("missing-index", tmp_path)
    (log_dir / MARKER).write_bytes(b'{"version":0,"brokerEpoch":7}')
    assert 0 == call("recover", log_dir, "t-0", *settings("missing-index"), "--yes").status
    assert b'{"version":0,"brokerEpoch":7}' == (log_dir / MARKER).read_bytes()
    assert (log_dir / "t-0" / f"{39:020d}.index").exists()


def test_retired_files_wait_and_foreign_ones_are_listed(call: Call, tmp_path: Path) -> None:
    """Kafka deletes `.deleted` files at load; without --like-kafka they stay for a purge."""
    log_dir = copy_before("crash-deleted", tmp_path)
    retired = sorted(path.name for path in (log_dir / "t-0").glob("*.deleted"))
    answer = call("recover", log_dir, *settings("crash-deleted"), "--yes")
    assert 0 == answer.status
    assert f"kept {', '.join(retired)}" in answer.out
    assert retired == sorted(path.name for path in (log_dir / "t-0").glob("*.deleted"))
    kafka = call("recover", log_dir, *settings("crash-deleted"), "--yes", "--like-kafka")
    assert 0 == kafka.status
    assert [] == list((log_dir / "t-0").glob("*.deleted"))


def test_a_torn_tail_under_the_marker_is_mended(call: Call, tmp_path: Path) -> None:
    """Kafka would append after it; without its ways being asked for it is truncated."""
    log_dir = copy_before("torn-tail-marked-clean", tmp_path)
    answer = call("recover", log_dir, *settings("torn-tail-marked-clean"), "--yes")
    assert 0 == answer.status, answer.err
    assert 0 == call("verify", log_dir).status
    assert "cut" in answer.out


def test_dry_run_changes_nothing(call: Call, tmp_path: Path) -> None:
    """The plan is shown, and no file is touched."""
    log_dir = copy_before("crash-swap", tmp_path)
    before = contents(log_dir)
    answer = call("recover", log_dir, *settings("crash-swap"), "--dry-run")
    assert 0 == answer.status
    assert "swapped in" in answer.out
    assert before == contents(log_dir)


def test_a_log_that_ends_below_its_start_begins_anew(call: Call, tmp_path: Path) -> None:
    """As LogLoader does it, once the loss is accepted."""
    log_dir = copy_before("torn-tail", tmp_path)
    (log_dir / "log-start-offset-checkpoint").write_text("0\n1\nt 0 1000\n")
    words = ("recover", log_dir, *settings("torn-tail"), "--yes")
    assert 5 == call(*words).status
    assert 0 == call(*words, "--accept-loss").status
    assert [f"{1000:020d}.log"] == [path.name for path in (log_dir / "t-0").glob("*.log")]
    assert 0 == call("inspect", log_dir).status


@pytest.mark.parametrize("name", ["wrong-index", "bad-crc-sealed", "torn-tail-marked-clean"])
def test_verify_names_file_and_position(call: Call, name: str) -> None:
    """Exit status 3, and a line for each thing that is wrong."""
    answer = call("verify", case_dir(name) / "before", "--output", "json")
    assert 3 == answer.status
    faults = [line for line in answer.lines if "problem" in line]
    assert faults
    assert all(Path(line["path"]).exists() for line in faults)
    assert any(line["position"] is not None for line in faults)


@pytest.mark.parametrize("name", ["txn-2-second", "odd-records", "gap-huge-2", "real-broker"])
def test_verify_finds_nothing_wrong_in_what_kafka_left(call: Call, name: str) -> None:
    """Both sides of a cleaning, and the one against the other."""
    now = "1770000000000"
    for side in ("before", "after"):
        assert 0 == call("verify", case_dir(name) / side).status
    against = ("--against", case_dir(name) / "before", "--now", now)
    answer = call("verify", case_dir(name) / "after", *against)
    assert 0 == answer.status, answer.out


def test_verify_sees_the_key_that_kafka_lost(call: Call) -> None:
    """Two keys with one MD5: Kafka's cleaner took the first one's only record."""
    case = case_dir("md5-collision")
    answer = call("verify", case / "after", "--against", case / "before")
    assert 3 == answer.status
    assert "records are gone, with no later one of their key, first at offset 0" in answer.out


def test_verify_sees_an_invented_record(call: Call, tmp_path: Path) -> None:
    """What the earlier log does not have is new, also when all of its bytes are sound."""
    case = case_dir("basic-none")
    shutil.copytree(case / "after", tmp_path / "later")
    shutil.copytree(case / "before", tmp_path / "earlier")
    log = tmp_path / "earlier" / "t-0" / f"{482:020d}.log"
    content = bytearray(log.read_bytes())
    log.chmod(0o600)
    size = int.from_bytes(content[8:12], "big") + 12
    content[34] ^= 1  # its base timestamp
    content[17:21] = crc32c(bytes(content[21:size])).to_bytes(4, "big")
    log.write_bytes(content)
    answer = call("verify", tmp_path / "later", "--against", tmp_path / "earlier")
    assert 3 == answer.status
    assert "not those that the earlier log has" in answer.out


def test_a_torn_segment_before_an_empty_one_is_no_loss(call: Call, tmp_path: Path) -> None:
    """The roll was on the disk before the segment's last bytes: nothing with data is dropped."""
    log_dir = copy_before("torn-tail", tmp_path)
    for suffix in (".log", ".index", ".timeindex"):
        (log_dir / "t-0" / f"{184:020d}{suffix}").write_bytes(b"")
    answer = call("recover", log_dir, *settings("torn-tail"), "--yes", "--output", "json")
    assert 0 == answer.status, answer.err
    (line,) = answer.lines
    assert ([184], 182) == (line["droppedSegments"], line["logEndOffset"])


@pytest.mark.parametrize("name", ["idempotent-2-written-again", "txn-2-second"])
def test_rebuilt_index_forgets_no_producer(call: Call, tmp_path: Path, name: str) -> None:
    """After a clean stop the snapshot at the log's end stays as it is. Kafka empties it."""
    log_dir = copy_before(name, tmp_path)
    end = max((log_dir / "t-0").glob("*.snapshot"))
    before = end.read_bytes()
    min((log_dir / "t-0").glob("*.index")).unlink()
    assert 0 == call("recover", log_dir, *settings(name), "--yes", "--now", "9").status
    assert before == end.read_bytes()


def test_first_index_of_a_log_that_begins_later(call: Call, tmp_path: Path) -> None:
    """The first segment's index is rebuilt also where no snapshot is before it."""
    log = LogBuilder(tmp_path / "logs")
    log.segment(5).batch(5, [("a", "1")])
    log.write()
    (log.directory / f"{5:020d}.index").unlink()
    answer = call("recover", log.log_dir, "--yes", "--now", NOW_MS)
    assert 0 == answer.status, answer.err
    assert (log.directory / f"{5:020d}.index").exists()


def bases(log_dir: Path) -> list[int]:
    return sorted(int(path.stem) for path in (log_dir / "t-0").glob("*.log"))


SPLIT = [0, FAR, 2 * FAR + 300, 2 * FAR + 400]


def test_overflowing_segment_is_split(call: Call, tmp_path: Path) -> None:
    """Of a directory that was stopped cleanly as well; the text names old and new segments, and the
    old one waits for the purge.
    """
    log_dir = overflowing_log(tmp_path / "logs").log_dir
    shown = call("recover", log_dir, "--dry-run", "--now", NOW_MS)
    assert 0 == shown.status
    assert f"split {0:020d}.log" in shown.out
    assert f"{FAR:020d}.log" in shown.out
    answer = call("recover", log_dir, "--yes", "--now", NOW_MS)
    assert 0 == answer.status, answer.err
    assert SPLIT == bases(log_dir)
    assert (log_dir / MARKER).exists()
    assert 0 == call("verify", log_dir).status
    assert list((log_dir / "t-0").glob("*.log.deleted"))
    assert 0 == call("purge", log_dir, "--yes", "--now", NOW_MS + 60_000).status
    assert not list((log_dir / "t-0").glob("*.deleted"))


@pytest.mark.parametrize("unclean", [True, False], ids=["unclean", "clean"])
@pytest.mark.parametrize(
    "words",
    [
        ("clean", "--config", "cleanup.policy=compact", "--force"),
        ("retain", "--config", "cleanup.policy=delete", "--config", "retention.ms=-1"),
        ("roll",),
    ],
    ids=lambda words: str(words[0]),
)
def test_other_commands_split_it_first(
    call: Call, tmp_path: Path, words: tuple[str, ...], *, unclean: bool
) -> None:
    """As they recover first what was not stopped cleanly, and as Kafka's cleaner splits it."""
    log_dir = overflowing_log(tmp_path / "logs").log_dir
    if unclean:
        (log_dir / MARKER).unlink()
    name, *options = words
    answer = call(name, log_dir, *options, "--yes", "--now", NOW_MS)
    assert 0 == answer.status, answer.err
    assert f"split {0:020d}.log" in answer.err
    assert {FAR, 2 * FAR + 400} <= set(bases(log_dir))
    assert 0 == call("verify", log_dir).status


def test_active_segment_that_overflows_is_named_with_the_way_out(
    call: Call, tmp_path: Path
) -> None:
    """A cleaning of a cleanly stopped log does not touch it, and names `logwright recover`."""
    log_dir = overflowing_log(tmp_path / "logs", last_segment=True).log_dir
    words = ("clean", log_dir, "--config", "cleanup.policy=compact", "--yes", "--now", NOW_MS)
    refused = call(*words)
    assert 4 == refused.status
    assert "logwright recover" in refused.err
    assert 0 == call("recover", log_dir, "--yes", "--now", NOW_MS).status
    assert 0 == call(*words).status


@pytest.mark.parametrize(
    "words",
    [("clean", "--config", "cleanup.policy=compact"), ("retain",), ("roll",), ("plan",)],
    ids=lambda words: str(words[0]),
)
def test_dry_runs_show_the_recovery_that_comes_first(
    call: Call, tmp_path: Path, words: tuple[str, ...]
) -> None:
    """File and offset of what would be cut; the plan is made after that; nothing is changed."""
    log_dir = copy_before("torn-tail", tmp_path)
    before = contents(log_dir)
    name, *options = words
    options += settings("torn-tail")
    options += [] if name == "plan" else ["--dry-run"]
    text = call(name, log_dir, *options, "--now", NOW_MS)
    assert 0 == text.status, text.err
    assert f"Recovered first: t-0: cut {152:020d}.log at byte 3047 from offset 182" in text.out
    assert "t-0: to be planned after its recovery" in text.out
    assert "Nothing" not in text.out
    line, *_ = call(name, log_dir, *options, "--output", "json").lines
    assert (line["topicPartition"], line["planned"]) == ("t-0", False)
    assert "cut" in {finding["action"] for finding in line["recoveredFirst"]}
    assert before == contents(log_dir)


def test_dry_run_of_a_cleaning_that_a_loss_is_before(call: Call, tmp_path: Path) -> None:
    """The recovery would be refused, and so is the dry run, with the way out."""
    log_dir = copy_before("bad-crc-sealed", tmp_path)
    before = contents(log_dir)
    answer = call("clean", log_dir, *settings("bad-crc-sealed"), "--dry-run")
    assert 5 == answer.status
    assert "--accept-loss" in answer.err
    assert before == contents(log_dir)


def test_dry_run_beside_a_broker(call: Call, tmp_path: Path) -> None:
    """A running broker's directory has no marker either; it is not one to be recovered."""
    log_dir = copy_before("torn-tail", tmp_path)
    (log_dir / ".lock").touch()
    with (log_dir / ".lock").open("r+b") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)
        answer = in_another_process("clean", log_dir, *settings("torn-tail"), "--dry-run")
    assert 5 == answer.returncode
    assert "holds this lock" in answer.stderr


def in_another_process(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """The installed command: a POSIX lock does not exclude the process that holds it."""
    command = [str(Path(sys.executable).with_name("logwright")), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_empty_logs_are_one_line(call: Call, tmp_path: Path) -> None:
    """A directory whose broker died has fifty of them; what had records is named alone."""
    for number in range(5):
        log = LogBuilder(tmp_path, f"e-{number}")
        log.segment(0)
        log.write(cleaner_checkpoint=None)
    log = LogBuilder(tmp_path)
    log.segment(0).batch(0, [("k", "v")])
    log.write(cleaner_checkpoint=None)
    (tmp_path / MARKER).unlink()
    (tmp_path / "e-4" / f"{0:020}.log").unlink()
    marks = tmp_path / "recovery-point-offset-checkpoint"
    marks.write_text("0\n1\ne 4 7\n")
    answer = call("recover", tmp_path, "--dry-run")
    (line,) = (line for line in answer.out.splitlines() if "empty logs" in line)
    assert line.startswith("4 empty logs (e-0, e-1, e-2 and 1 more): rebuilt ")
    for name in ("t-0", "e-4"):
        assert any(line.startswith(f"{name}: ") for line in answer.out.splitlines()), name
    assert not any(line.startswith("e-0") for line in answer.out.splitlines())
    lines = call("recover", tmp_path, "--dry-run", "--output", "json").lines
    assert 6 == len({line["topicPartition"] for line in lines if "topicPartition" in line})
    assert "Recovered first: 4 empty logs" in call("plan", tmp_path).out


def test_one_empty_log_has_its_name(call: Call, tmp_path: Path) -> None:
    """As any other."""
    log = LogBuilder(tmp_path)
    log.segment(0)
    log.write(cleaner_checkpoint=None)
    (tmp_path / MARKER).unlink()
    assert call("recover", tmp_path, "--dry-run").out.startswith("t-0: rebuilt ")
