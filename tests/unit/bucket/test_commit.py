"""No change of a partition in a bucket is lost or made twice, whatever fails."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from logwright.bucket.commit import (
    Answer,
    Collect,
    Collected,
    Commit,
    Conflict,
    Get,
    Operation,
    Request,
    TooLate,
    newest,
)
from logwright.bucket.manifest import MOST_OPERATIONS, manifest_key
from logwright.bucket.stored import DATA
from logwright.errors import CorruptLogError
from tests.bucket.__main__ import play
from tests.bucket.kinds import KINDS
from tests.bucket.left_out import LEFT_OUT
from tests.bucket.over_http import play as play_over_http
from tests.bucket.servers import served
from tests.bucket.simulation import LIMITS, Rules, Store, answered, append

RUNS = 150
SHOWN_BY = {
    "1: a name is of one writing": 10,
    "2: no is not believed": 25,
    "2: a version is settled before the next": 0,
    "3: the operation is the job's": 1,
    "4: what is replaced must be there": 60,
    "5: nothing is deleted after an unclear end": 6,
    "6: a deadline": 16,
    "6: the age is more than the deadline": 2,
    "7: an age": 1,
    "7: young manifests are kept": 596,
    "8: the clock is the server's": 2,
    "9: a reader looks again": 16,
}
"""Rule → a seed of a run that loses or doubles something without it."""


def test_nothing_is_lost(seed: int) -> None:
    """Two writers, a collector and a reader, with a fault at any request."""
    totals = play(range(seed, seed + RUNS))
    assert totals.requests > 100 * RUNS
    assert len(totals.faults) > 20
    assert {} == totals.first


@pytest.mark.nightly
def test_nothing_is_lost_in_many_runs(seed: int) -> None:
    """The same, longer."""
    assert {} == play(range(seed, seed + 20_000)).first


@pytest.mark.parametrize("rule", LEFT_OUT)
def test_each_rule_is_needed(rule: str) -> None:
    """Without it the simulation finds a run that goes wrong; with it that run is right."""
    seed = SHOWN_BY[rule]
    assert 1 == play(range(seed, seed + 1), without=rule).wrong
    assert 0 == play(range(seed, seed + 1)).wrong


def test_nothing_is_lost_on_a_server(seed: int) -> None:
    """The same protocol and the driver of the product, through a proxy that breaks requests."""
    with served() as port:
        done, proxy = play_over_http(6, port=port, rate=0.15, seed=seed)
    assert done["commit"] > 6
    assert proxy.requests > 100
    assert proxy.faults.total() > 5


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["moto", *KINDS])
def test_nothing_is_lost_on_a_server_in_many_runs(name: str, tmp_path: Path, seed: int) -> None:
    """The same, longer, by each protocol; servers other than moto answer several requests at
    once.
    """
    kind = KINDS.get(name, KINDS["S3"])
    with served() if name == "moto" else kind.server(tmp_path / "server") as port:
        done, proxy = play_over_http(300, port=port, rate=0.15, seed=seed, kind=kind)
    assert done["commit"] > 450
    assert {"lost", "late", "twice", "cut"} <= {kind for kind, _ in proxy.faults}
    assert name != "moto" or "409" in {kind for kind, _ in proxy.faults}


def store() -> Store:
    """One in which nothing fails."""
    return Store(random.Random(0), rate=0)


def commit(there: Store, name: str, *, planned: int = -1) -> int:
    """Append a segment by an operation of this name."""
    operation = Operation(id=name, attempt=0, planned_version=planned, written_ms=0)
    return answered(there, Commit(operation, append(Rules(), operation, [1]), LIMITS).run())


def test_an_operation_is_in_once() -> None:
    """Who is started again gets the version of the first time."""
    there = store()
    assert [0, 1, 0, 1] == [commit(there, name) for name in ("a", "b", "a", "b")]


def test_an_operation_that_is_not_remembered_is_refused() -> None:
    """It may be in, before those that a manifest names."""
    there = store()
    for number in range(MOST_OPERATIONS + 1):
        assert number == commit(there, f"o{number}", planned=number - 1)
    with pytest.raises(Conflict, match="whether it is in is not known any more"):
        commit(there, "o0")
    assert 5 == commit(there, "o5", planned=4)


def test_a_slow_attempt_gives_up() -> None:
    """Before it asks for a version, if the data was written long ago."""
    there = store()
    there.now = LIMITS.deadline_ms + 2
    operation = Operation(id="a", attempt=0, planned_version=-1, written_ms=0)
    slow = Commit(operation, append(Rules(), operation, [1]), LIMITS, started_ms=1)
    with pytest.raises(TooLate):
        answered(there, slow.run())
    assert answered(there, newest()) is None


class Overtaken(Store):
    """One in which another removal ends just before the first version is read."""

    def do(self, request: Request) -> Answer:
        """Carry a request out."""
        if request == Get(manifest_key(0)):
            self.now += LIMITS.age_ms
            answered(self, Collect(LIMITS).run())
        return super().do(request)


def test_a_removal_gives_way_to_another() -> None:
    """It removes nothing if a version vanishes between the list and its reading."""
    there = store()
    assert [0, 1] == [commit(there, name) for name in ("a", "b")]
    there.objects[f"{DATA}left"] = b"", -1
    overtaken = Overtaken(random.Random(0), rate=0, objects=there.objects, now=LIMITS.age_ms)
    assert Collected(data=(), versions=()) == answered(overtaken, Collect(LIMITS).run())
    assert manifest_key(0) not in there.objects


def test_a_damaged_manifest_stops_everything() -> None:
    """Nobody commits after it, or reads the one before in its place."""
    there = store()
    commit(there, "a")
    content, modified = there.objects[manifest_key(0)]
    there.objects[manifest_key(1)] = content[:-3], modified
    with pytest.raises(CorruptLogError):
        commit(there, "b")


def test_other_objects_are_no_manifests() -> None:
    """Whatever somebody puts there."""
    there = store()
    commit(there, "a")
    there.objects["manifest/zz"] = b"", 0
    manifest = answered(there, newest())
    assert 0 == manifest.version
    assert manifest == answered(there, newest(-1))
    assert manifest == replace(manifest)
