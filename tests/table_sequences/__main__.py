"""Many sequences on all cores: ``python -m tests.table_sequences --count N [--seed S] [--kafka]``.

Prints how many, how long, what happened, and each difference with the shortest sequence that shows
it; the exit status is 1 if there is one. With ``--kafka`` half of the cleanings are by Kafka's own
cleaner, with ``--spark`` Spark writes to tables of Parquet, too, with ``--unique topic`` all tables
have one row of a key in the whole topic, with ``--bucket`` all are of Delta in a bucket, with
``--form`` all are of one format. With ``--engines DIRECTORY`` programs of other environments take
part, see `tests.table_sequences.engines`.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

from tests.table_sequences.driver import Figures, run_share

CHUNK = 20
_FORMS = ["parquet", "delta", "iceberg"]


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _chunks(seed: int, count: int, step: int) -> Iterator[tuple[int, int]]:
    for done in range(0, count, CHUNK):
        yield seed + step * done, min(CHUNK, count - done)


def main(arguments: list[str]) -> int:
    """Run them; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.table_sequences")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--kafka", action="store_true")
    parser.add_argument("--spark", action="store_true")
    parser.add_argument("--bucket", action="store_true")
    parser.add_argument("--engines", type=Path)
    parser.add_argument("--form", choices=_FORMS)
    parser.add_argument("--unique", choices=["partition", "topic"])
    chosen = parser.parse_args(arguments)
    seed, step = chosen.seed, 1
    if chosen.form is not None:  # a seed has the format of its remainder
        seed, step = seed - seed % len(_FORMS) + _FORMS.index(chosen.form), len(_FORMS)
    total, start = Figures(), time.monotonic()
    with ProcessPoolExecutor(chosen.processes, mp_context=get_context("spawn")) as pool:
        waiting = [
            pool.submit(
                run_share,
                *chunk,
                kafka=chosen.kafka,
                spark=chosen.spark,
                unique=chosen.unique,
                bucket=chosen.bucket,
                step=step,
                engine=chosen.engines,
            )
            for chunk in _chunks(seed, chosen.count, step)
        ]
        for done in as_completed(waiting):
            total.add(done.result())
    _say(
        f"{total.sequences} sequences in {time.monotonic() - start:.0f} s: {total.updates} updates,"
        f" {total.killed} killed, {total.by_others} acts of other programs;"
        f" differences: {len(total.differences)}"
    )
    for title, counts in (
        ("acts", total.acts),
        ("refusals", total.refusals),
        ("steps", total.steps),
    ):
        _say(f"{title}: " + ", ".join(f"{name} {n}" for name, n in counts.most_common()))
    return 1 if total.differences else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
