"""Compile ``.proto`` files: protoc writes descriptors, and messages are made of these. Nothing that
a file contains is run.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from importlib import resources
from pathlib import Path
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.message import DecodeError

from logwright.decode.json_fields import UnusableSchema

_SECONDS: Final = 60
_LARGEST: Final = 64 << 20
_LONGEST_ERROR: Final = 200


class Compiled:
    """The types of one file and of its imports.

    Attributes:
        pool: a pool of descriptors of its own.
        file: the descriptor of the file.
    """

    def __init__(self, pool: Any, file: Any) -> None:
        self.pool = pool
        self.file = file

    def message(self, name: str) -> Any:
        """Return the descriptor of a message.

        Raises:
            UnusableSchema: there is none of this name.
        """
        try:
            return self.pool.FindMessageTypeByName(name)
        except KeyError:
            raise UnusableSchema(f"has no message {name}") from None


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


def _load(content: bytes, name: str) -> Compiled:
    """Return the types of a set of descriptors, whose file has this name."""
    pool = descriptor_pool.DescriptorPool()
    try:
        files = descriptor_pb2.FileDescriptorSet.FromString(content)
        for file in files.file:
            pool.Add(file)
        return Compiled(pool, pool.FindFileByName(name))
    except (DecodeError, TypeError, KeyError):
        raise UnusableSchema("has descriptors that do not fit together") from None
