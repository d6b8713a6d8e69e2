"""Do the tests notice? Plants each fault of faults.py in a copy of the package, and runs them.

    python -m tests.mutation.check            # all; a minute where kernels are compiled again
    python -m tests.mutation.check horizon    # those whose family has the word
    python -m tests.mutation.check --whole    # by all cases, also those that wait for the night

Without `--whole` a day's share runs, with what the fault's own file touches, as for any change.
Prints a table of faults and the tests that caught them; the exit status is 1 if one was not caught.
The working tree is only read.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.mutation.fault import Fault
from tests.mutation.faults import FAULTS

ROOT = Path(__file__).parents[2]
RUN_SECONDS = 1200
CAUGHT = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)
SHARED = ("tests/oracle/target", "tests/oracle/target-4.4", ".pytest_cache/logwright")
"""What costs much to make and is the same for all."""


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


def first_failure(
    tests: tuple[str, ...], root: Path, kernels: Path, options: Sequence[str]
) -> str | None:
    """The first of the tests that fails in a copy; None if all pass. Effects: runs them.

    `kernels`: where compiled kernels are kept; a copy that changes none of them finds them there.
    """
    quiet = ("-x", "-q", "-p", "no:cacheprovider", "--since", "HEAD")
    command = [sys.executable, "-m", "pytest", *quiet, *options, *tests]
    environment = {**os.environ, "PYTHONPATH": str(root), "NUMBA_CACHE_DIR": str(kernels)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # what is compiled serves the next run
    done = subprocess.run(
        command,
        cwd=root,
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


def try_one(
    fault: Fault | None,
    chosen: Sequence[Fault],
    root: Path,
    kernels: Path,
    options: Sequence[str] = (),
) -> str | None:
    """The first test that notices a fault in a copy, None if none does. Effects: runs the fault's
    tests; for no fault those of all that were chosen.

    `options`: further ones of pytest.
    """
    everything = tuple(dict.fromkeys(test for each in chosen for test in each.tests))
    with planted(fault, root):
        tests = everything if fault is None else fault.tests
        return first_failure(tests, root, kernels, options)


def say(*columns: str) -> None:
    """A line of the table. Effects: prints it at once."""
    sys.stdout.write(" | ".join(columns) + "\n")
    sys.stdout.flush()


def main(words: list[str]) -> int:
    """Try the faults whose family has all the words; the exit status."""
    options = [word for word in words if word == "--whole"]
    words = [word for word in words if word not in options]
    chosen = [fault for fault in FAULTS if all(word in fault.family for word in words)]
    with tempfile.TemporaryDirectory() as scratch:
        return try_all(chosen, Path(scratch), options)


def try_all(chosen: Sequence[Fault], scratch: Path, options: Sequence[str] = ()) -> int:
    """Try these faults; the exit status. Effects: makes a copy in an empty directory, runs their
    tests, prints the table.
    """
    root, kernels = scratch / "copy", scratch / "kernels"
    copy_tree(root)
    failing = try_one(None, chosen, root, kernels, options)
    if failing is not None or not chosen:
        say(
            "nothing can be said",
            f"without a fault fails {failing}" if failing else "no such fault",
        )
        return 1
    missed = 0
    for fault in chosen:
        started = time.monotonic()
        caught_by = try_one(fault, chosen, root, kernels, options)
        missed += caught_by is None
        verdict = "NOT CAUGHT" if caught_by is None else caught_by.removeprefix("tests/")
        say(fault.family, verdict, f"{time.monotonic() - started:.0f} s")
    say(f"{len(chosen) - missed} of {len(chosen)} caught")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
