"""The commit protocol through a proxy that breaks requests, on a real server.

python -m tests.bucket.over_http --count 1000 [--kind Azure] [--rate 0.15]

Without a kind the server is moto, in this process; `tests.bucket.kinds` has the others.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Final
from unittest.mock import patch

from logwright.bucket.commit import Commit, Conflict, Limits, Operation, newest
from logwright.bucket.driver import drive
from logwright.bucket.store import Bucket
from logwright.units import DurationMs
from tests.bucket.kinds import KINDS, Kind
from tests.bucket.proxy import LIFE_SECONDS, Proxy, proxied
from tests.bucket.servers import served
from tests.bucket.simulation import Rules, append, compact

_RULES: Final = Rules()
_LIMITS: Final = Limits(
    deadline_ms=DurationMs(60_000), age_ms=DurationMs(600_000), kept_versions=10
)


class Wrong(Exception):
    """A run lost something, or did it twice."""


def run(number: int, *, root: str) -> Counter[str]:
    """Two writers at once, each two appends and a compaction; then compare.

    Raises:
        Wrong: what is there is not what was acknowledged.
    """
    directory = Bucket.of(f"{root}/r{number}")
    acknowledged: dict[str, list[int]] = {}
    done: Counter[str] = Counter()
    turn = Lock()

    def writer(which: int) -> None:
        draw = random.Random(number * 2 + which)
        for count in range(3):
            name = f"w{which}o{count}"
            mine = [which * 100 + count * 10 + each for each in range(3)] if count < 2 else []
            base = drive(directory, newest())
            planned = -1 if base is None else base.version
            operation = Operation(id=name, attempt=0, planned_version=planned, written_ms=0)
            change = append(_RULES, operation, mine)
            if not mine:
                change = compact(_RULES, operation, draw.randrange)
            try:
                drive(directory, Commit(operation, change, _LIMITS).run())
            except Conflict:
                with turn:
                    done["conflict"] += 1
                continue
            with turn:
                done["commit"] += 1
                acknowledged[name] = mine

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(writer, range(2)))
    time.sleep(LIFE_SECONDS * 1.1)
    manifest = drive(directory, newest())
    there: Counter[int] = Counter()
    for segment in () if manifest is None else manifest.state.segments:
        there.update(json.loads(directory.content(segment.log.key, 1 << 20)))
    wrong = [name for name, mine in acknowledged.items() if any(there[each] != 1 for each in mine)]
    versions = 0 if manifest is None else manifest.version + 1
    if wrong or versions != done["commit"]:
        raise Wrong(f"run {number}: {wrong}; {versions} versions, {done['commit']} commits")
    return done


def play(
    count: int, *, port: int, rate: float, seed: int, kind: Kind = KINDS["S3"]
) -> tuple[Counter[str], Proxy]:
    """Play some runs through a proxy in front of a port.

    Raises:
        Wrong: see `run`.
    """
    root = f"{kind.root}/{time.time_ns()}"
    with (
        proxied(port, rate=rate, seed=seed, translate=kind.translate) as proxy,
        patch.dict(os.environ, kind.environment(proxy.port)),
        ThreadPoolExecutor(12) as pool,
    ):
        parts = list(pool.map(partial(run, root=root), range(seed, seed + count)))
    return sum(parts, Counter()), proxy


def main() -> None:
    """Print what the runs showed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rate", type=float, default=0.15)
    parser.add_argument("--kind", choices=KINDS)
    options = parser.parse_args()
    kind = KINDS[options.kind or "S3"]
    began = time.monotonic()
    with ExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = kind.server(work / "server") if options.kind else served()
        done, proxy = play(
            options.count,
            port=stack.enter_context(server),
            rate=options.rate,
            seed=options.seed,
            kind=kind,
        )
    sys.stdout.write(
        f"{options.count} runs, 0 wrong; {dict(done)}; {proxy.requests} requests,"
        f" {sum(proxy.faults.values())} faults; {time.monotonic() - began:.0f} s\n"
        f"{dict(proxy.faults)}\n"
    )


if __name__ == "__main__":
    main()
