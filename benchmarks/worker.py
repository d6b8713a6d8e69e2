"""One run of logwright in a child process: a cleaning to warm up and count bytes, then a timed one.

``python -m benchmarks.worker LOG COPY`` prints a JSON object.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

from benchmarks.cleaning import clean
from benchmarks.logs import fresh_copy, read
from benchmarks.stages import watched


def main(log_directory: str, copy_directory: str) -> None:
    """Effects: works on copies of the log in `copy_directory`; prints."""
    log, copy = read(Path(log_directory)), Path(copy_directory)
    fresh_copy(log, copy)
    with watched() as watch:
        clean(log, copy, during=watch.during)
    fresh_copy(log, copy)
    cleaned = clean(log, copy)
    shutil.rmtree(copy)
    # Of the second pass all that is copied is read; what is dropped is not, but Kafka's counts it.
    copied = cleaned.stats.bytes_read - cleaned.stats.bytes_kept
    build_read = watch.read_bytes("build") + copied
    result = {
        "wall": cleaned.wall_seconds,
        "cpu": cleaned.cpu_seconds,
        "build_wall": cleaned.build_wall_seconds,
        "build_cpu": cleaned.build_cpu_seconds,
        "read": build_read + watch.read_bytes("examine"),
        "build_read": build_read,
        "written": cleaned.stats.bytes_written,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main(*sys.argv[1:])
