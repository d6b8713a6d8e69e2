"""``profile``: the time of one cleaning by stage."""

from __future__ import annotations

import shutil
from pathlib import Path

from benchmarks.cleaning import clean
from benchmarks.logs import BenchLog, fresh_copy
from benchmarks.stages import Stage, watched


def profile(log: BenchLog, work: Path) -> str:
    """A table of the stages of one cleaning, after one that is not timed. Effects: works on copies
    below `work`.
    """
    copy = work / "copy"
    clean(log, fresh_copy(log, copy))
    fresh_copy(log, copy)
    with watched() as watch:
        cleaned = clean(log, copy, during=watch.during)
    shutil.rmtree(copy)
    stats = cleaned.stats
    kept = stats.bytes_written / max(stats.bytes_read, 1)
    head = (
        f"{log.name}: {log.log_bytes / 1e6:.0f} MB, {log.records:,} records, {kept:.0%} kept; "
        f"batches: {stats.batches_verbatim:,} verbatim, {stats.batches_rebuilt:,} rebuilt, "
        f"{stats.batches_dropped:,} dropped"
    )
    lines = [
        head,
        "",
        f"{'':30}{'wall s':>9}{'CPU s':>9}{'CPU s/GB':>10}{'calls':>9}{'GB/s':>8}",
    ]
    for part in dict.fromkeys(part for part, _ in watch.stages):
        stages = [stage for stage in watch.stages.values() if stage.part == part]
        lines.append(_line(_total(part, stages), log.log_bytes))
        busy = sorted(stages, key=lambda stage: -stage.cpu_seconds)
        lines += [_line(stage, log.log_bytes, indent="  ") for stage in busy]
    lines.append(_line(_total("all", list(watch.stages.values())), log.log_bytes))
    return "\n".join(lines)


def _total(name: str, stages: list[Stage]) -> Stage:
    return Stage(
        part=name,
        name=name,
        wall_seconds=sum(stage.wall_seconds for stage in stages),
        cpu_seconds=sum(stage.cpu_seconds for stage in stages),
    )


def _line(stage: Stage, log_bytes: int, *, indent: str = "") -> str:
    each = stage.read_bytes / 1e9 / max(stage.cpu_seconds, 1e-9)
    return (
        f"{indent + stage.name:30}{stage.wall_seconds:9.3f}{stage.cpu_seconds:9.3f}"
        f"{stage.cpu_seconds / log_bytes * 1e9:10.2f}"
        f"{stage.calls or '':>9}{f'{each:.1f}' if stage.read_bytes else '':>8}"
    )
