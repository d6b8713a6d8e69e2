"""What a recovery decides, by what is wrong with the log: nothing is changed here.

`tests/differential` compares what it leaves with Kafka's own loader.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from logwright.config.topic import parse_settings
from logwright.errors import LossNotAccepted, UnsupportedFormatError
from logwright.format.crc import crc32c
from logwright.format.deletions import serialize_retirement
from logwright.format.names import TopicPartition, segment_file_name
from logwright.recovery.model import RecoveryOptions, RecoveryPlan
from logwright.recovery.observe import observe, read_all_offsets
from logwright.recovery.plan import plan_recovery
from logwright.units import TimestampMs
from tests.log_builder import START_MS, LogBuilder

T0 = TopicPartition("t", 0)
CONFIG = parse_settings({})[0]
MARKER = ".kafka_cleanshutdown"
_CRC, _ATTRIBUTES = 17, 21
"""Where they are in a batch."""
KAFKA = RecoveryOptions(like_kafka=True)
LOSS = RecoveryOptions(accept_loss=True)
Row = tuple[str, list[str]]
Break = Callable[[Path], None]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Three segments of a log that was stopped cleanly."""
    log = LogBuilder(tmp_path / "logs")
    log.segment(0).batch(0, [("a", "1"), ("b", "2")])
    log.segment(2).batch(2, [("a", "3")])
    log.segment(3).batch(3, [("c", "4")])
    log.write(producers=True)
    (tmp_path / "logs/t-0/leader-epoch-checkpoint").write_bytes(b"0\n1\n0 0\n")
    return tmp_path / "logs/t-0"


def plan(
    directory: Path, options: RecoveryOptions | None = None, ledger: bytes = b""
) -> RecoveryPlan:
    log_dir = directory.parent
    return plan_recovery(
        observe(log_dir, T0, read_all_offsets(log_dir)),
        ledger=ledger,
        now_ms=TimestampMs(START_MS + 1_000_000),
        expiration_ms=CONFIG.producer_id_expiration_ms,
        index_interval_bytes=CONFIG.index_interval_bytes,
        options=options or RecoveryOptions(),
    )


def rows(planned: RecoveryPlan) -> list[Row]:
    """Action and files, with names like `2.log`."""
    return [(one.action, [short(name) for name in one.files]) for one in planned.findings]


def short(name: str) -> str:
    stem, dot, suffix = name.partition(".")
    return f"{int(stem)}{dot}{suffix}" if stem.isdecimal() else name


def file(directory: Path, base: int, suffix: str) -> Path:
    return directory / segment_file_name(base, suffix)


def write(base: int, suffix: str, content: bytes = b"") -> Break:
    return lambda directory: void(file(directory, base, suffix).write_bytes(content))


def remove(base: int, suffix: str) -> Break:
    return lambda directory: file(directory, base, suffix).unlink()


def tear(directory: Path) -> None:
    """The last append was interrupted."""
    with file(directory, 3, ".log").open("ab") as log:
        log.write(b"\0" * 9)


def commit_swap(directory: Path) -> None:
    """A swap of the second segment passed its commit point."""
    file(directory, 2, ".log.swap").write_bytes(file(directory, 2, ".log").read_bytes())


def guard_swap(directory: Path) -> None:
    """The same swap did not."""
    commit_swap(directory)
    file(directory, 2, ".index.cleaned").write_bytes(b"")


def empty(directory: Path) -> None:
    """No file of a segment is left."""
    for path in directory.glob("0*"):
        path.unlink()


def corrupt(directory: Path) -> None:
    """A bit of the second segment is wrong, and the broker did not stop cleanly."""
    path = file(directory, 2, ".log")
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    (directory.parent / MARKER).unlink()


def void(_: object) -> None:
    return None


OF_2 = ["2.index", "2.log", "2.snapshot", "2.timeindex"]
ANEW = "rebuilt"


@pytest.mark.parametrize(
    ("damage", "ours", "kafkas"),
    [
        (void, [], []),
        (tear, [(ANEW, ["3.index", "3.timeindex"]), ("cut", ["3.log"])], []),
        (
            remove(0, ".index"),
            [(ANEW, ["0.index", "0.timeindex"])],
            [(ANEW, ["0.index", "0.timeindex"])],
        ),
        (
            remove(0, ".timeindex"),
            [(ANEW, ["0.index", "0.timeindex"])],
            [("created", ["0.timeindex"])],
        ),
        (
            write(0, ".log.cleaned"),
            [("removed", ["0.log.cleaned"])],
            [("removed", ["0.log.cleaned"])],
        ),
        (
            write(7, ".index"),
            [("removed", ["7.index"]), ("missing", ["7.index"])],
            [("removed", ["7.index"]), ("missing", ["7.index"])],
        ),
        (
            write(7, ".log.deleted"),
            [("kept", ["7.log.deleted"])],
            [("removed", ["7.log.deleted"])],
        ),
        (
            guard_swap,
            [("rolled back", ["2.log.swap"]), ("removed", ["2.index.cleaned"])],
            [("rolled back", ["2.log.swap"]), ("removed", ["2.index.cleaned"])],
        ),
        (
            commit_swap,
            [
                ("removed", OF_2),
                ("swapped in", ["2.log.swap"]),
                (ANEW, ["2.index", "2.timeindex"]),
            ],
            [
                ("removed", OF_2),
                ("swapped in", ["2.log.swap"]),
                (ANEW, ["2.index", "2.timeindex"]),
                ("snapshot written", ["2.snapshot"]),
            ],
        ),
        (
            empty,
            [("created", ["0.log", "0.index", "0.timeindex"])],
            [("created", ["0.log", "0.index", "0.timeindex"])],
        ),
    ],
    ids=[
        "nothing",
        "torn tail",
        "no offset index",
        "no time index",
        "output being built",
        "index without a log",
        "retired by a broker",
        "swap not committed",
        "swap committed",
        "no segment",
    ],
)
def test_what_is_found(directory: Path, damage: Break, ours: list[Row], kafkas: list[Row]) -> None:
    """After a clean stop; a broker trusts what it then does not look at."""
    damage(directory)
    before = sorted(path.name for path in directory.iterdir())
    planned = plan(directory, LOSS)
    assert ours == [row for row in rows(planned) if row[0] != "epochs trimmed"]
    assert kafkas == [row for row in rows(plan(directory, KAFKA)) if row[0] != "epochs trimmed"]
    assert planned.changes is any(action != "kept" for action, _ in rows(planned))
    assert before == sorted(path.name for path in directory.iterdir())


def test_without_the_marker_everything_is_rebuilt(directory: Path) -> None:
    """What was not flushed may be wrong anywhere after the recovery point."""
    (directory.parent / MARKER).unlink()
    rebuilt = [files for action, files in rows(plan(directory)) if action == ANEW]
    assert [[f"{base}.index", f"{base}.timeindex"] for base in (0, 2, 3)] == rebuilt


def test_a_wrong_index_below_the_recovery_point(tmp_path: Path) -> None:
    """A broker does not look at it, and takes its newest snapshot. So the index is rebuilt without
    what a broker does not read: here a marker whose codec nobody knows.
    """
    log = LogBuilder(tmp_path / "logs")
    log.segment(0).batch(0, [("a", "1")])
    log.segment(1).batch(1, [("a", "2")], producer_id=7, transactional=True, sequence=0)
    marker = log.segments[-1].marker(2, 7, "commit").batches[-1]
    log.segment(3).batch(3, [("a", "3")])
    log.write(producers=True)
    path = file(log.directory, 1, ".log")
    content = bytearray(path.read_bytes())
    at = len(content) - len(marker)
    content[at + _ATTRIBUTES + 1] |= 5
    content[at + _CRC : at + _ATTRIBUTES] = crc32c(content[at + _ATTRIBUTES :]).to_bytes(4, "big")
    path.write_bytes(content)
    (log.log_dir / MARKER).unlink()
    (log.log_dir / "recovery-point-offset-checkpoint").write_text("0\n1\nt 0 4\n")
    write(0, ".timeindex", bytes(13))(log.directory)
    planned = plan(log.directory)
    assert (ANEW, ["0.index", "0.timeindex"]) in rows(planned)
    assert not [action for action, _ in rows(planned) if action == "snapshot removed"]
    (log.log_dir / "recovery-point-offset-checkpoint").write_text("0\n1\nt 0 0\n")
    with pytest.raises(UnsupportedFormatError, match="codec 5 is unknown"):
        plan(log.directory)


def test_data_is_dropped_only_on_demand(directory: Path) -> None:
    """A wrong batch in the middle costs all that follows it: the segments, not only the batch."""
    corrupt(directory)
    with pytest.raises(LossNotAccepted) as caught:
        plan(directory)
    assert "--accept-loss" in str(caught.value)
    for options in (LOSS, KAFKA):
        planned = plan(directory, options)
        assert ("cut", ["2.log"]) in rows(planned)
        assert ("dropped", ["3.log"]) in rows(planned)
        assert (3,) == planned.dropped
        assert [("dropped", ["3.log"])] == [
            (finding.action, [short(name) for name in finding.files]) for finding in planned.loses
        ]
        assert 2 == planned.log_end_offset


def test_what_we_retired_is_not_anothers(directory: Path) -> None:
    """A file with a record is not reported; a purge removes it in its time."""
    write(7, ".log.deleted")(directory)
    name = segment_file_name(7, ".log.deleted")
    assert (name,) == plan(directory).kept_deleted
    planned = plan(directory, ledger=serialize_retirement([name], at_ms=1))
    assert () == planned.kept_deleted
    assert [] == rows(planned)


def test_offsets_of_the_recovered_log(directory: Path) -> None:
    """They are what the checkpoints get afterwards."""
    tear(directory)
    planned = plan(directory)
    assert (0, 4, 0) == (
        planned.log_start_offset,
        planned.log_end_offset,
        planned.first_base_offset,
    )
    assert b"\0" * 9 == file(directory, 3, ".log").read_bytes()[-9:]
