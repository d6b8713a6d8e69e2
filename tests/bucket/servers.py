"""An S3 server on loopback, and a bucket in it."""

from __future__ import annotations

import logging
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock, Thread
from typing import Any, Final

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

NAME: Final = "logs"
_ACCESS: Final = {"AWS_ACCESS_KEY_ID": "testkey", "AWS_SECRET_ACCESS_KEY": "testsecret"}

CLIENT: Final = ("AWS_ENDPOINT_URL", "AWS_ALLOW_HTTP", "AWS_REGION", *_ACCESS)
"""What a client's environment has to reach a server."""

Application = Callable[[dict[str, Any], Any], Iterable[bytes]]


def environment(port: int) -> dict[str, str]:
    """What a client's environment has to reach a server on loopback, which looks at no keys."""
    endpoint = f"http://127.0.0.1:{port}"
    where = {"AWS_ENDPOINT_URL": endpoint, "AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1"}
    return where | _ACCESS


def in_turn(application: Application) -> Application:
    """Moto looks and then writes: without this a race can have two winners, if rarely."""
    turn = Lock()

    def answer(environ: dict[str, Any], start: Any) -> Iterable[bytes]:  # noqa: ANN401 -- of WSGI
        with turn:
            return list(application(environ, start))

    return answer


@contextmanager
def served(wrap: Callable[[Application], Application] = in_turn) -> Iterator[int]:
    """Run moto in this process, with one bucket; gives its port."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    application = wrap(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, application, threaded=True)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        make_bucket(server.port)
        yield server.port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def make_bucket(port: int, name: str = NAME) -> None:
    """Make a bucket; the server does not ask who does."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}/{name}", method="PUT")
    with urllib.request.urlopen(request) as answer:  # noqa: S310 -- loopback
        assert 200 == answer.status


def put_marker(port: int, url: str) -> None:
    """Write an empty object whose name ends in a slash, as other tools do for a directory."""
    path = url.removeprefix("s3://")
    request = urllib.request.Request(f"http://127.0.0.1:{port}/{path}", method="PUT")
    with urllib.request.urlopen(request) as answer:  # noqa: S310 -- loopback
        assert 200 == answer.status


@contextmanager
def in_a_process(module: str = "servers") -> Iterator[int]:
    """Run moto in a process of its own, with one bucket; gives its port. For clients that hold
    Python's lock while they wait for an answer, as `deltalake` does.

    Args:
        module: of this package, whose `serve` it runs.
    """
    words = [sys.executable, "-c", f"from tests.bucket.{module} import serve; serve()"]
    root = Path(__file__).parents[2]
    with subprocess.Popen(words, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        try:
            yield int(server.stdout.readline())
        finally:
            server.kill()


def serve() -> None:
    """Say the port of a server, and serve until the caller is gone."""
    with served() as port:
        sys.stdout.write(f"{port}\n")
        sys.stdout.flush()
        sys.stdin.read()
