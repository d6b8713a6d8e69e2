"""Asks Kafka's loader what it sees in many states of a log directory, in one JVM
(judge/LogStates.java), after a clean stop, after an unclean one, and from nothing but the logs.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.crash.power_loss import Tree
from tests.oracle_runner import oracle_jvm_with

SOURCE = Path(__file__).parent / "judge" / "LogStates.java"
RUN_SECONDS = 900


@dataclass(frozen=True, kw_only=True)
class View:
    """What the loader sees of one state in one mode.

    Attributes:
        deleted: the log is one that was deleted; the rest is empty then.
        problems: what is wrong in itself: order, indexes, reads, an exception.
        records: offset to a digest, from the log start offset on.
        committed: offsets that a consumer with read_committed gets.
    """

    state: str
    mode: str
    deleted: bool
    problems: tuple[str, ...]
    start: int
    end: int
    records: Mapping[int, int]
    committed: tuple[int, ...]
    producers: str
    epochs: tuple[tuple[int, int], ...]


def write_job(work: Path, case: Path, states: Sequence[tuple[str, Tree]]) -> None:
    """Lay out the states of one operation.

    Args:
        work: its directory, which must not exist.
        case: a directory with case.json, and in before/ and after/ any log of that topic.
        states: (label, content of the log directory).
    """
    work.mkdir(parents=True)
    for number, (_, tree) in enumerate(states):
        for name, content in tree.items():
            path = work / f"s{number}" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    labels = {f"s{number}": label for number, (label, _) in enumerate(states)}
    (work / "labels.json").write_text(json.dumps(labels))
    (work / "job.json").write_text(json.dumps({"case": str(case), "states": list(labels)}))


def make_case(directory: Path, described: Mapping[str, Any], log_dir: Path) -> Path:
    """The case that a job needs: settings and clock, and a log to begin with."""
    directory.mkdir(parents=True)
    wanted = ("topic", "partition", "topicConfig", "now", "producerIdExpirationMs")
    (directory / "case.json").write_text(json.dumps({name: described[name] for name in wanted}))
    for side in ("before", "after"):
        shutil.copytree(log_dir, directory / side)
    return directory


def look(jobs: Sequence[Path]) -> dict[str, list[View]]:
    """The views of each job, by its directory's name, in the order of its states."""
    command = [
        *oracle_jvm_with([SOURCE]),
        "oracle.LogStates",
        *map(str, jobs),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_SECONDS, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    views: dict[str, list[View]] = {job.name: [] for job in jobs}
    labels = {job.name: json.loads((job / "labels.json").read_text()) for job in jobs}
    for line in done.stdout.splitlines():
        answer = json.loads(line)
        views[answer["job"]].append(_view(answer, labels[answer["job"]][answer["state"]]))
    return views


def _view(answer: dict[str, Any], label: str) -> View:
    exception = answer.get("exception")
    epochs = answer.get("epochs", "").splitlines()[2:]
    return View(
        state=label,
        mode=answer["mode"],
        deleted=answer.get("deleted", False),
        problems=(*answer.get("problems", ()), *((exception,) if exception else ())),
        start=answer.get("start", 0),
        end=answer.get("end", 0),
        records={int(offset): digest for offset, digest in answer.get("records", {}).items()},
        committed=tuple(answer.get("committed", ())),
        producers=answer.get("producers", ""),
        epochs=tuple((int(a), int(b)) for a, b in (line.split() for line in epochs)),
    )
