"""A schema registry with Confluent's REST interface, in memory, for the serializers of its clients.

Schemas are kept as Confluent's registry keeps them: a Protobuf that a client sends as descriptors
is kept as text, in which the entries of maps are messages (`tests.proto_text`). Nothing is checked
for compatibility.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from uuid import UUID

from google.protobuf import descriptor_pb2
from google.protobuf.message import DecodeError

from tests.proto_text import proto_text

Answer = dict[str, Any]
NOT_FOUND = (404, {"error_code": 40403, "message": "Schema not answer"})


class ConfluentRegistry:
    """What was registered.

    Attributes:
        url: where it listens.
        schemas: schema id - 1 → what a client registered, as the registry keeps it.
        subjects: subject → schema ids, by version.
        deleted: subjects that were deleted softly.
    """

    def __init__(self) -> None:
        self.url = ""
        self.schemas: list[Answer] = []
        self.subjects: dict[str, list[int]] = {}
        self.deleted: set[str] = set()

    def register(self, subject: str, schema: Answer, *, normal: bool = False) -> int:
        """Register a schema, normalized or as it is, and return its id."""
        kept = _kept(schema, normal=normal)
        if kept not in self.schemas:
            self.schemas.append(kept)
        schema_id = self.schemas.index(kept) + 1
        versions = self.subjects.setdefault(subject, [])
        if schema_id not in versions:
            versions.append(schema_id)
        return schema_id

    def answer(self, method: str, url: str, body: Answer) -> tuple[int, Answer]:
        """Answer a request: status and object."""
        split = urlsplit(url)
        query = {name: each[0] for name, each in parse_qs(split.query).items()}
        answer: Answer | None = None
        match [method, *(unquote(part) for part in split.path.strip("/").split("/"))]:
            case ["POST", "subjects", subject, "versions"]:
                schema_id = self.register(subject, body, normal=query["normalize"] == "True")
                answer = self._named(subject, schema_id)
            case ["POST", "subjects", subject]:
                kept = _kept(body, normal=query["normalize"] == "True")
                for schema_id in self.subjects.get(subject, []):
                    if self.schemas[schema_id - 1] == kept:
                        answer = self._named(subject, schema_id)
            case ["GET", "subjects", subject, "versions", version]:
                if subject not in self.deleted or query.get("deleted") == "true":
                    answer = self._version(subject, version)
            case ["GET", "schemas", kind, name]:
                for schema_id in range(1, len(self.schemas) + 1):
                    if name == (str(schema_id) if kind == "ids" else self.guid(schema_id)):
                        answer = self._whole(schema_id)
        return (200, answer) if answer is not None else NOT_FOUND

    def _version(self, subject: str, version: str) -> Answer | None:
        versions = self.subjects.get(subject, [])
        number = len(versions) if version == "latest" else int(version)
        answer = 0 < number <= len(versions)
        return self._named(subject, versions[number - 1]) if answer else None

    def guid(self, schema_id: int) -> str:
        """The GUID of a schema: of its content, as in Confluent's registry."""
        text = json.dumps(self.schemas[schema_id - 1], sort_keys=True)
        return str(UUID(bytes=hashlib.md5(text.encode(), usedforsecurity=False).digest()))

    def _whole(self, schema_id: int) -> Answer:
        return {"guid": self.guid(schema_id), **self.schemas[schema_id - 1]}

    def _named(self, subject: str, schema_id: int) -> Answer:
        version = self.subjects[subject].index(schema_id) + 1
        return {
            "subject": subject,
            "version": version,
            "id": schema_id,
            **self._whole(schema_id),
        }


def _kept(schema: Answer, *, normal: bool) -> Answer:
    """Return a schema as the registry keeps it."""
    names = ("schema", "schemaType", "references")
    kept = {name: schema[name] for name in names if schema.get(name)}
    if kept.get("schemaType") == "PROTOBUF":
        try:
            content = base64.b64decode(kept["schema"], validate=True)
            file = descriptor_pb2.FileDescriptorProto.FromString(content)
        except (ValueError, DecodeError):
            return kept
        kept["schema"] = proto_text(file, normal=normal)
    return kept


@contextmanager
def confluent_registry() -> Iterator[ConfluentRegistry]:
    """A registry that listens. Effects: a thread and a port of the loopback interface."""
    registry = ConfluentRegistry()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer("GET", {})

        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            self._answer("POST", json.loads(self.rfile.read(length)))

        def _answer(self, method: str, content: Answer) -> None:
            status, answer = registry.answer(method, self.path, content)
            body = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
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
