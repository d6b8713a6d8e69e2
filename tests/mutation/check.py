"""Do the tests notice? Plants each fault of faults.py in a copy of the package, and runs them.

    python -m tests.mutation.check            # all; a minute where kernels are compiled again
    python -m tests.mutation.check horizon    # those whose family has the word
    python -m tests.mutation.check --whole    # by all cases, also those that wait for the night
    python -m tests.mutation.check --at-once 4   # in four copies, side by side
    python -m tests.mutation.check --passed   # the tests passed just now, without a fault

Without `--whole` the tests of the day run, of those that rotate a day's share and what the fault's
own file touches, as for any change.
Prints a table of faults and the tests that caught them; the exit status is 1 if one was not caught.
The working tree is only read.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

from tests.mutation.fault import Fault
from tests.mutation.faults import FAULTS

ROOT = Path(__file__).parents[2]
RUN_SECONDS = 1200
CAUGHT = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)
SHARED = ("tests/oracle/target", "tests/oracle/target-4.4", ".pytest_cache/logwright")
"""What costs much to make and is the same for all."""
DAY, WHOLE = ("-m", "not nightly"), ("--whole",)
"""Options of pytest: what runs for each change, and all."""
FIRST_WORKER, LAST_WORKER = 5, 9
"""The workers of pytest that the copies take themselves for, each with ports of its own. Lower
ones are for another run at the same time.
"""


@dataclass(frozen=True, kw_only=True)
class Copy:
    """A copy of the package in which one fault after the other is planted.

    Attributes:
        root: its directory.
        kernels: where compiled kernels are kept: a fault that changes none of them finds them.
        worker: the worker of pytest that its tests take themselves for.
        options: further ones of pytest.
    """

    root: Path
    kernels: Path
    worker: int
    options: tuple[str, ...]


def copy_tree(root: Path) -> None:
    """What the tests need, below `root`. Effects: writes it."""
    ignored = shutil.ignore_patterns("target", "target-*", "__pycache__")
    shutil.copytree(ROOT / "logwright", root / "logwright", symlinks=True, ignore=ignored)
    for name in ("assets", "dbt_like_configs", "docs", "pipelines", "resources", "tests"):
        shutil.copytree(ROOT / name, root / name, ignore=ignored)
    shutil.copy2(ROOT / "pyproject.toml", root)
    for name in SHARED:
        if (ROOT / name).exists():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).symlink_to(ROOT / name)
    git = shutil.which("git") or "git"
    identity = ("-c", "user.name=Nobody", "-c", "user.email=nobody@example.org")
    for words in (("init", "-q"), ("add", "logwright"), ("commit", "-q", "-m", "No fault")):
        subprocess.run((git, *identity, *words), cwd=root, check=True)


@contextmanager
def planted(fault: Fault | None, root: Path) -> Iterator[None]:
    """Change one place of the copy during the block. Effects: writes one of its files, and what was
    there again, with its time: compiled kernels know their source by that.

    Raises:
        LookupError: what is to be changed does not stand there any more.
    """
    if fault is None:
        yield
        return
    path = root / "logwright" / fault.file
    text, stamp = path.read_text(), path.stat()
    if fault.right not in text:
        raise LookupError(f"{fault.file} has no {fault.right!r}")
    path.write_text(text.replace(fault.right, fault.wrong, 1))
    try:
        yield
    finally:
        path.write_text(text)
        os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))


def first_failure(tests: tuple[str, ...], copy: Copy) -> str | None:
    """The first of the tests that fails in a copy; None if all pass. Effects: runs them."""
    quiet = ("-x", "-q", "-p", "no:cacheprovider", "--since", "HEAD")
    command = [sys.executable, "-m", "pytest", *quiet, *copy.options, *tests]
    temporary = copy.root.with_name(f"{copy.root.name}-temporary")
    temporary.mkdir(exist_ok=True)  # pytest removes what others have left in a common one
    places = {
        "PYTHONPATH": str(copy.root),
        "NUMBA_CACHE_DIR": str(copy.kernels),
        "PYTEST_DEBUG_TEMPROOT": str(temporary),
    }
    environment = {**os.environ, **places, "PYTEST_XDIST_WORKER": f"gw{copy.worker}"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # what is compiled serves the next run
    done = subprocess.run(
        command,
        cwd=copy.root,
        env=environment,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )
    if done.returncode == 0:
        return None
    matched = CAUGHT.search(done.stdout)
    if matched is None:
        raise RuntimeError(f"the tests did not run:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return matched[1]


def try_one(fault: Fault, copies: SimpleQueue[Copy]) -> tuple[str | None, float]:
    """The first test that notices a fault, None if none does, and the seconds that it took.
    Effects: takes a copy that is free, runs the fault's tests there.
    """
    copy = copies.get()
    started = time.monotonic()
    try:
        with planted(fault, copy.root):
            caught_by = first_failure(fault.tests, copy)
        return caught_by and caught_by.removeprefix("tests/"), time.monotonic() - started
    finally:
        copies.put(copy)


def say(*columns: str) -> None:
    """A line of the table. Effects: prints it at once."""
    sys.stdout.write(" | ".join(columns) + "\n")
    sys.stdout.flush()


def main(words: list[str]) -> int:
    """Try the faults whose family has all the words; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation.check")
    parser.add_argument("words", nargs="*")
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--passed", action="store_true")
    parser.add_argument(
        "--at-once", type=int, default=1, choices=range(1, LAST_WORKER - FIRST_WORKER + 2)
    )
    chosen = parser.parse_args(words)
    faults = [fault for fault in FAULTS if all(word in fault.family for word in chosen.words)]
    options = WHOLE if chosen.whole else DAY
    with tempfile.TemporaryDirectory() as scratch:
        copies = make_copies(Path(scratch), chosen.at_once, options)
        return try_all(faults, copies, passed=chosen.passed)


def make_copies(scratch: Path, count: int, options: tuple[str, ...]) -> list[Copy]:
    """Copies of the package in an empty directory. Effects: writes them."""
    copies = [
        Copy(
            root=scratch / f"copy-{number}",
            kernels=scratch / f"kernels-{number}",
            worker=FIRST_WORKER + number,
            options=options,
        )
        for number in range(count)
    ]
    for copy in copies:
        copy_tree(copy.root)
    return copies


def try_all(faults: Sequence[Fault], copies: Sequence[Copy], *, passed: bool = False) -> int:
    """Try these faults; the exit status. Effects: runs their tests in the copies, as many at once
    as there are copies; prints the table.

    `passed`: do not run all of the tests without a fault first.
    """
    everything = tuple(dict.fromkeys(test for fault in faults for test in fault.tests))
    failing = None if passed or not faults else first_failure(everything, copies[0])
    if failing is not None or not faults:
        say(
            "nothing can be said",
            f"without a fault fails {failing}" if failing else "no such fault",
        )
        return 1
    free: SimpleQueue[Copy] = SimpleQueue()
    for copy in copies:
        free.put(copy)
    missed = 0
    with ThreadPoolExecutor(len(copies)) as pool:
        tried = {pool.submit(try_one, fault, free): fault for fault in faults}
        for done in as_completed(tried):
            verdict, seconds = done.result()
            missed += verdict is None
            say(tried[done].family, verdict or "NOT CAUGHT", f"{seconds:.0f} s")
    say(f"{len(faults) - missed} of {len(faults)} caught")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
