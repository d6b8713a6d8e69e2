"""``logwright dump``: every batch and record, index entry and snapshot. Reads only.

One of the places where keys and values appear.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from logwright.cli.planning import FailureLog
from logwright.cli.request import Request, request_options
from logwright.errors import LogwrightError

if TYPE_CHECKING:
    from logwright.config.decoding import Decoding as Specs
    from logwright.format.names import TopicPartition

_BY_POLICIES: Final = ""
"""The value of ``--decode`` without SPEC."""


@click.command(name="dump")
@request_options
@click.option(
    "--decode",
    "spec",
    metavar="[SPEC]",
    is_flag=False,
    flag_value=_BY_POLICIES,
    help="Decode keys and values: as SPEC, such as json or '{key: string, value: json}', or as the"
    " topic's table: in --policies has it. Without both, Kafka's internal topics are decoded. Give"
    " it last, or as --decode=SPEC.",
)
def command(request: Request, *, spec: str | None) -> None:
    """Print every batch and record, index entry and snapshot as JSON lines.

    Keys and values are in base64, or decoded. With more than one partition, every line has a
    topicPartition field.
    """
    from logwright.log.dump import dump_partition, to_json  # noqa: PLC0415 -- numpy: not for --help

    failures = FailureLog(output=request.output)
    given = _given(spec)
    partitions = request.partitions()
    for partition in partitions:
        name = {} if len(partitions) == 1 else {"topicPartition": str(partition)}
        try:
            if spec is None:
                lines = dump_partition(request.log_dir, partition)
            else:
                lines = _decoded(request, partition, given)
            for line in lines:
                request.output.line(to_json(name | line))
        except LogwrightError as error:
            failures.add(partition, error)
    click.get_current_context().exit(failures.exit_status)


def _given(spec: str | None) -> Specs | None:
    """Return the decoding of ``--decode SPEC``, None without SPEC."""
    if not spec:
        return None
    from logwright.config.decoding import decoding_of  # noqa: PLC0415 -- pydantic and yaml: not for --help

    return decoding_of(spec, Path.cwd())


def _decoded(
    request: Request, partition: TopicPartition, given: Specs | None
) -> Iterator[dict[str, Any]]:
    """Return the lines with decoded records. Effects: reads the partition; may read schemas.

    Raises:
        LogwrightError: as `dump_partition` and `make_decoder`.
        MissingExtra: the specs need the extra tables.
    """
    from logwright.config.decoding import Decoding, default_decoding  # noqa: PLC0415 -- pydantic: not for --help
    from logwright.decode import dumped  # noqa: PLC0415 -- the same
    from logwright.extras import require  # noqa: PLC0415 -- the same
    from logwright.log.dump import dump_partition  # noqa: PLC0415 -- numpy: not for --help

    topic = partition.topic
    decoding, base = given, Path.cwd()
    if decoding is None and request.policies is not None and request.policies_dir is not None:
        tables = [entry.table for entry in request.policies.entries_for(topic)]
        decoding = next((one.decoding for one in tables if one is not None), None)
        base = request.policies_dir
    if decoding is None:
        decoding = default_decoding(topic)
    lines = dump_partition(request.log_dir, partition)
    if decoding == Decoding():
        return lines
    if dumped.is_internal(topic, decoding):
        return dumped.decoded_lines(lines, dumped.internal_records(topic))
    require("tables", by="--decode")
    sample = dump_partition(request.log_dir, partition)
    return dumped.decoded_lines(lines, dumped.decoded_records(topic, decoding, base, sample))
