"""``kernels``: each kernel alone, warm, on one core: the best of some rounds in CPU seconds."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.logs import BenchLog
from logwright.batches.source import Source, open_window, row_ranges, side_of
from logwright.batches.unpack import NOT_GIVEN
from logwright.checks import kernels as check_kernels
from logwright.format.codec import CODEC_NAMES, compress, decompress
from logwright.format.limits import decompression_limit
from logwright.format.scan import check_crcs, scan_segment
from logwright.keys import offset_map
from logwright.keys import read as reading
from logwright.keys import receipt as receipts
from logwright.place.mapped import MappedFiles
from logwright.rewrite import batch_receipt
from logwright.rewrite.batch import RewriteWorkspace
from logwright.rewrite.cache import NOTHING_REBUILT
from logwright.rewrite.chunks import CHUNK_BYTES
from logwright.rewrite.copy import CopyRule, copy_batches
from logwright.rewrite.output import new_output
from logwright.units import INT64_MAX

ROUNDS: Final = 5
_KEPT_EVERY: Final = 3
"""Every third of the rewritten records is kept."""


class Bench:
    """The first segment of an uncompressed log, read, and what the kernels want next to it."""

    def __init__(self, log: BenchLog) -> None:
        path = min(log.partition_directory.glob("*.log"))
        log_file = MappedFiles().open(path)
        batches = scan_segment(log_file.data, path, base_offset=0, end_offset=INT64_MAX)
        self.source = Source(base_offset=0, log=log_file, batches=batches)
        self.records = self.source.records
        ranges = row_ranges(self.source, first=0, last=len(batches))
        self.windows = [open_window(self.source, slice(*rows)) for rows in ranges]
        slots = 2 * self.records
        self.map = offset_map.new_map(slots, capacity=slots - 1, largest=self.records)
        self.map_ = reading.OffsetMap(
            table=self.map.table,
            dead=self._bitmap(),
            expired=self._bitmap(),
            counters=self.map.counters,
            capacity=self.map.capacity,
            ends_when_full=False,
        )
        self.space = RewriteWorkspace()
        self.reader = reading.ReadBuffers(
            hash_key=np.array([self.map.key.low, self.map.key.high], dtype=np.uint64),
            found=reading.record_buffers(reading.FOUND_RECORDS),
            receipt=receipts.with_room(receipts.new_receipt(self.records), self.records),
            scratch=self.space.scratch,
            cells=self.space.cells,
        )
        self.receipt = batch_receipt.new_receipt((self.map.key.low, self.map.key.high), -1)

    def _bitmap(self) -> NDArray[np.uint8]:
        return np.zeros(self.records // 8 + 1, dtype=np.uint8)

    def scan(self) -> None:
        """Batch headers."""
        scan_segment(self.source.data, self.source.path, base_offset=0, end_offset=INT64_MAX)

    def check_crcs(self) -> None:
        """The CRC of every batch."""
        batches = self.source.batches
        check_crcs(self.source.data, batches, self.source.path, first=0, last=len(batches))

    def hash_keys(self) -> None:
        """Check the CRCs, decode the records and hash their keys."""
        self._map(reading.FLAG)

    def insert_keys(self) -> None:
        """The same, and insert."""
        self.map.table.entries[:] = 0
        self.map.counters["distinct"] = 0
        self._map(reading.INSERT)

    def clear_map(self) -> None:
        """What `insert_keys` does first."""
        self.map.table.entries[:] = 0

    def _map(self, action: int) -> None:
        scope = reading.MapScope(
            first_offset=0,
            last_offset=INT64_MAX - 1,
            now_ms=0,
            removable_end=INT64_MAX,
            primary=True,
            shard_start=0,
            shard_end=offset_map.SHARD_SPACE,
            action=action,
        )
        data, batches, row = self.source.data, self.source.batches, 0
        self.reader.receipt.sampled[0] = 0
        window = reading.sum_buffers(len(batches))
        while row < len(batches):
            rows = (row, len(batches))
            stop, taken, _ = reading.read_batches(
                data, batches, rows, NOT_GIVEN, scope, self.reader, window
            )
            read = (row, int(stop))
            row = reading.put_window(
                batches, read, int(taken), scope, self.map_, self.reader, window
            )

    def survey(self) -> None:
        """Walk the records."""
        facts, order = check_kernels.new_facts(), check_kernels.new_verdict()
        for window in self.windows:
            check_kernels.survey(side_of(self.source, window), facts, order)

    def copy_all(self) -> None:
        """Copy every batch as it is."""
        self._rewrite(self._bitmap())

    def rebuild_all(self) -> None:
        """Rebuild every batch."""
        dead = np.ones(len(self._bitmap()) * 8, dtype=np.uint8)
        dead[::_KEPT_EVERY] = 0
        self._rewrite(np.packbits(dead, bitorder="little"))

    def _rewrite(self, dead: NDArray[np.uint8]) -> None:
        rows = len(self.source.batches)
        self.space.need_kept(int(self.source.batches["count"].max()))
        output = new_output(batches=rows, buffer=np.empty(CHUNK_BYTES, dtype=np.uint8))
        row = 0
        while row < rows:
            output.state["buffered"] = 0
            row, _ = copy_batches(
                self.source.data,
                self.source.batches,
                row,
                dead,
                CopyRule(4096, INT64_MAX),
                output,
                self.space.for_rewrite(),
                self.receipt,
                NOTHING_REBUILT.of(0, slice(0, rows)),
            )


def kernels(log: BenchLog) -> str:
    """A table of speeds on the first segment of an uncompressed log. Effects: reads it."""
    bench = Bench(log)
    batches, records, size = len(bench.source.batches), bench.records, bench.source.log.bytes
    seconds = {
        "header scan": best(bench.scan),
        "CRC": best(bench.check_crcs),
        "decode": best(bench.survey),
        "CRC, decode, hash": best(bench.hash_keys),
        "CRC, decode, hash, insert": max(best(bench.insert_keys) - best(bench.clear_map), 1e-9),
        "copy as it is": best(bench.copy_all),
        "rebuild, a third kept": best(bench.rebuild_all),
    }
    lines = [f"{log.name}: {size / 1e6:.0f} MB, {batches:,} batches, {records:,} records", ""]
    lines += [
        f"{name:26}{size / spent / 1e9:8.2f} GB/s{records / spent / 1e6:9.1f} M records/s"
        for name, spent in seconds.items()
    ]
    return "\n".join([*lines, "", *_codecs(bench)])


def _codecs(bench: Bench) -> list[str]:
    """Speeds of the codecs, batch by batch, as MB of records for each second."""
    spans = bench.windows[0].spans.tolist()
    parts = [bench.source.data[start:end].tobytes() for start, end in spans]
    size = sum(map(len, parts))
    lines = [f"{'codec, of records':26}{'compress':>13}{'decompress':>13}"]
    for codec, name in enumerate(CODEC_NAMES[1:], start=1):
        packed = [compress(codec, part) for part in parts]

        def pack(codec: int = codec) -> None:
            for part in parts:
                compress(codec, part)

        def unpack(codec: int = codec, packed: list[bytes] = packed) -> None:
            for part in packed:
                decompress(codec, part, limit=decompression_limit(len(part)))

        speeds = (f"{size / best(work) / 1e6:8.0f} MB/s" for work in (pack, unpack))
        lines.append(f"{name:26}{''.join(speeds)}")
    return lines


def best(work: Callable[[], None]) -> float:
    """CPU seconds of the best of some rounds, after one that is not timed."""
    work()
    spent = []
    for _ in range(ROUNDS):
        started = time.process_time()
        work()
        spent.append(time.process_time() - started)
    return max(min(spent), 1e-9)
