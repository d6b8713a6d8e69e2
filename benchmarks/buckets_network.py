"""Part of ``buckets``: the same passes through a network card of a given rate, between the server
and a client in a network of its own (Linux, as root, with ``ip`` and ``tc``).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from benchmarks.logs import BenchLog
from benchmarks.runs import ROOT
from benchmarks.table import table
from tests.bucket.minio import minio, use
from tests.bucket.servers import NAME

_HERE, _THERE, _OTHER_END = "10.233.7.1", "10.233.7.2", "lw-there"
_NAMESPACE, _LINK = "logwright-bench", "lw-here"


@contextmanager
def network() -> Iterator[None]:
    """A namespace with a link to this machine. Effects: makes it; removes it on leaving."""
    _run("ip", "netns", "add", _NAMESPACE)
    try:
        pair = ("type", "veth", "peer", "name", _OTHER_END, "netns", _NAMESPACE)
        _run("ip", "link", "add", _LINK, *pair)
        inside = ("ip", "-n", _NAMESPACE)
        _run("ip", "address", "add", f"{_HERE}/30", "dev", _LINK)
        _run("ip", "link", "set", _LINK, "up")
        _run(*inside, "address", "add", f"{_THERE}/30", "dev", _OTHER_END)
        _run(*inside, "link", "set", _OTHER_END, "up")
        yield
    finally:
        _run("ip", "netns", "del", _NAMESPACE)


def network_section(
    rates: Sequence[float],
    log: BenchLog,
    passes: Mapping[str, str],
    upload: Callable[..., None],
    *,
    rounds: int,
    work: Path,
    say: Callable[[str], None],
) -> str:
    """GB/s of each pass at each rate in Gbit/s, and as a share of the client alone, the first pass.
    Effects: uploads the log to a server below `work`.
    """
    rows = []
    directory = work / "minio-there"
    shutil.rmtree(directory, ignore_errors=True)
    with network(), minio(directory, address="") as port:
        use(port)
        there = {"AWS_ENDPOINT_URL": f"http://{_HERE}:{port}"}
        url = f"s3://{NAME}/{log.name}"
        upload("upload", log.directory, "--to", url)
        for rate in rates:
            _limit(rate)
            speeds = {what: _speed(what, url, log, rounds, there) for what in passes}
            for what, name in passes.items():
                share = speeds[what] / next(iter(speeds.values()))
                rows.append([f"{rate:g}", name, f"{speeds[what]:.3f}", f"{share:.2f}"])
                say(" | ".join(rows[-1]))
    shutil.rmtree(directory)
    return table(("network, Gbit/s", "what", "GB/s", "of the client's GB/s"), rows)


def _limit(rate: float) -> None:
    """Let the server send at this rate. Effects: as said."""
    words = ("rate", f"{rate * 1000:.0f}mbit", "burst", "2mb", "latency", "50ms")
    _run("tc", "qdisc", "replace", "dev", _LINK, "root", "tbf", *words)


def _speed(
    what: str, url: str, log: BenchLog, rounds: int, environment: Mapping[str, str]
) -> float:
    """GB/s of a pass by a process in the other network."""
    words = [sys.executable, "-m", "benchmarks.buckets_worker", what, url]
    words += [log.partition.topic, str(rounds)]
    done = subprocess.run(
        [shutil.which("ip") or "ip", "netns", "exec", _NAMESPACE, *words],
        cwd=ROOT,
        env=os.environ | environment,
        check=True,
        capture_output=True,
        text=True,
    )
    walls = [wall for wall, _ in json.loads(done.stdout.splitlines()[-1])["seconds"]]
    return log.log_bytes / 1e9 / median(walls)


def _run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)
