"""A proxy on loopback that breaks requests on their way to a server of objects.

A request may be dropped, done without an answer, done later and not answered, done twice, refused
with 503, refused with 409 (a conditional PUT), or answered with half of the body. It is passed on
byte for byte, so that its signature holds; a server that looks at none can be asked in other words.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread
from typing import Any, Final, Protocol

LIFE_SECONDS: Final = 0.5
"""A late request is done within this time."""
_LIMIT_BYTES: Final = 1 << 24
_BROKEN: Final = (asyncio.IncompleteReadError, ConnectionError)


class _Reads(Protocol):
    async def readuntil(self, separator: bytes) -> bytes: ...
    async def readline(self) -> bytes: ...
    async def readexactly(self, count: int) -> bytes: ...


async def _body(reader: _Reads, head: bytes) -> bytes:
    low = head.lower()
    if b"transfer-encoding: chunked" in low:
        body = b""
        while True:
            line = await reader.readline()
            size = int(line.split(b";")[0], 16)
            body += line + await reader.readexactly(size + 2)
            if size == 0:
                return body
    lengths = [line for line in low.split(b"\r\n") if line.startswith(b"content-length:")]
    return await reader.readexactly(int(lengths[0].split(b":")[1])) if lengths else b""


async def _forward(port: int, head: bytes, body: bytes) -> tuple[bytes, bytes]:
    """Pass a request on; return head and body of its answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=_LIMIT_BYTES)
    try:
        writer.write(head + body)
        await writer.drain()
        answer = await reader.readuntil(b"\r\n\r\n")
        if head.startswith(b"HEAD") or b" 204 " in answer[:16] or b" 304 " in answer[:16]:
            return answer, b""
        return answer, await _body(reader, answer)
    finally:
        writer.close()


def as_it_is(head: bytes) -> bytes:
    """The head of a request, not translated."""
    return head


def _refusal(status: bytes, code: bytes) -> bytes:
    text = b"<Error><Code>" + code + b"</Code></Error>"
    head = b"HTTP/1.1 " + status + b"\r\nContent-Type: application/xml\r\nContent-Length: "
    return head + str(len(text)).encode() + b"\r\n\r\n" + text


class Proxy:
    """One proxy; `rate`: the part of requests that are broken; `translate`: of their heads."""

    def __init__(
        self, port: int, rate: float, seed: int, translate: Callable[[bytes], bytes]
    ) -> None:
        self.upstream = port
        self.rate = rate
        self.translate = translate
        self.port = 0
        self.requests = 0
        self.faults: Counter[tuple[str, str]] = Counter()
        self._random = random.Random(seed)
        self._later: set[asyncio.Future[None]] = set()

    async def serve(self, ready: Event, ended: asyncio.Event) -> None:
        """Serve until the event."""
        server = await asyncio.start_server(self._client, "127.0.0.1", 0, limit=_LIMIT_BYTES)
        self.port = server.sockets[0].getsockname()[1]
        ready.set()
        async with server:
            await ended.wait()

    def _fault(self, head: bytes) -> str | None:
        self.requests += 1
        if self._random.random() >= self.rate:
            return None
        verb = head.split(b" ", 1)[0].decode()
        kinds = ["drop", "lost", "503", "cut"]
        kinds += ["late", "twice"] if verb in {"PUT", "DELETE", "POST"} else []
        is_create = b"\r\nif-none-match: *" in head.lower()
        fault = self._random.choice(kinds + (["409"] * 2 if is_create else []))
        self.faults[fault, verb + (" create" if is_create else "")] += 1
        return fault

    async def _do_later(self, head: bytes, body: bytes) -> None:
        await asyncio.sleep(self._random.random() * LIFE_SECONDS)
        with suppress(*_BROKEN):
            await _forward(self.upstream, head, body)

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        """Run it; asyncio itself forgets a task that nobody holds."""
        task = asyncio.ensure_future(work)
        self._later.add(task)
        task.add_done_callback(self._later.discard)

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(*_BROKEN, asyncio.CancelledError):
            while True:
                head = self.translate(await reader.readuntil(b"\r\n\r\n"))
                if not await self._answer(head, await _body(reader, head), writer):
                    break
                await writer.drain()
        writer.close()

    async def _answer(self, head: bytes, body: bytes, writer: asyncio.StreamWriter) -> bool:
        """Answer a request; return whether the connection stays open."""
        fault = self._fault(head)
        if fault in {"503", "409"}:
            text = (b"503 Slow Down", b"SlowDown")
            if fault == "409":
                text = (b"409 Conflict", b"ConditionalRequestConflict")
            writer.write(_refusal(*text))
            return True
        if fault in {"late", "twice"}:
            self._keep(self._do_later(head, body))
        if fault in {"drop", "late"}:
            return False
        answer, content = await _forward(self.upstream, head, body)
        if fault == "lost":
            return False
        writer.write(answer + (content[: len(content) // 2] if fault == "cut" else content))
        await writer.drain()
        return fault != "cut" and b"connection: close" not in answer.lower()


@contextmanager
def proxied(
    port: int, *, rate: float, seed: int, translate: Callable[[bytes], bytes] = as_it_is
) -> Iterator[Proxy]:
    """Run a proxy in front of a port."""
    proxy = Proxy(port, rate, seed, translate)
    ready = Event()
    loop = asyncio.new_event_loop()
    ended = asyncio.Event()
    thread = Thread(target=loop.run_until_complete, args=(proxy.serve(ready, ended),), daemon=True)
    thread.start()
    assert ready.wait(10)
    try:
        yield proxy
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join()
        pending = asyncio.all_tasks(loop)
        for task in pending:
            task.cancel()
        if pending:
            loop.run_until_complete(asyncio.wait(pending))
        loop.close()
