"""The options of ``logwright clean``."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal, TypedDict

import click

from logwright.cli.options.common import (
    declare,
    engine_options,
    like_kafka_option,
    scratch_option,
)

MIN_DEDUPE_BUFFER: Final = 25
"""Bytes; more than one slot of the offset map (`logwright.config.topic.MAP_SLOT_BYTES`)."""


USUAL_SPLIT_BYTES: Final = 16 << 30
"""A working copy of a larger log needs twice as much disk."""


class Given(TypedDict):
    """Values of the options below, as click passes them."""

    like_kafka: bool
    retain: bool
    force: bool
    dedupe_buffer: int | None
    passes: int
    checks: Literal["quick", "thorough"] | None
    threads: int | None
    replicas: tuple[Path, ...]
    scratch: Path | None
    spark_master: str | None
    split_bytes: int


threads_option: Final = click.option(
    "--threads",
    metavar="N",
    type=click.IntRange(min=1),
    help="Threads per log with --engine local [default: all cores].",
)
coordinate_option: Final = click.option(
    "--coordinate-with",
    "replicas",
    metavar="DIR",
    type=click.Path(path_type=Path),
    multiple=True,
    help="A log directory with other replicas, repeatable: tombstones and markers stay as long as "
    "one of them may need them. Its broker may run.",
)
spark_master_option: Final = click.option(
    "--spark-master",
    metavar="URL",
    help="With Spark: the cluster [default: this machine].",
)


@declare("clean")
@like_kafka_option
@click.option("--force", is_flag=True, help="Clean even if not due, and stray logs too.")
@click.option(
    "--dedupe-buffer",
    metavar="BYTES",
    type=click.IntRange(min=MIN_DEDUPE_BUFFER),
    help="Offset map memory; overrides log.cleaner.dedupe.buffer.size.",
)
@click.option(
    "--passes",
    metavar="N",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Repeat up to N times, until nothing is cleanable.",
)
@click.option(
    "--checks",
    type=click.Choice(["quick", "thorough"]),
    help="How to check the output before the swap; thorough reads the source again "
    "[default: from --policies, else quick].",
)
@threads_option
@click.option(
    "--retain",
    is_flag=True,
    help="Then apply retention to compacted logs, as Kafka does.",
)
@coordinate_option
@scratch_option
@click.option(
    "--split-bytes",
    metavar="BYTES",
    type=int,
    default=USUAL_SPLIT_BYTES,
    help="In a bucket: split larger logs [default: 16 GiB].",
)
@spark_master_option
@engine_options
def command() -> None:
    """Compact what is due: roll, dedupe, check, swap, checkpoint."""
