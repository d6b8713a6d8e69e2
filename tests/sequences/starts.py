"""Whether a broker starts, in sequences: doctor and Kafka's own loading of a copy agree, and doctor
changes nothing.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.e2e.command import call, tree
from tests.sequences.step import Step, unchanged
from tests.sequences.world import COMPACTED, Difference, World


def doctor(world: World, choice: int) -> Step:
    """Ask doctor about the directories as they are, also as a crash left them: a broker starts, but
    not between the steps of a move.
    """
    del choice

    def run() -> None:
        require_verdict(world, starts=None if world.moving is not None else True)

    return Step(COMPACTED, run, unchanged(world, COMPACTED), unclean=True)


def require_verdict(world: World, *, starts: bool | None) -> None:
    """Require that doctor says this, and that Kafka agrees, about the bytes that a start removes,
    too. Effects: works on a copy next to the directories.

    Args:
        starts: None: what Kafka says is right.

    Raises:
        Difference: it does not, or something was changed.
    """
    log_dirs = (world.first, world.second)
    before = [tree(each) for each in log_dirs]
    answer = call("doctor", *log_dirs, "--output", "json", "--now", world.now)
    if before != [tree(each) for each in log_dirs]:
        raise Difference("doctor changes something")
    verdicts = [line for line in answer.lines if "starts" in line]
    if len(verdicts) != 1:
        raise Difference(f"doctor: {answer.status}: {answer.out} {answer.err}")
    (verdict,) = verdicts
    if starts is not None and verdict["starts"] is not starts:
        raise Difference(f"doctor says {verdict['starts']}, not {starts}: {answer.out}")
    if world.kafka is None:
        return
    kafkas, lost = _booted(world)
    if verdict["starts"] is not (kafkas is None):
        raise Difference(f"Kafka's start: {kafkas}; doctor: {answer.out}")
    if kafkas is None and verdict["lostBytes"] != lost:
        raise Difference(f"Kafka's start removes {lost} bytes; doctor: {answer.out}")


def _booted(world: World) -> tuple[str | None, int]:
    """Why Kafka does not start, None if it does, and how many bytes of segments it removes."""
    assert world.kafka is not None
    place = world.root.with_name(f"{world.root.name}-start")
    shutil.rmtree(place, ignore_errors=True)
    log_dirs = [world.first, world.second]
    copies = [place / each.name for each in log_dirs]
    try:
        for log_dir, copy in zip(log_dirs, copies, strict=True):
            shutil.copytree(log_dir, copy, symlinks=True)
        answer = world.kafka.ask(
            {
                "request": "boot",
                "logDirs": [str(each) for each in copies],
                "identity": True,
                "now": world.now,
            }
        )
        return answer.get("bootFailed"), _segment_bytes(log_dirs) - _segment_bytes(copies)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _segment_bytes(log_dirs: list[Path]) -> int:
    return sum(path.stat().st_size for each in log_dirs for path in each.glob("*-*/*.log"))
