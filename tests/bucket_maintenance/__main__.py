"""Random logs, changed by random commands here and in a bucket.

python -m tests.bucket_maintenance --count 500 --seed 1

With ``--split`` every log in the bucket is cleaned in parts, with small segments and many shards.
With ``--faults`` requests fail, processes end, and others write between (`sequence`).
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from functools import partial
from pathlib import Path

from logwright.bucket.store import Bucket
from logwright.maintenance.split import run as steps
from tests.bucket_maintenance.copies import (
    T0,
    called,
    differences,
    probed,
    put,
    run,
    secret_in,
)
from tests.bucket_maintenance.random_logs import a_log, arguments
from tests.bucket_maintenance.sequence import play_sequence
from tests.log_builder import START_MS

_COMMANDS = ("roll", "clean", "clean", "retain", "erase")
_SEARCHED = (0, 9)
"""Of an erasure: nothing is left; earlier versions were not searched."""


def erase(log_dir: Path, bucket: Bucket, scratch: Path, draw: random.Random) -> None:
    """Erase some keys here and in the bucket."""
    keys = log_dir.with_name("keys")
    keys.write_text("".join(f"k{draw.randrange(12)}\n" for _ in range(draw.randrange(1, 4))))
    secret = ("--secret", secret_in(log_dir.parent))
    given = ("--keys", keys, *secret, "--now-and-for-good", "--yes", "--now", START_MS)
    for place, more in ((log_dir, ()), (bucket.url, ("--scratch", scratch))):
        done = called("erase", place, *given, *more)
        assert done.exit_code in _SEARCHED, done.output


def play(
    seed: int, root: Path, agreement: bytes, *, split: bool = False
) -> tuple[list[str], Counter[str]]:
    """Return the differences of one log, and what was done."""
    draw = random.Random(seed)
    log_dir, scratch = root / "logs", root / "scratch"
    bucket = Bucket.of(f"file://{root}/bucket")
    a_log(log_dir, draw)
    put(log_dir, bucket, agreement)
    done: Counter[str] = Counter()
    for _ in range(draw.randrange(1, 4)):
        command = draw.choice(_COMMANDS)
        given = arguments(command, draw)
        if command == "erase":
            erase(log_dir, bucket, scratch, draw)
        else:
            more: tuple[str | int, ...] = ()
            if split and command == "clean":
                given += ["--config", f"segment.bytes={draw.choice((14, 300, 1 << 30))}"]
                more = ("--split-bytes", 0)
            run(command, log_dir, *given)
            run(command, bucket.url, *given, "--scratch", scratch, *more)
        done[command] += 1
        faults = differences(log_dir, bucket, scratch, T0)
        if faults:
            return [f"{command}: {each}" for each in faults], done
    left = [each.name for each in scratch.iterdir()] if scratch.is_dir() else []
    return [f"left: {each}" for each in left], done


def main() -> None:
    """Print what all runs showed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--split", action="store_true")
    parser.add_argument("--faults", action="store_true")
    options = parser.parse_args()
    if options.split:
        steps.SHARD_BYTES = 200
    began, differing, done = time.monotonic(), 0, Counter[str]()
    playing = play_sequence if options.faults else partial(play, split=options.split)
    with tempfile.TemporaryDirectory() as scratch:
        agreement = probed(Path(scratch) / "probed")
        for seed in range(options.seed, options.seed + options.count):
            root = Path(scratch) / str(seed)
            root.mkdir()
            faults, commands = playing(seed, root, agreement)
            done += commands
            if faults:
                differing += 1
                sys.stdout.write(f"seed {seed}: {faults}\n")
            shutil.rmtree(root)
    seconds = time.monotonic() - began
    sys.stdout.write(f"{options.count} logs, {dict(done)}, {differing} differ, {seconds:.0f} s\n")
    sys.exit(bool(differing))


if __name__ == "__main__":
    main()
