"""A run over brokers: one after another, each from its check to its place in all ISRs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from logwright.rolling.broker import BrokerMaintenance, Maintained, Site
from logwright.rolling.controller import newest_leader
from logwright.rolling.erasing import ClusterErasures
from logwright.rolling.journal import only_run
from logwright.rolling.model import ActiveController, Journal, Step
from logwright.rolling.plan import Order, order_of


def plan(site: Site, brokers: Collection[int]) -> Order:
    """Return the order of the brokers, the reasons, and what keeps each from being stopped now.
    Effects: looks at the cluster; reads the journal, and what the brokers have noted of the quorum.

    Args:
        brokers: the wanted ids; empty for a round over all: a broker that an interrupted round has
            done is left out.

    Raises:
        PolicyError: the file has no such broker.
        LogwrightError: the cluster or the journal cannot be looked at.
    """
    wanted = [site.broker(broker).id for broker in brokers]
    journal = site.journal()
    if wanted:
        journal = replace(journal, done=())
    every = [each.id for each in site.config.brokers]
    return order_of(
        site.admin.look(),
        wanted or every,
        journal,
        away_ms=site.config.limits.away_ms,
        controller=active_controller(site),
        known=every,
    )


def active_controller(site: Site) -> ActiveController:
    """Return the active controller: that of the newest epoch that the nodes of the file have noted.
    Effects: as `BrokerMaintenance.quorum_leader`.
    """
    return newest_leader(
        site.config.brokers, lambda broker: BrokerMaintenance(site, broker.id).quorum_leader()
    )


@contextmanager
def run(site: Site, *, restart: bool = False, wait_seconds: float = 0) -> Iterator[None]:
    """Be the only run. Effects: a lock; with `restart` forgets what a round has done.

    Args:
        wait_seconds: how long another one is waited for: who works step by step (`do_step`) must
            not fail because another run looked between two of them, and was refused.

    Raises:
        PreconditionError: another run is at work.
    """
    with only_run(site.state, wait_seconds=wait_seconds):
        if restart:
            site.note(replace(site.journal(), done=()))
        yield


def roll(
    site: Site, brokers: Collection[int], erasures: ClusterErasures | None = None
) -> Iterator[tuple[int, list[Maintained]]]:
    """Maintain brokers one after another, inside of `run`; yield each with what was done. Effects:
    those of `BrokerMaintenance`, and of `ClusterErasures.produce` before the first one is stopped.

    Args:
        brokers: as for `plan`.
        erasures: of these brokers; if not given, they are made.

    Raises:
        LogwrightError: why the run ended; the broker that it was at is started.
    """
    own = erasures or ClusterErasures(site, brokers)
    for turn in plan(site, brokers).turns:
        yield turn.broker, maintain_broker(site, turn.broker, own, in_round=not brokers)
    if not brokers:
        site.note(Journal())
    own.produce()  # a run that only ended what an earlier one began has not looked yet


def maintain_broker(
    site: Site, broker: int, erasures: ClusterErasures, *, in_round: bool
) -> list[Maintained]:
    """Maintain one broker; see `roll`."""
    work = BrokerMaintenance(site, broker)
    step = work.first_step()
    if step == "start" and not work.maintained:
        work.bring_back()
        step = "check"
    done: list[Maintained] = []
    if step == "check":
        _check(work, erasures)
    with work.brought_back():
        if step == "check":
            work.stop()
        else:
            _check_again(work, erasures, step)
        if step in {"check", "maintain"}:
            done = work.maintain()
        if step != "verify":
            work.start()
    work.verify()
    work.finish(in_round=in_round)
    return done


def _check(work: BrokerMaintenance, erasures: ClusterErasures) -> None:
    """See that a broker can be stopped, and produce the tombstones of this run; that takes time, so
    that it is seen again. A follower learns that they are committed later than their producer does.
    Effects and errors: as `BrokerMaintenance.check`, `ClusterErasures.produce` and
    `BrokerMaintenance.has_on_record`.
    """
    work.check()
    if erasures.produce():
        work.check()
    if not work.has_on_record(erasures.reached):
        erasures.complete = False


def _check_again(work: BrokerMaintenance, erasures: ClusterErasures, at: Step) -> None:
    """See if a broker that an interrupted run has stopped can count the tombstones: it has not
    those that are produced now, and what it counted in a maintenance that has ended is not known.
    Effects and errors: as `_check`, without a wait.

    Args:
        at: the step with which its maintenance continues.
    """
    if not erasures.commands:
        return
    if at == "maintain":
        erasures.produce()
        counts = work.has_on_record(erasures.reached, wait_ms=0)
    else:
        work.site.say(
            f"broker {work.id}: an interrupted run has maintained it: it is not known whether it"
            " counted all tombstones"
        )
        counts = False
    erasures.complete &= counts


_EXPECTED: Final[Mapping[Step, tuple[Step, ...]]] = {
    "check": (),
    "stop": (),
    "maintain": ("maintain",),
    "start": ("maintain", "start"),
    "verify": ("verify",),
}
"""Where the maintenance is when a step is done after the one before it."""


def do_step(
    work: BrokerMaintenance, step: Step, erasures: ClusterErasures, *, checked: bool
) -> list[Maintained]:
    """Do one step of a broker's maintenance, inside of `run`, and before it what has to be done
    again: a run can be executed again from any step, on a broker that was brought back meanwhile.
    Effects and errors: those of the steps; a failed one ends with the broker started.

    Args:
        work: of the broker.
        step: the wanted one.
        checked: this run has checked the broker.
        erasures: of the broker; the check produces their tombstones.

    Returns:
        what was done to its log directories.
    """
    at = work.first_step(_EXPECTED[step])
    if at == "start" and step in {"stop", "maintain"}:
        work.bring_back()
        at, checked = "check", False
    if at == "check" and (step == "check" or (step in {"stop", "maintain"} and not checked)):
        _check(work, erasures)
    done: list[Maintained] = []
    with work.brought_back():
        again = step == "check" or (step == "maintain" and not checked)
        if again and at in {"maintain", "verify"}:  # at start it is brought back, and checked
            _check_again(work, erasures, at)
        if at == "check" and step in {"stop", "maintain"}:
            work.stop()
        if at in {"check", "maintain"} and step == "maintain":
            done = work.maintain()
        if at in {"maintain", "start"} and step in {"start", "verify"}:
            work.start()
    if step == "verify":
        work.verify()
        work.finish(in_round=False)
    return done
