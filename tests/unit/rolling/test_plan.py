"""Which broker may be stopped when: worlds in which a claim is false, and why that is seen."""

from __future__ import annotations

from dataclasses import replace

import pytest

from logwright.config.windows import TimeWindow
from logwright.rolling.cluster import voters_of
from logwright.rolling.model import (
    ActiveController,
    ClusterNow,
    Journal,
    PartitionNow,
    Quorum,
    Standing,
    Step,
)
from logwright.rolling.plan import (
    Turn,
    danger_of,
    not_in_sync,
    obstacles_of,
    order_of,
    outside_of_windows,
    resumed,
    standing_of,
    to_elect,
)

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


def partition(number: int, *, leader: int | None = 1, isr: str = "123", **more: object) -> object:
    given = PartitionNow(
        topic="t",
        number=number,
        leader=leader,
        replicas=(1, 2, 3),
        isr=frozenset(map(int, isr)),
        min_isr=2,
        delete_retention_ms=None,
    )
    return replace(given, **more)  # type: ignore[arg-type]  # the fields of a partition


def cluster(*partitions: object, brokers: str = "123") -> ClusterNow:
    return ClusterNow(
        cluster_id="c",
        brokers=frozenset(map(int, brokers)),
        partitions=tuple(partitions),  # type: ignore[arg-type]  # made above
        quorum=Quorum(voters=frozenset({7, 8, 9}), up=frozenset({7, 8, 9})),
    )


def sentences(now: ClusterNow, broker: int = 1, away_ms: int = HOUR_MS) -> list[tuple[str, bool]]:
    obstacles = obstacles_of(now, broker, away_ms=away_ms)
    return [(each.sentence, each.passes) for each in obstacles]


def test_a_healthy_cluster_lets_each_broker_stop() -> None:
    """Three replicas in sync are one more than two."""
    assert [[], [], []] == [sentences(cluster(partition(0)), broker) for broker in (1, 2, 3)]


def test_too_few_in_sync_refuses() -> None:
    """Without the broker an ISR of two is one, less than min.insync.replicas: waiting can help."""
    now = cluster(partition(0, isr="12"), partition(1))
    assert [
        ("t-0 would go below min.insync.replicas", True),
        ("t-0 has a replica that is not in sync", True),
    ] == sentences(now)


def test_a_replica_out_of_sync_takes_nothing_from_an_isr() -> None:
    """Broker 3 is not in the ISR: stopping it leaves two, but it still has to catch up first."""
    expected = [("t-0 has a replica that is not in sync", True)]
    assert expected == sentences(cluster(partition(0, isr="12")), broker=3)


def test_too_few_replicas_never_pass() -> None:
    """A partition with as many replicas as min.insync.replicas refuses, whatever is waited for."""
    alone = partition(0, replicas=(1,), isr="1", min_isr=1)
    pair = partition(1, replicas=(1, 2), isr="12")
    expected = [("t-0, t-1 has too few replicas for its min.insync.replicas", False)]
    assert expected == sentences(cluster(alone, pair))
    assert [] == sentences(cluster(alone), broker=2)


def test_only_one_broker_is_away() -> None:
    """Another broker that has replicas and is not in the cluster must come back first."""
    now = cluster(partition(0, min_isr=1), brokers="12")
    assert [("broker 3 is away", True)] == sentences(now)
    elsewhere = cluster(partition(0, min_isr=1, replicas=(1, 2), isr="12"), brokers="12")
    assert [] == sentences(elsewhere)


def test_a_broker_of_the_file_without_replicas_is_away_too() -> None:
    """It may be a voter, and it is one of those that are maintained one at a time."""
    now = cluster(partition(0, min_isr=1, replicas=(1, 2), isr="12"), brokers="12")
    obstacles = obstacles_of(now, 2, away_ms=HOUR_MS, known=(1, 2, 3))
    assert [("broker 3 is away", True)] == [(each.sentence, each.passes) for each in obstacles]


def test_a_majority_of_the_voters_stays() -> None:
    """Node 3 votes, has no replica and is down: without 2 nobody could be elected."""
    elsewhere = cluster(partition(0, min_isr=1, replicas=(1, 2), isr="12"), brokers="12")
    three = frozenset({1, 2, 3})
    now = replace(elsewhere, quorum=Quorum(voters=three, up=frozenset({1, 2})))
    assert [("1 of 3 voters of the controllers would be up", True)] == sentences(now, 2)
    assert "1 of 3 voters of the controllers are up" == danger_of(
        replace(now, brokers=frozenset({1}), quorum=Quorum(voters=three, up=frozenset({1}))), 2
    )
    whole = replace(now, quorum=Quorum(voters=three, up=three))
    assert [] == sentences(whole, 2)
    assert danger_of(whole, 2) is None
    no_voter = replace(now, quorum=Quorum(voters=frozenset({7, 8, 9}), up=frozenset({7})))
    assert [] == sentences(no_voter, 2)


def test_a_quorum_of_two_never_passes() -> None:
    """Without either of them the other one is not a majority."""
    two = frozenset({1, 2})
    now = replace(cluster(partition(0)), quorum=Quorum(voters=two, up=two))
    assert [("1 of 2 voters of the controllers would be up", False)] == sentences(now, 2)
    assert [] == sentences(now, 3)


def test_voters_that_are_not_known_are_not_counted_in_silence() -> None:
    """The order says so; nothing is refused for it."""
    unknown = replace(cluster(partition(0)), quorum=Quorum())
    order = order_of(
        unknown, (1, 2, 3), Journal(), away_ms=HOUR_MS, controller=ActiveController(node=1)
    )
    assert order.about_controller.endswith("The controllers' voters are not known, and not counted")
    assert [] == sentences(unknown)


def test_the_setting_of_the_voters() -> None:
    """As Kafka writes it; empty where the quorum is dynamic."""
    assert {} == voters_of("")
    expected = {1: ("a.example", 9093), 20: ("::1", 9094)}
    assert expected == voters_of("1@a.example:9093, 20@[::1]:9094")


def test_an_unknown_broker_is_not_stopped() -> None:
    """A broker that is not in the cluster without an interrupted run that stopped it."""
    assert [("broker 4 is not in the cluster", True)] == sentences(cluster(partition(0)), broker=4)


@pytest.mark.parametrize(("retention_ms", "refused"), [(HOUR_MS, True), (HOUR_MS + 1, False)])
def test_away_for_less_than_tombstones_stay(retention_ms: int, refused: bool) -> None:
    """The other cleaners remove a tombstone no sooner than delete.retention.ms."""
    now = cluster(partition(0, delete_retention_ms=retention_ms))
    text = "delete.retention.ms of t-0 is not longer than the 1 h that a broker may be away by the"
    assert ([(f"{text} limits", False)] if refused else []) == sentences(now)


def test_many_partitions_are_counted() -> None:
    """A reason names three, and how many more there are."""
    now = cluster(*(partition(number, isr="12") for number in range(5)))
    assert "t-0, t-1, t-2 and 2 more would go below min.insync.replicas" == sentences(now)[0][0]


NOT_KNOWN = ActiveController(problem="nobody says it")


def turns_of(
    now: ClusterNow, journal: Journal, controller: ActiveController = NOT_KNOWN
) -> tuple[Turn, ...]:
    return order_of(now, (1, 2, 3), journal, away_ms=HOUR_MS, controller=controller).turns


def test_the_order_and_its_reasons() -> None:
    """First the broker that a run left in the middle, then those that lead the least; not those
    that are done.
    """
    now = cluster(partition(0), partition(1), partition(2, leader=2))
    turns = turns_of(now, Journal())
    assert [
        (3, "leads 0 of 3 partitions"),
        (2, "leads 1 of 3 partitions"),
        (1, "leads 2 of 3 partitions"),
    ] == [(turn.broker, turn.reason) for turn in turns]
    journal = Journal(done=(3,), broker=1, step="maintain")
    turns = turns_of(now, journal)
    assert [1, 2] == [turn.broker for turn in turns]
    assert "an interrupted run was at its step maintain" == turns[0].reason


def test_the_active_controller_goes_last() -> None:
    """Although it leads the fewest; but a broker that a run left in the middle goes first."""
    now = cluster(partition(0), partition(1), partition(2, leader=2))
    turns = turns_of(now, Journal(), ActiveController(node=3))
    assert [2, 1, 3] == [turn.broker for turn in turns]
    assert "leads 0 of 3 partitions; last, as it is the active controller" == turns[-1].reason
    turns = turns_of(now, Journal(broker=3, step="stop"), ActiveController(node=3))
    assert [3, 2, 1] == [turn.broker for turn in turns]
    assert "an interrupted run was at its step stop" == turns[0].reason


@pytest.mark.parametrize(
    ("controller", "expected"),
    [
        (ActiveController(node=2), "The active controller is broker 2"),
        (ActiveController(node=9), "The active controller is node 9, which is not maintained"),
        (NOT_KNOWN, "The active controller is not known, and may not go last: nobody says it"),
    ],
)
def test_what_is_said_of_the_controller(controller: ActiveController, expected: str) -> None:
    """Where it is known, and where not, why."""
    order = order_of(
        cluster(partition(0)), (1, 2), Journal(), away_ms=HOUR_MS, controller=controller
    )
    assert (controller, expected) == (order.controller, order.about_controller)


def test_how_a_broker_stands() -> None:
    """Its replicas, how many are in sync, how many it leads; what is below min ISR anywhere."""
    now = cluster(partition(0), partition(1, isr="23", leader=2), partition(2, isr="1"))
    expected = Standing(brokers=(1, 2, 3), replicas=3, in_sync=2, leads=2, below_min_isr=1)
    assert expected == standing_of(now, 1)


@pytest.mark.parametrize(
    ("step", "alive", "expected"),
    [
        ("stop", "123", "check"),  # it was never stopped, or came back
        ("maintain", "123", "check"),
        ("start", "123", "verify"),
        ("verify", "123", "verify"),
        ("stop", "23", "maintain"),  # its lock is waited for
        ("maintain", "23", "maintain"),
        ("start", "23", "start"),  # it may be coming
        ("verify", "23", "start"),
        ("maintain", "2", "start"),  # another one is away too
    ],
)
def test_facts_decide_where_a_run_continues(step: Step, alive: str, expected: str) -> None:
    """A broker skips its check or its maintenance only if it was being started after them."""
    now = cluster(partition(0), brokers=alive)
    assert expected == resumed(step, now, 1, others={2, 3})


def test_back_means_in_every_isr() -> None:
    """In the cluster is not enough."""
    now = cluster(partition(0, isr="23"), partition(1))
    assert "broker 1 is not in the ISR of t-0" == not_in_sync(now, 1)
    assert not_in_sync(now, 2) is None
    assert "broker 4 is not in the cluster" == not_in_sync(now, 4)


def test_preferred_leaders_are_elected() -> None:
    """Only of the partitions whose first replica the broker is."""
    now = cluster(partition(0, leader=2), partition(1), partition(2, replicas=(2, 1, 3), leader=3))
    assert ["t-0"] == [each.name for each in to_elect(now, 1)]
    assert ["t-2"] == [each.name for each in to_elect(now, 2)]


def test_no_broker_is_stopped_outside_of_windows() -> None:
    """The next opening is in the reason; without windows it is always open."""
    night = TimeWindow(days=frozenset(range(7)), start=60, end=120)
    assert outside_of_windows([night], "UTC", HOUR_MS) is None
    assert outside_of_windows([], "UTC", 0) is None
    closed = outside_of_windows([night], "UTC", 2 * HOUR_MS)
    assert closed is not None
    assert "it is outside of the windows; one opens at 1970-01-02 01:00:00Z" == closed.sentence


@pytest.mark.parametrize(
    ("isr", "brokers", "danger"),
    [
        ("23", "23", None),
        ("2", "23", "t-0 is below min.insync.replicas"),
        ("23", "2", "broker 3 is away, too"),
        ("123", "123", None),
    ],
)
def test_what_ends_the_maintenance_of_broker_1(isr: str, brokers: str, danger: str | None) -> None:
    """The cluster cannot keep a promise that it kept without this broker."""
    others = partition(1, leader=2, isr="2", replicas=(2, 3))
    assert danger == danger_of(cluster(partition(0, leader=2, isr=isr), others, brokers=brokers), 1)
