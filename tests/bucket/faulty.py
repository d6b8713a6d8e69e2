"""An S3 server in a process of its own, of which one request goes wrong.

A test says which by requests of its own, below ``/__fault``.
"""

from __future__ import annotations

import socket
import sys
import urllib.request
from collections.abc import Iterable, Iterator
from threading import Lock
from typing import Any, Final

from tests.bucket.servers import Application, in_turn, served

KINDS: Final = ("dropped", "lost", "cut", "409", "412", "503")
"""Closed before it is done, closed after it is done, or in the middle of the answer; or refused."""
_CODES: Final = {
    "409": ("409 Conflict", b"ConditionalRequestConflict"),
    "412": ("412 Precondition Failed", b"PreconditionFailed"),
    "503": ("503 Slow Down", b"SlowDown"),
}


def faulty(application: Application) -> Application:
    """Break one request, which `fault` names, and count all."""
    inner, turn = in_turn(application), Lock()
    state = {"kind": "", "at": 0, "count": 0}

    def answer(environ: dict[str, Any], start: Any) -> Iterable[bytes]:  # noqa: ANN401 -- of WSGI
        _, _, rest = environ["PATH_INFO"].partition("/__fault/")
        if rest:
            kind, at = rest.split("/")
            count = state["count"]
            state.update(kind=kind, at=int(at), count=0)
            start("200 OK", [("Content-Length", str(len(str(count))))])
            return [str(count).encode()]
        with turn:
            state["count"] = int(state["count"]) + 1
            kind = str(state["kind"]) if state["count"] == state["at"] else ""
        if kind in _CODES:
            status, code = _CODES[kind]
            content = b"<Error><Code>" + code + b"</Code></Error>"
            start(status, [("Content-Length", str(len(content)))])
            return [content]
        if kind == "cut":
            content = b"".join(inner(environ, start))
            return _half(content, environ["werkzeug.socket"])
        if kind == "lost":
            list(inner(environ, lambda *_: None))
        if kind:
            environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
            start("500 Gone", [])
            return []
        return inner(environ, start)

    return answer


def _half(content: bytes, connection: socket.socket) -> Iterator[bytes]:
    """Half of an answer, after which the connection is closed."""
    yield content[: len(content) // 2]
    connection.shutdown(socket.SHUT_RDWR)


def serve() -> None:
    """Say the port of a server, and serve until the caller is gone."""
    with served(faulty) as port:
        sys.stdout.write(f"{port}\n")
        sys.stdout.flush()
        sys.stdin.read()


def fault(port: int, kind: str = "none", at: int = 0) -> int:
    """Break this request from now on, from 1; return how many there were since the last call."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/__fault/{kind}/{at}") as answer:
        return int(answer.read())
