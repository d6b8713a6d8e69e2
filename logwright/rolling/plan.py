"""What may be done to which broker, when, and why not. Pure.

1. A broker is stopped only if every partition stays at or above ``min.insync.replicas`` without
   it, so that a producer with ``acks=all`` gets no error.
2. No other broker is away, of those that have replicas and those of the file: one at a time.
3. All replicas of the broker's partitions are in sync. So each has every committed tombstone and
   marker, and what a cleaning of this one removes below the high watermark, no other fetches.
   Where a replica may be missing, ``clean --coordinate-with`` decides (docs/adr/0030).
4. A broker is away for less than ``delete.retention.ms`` of each of its compacted topics: the
   others' cleaners run meanwhile, and could remove a tombstone that it never received.
5. It is stopped only within a window.
6. A majority of the controllers' voters stays up: without one no partition gets another leader.
   What becomes untrue of 1, 2 and 6 while a broker is away ends its maintenance (`danger_of`).
7. The active controller goes last: each one that is stopped makes the quorum elect another, which
   may be the next to be stopped.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from logwright.config.windows import TimeWindow, spans
from logwright.rolling.model import (
    ActiveController,
    ClusterNow,
    Journal,
    PartitionNow,
    Standing,
    Step,
)
from logwright.times import duration, instant

_MOST_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """Why a broker is not stopped now.

    Attributes:
        sentence: the reason.
        passes: waiting can help.
    """

    sentence: str
    passes: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A broker's place in the order.

    Attributes:
        broker: its id.
        reason: of the place.
        obstacles: what keeps it from being stopped now.
    """

    broker: int
    reason: str
    obstacles: tuple[Obstacle, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """The brokers that are to be maintained.

    Attributes:
        turns: in their order.
        controller: the active controller when the order was made.
        about_controller: what that means for the order, as a sentence without its full stop.
    """

    turns: tuple[Turn, ...]
    controller: ActiveController
    about_controller: str


def order_of(
    now: ClusterNow,
    brokers: Collection[int],
    journal: Journal,
    *,
    away_ms: int,
    controller: ActiveController,
    known: Collection[int] = (),
) -> Order:
    """Return the brokers that are to be maintained, in their order: the one that a run left in the
    middle, then those that lead the fewest partitions, then the active controller (rule 7).

    Args:
        brokers: the ids of all that are wanted. known: of all in the file.
        away_ms: how long one can be away at most.
    """

    def place(broker: int) -> tuple[bool, bool, int, int]:
        return broker != journal.broker, broker == controller.node, now.led_by(broker), broker

    turns = []
    for broker in sorted(set(brokers) - set(journal.done), key=place):
        if broker == journal.broker:
            reason = f"an interrupted run was at its step {journal.step}"
            obstacles: tuple[Obstacle, ...] = ()
        else:
            reason = f"leads {now.led_by(broker)} of {len(now.of(broker))} partitions"
            if broker == controller.node:
                reason += "; last, as it is the active controller"
            obstacles = obstacles_of(now, broker, away_ms=away_ms, known=known)
        turns.append(Turn(broker=broker, reason=reason, obstacles=obstacles))
    about = _about(controller, brokers)
    if not now.quorum.voters:
        about += ". The controllers' voters are not known, and not counted"
    return Order(turns=tuple(turns), controller=controller, about_controller=about)


def _about(controller: ActiveController, brokers: Collection[int]) -> str:
    if controller.node is None:
        return f"The active controller is not known, and may not go last: {controller.problem}"
    if controller.node not in brokers:
        return f"The active controller is node {controller.node}, which is not maintained"
    return f"The active controller is broker {controller.node}"


def standing_of(now: ClusterNow, broker: int) -> Standing:
    """Return how a broker stands in its cluster."""
    own = now.of(broker)
    return Standing(
        brokers=tuple(sorted(now.brokers)),
        replicas=len(own),
        in_sync=sum(broker in each.isr for each in own),
        leads=now.led_by(broker),
        below_min_isr=len(now.below_min_isr()),
    )


def obstacles_of(
    now: ClusterNow, broker: int, *, away_ms: int, known: Collection[int] = ()
) -> tuple[Obstacle, ...]:
    """Return what keeps a broker from being stopped now, by rules 1 to 4 and 6.

    Args:
        known: the brokers that the cluster should have, with or without replicas.
    """
    if broker not in now.brokers:
        return (Obstacle(sentence=f"broker {broker} is not in the cluster", passes=True),)
    own = now.of(broker)
    assigned = {each for partition in now.partitions for each in partition.replicas}
    away = sorted((assigned | set(known)) - now.brokers)
    never = [each for each in own if not _stays_available(each, each.replicas, broker)]
    below = [
        each for each in own if each not in never and not _stays_available(each, each.isr, broker)
    ]
    lagging = [each for each in own if set(each.replicas) - each.isr]
    short = [
        each
        for each in own
        if each.delete_retention_ms is not None and each.delete_retention_ms <= away_ms
    ]
    away_text = f"the {duration(away_ms)} that a broker may be away by the limits"
    rules: list[tuple[Sequence[object], str, bool]] = [
        (away, f"broker {', '.join(map(str, away))} is away", True),
        (never, f"{_named(never)} has too few replicas for its min.insync.replicas", False),
        (below, f"{_named(below)} would go below min.insync.replicas", True),
        (lagging, f"{_named(lagging)} has a replica that is not in sync", True),
        (short, f"delete.retention.ms of {_named(short)} is not longer than {away_text}", False),
    ]
    minority = now.quorum.without(broker)
    if minority is not None:
        rules.append(((minority,), f"{minority} would be up", now.quorum.can_pass(broker)))
    return tuple(Obstacle(sentence=text, passes=passes) for is_so, text, passes in rules if is_so)


def danger_of(now: ClusterNow, broker: int) -> str | None:
    """Return which of its promises the cluster cannot keep while a broker is away that it should
    have back: rule 1 no longer holds, or 2, or 6. None if it keeps all.
    """
    own = now.of(broker)
    below = [each for each in own if len(each.isr) < each.min_isr]
    if below:
        return f"{_named(below)} is below min.insync.replicas"
    away = sorted({one for each in own for one in each.replicas} - now.brokers - {broker})
    if away:
        return f"broker {', '.join(map(str, away))} is away, too"
    minority = now.quorum.without(broker)
    return None if minority is None else f"{minority} are up"


def _stays_available(partition: PartitionNow, replicas: Iterable[int], broker: int) -> bool:
    """Return whether these replicas are enough without a broker. One that is not in sync takes
    nothing away from an ISR.
    """
    return broker not in set(replicas) or len(set(replicas) - {broker}) >= partition.min_isr


def outside_of_windows(windows: Sequence[TimeWindow], zone: str, now_ms: int) -> Obstacle | None:
    """Return why no broker may be stopped at this time, None if one may (rule 5)."""
    start_ms = next((start for start, _ in spans(windows, zone, now_ms)), None)
    if start_ms is not None and start_ms <= now_ms:
        return None
    opens = "" if start_ms is None else f"; one opens at {instant(start_ms)}"
    return Obstacle(sentence=f"it is outside of the windows{opens}", passes=False)


def resumed(step: Step, now: ClusterNow, broker: int, *, others: Collection[int]) -> Step:
    """Return where the maintenance of a broker continues that was interrupted.

    Args:
        step: the journal's, only a hint: what is so decides.
        others: all other brokers that are maintained.
    """
    if broker in now.brokers:
        return "verify" if step in {"start", "verify"} else "check"
    if set(others) - now.brokers:
        return "start"  # two are away: the sooner it is back the better
    if step in {"start", "verify"}:
        return "start"  # its start hook may still be at work: it would come at any moment
    return "maintain"


def not_in_sync(now: ClusterNow, broker: int) -> str | None:
    """Return why a broker is not back yet, None if it is in every ISR where it should be."""
    if broker not in now.brokers:
        return f"broker {broker} is not in the cluster"
    missing = [each for each in now.of(broker) if broker not in each.isr]
    return f"broker {broker} is not in the ISR of {_named(missing)}" if missing else None


def not_on_record(
    now: ClusterNow, broker: int, on_record: Mapping[str, int], reached: Mapping[str, int]
) -> str | None:
    """Return why a broker's cleaning may not count all records up to some offsets, None if it does.

    Args:
        on_record: its high watermarks on record, by partition.
        reached: the offsets, by partition; those of which it should not have a replica do not
            matter.
    """
    for each in now.of(broker):
        known, wanted = on_record.get(each.name), reached.get(each.name)
        if wanted is not None and (known is None or known < wanted):
            is_known = "is not known" if known is None else f"on record is {known}"
            return (
                f"the high watermark of {each.name} {is_known}, and what a cleaning is to count"
                f" ends at {wanted}"
            )
    return None


def to_elect(now: ClusterNow, broker: int) -> tuple[PartitionNow, ...]:
    """Return the partitions that a broker should lead and does not."""
    return tuple(
        each for each in now.partitions if each.replicas[:1] == (broker,) and each.leader != broker
    )


def _named(partitions: Sequence[PartitionNow]) -> str:
    names = ", ".join(each.name for each in partitions[:_MOST_NAMED])
    more = len(partitions) - _MOST_NAMED
    return f"{names} and {more} more" if more > 0 else names
