"""Every row of the inventory, and files of no row: what searches, erasures, certificates, purges,
recoveries and ``inspect`` do with a file is what its row says.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest

from logwright.erasure.certificate.search import search
from logwright.erasure.find.search import search_log_dir
from logwright.erasure.keys import KeySet
from logwright.ingest.schema import SCHEMA
from logwright.log import inventory
from logwright.log.inventory import PLACES, FilePlace, owner_of, rows_by_directory
from logwright.log.record_files import RecordFile, list_files
from logwright.log.tree import list_tree
from logwright.recovery.leftovers import find_leftovers
from tests.e2e.command import Answer, call
from tests.erasing import bytes_anywhere
from tests.found import SECRET
from tests.log_builder import START_MS, LogBuilder

ME: Final = "the-person"
NOW: Final = START_MS + 10_000
FAR: Final = NOW + 10**12
ID: Final = "0123456789abcdef0123456789abcdef"
OPTIONS: Final = ("--config", "cleanup.policy=compact", "--output", "json")
DIRECTORIES: Final = {
    "log": "t-0",
    "stray": f"u-1.{ID}-stray",
    "future": f"u-1.{ID}-future",
    "deleted log": f"u-1.{ID}-delete",
    "other directory": "old-copy",
    "root": "",
}
PURGED: Final = (
    *("purge", "file.delete.delay.ms", "log.segment.delete.delay.ms"),
    "sweep.keep_failed_output_ms",
)
PARTS: Final = (
    *(f"{7:020d}", "log", "index", "snapshot", "deleted", "cleaned", "swap", "tmp", "bak", "2", ""),
    *("old", "checkpoint", "from-9", "7", "line\nfeed"),
)
BELOW: Final = (
    *("", "", "backup/", ".logwright/", ".logwright/staging/", ".logwright/cut/1-0/"),
    *(".logwright/staging/1-0123abcd-0123abcd/", ".logwright/failed/1.1-0123abcd-0123abcd/"),
    *(".logwright/failed/other/", ".logwright/spare/", "backup/.logwright/cut/", ".logwright/cut/"),
)
RANDOM: Final = 60


@dataclass(frozen=True, slots=True)
class World:
    """A log directory with one file that has the person."""

    log_dir: Path
    path: str

    @property
    def file(self) -> RecordFile:
        """The file in the inventory."""
        (file,) = [one for one in list_files(self.log_dir).files if one.relative == self.path]
        return file

    @property
    def is_there(self) -> bool:
        """Whether it still has its name."""
        return (self.log_dir / self.path).exists()

    @property
    def holding(self) -> set[str]:
        """The files in which plain code sees the person."""
        return set(bytes_anywhere(self.log_dir, ME.encode()))

    def erase(self) -> Answer:
        """Erase at once all that an erasure may."""
        return self._call("erase", "--now-and-for-good", "--purge-unreadable", "--yes")

    def find(self) -> Answer:
        """Search it."""
        return self._call("find")

    def _call(self, name: str, *words: str) -> Answer:
        keys = self.log_dir.parent / "keys"
        keys.write_text(f"{ME}\n")
        return call(name, self.log_dir, "--keys", keys, "--now", NOW, *OPTIONS, *words)


def log(log_dir: Path, name: str, key: str) -> None:
    """Two segments, with a record of the key in the first."""
    built = LogBuilder(log_dir.parent / f"of-{name}", "u-1")
    built.segment(0).batch(0, [(key, "v"), ("b", "v")])
    built.segment(2).batch(2, [("c", "v")])
    built.write()
    shutil.copytree(built.directory, log_dir / name)


def planted(root: Path, directory: str, path: str, *, live: bool = False) -> World:
    """Plant a file, or take the live segment of that name."""
    log_dir = root / "logs"
    log_dir.mkdir(parents=True)
    (log_dir / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":-1}')
    log(log_dir, "t-0", ME if live and directory == "t-0" else "a")
    if directory not in ("", "t-0", "old-copy"):
        log(log_dir, directory, ME if live else "a")
    world = World(log_dir, f"{directory}/{path}" if directory else path)
    if not live:
        content = root / "content"
        content.write_bytes(next(source_of(root)))
        file = log_dir / world.path
        file.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(content if not path.startswith(inventory.SPOOL) else spool(root), file)
    return world


def source_of(root: Path) -> Iterator[bytes]:
    """A segment with the person."""
    built = LogBuilder(root / "source", "t-0")
    built.segment(7).batch(7, [(ME, "v"), ("b", "v")])
    built.write()
    yield from (path.read_bytes() for path in built.directory.glob("*.log"))


def spool(root: Path) -> Path:
    """Rows of a write by Spark."""
    row = {"key": ME.encode(), "value": b"v", "headers": [], "timestamp_ms": 1}
    columns = [pa.array([row.get(field.name)], type=field.type) for field in SCHEMA]
    path = root / "spool"
    with path.open("wb") as sink, pa.ipc.new_file(sink, SCHEMA) as file:
        file.write_batch(pa.RecordBatch.from_arrays(columns, schema=SCHEMA))
    return path


def of_row(root: Path, row: FilePlace) -> World:
    """The example of a row. A live segment has the offset of one; any other file that of none."""
    live = row.kind == "segment" and row.where in ("log", "stray", "future")
    path = row.example.replace("N", f"{0 if live else 7:020d}")
    return planted(root, DIRECTORIES[row.where], path, live=live)


def named(answer: Answer) -> set[str]:
    """What an erasure says that it leaves or did not search."""
    return {
        str(line[name]) for line in answer.lines for name in ("left", "notSearched") if name in line
    }


def seen(answer: Answer) -> set[str]:
    """What a search finds, or does not search."""
    return {str(one["path"]) for one in answer.lines if "kind" in one or "problem" in one}


EACH_ROW = pytest.mark.parametrize("row", PLACES, ids=lambda row: f"{row.where}: {row.example}")


@EACH_ROW
def test_a_search_and_a_certificate_see_it(tmp_path: Path, row: FilePlace) -> None:
    """Under the name and with the rule of the row; the certificate lists the file as searched."""
    world = of_row(tmp_path, row)
    place = world.file.place
    assert (row.kind, row.name, row.form) == (place.kind, place.name, place.form)
    (finding,) = [one for one in world.find().lines if "kind" in one]
    assert (world.path, row.name) == (finding["path"], finding["place"])
    if place.rule != "upkeep":
        assert finding["rule"] == ("" if world.file.is_kept else place.rule)
    keys = KeySet.of(SECRET, clear=[ME.encode()])
    made = search(
        world.log_dir,
        lambda directory: search_log_dir(directory, keys, None, progress=lambda *_: None),
        requests=1,
        sources=None,
        report=lambda *_: None,
    )
    assert [world.path] == [one.path for one in made.findings]
    assert "searched" == made.looked[world.path]
    assert made.looked.keys() == made.files.keys() == list_tree(world.log_dir).files.keys()


@EACH_ROW
def test_an_erasure_removes_or_names_it(tmp_path: Path, row: FilePlace) -> None:
    """And 0 means that plain code does not see the person any more."""
    world = of_row(tmp_path, row)
    erasure = world.file.place.erasure
    done = world.erase()
    assert world.holding == named(done) == seen(world.find())
    assert (erasure == "left") == bool(world.holding)
    assert done.status == (0 if erasure != "left" else 5 if row.kind == "foreign" else 8)
    if erasure == "left":
        (left,) = [one for one in done.lines if "left" in one]
        assert (row.name, row.why) == (left["place"], left["why"])
    assert world.is_there == (erasure in ("rebuilt", "left"))


@EACH_ROW
def test_a_purge_removes_it_by_its_rule_alone(tmp_path: Path, row: FilePlace) -> None:
    """Long after every delay."""
    world = of_row(tmp_path, row)
    rule = world.file.place.rule
    call("purge", world.log_dir, "--yes", "--now", FAR)
    assert world.is_there == (rule not in PURGED)


@EACH_ROW
def test_a_recovery_takes_it_for_a_leftover(tmp_path: Path, row: FilePlace) -> None:
    """Files that are being built or swapped in, indexes without a log, and snapshots that are not
    of the log; nothing else.
    """
    world = of_row(tmp_path, row)
    is_leftover = world.file.place.erasure == "recovered" or row.kind == "snapshot"
    goes = row.where == "log" and is_leftover
    call("recover", world.log_dir, "--yes", "--now", FAR)
    assert world.is_there != goes
    if row.where == "log" and "/" not in row.example:
        name = Path(world.path).name
        leftovers = find_leftovers([name], {name: 9}, like_kafka=False)
        kinds = {
            "cleaned": leftovers.cleaned,
            "swap": leftovers.swaps,
            "retired": leftovers.deleted,
        }
        assert {row.kind} & kinds.keys() == {kind for kind, names in kinds.items() if names}


@pytest.mark.parametrize("row", [row for row in PLACES if row.where == "log"], ids=str)
def test_inspect_shows_it(tmp_path: Path, row: FilePlace) -> None:
    """What is in the log's directory under its kind; what is staged or kept by its plan."""
    world = of_row(tmp_path, row)
    (shown,) = [
        line
        for line in call("inspect", world.log_dir, "t-0", *OPTIONS[-2:], "--now", NOW).lines
        if line.get("topicPartition") == "t-0"
    ]
    name, plan = world.path.partition("/")[2], "1-0123abcd-0123abcd"
    expected: dict[str, object] = {
        "segment": shown["segments"][0]["logBytes"],
        "index": shown["segments"][-1]["indexBytes"],
        "snapshot": 7 in shown["snapshots"],
        "staged": [plan] == shown["staging"],
        "failed output": [plan] == [one["plan"] for one in shown["failedOutputs"]],
        "fact": True,
        "cut": True,
        **dict.fromkeys(
            ("cleaned", "swap", "retired", "metadata snapshot"), name in shown["leftovers"]
        ),
        **dict.fromkeys(
            ("temporary", "foreign", "stray"),
            {name, f"{name.partition('/')[0]}/"} & {*shown["others"]},
        ),
    }
    assert expected[row.kind]


def random_paths(draw: random.Random) -> Iterator[tuple[str, str]]:
    """Names that fit a row, or nearly, or not at all."""
    for _ in range(RANDOM):
        name = ".".join(draw.choice(PARTS) for _ in range(draw.randrange(1, 5))).strip(".") or "x"
        yield draw.choice([*DIRECTORIES.values()]), f"{draw.choice(BELOW)}{name}"


def test_any_file(tmp_path: Path, seed: int) -> None:
    """Each has one place. What an erasure leaves it names, a search then finds just that, and what
    its place lets an erasure remove is gone.
    """
    draw, states = random.Random(seed), set()
    known = random_paths(random.Random(1))  # some of them are left, others removed
    for number, (directory, path) in enumerate(chain(random_paths(draw), known)):
        world = planted(tmp_path / str(number), directory, path)
        listed = list_files(world.log_dir)
        assert [one.relative for one in listed.files] == [*listed.tree.files]
        before = world.file.place
        done = world.erase()
        holding = world.holding
        assert holding == named(done) == seen(world.find()), (seed, world.path)
        assert (done.status == 0) == (not holding), (seed, world.path, done.err)
        if before.erasure != "left" and done.status != 5:
            assert world.path not in holding, (seed, world.path)
        if before.erasure == "left" and before.kind != "foreign":
            assert world.path in holding, (seed, world.path)
        states.add(before.erasure)
    assert {"left", "removed"} <= states


def test_files_under_names_of_nobody(tmp_path: Path) -> None:
    """Rows of an interrupted write, a copy of a log, and one inside a log: none of them is erased,
    all are named, and the exit status says so.
    """
    world = planted(tmp_path, "t-0", f"backup/{0:020d}.log")
    shutil.copyfile(spool(tmp_path), world.log_dir / ".logwright-write-0")
    shutil.copytree(world.log_dir / "t-0/backup", world.log_dir / "old-copy")
    names = {".logwright-write-0", f"old-copy/{0:020d}.log", f"t-0/backup/{0:020d}.log"}
    done = world.erase()
    assert 8 == done.status
    assert names == named(done) == seen(world.find())


def test_a_deleted_log_with_a_foreign_file_stays(tmp_path: Path) -> None:
    """No purge removes it, and a search does not say that one will."""
    for name, rule in (("", "log.segment.delete.delay.ms"), ("backup/notes.txt", "")):
        directory = DIRECTORIES["deleted log"]
        world = planted(tmp_path / rule, directory, f"{7:020d}.log")
        if name:
            path = world.log_dir / directory / name
            path.parent.mkdir()
            path.touch()
        assert [rule] == [one["rule"] for one in world.find().lines if "kind" in one]
        call("purge", world.log_dir, "--yes", "--now", FAR)
        assert world.is_there == bool(name)


def test_a_new_place_is_one_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a row a search shows it by its name and an erasure removes it; without one it is named
    as a file of nobody.
    """
    path = ".logwright/spare/00000000000000000007.log"
    before = planted(tmp_path / "before", "t-0", path)
    assert ("stray", {before.path}) == (before.file.place.name, named(before.erase()))
    row = FilePlace(
        "spare", "log", r"\.logwright/spare/.*", path, "spare", "segment", "", "removed"
    )
    monkeypatch.setattr(inventory, "_ROWS", rows_by_directory((row, *PLACES)))
    after = planted(tmp_path / "after", "t-0", path)
    (finding,) = [one for one in after.find().lines if "kind" in one]
    assert ("spare", "") == (finding["place"], finding["rule"])
    assert 0 == after.erase().status
    assert set() == after.holding


@pytest.mark.parametrize(
    ("name", "where"),
    [
        ("t-0", "log"),
        (f"t-0.{ID}-stray", "stray"),
        (f"t-0.{ID}-future", "future"),
        (f"t-0.{ID}-delete", "deleted log"),
        ("t-0.not-an-id-delete", "other directory"),
        ("lost+found", "other directory"),
    ],
)
def test_directories_by_name(name: str, where: str) -> None:
    """As Kafka names them."""
    assert where == owner_of(name)[0]
