"""Reads tables by many engines: ``python -m tests.table_readers [--keep]``. It prints each cell;
with ``--keep`` result.json and the table of docs/tables.md are written. It downloads about 3 GB.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.table_readers.matrix import keep, run
from tests.table_readers.written import most_groups, written


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main(arguments: list[str]) -> int:
    """Run all; the exit status is 1 if an engine has read wrong rows."""
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        expected, paths = written(root)
        assert min(map(most_groups, paths.values())) > 1
        cells = list(run(root, expected, paths, _say))
    if "--keep" in arguments:
        keep(cells)
    return int(any(one.verdict == "wrong" for one in cells))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
