"""``python -m benchmarks``: how fast logwright is, compared with Kafka's Cleaner, and by stage."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from benchmarks.beside import beside
from benchmarks.bucket_costs import Prices, bucket_costs
from benchmarks.buckets import CASES as BUCKET_CASES
from benchmarks.buckets import bucket_sections
from benchmarks.compare import compare
from benchmarks.decoding import decoding_rows
from benchmarks.erase import CASES as ERASE_CASES
from benchmarks.erase import KEYS as ERASE_KEYS
from benchmarks.erase import erasures
from benchmarks.find import CASES as FIND_CASES
from benchmarks.find import find_rows
from benchmarks.floor import floors
from benchmarks.forecast import CASES as FORECAST_CASES
from benchmarks.forecast import forecasts
from benchmarks.kernels import kernels
from benchmarks.logs import CASES, prepare
from benchmarks.petabyte import petabyte
from benchmarks.picture import picture
from benchmarks.platform import INSTANCE, platform_rows
from benchmarks.profile import profile
from benchmarks.report import (
    BUCKETS,
    PAGE,
    PICTURE,
    SCALE,
    STREAMS,
    SWEEPS,
    TABLES,
    memory_table,
    page,
    put_section,
    time_table,
)
from benchmarks.runs import ROOT
from benchmarks.scale import scale_rows
from benchmarks.schedule import DAYS, LOGS, schedules
from benchmarks.startup import startup
from benchmarks.streams import stream_sections
from benchmarks.sweeps import sweeps
from benchmarks.tables import CASES as TABLE_CASES
from benchmarks.tables import table_sections
from benchmarks.ticks import tick_rows

scale_option = click.option(
    "--scale",
    type=click.FloatRange(min=0, min_open=True),
    default=1.0,
    show_default=True,
    help="1 is a GB of records.",
)
work_option = click.option(
    "--work",
    "work_directory",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where logs are kept for the next time; without it they go when done.",
)


out_option = click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=ROOT / "docs",
    help="Where performance.md and performance.svg are; docs by default.",
)


_SWEEPS = """`make bench ARGS=spark`: whole sweeps (plan, build, checks, commit) on all cores, of
the log `u100` at scale {scale:g}, next to Kafka's Cleaner with as many threads as logs. Medians
of {rounds} rounds. A log that is alone has all cores; Kafka cleans one log on one thread.

All logs are in the system's cache when a measurement begins. The whole command is timed from the
start of Python to the end of Spark, on a machine where it has run before: byte code, kernels and
Spark's classes are in caches on disk. Of Kafka only the cleaning counts, not the start of its JVM,
which has cleaned nothing before."""
_SCALE = """`make bench ARGS=scale`: the goals that are our own. A sweep is planned, built, checked
and committed, in a session that has done the same once before. Figures are medians of {rounds}
rounds, the smallest and largest in brackets. Between the rounds of the sweep nothing is deleted but
staging directories: ext4 passes over what was deleted in the last minutes, one by one, for each new
file.

A log that grows has the keys of the smallest: what is kept of it does not grow with it. So a part
of the time is the same for all sizes, and the rest is for each further GB, or segment."""

_TABLES = """`make bench ARGS=tables`: topics of two partitions, of scale {scale:g} (at 1 they have
1 GB of records and 1 million keys), read on two cores, next to consumers of a live broker on the
loopback interface that has the same segments and the same two cores. Medians of {rounds} rounds in
turn, the smallest and largest in brackets. All segments are in the system's cache, and each session
of Spark (`local[2]`) has done the same once before. On a machine with other work wall seconds say
little, CPU seconds more: those of consumers include the broker's.

Spark's source is `spark-sql-kafka-0-10`, with its defaults. `kafka-consumer-perf-test` counts its
fetching only, librdkafka (`confluent_kafka`, batches of 10,000) from its first call on,
`logwright latest` the whole command. A kernel's speed is that of one core, by its CPU seconds: all
columns to Arrow; a copy's is `numpy.copyto` of 512 MiB."""

_STREAMS = """`make bench ARGS=streams`: all of a topic of two partitions, of scale {scale:g} (at 1
it has 1 GB of records), as a stream (`availableNow`, one micro-batch) to `noop`, on two cores that
the broker shares: by Spark's Kafka source from a live broker on the loopback interface; by
`kafka-log` from the files that the same broker has open; and by a data source in Python that reads
nothing, and yields the first record batch of `kafka-log` again and again, in as many tasks: what is
left of the time is Spark's. Medians of {rounds} rounds in turn, the smallest and largest in
brackets, in one session of Spark (`local[2]`) that has done the same once before. All segments are
in the system's cache. Bytes and connections are the broker's own metrics
(`socket-server-metrics`, of the listener for clients)."""

_BUCKETS = """`make bench ARGS=buckets`: logs of scale {scale:g} in a bucket of MinIO on the
loopback interface, on the two cores that the server uses, too. CPU seconds are those of our
process. *The client alone* is obstore: ranges of 8 MiB, four at once, of the same objects, with
which nothing is done. *All records* makes Arrow batches of all columns, *find* searches for 1,000
keys that are not there, *clean* is the whole command, and *here* the same on a directory of this
machine, in the system's cache. Medians of {rounds} rounds, in processes that have done the same
once before; not *clean*. Requests are counted by the server. Memory is what the process has for
itself; the records are of the same keys. Workers clean five times as much; their CPU seconds are
those of all processes that they start, each up to 0.2 s before its end: the JVMs, and the Python
processes of the tasks; *to start* is what the latter take for logs with hardly a record."""


@click.group()
def main() -> None:
    """Time logwright's cleaning, by CPU seconds: others may use the machine too."""


def _names(_context: click.Context, _option: click.Parameter, value: str) -> tuple[str, ...]:
    names = tuple(value.split(","))
    unknown = [name for name in names if name not in CASES]
    if unknown:
        raise click.BadParameter(f"{', '.join(unknown)}; there are {', '.join(CASES)}")
    return names


@main.command(name="compare")
@scale_option
@work_option
@click.option("--rounds", type=click.IntRange(min=1), default=5, show_default=True)
@click.option("--cases", callback=_names, default=",".join(CASES), show_default=True)
@out_option
def compare_command(
    *, scale: float, work_directory: Path | None, rounds: int, cases: tuple[str, ...], out: Path
) -> None:
    """Kafka's Cleaner and ours on the same logs, in turn."""
    with _work(work_directory) as work:
        results = compare(cases, scale=scale, rounds=rounds, work=work, say=_progress)
    print(f"{time_table(results)}\n\n{memory_table(results)}")
    out.mkdir(parents=True, exist_ok=True)
    path = out / PAGE
    before = path.read_text() if path.exists() else ""
    path.write_text(page(results, scale=scale, before=before))
    (out / PICTURE).write_text(picture(results))


@main.command(name="profile")
@click.argument("case", type=click.Choice(CASES))
@scale_option
@work_option
def profile_command(*, case: str, scale: float, work_directory: Path | None) -> None:
    """The time of one cleaning by stage."""
    with _work(work_directory) as work:
        print(profile(prepare(case, scale=scale, work=work), work))


@main.command(name="kernels")
@click.option("--scale", type=click.FloatRange(0, 1, min_open=True), default=0.12)
@work_option
def kernels_command(*, scale: float, work_directory: Path | None) -> None:
    """Each kernel alone, and each codec."""
    with _work(work_directory) as work:
        for case in ("u100", "u1k"):
            print(kernels(prepare(case, scale=scale, work=work)), end="\n\n")


@main.command(name="beside")
@work_option
@click.option("--records", type=click.IntRange(min=1), default=300_000, show_default=True)
@click.option("--rounds", type=click.IntRange(min=1), default=5, show_default=True)
def beside_command(*, work_directory: Path | None, records: int, rounds: int) -> None:
    """What reading next to a running broker costs it: throughput of clients without and with it."""
    with _work(work_directory) as work:
        print(beside(records=records, rounds=rounds, work=work))


@main.command(name="startup")
@work_option
@click.option("--rounds", type=click.IntRange(min=1), default=5, show_default=True)
def startup_command(*, work_directory: Path | None, rounds: int) -> None:
    """Commands that have next to nothing to do, against the import of Numba."""
    with _work(work_directory) as work:
        print(startup(rounds=rounds, work=work))


@main.command(name="spark")
@scale_option
@work_option
@click.option("--rounds", type=click.IntRange(min=1), default=5, show_default=True)
@out_option
def spark_command(*, scale: float, work_directory: Path | None, rounds: int, out: Path) -> None:
    """Sweeps by Spark on all cores, compared with as many threads of Kafka's Cleaner."""
    with _work(work_directory) as work:
        rows = sweeps(scale=scale, rounds=rounds, work=work, say=_progress)
    print(rows)
    _put_section(out, SWEEPS, f"{_SWEEPS.format(scale=scale, rounds=rounds)}\n\n{rows}")


def _numbers(_context: click.Context, _option: click.Parameter, value: str) -> tuple[float, ...]:
    return tuple(float(each) for each in value.split(",") if each)


@main.command(name="scale")
@work_option
@click.option("--partitions", type=click.IntRange(min=1), default=10_000, show_default=True)
@click.option("--sweep", type=click.IntRange(min=1), default=1_000, show_default=True)
@click.option("--keys", type=click.IntRange(min=1), default=50_000_000, show_default=True)
@click.option("--growth", callback=_numbers, default="1,4,16", show_default=True, help="GB")
@click.option("--segments", callback=_numbers, default="1000,10000,100000", show_default=True)
@click.option("--rounds", type=click.IntRange(min=1), default=5, show_default=True)
@out_option
def scale_command(
    *,
    work_directory: Path | None,
    partitions: int,
    sweep: int,
    keys: int,
    growth: tuple[float, ...],
    segments: tuple[float, ...],
    rounds: int,
    out: Path,
) -> None:
    """Many partitions, many keys, long logs, many segments."""
    with _work(work_directory) as work:
        rows = scale_rows(
            partitions=partitions,
            sweep=sweep,
            keys=keys,
            growth=growth,
            segments=tuple(int(each) for each in segments),
            rounds=rounds,
            work=work,
            say=_progress,
        )
    print(rows)
    _put_section(out, SCALE, f"{_SCALE.format(rounds=rounds)}\n\n{rows}")


def _table_cases(_context: click.Context, _option: click.Parameter, value: str) -> tuple[str, ...]:
    names = tuple(value.split(","))
    unknown = [name for name in names if name not in TABLE_CASES]
    if unknown:
        raise click.BadParameter(f"{', '.join(unknown)}; there are {', '.join(TABLE_CASES)}")
    return names


@main.command(name="tables")
@scale_option
@work_option
@click.option("--cases", callback=_table_cases, default=",".join(TABLE_CASES), show_default=True)
@click.option("--growth", callback=_numbers, default="1,4", show_default=True, help="GB")
@click.option("--keys", type=click.IntRange(min=0), default=50_000_000, show_default=True)
@click.option("--update", type=float, default=10.0, show_default=True, help="GB")
@click.option("--rounds", type=click.IntRange(min=1), default=3, show_default=True)
@out_option
def tables_command(
    *,
    scale: float,
    work_directory: Path | None,
    cases: tuple[str, ...],
    growth: tuple[float, ...],
    keys: int,
    update: float,
    rounds: int,
    out: Path,
) -> None:
    """Topics as rows and tables, next to consumers of a live broker."""
    with _work(work_directory) as work:
        sections = table_sections(
            scale=scale,
            cases=cases,
            growth=growth,
            keys=keys,
            update=update,
            rounds=rounds,
            work=work,
            say=_progress,
        )
    print(sections)
    _put_section(out, TABLES, f"{_TABLES.format(scale=scale, rounds=rounds)}\n\n{sections}")


@main.command(name="streams")
@scale_option
@work_option
@click.option("--cases", callback=_table_cases, default="u100,u1k,zstd-1k", show_default=True)
@click.option("--rounds", type=click.IntRange(min=1), default=3, show_default=True)
@out_option
def streams_command(
    *, scale: float, work_directory: Path | None, cases: tuple[str, ...], rounds: int, out: Path
) -> None:
    """Topics as streams: Spark's Kafka source, ours, and one that reads nothing."""
    with _work(work_directory) as work:
        sections = stream_sections(
            scale=scale, cases=cases, rounds=rounds, work=work, say=_progress
        )
    print(sections)
    _put_section(out, STREAMS, f"{_STREAMS.format(scale=scale, rounds=rounds)}\n\n{sections}")


@main.command(name="buckets")
@click.option("--scale", type=click.FloatRange(0, min_open=True), default=1.0, show_default=True)
@click.option("--cases", callback=_names, default=",".join(BUCKET_CASES), show_default=True)
@click.option("--growth", callback=_numbers, default="1,4,16", show_default=True, help="GB")
@click.option("--workers", callback=_numbers, default="1,2,4", show_default=True)
@click.option("--network", callback=_numbers, default="", help="Gbit/s, such as 1.25,2.5; as root")
@click.option("--rounds", type=click.IntRange(min=1), default=3, show_default=True)
@work_option
@out_option
def buckets_command(
    *,
    scale: float,
    cases: tuple[str, ...],
    growth: tuple[float, ...],
    workers: tuple[float, ...],
    network: tuple[float, ...],
    rounds: int,
    work_directory: Path | None,
    out: Path,
) -> None:
    """Logs in a bucket: reading, searching, cleaning, memory, and workers of a cluster."""
    with _work(work_directory) as work:
        sections = bucket_sections(
            scale=scale,
            cases=cases,
            growth=growth,
            workers=tuple(map(int, workers)),
            network=network,
            rounds=rounds,
            work=work,
            say=_progress,
        )
    print(sections)
    _put_section(out, BUCKETS, f"{_BUCKETS.format(scale=scale, rounds=rounds)}\n\n{sections}")


@main.command(name="bucket-costs")
@click.option("--scale", type=click.FloatRange(0, min_open=True), default=1.0, show_default=True)
@click.option("--writes", type=float, default=0.005, show_default=True, help="$ of 1,000 requests")
@click.option("--reads", type=float, default=0.0004, show_default=True, help="$ of 1,000 requests")
@click.option("--storage", type=float, default=0.023, show_default=True, help="$ of a GB a month")
@work_option
def bucket_costs_command(
    *, scale: float, writes: float, reads: float, storage: float, work_directory: Path | None
) -> None:
    """The requests of each operation on a log in a bucket, and what they cost of a petabyte."""
    prices = Prices(writes, reads, storage)
    with _work(work_directory) as work:
        print(bucket_costs(scale=scale, prices=prices, work=work, say=_progress))


@main.command(name="petabyte")
@click.option("--logs", type=click.IntRange(min=2), default=1_000, show_default=True)
@click.option("--segments", type=click.IntRange(min=101), default=10_000, show_default=True)
@work_option
def petabyte_command(*, logs: int, segments: int, work_directory: Path | None) -> None:
    """What is due of ten million segments in a bucket."""
    with _work(work_directory) as work:
        print(petabyte(logs=logs, segments=segments, work=work, say=_progress))


@main.command(name="floor")
@click.option("--rounds", type=click.IntRange(min=1), default=3, show_default=True)
def floor_command(*, rounds: int) -> None:
    """What Spark itself takes for as many rows as 1 GB of records has."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - it costs time

    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = SparkSession.builder.master("local[2]").config("spark.driver.memory", "2g")
    with session.config("spark.ui.enabled", "false").getOrCreate() as spark:
        print(floors(spark, [(100, 7_800_000), (1000, 980_000)], rounds=rounds))


@main.command(name="platform")
@work_option
@click.option("--logs", type=click.IntRange(min=1), default=1_000, show_default=True)
@click.option("--rounds", type=click.IntRange(min=1), default=3, show_default=True)
@click.option(
    "--instance",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    default=INSTANCE,
    help="The dagster.yaml of the instance; the shipped one, on SQLite, by default.",
)
def platform_command(
    *, work_directory: Path | None, logs: int, rounds: int, instance: Path
) -> None:
    """Dagster's job sweep, compared with clean --engine spark."""
    with _work(work_directory) as work:
        print(platform_rows(logs=logs, rounds=rounds, instance=instance, work=work, say=_progress))


@main.command(name="ticks")
@work_option
@click.option("--logs", type=click.IntRange(min=1), default=10_000, show_default=True)
@click.option("--rounds", type=click.IntRange(min=1), default=3, show_default=True)
def ticks_command(*, work_directory: Path | None, logs: int, rounds: int) -> None:
    """Sensors' ticks and the inventory of a large fleet."""
    with _work(work_directory) as work:
        print(tick_rows(logs=logs, rounds=rounds, work=work, say=_progress))


@main.command(name="forecast")
@click.option("--scale", type=click.FloatRange(0, min_open=True), default=0.2, show_default=True)
@work_option
@click.option("--cases", callback=_names, default=",".join(FORECAST_CASES), show_default=True)
def forecast_command(*, scale: float, work_directory: Path | None, cases: tuple[str, ...]) -> None:
    """What a forecast costs next to a cleaning of the same log, and its error."""
    with _work(work_directory) as work:
        print(forecasts(cases, scale=scale, work=work))


@main.command(name="erase")
@click.option("--scale", type=click.FloatRange(0, min_open=True), default=0.2, show_default=True)
@click.option("--keys", type=click.IntRange(min=1), default=ERASE_KEYS, show_default=True)
@work_option
@click.option("--cases", callback=_names, default=",".join(ERASE_CASES), show_default=True)
def erase_command(
    *, scale: float, keys: int, work_directory: Path | None, cases: tuple[str, ...]
) -> None:
    """What erasing some keys costs next to a cleaning of the same log."""
    with _work(work_directory) as work:
        print(erasures(cases, keys=keys, scale=scale, work=work))


@main.command(name="find")
@scale_option
@work_option
@click.option("--cases", callback=_names, default=",".join(FIND_CASES), show_default=True)
@click.option("--rounds", type=click.IntRange(min=1), default=3, show_default=True)
def find_command(
    *, scale: float, work_directory: Path | None, cases: tuple[str, ...], rounds: int
) -> None:
    """The search for 1, 1,000 and 1,000,000 keys, next to Kafka's dump piped to grep."""
    with _work(work_directory) as work:
        print(find_rows(cases, scale=scale, rounds=rounds, work=work, say=_progress))


@main.command(name="decoding")
@click.option("--rounds", type=click.IntRange(min=1), default=5, show_default=True)
def decoding_command(*, rounds: int) -> None:
    """How fast values become columns, and what schemas that evolved cost."""
    print(decoding_rows(rounds=rounds))


@main.command(name="schedule")
@click.option("--logs", type=click.IntRange(min=1), default=LOGS, show_default=True)
@click.option("--days", type=click.IntRange(min=1), default=DAYS, show_default=True)
def schedule_command(*, logs: int, days: int) -> None:
    """Missed deadlines of simulated logs under a budget, by three orders."""
    print(schedules(logs=logs, days=days))


def _put_section(out: Path, title: str, body: str) -> None:
    """Effects: changes the page, if there is one."""
    path = out / PAGE
    if path.exists():
        path.write_text(put_section(path.read_text(), title, body))


def _progress(line: str) -> None:
    click.echo(line, err=True)


@contextmanager
def _work(chosen: Path | None) -> Iterator[Path]:
    """The chosen directory, created if necessary, or a temporary one."""
    if chosen is not None:
        chosen.mkdir(parents=True, exist_ok=True)
        yield chosen.resolve()
        return
    with tempfile.TemporaryDirectory(prefix="logwright-bench-") as directory:
        yield Path(directory)


if __name__ == "__main__":
    main(prog_name="python -m benchmarks")
