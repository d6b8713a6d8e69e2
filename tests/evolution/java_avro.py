"""Avro's own library for Java as the arbiter: which type of a union a value has, too.

Its jars are those that come with Spark. Where it is used, each datum that is judged is read by it,
and compared with the resolution of these tests.
"""

from __future__ import annotations

import base64
import json
import math
import shutil
import subprocess
from importlib import resources
from pathlib import Path
from typing import Any, Final, Self

from tests.evolution.avro_resolution import single
from tests.evolution.avro_types import NAMED, full_name, type_of

_JARS: Final = (
    "avro-1",
    "jackson-core-2",
    "jackson-databind-2",
    "jackson-annotations-2",
    "slf4j-api",
)
_SOURCE: Final = Path(__file__).with_name("AvroReader.java")


class JavaAvro:
    """A process of Java that reads data. Effects: starts it, and ends it on exit."""

    def __enter__(self) -> Self:
        jars = Path(str(resources.files("pyspark"))) / "jars"
        path = [str(each) for name in _JARS for each in jars.glob(f"{name}*.jar")]
        self._process = subprocess.Popen(
            [shutil.which("java") or "java", "-Xmx256m", "-cp", ":".join(path), str(_SOURCE)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def read(self, writer: Any, reader: Any, content: bytes) -> Any:
        """The datum in Avro's JSON encoding, parsed; "refused" if Java raises."""
        parts = [json.dumps(writer).encode(), json.dumps(reader).encode(), content]
        line = " ".join(base64.b64encode(each).decode() for each in parts)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise EOFError("Java has ended")
        return "refused" if answer.startswith("!") else json.loads(answer)


def in_json(schema: Any, datum: Any) -> Any:  # noqa: PLR0911 - each type has its own
    """A datum in Avro's JSON encoding."""
    if isinstance(schema, list):
        branch = schema[datum.index]
        if branch == "null":
            return None
        name = full_name(branch) if type_of(branch) in NAMED else type_of(branch)
        return {name: in_json(branch, datum.value)}
    kind = type_of(schema)
    if kind == "record":
        return {
            each["name"]: in_json(each["type"], datum[each["name"]]) for each in schema["fields"]
        }
    if kind == "array":
        return [in_json(schema["items"], each) for each in datum]
    if kind == "map":
        return {name: in_json(schema["values"], each) for name, each in datum.items()}
    if kind in {"bytes", "fixed"}:
        return datum.decode("latin-1")
    return datum


def same(mine: Any, theirs: Any) -> bool:
    """Whether both are the same, floats by their text or value."""
    if isinstance(mine, dict) and isinstance(theirs, dict):
        return mine.keys() == theirs.keys() and all(same(mine[each], theirs[each]) for each in mine)
    if isinstance(mine, list) and isinstance(theirs, list):
        return len(mine) == len(theirs) and all(map(same, mine, theirs))
    if isinstance(mine, float):
        number = float(theirs)
        return number in {mine, single(mine)} or (math.isnan(mine) and math.isnan(number))
    return bool(mine == theirs and type(mine) is type(theirs))
