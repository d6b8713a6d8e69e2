"""``logwright rescue --free``: names that it is given, what it would free, exit status."""

from __future__ import annotations

from pathlib import Path

import pytest

from logwright.rescue.free_look import space_of
from tests.e2e.command import Answer, call, tree
from tests.log_builder import START_MS, LogBuilder

ALL = "1000TiB"
DAY_MS = 86_400_000
LATER = ("--now", START_MS + DAY_MS)
DELETES = ("--no-metadata", "--config", "cleanup.policy=delete", "--config", "retention.ms=1000")
VALUE = "v" * 30_000


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """`t-0` has two segments and `u-0` only an active one, all with old records; there are two
    stray logs.
    """
    directory = tmp_path / "logs"
    for name, segments in (("t-0", 2), ("u-0", 1)):
        log = LogBuilder(directory, name)
        for base in range(0, segments * 4, 4):
            log.segment(base).batch(base, [(f"k{n}", VALUE) for n in range(4)])
        log.write()
    for letter in "ab":
        (directory / f"s-0.{letter * 32}-stray").mkdir()
        (directory / f"s-0.{letter * 32}-stray" / f"{0:020}.log").write_bytes(bytes(4096))
    return directory


def free(log_dir: Path, *words: object, how: str = "--yes", goal: str = ALL) -> Answer:
    return call("rescue", log_dir, "--free", goal, how, *DELETES, *LATER, *words)


@pytest.mark.parametrize("how", ["--yes", "--dry-run"])
@pytest.mark.parametrize(
    ("words", "names"),
    [
        (("--stray", "nosuch"), ["no stray log nosuch", "s-0." + "a" * 32, "s-0." + "b" * 32]),
        (("--stray", "s-0." + "a" * 32 + "-stray", "--stray", "t-0"), ["no stray log t-0"]),
        (("--stray", "s-0." + "a" * 32 + "-delete"), ["no stray log", "There are: s-0."]),
        (("--tighter-retention", "x=retention.ms:1"), ["no topic x", "There are: t, u."]),
    ],
)
def test_a_name_that_matches_nothing(
    log_dir: Path, words: tuple[str, ...], names: list[str], how: str
) -> None:
    """It is refused before anything is changed, with the names that there are."""
    before = tree(log_dir)
    answer = free(log_dir, *words, how=how)
    assert 2 == answer.status
    for name in names:
        assert name in answer.err
    assert before == tree(log_dir)


def test_no_stray_log_at_all(log_dir: Path) -> None:
    """The error says so."""
    for stray in log_dir.glob("*-stray"):
        stray.rename(stray.with_name(stray.name.replace("-stray", "-delete")))
    answer = free(log_dir, "--stray", "nosuch", how="--dry-run")
    assert 2 == answer.status
    assert "there is no stray log nosuch. There are none." in answer.err


@pytest.mark.parametrize(
    ("name", "there"),
    [("nosuch-0", "There are: "), ("t-0/nosuch.log", f"{0:020}.index, {0:020}.log")],
)
def test_what_is_set_aside_is_there(log_dir: Path, name: str, there: str) -> None:
    """Of the other name of a rescue the same: the entries of the directory, or of the log."""
    before = tree(log_dir)
    answer = call("rescue", log_dir, "--set-aside", log_dir / name, "--yes")
    assert 2 == answer.status
    assert there in answer.err
    assert ("t-0, u-0" in answer.err) == (name == "nosuch-0")
    assert before == tree(log_dir)


def test_the_active_segment_goes_as_by_a_broker(log_dir: Path) -> None:
    """Offered is what `plan` and `retain` say, and it goes; the log ends where it did."""
    dry = free(log_dir, "--output", "json", how="--dry-run").lines
    offered = {Path(row["path"]).name: row for row in dry if row.get("step") == "retention"}
    retained = call("retain", log_dir, "--dry-run", *DELETES, *LATER, "--output", "json").lines
    wanted = {row["topicPartition"]: row["bytesToBeFreed"] for row in retained}
    assert offered.keys() == wanted.keys() == {"t-0", "u-0"}
    for name, size in wanted.items():
        assert 0 <= offered[name]["bytesAtMost"] - size < 10 * 4096
        assert 0 < offered[name]["needBytes"] < size
    assert "rolled before" in offered["u-0"]["detail"]
    done = free(log_dir, "--output", "json")
    assert 5 == done.status
    assert [f"{8:020}.log"] == [path.name for path in (log_dir / "t-0").glob("*.log")]
    assert [f"{4:020}.log"] == [path.name for path in (log_dir / "u-0").glob("*.log")]
    for name, end in (("t-0", 8), ("u-0", 4)):
        (row,) = call("inspect", log_dir, name, "--output", "json").lines[-1:]
        assert end == row["logStartOffset"] == row["logEndOffset"]


def test_a_small_active_segment_stays(tmp_path: Path) -> None:
    """The roll would take more than it frees."""
    log = LogBuilder(tmp_path)
    log.segment(0).batch(0, [("k", "v")])
    log.segment(1).batch(1, [("k", "v")])
    log.write()
    assert 5 == free(tmp_path).status
    assert [f"{1:020}.log"] == [path.name for path in (tmp_path / "t-0").glob("*.log")]


def test_a_young_active_segment_stays(log_dir: Path) -> None:
    """What is not committed, or not old, is not offered."""
    young = free(log_dir, "--now", START_MS + 500, how="--dry-run")
    assert "retention" not in young.out
    marks = log_dir / "replication-offset-checkpoint"
    marks.write_text("0\n2\nt 0 6\nu 0 3\n")
    answer = free(log_dir, "--output", "json", how="--dry-run")
    (row,) = (row for row in answer.lines if row.get("step") == "retention")
    assert ("t-0", 0) == (Path(row["path"]).name, row["needBytes"])


def test_a_dry_run_that_cannot_reach_the_goal(log_dir: Path) -> None:
    """It says how much can be had, and ends as the run would."""
    before = tree(log_dir)
    answer = free(log_dir, "--output", "json", how="--dry-run")
    (error,) = answer.errors
    assert ("DiskFull", 5, 5) == (error["error"], error["exitStatus"], answer.status)
    assert "bytes at most would be free, and 1099511627776000 are asked for" in error["problem"]
    assert before == tree(log_dir)
    assert 5 == free(log_dir).status


def test_a_dry_run_that_can_reach_the_goal(log_dir: Path) -> None:
    """Nothing is missing, or the steps free it: status 0."""
    assert 0 == free(log_dir, how="--dry-run", goal="1").status
    enough = space_of(log_dir).free + (64 << 10)
    answer = free(log_dir, how="--dry-run", goal=str(enough))
    assert 0 == answer.status, answer.err


def test_a_dry_run_names_what_a_recovery_may_add(log_dir: Path) -> None:
    """Logs that are to be recovered before they are planned."""
    (log_dir / ".kafka_cleanshutdown").unlink()
    answer = free(log_dir, how="--dry-run")
    assert 5 == answer.status
    assert "without what 2 logs free after their recovery" in answer.err
