"""Faults planted into staged files, after they were built and before they are judged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import dagster as dg

from logwright.assets.lib.partitions import LOGS, SEGMENT_SET
from logwright.assets.lib.verdict import CHECKS
from logwright.assets.segments.segment_set import (
    CHECK_SPECS,
    SWEEP_OUT,
    dedupe,
    plan_partitions,
    quality,
    roll,
    swap,
)
from logwright.format.batch import parse_batch, serialize_batch, serialize_header, walk_batches
from logwright.format.record import encode_records, read_records
from logwright.pipelines.segments.sweep import plan_sweep, swap_sweep
from logwright.sweep.model import SweepState

Fault = Callable[[Path], None]


def faulty_asset(fault: Fault, key: str) -> dg.AssetsDefinition:
    """The asset `segment_set` with one more step, that spoils what is staged for one log."""

    @dg.op(out=SWEEP_OUT, name="spoil")
    def spoil(built: SweepState) -> SweepState:
        return spoiled(built, fault, key)

    @dg.graph_asset(
        key=SEGMENT_SET,
        partitions_def=LOGS,
        backfill_policy=dg.BackfillPolicy.single_run(),
        check_specs=CHECK_SPECS,
    )
    def segment_set() -> dict[str, object]:
        judged = quality(spoil(dedupe(roll(plan_partitions()))))
        prefix = SEGMENT_SET.to_python_identifier()
        checks = {f"{prefix}_{check}": getattr(judged, check) for check in CHECKS}
        return {"result": swap(judged.validated), **checks}

    return segment_set


def faulty_sweep(fault: Fault, key: str) -> dg.JobDefinition:
    """The job `sweep` with one more step, that spoils what is staged for one log."""

    @dg.op(out=SWEEP_OUT, name="spoil")
    def spoil(built: SweepState) -> SweepState:
        return spoiled(built, fault, key)

    @dg.job(name="sweep", executor_def=dg.in_process_executor)
    def sweep() -> None:
        swap_sweep(quality(spoil(dedupe(roll(plan_sweep())))).validated)

    return sweep


def spoiled(built: SweepState, fault: Fault, key: str) -> SweepState:
    """The same state; the first staged segment of one log is not what was built."""
    for work in built.works:
        if work.key == key:
            assert work.staged is not None
            fault(min(work.staged.directory.glob("*.log")))
    return built


def _batches(log: Path) -> list[bytes]:
    content = log.read_bytes()
    return [content[span.position : span.position + span.bytes] for span in walk_batches(content)]


def last_batch_lost(log: Path) -> None:
    """The latest values of some keys are gone."""
    log.write_bytes(b"".join(_batches(log)[:-1]))


def offsets_out_of_order(log: Path) -> None:
    """The second batch says that it comes before the first; its CRC does not cover that."""
    batches = _batches(log)
    second = replace(parse_batch(batches[1]), base_offset=parse_batch(batches[0]).base_offset)
    batches[1] = serialize_header(second) + batches[1][len(serialize_header(second)) :]
    log.write_bytes(b"".join(batches))


def bit_flipped(log: Path) -> None:
    """One bit of the last record of the first batch."""
    batches = _batches(log)
    batches[0] = batches[0][:-3] + bytes([batches[0][-3] ^ 1]) + batches[0][-2:]
    log.write_bytes(b"".join(batches))


def value_changed(log: Path) -> None:
    """A record has another value, with a right CRC."""
    batches = _batches(log)
    batch = parse_batch(batches[0])
    records = list(read_records(batch, batches[0]))
    value = records[0].value
    assert value
    records[0] = replace(records[0], value=bytes(len(value)))
    batches[0] = serialize_batch(batch, encode_records(batch, records))
    log.write_bytes(b"".join(batches))


def key_removed(log: Path) -> None:
    """A record has no key: a compacted log must not hold one below the map's end."""
    batches = _batches(log)
    batch = parse_batch(batches[0])
    records = list(read_records(batch, batches[0]))
    records[0] = replace(records[0], key=None)
    batches[0] = serialize_batch(batch, encode_records(batch, records))
    log.write_bytes(b"".join(batches))


def index_misplaced(log: Path) -> None:
    """The last index entry points one byte after the start of a batch."""
    index = log.with_suffix(".index")
    content = bytearray(index.read_bytes())
    assert content
    content[-1] ^= 1
    index.write_bytes(content)
