"""Ingest files into a topic, each once: the ledger has the ingested files and unfinished runs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from logwright.config.resolved import Sources, settings_of
from logwright.config.sources import keep_given
from logwright.ingest.commit import prepare_log_dir
from logwright.ingest.ledger import Run, list_input, next_run, read_ledger, record_run
from logwright.ingest.model import Appended, AppendOptions
from logwright.spark.append import Target, partition_counts
from logwright.spark.ingest import ingest_frame, read_input
from logwright.units import TimestampMs

_GLOB: Final = re.compile(r"[\\*?\[\]{}]")
"""Characters that Spark interprets as a pattern in a path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Input files and their topic.

    Attributes:
        path: a file or directory; any address that Spark reads, if `ingest_id` is given.
        file_format: ``json``, ``csv``, ``parquet`` or another format that Spark reads.
        options: options of Spark's reader.
        partitions: partition count of a new topic, minimum for an existing one; 0: keep it.
        ingest_id: idempotency key of the whole input; without it each file counts once, by path and
            content.
    """

    path: str
    file_format: str
    topic: str
    partitions: int = 0
    options: Mapping[str, str] = field(default_factory=dict)
    ingest_id: str | None = None
    append: AppendOptions = field(default_factory=AppendOptions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Intake:
    """One run, and what each partition got of it."""

    run: Run
    appended: tuple[Appended, ...]


def ingest_files(
    spark: SparkSession,
    log_dir: Path,
    source: Source,
    sources: Sources,
    *,
    now_ms: TimestampMs,
) -> tuple[Intake, ...]:
    """Append what is new in an input, after completing what was interrupted; keep the settings that
    the topic was given in the log directory. Effects: changes logs, the ledger and the kept
    settings.

    `sources`: of the log directory's settings.

    Raises:
        PolicyError: the topic's settings are not valid.
        LogwrightError: see `ingest_frame`, `next_run` and `keep_given`.
    """
    config, _ = settings_of(sources, source.topic)
    topic_id = sources.topic_id(source.topic)
    prepare_log_dir(log_dir)
    intakes = []
    while (run := _next(log_dir, source)) is not None:
        paths = [_GLOB.sub(r"\\\g<0>", file.path) for file in run.files if file.bytes]
        if run.partitions == 0:
            counts = partition_counts(log_dir, [source.topic], source.partitions)
            run = replace(run, partitions=counts[source.topic])
        target = Target(
            log_dir=log_dir,
            topic=source.topic,
            partitions={source.topic: run.partitions},
            settings={source.topic: config},
            ingest_id=run.id,
            now_ms=now_ms,
            options=source.append,
            topic_ids={} if topic_id is None else {source.topic: topic_id},
            replicas_of=sources.replicas_of,
        )
        appended: list[Appended] = []
        if paths or not run.files:
            frame = read_input(spark, paths or [source.path], source.file_format, source.options)
            appended = ingest_frame(
                frame, target, before_commit=partial(_record, log_dir, run, sources)
            )
        run = replace(run, done=True)
        record_run(log_dir, run)
        intakes.append(Intake(run=run, appended=tuple(appended)))
    return tuple(intakes)


def _record(log_dir: Path, run: Run, sources: Sources) -> None:
    """Record what is known of a run before it changes a log. Effects: writes the ledger."""
    keep_given(log_dir, sources, run.topic)
    record_run(log_dir, run)


def _next(log_dir: Path, source: Source) -> Run | None:
    runs = read_ledger(log_dir)
    if source.ingest_id is None:
        return next_run(runs, source.topic, 0, list_input(Path(source.path)))
    for run in runs:
        if run.id == source.ingest_id:
            return None if run.done else run
    return Run(id=source.ingest_id, topic=source.topic, partitions=0, files=())


def totals(intakes: Sequence[Intake]) -> dict[str, int]:
    """Return sums over runs, by name."""
    parts = [one for intake in intakes for one in intake.appended]
    return {
        "runs": len(intakes),
        "files": sum(len(intake.run.files) for intake in intakes),
        "records": sum(one.records for one in parts),
        "bytes": sum(one.log_bytes for one in parts),
    }
