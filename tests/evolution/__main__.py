"""Many histories on all cores: ``python -m tests.evolution --count N [--seed S]``.

Prints how many, how long, what happened, and the seeds that differ by kind; the exit status is 1 if
there is one. ``--show SEED`` prints a history that differs, with the fewest records that show it.
With ``--java`` Avro's own library for Java reads all data of Avro as well.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

from tests.evolution.draw import KINDS, history_of
from tests.evolution.history import History
from tests.evolution.judge import Difference, Figures, judged, smallest
from tests.evolution.run import run_share
from tests.evolution.tables import fast_protoc, places

CHUNK = 50
_SEEDS = 12
_SHOWN = 400


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _chunks(seed: int, count: int) -> Iterator[tuple[int, int]]:
    for first in range(seed, seed + count, CHUNK):
        yield first, min(CHUNK, seed + count - first)


def _report(total: Figures, seconds: float) -> None:
    _say(
        f"{total.histories} histories in {seconds:.0f} s: {total.updates} updates,"
        f" {total.records} records judged; histories with a difference: {total.different}"
    )
    for title, counts in (
        ("counts", total.counts),
        ("refusals", total.refusals),
        ("changes", total.changes),
    ):
        _say(f"{title}: " + ", ".join(f"{name} {n}" for name, n in counts.most_common()))
    by_kind: dict[str, list[tuple[int, Difference]]] = defaultdict(list)
    for seed, kind, each in total.differences:
        by_kind[f"{kind}: {each.kind}"].append((seed, each))
    for kind, differing in sorted(by_kind.items(), key=lambda each: -len(each[1])):
        seeds = ", ".join(str(seed) for seed, _ in differing[:_SEEDS])
        _say(f"{len(differing)} {kind}; seeds {seeds}")
        changes = Counter(
            each.changes[0] for _, each in differing if len(each.changes) == 1
        ).most_common(8)
        _say(f"    after one change: {', '.join(f'{name} {n}' for name, n in changes) or '-'}")
        _say(f"    such as {differing[0][1].says[:_SHOWN]}")


def _show(seed: int, kind: str | None) -> int:
    history = history_of(seed, kind)
    with tempfile.TemporaryDirectory() as scratch, fast_protoc():
        root = Path(scratch) / "w"
        wrong = judged(history, root, Figures())
        if not wrong:
            _say("nothing differs")
            return 0
        history = smallest(history, root, wrong[0])
        wrong = judged(history, root, Figures())
    _show_history(history)
    for each in wrong:
        _say(f"{each.kind}, at {each.where}: {each.says}")
    return 1


def _show_history(history: History) -> None:
    _say(f"seed {history.seed}, {history.kind}, {history.mode}, {history.form}")
    used = {each.value.number for each in history.entries if each.value is not None}
    used |= {each.key.number for each in history.entries if not isinstance(each.key, str)}
    for version in (*history.keys, *history.values):
        if version.number in used:
            _say(f"{version.file} {list(version.changes)}:\n{version.text}")
    _say(f"updates after {list(history.cuts)} records")
    for at, each in zip(places(history.entries), history.entries, strict=True):
        key = each.key if isinstance(each.key, str) else (each.key.number, each.key.datum)
        value = None
        if each.value is not None:
            value = each.value.number, each.value.datum, each.value.content.hex()
        _say(f"{at} key {key} value {value}")


def main(arguments: list[str]) -> int:
    """Run them; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.evolution")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--kind", choices=KINDS)
    parser.add_argument("--java", action="store_true")
    parser.add_argument("--show", type=int)
    chosen = parser.parse_args(arguments)
    if chosen.show is not None:
        return _show(chosen.show, chosen.kind)
    total, start = Figures(), time.monotonic()
    with ProcessPoolExecutor(chosen.processes, mp_context=get_context("spawn")) as pool:
        waiting = [
            pool.submit(run_share, *chunk, kind=chosen.kind, java=chosen.java)
            for chunk in _chunks(chosen.seed, chosen.count)
        ]
        for done in as_completed(waiting):
            figures = done.result()
            for seed, kind, each in figures.differences:
                _say(f"seed {seed}, after {total.histories} histories: {kind}: {each.kind}")
            total.add(figures)
    total.differences.sort(key=lambda each: each[0])
    _report(total, time.monotonic() - start)
    return 1 if total.differences else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
