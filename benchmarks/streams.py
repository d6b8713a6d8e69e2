"""``streams``: all of a topic as a stream, by Spark's Kafka source from a live broker, by ours from
the files that the same broker has open, and by a source that reads nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

from benchmarks.live import Live, Served, live_broker
from benchmarks.logs import BenchLog, prepare
from benchmarks.runs import measured
from benchmarks.table import seconds, table
from benchmarks.tables import CASES, CPU, PARTITIONS, WALL, ReadCase, Say

KAFKA: Final = "Spark's source"
OURS: Final = "kafka-log"
FLOOR: Final = "reads nothing"
SOURCES: Final = (KAFKA, OURS, FLOOR)


@dataclass(slots=True, kw_only=True)
class StreamCase(ReadCase):
    """Streams of one log, by the source.

    Attributes:
        served: what the broker did in all rounds.
        rows: of one round.
    """

    served: dict[str, Served]
    rows: int

    @classmethod
    def measured(cls, log: BenchLog, live: Live, work: Path, rounds: int) -> StreamCase:
        """Effects: a process with a Spark session.

        Raises:
            RuntimeError: the sources have other numbers of rows.
        """
        done = _worker(log.directory, *live, work, rounds)
        times = {what: [(wall, cpu) for wall, cpu in of] for what, of in done["seconds"].items()}
        rows = set(done["rows"].values())
        if len(rows) != 1:
            message = f"{log.name}: other numbers of rows: {done['rows']}"
            raise RuntimeError(message)
        served = {what: Served(*of) for what, of in done["served"].items()}
        return cls(log=log, seconds=times, served=served, rows=rows.pop())

    def speed(self, source: str) -> str:
        """M rows a second, the median."""
        return f"{self.rows / median(taken[WALL] for taken in self.seconds[source]) / 1e6:.2f}"


def stream_sections(
    *, scale: float, cases: Sequence[str], rounds: int, work: Path, say: Say
) -> str:
    """All tables, as Markdown. Effects: writes logs below `work`; processes, among them a broker.

    Args:
        scale: 1 is a topic with 1 GB of records.
    """
    logs = [prepare(name, scale=scale, work=work, partitions=PARTITIONS) for name in cases]
    streams = []
    with live_broker(logs, work / "live") as live:
        for log in logs:
            streams.append(StreamCase.measured(log, live, work, rounds))
            say(f"{log.name}: {streams[-1].seconds}")
    parts = []
    for measure, name in ((WALL, "Wall seconds"), (CPU, "CPU seconds, the broker's included")):
        parts += [f"{name}:", _times(streams, measure)]
    parts += ["Speed, and what the broker did for its clients in all rounds:", _served(streams)]
    return "\n\n".join(parts)


def _times(cases: Sequence[StreamCase], measure: int) -> str:
    head = ("values", *SOURCES, f"{KAFKA} to {OURS}", f"{KAFKA} to {FLOOR}", f"{OURS} to {FLOOR}")
    pairs = ((KAFKA, OURS), (KAFKA, FLOOR), (OURS, FLOOR))
    rows = [
        [
            CASES[case.log.name],
            *(seconds(case.figure(source, measure)) for source in SOURCES),
            *(case.ratio(*pair, measure) for pair in pairs),
        ]
        for case in cases
    ]
    return table(head, rows)


def _served(cases: Sequence[StreamCase]) -> str:
    head = ["values", "rows", *(f"{source}: M rows/s" for source in SOURCES)]
    for source in (KAFKA, OURS):
        head += [f"{source}: bytes from the broker", "connections"]
    rows = []
    for case in cases:
        row = [CASES[case.log.name], f"{case.rows:,}", *(case.speed(source) for source in SOURCES)]
        for source in (KAFKA, OURS):
            row += [f"{number:,}" for number in case.served[source]]
        rows.append(row)
    return table(head, rows)


def _worker(*arguments: object) -> dict[str, Any]:
    (line,), _, _ = measured(
        [sys.executable, "-m", "benchmarks.streams_worker", *map(str, arguments)]
    )
    return line
