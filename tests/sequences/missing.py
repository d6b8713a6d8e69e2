"""Files of a log go missing, in sequences: it is seen, no command takes the log for whole, and when
they are back it is the log that it was.
"""

from __future__ import annotations

from pathlib import Path

from tests.comparison import read_checkpoint
from tests.e2e.command import call, tree
from tests.sequences.starts import require_verdict
from tests.sequences.step import Step, pick, unchanged
from tests.sequences.world import COMPACTED, RETAINED, TAKEN_IN, Difference, World, repair

_LOSES = 11


def lose(world: World, choice: int) -> Step:
    """The newest segment with records goes missing, its log or all of its files, and what follows;
    or all logs do. A recovery has recorded where the log ends.
    """
    name = pick(world, choice, (COMPACTED, TAKEN_IN, RETAINED))
    log = world.logs[name]

    def run() -> None:
        repair(world)
        gone = _chosen(log.where / name, choice)
        if world.moving is not None or not gone or not _has_records(log.where, name):
            return
        aside = world.root / "gone"
        aside.mkdir()
        for path in gone:
            path.rename(aside / path.name)
        _require_seen(world, log.where, name)
        for path in gone:
            (aside / path.name).rename(path)
        aside.rmdir()
        require_verdict(world, starts=True)

    return Step(name, run, unchanged(world, name))


def _has_records(log_dir: Path, name: str) -> bool:
    """Whether the log does not start where it ends, as its checkpoints have it."""
    start, end = (
        read_checkpoint(log_dir / f"{kind}-offset-checkpoint").get(name, 0)
        for kind in ("log-start", "recovery-point")
    )
    return start < end


def _chosen(directory: Path, choice: int) -> list[Path]:
    logs = sorted(directory.glob("*.log"))
    filled = [path for path in logs if path.stat().st_size]
    if not filled:
        return []
    if choice // 8 % 3 == 0:
        return logs
    later = [path.stem for path in logs if path.stem >= filled[-1].stem]
    every = choice // 8 % 3 == 1
    return [
        path
        for stem in later
        for path in directory.glob(f"{stem}.*")
        if path.suffix in {".log", *((".index", ".timeindex", ".txnindex") if every else ())}
    ]


def _require_seen(world: World, log_dir: Path, name: str) -> None:
    """Doctor says it, commands refuse the log, and nothing is changed."""
    answer = call("doctor", world.first, world.second, "--now", world.now)
    if answer.status != _LOSES or f"{log_dir / name}: no segment has offset" not in answer.out:
        raise Difference(f"doctor does not see what is missing: {answer.status}: {answer.out}")
    before = tree(log_dir / name)
    for words in (("recover", "--yes"), ("plan",), ("verify",)):
        command, *options = words
        where = (log_dir, name) if command != "recover" else (log_dir,)
        if command != "verify":
            options += ["--now", world.now]
        answer = call(command, *where, *options)
        says = ("offset",) if command != "verify" else ("offset", "there is no .log to")
        if answer.status == 0 or not any(each in answer.out + answer.err for each in says):
            raise Difference(f"{command} takes a log for whole: {answer.status}: {answer.out}")
        if before != tree(log_dir / name):
            raise Difference(f"{command} changes a log of which records are missing")
