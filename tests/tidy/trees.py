"""The repository's own files, as the tidy tests look at them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
LINKED = ("assets", "pipelines", "resources")
"""Top-level folders that are in the package by a symbolic link."""

PYTHON_FOLDERS = ("logwright", *LINKED, "tests", "benchmarks")
NOT_OURS = {
    ".git",
    ".hypothesis",
    ".venv",
    "__pycache__",
    "build",
    "dist",
    "logwright-demo",
    "target",
}
TEXT_SUFFIXES = frozenset(
    ("", ".java", ".json", ".md", ".py", ".toml", ".txt", ".xml", ".yaml", ".yml")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """One Python file.

    Attributes:
        path: relative to the repository's root.
        name: its one import name, `logwright.assets.…` for a linked folder.
    """

    path: Path
    name: str
    text: str
    tree: ast.Module


def files() -> Iterator[Path]:
    """Every file that belongs to the repository, links not followed."""
    pending = [ROOT]
    while pending:
        for path in sorted(pending.pop().iterdir()):
            if path.is_symlink() or path.name in NOT_OURS or path.name.endswith(".egg-info"):
                continue
            if path.is_dir() and not path.name.endswith("_cache"):
                pending.append(path)
            elif path.is_file():
                yield path


def text_files() -> Iterator[Path]:
    """Those that people read or write."""
    return (path for path in files() if path.suffix in TEXT_SUFFIXES)


@cache
def modules() -> tuple[Module, ...]:
    """Every Python file."""
    read = []
    for path in files():
        relative = path.relative_to(ROOT)
        if path.suffix == ".py":
            parts = relative.with_suffix("").parts
            if parts[0] in LINKED:
                parts = ("logwright", *parts)
            if parts[-1] == "__init__":
                parts = parts[:-1]
            text = path.read_text()
            read.append(
                Module(
                    path=relative, name=".".join(parts), text=text, tree=ast.parse(text, str(path))
                )
            )
    return tuple(read)


@cache
def nodes(module: Module) -> tuple[ast.AST, ...]:
    """All nodes of its tree."""
    return tuple(ast.walk(module.tree))


@cache
def imports(module: Module) -> tuple[tuple[int, str], ...]:
    """Every import of a module, wherever it stands: line and the imported module's name."""
    return tuple(_imports(module))


def _imports(module: Module) -> Iterator[tuple[int, str]]:
    for node in nodes(module):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.lineno, node.module
