"""Replicas whose brokers run are compared as healthy ones that lag."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from logwright.audit.running import first_difference
from logwright.format.checkpoints import LeaderEpoch
from logwright.units import Offset
from tests.e2e.command import Answer, call
from tests.log_builder import LogBuilder
from tests.running_dirs import record, running
from tests.unit.audit.histories import HISTORIES, Pair


@contextmanager
def brokers(before: Mapping[Path, int], after: Mapping[Path, int] | None = None) -> Iterator[None]:
    """Each directory has a broker with a high watermark of ``t-0``; from then on the brokers record
    another one again and again.
    """
    stop = threading.Event()

    def work() -> None:
        while not stop.wait(0.1):
            for log_dir, offset in (before if after is None else after).items():
                record(log_dir, {"t-0": offset})

    with ExitStack() as stack:
        for log_dir, offset in before.items():
            stack.enter_context(running(log_dir, {"t-0": offset}))
        thread = threading.Thread(target=work)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()


def audit(*log_dirs: Path) -> Answer:
    return call("audit", *log_dirs, "--no-metadata", "--output", "json")


@pytest.fixture(name="pair")
def _pair(tmp_path: Path) -> tuple[Path, Path]:
    """The first replica has removed a key and its tombstone, at offset 8. The second one has not:
    it is in its active segment.
    """
    first, second = LogBuilder(tmp_path / "first"), LogBuilder(tmp_path / "second")
    first.segment(0).batch(0, [("a", "1")])
    first.segment(9).batch(9, [("a", "2")])
    second.segment(0).batch(0, [("a", "1")]).batch(5, [("k", "1")])
    second.segment(8).batch(8, [("k", None)]).batch(9, [("a", "2")])
    first.write(high_watermark=10)
    second.write(high_watermark=8)
    return first.log_dir, second.log_dir


def test_what_one_cleaner_has_removed_is_no_fault(pair: tuple[Path, Path]) -> None:
    """The other replica's high watermark is an old one: a younger one shows that it has the
    tombstone.
    """
    stopped = call("audit", *pair, "--no-metadata", "--high-watermark", "checkpoint")
    assert 3 == stopped.status  # nothing else is known of it, if it stays like this
    first, second = pair
    with brokers({first: 10, second: 8}, {first: 10, second: 10}):
        answer = audit(*pair)
    assert 0 == answer.status, answer.out + answer.err
    (comparison,) = answer.lines
    assert {} == comparison["faults"]
    assert [10, 10] == [replica["logEndOffset"] for replica in comparison["replicas"]]
    assert all(replica["recordedMs"] for replica in comparison["replicas"])


def test_one_broker_may_be_stopped(pair: tuple[Path, Path]) -> None:
    """Its replica is what it is."""
    first, second = pair
    with brokers({second: 8}, {second: 10}):
        answer = audit(first, second)
    (comparison,) = answer.lines
    assert [True, False] == [one["recordedMs"] is None for one in comparison["replicas"]]
    assert {} == comparison["faults"]


def test_a_fault_is_found(tmp_path: Path) -> None:
    """As of stopped brokers."""
    pair = Pair.new(tmp_path, "logwright")
    history, kind = HISTORIES["replica away for longer than delete.retention.ms"]
    history(pair)
    pair.fetch()
    ends = {each.log_dir: int(each.log().log_end_offset) for each in (pair.leader, pair.follower)}
    with brokers(ends):
        answer = audit(*ends)
    assert 3 == answer.status, answer.err
    (comparison,) = answer.lines
    assert {kind: 1} == comparison["faults"]


def test_another_history_is_not_compared(tmp_path: Path) -> None:
    """One of the two is going to be truncated: that is said, and no records are called lost."""
    ends = {}
    for name, epochs in (("first", "0 0"), ("second", "0 0\n2 3")):
        builder = LogBuilder(tmp_path / name)
        builder.segment(0).batch(0, [("a", name)]).batch(3, [("b", name)])
        builder.write()
        content = f"0\n{len(epochs.splitlines())}\n{epochs}\n"
        (builder.directory / "leader-epoch-checkpoint").write_text(content)
        ends[builder.log_dir] = 4
    with brokers(ends):
        answer = audit(*ends)
    assert answer.status not in (0, 3)
    assert "other leader epochs from offset 3 on" in answer.err


@pytest.mark.parametrize(
    ("histories", "span", "expected"),
    [
        ([[(0, 0), (1, 5)], [(0, 0), (1, 5)]], (0, 9), None),
        ([[(0, 0), (1, 5)], [(0, 0), (2, 5)]], (0, 9), 5),
        ([[(0, 0), (1, 5)], [(0, 0), (2, 5)]], (0, 5), None),
        ([[(0, 0), (1, 5)], [(0, 0), (1, 7)]], (0, 9), 5),
        ([[(0, 0), (1, 5)], [(1, 6)]], (6, 9), None),
        ([[(0, 0), (1, 5)], [(2, 6)]], (6, 9), 6),
        ([[(0, 0), (1, 5)], []], (0, 9), None),
    ],
)
def test_where_histories_differ(
    histories: list[list[tuple[int, int]]], span: tuple[int, int], expected: int | None
) -> None:
    """The first offset of both with another leader epoch; first entries go with the log start."""
    logs = [
        [LeaderEpoch(epoch=epoch, start_offset=Offset(at)) for epoch, at in entries]
        for entries in histories
    ]
    assert expected == first_difference(logs, *span)
