"""A schema registry over HTTP: it serves schemas, and counts and can fail."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


class Registry:
    """What a registry serves.

    Attributes:
        answers: path → object, or bytes as they are.
        deleted: paths of what was deleted softly: served with ``?deleted=true`` only.
        failures: path → answers with status 503 before the first good one.
        asked: how often each path was asked for.
        url: where it listens.
    """

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        self.deleted: set[str] = set()
        self.failures: dict[str, int] = {}
        self.asked: Counter[str] = Counter()
        self.url = ""

    def add(self, schema_id: int, schema: str, kind: str = "AVRO", **more: Any) -> None:
        """Serve a schema."""
        answer = {"schema": schema, **more} | ({} if kind == "AVRO" else {"schemaType": kind})
        self.answers[f"/schemas/ids/{schema_id}"] = answer


@contextmanager
def serving() -> Iterator[Registry]:
    """A registry that listens. Effects: a thread and a port of the loopback interface."""
    registry = Registry()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path, _, query = self.path.partition("?")
            registry.asked[path] += 1
            status, answer = 200, registry.answers.get(path)
            if path in registry.deleted and query != "deleted=true":
                answer = None
            if registry.failures.get(path, 0) > 0:
                registry.failures[path] -= 1
                status, answer = 503, {}
            elif answer is None:
                status, answer = 404, {"error_code": 40403, "message": "Schema not found"}
            elif isinstance(answer, int):
                status, answer = answer, {"message": "no"}
            body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_response(status)
            if status == 302:
                self.send_header("Location", f"{registry.url}/elsewhere")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    registry.url = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
