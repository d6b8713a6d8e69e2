"""Check the objects of a log's remote segments: that they are there and whole, and can be
decrypted and decompressed.

What their batches and indexes say is checked as that of local ones.
"""

from __future__ import annotations

from logwright.errors import CorruptObject, PreconditionError
from logwright.format.names import TopicPartition
from logwright.place.model import Place
from logwright.tier.place import TieredPlace
from logwright.verify.model import Fault


def remote_faults(log_dir: Place, partition: TopicPartition) -> list[Fault]:
    """Return what is wrong with the objects of a log's remote segments, each with its key; nothing
    of a place without a tier. Effects: reads all of them.

    Raises:
        LogwrightError: the tier cannot be read, or its key is not given.
    """
    if not isinstance(log_dir, TieredPlace):
        return []
    directory, tier = partition.directory_name, log_dir.tier
    faults = [
        _fault(error, tier.bucket.name)
        for segment in tier.segments_of(directory)
        for error in segment.faults()
    ]
    try:
        tier.parts(directory)
    except CorruptObject as error:
        if not faults:
            faults.append(_fault(error, tier.bucket.name))
    except PreconditionError as error:
        faults.append(Fault(path=log_dir / directory, position=None, problem=_short(error.problem)))
    return faults


def _fault(error: CorruptObject, bucket: str) -> Fault:
    return Fault(
        path=f"{bucket}/{error.path}", position=error.position, problem=_short(error.problem)
    )


def _short(problem: str) -> str:
    return problem.removesuffix(".")
