"""The judge finds a wrong claim that is planted, and has nothing against a right one."""

from __future__ import annotations

import base64
import gzip
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.log_builder import LogBuilder, SegmentBuilder
from tests.worlds.acts import objects_with, upload
from tests.worlds.copies import left
from tests.worlds.driver import brought_back
from tests.worlds.judge import judge, judge_erasure
from tests.worlds.knowledge import look
from tests.worlds.plain_search import PlainFile, search_logs, topic_of
from tests.worlds.product import Claimed
from tests.worlds.requests import (
    ALL,
    CUSTOMERS,
    LONG,
    ORDERS,
    PATTERN,
    PERSONS,
    Asked,
    Asking,
    Encoding,
    other_forms,
)
from tests.worlds.world import NOW_MS, Plan, Planted, World, new_world

ALICE, BOB = PERSONS[:2]
COMING = NOW_MS + 1000
ID = "0123456789abcdef0123456789abcdef"


def world_of(tmp_path: Path, *requests: Asked, encoding: Encoding = "plain") -> World:
    """Alice is in the log of customers; nobody is in that of orders."""
    world = new_world(tmp_path / "world", Plan(0, (), (), Asking(requests, "keys", encoding)))
    log = LogBuilder(world.first, f"{CUSTOMERS}-0")
    log.segment(0).batch(0, [(ALICE, "1"), ("k", "2")], codec=4)
    log.write(producers=True)
    log = LogBuilder(world.first, f"{ORDERS}-0")
    log.segment(0).batch(0, [("k", PATTERN.decode())])
    log.write(producers=True)
    return world


def causes(world: World, *claimed: Claimed) -> list[str]:
    return [f"{one.way}: {one.cause}" for one in judge(world, look(world), claimed)]


def certificate(status: int, request: Asked, state: str, output: str = "") -> Claimed:
    return Claimed("certificate", status, {(request.digest, request.topics): state}, output)


def damage(world: World) -> None:
    """Nobody can say what the log of orders holds."""
    path = next((world.first / f"{ORDERS}-0").glob("*.log"))
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))


def elsewhere(world: World) -> None:
    """Another broker has a replica."""
    world.replicas[ORDERS] = {0: (1, 2)}


def tiered(world: World) -> None:
    """Some of it is in remote storage."""
    world.tiered.add(ORDERS)


def linked(world: World) -> None:
    """A link is where another log could be."""
    (world.first / "backup").symlink_to(world.root)


@pytest.mark.parametrize("state", ["gone", "not found"])
def test_a_person_that_is_there_is_not_gone(tmp_path: Path, state: str) -> None:
    """In a compressed batch, too."""
    request = Asked(ALICE, CUSTOMERS)
    world = world_of(tmp_path, request)
    world.on_record.add((request.topics, request.key))
    wrong_causes = causes(world, certificate(0, request, state))
    assert [f"more: clean while found in *-*/{'*'}.log"] == wrong_causes


@pytest.mark.parametrize("state", ["gone", "not found", "in time"])
@pytest.mark.parametrize("make", [damage, elsewhere, tiered, linked])
def test_what_was_not_searched_is_neither_gone_nor_in_time(
    tmp_path: Path, state: str, make: Callable[[World], None]
) -> None:
    """Whatever it is that hides it: damage, another broker, remote storage, a link."""
    request = Asked(BOB, ORDERS, COMING)
    world = world_of(tmp_path, request)
    world.on_record.add((request.topics, request.key))
    make(world)
    wrong_causes = causes(world, certificate(6, request, state))
    assert any(one.startswith("more: clean with unread") for one in wrong_causes) == (
        state != "in time"
    )
    assert ("more: in time with unread files" in wrong_causes) == (state == "in time")
    assert "more: certificate: status 0" in causes(world, certificate(0, request, state))
    assert [] == causes(world, certificate(6, request, "not proved"))


def test_what_was_never_there_is_not_gone(tmp_path: Path) -> None:
    """Without an erasure it is not found, which is a right claim; a deletion is not an erasure."""
    request = Asked(BOB, ORDERS)
    world = world_of(tmp_path, request)
    gone = certificate(0, request, "gone")
    world.on_record |= {(ORDERS, ALICE), (CUSTOMERS, BOB)}
    wrong = ["more: gone without an erasure on record"]
    assert wrong == causes(world, gone)
    world.on_record = {(ORDERS, BOB)}
    assert [] == causes(world, gone)
    world.on_record = set()
    name = f"{ORDERS}-0.{ID}-delete"
    record = f'{{"directory": "{name}", "topic": "{ORDERS}"}}\n'
    (world.first / ".logwright-deleted-logs.jsonl").write_text(record)
    (world.first / f"{ORDERS}-0").rename(world.first / name)
    assert wrong == causes(world, gone)
    assert [] == causes(world, certificate(0, request, "not found"))


def test_a_search_of_everything_proves(tmp_path: Path) -> None:
    """Where all was searched, ``not proved`` and a bad status have no cause."""
    request = Asked(BOB, ORDERS)
    world = world_of(tmp_path, request)
    wrong_causes = causes(world, certificate(6, request, "not proved"), Claimed("find", 9))
    assert ["less: not proved without a cause", "less: find: 9 without a cause"] == wrong_causes


def test_a_topic_that_does_not_exist_is_not_clean(tmp_path: Path) -> None:
    """Unless it is said that nothing matches."""
    request = Asked(BOB, "custmers")
    world = world_of(tmp_path, request)
    cause = "more: topic that does not exist"
    assert [cause] == causes(world, certificate(0, request, "gone"))
    assert [cause] == causes(world, certificate(0, request, "not found"))
    assert [] == causes(world, certificate(0, request, "not found", "it matches no topic"))


def test_a_request_of_another_topic_is_not_concerned(tmp_path: Path) -> None:
    """A damaged log of orders says nothing of customers, and a person there is nobody's here."""
    request = Asked(ALICE, ORDERS)
    assert [] == causes(world_of(tmp_path, request), certificate(0, request, "not found"))
    other = Asked(BOB, CUSTOMERS)
    world = world_of(tmp_path / "damaged", other)
    damage(world)
    wrong_causes = causes(world, certificate(6, other, "not proved"))
    assert ["less: not proved without a cause"] == wrong_causes


@pytest.mark.parametrize("encoding", ["bom", "utf16", "nul", "space", "quoted"])
def test_keys_that_are_written_in_another_way(tmp_path: Path, encoding: Encoding) -> None:
    """To answer as if they were meant is wrong; to refuse them, or to warn of a legal one, is
    not.
    """
    request = Asked(ALICE)
    world = world_of(tmp_path, request, encoding=encoding)
    wrong = ["more: find: encoding of keys"]
    assert wrong == causes(world, Claimed("find", 0))
    if encoding in ("space", "quoted"):
        assert [] == causes(world, Claimed("find", 0, said="white space or quotes around it"))
    else:
        assert [] == causes(world, Claimed("find", 2))


def test_deadlines(tmp_path: Path) -> None:
    """``missed`` is of the past, ``will be late`` of the future."""
    past, coming = Asked(ALICE, CUSTOMERS, NOW_MS), Asked(ALICE, CUSTOMERS, COMING)
    for request, right, wrong in (
        (past, "missed", "will be late"),
        (coming, "will be late", "missed"),
    ):
        world = world_of(tmp_path / right, request)
        assert [] == causes(world, certificate(6, request, right))
        cause = f"more: {wrong} by another deadline"
        assert [cause] == causes(world, certificate(6, request, wrong))


def test_statuses_of_a_search(tmp_path: Path) -> None:
    """0 is of nothing, 8 of everything searched and something found, 9 of the rest."""
    world = world_of(tmp_path, Asked(ALICE))
    assert ["more: find: 0 and found"] == causes(world, Claimed("find", 0))
    assert [] == causes(world, Claimed("find", 8))
    damage(world)
    assert ["more: find: 8 and unread"] == causes(world, Claimed("find", 8))
    assert [] == causes(world, Claimed("find", 9))


def test_what_stays(tmp_path: Path) -> None:
    """A stray log, and what a recovery has cut, but not of a deleted log: that goes with it."""
    world = world_of(tmp_path, Asked(ALICE))
    for name in (f"{CUSTOMERS}-0", f"{CUSTOMERS}-1.{ID}-delete", f"{CUSTOMERS}-1.{ID}-stray"):
        for inside in (".", ".logwright/cut/1"):
            path = world.first / name / inside / f"{0:020d}.log"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(SegmentBuilder(0).batch(0, [(ALICE, "1")]).content)
    stays = {
        (log.path.split("/")[0].rpartition("-")[2], ".logwright" in log.path)
        for log in search_logs(world.first)
        if log.stays
    }
    assert {("0", True), ("stray", False), ("stray", True)} == stays


def test_a_pattern_is_in_all_topics(tmp_path: Path) -> None:
    """A replica elsewhere of another topic may hold it, and no key of the request."""
    request = Asked(ALICE, CUSTOMERS)
    world = world_of(tmp_path, request)
    elsewhere(world)
    assert [] == causes(world, Claimed("find", 8))
    plan = Plan(0, (), (), Asking((request,), pattern=PATTERN))
    assert ["more: find: 8 and away"] == causes(replace(world, plan=plan), Claimed("find", 8))
    assert [] == causes(replace(world, plan=plan), Claimed("find", 9))


def test_a_store_has_no_row_that_was_refused(tmp_path: Path) -> None:
    """Its topics are of no search, and a certificate without a request is refused."""
    request = Asked(ALICE, "customers ")
    world = world_of(tmp_path, request)
    claimed = (Claimed("find", 0), Claimed("certificate", 2))
    wrong = ["more: find: topic that does not exist"]
    assert wrong == causes(world, Claimed("find", 0))
    stored = replace(world, plan=Plan(0, (), (), Asking((request,), "store")))
    assert [] == causes(stored, *claimed)


def test_a_deleted_log_is_of_the_topic_on_record(tmp_path: Path) -> None:
    """Whatever its name has left of the topic; without the record it is not known that there
    was one.
    """
    world = world_of(tmp_path, Asked(ALICE, ORDERS))
    path = world.first / f"{LONG}-0.{ID}-delete"[-255:]
    (world.first / f"{CUSTOMERS}-0").rename(path)
    record = world.first / ".logwright-deleted-logs.jsonl"
    assert ["more: find: 0 and found"] == causes(world, Claimed("find", 0))
    record.write_text(f'{{"directory": "{path.name}", "topic": "{CUSTOMERS}"}}\n{{"torn": {{}}\n')
    assert [] == causes(world, Claimed("find", 0))
    shutil.rmtree(path)
    assert {CUSTOMERS, ORDERS} == look(world).topics
    record.unlink()
    assert {ORDERS} == look(world).topics


def test_an_erasure_of_all_topics_names_none(tmp_path: Path) -> None:
    """Where there is no topic, it has searched what is there; a named topic it has not."""
    for topics, wrong in ((ALL, []), (CUSTOMERS, ["erase: topic that does not exist"])):
        world = world_of(tmp_path / topics, Asked(BOB, topics))
        for topic in (CUSTOMERS, ORDERS):
            shutil.rmtree(world.first / f"{topic}-0")
        seen = look(world)
        wrongs = judge_erasure(world, seen, seen, Claimed("erase", 0))
        assert wrong == [one.cause for one in wrongs]


def test_an_erasure_of_a_torn_log_is_refused(tmp_path: Path) -> None:
    """Zeros hold nothing, so all was searched; neither Kafka nor an erasure takes such a log."""
    world = world_of(tmp_path, Asked(BOB))
    (world.first / f"{ORDERS}-0" / f"{0:020d}.log").write_bytes(bytes(4))
    seen = look(world)
    assert [] == causes(world, Claimed("find", 0))
    assert [] == list(judge_erasure(world, seen, seen, Claimed("erase", 3)))


def test_an_erasure_that_leaves_something(tmp_path: Path) -> None:
    """Its status says so; where nothing is left, it is 0."""
    world = world_of(tmp_path, Asked(ALICE))
    seen = look(world)
    (wrong,) = judge_erasure(world, seen, look(world), Claimed("erase", 0))
    assert "erase: 0, left: *-*/*.log" == wrong.cause
    assert [] == list(judge_erasure(world, seen, look(world), Claimed("erase", 8)))
    (world.first / f"{CUSTOMERS}-0" / f"{0:020d}.log").write_bytes(b"")
    assert [] == list(judge_erasure(world, seen, look(world), Claimed("erase", 0)))
    (wrong,) = judge_erasure(world, seen, look(world), Claimed("erase", 9))
    assert "erase: 9 without a cause" == wrong.cause


def test_a_countdown_with_two_requests_of_a_key(tmp_path: Path) -> None:
    """A person in a directory of unknown topic is of both."""
    world = world_of(tmp_path, Asked(BOB, CUSTOMERS, COMING), Asked(BOB, ORDERS, COMING))
    (world.first / "backup").mkdir()
    content = SegmentBuilder(0).batch(0, [(BOB, "1")], codec=1).content
    (world.first / "backup" / f"{0:020d}.log").write_bytes(content)
    wrong_causes = causes(world, Claimed("countdown", 0, {("", ORDERS): "gone"}, gone=1))
    wrong = ["more: countdown: gone, several of a key", "more: countdown: topic is gone"]
    assert wrong == wrong_causes
    assert [] == causes(world, Claimed("countdown", 0, {("", ORDERS): "will be late"}))


@pytest.mark.parametrize("form", other_forms(BOB))
def test_a_person_in_other_bytes_is_not_gone(tmp_path: Path, form: bytes) -> None:
    """A request for bytes is not about them, and a decoded one is."""
    request = Asked(BOB, ORDERS)
    world = world_of(tmp_path, request)
    path = world.first / f"{ORDERS}-0" / f"{0:020d}.log"
    path.write_bytes(SegmentBuilder(0).batch(0, [(form, "1")], codec=2).content)
    wrong = ["more: clean while another form is there"]
    assert wrong == causes(world, certificate(0, request, "not found"))
    assert ["more: find: 0 and another form is there"] == causes(world, Claimed("find", 0))
    assert [] == causes(world, certificate(6, request, "gone as bytes"), Claimed("find", 9))
    decoded = replace(request, form="key_decoded")
    all_forms = replace(world, plan=Plan(0, (), (), Asking((decoded,))))
    cause = "more: clean while found in *-*/*.log"
    assert [cause] == causes(all_forms, certificate(0, decoded, "not found"))
    assert [] == causes(all_forms, certificate(6, decoded, "remains"), Claimed("find", 8))


def test_a_table_of_another_program(tmp_path: Path) -> None:
    """Whoever is planted there is not gone, and somebody else only if all of it can be searched."""
    request = Asked(BOB, ORDERS)
    for who, is_found, is_proved, wrong in (
        (BOB, True, True, ["more: clean while found, a copy"]),
        (ALICE, True, True, []),
        (ALICE, True, False, []),
        (ALICE, False, False, ["more: clean with unread: x"]),
    ):
        world = world_of(tmp_path / f"{who!r}{is_found}{is_proved}", request)
        planted = Planted(Path("x"), who, is_found=is_found, is_proved=is_proved)
        world.planted.append(planted)
        assert wrong == causes(world, certificate(0, request, "not found"))[:1]
        proved = ["less: not proved without a cause"] if who == ALICE and is_proved else []
        assert proved == causes(world, certificate(6, request, "not proved"))


def test_objects_of_a_bucket(tmp_path: Path) -> None:
    """Those of the newest version are its log; what no version names may be of anybody."""
    request = Asked(BOB, ORDERS)
    world = world_of(tmp_path, request)
    world.policy = "compact"
    assert 0 == upload(world, world.first)
    world.archives.append(world.bucket)
    assert [] == causes(world, certificate(0, request, "not found"))
    alice = Asked(ALICE, CUSTOMERS)
    shutil.rmtree(world.first / f"{CUSTOMERS}-0")
    there = replace(world, plan=Plan(0, (), (), Asking((alice,))))
    cause = "more: clean while found, a copy"
    assert [cause] == causes(there, certificate(0, alice, "not found"))[:1]
    path = world.bucket / f"{ORDERS}-0" / "data" / "upload-0-0-0.log"
    path.write_bytes(SegmentBuilder(0).batch(0, [("k", "1")]).content)
    wrong = causes(world, certificate(0, request, "not found"))
    assert ["more: clean with unread: *-*/data/upload-*-*-*.log"] == wrong[:1]


def test_what_comes_back_into_a_bucket(tmp_path: Path) -> None:
    """An object that is there since an erasure, with who was erased, was brought by an upload."""
    world = world_of(tmp_path, Asked(ALICE))
    assert 0 == upload(world, world.first)
    old = objects_with(world, CUSTOMERS, ALICE)
    world.erased_in_bucket[CUSTOMERS, ALICE] = old
    assert 1 == len(old)
    assert [] == list(brought_back(world))
    (path,) = (world.bucket / each for each in old)
    shutil.copy(path, path.with_name("upload-1-0-0.log"))
    (wrong,) = brought_back(world)
    assert "an upload brings back who was erased" == wrong.cause


def test_what_a_killed_command_left(tmp_path: Path) -> None:
    """An erasure that says that nothing is left has removed it."""
    world = world_of(tmp_path, Asked(BOB))
    left(world, random.Random(1))
    seen = look(world)
    (wrong,) = judge_erasure(world, seen, seen, Claimed("erase", 0))
    assert "erase: 0, and a killed command's copies stay" == wrong.cause


@pytest.mark.parametrize("codec", range(5))
def test_the_plain_search_reads_each_codec(tmp_path: Path, codec: int) -> None:
    """A key in a batch is found, and a damaged batch is not taken for a whole one."""
    content = SegmentBuilder(0).batch(0, [(ALICE, "1" * 200)], codec=codec).content
    path = tmp_path / "backup" / f"{0:020d}.log"
    path.parent.mkdir()
    path.write_bytes(content)
    (file,) = search_logs(tmp_path)
    assert (True, False, "whole") == (file.has_key(ALICE), file.has_key(BOB), file.state)
    path.write_bytes(content[:-3])
    (file,) = search_logs(tmp_path)
    assert "unread" == file.state
    path.write_bytes(b"xyz" + content)
    (file,) = search_logs(tmp_path)
    assert (True, "unread") == (file.has_key(ALICE), file.state)
    path.with_suffix(".log.gz").write_bytes(gzip.compress(content))
    assert [True, True] == [one.has_key(ALICE) for one in search_logs(tmp_path)]


@pytest.mark.parametrize("before", range(4))
def test_forms_of_a_key(before: int) -> None:
    """A key is found in hex, in UTF-16 and in base64, wherever it begins in a longer text."""
    longer = b"z" * before + ALICE + b"more"
    for text in (longer.hex().encode(), base64.b64encode(longer), longer.decode().encode("utf-16")):
        file = PlainFile("x", None, "loose", opened=[text])
        assert (True, False) == (file.has_key(ALICE), file.has_key(BOB))


def test_topics_of_directories() -> None:
    """A name that Kafka has cut says nothing, and neither does one that is none of Kafka's."""
    long = f"{'t' * 240}-0"[: 255 - 40] + f".{ID}-delete"[:40]
    assert [CUSTOMERS, CUSTOMERS, None, None, None] == [
        topic_of(directory)
        for directory in (
            f"{CUSTOMERS}-0",
            f"{CUSTOMERS}-0.{ID}-stray",
            "backup",
            long,
            "lost+found",
        )
    ]
