"""``logwright dump``: every batch and record, index entry and snapshot; or records. Reads only.

One of the places where keys and values appear.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from shlex import quote
from typing import Any, Unpack

from logwright.cli.options.dump import Given
from logwright.cli.request import Request
from logwright.config.decoding import Decoding, decoding_of, default_decoding
from logwright.decode import dumped
from logwright.decode.look import MOST, look_at
from logwright.extras import require
from logwright.format.names import TopicPartition
from logwright.log.dump import dump_partition, to_json
from logwright.place.model import reading

_Line = dict[str, Any]


def run(request: Request, **given: Unpack[Given]) -> None:
    """Run the command."""
    spec = given["spec"]
    decoding = decoding_of(spec, Path.cwd()) if spec else None
    partitions = request.partitions()
    selects = _is_selection(given)
    if selects:
        require("tables", by="dump --records")
    if given["follow"]:
        _follow(request, partitions, given, decoding)
        return
    for partition in partitions:
        name = {} if len(partitions) == 1 else {"topicPartition": str(partition)}
        seen: list[_Line] = []
        with request.failures.of(partition), reading(request.place):
            lines = _lines if not selects else _records
            line: _Line | None = None
            for line in lines(request, partition, given, decoding):
                request.output.line(to_json(name | line))
                if spec is None and len(seen) < MOST:
                    seen += [line] if selects else islice(_data(line), MOST)
            if line is None:
                request.output.message(f"{partition}: no record is selected.")
        if spec is None:
            _suggest(request, partition, seen)


def _is_selection(given: Given) -> bool:
    """Return whether only records are wanted."""
    options = (given["offset"], given["time_ms"], given["key"], given["count"])
    return given["records"] or given["follow"] or any(option is not None for option in options)


def _lines(
    request: Request, partition: TopicPartition, given: Given, decoding: Decoding | None
) -> Iterator[_Line]:
    """Return the lines of everything. Effects: reads the partition; may read schemas."""
    lines = dump_partition(request.place, partition)
    if given["spec"] is None:
        return lines
    sample = dumped.records_in(dump_partition(request.place, partition))
    decode = _decode(request, partition, decoding, sample)
    return lines if decode is None else dumped.decoded_lines(lines, decode)


def _records(
    request: Request, partition: TopicPartition, given: Given, decoding: Decoding | None
) -> Iterator[_Line]:
    """Yield the lines of records. Effects: reads them; may read schemas."""
    from logwright.cli.run.dump_records import look, record_lines  # noqa: PLC0415 -- pyarrow: an extra

    decode, log = None, look(request, partition)
    if given["spec"] is not None:
        decode = _decode(request, partition, decoding, record_lines(log, given))
    for records in record_lines(log, given):
        if decode is not None:
            decode(records)
        yield from records


def _follow(
    request: Request,
    partitions: tuple[TopicPartition, ...],
    given: Given,
    decoding: Decoding | None,
) -> None:
    """Print records as they are committed. Effects: reads the logs; may read schemas; output."""
    from logwright.cli.run.dump_follow import follow  # noqa: PLC0415 -- pyarrow: an extra

    decoders: dict[TopicPartition, dumped.Decode | None] = {}

    def show(partition: TopicPartition, records: list[_Line]) -> None:
        if given["spec"] is not None and partition not in decoders:
            decoders[partition] = _decode(request, partition, decoding, [records])
        decode = decoders.get(partition)
        if decode is not None:
            decode(records)
        name = {} if len(partitions) == 1 else {"topicPartition": str(partition)}
        for record in records:
            request.output.line(to_json(name | record))

    follow(request, partitions, given, show)


def _decode(
    request: Request,
    partition: TopicPartition,
    given: Decoding | None,
    sample: Iterable[list[_Line]],
) -> dumped.Decode | None:
    """Return what decodes the records of a partition; None if they stay as they are. Effects: may
    read schemas, and some of the sample.

    Raises:
        LogwrightError: as `make_decoder`.
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
    if decoding == Decoding():
        return None
    if dumped.is_internal(topic, decoding):
        return dumped.internal_records(topic)
    require("tables", by="--decode")
    return dumped.decoded_records(topic, decoding, base, sample)


def _data(line: _Line) -> Iterable[_Line]:
    """Return the records of a line, if it is a batch of data."""
    return next(dumped.records_in([line]), ())


def _suggest(request: Request, partition: TopicPartition, records: Iterable[_Line]) -> None:
    """Say what keys and values in base64 look like. Effects: output."""
    if default_decoding(partition.topic) != Decoding():
        request.output.message(f"{partition} has records of Kafka's own: --decode")
        return
    looks = {
        part: look_at(part, (dumped.content(record[part]) for record in records))
        for part in ("key", "value")
    }
    known = {part: look for part, look in looks.items() if look is not None}
    if known:
        sentences = ", ".join(look.sentence for look in known.values())
        spec = f"{{{', '.join(f'{part}: {look.spec}' for part, look in known.items())}}}"
        request.output.message(f"{partition}: {sentences}: --decode={quote(spec)}")
