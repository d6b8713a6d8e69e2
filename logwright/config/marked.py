"""YAML nodes with their position, for errors of the form ``file:line:column``.

Only plain mappings, lists and scalars of a bounded size are accepted. Scalars stay text; tags,
aliases and duplicate keys are refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from logwright.errors import PolicyError

MAX_FILE_BYTES: Final = 1_048_576
MAX_DEPTH: Final = 8

_TAG: Final = "tag:yaml.org,2002:"
_SCALAR_TAGS: Final = frozenset(
    f"{_TAG}{kind}" for kind in ("str", "int", "float", "bool", "timestamp", "merge", "value")
)


@dataclass(frozen=True, slots=True)
class Mark:
    """A position in a file; line and column start at 1."""

    path: Path
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Text:
    """A scalar as written; None if null or empty."""

    mark: Mark
    text: str | None


@dataclass(frozen=True, slots=True)
class Items:
    """A list."""

    mark: Mark
    items: tuple[Marked, ...]


@dataclass(frozen=True, slots=True)
class Entries:
    """A mapping: key → (position of the key, value)."""

    mark: Mark
    entries: dict[str, tuple[Mark, Marked]]

    def without(self, *keys: str) -> Entries:
        """Return the mapping without these keys."""
        return Entries(
            self.mark, {key: entry for key, entry in self.entries.items() if key not in keys}
        )

    def only(self, keys: frozenset[str]) -> Entries:
        """Return the mapping with only these keys."""
        return Entries(
            self.mark, {key: entry for key, entry in self.entries.items() if key in keys}
        )


Marked = Text | Items | Entries


def plain(node: Marked) -> object:
    """Return the value without positions: str, None, list or dict."""
    if isinstance(node, Text):
        return node.text
    if isinstance(node, Items):
        return [plain(item) for item in node.items]
    return {key: plain(value) for key, (_, value) in node.entries.items()}


def find(node: Marked, location: tuple[int | str, ...]) -> Marked:
    """Return the node at a pydantic location, or its deepest existing ancestor."""
    for step in location:
        if isinstance(node, Entries) and isinstance(step, str) and step in node.entries:
            node = node.entries[step][1]
        elif isinstance(node, Items) and isinstance(step, int) and step < len(node.items):
            node = node.items[step]
        else:
            break
    return node


def read_marked(path: Path) -> Entries:
    """Read a YAML file whose top level is a mapping. Effects: reads the file.

    Raises:
        PolicyError: unreadable, too large, invalid YAML, or YAML that is not accepted here.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise PolicyError(f"cannot be read: {error.strerror}.", path=path) from error
    if len(content) > MAX_FILE_BYTES:
        raise PolicyError(f"is larger than {MAX_FILE_BYTES} bytes.", path=path)
    try:
        root = yaml.compose(content.decode("utf-8"), Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        found = error.problem_mark
        mark = (
            Mark(path, found.line + 1, found.column + 1) if found is not None else Mark(path, 1, 1)
        )
        raise PolicyError(f"{mark}: {error.problem or error.context or 'invalid YAML'}") from error
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise PolicyError("is not valid YAML in UTF-8.", path=path) from error
    if root is None:
        return Entries(Mark(path, 1, 1), {})
    node = _Reader(path).read(root, depth=0)
    if not isinstance(node, Entries):
        raise PolicyError(f"{node.mark}: expected a mapping at the top level")
    return node


class _Reader:
    """Converts composed nodes into marked ones; remembers visited nodes to refuse aliases."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._met: set[int] = set()

    def read(self, node: yaml.Node, *, depth: int) -> Marked:
        mark = Mark(self._path, node.start_mark.line + 1, node.start_mark.column + 1)
        if id(node) in self._met:
            raise PolicyError(f"{mark}: aliases are not supported, repeat the value")
        self._met.add(id(node))
        if depth > MAX_DEPTH:
            raise PolicyError(f"{mark}: nested more than {MAX_DEPTH} deep")
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, mark)
        if isinstance(node, yaml.SequenceNode) and node.tag == f"{_TAG}seq":
            return Items(mark, tuple(self.read(item, depth=depth + 1) for item in node.value))
        if isinstance(node, yaml.MappingNode) and node.tag == f"{_TAG}map":
            return self._mapping(node, mark, depth)
        raise PolicyError(f"{mark}: the tag {node.tag!r} is not supported")

    @staticmethod
    def _scalar(node: yaml.ScalarNode, mark: Mark) -> Text:
        if node.tag == f"{_TAG}null":
            return Text(mark, None)
        if node.tag not in _SCALAR_TAGS:
            raise PolicyError(f"{mark}: the tag {node.tag!r} is not supported")
        return Text(mark, str(node.value))

    def _mapping(self, node: yaml.MappingNode, mark: Mark, depth: int) -> Entries:
        entries: dict[str, tuple[Mark, Marked]] = {}
        for key_node, value_node in node.value:
            key = self.read(key_node, depth=depth + 1)
            if not isinstance(key, Text) or key.text is None:
                raise PolicyError(f"{key.mark}: a key must be a scalar")
            if key.text in entries:
                raise PolicyError(
                    f"{key.mark}: duplicate key {key.text!r}, first at {entries[key.text][0]}"
                )
            entries[key.text] = (key.mark, self.read(value_node, depth=depth + 1))
        return Entries(mark, entries)
