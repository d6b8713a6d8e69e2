"""Which offsets a log had, and has not: what proves it, and what does not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from logwright.log.absence import Traces, absences, without

WHOLE = Traces(
    segments={100: 200, 200: 300},
    log_start_offset=100,
    log_end_offset=300,
    is_tiered=False,
    orphans={},
    snapshots=(200, 300),
    epochs=(100, 250),
    recovery_point=300,
    high_watermark=300,
    clean=True,
    is_young=False,
    deleted_to=-1,
)
UNCLEAN = replace(WHOLE, clean=False)


def index(base: int, suffix: str = ".index") -> str:
    return f"{base:020d}{suffix}"


def seen(traces: Traces) -> list[tuple[int, int, int | None]]:
    return [(one.first_offset, one.end_offset, one.committed) for one in absences(traces)]


def test_nothing_is_missing_from_a_whole_log() -> None:
    """Neither after a clean stop nor after another one, nor from an empty log."""
    assert [] == seen(WHOLE) == seen(UNCLEAN)
    empty = replace(WHOLE, segments={0: 0}, log_start_offset=0, log_end_offset=0, snapshots=())
    empty = replace(empty, epochs=(), recovery_point=None, high_watermark=None)
    assert [] == seen(empty) == seen(replace(empty, clean=False))


@pytest.mark.parametrize(
    ("change", "end"),
    [
        ({"high_watermark": 310}, 310),
        ({"recovery_point": 320}, 320),
        ({"snapshots": (200, 330)}, 330),
        ({"epochs": (100, 340)}, 340),
        ({"orphans": {index(300): 350}}, 350),
        ({"orphans": {index(300): 350}, "high_watermark": 360}, 360),
    ],
)
def test_each_trace_proves_an_end_after_a_clean_stop(change: dict[str, object], end: int) -> None:
    """What is below the high watermark is committed."""
    changed = replace(WHOLE, **change)  # type: ignore[arg-type]  # fields of it
    assert changed.high_watermark is not None
    assert [(300, end, max(0, changed.high_watermark - 300))] == seen(changed)
    unknown = replace(changed, high_watermark=None)
    if "high_watermark" not in change:
        assert [(300, end, None)] == seen(unknown) == seen(replace(unknown, clean=False))


def test_what_was_not_committed_may_have_been_truncated() -> None:
    """Without a clean stop, in an order that leaves the rest."""
    traces = replace(UNCLEAN, snapshots=(400,), orphans={index(350): 360}, recovery_point=400)
    assert [] == seen(traces)
    assert [(300, 400, 1)] == seen(replace(traces, high_watermark=301))
    unknown = replace(traces, high_watermark=None)
    assert [(300, 400, None)] == seen(unknown)
    assert [] == seen(replace(unknown, is_young=True))
    assert [(300, 400, None)] == seen(replace(unknown, is_young=True, clean=True))


def test_an_index_that_reaches_no_further_proves_no_more() -> None:
    """The segment that it belonged to was empty."""
    assert [] == seen(replace(WHOLE, orphans={index(300): 300}))


def test_the_beginning() -> None:
    """By an index, or after a clean stop by the oldest leader epoch; not what was deleted."""
    by_index = replace(WHOLE, orphans={index(0): 50, index(50, ".timeindex"): 100})
    assert [(0, 100, 100)] == seen(by_index) == seen(replace(by_index, clean=False))
    by_epoch = replace(WHOLE, epochs=(70, 250))
    assert [(70, 100, 30)] == seen(by_epoch)
    assert [] == seen(replace(by_epoch, clean=False)) == seen(replace(by_epoch, deleted_to=70))
    assert [] == seen(replace(by_epoch, is_tiered=True))
    deleted = replace(by_index, segments={100: 200}, log_start_offset=150, log_end_offset=300)
    assert [] == seen(deleted)


def test_the_middle() -> None:
    """By an index in a gap; one below the end of the segment before it is left of a merge."""
    gap = replace(WHOLE, segments={100: 150, 200: 300})
    assert [] == seen(gap)
    assert [(160, 200, 40)] == seen(replace(gap, orphans={index(160): 190, index(180): 181}))
    assert [] == seen(replace(gap, orphans={index(120): 200}))


def test_all_of_it() -> None:
    """No segment is left."""
    nothing = replace(WHOLE, segments={}, log_end_offset=100)
    assert [(100, 300, 200)] == seen(nothing)


def test_the_sentence() -> None:
    """Which offsets, which files, and what of them was committed."""
    (short,) = absences(replace(WHOLE, recovery_point=301))
    assert (
        "no segment has offset 300, and there were records: recovery-point-offset-checkpoint (up to"
        " 301); 0 of 1 offsets are committed" == short.reason
    )
    (long,) = absences(
        replace(WHOLE, high_watermark=310, snapshots=tuple(range(301, 309)), epochs=())
    )
    assert long.reason.startswith("no segment has offsets 300 to 309, and there were records: ")
    assert "replication-offset-checkpoint (up to 310)" in long.reason
    assert long.reason.endswith("and 6 more; all of it is committed")


def test_a_file_that_is_not_trusted() -> None:
    """The others prove what they prove."""
    (both,) = absences(replace(WHOLE, high_watermark=310, recovery_point=305))
    assert without(both, ()) == both
    by_point = without(both, {"replication-offset-checkpoint"})
    assert by_point is not None
    assert (300, 305, None) == (by_point.first_offset, by_point.end_offset, by_point.committed)
    by_watermark = without(both, {"recovery-point-offset-checkpoint"})
    assert by_watermark is not None
    assert (310, 10) == (by_watermark.end_offset, by_watermark.committed)
    (alone,) = absences(replace(WHOLE, high_watermark=310))
    assert without(alone, {"replication-offset-checkpoint"}) is None
