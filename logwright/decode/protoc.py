"""Compile ``.proto`` files: protoc writes descriptors, and messages are made of these. Nothing that
a file contains is run.

A registry gives the entries of a map field as messages of their own, with ``option map_entry``, if
the producer registered its generated class, as Confluent's clients do by default. protoc does not
accept the option in a text, so that it stands there as the reserved field number `_MARK`
(`marked`), which is made the option again in the descriptors.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from importlib import resources
from pathlib import Path
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.message import DecodeError

from logwright.decode.json_fields import UnusableSchema

_SECONDS: Final = 60
_LARGEST: Final = 64 << 20
_LONGEST_ERROR: Final = 200
_MARK: Final = 536_870_911
"""The highest number of a field, which nothing else reserves alone."""

_OPTION: Final = re.compile(
    rb"""("(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|//[^\n]*|/\*.*?\*/)"""
    rb"""|\boption\s+map_entry\s*=\s*true\s*;""",
    re.ASCII | re.DOTALL,
)
"""A string or comment, or the option that says that a message is the entry of a map."""


class NoMessage(UnusableSchema):
    """A file has no message of a name."""


class Compiled:
    """The types of one file and of its imports.

    Attributes:
        pool: a pool of descriptors of its own.
        file: the descriptor of the file.
        entries: full names of the entries of maps that are messages of the text, which indexes
            count; those that protoc makes of ``map<>`` are not.
    """

    def __init__(self, pool: Any, file: Any, entries: frozenset[str] = frozenset()) -> None:
        self.pool = pool
        self.file = file
        self.entries = entries

    @property
    def messages(self) -> list[Any]:
        """The messages of the file; of one that only hands on another file those of that: newer
        registries name the types of an import so.
        """
        file = self.file
        public = file.public_dependencies
        if not file.message_types_by_name and len(public) == 1:
            file = public[0]
        return list(file.message_types_by_name.values())

    def counted(self, messages: Iterable[Any]) -> list[Any]:
        """Return those of a file's or message's messages that Confluent's indexes count: the
        messages of the text. Source: ProtobufSchema.toMessageName of Confluent's schema registry.
        """
        return [
            message
            for message in messages
            if not message.GetOptions().map_entry or message.full_name in self.entries
        ]

    def message(self, name: str) -> Any:
        """Return the descriptor of a message.

        Raises:
            NoMessage: there is none of this name.
        """
        try:
            return self.pool.FindMessageTypeByName(name)
        except KeyError:
            raise NoMessage(f"has no message {name}") from None


def compile_file(file: Path, imports: Path | None = None) -> Compiled:
    """Compile a file, whose imports are in its directory, in `imports` or Google's own. Effects:
    starts protoc, which reads the files; writes to a temporary directory.

    Raises:
        UnusableSchema: it is not Protobuf, or takes too long.
    """
    with tempfile.TemporaryDirectory(prefix="logwright-protoc-") as directory:
        output = Path(directory) / "descriptors"
        common = Path(str(resources.files("grpc_tools") / "_proto"))
        command = [
            *(sys.executable, "-m", "grpc_tools.protoc"),
            *(f"-I{one}" for one in (file.parent, imports, common) if one is not None),
            "--include_imports",
            *(f"--descriptor_set_out={output}", str(file.absolute())),
        ]
        try:
            done = subprocess.run(
                command, capture_output=True, timeout=_SECONDS, check=False, cwd=directory
            )
        except subprocess.TimeoutExpired:
            raise UnusableSchema(f"takes protoc more than {_SECONDS} s") from None
        if done.returncode != 0:
            raise UnusableSchema(
                f"is not accepted by protoc{_error(done.stderr, file.absolute().parent)}"
            )
        if output.stat().st_size > _LARGEST:
            raise UnusableSchema("has descriptors of more than 64 MiB")
        return _load(output.read_bytes(), file.name)


def _error(messages: bytes, directory: Path) -> str:
    """Return protoc's first message about a file: of the schema, with line and column."""
    lines = messages.decode(errors="replace").replace(f"{directory}/", "").splitlines()
    text = next((line for line in lines if ".proto:" in line), "")
    shown = "".join(one if one.isprintable() else "?" for one in text)[:_LONGEST_ERROR]
    return f": {shown}" if shown else ""


def marked(text: bytes) -> bytes:
    """Return a text with a mark for each ``option map_entry = true;``, for `compile_file`. A text
    that uses the mark itself is returned as it is.
    """
    if str(_MARK).encode() in text:
        return text
    mark = f"reserved {_MARK};".encode()
    return _OPTION.sub(lambda match: match[1] or mark, text)


def _load(content: bytes, name: str) -> Compiled:
    """Return the types of a set of descriptors, whose file has this name."""
    pool = descriptor_pool.DescriptorPool()
    entries: set[str] = set()
    try:
        files = descriptor_pb2.FileDescriptorSet.FromString(content)
        for file in files.file:
            for full_name, message in _messages(file.package, file.message_type):
                if _unmark(message):
                    entries.add(full_name)
            pool.Add(file)
        return Compiled(pool, pool.FindFileByName(name), frozenset(entries))
    except (DecodeError, TypeError, KeyError):
        raise UnusableSchema("has descriptors that do not fit together") from None


def _messages(scope: str, messages: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    """Yield messages and those within them, with their full names."""
    pending = [(scope, message) for message in messages]
    while pending:
        (above, message) = pending.pop()
        full_name = f"{above}.{message.name}" if above else message.name
        yield full_name, message
        pending.extend((full_name, inner) for inner in message.nested_type)


def _unmark(message: Any) -> bool:
    """Make a message with the mark the entry of a map; return whether it has the mark."""
    ranges = message.reserved_range
    if [(found.start, found.end) for found in ranges] != [(_MARK, _MARK + 1)]:
        return False
    if [(field.name, field.number) for field in message.field] != [("key", 1), ("value", 2)]:
        raise UnusableSchema("has the entry of a map without a key or value")
    del ranges[:]
    message.options.map_entry = True
    return True
