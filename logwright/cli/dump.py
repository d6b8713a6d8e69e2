"""``logwright dump``: every batch and record, index entry and snapshot. Reads only.

One of the two places where keys and values appear.
"""

from __future__ import annotations

import click

from logwright.cli.planning import FailureLog
from logwright.cli.request import Request, request_options
from logwright.errors import LogwrightError


@click.command(name="dump")
@request_options
def command(request: Request) -> None:
    """Print every batch and record, index entry and snapshot as JSON lines.

    With more than one partition, every line has a topicPartition field.
    """
    from logwright.log.dump import dump_partition, to_json  # noqa: PLC0415 -- numpy: not for --help

    failures = FailureLog(output=request.output)
    partitions = request.partitions()
    for partition in partitions:
        name = {} if len(partitions) == 1 else {"topicPartition": str(partition)}
        lines = dump_partition(request.log_dir, partition)
        try:
            for line in lines:
                request.output.line(to_json(name | line))
        except LogwrightError as error:
            failures.add(partition, error)
    click.get_current_context().exit(failures.exit_status)
