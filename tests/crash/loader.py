"""Asks Kafka's loader about many states of a partition in one JVM (judge/StepStates.java).

Each state is opened after a clean stop, after an unclean one, and from nothing but the logs. Judged
is what SwapCheck judges: it opens; log start and end are kept; the latest record of every key is
there; nothing outside old and new content, and all of the new; indexes, reads at offsets,
read_committed reads and producer state are right.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.crash.layouts import Files, Layout
from tests.oracle_runner import oracle_jvm_with

SOURCES = tuple(sorted((Path(__file__).parent / "judge").glob("*.java")))
RUN_SECONDS = 900


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What Kafka's loader made of one state in one mode.

    Attributes:
        problems: SwapCheck's names of what is wrong; none if the state is good.
        old, new: whether the records are exactly those of before, of after.
    """

    state: str
    mode: str
    problems: tuple[str, ...]
    old: bool
    new: bool


def judge_jvm() -> list[str]:
    """Compiles the judges once. Effects: writes the oracle's target."""
    return oracle_jvm_with(SOURCES)


def judge(work: Path, layout: Layout, states: Iterable[tuple[str, Files]]) -> list[Verdict]:
    """Have Kafka's loader judge states of one layout; states with the same files only once.

    Args:
        work: an empty directory.
        layout: whose old and new content the states are between.
        states: (label, plain files of the partition).
    """
    labels: dict[str, str] = {}
    seen: dict[frozenset[tuple[str, bytes]], str] = {}
    for label, files in states:
        identity = frozenset(files.items())
        if identity in seen:
            continue
        name = f"s{len(seen)}"
        seen[identity] = name
        labels[name] = label
        (work / name).mkdir(parents=True)
        for file, data in files.items():
            (work / name / file).write_bytes(data)
    job = {"case": str(layout.root), "base": layout.base, "states": list(labels)}
    (work / "job.json").write_text(json.dumps(job))
    command = [*judge_jvm(), "oracle.StepStates", str(work)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_SECONDS, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    verdicts = [_verdict(json.loads(line), labels) for line in done.stdout.splitlines()]
    assert len(verdicts) == 3 * len(labels)
    return verdicts


def _verdict(line: dict[str, object], labels: dict[str, str]) -> Verdict:
    problems = line["problems"]
    assert isinstance(problems, list)
    problems_of = (*problems, str(line["exception"])) if line["exception"] else tuple(problems)
    return Verdict(
        state=labels[str(line["state"])],
        mode=str(line["mode"]),
        problems=problems_of,
        old=bool(line["old"]),
        new=bool(line["new"]),
    )


def bad(verdicts: Iterable[Verdict]) -> list[str]:
    """The states that are not good, as sentences."""
    return [
        f"{verdict.state} ({verdict.mode}): {', '.join(verdict.problems)}"
        for verdict in verdicts
        if verdict.problems
    ]
