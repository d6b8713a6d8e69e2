"""Read all directories that are left, and judge what they say together."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from logwright.quorum.model import Survivor, Verdict
from logwright.quorum.plan import committed, judge
from logwright.quorum.survivor import read_survivor


def read_survivors(log_dirs: Sequence[Path]) -> list[Survivor]:
    """Read each directory. A record counts as perhaps not committed if none of them proves that it
    was. Effects: reads them.

    Raises:
        NotALogDir: one does not exist, or has no metadata log.
        UnreadableFile: one cannot be read.
    """
    survivors = [read_survivor(each) for each in log_dirs]
    proof = committed(survivors)
    return [
        read_survivor(each.log_dir, proof)
        if each.state is not None
        and proof is not None
        and each.state.committed_end < proof.end_offset
        else each
        for each in survivors
    ]


def judge_directories(log_dirs: Sequence[Path]) -> Verdict:
    """Read and judge all directories. Effects and errors: as `read_survivors` and
    `logwright.quorum.plan.judge`.
    """
    return judge(read_survivors(log_dirs))
