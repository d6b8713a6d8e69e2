"""``logwright quorum``: what it says, what it refuses, and what it leaves when it is killed."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import shutil
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from logwright.format.control import ControlType
from logwright.format.crc import crc32c
from logwright.metadata.read import read_metadata
from logwright.quorum.batches import LogFile
from logwright.quorum.control import parse_voters, serialize_voters
from logwright.quorum.counters import (
    LEADER_EPOCHS,
    PRODUCER_IDS,
    leader_epoch_at,
    next_producer_id,
)
from logwright.quorum.kinds import api_key
from logwright.quorum.model import Endpoint
from logwright.quorum.plan import judge
from logwright.quorum.read import read_survivors
from logwright.units import Offset
from tests.e2e.command import call, tree
from tests.log_builder import LogBuilder
from tests.metadata_builder import (
    BEGIN,
    batches,
    config,
    feature,
    partition,
    tagged,
    topic,
    uuid_text,
    value,
)
from tests.quorum_worlds import (
    CLUSTER,
    VOTERS,
    Batch,
    World,
    control_batch,
    with_epoch,
    write_node,
)

METADATA = "__cluster_metadata-0"
YES = ("--yes", "--output", "json")


def world(*, kraft_version: int = 1) -> World:
    """Two epochs: a topic in the first; in the second a setting, which is perhaps not committed."""
    made = World(kraft_version=kraft_version)

    def add(values: list[bytes], epoch: int, *kinds: str) -> None:
        base = made.log[-1].end
        content = with_epoch(batches(base, values)[0], epoch)
        made.log.append(Batch(base, epoch, content, tuple(values), kinds))

    change = (ControlType.LEADER_CHANGE, b"\x00" * 9)
    voters = [
        (ControlType.KRAFT_VERSION, bytes.fromhex("0000000100")),
        (ControlType.KRAFT_VOTERS, serialize_voters(VOTERS)),
    ]
    made.log.append(control_batch(0, [change, *(voters if kraft_version else [])], 1))
    kinds = ("FeatureLevelRecord", "TopicRecord", "PartitionRecord")
    add([feature("metadata.version", 25), topic("t", 1), partition(1, 0, [11])], 1, *kinds)
    made.log.append(control_batch(made.log[-1].end, [change], 3))
    add([config(2, "t", "retention.ms", "5")], 3, "ConfigRecord")
    add([config(2, "t", "segment.ms", "6")], 3, "ConfigRecord")
    return made


@pytest.fixture(params=[0, 1])
def level(request: pytest.FixtureRequest) -> int:
    """Of kraft.version."""
    given: int = request.param
    return given


@pytest.fixture
def quorum(level: int, tmp_path: Path) -> Path:
    """Three whole directories, ``node-1`` to ``node-3``."""
    made = world(kraft_version=level)
    for node in (1, 2, 3):
        write_node(made, tmp_path / f"node-{node}", node, made.log)
    return tmp_path


def verdict(*words: object) -> dict[str, Any]:
    """What all directories say together."""
    answer = call("quorum", *map(str, words), "--output", "json")
    (line_of_all,) = [line for line in answer.lines if "committedOffset" in line]
    return line_of_all


def position(level: int, number: int) -> int:
    """Where a batch of the log is."""
    return sum(len(one.content) for one in world(kraft_version=level).log[:number])


def log_of(log_dir: Path) -> Path:
    (path,) = (log_dir / METADATA).glob("*.log")
    return path


def test_what_is_left(quorum: Path) -> None:
    """A record of an epoch proves that all before the epoch was committed, and its first batch."""
    judged = verdict(quorum / "node-1")
    end, start = judged["endOffset"], judged["committedOffset"]
    assert (3, start + 2) == (judged["epoch"], end)
    kinds = {"kind": "ConfigRecord", "records": 2, "firstOffset": start, "lastOffset": end - 1}
    assert [kinds] == judged["perhapsNotCommitted"]
    assert "a record of the leader of epoch 3" == judged["committedBy"]
    assert (1, 1, [1, 2, 3]) == (judged["topics"], judged["partitions"], judged["voters"])
    assert not judged["hasQuorum"]
    assert judged["lostBefore"] is None


def test_text(quorum: Path) -> None:
    """It says what it does not know, too."""
    answer = call("quorum", quorum / "node-1")
    assert 0 == answer.status
    assert "Perhaps not committed, but part of the state: offsets" in answer.out
    assert "  2 ConfigRecord, offsets" in answer.out
    assert "Not known: what the cluster has written from offset" in answer.out
    assert "retention.ms" not in answer.out


def test_an_epoch_that_has_only_begun_proves_nothing(quorum: Path, level: int) -> None:
    """A leader was elected; whether it got so far as to commit, its log does not say."""
    path = log_of(quorum / "node-1")
    whole = verdict(quorum / "node-1")
    path.write_bytes(path.read_bytes()[: position(level, 3)])
    judged = verdict(quorum / "node-1")
    assert judged["endOffset"] == whole["committedOffset"]
    assert judged["committedOffset"] < judged["endOffset"] - 1
    assert judged["committedBy"] == "a record of the leader of epoch 1"


def test_a_majority_is_a_quorum(quorum: Path) -> None:
    """It is refused to throw away what two of three voters can elect a leader of."""
    dirs = [quorum / f"node-{node}" for node in (1, 2)]
    assert verdict(*dirs)["hasQuorum"]
    answer = call("quorum", *dirs, "--to", quorum / "new", *YES)
    assert 5 == answer.status
    assert "they are a quorum" in answer.err
    assert not (quorum / "new").exists()
    log_of(dirs[1]).write_bytes(log_of(dirs[1]).read_bytes()[:-1])
    assert not verdict(*dirs)["hasQuorum"]


def test_brokers_are_no_voters(quorum: Path) -> None:
    """Of another node, or with another directory id, a directory counts for no majority."""
    meta = quorum / "node-2/meta.properties"
    meta.write_text(meta.read_text().replace("node.id=2", "node.id=11"))
    assert not verdict(quorum / "node-1", quorum / "node-2")["hasQuorum"]


def test_the_new_directory(quorum: Path) -> None:
    """It has the state, and one voter; the old one is as it was."""
    before = tree(quorum / "node-1")
    answer = call("quorum", quorum / "node-1", "--to", quorum / "new", *YES)
    assert 0 == answer.status, answer.err
    assert before == tree(quorum / "node-1")
    written = answer.lines[-1]
    metadata = read_metadata(quorum / "new" / METADATA)
    assert (CLUSTER, written["endOffset"]) == (metadata.cluster_id, metadata.end_offset)
    assert {"retention.ms", "segment.ms"} == set(metadata.topic_configs["t"])
    judged = verdict(quorum / "new")
    assert judged["endOffset"] == judged["committedOffset"]
    if judged["kraftVersion"]:
        assert [1] == judged["voters"]
        assert [{"name": "CONTROLLER", "host": "host-1", "port": 9093}] == written["endpoints"]
    assert written["epoch"] > 3
    meta = (quorum / "new/meta.properties").read_text()
    assert f"directory.id={written['directoryId']}\n" in meta
    assert meta != (quorum / "node-1/meta.properties").read_text()


def test_a_transaction_that_did_not_end(quorum: Path) -> None:
    """It has no effect, and a controller would not have known of its end."""
    path = log_of(quorum / "node-1")
    end = verdict(quorum / "node-1")["endOffset"]
    (more,) = batches(end, [BEGIN, topic("u", 2)])
    path.write_bytes(path.read_bytes() + with_epoch(more, 3))
    answer = call("quorum", quorum / "node-1", "--to", quorum / "new", *YES)
    assert 0 == answer.status, answer.err
    assert end + 2 == answer.lines[-1]["endOffset"]
    assert {"t"} == set(read_metadata(quorum / "new" / METADATA).topics)


def test_what_a_damage_hides(quorum: Path, level: int) -> None:
    """It is counted, and not applied."""
    path = log_of(quorum / "node-1")
    content = bytearray(path.read_bytes())
    content[position(level, 1) + 40] ^= 1
    path.write_bytes(content)
    answer = call("quorum", quorum / "node-1", "--output", "json")
    assert 3 == answer.status
    judged = verdict(quorum / "node-1")
    assert judged["lostBefore"] == 3 + judged["endOffset"] + 3
    assert {("control", 1), ("ConfigRecord", 2)} == {
        (kind["kind"], kind["records"]) for kind in judged["notApplied"]
    }
    refusal = call("quorum", quorum / "node-1", "--to", quorum / "new", *YES)
    assert 3 == refusal.status
    assert "before the cluster has a metadata.version" in refusal.err
    shown = call("quorum", quorum / "node-1").out
    assert f"metadata.version not on record, kraft.version {level}" in shown
    assert "None" not in shown


def test_an_epoch_that_nobody_began(quorum: Path, level: int) -> None:
    """The CRC does not cover the epoch: a batch with a new one is not of a leader."""
    path = log_of(quorum / "node-1")
    content = bytearray(path.read_bytes())
    content[position(level, 4) + 15] ^= 4
    path.write_bytes(content)
    whole, judged = verdict(quorum / "node-2"), verdict(quorum / "node-1")
    assert (whole["endOffset"] - 1, 3) == (judged["endOffset"], judged["epoch"])


def add_to(log_dir: Path, *contents: bytes, epoch: int = 3) -> None:
    """Put batches after a log."""
    path = log_of(log_dir)
    path.write_bytes(path.read_bytes() + b"".join(with_epoch(one, epoch) for one in contents))


def longer_by_an_older_leader(quorum: Path, made: World) -> int:
    """Node 2 has a longer log of the first epoch: where that ends."""
    older = made.log[:2]
    for number in range(20):
        (content,) = batches(older[-1].end, [config(2, "t", "retention.bytes", str(number))])
        content = with_epoch(content, 1)
        older.append(Batch(older[-1].end, 1, content, (content,), ("ConfigRecord",)))
    shutil.rmtree(quorum / "node-2")
    write_node(made, quorum / "node-2", 2, older)
    assert older[-1].end > made.end
    return older[-1].end


def test_the_newer_epoch_is_newer(quorum: Path, level: int) -> None:
    """Not the longer log: an older leader commits nothing after the next election. It is said that
    the longer one is left out.
    """
    made = world(kraft_version=level)
    end = longer_by_an_older_leader(quorum, made)
    dirs = (quorum / "node-2", quorum / "node-1", quorum / "node-3")
    judged = verdict(*dirs)
    assert (3, made.end) == (judged["epoch"], judged["endOffset"])
    left_out = {"logDir": str(quorum / "node-2"), "endOffset": end, "epoch": 1}
    assert [left_out] == judged["leftOut"]
    text = call("quorum", *dirs).out
    assert (
        f"Left out: {quorum / 'node-2'}: its log has other records up to offset {end - 1}" in text
    )
    assert [] == verdict(quorum / "node-2")["leftOut"]


def test_a_log_that_parts_before_the_state_ends_is_left_out(quorum: Path, level: int) -> None:
    """Its last record is known by its epoch, which is not that of the state there; a log that is a
    part of the state is not left out.
    """
    made = world(kraft_version=level)
    (content,) = batches(made.log[1].end, [config(2, "t", "retention.bytes", "1")])
    other = [*made.log[:2], Batch(made.log[1].end, 1, with_epoch(content, 1), (b"",), ("Config",))]
    shutil.rmtree(quorum / "node-2")
    write_node(made, quorum / "node-2", 2, other)
    judged = verdict(quorum / "node-2", quorum / "node-1")
    assert [other[-1].end] == [one["endOffset"] for one in judged["leftOut"]]
    shutil.rmtree(quorum / "node-2")
    write_node(made, quorum / "node-2", 2, made.log[:3])
    assert [] == verdict(quorum / "node-2", quorum / "node-1")["leftOut"]


def test_what_is_not_applied_is_counted_from_the_end_of_the_state(quorum: Path, level: int) -> None:
    """Not from the end of a longer log that is left out."""
    made = world(kraft_version=level)
    more = [
        batches(made.end + number, [config(2, "t", "retention.bytes", str(number))])[0]
        for number in range(3)
    ]
    add_to(quorum / "node-1", *more)
    longer_by_an_older_leader(quorum, made)
    path = log_of(quorum / "node-1")
    content = bytearray(path.read_bytes())
    content[position(level, 4) + 40] ^= 1
    path.write_bytes(content)
    judged = verdict(quorum / "node-2", quorum / "node-1")
    assert (3, made.end - 1) == (judged["epoch"], judged["endOffset"])
    assert [3] == [one["records"] for one in judged["notApplied"]]


@pytest.mark.parametrize("number", [0, 2])
def test_an_epoch_is_known_by_the_next_segment(quorum: Path, level: int, number: int) -> None:
    """The CRC does not cover the epoch of the batch that begins one: where it ends its segment, the
    next segment says whether it is right; if that is damaged, what the node has noted does.
    """
    path = log_of(quorum / "node-1")
    content = bytearray(path.read_bytes())
    content[position(level, number) + 12] ^= 4
    at, base = position(level, number + 1), world(kraft_version=level).log[number].end
    path.write_bytes(content[:at])
    later = path.with_name(f"{base:020d}.log")
    whole = verdict(quorum / "node-2")
    for following in (bytes(content[at:]), bytes(content[at : at + 20])):
        later.write_bytes(following)
        judged = verdict(quorum / "node-1", quorum / "node-2")
        assert (3, whole["endOffset"]) == (judged["epoch"], judged["endOffset"])
        assert [] == judged["leftOut"]


def test_half_of_the_voters_is_no_quorum(quorum: Path, level: int) -> None:
    """More than half is one."""
    judged = judge(read_survivors([quorum / f"node-{node}" for node in (1, 2, 3)]))
    assert frozenset({1, 2, 3}) == judged.whole
    for whole, voters, expected in (
        ({1, 2}, {1, 2, 3, 4}, False),
        ({1}, {1, 2}, False),
        ({1, 2, 3}, {1, 2, 3, 4}, True),
        ({1}, {1}, True),
        (set[int](), set[int](), False),
    ):
        some = replace(judged, whole=frozenset(whole), voters=frozenset(voters))
        assert expected == some.has_quorum, (whole, voters, level)


def test_a_voter_that_was_formatted_again_is_not_whole(quorum: Path, level: int) -> None:
    """With kraft.version 1 a voter is a node with its directory id; with 0 only a node."""
    meta = quorum / "node-2/meta.properties"
    meta.write_text(meta.read_text().replace(uuid_text(1002), uuid_text(2002)))
    dirs = (quorum / "node-1", quorum / "node-2")
    assert (level == 0) == verdict(*dirs)["hasQuorum"]


def test_a_batch_that_says_more_records_than_it_has(quorum: Path) -> None:
    """Its CRC is right; what it counts is not what it holds: it is where the state ends."""
    end = verdict(quorum / "node-1")["endOffset"]
    (content,) = batches(end, [config(2, "t", "retention.bytes", "1")])
    wrong = bytearray(with_epoch(content, 3))
    wrong[23:27] = (1).to_bytes(4, "big")  # lastOffsetDelta of a batch with one record
    wrong[17:21] = crc32c(bytes(wrong[21:])).to_bytes(4, "big")
    path = log_of(quorum / "node-1")
    path.write_bytes(path.read_bytes() + wrong)
    assert end == verdict(quorum / "node-1")["endOffset"]


def written_values(log_dir: Path) -> list[bytes]:
    """The values of a new directory's snapshot."""
    (path,) = (log_dir / METADATA).glob("*.checkpoint")
    file = LogFile(path, Offset(0))
    batches_of = [one for one in file.batches(Offset(0)) if not one.header.is_control]
    assert file.damage is None
    return [one.value or b"" for batch in batches_of for one in batch.records]


@pytest.mark.parametrize("given", [None, 3000])
def test_counters_do_not_go_back(quorum: Path, given: int | None) -> None:
    """Producer ids and leader epochs begin far beyond what the state knows: others may have used
    what came after it. The snapshot is of the new epoch, too: a broker whose log has more than the
    state would else continue from its own.
    """
    if given is not None:
        end = verdict(quorum / "node-1")["endOffset"]
        message = (11).to_bytes(4, "big") + (9).to_bytes(8, "big") + given.to_bytes(8, "big")
        add_to(quorum / "node-1", *batches(end, [value(15, 0, message + tagged())]))
    answer = call("quorum", quorum / "node-1", "--to", quorum / "new", *YES)
    assert 0 == answer.status, answer.err
    values = written_values(quorum / "new")
    assert (given or 0) + PRODUCER_IDS == next_producer_id(values[-1])
    (partition_record,) = [one for one in values if api_key(one) == 3]
    at = leader_epoch_at(partition_record)
    assert LEADER_EPOCHS == int.from_bytes(partition_record[at : at + 4], "big")
    (before,) = world().log[1].values[2:]
    assert before[:at] + before[at + 4 :] == partition_record[:at] + partition_record[at + 4 :]
    (snapshot,) = (quorum / "new" / METADATA).glob("*.checkpoint")
    (state,) = (quorum / "new" / METADATA).glob("quorum-state")
    assert json.loads(state.read_text())["leaderEpoch"] == int(snapshot.stem.split("-")[1])


def test_an_endpoint_is_needed(quorum: Path) -> None:
    """Of a node that was no voter the log does not say where it listens."""
    words = ("quorum", quorum / "node-1", "--to", quorum / "new", "--node-id", 7)
    judged = verdict(quorum / "node-1")
    if judged["kraftVersion"]:
        refused = call(*words, *YES)
        assert (5, True) == (refused.status, "Give --endpoint" in refused.err)
        answer = call(*words, "--endpoint", "C://[::1]:99", *YES)
        assert [{"name": "C", "host": "::1", "port": 99}] == answer.lines[-1]["endpoints"]
    else:
        refused = call(*words, "--endpoint", "C://h:99", *YES)
        assert (5, True) == (refused.status, "kraft.version is 0" in refused.err)
        answer = call(*words, *YES)
    assert 0 == answer.status, answer.err
    assert "node.id=7\n" in (quorum / "new/meta.properties").read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--node-id", "1"), "are of the directory of --to"),
        (("--to", "{new}", "--endpoint", "host:1", "--yes"), "is not NAME://HOST:PORT"),
        (("--to", "{new}"), "give --yes"),
        (("{node}",), "give each log directory once"),
    ],
)
def test_wrong_calls(quorum: Path, words: tuple[str, ...], message: str) -> None:
    """With a sentence each."""
    node = quorum / "node-1"
    given = [word.format(new=quorum / "new", node=node) for word in words]
    answer = call("quorum", node, *given)
    assert (2, True) == (answer.status, message in answer.err)


def _other_cluster(quorum: Path) -> None:
    meta = quorum / "node-2/meta.properties"
    meta.write_text(meta.read_text().replace(CLUSTER, "other"))


def _no_cluster(quorum: Path) -> None:
    for node in (1, 2):
        (quorum / f"node-{node}/meta.properties").unlink()


def _taken(quorum: Path) -> None:
    (quorum / "new").mkdir()
    (quorum / "new/file").touch()


def _no_log(quorum: Path) -> None:
    shutil.rmtree(quorum / "node-2" / METADATA)


def _newest_epoch(quorum: Path) -> None:
    note = quorum / "node-2" / METADATA / "quorum-state"
    note.write_text(note.read_text().replace('"leaderEpoch":3', '"leaderEpoch":2147483647'))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_other_cluster, "are of 2 clusters"),
        (_no_cluster, "no node.id"),
        (_taken, "is there already"),
        (_no_log, "has no __cluster_metadata-0"),
        (_newest_epoch, "a newer one is not possible"),
    ],
)
def test_refusals(quorum: Path, change: Callable[[Path], None], message: str) -> None:
    """Nothing is written."""
    log = log_of(quorum / "node-2")
    log.write_bytes(log.read_bytes()[:-1])
    change(quorum)
    before = tree(quorum)
    dirs = (quorum / "node-1", quorum / "node-2")
    answer = call("quorum", *dirs, "--to", quorum / "new", *YES)
    assert (5, True) == (answer.status, message in answer.err), answer.err
    assert before == tree(quorum)


def test_a_dry_run_writes_nothing(quorum: Path) -> None:
    """It says what would be written."""
    before = tree(quorum)
    answer = call("quorum", quorum / "node-1", "--to", quorum / "new", "--dry-run")
    assert (0, True) == (answer.status, "to be written: node 1" in answer.out)
    assert before == tree(quorum)


def test_voters_are_read_as_they_are_written() -> None:
    """Of many ids, hosts and ports."""
    rng = random.Random(1)
    for _ in range(100):
        hosts = ["h" * rng.randint(1, 200), "äöü", "::1"]
        endpoints = tuple(
            Endpoint("CONTROLLER", rng.choice(hosts), rng.randrange(65536))
            for _ in range(rng.randrange(4))
        )
        voters = tuple(
            type(voter)(
                node_id=rng.randrange(1 << 31),
                directory_id=voter.directory_id,
                endpoints=endpoints,
                min_version=0,
                max_version=1,
            )
            for voter in VOTERS * rng.randrange(50)
        )
        assert voters == parse_voters(serialize_voters(voters))


def test_the_documented_commands(quorum: Path, tmp_path: Path) -> None:
    """Of the runbook: of a controller and a broker, with a stray log in the broker's directory."""
    controller, broker = quorum / "node-1", quorum / "node-2"
    meta = broker / "meta.properties"
    meta.write_text(meta.read_text().replace("node.id=2", "node.id=11"))
    log = LogBuilder(broker, "unknown-0")
    log.segment(0).batch(0, [("a", "1")])
    log.write()
    (log.directory / "partition.metadata").write_text(f"version: 0\ntopic_id: {uuid_text(9)}\n")
    assert 0 == call("quorum", controller, broker).status
    new = tmp_path / "rescued"
    assert 0 == call("quorum", controller, broker, "--to", new, "--yes").status
    shown = call("inspect", broker, "--metadata", new / METADATA)
    assert 0 == shown.status
    assert "unknown to the cluster" in shown.out + shown.err


STEPS = ("open", "mkdir", "fsync", "link", "rename", "unlink")
"""Of `os`: what writes a directory."""


FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload([__name__, "logwright.cli.run.quorum"])


def _dying(number: int, words: list[object]) -> None:
    """Run the command, and be killed before a step."""
    left = [number]
    for name in STEPS:
        real = getattr(os, name)

        def step(*given: Any, _real: Any = real, **options: Any) -> Any:  # noqa: ANN401 -- any step
            left[0] -= 1
            if left[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return _real(*given, **options)

        setattr(os, name, step)
    os._exit(call(*map(str, words)).status)


def killed_at(number: int, words: list[object]) -> int:
    """The exit code of a process that runs the command and is killed before a step."""
    process = FORKS.Process(target=_dying, args=(number, words))
    process.start()
    process.join()
    assert process.exitcode is not None
    return process.exitcode


def test_killed_at_each_step(tmp_path: Path) -> None:
    """The old directory is as it was, the new one is whole or absent, and the next call writes it
    in spite of what the killed one left.
    """
    made = world()
    node = tmp_path / "node-1"
    write_node(made, node, 1, made.log)
    before = tree(node)
    killed = 0
    for number in range(1000):
        new = tmp_path / f"new-{number}"
        words = ["quorum", node, "--to", new, *YES]
        status = killed_at(number, words)
        assert before == tree(node)
        if new.exists():
            metadata = read_metadata(new / METADATA)
            assert {"t"} == set(metadata.topics)
        if status != -signal.SIGKILL:
            assert 0 == status
            break
        killed += 1
        if not new.exists():
            assert 0 == call(*words).status
    assert killed > 20
