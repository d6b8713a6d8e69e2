"""Tables of topics that a running broker has open: when they are continued, wait, lose rows, or are
made again.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from logwright.config.topic import CleanerConfig
from logwright.errors import Unsettled
from logwright.format.checkpoints import LeaderEpoch, serialize_leader_epochs
from logwright.format.names import TopicPartition
from logwright.log.load import observe
from logwright.reading import reading
from logwright.running.place import RunningPlace, as_it_runs
from logwright.tables.batches import Batches
from logwright.tables.logs import TopicLog, topic_log
from logwright.tables.model import Progress, Tail, dump_progress, load_progress
from logwright.tables.plan import Observed, are_comparable, plan_partition
from logwright.tables.topic import TopicUpdate, open_store, update_topic
from logwright.units import Offset
from tests.running_dirs import record, running
from tests.table_rows import FORMATS, Rows, expected_rows, table_rows
from tests.table_world import NOW_MS, place, random_pairs, write_logs

READ_AT = 1_000_000
RECORDED = Progress(
    end_offset=100,
    topic_id="A",
    log_start_offset=10,
    tail=Tail(95, 7, 3),
    epoch=4,
    directory="1:1",
    batches=Batches(files="a", total="0", cleaned_to=50),
)
SEEN = Observed(
    topic_id="A",
    log_start_offset=10,
    end_offset=150,
    high_watermark=150,
    log_end_offset=150,
    now_ms=READ_AT,
    tail=Tail(95, 7, 3),
    epoch=4,
    directory="1:1",
    as_of_ms=READ_AT - 3000,
)

CASES: Mapping[str, tuple[dict[str, object], str, str]] = {
    # name: (what differs in the log, kind, reason has)
    "new records": ({}, "upsert", ""),
    "nothing new": ({"end_offset": 100}, "nothing", ""),
    "the last record was cleaned": ({"tail": None}, "upsert", ""),
    "its batch was cleaned, and has no record there": ({"tail": Tail(95, 8, None)}, "upsert", ""),
    "the last record was cleaned, no epoch": ({"tail": None, "epoch": None}, "rebuild", "cleaned"),
    "another last record in the same epoch": (
        {"tail": Tail(95, 8, 4)},
        *("rebuild", "the batch of offset 95 is another one"),
    ),
    "cut off and grown again": (
        {"epoch": 5},
        *("rebuild", "offset 99 was of leader epoch 4 and is of 5: the log was cut off before"),
    ),
    "the log start moved": ({"log_start_offset": 60}, "upsert", "offset was 10 and is 60"),
    "the log start moved to the end": ({"log_start_offset": 100}, "upsert", "was 10 and is 100"),
    "the log start moved, nothing new": (
        {"log_start_offset": 60, "end_offset": 100},
        *("upsert", "the log start offset was 10 and is 60"),
    ),
    "the log start is beyond the end": ({"log_start_offset": 101}, "rebuild", "was 10 and is 101"),
    "the log start moved back": ({"log_start_offset": 9}, "rebuild", "was 10 and is 9"),
    "the end is lower": (
        {"end_offset": 99},
        "nothing",
        "waits: the last stable offset 99 is below",
    ),
    "the end is lower, and it was cleaned": (
        {"end_offset": 90, "tail": None},
        "nothing",
        "waits: ",
    ),
    "the end is lower, of another epoch": (
        {"end_offset": 99, "epoch": 5},
        "rebuild",
        "leader epoch 4",
    ),
    "the end is lower, no epoch": (
        {"end_offset": 99, "epoch": None},
        "rebuild",
        "99 is below offset 100",
    ),
    "another topic": ({"topic_id": "B", "end_offset": 99}, "rebuild", "the topic id was A"),
    "erased": ({"erasure": "x"}, "rebuild", "records were erased"),
    "a gap": ({"missing_offset": 120}, "upsert", "offset 120 is missing"),
}


@pytest.mark.parametrize("name", CASES)
def test_step(name: str) -> None:
    """Each rule by itself."""
    changes, kind, reason = CASES[name]
    observed = replace(SEEN, **changes)  # type: ignore[arg-type]  # names of the table's columns
    step = plan_partition(RECORDED, observed)
    assert kind == step.kind
    assert reason in step.reason
    assert bool(reason) == bool(step.reason)
    assert max(observed.end_offset, 100 if kind == "nothing" else 0) == step.end_offset
    trims = kind == "upsert" and observed.log_start_offset != RECORDED.log_start_offset
    assert (observed.log_start_offset if trims else None) == step.trims_below


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"tail": None}, "the batch of offset 95 is another one"),
        ({"log_start_offset": 60}, "the log start offset was 10 and is 60"),
        ({"end_offset": 99, "high_watermark": 99, "log_end_offset": 99}, "99 is below offset 100"),
        ({"epoch": 5}, "the log was cut off before"),
    ],
)
def test_a_stopped_log_is_read_again(changes: dict[str, object], reason: str) -> None:
    """Programs can have written there in the same epoch, so it shows nothing."""
    observed = replace(SEEN, as_of_ms=None, **changes)  # type: ignore[arg-type]  # as above
    step = plan_partition(RECORDED, observed)
    assert ("rebuild", True) == (step.kind, reason in step.reason)


@pytest.mark.parametrize(
    ("changes", "comparable"),
    [
        ({}, False),
        ({"directory": "2:2"}, True),
        ({"directory": None}, False),
        ({"directory": "2:2", "log_start_offset": 60}, False),
        ({"as_of_ms": None}, True),
    ],
)
def test_batches_say_something_in_another_directory(
    changes: dict[str, object], *, comparable: bool
) -> None:
    """A broker's cleaner changes them before its checkpoint; a fetched replica is a new
    directory.
    """
    observed = replace(SEEN, **changes)  # type: ignore[arg-type]  # as above
    assert comparable == are_comparable(RECORDED, observed)


def test_progress_of_earlier_versions() -> None:
    """It has no time, epoch or directory; the new ones are read as they were written."""
    whole = replace(RECORDED, as_of_ms=READ_AT)
    assert {0: whole} == load_progress(dump_progress({0: whole}), table="t")
    old = json.loads(dump_progress({0: whole}))
    for name in ("as_of_ms", "epoch", "directory"):
        del old["partitions"]["0"][name]
    known = load_progress(json.dumps(old), table="t")[0]
    assert (None, None, None) == (known.as_of_ms, known.epoch, known.directory)


def write_epochs(log_dir: Path, *starts: int) -> None:
    """The leader epochs of t-0 from 0 on, by where they begin; as a broker replaces the file."""
    epochs = [
        LeaderEpoch(epoch=number, start_offset=Offset(start)) for number, start in enumerate(starts)
    ]
    new = log_dir / "leader-epochs.tmp"
    new.write_bytes(serialize_leader_epochs(epochs))
    new.replace(log_dir / "t-0" / "leader-epoch-checkpoint")


def observed_logs(log_dir: Path) -> list[TopicLog]:
    """The log t-0 as a running broker has it."""
    there = as_it_runs(log_dir)
    assert isinstance(there, RunningPlace)
    log = observe(there, TopicPartition("t", 0), high_watermark="checkpoint")
    return [topic_log(log, CleanerConfig())]


def updated(where: Path, form: str, log_dir: Path) -> TopicUpdate:
    return update_topic(place(form, where), observed_logs(log_dir), now_ms=NOW_MS)


def below(rows: Rows, end: int) -> Rows:
    return [row for row in rows if row[1] < end]


@pytest.fixture
def log_dir(tmp_path: Path, seed: int) -> Path:
    """150 records, no key twice below 100, where the second update begins."""
    pairs = [(f"k{at}", f"v{at}") for at in range(100)]
    pairs += random_pairs(Random(seed), 50)
    made = write_logs(tmp_path / "logs", {0: pairs})
    write_epochs(made, 0)
    return made


@pytest.mark.parametrize("form", FORMATS)
def test_only_what_is_committed(tmp_path: Path, log_dir: Path, form: str) -> None:
    """The table ends at the high watermark, says when that was recorded, and continues."""
    table = tmp_path / "table"
    with running(log_dir, {"t-0": 100}):
        updated(table, form, log_dir)
        assert [(at, f"v{at}".encode()) for at in range(100)] == [
            (offset, value) for _, offset, _, value in table_rows(form, table)
        ]
        written = (log_dir / "replication-offset-checkpoint").stat().st_mtime_ns // 1_000_000
        snapshot = open_store(place(form, table)).load()
        assert snapshot is not None
        assert (100, written, 0) == (
            snapshot.progress[0].end_offset,
            snapshot.progress[0].as_of_ms,
            snapshot.progress[0].epoch,
        )
        record(log_dir, {"t-0": 150})
        (done,) = updated(table, form, log_dir).result.partitions
        assert ("upsert", 100) == (done.step.kind, done.step.start_offset)
    assert expected_rows(log_dir, "t") == table_rows(form, table)


@pytest.mark.parametrize("form", FORMATS)
def test_rows_below_the_log_start_go(tmp_path: Path, log_dir: Path, form: str) -> None:
    """What is left is what a table would be that is made again; also if nothing is new."""
    table = tmp_path / "table"
    with running(log_dir, {"t-0": 120}):
        updated(table, form, log_dir)
        for segment in (log_dir / "t-0").glob(f"{0:020d}.*"):
            segment.rename(segment.with_name(f"{segment.name}.deleted"))
        record(log_dir, {"t-0": 120})
        (done,) = updated(table, form, log_dir).result.partitions
        assert ("upsert", 50, 0) == (done.step.kind, done.step.trims_below, done.bytes_read)
        kept = table_rows(form, table)
        assert 50 == min(offset for _, offset, _, _ in kept)
        updated(tmp_path / "again", form, log_dir)
        assert table_rows(form, tmp_path / "again") == kept


def test_the_table_of_a_whole_topic_is_made_again(tmp_path: Path, log_dir: Path) -> None:
    """Its rows below the log start may have hidden others."""
    where = place("parquet", tmp_path / "table", unique="topic")
    with running(log_dir, {"t-0": 120}):
        update_topic(where, observed_logs(log_dir), now_ms=NOW_MS)
        for segment in (log_dir / "t-0").glob(f"{0:020d}.*"):
            segment.rename(segment.with_name(f"{segment.name}.deleted"))
        record(log_dir, {"t-0": 120})
        update = update_topic(where, observed_logs(log_dir), now_ms=NOW_MS)
        (done,) = update.result.partitions
        assert ("rebuild", True) == (done.step.kind, "was 0 and is 50" in done.step.reason)
        assert 50 == min(offset for _, offset, _, _ in table_rows("parquet", tmp_path / "table"))


def test_a_table_that_is_ahead_waits(tmp_path: Path, log_dir: Path) -> None:
    """By an older checkpoint of the same epoch nothing is done; a log that was cut off in another
    epoch is read again.
    """
    table = tmp_path / "table"
    with running(log_dir, {"t-0": 150}):
        updated(table, "parquet", log_dir)
        before = table_rows("parquet", table)
        record(log_dir, {"t-0": 120})
        update = updated(table, "parquet", log_dir)
        (done,) = update.result.partitions
        assert (True, False, 150) == (done.waits, update.result.changed, done.held)
        assert before == table_rows("parquet", table)
        write_epochs(log_dir, 0, 140)
        record(log_dir, {"t-0": 145})
        (done,) = updated(table, "parquet", log_dir).result.partitions
        assert "offset 149 was of leader epoch 0 and is of 1" in done.step.reason
        assert 140 == done.held  # its batches have 10 records


def test_a_log_that_is_cut_off_while_it_is_read(tmp_path: Path, log_dir: Path) -> None:
    """Nothing of it is committed to the table."""
    table = tmp_path / "table"
    with running(log_dir, {"t-0": 100}):
        updated(table, "parquet", log_dir)
        before = table_rows("parquet", table)
        record(log_dir, {"t-0": 150})
        logs = observed_logs(log_dir)
        with reading(logs[0].log.log_dir):
            write_epochs(log_dir, 0, 140)
            update = update_topic(place("parquet", table), logs, now_ms=NOW_MS)
        assert isinstance(update.result.failures[0], Unsettled)
        assert not update.result.changed
    assert before == table_rows("parquet", table)


def test_a_topic_that_was_made_again(tmp_path: Path, log_dir: Path, seed: int) -> None:
    """Its table is made again, though it has as many records."""
    table, metadata = tmp_path / "table", log_dir / "t-0" / "partition.metadata"
    metadata.write_text(f"version: 0\ntopic_id: {'A' * 22}\n")
    with running(log_dir, {"t-0": 150}):
        updated(table, "delta", log_dir)
        shutil.rmtree(log_dir / "t-0")
        write_logs(log_dir, {0: random_pairs(Random(seed + 1), 150)})
        write_epochs(log_dir, 0)
        metadata.write_text(f"version: 0\ntopic_id: {'B' * 22}\n")
        record(log_dir, {"t-0": 150})
        (done,) = updated(table, "delta", log_dir).result.partitions
        assert ("rebuild", True) == (done.step.kind, "the topic id was" in done.step.reason)
        assert expected_rows(log_dir, "t") == table_rows("delta", table)
