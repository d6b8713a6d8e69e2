"""An S3 server on loopback, and a bucket in it."""

from __future__ import annotations

import logging
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

from moto.server import ThreadedMotoServer

NAME = "logs"
ACCESS = {"AWS_ACCESS_KEY_ID": "testkey", "AWS_SECRET_ACCESS_KEY": "testsecret"}
"""Of a server in this process: it looks at neither."""


def environment(port: int) -> dict[str, str]:
    """What a client's environment has to reach a server on loopback."""
    endpoint = f"http://127.0.0.1:{port}"
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1",
    } | ACCESS


@contextmanager
def served() -> Iterator[int]:
    """Run moto in this process, with one bucket; gives its port."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        port = server.get_host_and_port()[1]
        make_bucket(port)
        yield port
    finally:
        server.stop()


def make_bucket(port: int, name: str = NAME) -> None:
    """Make a bucket; the server does not ask who does."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}/{name}", method="PUT")
    with urllib.request.urlopen(request) as answer:  # noqa: S310 -- loopback
        assert 200 == answer.status
