"""``logwright dump``: every batch and record, index entry and snapshot. Reads only.

One of the places where keys and values appear.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from logwright.cli.request import Request
from logwright.config.decoding import Decoding, decoding_of, default_decoding
from logwright.decode import dumped
from logwright.extras import require
from logwright.format.names import TopicPartition
from logwright.log.dump import dump_partition, to_json


def run(request: Request, *, spec: str | None) -> None:
    """Run the command."""
    given = decoding_of(spec, Path.cwd()) if spec else None
    partitions = request.partitions()
    for partition in partitions:
        name = {} if len(partitions) == 1 else {"topicPartition": str(partition)}
        with request.failures.of(partition):
            if spec is None:
                lines = dump_partition(request.place, partition)
            else:
                lines = _decoded(request, partition, given)
            for line in lines:
                request.output.line(to_json(name | line))


def _decoded(
    request: Request, partition: TopicPartition, given: Decoding | None
) -> Iterator[dict[str, Any]]:
    """Return the lines with decoded records. Effects: reads the partition; may read schemas.

    Raises:
        LogwrightError: as `dump_partition` and `make_decoder`.
        MissingExtra: the specs need the extra tables.
    """
    topic = partition.topic
    decoding, base = given, Path.cwd()
    if decoding is None and request.policies is not None and request.policies_dir is not None:
        tables = [entry.table for entry in request.policies.entries_for(topic)]
        decoding = next((table.decoding for table in tables if table is not None), None)
        base = request.policies_dir
    if decoding is None:
        decoding = default_decoding(topic)
    lines = dump_partition(request.place, partition)
    if decoding == Decoding():
        return lines
    if dumped.is_internal(topic, decoding):
        return dumped.decoded_lines(lines, dumped.internal_records(topic))
    require("tables", by="--decode")
    sample = dump_partition(request.place, partition)
    return dumped.decoded_lines(lines, dumped.decoded_records(topic, decoding, base, sample))
