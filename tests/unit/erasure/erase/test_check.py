"""The checks of an erasure notice each fault that is planted in its output."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from logwright.batches.runtime import Runtime
from logwright.config.topic import parse_settings
from logwright.erasure.erase.build import build_erasure
from logwright.erasure.erase.check import ErasureChecks
from logwright.erasure.erase.commit import plan_erasure_of
from logwright.erasure.erase.model import StagedErasure
from logwright.errors import QualityError
from logwright.format.batch import HEADER_BYTES, RecordBatch, parse_batch, serialize_batch
from logwright.format.names import TopicPartition
from logwright.rewrite.staging import staging_directory
from logwright.units import TimestampMs
from tests.erasing import PlainKeys, batches_of
from tests.log_builder import START_MS, LogBuilder

T0 = TopicPartition("t", 0)
KEYS = PlainKeys([b"me"])
SEGMENT = f"{0:020d}.log"
SETTINGS = parse_settings({"cleanup.policy": "delete", "index.interval.bytes": "50"})

Damage = Callable[[list[bytes]], list[bytes]]


def staged(tmp_path: Path) -> StagedErasure:
    """The rebuilt output of a segment: a batch as it was, two rebuilt, one emptied, a marker."""
    log = LogBuilder(tmp_path / "logs")
    first = log.segment(0)
    first.batch(0, [("a", "1"), ("b", "2")])
    first.batch(2, [("me", "3"), ("c", "4"), ("d", "5")])
    first.batch(5, [("me", "6"), ("e", "7")], codec=4, horizon_ms=START_MS + 99)
    first.batch(7, [("f", "8")], producer_id=7, transactional=True, sequence=0).marker(
        8, 7, "abort"
    )
    first.batch(9, [("me", "9")], producer_id=8, sequence=0)
    first.batch(10, [("me", "10")], producer_id=9, transactional=True, sequence=0)
    first.batch(11, [("g", "11")], producer_id=9, transactional=True, sequence=1)
    log.segment(12)
    return rebuilt(log)


def rebuilt(log: LogBuilder) -> StagedErasure:
    """The rebuilt output of a log."""
    log.write(producers=True, index_interval=50)
    plan = plan_erasure_of(
        log.log_dir,
        T0,
        SETTINGS,
        KEYS,
        now_ms=TimestampMs(START_MS),
        progress=lambda *_: None,
    )
    return build_erasure(plan, progress=lambda *_: None)


def judged(erasure: StagedErasure, runtime: Runtime | None = None) -> ErasureChecks:
    """The checks, when all segments are judged."""
    checks = ErasureChecks(erasure.plan, KEYS, runtime)
    for segment in erasure.segments:
        checks.judge(segment)
    return checks


def failed(erasure: StagedErasure) -> set[str]:
    """Names of the checks that fail."""
    return {check.name for check in judged(erasure).results() if not check.passed}


def path_of(erasure: StagedErasure, suffix: str) -> Path:
    return staging_directory(erasure.plan) / f"{0:020d}{suffix}"


def with_header(raw: bytes, **changes: object) -> bytes:
    """A batch with another header, and the right CRC."""
    batch: RecordBatch = replace(parse_batch(raw), **changes)  # type: ignore[arg-type]
    return serialize_batch(batch, raw[HEADER_BYTES:])


def flipped(raw: bytes, at: int) -> bytes:
    """A batch with one byte of its records changed, and the right CRC."""
    changed = bytearray(raw)
    changed[at] ^= 1
    return serialize_batch(parse_batch(raw), bytes(changed[HEADER_BYTES:]))


def test_output_passes(tmp_path: Path) -> None:
    """Without a fault."""
    assert set() == failed(staged(tmp_path))


FAULTS: dict[str, tuple[Damage, str]] = {
    "a batch without a match is gone": (lambda raws: raws[1:], "others_identical"),
    "a rebuilt batch is gone": (lambda raws: [raws[0], *raws[2:]], "others_identical"),
    "a marker is gone": (lambda raws: [*raws[:4], *raws[5:]], "others_identical"),
    "the last batch of a producer is gone": (lambda r: [*r[:5], *r[6:]], "producers_kept"),
    "the first batch of an open transaction is gone": (
        lambda raws: [*raws[:6], *raws[7:]],
        "producers_kept",
    ),
    "a value is another": (lambda raws: [flipped(raws[0], -2), *raws[1:]], "others_identical"),
    "a value of a rebuilt batch is another": (
        lambda raws: [raws[0], flipped(raws[1], -2), *raws[2:]],
        "others_identical",
    ),
    "a rebuilt batch has another time": (
        lambda raws: [
            raws[0],
            with_header(raws[1], base_timestamp=TimestampMs(START_MS + 1)),
            *raws[2:],
        ],
        "others_identical",
    ),
    "a rebuilt batch has another largest time": (
        lambda raws: [
            raws[0],
            with_header(raws[1], max_timestamp=TimestampMs(START_MS + 99)),
            *raws[2:],
        ],
        "others_identical",
    ),
    "a delete horizon is lost": (
        lambda raws: [
            *raws[:2],
            with_header(raws[2], attributes=parse_batch(raws[2]).attributes & ~0x40),
            *raws[3:],
        ],
        "others_identical",
    ),
    "a sequence is another": (
        lambda raws: [*raws[:5], with_header(raws[5], base_sequence=4), *raws[6:]],
        "others_identical",
    ),
    "a leader epoch is another": (
        lambda raws: [raws[0], with_header(raws[1], partition_leader_epoch=4), *raws[2:]],
        "others_identical",
    ),
    "a last offset is another": (
        lambda raws: [raws[0], with_header(raws[1], last_offset_delta=1), *raws[2:]],
        "others_identical",
    ),
    "a batch is added": (
        lambda raws: [*raws, with_header(raws[0], base_offset=12)],
        "others_identical",
    ),
    "a byte is another": (
        lambda raws: [raws[0][:-1] + b"\x07", *raws[1:]],
        "crc_valid",
    ),
    "the end is cut off": (lambda raws: [*raws[:-1], raws[-1][:-1]], "crc_valid"),
    "two batches are the other way round": (
        lambda raws: [raws[1], raws[0], *raws[2:]],
        "offsets_ascending",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_planted_fault_is_noticed(tmp_path: Path, name: str) -> None:
    """By the check that is for it; the log is not changed then."""
    damage, check = FAULTS[name]
    erasure = staged(tmp_path)
    log = path_of(erasure, ".log")
    log.write_bytes(b"".join(damage([batch.raw for batch in batches_of(log.read_bytes())])))
    assert check in failed(erasure)
    with pytest.raises(QualityError, match=check):
        judged(erasure).require_passed()


def test_an_ended_transaction_of_a_producer_may_go(tmp_path: Path) -> None:
    """Of a producer with an open transaction only the batches of that one must stay."""
    log = LogBuilder(tmp_path / "logs")
    first = log.segment(0)
    first.batch(0, [("me", "1")], producer_id=9, transactional=True, sequence=0)
    first.marker(1, 9, "commit")
    first.batch(2, [("me", "2")], producer_id=9, transactional=True, sequence=1)
    first.batch(3, [("a", "3")], producer_id=9, transactional=True, sequence=2)
    log.segment(4)
    erasure = rebuilt(log)
    kept = [batch.header[0] for batch in batches_of(path_of(erasure, ".log").read_bytes())]
    assert [1, 2, 3] == kept
    assert set() == failed(erasure)


def test_a_segment_that_was_not_judged_is_no_pass(tmp_path: Path) -> None:
    """Nothing checked is not passed."""
    erasure = staged(tmp_path)
    with pytest.raises(QualityError, match="1 segments were not checked"):
        ErasureChecks(erasure.plan, KEYS).require_passed()


def test_record_that_was_not_erased_is_noticed(tmp_path: Path) -> None:
    """The source itself as output: each batch has a match."""
    erasure = staged(tmp_path)
    path_of(erasure, ".log").write_bytes(
        (erasure.plan.log.directory / f"{0:020d}.log").read_bytes()
    )
    assert {"erased_absent", "others_identical"} <= failed(erasure)


def test_verdicts_do_not_depend_on_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts and first offsets are the same when each batch is a window of its own, judged by some
    thread: the source as output, with another value and without two batches.
    """
    erasure = staged(tmp_path)
    raws = [batch.raw for batch in batches_of((erasure.plan.log.directory / SEGMENT).read_bytes())]
    path_of(erasure, ".log").write_bytes(b"".join([flipped(raws[0], -2), *raws[1:3], *raws[5:]]))
    together = judged(erasure).results()
    monkeypatch.setattr("logwright.batches.source.WINDOW_BYTES", 1)
    monkeypatch.setattr("logwright.batches.source.COMPRESSED_WINDOW_BYTES", 1)
    assert together == judged(erasure, Runtime(threads=3)).results()
    counts = {check.name: (check.violations, check.first_offset) for check in together}
    assert (4, 2) == counts["erased_absent"]
    assert (10, 0) == counts["others_identical"]


def test_wrong_index_is_noticed(tmp_path: Path) -> None:
    """Of offsets, of times, and of aborted transactions."""
    erasure = staged(tmp_path)
    index = path_of(erasure, ".index")
    assert index.stat().st_size >= 8
    content = bytearray(index.read_bytes())
    content[7] ^= 1  # of its position
    index.write_bytes(content)
    assert {"index_entries_valid"} == failed(erasure)
    again = staged(tmp_path / "again")
    path_of(again, ".txnindex").unlink()
    assert {"others_identical"} == failed(again)
