"""YAML nodes with their position, for errors of the form ``file:line:column``.

Only plain mappings, lists and scalars of a bounded size are accepted. Scalars stay text; tags,
aliases, merge keys and duplicate keys are problems. All problems of a file are reported together,
except that nothing is known of a file after its first syntax error.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml
from yaml.composer import ComposerError

from logwright.config.names import CLOSE

MAX_FILE_BYTES: Final = 1_048_576
MAX_DEPTH: Final = 10

_TAG: Final = "tag:yaml.org,2002:"
_MERGE: Final = f"{_TAG}merge"
_SCALAR_TAGS: Final = frozenset(
    f"{_TAG}{kind}" for kind in ("str", "int", "float", "bool", "timestamp", "merge", "value")
)
_ALIAS: Final = "alias"
"""Tag of the node that stands for an alias; no tag of a file is like it."""

_LABELS: Final = ("name", "pattern", "topic")
"""Keys whose value names an item of a list in the paths of its settings."""

_LONGEST_LABEL: Final = 60
_LONGEST_SHOWN: Final = 100
_HIDDEN: Final = (".options", ".url", ".catalog")
"""Parts of the paths of settings that may have secrets."""

_QUOTE: Final = "while scanning a quoted scalar"
"""PyYAML's words for where an error is."""

_AT_END: Final = ("<stream end>", "end of stream")


@dataclass(frozen=True, slots=True, order=True)
class Mark:
    """A position in a file; line and column start at 1."""

    path: Path
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """What is wrong at one place of a file.

    Attributes:
        setting: path of the setting, such as ``topics[orders].segment.ms``; empty for the file.
        rule: the rule that is broken.
        got: the value, as text; None if the rule names it.
        key: an unknown key; the nearest of `valid` is named.
    """

    mark: Mark
    setting: str
    rule: str
    got: str | None = None
    key: str | None = None
    valid: frozenset[str] = frozenset()

    @property
    def nearest(self) -> str | None:
        """The valid key that is most like the unknown one, None if none is close."""
        return None if self.key is None else nearest(self.key[:_LONGEST_SHOWN], self.valid)

    def __str__(self) -> str:
        setting = f"{self.setting}: " if self.setting else ""
        got = "" if self.got is None else f" (got {self.got})"
        near = self.nearest
        hint = "" if near is None else f"; did you mean {near!r}?"
        return f"{self.mark}: {setting}{self.rule}{got}{hint}"


@dataclass(frozen=True, slots=True)
class Text:
    """A scalar as written; None if null or empty."""

    mark: Mark
    text: str | None
    setting: str = ""


@dataclass(frozen=True, slots=True)
class Items:
    """A list."""

    mark: Mark
    items: tuple[Marked, ...]
    setting: str = ""


@dataclass(frozen=True, slots=True)
class Entries:
    """A mapping: key → (position of the key, value).

    Attributes:
        whole: no entry was removed because it is not accepted.
    """

    mark: Mark
    entries: dict[str, tuple[Mark, Marked]]
    setting: str = ""
    whole: bool = True

    def without(self, *keys: str) -> Entries:
        """Return the mapping without these keys."""
        return self.only(frozenset(self.entries.keys() - set(keys)))

    def only(self, keys: frozenset[str]) -> Entries:
        """Return the mapping with only these keys."""
        kept = {key: entry for key, entry in self.entries.items() if key in keys}
        return Entries(self.mark, kept, self.setting, self.whole)

    def path_of(self, key: str) -> str:
        """Return the path of one of its settings."""
        return _path(self.setting, key)


Marked = Text | Items | Entries


@cache
def nearest(name: str, valid: frozenset[str]) -> str | None:
    """Return the valid name that is most like this one; None if none is close."""
    near = difflib.get_close_matches(name, sorted(valid), n=1, cutoff=CLOSE)
    return near[0] if near else None


def plain(node: Marked) -> object:
    """Return the value without positions: str, None, list or dict."""
    if isinstance(node, Text):
        return node.text
    if isinstance(node, Items):
        return [plain(item) for item in node.items]
    return {key: plain(value) for key, (_, value) in node.entries.items()}


def shown(node: Marked) -> str:
    """Return a value as text for an error, of a bounded length. Nothing is shown of a mapping, of
    options and of addresses: those of a landing directory or a registry may have secrets.
    """
    if any(part in node.setting for part in _HIDDEN):
        return "a value"
    if isinstance(node, Entries):
        return "a mapping"
    if isinstance(node, Items) and not all(isinstance(item, Text) for item in node.items):
        return "a list"
    value = plain(node)
    text = "nothing" if value is None else repr(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"


def find(node: Marked, location: Iterable[int | str]) -> Marked:
    """Return the node at a pydantic location, or its deepest existing ancestor."""
    for step in location:
        if isinstance(node, Entries) and isinstance(step, str) and step in node.entries:
            node = node.entries[step][1]
        elif isinstance(node, Items) and isinstance(step, int) and step < len(node.items):
            node = node.items[step]
        else:
            break
    return node


def read_marked(path: Path) -> tuple[Entries, list[Problem]]:
    """Read a YAML file whose top level is a mapping; return what is accepted of it, and the
    problems. Effects: reads the file.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        return _nothing(path, f"cannot be read: {error.strerror}")
    if len(content) > MAX_FILE_BYTES:
        return _nothing(path, f"is larger than {MAX_FILE_BYTES} bytes")
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        mark = _mark_at(path, content[: error.start].decode())
        return _nothing(path, f"is not UTF-8: byte 0x{content[error.start]:02x}", mark)
    return read_marked_text(text, path)


def read_marked_text(text: str, path: Path) -> tuple[Entries, list[Problem]]:
    """Read YAML whose top level is a mapping, as `read_marked`.

    Args:
        text: the content.
        path: the file that marks name.
    """
    try:
        loader = _Loader(text)
        try:
            root = loader.get_single_node()
        except yaml.MarkedYAMLError as error:
            return _nothing(path, *_syntax_problem(path, error, loader.opening))
    except yaml.reader.ReaderError as error:
        mark = _mark_at(path, text[: error.position])
        return _nothing(path, f"is not YAML: it has the character {chr(error.character)!r}", mark)
    if root is None:
        return _nothing(path, "is empty: 'version: 1' is required")
    reader = _Reader(path)
    node = reader.read(root, "")
    if node is None or isinstance(node, Entries):
        return node or Entries(Mark(path, 1, 1), {}, whole=False), reader.problems
    return _nothing(path, f"must be a mapping at the top level (got {shown(node)})", node.mark)


def _nothing(path: Path, rule: str, mark: Mark | None = None) -> tuple[Entries, list[Problem]]:
    where = mark or Mark(path, 1, 1)
    return Entries(where, {}, whole=False), [Problem(mark=where, setting="", rule=rule)]


def _mark_at(path: Path, before: str) -> Mark:
    """Return the position after this text."""
    line = before.rsplit("\n", 1)[-1].removeprefix("\ufeff")
    return Mark(path, before.count("\n") + 1, len(line) + 1)


def _syntax_problem(
    path: Path, error: yaml.MarkedYAMLError, opening: tuple[str, Any] | None
) -> tuple[str, Mark]:
    """Return the rule and the position: of what is not closed, its beginning.

    `opening`: the innermost bracket that is open, and its mark.
    """
    problem, context = error.problem or "", error.context or ""
    start: Any = error.context_mark
    place: Any = error.problem_mark or start
    if any(end in problem for end in _AT_END):
        if context == _QUOTE:
            return "the quote is not closed", _mark(path, start)
        if opening is not None:
            return f"{opening[0]!r} is not closed", _mark(path, opening[1])
    mark = Mark(path, 1, 1) if place is None else _mark(path, place)
    if problem.startswith("found character '\\t'"):
        return "a tab cannot indent: use spaces", mark
    if context == _TOO_DEEP:
        return context, mark
    if start is not None:
        context = f"{context} at {start.line + 1}:{start.column + 1}"
    parts = (context, problem) if isinstance(error, ComposerError) else (problem, context)
    known = ", ".join(part for part in parts if part)
    return f"is not valid YAML: {known}", mark


def _mark(path: Path, mark: yaml.Mark) -> Mark:
    return Mark(path, mark.line + 1, mark.column + 1)


_TOO_DEEP: Final = f"is nested more than {MAX_DEPTH} deep"


class _Loader(yaml.SafeLoader):
    """Stops at what is nested too deep; makes an alias a node of its own, so that it is never the
    value that it stands for.
    """

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._text = stream
        self._depth = -1

    @property
    def opening(self) -> tuple[str, Any] | None:
        """The innermost bracket that is open, and its mark."""
        if not self.flow_level or not self.marks:
            return None
        mark = self.marks[-1]
        return self._text[mark.index], mark

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]  # the stubs have no types
        if isinstance(event, yaml.AliasEvent):
            self.get_event()  # type: ignore[no-untyped-call]  # the same
            return yaml.ScalarNode(_ALIAS, event.anchor, event.start_mark, event.end_mark)  # type: ignore[arg-type]  # the marks of libyaml are not used
        if self._depth == MAX_DEPTH:
            raise yaml.MarkedYAMLError(context=_TOO_DEEP, problem_mark=event.start_mark)
        self._depth += 1
        try:
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1


class _Reader:
    """Converts composed nodes into marked ones and collects what is not accepted."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.problems: list[Problem] = []

    def read(self, node: yaml.Node, setting: str) -> Marked | None:
        """Return the marked node; None if it is not accepted."""
        mark = _mark(self._path, node.start_mark)
        if isinstance(node, yaml.SequenceNode) and node.tag == f"{_TAG}seq":
            read = [
                self.read(item, f"{setting}[{_label(item, number)}]")
                for number, item in enumerate(node.value)
            ]
            return Items(mark, tuple(item for item in read if item is not None), setting)
        if isinstance(node, yaml.MappingNode) and node.tag == f"{_TAG}map":
            return self._mapping(node, mark, setting)
        if isinstance(node, yaml.ScalarNode) and node.tag == f"{_TAG}null":
            return Text(mark, None, setting)
        if isinstance(node, yaml.ScalarNode) and node.tag in _SCALAR_TAGS:
            return Text(mark, str(node.value), setting)
        if node.tag == _ALIAS:
            rule = f"aliases are not supported: repeat the value of '&{node.value}'"
        else:
            rule = f"the tag {node.tag!r} is not supported"
        self._refuse(mark, setting, rule)
        return None

    def _refuse(self, mark: Mark, setting: str, rule: str) -> None:
        self.problems.append(Problem(mark=mark, setting=setting, rule=rule))

    def _mapping(self, node: yaml.MappingNode, mark: Mark, setting: str) -> Entries:
        entries: dict[str, tuple[Mark, Marked]] = {}
        whole = True
        for key_node, value_node in node.value:
            key = self.read(key_node, setting)
            if key is None:
                whole = False
                continue
            if not isinstance(key, Text) or key.text is None:
                self._refuse(key.mark, setting, f"a key must be text (got {shown(key)})")
                whole = False
                continue
            path = _path(setting, key.text)
            if key_node.tag == _MERGE:
                self._refuse(key.mark, path, "merge keys are not supported: repeat the settings")
                whole = False
            elif key.text in entries:
                self._refuse(key.mark, path, f"duplicate key, first at {entries[key.text][0]}")
            elif (value := self.read(value_node, path)) is not None:
                entries[key.text] = (key.mark, value)
            else:
                whole = False
        return Entries(mark, entries, setting, whole)


def _path(setting: str, key: str) -> str:
    text = key if key.isprintable() else repr(key)
    return f"{setting}.{text[:_LONGEST_SHOWN]}" if setting else text[:_LONGEST_SHOWN]


def _label(node: yaml.Node, number: int) -> str:
    """Return what an item of a list is called in paths: its name, else its number, from 0."""
    if isinstance(node, yaml.MappingNode):
        for label in _LABELS:
            for key, value in node.value:
                if (key.value, type(value)) == (label, yaml.ScalarNode):
                    text: str = value.value
                    if 0 < len(text) <= _LONGEST_LABEL and text.isprintable():
                        return text
    return str(number)
