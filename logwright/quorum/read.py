"""Read all directories that are left."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from logwright.quorum.model import Survivor
from logwright.quorum.plan import committed, newest
from logwright.quorum.survivor import read_survivor
from logwright.units import Offset


def read_survivors(log_dirs: Sequence[Path]) -> list[Survivor]:
    """Read each directory, with what all of them prove: a record counts as perhaps not committed if
    none of them proves that it was, and as not applied if the newest state ends before it. Effects:
    reads them.

    Raises:
        NotALogDir: one does not exist, or has no metadata log.
        UnreadableFile: one cannot be read.
    """
    alone = [read_survivor(each) for each in log_dirs]
    if len(alone) == 1:
        return alone
    proof = committed(alone)
    source = newest(alone)
    applied = Offset(0) if source is None else source[1].end_offset
    return [read_survivor(each.log_dir, proof, applied=applied) for each in alone]
