"""Runs histories in one process."""

from __future__ import annotations

import logging
import tempfile
import traceback
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.evolution.avro_official import AvroOfficial
from tests.evolution.draw import history_of
from tests.evolution.java_avro import JavaAvro
from tests.evolution.judge import Difference, Figures, judged
from tests.evolution.tables import fast_protoc


def run_share(first: int, count: int, *, kind: str | None, java: bool = False) -> Figures:
    """Some of them, in a process of their own. Effects: a temporary directory, and a process of
    Java that reads all of Avro as well.
    """
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack, quiet():
        AvroOfficial.java = stack.enter_context(JavaAvro()) if java else None
        return run_many(range(first, first + count), Path(scratch), kind=kind)


@contextmanager
def quiet() -> Iterator[None]:
    """Without messages: those of refused records are many."""
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


def run_many(seeds: Iterable[int], scratch: Path, *, kind: str | None = None) -> Figures:
    """All of them. Effects: makes and removes a directory in the scratch."""
    figures = Figures()
    with fast_protoc():
        for seed in seeds:
            name = kind or "any"
            try:
                history = history_of(seed, kind)
                name = history.kind
                for version in (*history.keys, *history.values):
                    figures.changes.update(f"{name} {change}" for change in version.changes)
                wrong = judged(history, scratch / "w", figures)
            except Exception as error:  # noqa: BLE001 -- whatever it is, it is a fault
                last = traceback.extract_tb(error.__traceback__)[-1]
                says = f"{error} ({last.filename.rpartition('/')[2]}:{last.lineno})"
                wrong = [Difference(f"raised {type(error).__name__}", None, says)]
            by_kind = {each.kind: each for each in reversed(wrong)}
            figures.differences += [(seed, name, each) for each in by_kind.values()]
            figures.different += bool(wrong)
    return figures
