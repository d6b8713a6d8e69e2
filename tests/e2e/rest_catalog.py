"""Apache Iceberg's own REST catalog (tests/rest_catalog) as a process of a test."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.oracle_runner import JVM_OPTIONS, classpath_of, java

PROJECT = Path(__file__).parents[1] / "rest_catalog"
STOP_SECONDS = 60


class Served(NamedTuple):
    """A catalog: its address, and what stops it."""

    uri: str
    stop: Callable[[], None]

    @property
    def catalog(self) -> dict[str, str]:
        """Its properties for pyiceberg."""
        return {"type": "rest", "uri": self.uri}


@contextmanager
def served(warehouse: Path, *token: str) -> Iterator[Served]:
    """A catalog whose tables, and their names, are below a directory. Effects: a process.

    Args:
        warehouse: the directory; what an earlier catalog left is there again.
        token: that requests must have, if there is one.
    """
    warehouse.mkdir(exist_ok=True)
    options = (*JVM_OPTIONS, "-Dorg.slf4j.simpleLogger.defaultLogLevel=error")
    words = [java(), *options, "-cp", classpath_of(PROJECT), "rest.Main", str(warehouse), *token]
    output = warehouse.with_name(f"{warehouse.name}.said")
    with (
        output.open("ab") as errors,
        subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
        ) as process,
    ):

        def stop() -> None:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(timeout=STOP_SECONDS)

        try:
            assert process.stdout is not None
            port = process.stdout.readline().strip()
            assert port, output.read_text()
            yield Served(f"http://127.0.0.1:{port}", stop)
        finally:
            stop()
