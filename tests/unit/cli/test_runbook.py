"""The tables of the runbook: what a row says that a command prints, it prints in a world that has
the damage of the row, and the command that the row names does what the row says.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import pytest

from logwright.format.names import TopicPartition
from tests.e2e.command import Answer, call
from tests.log_builder import START_MS, LogBuilder
from tests.metadata_builder import MetadataBuilder, feature, partition, topic, uuid_text
from tests.property.accidents import META
from tests.quorum_replicas import TOPIC, write_replicas
from tests.rights import NOBODY
from tests.tidy.trees import ROOT
from tests.unit.cli.test_doctor import left_cleanly
from tests.unit.offsets import test_offsets as growing
from tests.unit.quorum import test_quorum as quorums

NOW: Final = ("--now", "1760100000000")
STARTS, RESCUES, FREES, QUORUM, GROWS = (
    "A broker does not start",
    "Rescue",
    "The disk is full",
    "The quorum is gone",
    "The internal topics grow",
)
SAYS: Final = {STARTS: 1, RESCUES: 0, FREES: 0, QUORUM: 0, GROWS: 0}
"""Heading of a section with a table → the column of what a command says."""
ELSEWHERE: Final = {
    "its file system has … bytes free, and the start needs about …": (
        "tests/unit/cli/test_doctor.py",
        "test_a_full_file_system",
    )
}
"""Words that are printed in a world of its own: the file and the test that looks for them."""


def rows_of(heading: str) -> list[list[str]]:
    """The cells of the section's first table."""
    text = (ROOT / "docs/runbook.md").read_text()
    section = re.split(rf"^#+ {heading}$", text, flags=re.MULTILINE)[1]
    section = re.split(r"^#+ ", section, flags=re.MULTILINE)[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


def words_of(cell: str) -> str:
    """What a command prints: the cell's first words in code."""
    return re.findall(r"`([^`]+)`", cell)[0]


ROWS: Final = {
    heading: {words_of(cells[column]): cells for cells in rows_of(heading)}
    for heading, column in SAYS.items()
}


def assert_prints(answer: Answer, words: str) -> None:
    """`…` stands for anything; a line may break where there is a space."""
    pattern = r".*?".join(
        r"\s+".join(map(re.escape, part.split())) for part in re.split(r"\s*…\s*", words) if part
    )
    assert re.search(pattern, answer.out, re.DOTALL), (words, answer.out, answer.err)


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """A log in a directory that a broker left cleanly, and another directory of the broker."""
    left_cleanly(tmp_path / "logs")
    other = tmp_path / "other"
    other.mkdir()
    own, others = "YWJjZGVmZ2hpamtsbW5vcA", "b3RoZXItZGlyZWN0b3J5LQ"
    (other / "meta.properties").write_text(META.replace(own, others))
    (other / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":7}')
    return tmp_path / "logs"


def other_of(log_dir: Path) -> Path:
    return log_dir.with_name("other")


def first_of(log_dir: Path) -> Path:
    return log_dir / "t-0" / f"{0:020d}.log"


def with_metadata(log_dir: Path) -> Path:
    """The metadata gives the log to this broker."""
    builder = MetadataBuilder(log_dir)
    builder.segment(0, [topic("t", 5), partition(5, 0, [1])])
    (log_dir / "t-0/partition.metadata").write_text(f"version: 0\ntopic_id: {uuid_text(5)}")
    return builder.path


def writing(name: str, content: bytes) -> Callable[[Path], None]:
    return lambda log_dir: (log_dir / name).write_bytes(content) and None


def strange(log_dir: Path) -> None:
    (log_dir / "lost+found").mkdir()


def without_version(log_dir: Path) -> None:
    with_metadata(log_dir)
    (log_dir / "t-0/partition.metadata").write_bytes(b"")


def twice(log_dir: Path) -> None:
    shutil.copytree(log_dir / "t-0", other_of(log_dir) / "t-0")


def zeros(log_dir: Path) -> None:
    path = max((log_dir / "t-0").glob("*.log"))
    path.write_bytes(path.read_bytes() + bytes(4096))


def not_allowed(log_dir: Path) -> None:
    for each in (log_dir, *log_dir.rglob("*")):
        each.chmod(0o777)
    first_of(log_dir).chmod(0o600)


def no_state(log_dir: Path) -> None:
    (with_metadata(log_dir) / "quorum-state").write_bytes(bytes(20))


def stray(log_dir: Path) -> None:
    with_metadata(log_dir)
    (log_dir / "t-0/partition.metadata").unlink()


def corrupt(log_dir: Path) -> None:
    content = bytearray(first_of(log_dir).read_bytes())
    content[-1] ^= 1
    first_of(log_dir).write_bytes(content)
    (log_dir / ".kafka_cleanshutdown").unlink()
    (log_dir / "recovery-point-offset-checkpoint").unlink(missing_ok=True)


def without_its_last(log_dir: Path) -> None:
    max((log_dir / "t-0").glob("*.log")).unlink()


def without_all(log_dir: Path) -> None:
    shutil.rmtree(log_dir / "t-0")


CHECKPOINT = "replication-offset-checkpoint"
BEYOND = b"0\n1\nt 0 100000\n"
DAMAGES: Final[dict[str, Callable[[Path], None]]] = {
    "the directory's name is not that of a partition": strange,
    "…-checkpoint: line … has a number that is malformed": writing(CHECKPOINT, bytes(20)),
    "…-checkpoint: line …": writing(CHECKPOINT, bytes(20)),
    "meta.properties: a broker does not start: it has no cluster.id": writing(
        "meta.properties", b"version=1\nnode.id=1\nclus"
    ),
    "partition.metadata: a broker does not start: it has no version": without_version,
    "no broker writes a file old.index": writing("t-0/old.index", b""),
    "no broker writes a file": writing("t-0/old.index", b""),
    "… is a log of the same partition": twice,
    "the record batch's length is impossible, as in a zero-filled tail": zeros,
    "as in a zero-filled tail": zeros,
    "the user … may not read and write it": not_allowed,
    "quorum-state: is not the state of a quorum": no_state,
    "starts, and sets a log aside: … a broker renames it to -stray": stray,
    "a broker renames it to -stray … no topic id": stray,
    "starts, and loses records: … no segment has offsets … to …": without_its_last,
    "the log is not there, and … has offset …": without_all,
    "starts, and loses records: … dropped: …": corrupt,
    "the log ends at …, below its start offset": writing("log-start-offset-checkpoint", BEYOND),
}
"""What a command says of a start → the damage."""


def of_all(words: str, log_dir: Path) -> Sequence[object]:
    """The arguments with which that is said: the other directory, or the user."""
    if DAMAGES[words] is twice or words.startswith("meta.properties"):
        return (other_of(log_dir),)
    return ("--user", str(NOBODY)) if DAMAGES[words] is not_allowed else ()


def run(command: str, log_dir: Path) -> Answer:
    """A command of a row, with the directories of the world."""
    for old, new in (
        ("LOG_DIR...", f"{log_dir} {other_of(log_dir)}"),
        ("--set-aside DIR", f"--set-aside {other_of(log_dir) / 't-0'}"),
        ("LOG_DIR", str(log_dir)),
    ):
        command = command.replace(old, new)
    return call(*shlex.split(command)[1:], *NOW)


def test_every_section_has_its_rows() -> None:
    """The tables are where this test looks for them."""
    assert [13, 11, 5, 10, 8] == [len(rows) for rows in ROWS.values()]


@pytest.mark.parametrize("words", [one for one in ROWS[STARTS] if one not in ELSEWHERE])
def test_doctor_says(words: str, log_dir: Path) -> None:
    """Also after the command that its row names, that a broker starts."""
    DAMAGES[words](log_dir)
    answer = call("doctor", log_dir, *of_all(words, log_dir), *NOW)
    assert_prints(answer, words)
    for command in re.findall(r"`(logwright \w+ LOG_DIR --yes)`", ROWS[STARTS][words][2]):
        assert 0 == run(command, log_dir).status
        after = call("doctor", log_dir, *NOW)
        assert (0, True) == (after.status, after.out.startswith("By its files a broker starts:"))


@pytest.mark.parametrize("words", ROWS[RESCUES])
def test_a_rescue(words: str, log_dir: Path) -> None:
    """`doctor` says so, the command shows what the row has, and then a broker starts."""
    _, commands, sees = ROWS[RESCUES][words]
    DAMAGES[words](log_dir)
    more = of_all(words, log_dir)
    assert_prints(call("doctor", log_dir, *more, *NOW), words)
    named = re.findall(r"`(logwright [^`]+)`", commands)
    done = run(named[0], log_dir) if named else call("rescue", log_dir, *more, "--dry-run", *NOW)
    seen = words_of(sees).replace("LOG_DIR", str(log_dir))
    seen = re.sub(r"\bDIR\b", str(other_of(log_dir) / "t-0"), seen)
    assert_prints(done, seen)
    assert (0 if named else 5) == done.status


@pytest.mark.parametrize("words", ELSEWHERE)
def test_what_is_said_elsewhere(words: str) -> None:
    """The named test looks for each part of the words."""
    path, name = ELSEWHERE[words]
    _, _, after = (ROOT / path).read_text().partition(f"\ndef {name}(")
    body, _, _ = after.partition("\ndef ")
    assert words in ROWS[STARTS]
    assert all(part.strip() in body for part in words.split("…"))


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Answer:
    """What a rescue that frees a disk would do with logs that have something for every step."""
    work = tmp_path_factory.mktemp("full")
    for name in ("cleaned-0", "compacted-0", "deleted-0", "kept-0"):
        log = LogBuilder(work / "logs", name)
        for base in range(0, 60, 10):
            log.segment(base).batch(base, [(f"k{n}", f"{base}" * 50) for n in range(10)])
        log.segment(60).batch(60, [("z", "new")])
        log.write()
    logs, compact = work / "logs", {"cleanup.policy": "compact"}
    deletes = {"cleanup.policy": "delete"}
    entries = [
        {"name": "cleaned", **compact, "min.cleanable.dirty.ratio": 0},
        {"name": "compacted", **compact},
        {"name": "deleted", **deletes, "retention.ms": 1000},
        {"name": "kept", **deletes},
    ]
    (work / "policies").mkdir()
    (work / "policies/topics.yml").write_text(json.dumps({"version": 1, "topics": entries}))
    policies = ("--no-metadata", "--policies", work / "policies")
    large = ("--config", "cleanup.policy=delete", "--config", "retention.bytes=5000")
    hour = 3_600_000
    for at_ms, words in (
        (START_MS + hour, ("retain", logs, "deleted-0", *large)),
        (START_MS + 2 * hour, ("clean", logs, "cleaned-0", *policies)),
    ):
        done = call(*words, "--yes", "--now", at_ms)
        assert 0 == done.status, done.err
    tighter = ("--tighter-retention", "kept=retention.bytes:1")
    (command,) = re.findall(
        r"`(logwright rescue LOG_DIR --free \S+ --dry-run)`", (ROOT / "docs/runbook.md").read_text()
    )
    sized = command.replace("LOG_DIR", str(logs)).replace("20GiB", "900TiB")
    now = ("--now", START_MS + 2 * hour + 1)
    return call(*shlex.split(sized)[1:], *policies, *tighter, *now)


@pytest.mark.parametrize("step", ROWS[FREES])
def test_steps_of_a_full_disk(step: str, plan: Answer) -> None:
    """Each is a line of the plan, in the order of the table."""
    shown = [line.split()[0] for line in plan.out.splitlines()[1:]]
    assert step in shown
    assert list(ROWS[FREES]) == list(dict.fromkeys(shown))


def damaged_batch(node: Path, number: int) -> None:
    """One bit of a batch of the metadata log."""
    path = quorums.log_of(node)
    content = bytearray(path.read_bytes())
    content[quorums.position(1, number) + 40] ^= 1
    path.write_bytes(content)


def later_leader(node: Path) -> None:
    path = node / quorums.METADATA / "quorum-state"
    path.write_text(path.read_text().replace('"leaderEpoch":3', '"leaderEpoch":9'))


def replicas(node: Path) -> None:
    """Two of three brokers are left; one lacks records."""
    shutil.rmtree(node)
    log_dirs = [
        write_replicas(node.with_name(f"logs-{broker}"), broker, {TopicPartition("t", 0): count})
        for broker, count in ((1, 3), (3, 1))
    ]
    made = [topic("t", TOPIC), partition(TOPIC, 0, (1, 2, 3))]
    MetadataBuilder(log_dirs[0]).segment(0, [feature("metadata.version", 25)], made)


def older_leader(node: Path) -> None:
    """Next to it is the log of a leader without a majority."""
    (node.parent / "node-2").mkdir()
    quorums.longer_by_an_older_leader(node.parent, quorums.world())


QUORUMS: Final[dict[str, Callable[[Path], object]]] = {
    "The newest state is in …": lambda _: None,
    "Committed for certain": lambda _: None,
    "Perhaps not committed, but part of the state": lambda _: None,
    "Lost: a log had records up to …": lambda node: damaged_batch(node, 1),
    "Lost: there was a leader of epoch …": later_leader,
    "Not known": lambda _: None,
    "Left out: …: its log has other records up to …": older_leader,
    "damaged: …": lambda node: damaged_batch(node, 4),
    "t-0: the replica of broker 3 ends at … and that of broker 1 at …": replicas,
    "Not looked at: replicas, …": replicas,
}


@pytest.mark.parametrize("words", ROWS[QUORUM])
def test_quorum_says(words: str, tmp_path: Path) -> None:
    """Of one of three controllers, whole or damaged, or of two."""
    made = quorums.world()
    quorums.write_node(made, tmp_path / "node-1", 1, made.log)
    QUORUMS[words](tmp_path / "node-1")
    answer = call("quorum", *sorted(tmp_path.iterdir()))
    assert_prints(answer, words)
    assert (3 if "damaged: " in answer.out else 0) == answer.status


def late(tmp_path: Path, *, cleaned_hours: int) -> LogBuilder:
    """A log that is due for a day; when another one was cleaned."""
    log = growing.two_segments(tmp_path)
    cleaned_ms = START_MS + cleaned_hours * growing.HOUR
    growing.stopped_at(log.log_dir, START_MS + growing.DAY, cleaned_ms=cleaned_ms)
    return log


def switched_off(tmp_path: Path) -> Sequence[object]:
    (tmp_path / "server.properties").write_text("log.cleaner.enable=false\n")
    log_dir = late(tmp_path, cleaned_hours=-1).log_dir
    return log_dir, "--server-properties", tmp_path / "server.properties"


def torn_batch(tmp_path: Path) -> Sequence[object]:
    log = late(tmp_path, cleaned_hours=-1)
    path = log.directory / f"{0:020}.log"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    return (log.log_dir,)


def transaction(tmp_path: Path, updated_ms: int) -> Sequence[object]:
    state = growing.state(
        "id-7", 7, growing.COMPLETE, start_ms=START_MS, update_ms=START_MS + updated_ms
    )
    return growing.open_transaction(tmp_path, state).log_dir, tmp_path / "other"


GROWING: Final[dict[str, Callable[[Path], Sequence[object]]]] = {
    "cleaner late: … no log of this directory was cleaned since": lambda tmp_path: (
        late(tmp_path, cleaned_hours=-1).log_dir,
    ),
    "cleaner late: … other logs were cleaned since": lambda tmp_path: (
        late(tmp_path, cleaned_hours=1).log_dir,
    ),
    "cleaner late: … The cleaner is off": switched_off,
    "corrupt batch": torn_batch,
    "hanging transaction": lambda tmp_path: transaction(tmp_path, growing.HOUR),
    "transaction not judged": lambda tmp_path: transaction(tmp_path, growing.DAY - 1),
    "not compacted": lambda tmp_path: (
        late(tmp_path, cleaned_hours=-1).log_dir,
        *("--config", "cleanup.policy=delete"),
    ),
    "expired offsets": lambda tmp_path: (growing.groups(tmp_path).log_dir,),
}


@pytest.mark.parametrize("words", ROWS[GROWS])
def test_offsets_says(words: str, tmp_path: Path) -> None:
    """With the command that is to be typed, if the row names one of Kafka's."""
    answer = call("offsets", *GROWING[words](tmp_path), "--now", START_MS + 365 * growing.DAY)
    assert_prints(answer, words)
    for command in re.findall(r"`(kafka-[^`]+)`", ROWS[GROWS][words][2]):
        assert_prints(answer, command)
    assert 0 != answer.status
