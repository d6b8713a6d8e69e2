"""No space left, on a real file system of a few pages: nothing is lost, and it works afterwards."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from logwright.format.deletions import serialize_retirement
from logwright.format.names import DELETED_LOGS
from tests.e2e.command import Answer, call, tree
from tests.fixtures import (
    case_dir,
    clean_arguments,
    compare_after,
    copy_before,
    description,
    dump_lines,
    settings,
)
from tests.rights import mounting

pytestmark = [pytest.mark.e2e, pytest.mark.crash, pytest.mark.needs_rights("mounting")]

CASE = "basic-none"
PAGE_BYTES = 4096
CHECKPOINT = "cleaner-offset-checkpoint"
MOUNT = 'mount -t tmpfs -o "$1" logwright-test "$2" && echo mounted && read -r _'


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """A tmpfs in a mount namespace of its own, which goes with the process that holds it.

    Attributes:
        log_dir: the log directory, by the way into that namespace.
    """

    log_dir: Path

    def clean(self) -> Answer:
        """As Kafka cleaned it."""
        return call("clean", self.log_dir, *clean_arguments(CASE), "--output", "json")

    def purge(self) -> Answer:
        """When the deletion delay is over."""
        later = ("--now", description(CASE)["now"] + 60_000)
        return call("purge", self.log_dir, *settings(CASE), *later, "--yes", "--output", "json")

    def fill(self, free_pages: int) -> None:
        """Leave this number of pages. A file next to the log directory takes the others."""
        self.free()
        status = os.statvfs(self.log_dir)
        with (self.log_dir.parent / "filler").open("wb") as filler:
            filler.write(bytes((status.f_bavail - free_pages) * status.f_frsize))
        assert free_pages == os.statvfs(self.log_dir).f_bavail

    def free(self) -> None:
        """Room for all again."""
        (self.log_dir.parent / "filler").unlink(missing_ok=True)


@contextmanager
def disk(tmp_path: Path, options: str, case: str = CASE) -> Iterator[Disk]:
    """A log directory on a small file system."""
    copied = copy_before(case, tmp_path / "copied")
    mounted = tmp_path / "disk"
    mounted.mkdir(parents=True)
    unshared = mounting()
    assert unshared is not None
    with subprocess.Popen(
        [*unshared, "sh", "-c", MOUNT, "sh", options, str(mounted)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        try:
            assert "mounted\n" == holder.stdout.readline()
            seen = Path(f"/proc/{holder.pid}/root{mounted}")
            shutil.copytree(copied, seen / case, copy_function=shutil.copy2)
            yield Disk(log_dir=seen / case)
        finally:
            holder.stdin.close()
            holder.wait(60)


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Disk]:
    with disk(tmp_path, "size=1m") as made:
        yield made


def full(answer: Answer) -> str:
    """The answer is DiskFull, with a place and a remedy; what is said of it."""
    (error,) = answer.errors
    assert ("DiskFull", 5, 5) == (error["error"], error["exitStatus"], answer.status), answer.err
    assert error["path"]
    assert "ree" in error["remedy"]
    return str(error["problem"])


def finishes(made: Disk, *, swapped: bool = False) -> None:
    """With room again, it is as Kafka's cleaner left it.

    If it was `swapped` already, the cleaned segments are cleaned again and grouped again: then the
    records are Kafka's, in fewer segments.
    """
    made.free()
    again = made.clean()
    assert 0 == again.status, again.err
    purged = made.purge()
    assert 0 == purged.status, purged.err
    if swapped:
        assert records(dump_lines(CASE, "after")) == records(call("dump", made.log_dir).lines)
        entry = (case_dir(CASE) / "after" / CHECKPOINT).read_text()
        assert entry == (made.log_dir / CHECKPOINT).read_text()
    else:
        assert [] == compare_after(CASE, made.log_dir)
    assert not (made.log_dir / "t-0" / ".logwright").exists()
    assert not list(made.log_dir.glob("*.tmp"))


def test_no_room_for_the_output(small: Disk) -> None:
    """Not a byte of the log is touched, and no staged file is left."""
    before = tree(small.log_dir)
    small.fill(2)
    assert "there is no room for the compacted output" in full(small.clean())
    assert before == tree(small.log_dir)
    assert 2 == os.statvfs(small.log_dir).f_bavail
    finishes(small)


def test_no_room_at_any_point(small: Disk) -> None:
    """With one page more each time, every write is once the one that finds no room."""
    before = tree(small.log_dir)
    whole = small.log_dir.parent / "whole"
    shutil.copytree(small.log_dir, whole, copy_function=shutil.copy2)
    refusals: dict[int, str] = {}
    for pages in range(40):
        small.fill(pages)
        answer = small.clean()
        if answer.status == 0:
            break
        refusals[pages] = full(answer)
        now = tree(small.log_dir)
        work = {name for name in now if "/.logwright" in name}
        assert work <= {"t-0/.logwright", "t-0/.logwright/deletions.jsonl"}
        swapped = before != {name: seen for name, seen in now.items() if name not in work}
        if swapped:
            # Swapped already: only the record of it is missing, and the next run makes it.
            assert CHECKPOINT in answer.errors[0]["path"]
            assert before.get(CHECKPOINT) == now.get(CHECKPOINT)
        elif work:  # a ledger of no bytes
            small.free()
            assert 0 == small.purge().status
            assert before == tree(small.log_dir)
        finishes(small, swapped=swapped)
        shutil.rmtree(small.log_dir)
        shutil.copytree(whole, small.log_dir, copy_function=shutil.copy2)
    assert 0 == answer.status
    kinds = [problem.partition("(")[2].partition(")")[0] for problem in refusals.values()]
    assert ["", "Append", "WriteFile"] == list(dict.fromkeys(kinds))
    finishes(small)


def test_no_room_for_a_name_in_the_middle_of_a_swap(tmp_path: Path) -> None:
    """A second name of an old file takes an inode here; a purge takes back what was begun."""
    inodes = 2 + sum(1 for _ in copy_before(CASE, tmp_path / "count").rglob("*"))
    refused = 0
    for spare in range(16, 64):
        with disk(tmp_path / str(spare), f"size=1m,nr_inodes={inodes + spare}") as made:
            before = live(made.log_dir)
            answer = made.clean()
            if answer.status == 0:
                break
            if "(Link)" not in full(answer):
                assert before == live(made.log_dir)
                continue
            refused += 1
            begun = live(made.log_dir)
            assert "0" * 20 + ".log.cleaned" in {path.name for path in guards(made.log_dir)}
            (error,) = made.clean().errors
            assert "DiskFull" == error["error"]  # what was begun is undone, and begun again
            purged = made.purge()
            assert 0 == purged.status, purged.err
            assert [] == guards(made.log_dir)
            assert begun == live(made.log_dir)
            assert begun.keys() <= before.keys()
            roomy = Disk(log_dir=tmp_path / f"{spare}" / "roomy")
            shutil.copytree(made.log_dir, roomy.log_dir, copy_function=shutil.copy2)
            finishes(roomy, swapped=before != begun)
    assert 0 == answer.status
    assert refused


def test_retention_needs_no_room(tmp_path: Path) -> None:
    """It is what makes room: without a free page old segments go all the same, and a purge finds
    them by their own times.
    """
    case = "delete-size-time"
    with disk(tmp_path, "size=1m", case) as made:
        made.fill(0)
        options = (*settings(case), "--yes", "--output", "json")
        reported = call("retain", made.log_dir, "--now", description(case)["now"], *options)
        assert 0 == reported.status, reported.err
        assert "disk full: left out the record for an undo" in reported.err
        assert 0 == os.statvfs(made.log_dir).f_bavail
        undone = call("undo", made.log_dir, "t-0", "--yes")
        assert 5 == undone.status
        later = max(path.stat().st_ctime_ns for path in (made.log_dir / "t-0").iterdir())
        purged = call("purge", made.log_dir, "--now", later // 1_000_000 + 60_000, *options)
        assert 0 == purged.status, purged.err
        assert 0 < os.statvfs(made.log_dir).f_bavail
        segments = {path.name for path in (case_dir(case) / "after" / "t-0").glob("*.log")}
        assert segments == {path.name for path in (made.log_dir / "t-0").glob("*.log")}


def test_purge_of_a_deleted_log_needs_no_room(tmp_path: Path) -> None:
    """Where the line that nothing can be brought back any more finds no page, the directory gets
    another name, which no undo finds; and all of it goes.
    """
    with disk(tmp_path, "size=1m") as made:
        now = description(CASE)["now"]
        assert 0 == call("delete", made.log_dir, "t-0", "--now", now, "--yes").status
        record = made.log_dir / DELETED_LOGS
        with record.open("ab") as opened:  # to the end of its page: the next line wants another
            opened.write(b"\n" * (-record.stat().st_size % PAGE_BYTES))
        made.fill(0)
        purged = made.purge()
        assert 0 == purged.status, purged.err
        assert "disk full: renamed to t-0." in purged.err
        assert [True] == [line["purged"] for line in purged.lines]
        assert 0 < os.statvfs(made.log_dir).f_bavail
        assert not list(made.log_dir.glob("t-0*"))
        assert not record.exists()
        assert 5 == call("undo", made.log_dir, "t-0", "--yes").status


def test_purge_that_frees_nothing_needs_no_room(tmp_path: Path) -> None:
    """A file with a second name goes too; the ledger stays as it is, until there is room."""
    case = "delete-size-time"
    with disk(tmp_path, "size=1m", case) as made:
        options = (*settings(case), "--yes", "--output", "json")
        now = description(case)["now"]
        assert 0 == call("retain", made.log_dir, "--now", now, *options).status
        directory = made.log_dir / "t-0"
        for number, path in enumerate(sorted(directory.glob("*.deleted"))):
            (made.log_dir.parent / f"second-name-{number}").hardlink_to(path)
        later = directory / f"{0:020d}.log.1.deleted"
        later.touch()
        ledger = directory / ".logwright" / "deletions.jsonl"
        with ledger.open("ab") as opened:
            opened.write(serialize_retirement([later.name], at_ms=now + 60_000))
        before = ledger.read_bytes()
        made.fill(0)
        purged = call("purge", made.log_dir, "--now", now + 60_000, *options)
        assert 0 == purged.status, purged.err
        assert "disk full: left out compacting the deletion ledger" in purged.err
        assert [later] == list(directory.glob("*.deleted"))
        assert before == ledger.read_bytes()
        made.free()
        again = call("purge", made.log_dir, "--now", now + 60_000, *options)
        assert 0 == again.status, again.err
        assert 0 < len(ledger.read_bytes()) < len(before)
        assert [ledger.name] == [path.name for path in ledger.parent.iterdir()]


def records(lines: list[dict[str, Any]]) -> list[object]:
    return [one for line in lines if line["type"] == "batch" for one in line["records"]]


def live(log_dir: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (log_dir / "t-0").glob("*.log")}


def guards(log_dir: Path) -> list[Path]:
    return sorted((log_dir / "t-0").glob("*.cleaned"))
