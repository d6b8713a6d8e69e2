"""A roll leaves what Kafka's roll leaves, and no crash in it changes a record."""

from __future__ import annotations

import shutil
import stat
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from logwright.errors import InvariantError
from logwright.format.index import parse_time_index, serialize_time_index
from logwright.format.names import TopicPartition
from logwright.format.snapshot import ProducerEntry, parse_snapshot
from logwright.log.model import PartitionLog
from logwright.roll.plan import RollDecision
from logwright.roll.steps import ActiveIndexes, roll_steps
from logwright.steps.filesystem import RealFileSystem
from logwright.steps.interpreter import execute
from logwright.steps.step import FileStep, FsyncDir, FsyncFile, WriteFile
from logwright.units import Offset, TimestampMs
from tests.crash.filesystems import RecordingFileSystem, plain_files
from tests.crash.layouts import picture
from tests.fixtures import copy_before, description, settings
from tests.oracle_runner import run_oracle

T0 = TopicPartition("t", 0)
ACTIVE, END = 482, 500
STEM = f"t-0/{ACTIVE:020d}"
LARGEST_MS = TimestampMs(1_760_000_086_229)


def name(base: int, suffix: str) -> str:
    return f"{base:020d}{suffix}"


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    return copy_before("basic-none", tmp_path)


def decision(base: int = END) -> RollDecision:
    return RollDecision(
        cause="time", new_base_offset=Offset(base), due_at_ms=None, reason="for this test"
    )


def log_of(log_dir: Path) -> PartitionLog:
    log = picture(log_dir, T0)
    assert (log.active.base_offset, log.log_end_offset) == (ACTIVE, END)
    return log


def active(log_dir: Path) -> ActiveIndexes:
    timeindex = log_dir / f"{STEM}.timeindex"
    return ActiveIndexes(
        index=(log_dir / f"{STEM}.index").read_bytes(),
        timeindex=timeindex.read_bytes() if timeindex.exists() else None,
        largest_timestamp_ms=LARGEST_MS,
        offset_of_largest=Offset(END - 1),
    )


def roll(log_dir: Path) -> tuple[FileStep, ...]:
    steps = roll_steps(log_of(log_dir), decision(), active(log_dir))
    with RealFileSystem(log_dir) as fs:
        execute(steps, fs)
    return steps


def verify(log_dir: Path) -> dict[str, object]:
    case = description("basic-none")
    pairs = settings("basic-none")[1::2]
    [answer] = run_oracle(
        *("verify", "--log-dir", log_dir, "--topic-partition", "t-0", "--now", str(case["now"])),
        *("--config", *[pair for pair in pairs if not pair.startswith(("producer", "log."))]),
        check=False,
    )
    return answer


@pytest.mark.oracle
def test_kafka_agrees_with_the_rolled_log(log_dir: Path, tmp_path: Path) -> None:
    """Our rolled files are those of Kafka's own roll, and its checks find nothing."""
    ours, kafkas = log_dir, tmp_path / "kafkas"
    shutil.copytree(ours, kafkas, copy_function=shutil.copy2)
    case = description("basic-none")
    pairs = [pair for pair in settings("basic-none")[1::2] if not pair.startswith("log.")]
    pairs = [pair for pair in pairs if not pair.startswith("producer")]
    run_oracle(
        *("roll", "--do", "--log-dir", kafkas, "--topic-partition", "t-0"),
        *("--now", str(case["now"]), "--config", *pairs),
    )
    roll(ours)
    assert plain_files(ours / "t-0") == plain_files(kafkas / "t-0")
    answer = verify(ours)
    assert answer["problems"] == []
    assert answer["clean"]["segments"][-2:] == [ACTIVE, END]  # type: ignore[index]
    assert answer["clean"]["logEndOffset"] == END  # type: ignore[index]


@pytest.mark.oracle
@pytest.mark.crash
@pytest.mark.rotates(4)
@pytest.mark.parametrize("part", range(4))
def test_no_crash_in_a_roll_changes_a_record(log_dir: Path, tmp_path: Path, part: int) -> None:
    """Whichever steps were done, Kafka opens the log with the same records and offsets."""
    (log_dir / "t-0" / name(END, ".snapshot")).unlink()
    cut = log_dir / f"{STEM}.timeindex"
    cut.write_bytes(cut.read_bytes()[:-12] + bytes(24))  # no final entry, not trimmed
    index = log_dir / f"{STEM}.index"
    index.write_bytes(index.read_bytes() + bytes(64))
    before = verify(log_dir)
    log = log_of_end(log_dir)._replace(log_end_offset=Offset(END))
    steps = roll_steps(log, decision(), active(log_dir))
    with RealFileSystem(log_dir) as fs:
        recorder = RecordingFileSystem(fs, log_dir / "t-0")
        execute(steps, recorder)
    states = [
        state for at, state in enumerate(recorder.states) if state not in recorder.states[:at]
    ]
    states.append(plain_files(log_dir / "t-0"))
    assert len(states) > 8
    for number, files in list(enumerate(states))[part::4]:
        state = tmp_path / f"state-{number}"
        shutil.copytree(log_dir, state, ignore=shutil.ignore_patterns("t-0"))
        (state / "t-0").mkdir()
        for file, data in files.items():
            (state / "t-0" / file).write_bytes(data)
        answer = verify(state)
        for mode in ("clean", "unclean", "rebuilt"):
            for what in ("logStartOffset", "logEndOffset", "lastStableOffset", "records"):
                assert answer[mode][what] == before[mode][what], number  # type: ignore[index]
        assert number < len(states) - 1 or answer["problems"] == []


def log_of_end(log_dir: Path) -> PartitionLog:
    return picture(log_dir, T0)


def test_final_time_entry_is_added_if_larger(log_dir: Path) -> None:
    """The sealed segment's last time entry is its largest timestamp."""
    path = log_dir / f"{STEM}.timeindex"
    path.write_bytes(serialize_time_index(np.array([[5, ACTIVE]], dtype=np.int64), ACTIVE))
    roll(log_dir)
    entries = parse_time_index(path.read_bytes(), ACTIVE)
    assert entries.tolist() == [[5, ACTIVE], [LARGEST_MS, END - 1]]


@pytest.mark.parametrize("last_ms", [LARGEST_MS, LARGEST_MS + 1])
def test_final_time_entry_is_not_added_otherwise(log_dir: Path, last_ms: int) -> None:
    """Timestamps in the index strictly increase."""
    path = log_dir / f"{STEM}.timeindex"
    entry = serialize_time_index(np.array([[last_ms, ACTIVE]], dtype=np.int64), ACTIVE)
    path.write_bytes(entry)
    roll(log_dir)
    assert path.read_bytes() == entry


def test_segment_without_timestamps_has_no_time_entry(log_dir: Path) -> None:
    """-1 is not a timestamp."""
    (log_dir / f"{STEM}.timeindex").write_bytes(b"")
    indexes = replace(active(log_dir), largest_timestamp_ms=TimestampMs(-1))
    steps = roll_steps(log_of(log_dir), decision(), indexes)
    with RealFileSystem(log_dir) as fs:
        execute(steps, fs)
    assert (log_dir / f"{STEM}.timeindex").read_bytes() == b""


@pytest.mark.parametrize("filler", [4, 8, 800])
def test_indexes_are_trimmed(log_dir: Path, filler: int) -> None:
    """What a broker left preallocated is cut to its entries."""
    kept = {}
    for kind in (".index", ".timeindex"):
        path = log_dir / f"{STEM}{kind}"
        kept[path] = path.read_bytes()
        path.write_bytes(kept[path] + bytes(filler))
    roll(log_dir)
    assert {path: path.read_bytes() for path in kept} == kept


def test_preallocated_index_without_entries_is_emptied(log_dir: Path) -> None:
    """Zeros are not entries."""
    (log_dir / f"{STEM}.index").write_bytes(bytes(80))
    (log_dir / f"{STEM}.timeindex").write_bytes(bytes(120))
    roll(log_dir)
    assert (log_dir / f"{STEM}.index").read_bytes() == b""
    assert len((log_dir / f"{STEM}.timeindex").read_bytes()) == 12


def test_missing_time_index_is_made(log_dir: Path) -> None:
    """A sealed segment has a time index, if only with its final entry."""
    path = log_dir / f"{STEM}.timeindex"
    path.unlink()
    roll(log_dir)
    assert parse_time_index(path.read_bytes(), ACTIVE).tolist() == [[LARGEST_MS, END - 1]]


def test_new_files_are_empty_and_look_like_the_old(log_dir: Path) -> None:
    """Mode and owner are the old segment's log's."""
    (log_dir / f"{STEM}.log").chmod(0o640)
    roll(log_dir)
    for kind in (".log", ".index", ".timeindex"):
        status = (log_dir / "t-0" / name(END, kind)).stat()
        assert (status.st_size, stat.S_IMODE(status.st_mode)) == (0, 0o640)
    assert not (log_dir / "t-0" / name(END, ".txnindex")).exists()


def test_log_comes_after_its_indexes_are_durable(log_dir: Path) -> None:
    """A log without an index would be recovered."""
    steps = roll(log_dir)
    directory = log_dir / "t-0"
    log = next(
        at
        for at, step in enumerate(steps)
        if isinstance(step, WriteFile) and step.path.name == name(END, ".log")
    )
    for kind in (".index", ".timeindex"):
        made = steps.index(FsyncFile(directory / name(END, kind)))
        assert made < steps.index(FsyncDir(directory), made) < log
    assert steps[-1] == FsyncDir(directory)


def test_existing_snapshot_is_kept(log_dir: Path) -> None:
    """A clean stop left the producer state at the log end, which is the new base."""
    path = log_dir / "t-0" / name(END, ".snapshot")
    path.write_bytes(path.read_bytes() + b"kept")
    roll(log_dir)
    assert path.read_bytes().endswith(b"kept")


PRODUCER = ProducerEntry(
    producer_id=7,
    producer_epoch=1,
    last_sequence=51,
    last_offset=END - 1,
    offset_delta=1,
    timestamp_ms=TimestampMs(1000),
    coordinator_epoch=-1,
    current_txn_first_offset=None,
)


@pytest.mark.parametrize("producers", [(), (PRODUCER,)])
def test_the_snapshot_holds_the_producers_at_the_end(
    log_dir: Path, producers: tuple[ProducerEntry, ...]
) -> None:
    """If there is none at the log's end, the state that a load would find is written."""
    path = log_dir / "t-0" / name(END, ".snapshot")
    path.unlink()
    log = picture(log_dir, T0)._replace(log_end_offset=Offset(END), producers=producers)
    with RealFileSystem(log_dir) as fs:
        execute(roll_steps(log, decision(), active(log_dir)), fs)
    assert producers == parse_snapshot(path.read_bytes(), path)


def test_nothing_is_done_when_no_roll_is_due(log_dir: Path) -> None:
    """A decision against it is a decision."""
    no = RollDecision(cause=None, new_base_offset=None, due_at_ms=None, reason="not due")
    assert roll_steps(log_of(log_dir), no, active(log_dir)) == ()


@pytest.mark.parametrize("base", [ACTIVE, END - 1, END + 1])
def test_roll_elsewhere_than_at_the_end_is_our_fault(log_dir: Path, base: int) -> None:
    """An offline log gets its new segment at its end."""
    with pytest.raises(InvariantError):
        roll_steps(log_of(log_dir), decision(base), active(log_dir))
