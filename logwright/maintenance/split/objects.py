"""Objects of a job that later tasks read: arrays, of a log that is being cleaned. No manifest names
them. They hold keyed hashes and facts about batches, and no key or value.
"""

from __future__ import annotations

import io
import secrets
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Final, NamedTuple

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from logwright.bucket.commit import Operation, data_key
from logwright.errors import CorruptLogError, StalePlan, Unsettled, unreadable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from logwright.bucket.store import Bucket

ATTEMPT_BITS: Final = 48
"""Of a random number in the names of what one call writes."""
_SUFFIX: Final = ".job"
_AGAIN: Final = "Nothing was changed. Run it again."


class Stored(NamedTuple):
    """An object, or a part of one.

    Attributes:
        key: of the object, below the partition's directory.
        start, bytes: of the part. crc32c: of its bytes.
    """

    key: str
    start: int
    bytes: int
    crc32c: int


@dataclass(slots=True)
class JobObjects:
    """The objects of one job, for one call of a task.

    Attributes:
        directory: the partition's directory in the bucket.
        id: of the job.
    """

    directory: Bucket
    id: str
    _attempt: int = field(default_factory=lambda: secrets.randbits(ATTEMPT_BITS))
    _numbers: Iterator[int] = field(default_factory=count)

    @property
    def job(self) -> Operation:
        """What the names of objects are made of."""
        return Operation(id=self.id, attempt=self._attempt, planned_version=-1, written_ms=0)

    def put(self, content: bytes) -> Stored:
        """Write an object. Effects: as said.

        Raises:
            UnreadableFile: the bucket does not permit it. Unsettled: it does not answer.
        """
        key = data_key(self.job, next(self._numbers), _SUFFIX)
        path = f"{self.directory}/{key}"
        try:
            self.directory.put_unique(key, content)
        except PermissionError as error:
            raise unreadable(error, path) from error
        except OSError as error:
            problem = "the bucket does not answer."
            raise Unsettled(problem, path=path, remedy=_AGAIN) from error
        return Stored(key, 0, len(content), google_crc32c.value(content))

    def put_arrays(self, **arrays: NDArray[np.generic]) -> Stored:
        """Write arrays by their names; see `put`."""
        content = io.BytesIO()
        np.savez(content, **arrays)  # type: ignore[arg-type]  # its stub knows no names
        return self.put(content.getvalue())

    def get(self, part: Stored) -> memoryview:
        """Return what was written. Effects: reads.

        Raises:
            StalePlan: it is gone. CorruptLogError: it is not what was written.
            UnreadableFile: the bucket does not permit it, or does not answer.
        """
        path = f"{self.directory}/{part.key}"
        if not part.bytes:
            return memoryview(b"")
        try:
            content = self.directory.read(part.key, part.start, part.start + part.bytes)
        except FileNotFoundError as error:
            problem = "an object of this job is gone."
            raise StalePlan(problem, path=path, remedy=_AGAIN) from error
        except OSError as error:
            raise unreadable(error, path) from error
        if google_crc32c.value(bytes(content)) != part.crc32c:
            raise CorruptLogError(
                "an object of this job has other bytes than those that were written.",
                path=path,
                remedy=_AGAIN,
            )
        return content

    def get_arrays(self, part: Stored) -> dict[str, NDArray[np.generic]]:
        """Return arrays by their names. Effects and errors: as `get`."""
        with np.load(io.BytesIO(self.get(part)), allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
