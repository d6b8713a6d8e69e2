"""Which batches stay as headers for their producers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from logwright.format.snapshot import parse_snapshot, serialize_snapshot
from logwright.sweep.build import build
from tests.log_builder import LogBuilder
from tests.plans import forced_plan

SETTINGS = {"cleanup.policy": "compact", "segment.ms": str(1 << 60)}


def test_a_producer_of_which_only_a_marker_is_known_has_no_last_batch(tmp_path: Path) -> None:
    """A broker forgot it and then appended a marker: its earlier batch contradicts no snapshot, and
    goes as any other does.
    """
    builder = LogBuilder(tmp_path / "logs")
    first = builder.segment(0).batch(0, [("a", "1")], producer_id=7, transactional=True, sequence=0)
    first.marker(1, 7, "commit").marker(2, 7, "commit").batch(3, [("a", "2")])
    builder.segment(4)
    builder.write(producers=True)
    for path in builder.directory.glob("*.snapshot"):
        (entry,) = parse_snapshot(path.read_bytes(), path)
        marked = replace(entry, last_sequence=-1, last_offset=-1, offset_delta=0)
        path.write_bytes(serialize_snapshot([marked]))
    staged = build(forced_plan(builder.log_dir, builder.partition, SETTINGS))
    assert (1, 1) == (staged.stats.removed_superseded, staged.stats.batches_dropped)
