"""MinIO, a real S3 server: for measurements, and for the runs that moto is too kind for.

Go builds it from its source, once, which takes some minutes.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import boto3

from tests.bucket.servers import NAME, environment
from tests.e2e.command import free_port
from tests.e2e.servers import process

MODULE: Final = "github.com/minio/minio@v0.0.0-20260212201848-7aac2a2c5b7c"
_REQUESTS: Final = re.compile(r"^minio_api_requests_total\{[^}]*\} (\S+)$", re.MULTILINE)


class NoServer(Exception):
    """There is no MinIO here, and no Go to build it with."""


def program() -> Path:
    """MinIO on the path, or in Go's directory of programs; else it is built there.

    Raises:
        NoServer: neither is there.
    """
    on_path, go = shutil.which("minio"), shutil.which("go")
    if on_path is not None:
        return Path(on_path)
    if go is None:
        message = "install MinIO, or Go, which builds it"
        raise NoServer(message)
    words = [go, "env", "GOBIN", "GOPATH"]
    own, root = subprocess.run(words, check=True, capture_output=True, text=True).stdout.split(
        "\n"
    )[:2]
    built = Path(own or f"{root}/bin") / "minio"
    if not built.exists():
        subprocess.run([go, "install", MODULE], check=True, capture_output=True)
    return built


@contextmanager
def minio(directory: Path, *, address: str = "127.0.0.1") -> Iterator[int]:
    """Run it on the loopback, with one bucket; gives its port. Effects: files below `directory`.

    Args:
        directory: must not exist.
        address: where it listens; "": at all addresses of this machine.
    """
    directory.mkdir(parents=True)
    port = free_port()
    client = environment(port)
    own = {
        "MINIO_ROOT_USER": client["AWS_ACCESS_KEY_ID"],
        "MINIO_ROOT_PASSWORD": client["AWS_SECRET_ACCESS_KEY"],
        "MINIO_PROMETHEUS_AUTH_TYPE": "public",
        "MINIO_BROWSER": "off",
    }
    words: list[str | Path] = [program(), "server", "--quiet", "--address", f"{address}:{port}"]
    with process([*words, directory / "data"], directory / "said", own, port):
        boto3.client(
            "s3",
            endpoint_url=client["AWS_ENDPOINT_URL"],
            region_name=client["AWS_REGION"],
            aws_access_key_id=own["MINIO_ROOT_USER"],
            aws_secret_access_key=own["MINIO_ROOT_PASSWORD"],
        ).create_bucket(Bucket=NAME)
        yield port


def requests(port: int) -> int:
    """How many requests the server has answered, by its own count."""
    url = f"http://127.0.0.1:{port}/minio/metrics/v3/api/requests"
    with urllib.request.urlopen(url) as answer:
        return round(sum(float(each) for each in _REQUESTS.findall(answer.read().decode())))


def use(port: int) -> None:
    """Give this process, and those that it starts, what a client needs. Effects: as said."""
    os.environ |= environment(port)
