"""Readers next to a real broker at work: ``python -m tests.live --seconds N --seed S``.

Prints how often each reader read which log, what it refused and began again, and each difference to
what real consumers got, by kind; the exit status is 1 if there is one.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.differential.random_logs import scratch_directory
from tests.live import replicas
from tests.live.driver import Figures, Plan, run
from tests.live.load import TOPICS
from tests.live.readers import NAMES

SOON_SECONDS, LATE_SECONDS = 30.0, 180.0
"""How old a bound may be, and where brokers are ended: one begins with the high watermark that it
had recorded before, and may be away for long on a machine that has much to do.
"""
WRONG = "plain"
"""The reader that has differences."""


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main(arguments: list[str]) -> int:
    """Run it; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.live")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=0, help="of each reader; 0: for all seconds")
    names = [name for name in NAMES if name != WRONG]
    parser.add_argument("--readers", nargs="+", choices=NAMES, default=names)
    parser.add_argument("--topics", nargs="+", default=[topic.name for topic in TOPICS])
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--replicas", action="store_true", help="three brokers, and elections")
    parser.add_argument("--kill-seconds", type=float, default=0.0, help="0: never end the broker")
    parser.add_argument(
        "--together-seconds",
        type=float,
        default=25.0,
        help="how long three brokers run before the next unclean election",
    )
    parser.add_argument("--checkpoint-ms", type=int, default=5000)
    chosen = parser.parse_args(arguments)
    plan = Plan(
        seconds=chosen.seconds,
        seed=chosen.seed,
        names=tuple(chosen.readers),
        topics=tuple(topic for topic in TOPICS if topic.name in chosen.topics),
        processes=chosen.processes,
        kill_seconds=chosen.kill_seconds,
        together_seconds=chosen.together_seconds,
        checkpoint_ms=chosen.checkpoint_ms,
        late_seconds=LATE_SECONDS if chosen.kill_seconds else SOON_SECONDS,
        rounds=chosen.rounds,
        say=_say,
    )
    with scratch_directory() as scratch:
        figures = (replicas.run if chosen.replicas else run)(plan, Path(scratch))
    report(figures)
    return 1 if figures.wrong else 0


def report(figures: Figures) -> None:
    """Print the figures. Effects: writes to the standard output."""
    rounds, records = figures.rounds.total(), figures.records.total()
    _say(f"{rounds} rounds, {records} records, {len(figures.states)} different states")
    totals = [figures.of_readers(each) for each in (figures.refusals, figures.wrong)]
    for name in sorted({place.rpartition(" ")[0] for place in figures.rounds}):
        own = {place: n for place, n in figures.rounds.items() if place.rpartition(" ")[0] == name}
        read = sum(figures.records[place] for place in own)
        each, cpu = (
            total[name] / sum(own.values()) for total in (figures.seconds, figures.cpu_seconds)
        )
        rounds = f"{sum(own.values())} rounds of {each:.2f} s and {1000 * cpu:.0f} ms CPU"
        _say(f"{name}: {rounds}, {read} rows; {own}")
    for title, total in zip(("refusals", "differences"), totals, strict=True):
        _say(f"{title} by reader: {dict(total)}")
    for title, counted in (
        ("changes", figures.changes),
        ("notes", figures.notes),
        ("refusals", figures.refusals),
        ("not judged", figures.unjudged),
        ("differences, rounds", figures.wrong),
    ):
        _say(
            f"{title}: "
            + ("\n  ".join(["", *(f"{n} {name}" for name, n in counted.most_common())]) or "0")
        )
    for first in figures.shown:
        _say(f"  ! {first}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
