"""``compare``: Kafka's Cleaner and ours on the same logs, in turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.logs import BenchLog, prepare
from benchmarks.runs import Run, run_kafka, run_ours


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """Median, smallest and largest of the rounds."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Figure:
        """Of one value a round."""
        return cls(median=median(values), low=min(values), high=max(values))


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """The rounds of one log."""

    log: BenchLog
    kafka: tuple[Run, ...]
    ours: tuple[Run, ...]

    def figures(self, value: Callable[[Run], float]) -> tuple[Figure, Figure]:
        """(Kafka's, ours) of one thing that was measured."""
        kafka, ours = ([value(run) for run in runs] for runs in (self.kafka, self.ours))
        return Figure.of(kafka), Figure.of(ours)

    def ratio(self, value: Callable[[Run], float]) -> float:
        """By how many times Kafka's median is larger."""
        kafka, ours = self.figures(value)
        return kafka.median / ours.median


def compare(
    names: Sequence[str], *, scale: float, rounds: int, work: Path, say: Callable[[str], None]
) -> list[Compared]:
    """Clean each log by either cleaner in turn. Effects: writes logs and copies below `work`.

    Args:
        say: called with what is being done.
    """
    results = []
    for name in names:
        log = prepare(name, scale=scale, work=work)
        kafka, ours = [], []
        for number in range(rounds):
            kafka.append(run_kafka(log, work))
            ours.append(run_ours(log, work))
            say(
                f"{name} {number + 1}/{rounds}: CPU s: Kafka {kafka[-1].cpu_seconds:.2f}, "
                f"ours {ours[-1].cpu_seconds:.2f}, built in {ours[-1].build_cpu_seconds:.2f}"
            )
        results.append(Compared(log=log, kafka=tuple(kafka), ours=tuple(ours)))
    return results
