"""What ``compare`` found, as a page and a picture."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from benchmarks.compare import Compared, Figure
from benchmarks.runs import Run
from benchmarks.table import seconds, table
from tests.oracle_runner import java, oracle_target

PAGE: Final = "performance.md"
PICTURE: Final = "performance.svg"
SWEEPS: Final = "Sweeps by Spark"
SCALE: Final = "Scale"
TABLES: Final = "Reading a topic"
STREAMS: Final = "Streaming a topic"
BUCKETS: Final = "Logs in a bucket"
OTHER_SECTIONS: Final = (SWEEPS, SCALE, TABLES, STREAMS, BUCKETS)
"""Of the page; `spark`, `scale`, `tables`, `streams` and `buckets` write them."""
_SECTION: Final = re.compile(r"^## ", re.MULTILINE)
MEANING: Final = {
    "u100": "values of 100 bytes",
    "u1k": "values of 1000 bytes",
    "gzip": "as u100, gzip",
    "snappy": "as u100, snappy",
    "lz4": "as u100, lz4",
    "zstd": "as u100, zstd",
    "unique": "95 of 100 keys occur once",
    "roomy": "unique with a dedupe buffer of 160 MiB",
    "txn": "transactions, idempotent producers, tombstones",
    "again": "roomy once more after its cleaning: nothing to remove",
}

_TEXT: Final = """# Performance

`make bench ARGS=compare` writes this page: Kafka's own Cleaner and logwright on the same logs,
which Kafka wrote. Each run is a new process that has cleaned the log once before; the two take
turns. Each works on a fresh copy that is flushed to the disk, with one thread (a log that is alone
has all cores otherwise), and flushes what it writes. Both have a dedupe buffer of 128 MiB, Kafka's
default, unless noted. Figures are medians of {rounds} rounds, the smallest and
largest in brackets.

- **clean** is all of `logwright clean`: plan, build, the checks that read the output back, commit.
  Kafka's Cleaner has no such checks.
- **build** is the part of it that does what Kafka's Cleaner does, and checks every CRC besides.
- CPU is user and system time: of logwright the process, of Kafka only the cleaner thread, without
  the JVM's compiler and garbage collector.
- A ratio says how many times Kafka's figure is larger.

![CPU seconds for each GB of log]({picture})

## Time

{time}

## Memory and bytes

Resident is the largest resident set. Ours has the log mapped into memory, so that pages of the
system's cache count; anonymous is what the process has for itself. Bytes are of log, for each byte
of the input; every pass over them counts, those of the checks too.

{memory}

## Machine

{machine}

Logs are of scale {scale:g} (at scale 1 they hold 1 GB of records and 1 million keys), in batches of
16 KB and segments of 128 MiB. The JVM runs with a broker's own options.
"""


def put_section(text: str, title: str, body: str) -> str:
    """A page with a section, in place of the one of that title or before the last one."""
    start, *sections = _SECTION.split(text)
    kept = [one for one in sections if not one.startswith(f"{title}\n")]
    same = len(kept) < len(sections)
    at = next(n for n, one in enumerate(sections) if one.startswith(f"{title}\n")) if same else -1
    at = at if same else max(len(kept) - 1, 0)
    kept.insert(at, f"{title}\n\n{body.strip()}\n\n")
    return start + "".join(f"## {one}" for one in kept)


def page(results: Sequence[Compared], *, scale: float, before: str = "") -> str:
    """Markdown, with the sections that other commands put into the page as it was before. Effects:
    asks the system what machine this is.
    """
    text = _text(results, scale=scale)
    for section in _SECTION.split(before)[1:]:
        title, _, body = section.partition("\n")
        if title in OTHER_SECTIONS:
            text = put_section(text, title, body)
    return text


def _text(results: Sequence[Compared], *, scale: float) -> str:
    return _TEXT.format(
        rounds=len(results[0].kafka),
        picture=PICTURE,
        time=time_table(results),
        memory=memory_table(results),
        machine="\n".join(f"- {line}" for line in _machine()),
        scale=scale,
    )


def time_table(results: Sequence[Compared]) -> str:
    """CPU and wall seconds."""
    head = ("log", "MB in → kept", "CPU s: Kafka", "clean", "ratio", "build", "ratio")
    rows = []
    for each in results:
        kafka, ours = each.figures(lambda run: run.cpu_seconds)
        _, build = each.figures(lambda run: run.build_cpu_seconds)
        wall, our_wall = each.figures(lambda run: run.wall_seconds)
        _, build_wall = each.figures(lambda run: run.build_wall_seconds)
        rows.append(
            (
                f"{each.log.name}: {MEANING[each.log.name]}",
                f"{each.log.log_bytes / 1e6:.0f} → {each.kafka[0].written_bytes / 1e6:.0f}",
                *_times(kafka, ours, each.ratio(lambda run: run.cpu_seconds)),
                *_times(None, build, each.ratio(lambda run: run.build_cpu_seconds)),
                *_times(wall, our_wall, each.ratio(lambda run: run.wall_seconds)),
                *_times(None, build_wall, each.ratio(lambda run: run.build_wall_seconds)),
            )
        )
    return table((*head, "wall s: Kafka", "clean", "ratio", "build", "ratio"), rows)


def memory_table(results: Sequence[Compared]) -> str:
    """Peaks of memory, and bytes of log read and written for each byte of it."""
    head = ("log", "resident MB: Kafka", "ours", "ratio", "anonymous MB: Kafka", "ours", "ratio")
    more = ("read: Kafka", "build", "checks too", "written: Kafka", "ours")
    rows = []
    for each in results:
        size = each.log.log_bytes
        read = each.figures(lambda run: run.read_bytes)
        built, written = each.ours[0].build_read_bytes, each.figures(lambda run: run.written_bytes)
        shares = (read[0].median, built, read[1].median, written[0].median, written[1].median)
        rows.append(
            (
                each.log.name,
                *_sizes(each, lambda run: run.peak_bytes),
                *_sizes(each, lambda run: run.anonymous_bytes),
                *(f"{share / size:.2f}" for share in shares),
            )
        )
    return table((*head, *more), rows)


def _times(kafka: Figure | None, ours: Figure, ratio: float) -> list[str]:
    cells = [seconds(figure) for figure in (kafka, ours) if figure is not None]
    return [*cells, f"**{ratio:.1f}**"]


def _sizes(each: Compared, value: Callable[[Run], float]) -> list[str]:
    kafka, ours = each.figures(value)
    cells = [f"{figure.median / 1e6:.0f}" for figure in (kafka, ours)]
    return [*cells, f"{each.ratio(value):.1f}"]


def _machine() -> list[str]:
    """What the figures depend on. Effects: reads /proc, calls `java`."""
    cpu = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9
    version = subprocess.run(
        [java(), "-version"], capture_output=True, text=True, check=True
    ).stderr
    kafka = next(oracle_target().glob("lib/kafka-storage-[0-9]*.jar")).stem.removeprefix(
        "kafka-storage-"
    )
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    return [
        f"{cpu[1] if cpu else platform.machine()}, {os.cpu_count()} CPUs, {memory:.0f} GB",
        f"Linux {platform.release()}, Python {platform.python_version()}",
        f"{version.splitlines()[0]}, Kafka {kafka}",
        f"load when the last run ended (1, 5, 15 minutes): {load}",
    ]
