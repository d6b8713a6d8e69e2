"""Scan one file for the records of requested keys. Effects: maps the file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from logwright.batches.legacy import RUN_BYTES, convert_run, converted_rows, is_legacy_at
from logwright.batches.markers import NO_MARKERS
from logwright.batches.outcomes import is_end
from logwright.batches.status import (
    FAULTS,
    HITS_FULL,
    NOT_UNPACKED,
    OK,
    SCRATCH_FULL,
    StoppedAt,
)
from logwright.batches.unpack import Workspace, remove_obstacle
from logwright.erasure.find.patterns import make_automaton
from logwright.erasure.find.walk import (
    PATTERN,
    HitBuffers,
    first_nonzero,
    hit_buffers,
    next_part,
    walk_file,
)
from logwright.erasure.keys import Answers, KeySet
from logwright.errors import BatchAboveLimit, CorruptBatch
from logwright.format.batch import LOG_OVERHEAD_BYTES, SMALLEST_LEGACY_LENGTH
from logwright.format.scan import BATCH, OTHER_MAGIC
from logwright.units import INT64_MAX

HIT: Final = np.dtype(
    [
        ("request", np.int64),
        ("pattern", np.int64),
        ("offset", np.int64),
        ("timestamp", np.int64),
        ("row", np.int64),
        ("is_tombstone", np.bool_),
    ],
    align=True,
)
"""A record that was found. `request`: index in the `KeySet`, -1 if only a pattern was found.
`pattern`: its number, -1 if a requested key was found. `row`: its batch in `Scanned.batches`."""

UNDECODED: Final = "keys cannot be decoded, and may be requested ones in another form"
"""Why a file was not searched, after a number."""
PART_BYTES: Final = 32 * 1024 * 1024
"""About how much of a large file one thread reads at a time, if it is not packed."""
_ROWS: Final = 16 * 1024
_KEY_BYTES: Final = 64 * 1024
_OBSTACLES: Final = (SCRATCH_FULL, NOT_UNPACKED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unread:
    """A part of a file that could not be read.

    Attributes:
        position, bytes: of the part.
        problem: why.
    """

    position: int
    bytes: int
    problem: str


@dataclass(slots=True, kw_only=True)
class Scanned:
    """The content of one file, as far as it matters.

    Attributes:
        hits: HIT[n], in the order of the file.
        batches: BATCH[m], those with a hit.
        markers: int64[k, 3], see `logwright.batches.markers.markers_of`.
        unread: the parts that could not be read.
        others, undecoded: see `logwright.erasure.keys.Answers`.
        keys: of the records in which only a pattern was found; None: one has no key.
    """

    hits: NDArray[np.void]
    batches: NDArray[np.void]
    markers: NDArray[np.int64]
    unread: tuple[Unread, ...]
    others: set[tuple[int, str]] = field(default_factory=set)
    undecoded: set[str] = field(default_factory=set)
    keys: set[bytes | None] = field(default_factory=set, repr=False)


def nothing_found(*unread: Unread) -> Scanned:
    """Return the result for a file in which nothing was found."""
    return Scanned(
        hits=np.zeros(0, dtype=HIT),
        batches=np.zeros(0, dtype=BATCH),
        markers=NO_MARKERS,
        unread=unread,
    )


def whole_file(problem: str) -> Unread:
    """Return that nothing of a file is taken to be read."""
    return Unread(position=0, bytes=-1, problem=problem)


class Span(NamedTuple):
    """A part of a file, in bytes: batches that begin at `start` or after it, and before `stop`."""

    start: int
    stop: int


WHOLE: Final = Span(0, INT64_MAX)


def split(data: NDArray[np.uint8]) -> Iterator[Span]:
    """Yield the parts of a file, uint8[n], in order."""
    start = 0
    while start < len(data):
        stop = int(next_part(data, start, PART_BYTES))
        yield Span(start, stop)
        start = stop


def joined(parts: Sequence[Scanned]) -> Scanned:
    """Return the content of a file by that of its parts, in order."""
    if len(parts) == 1:
        return parts[0]
    content = _Found()
    for part in parts:
        content.join(part)
    return content.scanned()


class Scanner:
    """Scans files one after the other. For one thread.

    Args:
        patterns: byte patterns that are searched in keys, values and headers, too.
    """

    def __init__(self, patterns: tuple[bytes, ...] = ()) -> None:
        self._automaton = make_automaton(patterns)
        self._work = Workspace()
        memory = (self._work.scratch, self._work.cells)
        self._buffers = hit_buffers(_ROWS, _KEY_BYTES, memory)

    def scan(
        self, data: NDArray[np.uint8], path: object, keys: KeySet, span: Span = WHOLE
    ) -> Scanned:
        """Scan a file.

        Args:
            data: uint8[n], all of it. path: for messages.
            keys: the requests that apply to the file's topic.
            span: the part to scan.
        """
        content = _Found()
        position, given = span.start, -1
        while True:
            arguments = (keys.needs_hmacs, keys.search_table, self._automaton, self._buffers)
            before = self._buffers.used.copy()
            reached, status = walk_file(data, (position, span.stop), given, *arguments)
            is_new, position, given = reached > position, int(reached), -1
            if status == HITS_FULL:
                if not is_new and not before.any() and not self._buffers.used.any():
                    self._enlarge()
                self._drain(content, keys)
            elif status == OK:
                self._drain(content, keys)
                return content.scanned()
            elif status == OTHER_MAGIC and is_legacy_at(data, position):
                self._drain(content, keys)
                position = self._scan_old(data, path, keys, (position, span.stop), content)
            elif status not in _OBSTACLES:
                position = content.skip(data, position, FAULTS[status].problem)
            else:
                stopped = StoppedAt(data, path, self._buffers.batch, 0)
                try:
                    given = remove_obstacle(self._work, stopped, status)
                except (CorruptBatch, BatchAboveLimit) as error:
                    problem = error.problem.removesuffix(".")
                    position = content.skip(data, position, problem)
                self._buffers = self._buffers._replace(scratch=self._work.scratch)

    def _scan_old(
        self,
        data: NDArray[np.uint8],
        path: object,
        keys: KeySet,
        span: tuple[int, int],
        content: _Found,
    ) -> int:
        """Scan the batches of old formats from a position on, of those that begin before another;
        return where reading continues.
        """
        position, stop = span
        run = convert_run(
            data,
            path,
            (position, len(data)),
            offsets=(-INT64_MAX, INT64_MAX),
            most_bytes=min(RUN_BYTES, stop - position),
        )
        if not run.places:
            problem = FAULTS[OTHER_MAGIC].problem if run.problem is None else run.problem.problem
            return content.skip(data, position, problem)
        converted = np.frombuffer(run.content, dtype=np.uint8)
        part = self.scan(converted, path, keys)
        begins = converted_rows(converted, path)["position"]
        at = np.searchsorted(begins, part.batches["position"])
        part.batches["position"] = np.array(run.places, dtype=np.int64)[at]
        content.join(part)
        return run.end

    def _enlarge(self) -> None:
        """Double the buffers: one batch alone has more."""
        buffers = self._buffers
        memory = (buffers.scratch, buffers.cells)
        self._buffers = hit_buffers(2 * len(buffers.noted), 4 * len(buffers.keys), memory)

    def _drain(self, content: _Found, keys: KeySet) -> None:
        """Take what is noted out of the buffers."""
        batches, noted, _ = self._buffers.used.tolist()
        content.add(self._buffers, batches, noted, keys)
        self._buffers.used[:] = 0


@dataclass(slots=True)
class _Found:
    """What is found while a file is scanned."""

    hits: list[NDArray[np.void]] = field(default_factory=list)
    batches: list[NDArray[np.void]] = field(default_factory=list)
    markers: list[NDArray[np.int64]] = field(default_factory=list)
    unread: list[Unread] = field(default_factory=list)
    others: set[tuple[int, str]] = field(default_factory=set)
    undecoded: set[str] = field(default_factory=set)
    keys: set[bytes | None] = field(default_factory=set, repr=False)
    rows: int = 0

    def add(self, buffers: HitBuffers, batches: int, noted: int, keys: KeySet) -> None:
        """Add the first ones of each kind that the buffers hold."""
        if not batches:
            return
        chosen = buffers.batches[:batches]
        ends = chosen[is_end(chosen)]
        columns = (ends["producer_id"], ends["base_offset"], ends["control_type"])
        self.markers.append(np.stack([one.astype(np.int64) for one in columns], axis=1))
        if not noted:
            return
        hits, answers, keys_of_hits = _hits_of(buffers.noted[:noted], buffers.keys, keys)
        self.keys |= keys_of_hits
        self.others |= answers.others
        self.undecoded |= answers.undecoded
        used = np.unique(hits["row"])
        places = np.zeros(batches, dtype=np.int64)
        places[used] = np.arange(self.rows, self.rows + len(used))
        hits["row"] = places[hits["row"]]
        self.hits.append(hits)
        self.batches.append(chosen[used])
        self.rows += len(used)

    def join(self, part: Scanned) -> None:
        """Add what was found in the next part of the file."""
        part.hits["row"] += self.rows
        self.hits.append(part.hits)
        self.batches.append(part.batches)
        self.markers.append(part.markers)
        self.rows += len(part.batches)
        self.others |= part.others
        self.undecoded |= part.undecoded
        self.keys |= part.keys
        for unread in part.unread:
            self._add_unread(unread)

    def skip(self, data: NDArray[np.uint8], position: int, problem: str) -> int:
        """Note that a batch cannot be read; return where reading continues."""
        end = len(data)
        following = end
        if end - position > LOG_OVERHEAD_BYTES:
            field = data[position + 8 : position + 12].tobytes()
            length = int.from_bytes(field, "big", signed=True)
            if SMALLEST_LEGACY_LENGTH <= length <= end - position - LOG_OVERHEAD_BYTES:
                following = position + LOG_OVERHEAD_BYTES + length
        # A preallocated file, or a power loss, leaves zeros, which hold nothing.
        if following < end or first_nonzero(data, position) < end:
            self._add_unread(Unread(position=position, bytes=following - position, problem=problem))
        return following

    def _add_unread(self, part: Unread) -> None:
        """Add a part; one that follows another with the same problem belongs to it."""
        last = self.unread[-1] if self.unread else None
        if last and last.problem == part.problem and last.position + last.bytes == part.position:
            self.unread[-1] = replace(last, bytes=last.bytes + part.bytes)
        else:
            self.unread.append(part)

    def scanned(self) -> Scanned:
        """Return all of it."""
        result = nothing_found(*self.unread)
        result.others, result.undecoded = self.others, self.undecoded
        result.keys = self.keys
        if self.hits:
            result.hits = np.concatenate(self.hits)
            result.batches = np.concatenate(self.batches)
        if self.markers:
            result.markers = np.concatenate(self.markers)
        return result


def _hits_of(
    noted: NDArray[np.void], key_bytes: NDArray[np.uint8], keys: KeySet
) -> tuple[NDArray[np.void], Answers, set[bytes | None]]:
    """Return the records that are requested, or in which only a pattern was found, HIT[n]; what
    else was found; and the keys of the latter.
    """
    hits = np.zeros(len(noted), dtype=HIT)
    for name in ("offset", "timestamp", "row", "is_tombstone"):
        hits[name] = noted[name]
    hits["request"], hits["pattern"], answers = _requests_of(noted, key_bytes, keys)
    is_chosen = (hits["request"] >= 0) | (hits["pattern"] >= 0)
    chosen = hits[is_chosen]
    if not (chosen["pattern"] >= 0).any():
        return chosen, answers, set()
    # Of a record whose key is requested too, the pattern is not reported.
    records = chosen[["row", "offset"]]
    requested = chosen["request"] >= 0
    twice = ~requested & np.isin(records, records[requested])
    only_pattern = noted[is_chosen][~requested & ~twice]
    keys_of_hits = {_key_of(record, key_bytes) for record in only_pattern}
    return chosen[~twice], answers, keys_of_hits


def _key_of(record: np.void, key_bytes: NDArray[np.uint8]) -> bytes | None:
    """Return the key of a noted record, None if it has none."""
    start, length = int(record["key_at"]), int(record["key_length"])
    return None if length < 0 else key_bytes[start : start + length].tobytes()


def _requests_of(
    noted: NDArray[np.void], key_bytes: NDArray[np.uint8], keys: KeySet
) -> tuple[NDArray[np.int64], NDArray[np.int64], Answers]:
    """Return request and pattern of each noted record, -1 for none, and what else was found."""
    codes = noted["code"]
    requests = np.full(len(noted), -1, dtype=np.int64)
    patterns = np.where(codes >= PATTERN, codes - PATTERN, -1)
    known = (codes >= 0) & (codes < PATTERN)
    requests[known] = keys.requests_of(codes[known])
    named = keys.named_by(np.unique(requests[known]).tolist())
    distinct: dict[tuple[int, bytes], list[int]] = {}
    for row in np.flatnonzero(codes < 0).tolist():
        key = _key_of(noted[row], key_bytes) or b""
        distinct.setdefault((int(noted[row]["code"]), key), []).append(row)
    answers = keys.look_up([code for code, _ in distinct], [key for _, key in distinct])
    for request, rows in zip(answers.requests, distinct.values(), strict=True):
        requests[rows] = request
    answers.others.update(named)
    return requests, patterns, answers
