"""Single measurements of ``buckets``, each in a process of its own; prints a JSON object.

``python -m benchmarks.buckets_worker WHAT PLACE TOPIC ROUNDS``: each round is one pass over all
logs of the topic, after one that does not count.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from logwright.batches.runtime import silent
from logwright.erasure.find.search import search_log_dir
from logwright.erasure.keys import KeySet
from logwright.erasure.secret import Secret
from logwright.format.names import TopicPartition
from logwright.log.load import list_partitions, observe
from logwright.place.bucket import bucket_of, manifest_of
from logwright.place.model import RANGE_BYTES, Place
from logwright.place.named import place_of
from logwright.records.model import ReadRequest
from logwright.records.plan import plan_records
from logwright.records.read import read_range
from logwright.records.schema import COLUMNS

AT_ONCE: Final = 4
KEYS: Final = 1_000


def plain(place: Place, partitions: list[TopicPartition]) -> None:
    """Read all ``.log`` objects by the client alone, in ranges of 8 MiB, some at once."""

    def wanted() -> Iterator[tuple[TopicPartition, str, int, int]]:
        for partition in partitions:
            manifest = manifest_of(place, partition)
            for segment in () if manifest is None else manifest.state.segments:
                for start in range(0, segment.log.bytes, RANGE_BYTES):
                    end = min(start + RANGE_BYTES, segment.log.bytes)
                    yield partition, segment.log.key, start, end

    def read(part: tuple[TopicPartition, str, int, int]) -> int:
        partition, *words = part
        return len(bucket_of(place).below(partition.directory_name).read(*words))

    with ThreadPoolExecutor(AT_ONCE) as pool:
        for _ in pool.map(read, wanted()):
            pass


def records(place: Place, partitions: list[TopicPartition]) -> None:
    """Read all columns of all records as Arrow batches."""
    for partition in partitions:
        log = observe(place, partition, high_watermark="end")
        for each in plan_records(log, ReadRequest()):
            for _ in read_range(each, columns=COLUMNS):
                pass


def find(place: Place, _: list[TopicPartition]) -> None:
    """Search for keys that are not there.

    Raises:
        RuntimeError: nothing was searched.
    """
    draw = random.Random(1)
    keys = KeySet.of(Secret.random(), clear=[draw.randbytes(16) for _ in range(KEYS)])
    result = search_log_dir(place, keys, None, progress=silent, threads=2)
    if not any(path.endswith(".log") for path in result.looked):
        message = f"nothing of {place} was searched"
        raise RuntimeError(message)


def main(what: str, where: str, topic: str, rounds: str) -> None:
    """Effects: reads; prints."""
    do: Callable[[Place, list[TopicPartition]], None]
    do = {"plain": plain, "records": records, "find": find}[what]
    taken = []
    for _ in range(int(rounds) + 1):
        place = place_of(where)
        partitions = [each for each in list_partitions(place) if each.topic == topic]
        wall, cpu = time.perf_counter(), time.process_time()
        do(place, partitions)
        taken.append((time.perf_counter() - wall, time.process_time() - cpu))
    print(json.dumps({"seconds": taken[1:]}))


if __name__ == "__main__":
    main(*sys.argv[1:])
